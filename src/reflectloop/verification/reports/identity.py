"""Name tests the way their runner writes them, as far as a report allows, and the issues of linters."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import Detail, VerificationResult

_TEST_MODULE = lazy(r"^(?:tests?_.*|.*_tests?|tests?|conftest)$")


def pytest(classname: str, name: str, file: str = "") -> str:
    """Return the pytest id, such as `tests/test_a.py::TestX::test_y[param]`, from the dotted name in a report."""
    if not classname:
        return _path(name.split(".")) if name and "[" not in name and " " not in name else name
    parts = classname.split(".")
    by_file = _module_by_file(classname, file)
    upto = by_file or _module_by_name(parts)
    path = _path(parts[:upto]) if not by_file or file.endswith(".py") else file.removeprefix("./")
    return "::".join([path, *parts[upto:], name])  # a page with examples is no module, and keeps its name


def _path(parts: list[str]) -> str:
    return "/".join(parts) + ".py"


def _module_by_file(classname: str, file: str) -> int:
    """Return the number of leading name parts that make up the reported file, or 0.

    An inherited test is defined in another file, so the file may not match.
    """
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
    """Return the parents of go's subtests: `Test` and `Test/sub` for `Test/sub/case`. They fail when a subtest does."""
    return {name[: slash.start()] for name in names for slash in re.finditer("/", name)}


def plain(scope: str, name: str, file: str = "") -> str:
    """Return `file::scope::name` without repeated parts."""
    parts = [file] if file and file not in scope else []
    if scope and scope != name:
        parts.append(scope)
    return "::".join([*parts, name or "(without a name)"])


_NUMBERS = lazy(r"\b(?:line |at )?\d+(?::\d+)?\b")
_COUNTS_WARNINGS = "--max-warnings"


def failing_issues(result: VerificationResult) -> list[Detail]:
    """Return the issues that fail a check: errors, and all of them where the tool failed because of warnings."""
    errors = [item for item in result.details if item.severity == "error"]
    warned = result.exit_code not in (0, None) and (
        not errors or any(_COUNTS_WARNINGS in word for word in result.command)
    )
    return list(result.details) if warned else errors


def issue_key(item: Detail) -> str:
    """Return what makes an issue the same one after a change: its file, rule and text, without lines and numbers."""
    return f"{item.file or '?'}: {item.rule or ''} {_NUMBERS.sub('N', item.error)}"


def issue_shown(item: Detail) -> str:
    """Return an issue for a person: the place, the rule once, and the message as the tool wrote it."""
    place = f"{item.file or '?'}{f':{item.line}' if item.line else ''}"
    rule = f"{item.rule} " if item.rule and item.rule not in item.error else ""
    return f"{place}: {rule}{item.error}"
