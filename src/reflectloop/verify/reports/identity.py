"""How tests are named: as their runner names them, as far as a report lets us."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TEST_MODULE = re.compile(r"^(?:tests?_.*|.*_tests?|tests?|conftest)$")


def pytest(classname: str, name: str, file: str = "") -> str:
    """`tests/test_a.py::TestX::test_y[param]`: pytest wrote the path with dots, we write it back."""
    if not classname:
        return _path(name.split(".")) if name and "[" not in name and " " not in name else name
    parts = classname.split(".")
    upto = _module_by_file(classname, file) or _module_by_name(parts)
    return "::".join([_path(parts[:upto]), *parts[upto:], name])


def _path(parts: list[str]) -> str:
    return "/".join(parts) + ".py"


def _module_by_file(classname: str, file: str) -> int:
    """How many parts the file takes, where the report names it. An inherited test lies in another file."""
    stem = re.sub(r"\.py$", "", file).replace("\\", "/").strip("./").replace("/", ".")
    return stem.count(".") + 1 if stem and (classname == stem or classname.startswith(stem + ".")) else 0


def _module_by_name(parts: list[str]) -> int:
    named = [number for number, part in enumerate(parts, 1) if _TEST_MODULE.match(part)]
    if named and not parts[named[-1] - 1][:1].isupper():
        return named[-1]
    upto = len(parts)
    while upto > 1 and parts[upto - 1][:1].isupper():
        upto -= 1
    return upto


def parents(names: Iterable[str]) -> set[str]:
    """Of go's `Test/sub/case` the `Test` and `Test/sub`, which fail when a part of them does."""
    return {name[: found.start()] for name in names for found in re.finditer("/", name)}


def plain(scope: str, name: str, file: str = "") -> str:
    """`file::scope::name`, without what would be said twice."""
    parts = [file] if file and file not in scope else []
    if scope and scope != name:
        parts.append(scope)
    return "::".join([*parts, name or "(without a name)"])
