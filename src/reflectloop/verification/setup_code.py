"""Judge changes of what is installed: files that name packages, code that a set-up runs, and what it leaves behind."""

from __future__ import annotations

import ast
import configparser
import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from reflectloop.system import beneath, tree_walk
from reflectloop.system.patterns import lazy
from reflectloop.terms import Decision
from reflectloop.verification import protected
from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tools.record import words
from reflectloop.verification.verdict import VerdictReason, shown

RULE, START_RULE = "set-up-changed", "starts-with-the-interpreter"
_WHOLE_FILES = frozenset(("hatch_build.py", "build.rs", "binding.gyp", "pdm_build.py", "_build_backend.py"))
# Plain data in setup.py, which runs nothing.
_DATA_KEYWORDS = frozenset(
    words(
        "name version description long_description long_description_content_type author author_email maintainer "
        "maintainer_email url download_url project_urls license license_files classifiers keywords platforms packages "
        "package_dir python_requires install_requires extras_require tests_require zip_safe include_package_data "
        "package_data"
    )
)
_VERSION = lazy(r"(?i)_*version_*")
_CODE_SECTIONS = lazy(
    r"options\.(?:data_files|entry_points)|global|aliases|build.*|develop|install.*|files|entry_points"
)
_CODE_OPTIONS = frozenset(("setup_requires", "scripts", "cmdclass", "data_files"))
_PYPROJECT_PARTS = (
    ("build-system",),
    ("project", "entry-points", "pytest11"),
    ("tool", "poetry", "build"),
    ("tool", "poetry", "plugins", "pytest11"),
    ("tool", "pdm", "build"),
    ("tool", "setuptools", "cmdclass"),
    ("tool", "setuptools", "ext-modules"),
    ("tool", "setuptools", "data-files"),
    ("tool", "setuptools", "script-files"),
    ("tool", "hatch", "build", "hooks"),
    ("tool", "hatch", "build", "targets", "wheel"),
    ("tool", "scikit-build"),
    ("tool", "maturin"),
)
_START_FILE = lazy(r"(?:site|user)customize(?:\..*)?|.*\.pth")
_NUMBERS = lazy(r"\d+")  # a version in the name of an editable install
_SITES = ("lib/python*/site-packages/*", "lib/python*/site-packages/*customize/*")
_MOST_FILES = 10_000
_LARGEST = 1 << 20
# A requirement of pip by its name: extras, version, hashes and markers follow.
_PINNED = lazy(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?P<extras>\[[^\]]*\])?\s*(?:[=<>!~][^;@#]*)?(?P<marker>;[^#]*)?(?:#.*)?"
)
_CONTINUED = lazy(r"\\\n")
_HASH = lazy(r"\s*--hash[= ]\S+")

# Lists of packages for documentation, linters and releases, which tests do not import.
_FOR_OTHER_WORK = lazy(
    r"(?i)(?:^|[/_.-])(?:docs?|lint|typing|mypy|style|release|pre-commit|flake8|black)[_.-](?![^/]*(?:test|dev))[^/]*(?:txt|in)$"
)


def changed_setup_code(changes: Iterable[ChangedFile]) -> list[str]:
    """Return the manifests of which a part changed that the set-up runs as code."""
    return [change.path for change in changes if _differs(change)]


def _differs(change: ChangedFile) -> bool:
    name = PurePosixPath(change.path).name
    if name in _WHOLE_FILES:
        return True
    read = {"setup.py": _of_setup_py, "setup.cfg": _of_setup_cfg, "pyproject.toml": _of_pyproject}.get(name)
    if read is None:
        return False
    try:
        return read(change.before) != read(change.after)
    except (ValueError, RecursionError, configparser.Error, AttributeError):
        return True  # it cannot be read


def _of_setup_py(data: bytes | None) -> str:
    """Return the code of a setup.py without the plain values that only describe the package."""
    module = parsed(data)
    if module is None:
        raise ValueError("no Python")
    tree = ast.parse(ast.unparse(module))  # a copy, since the parsed module is shared
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "setup":
            node.keywords = [keyword for keyword in node.keywords if not _is_data(keyword)]
    tree.body = [statement for statement in tree.body if not _is_version(statement)]
    return ast.unparse(tree)


def _is_data(keyword: ast.keyword) -> bool:
    if keyword.arg not in _DATA_KEYWORDS:
        return False
    try:
        ast.literal_eval(keyword.value)
    except ValueError:
        return False
    return True


def _is_version(statement: ast.stmt) -> bool:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    is_named = isinstance(target, ast.Name) and _VERSION.fullmatch(target.id) is not None
    return is_named and isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)


def _of_setup_cfg(data: bytes | None) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.read_string((data or b"").decode("utf-8-sig"))
    parts = {name: dict(parser[name]) for name in parser.sections() if _CODE_SECTIONS.fullmatch(name)}
    options = dict(parser["options"]) if parser.has_section("options") else {}
    parts["options"] = {key: value for key, value in options.items() if key in _CODE_OPTIONS}
    return {name: rest for name, part in parts.items() if (rest := _without_commands(part))}


def _without_commands(part: Mapping[str, str]) -> dict[str, str]:
    """Return a section without the package's own commands, which nothing runs during checks."""
    return {key: value for key, value in part.items() if key not in ("console_scripts", "gui_scripts")}


def _of_pyproject(data: bytes | None) -> list[Any]:
    document: Any = tomllib.loads((data or b"").decode("utf-8-sig"))
    return [_at(document, keys) for keys in _PYPROJECT_PARTS]


def _at(document: Any, keys: Sequence[str]) -> Any:  # noqa: ANN401 - any TOML value
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


# What a set-up left ------------------------------------------------------------------------------------------------


def start_files(made: Mapping[Path, Path]) -> set[tuple[str, str]]:
    """Return the files in installed environments that start with the interpreter: a name and a hash of each.

    Numbers count as equal: an editable install has the version in its name.
    """
    return {
        pair for source in made.values() if source.is_dir() and not source.is_symlink() for pair in _starting(source)
    }


def _starting(environment: Path) -> Iterator[tuple[str, str]]:
    try:
        with tree_walk.open_folder(environment) as top:
            for path in (path for pattern in _SITES for path in beneath.find_files(top, pattern, _MOST_FILES)):
                name = path.partition("/site-packages/")[2]
                if _START_FILE.fullmatch(name.partition("/")[0]):
                    content = _NUMBERS.sub("N", beneath.read(top, path, _LARGEST).decode("utf-8", "replace"))
                    yield _NUMBERS.sub("N", name), hashlib.sha256(content.encode()).hexdigest()
    except OSError as fault:
        yield f"a file that cannot be read ({fault.strerror})", ""


def of_setup(
    changes: Sequence[ChangedFile], base: Mapping[Path, Path], patch: Mapping[Path, Path]
) -> list[VerdictReason]:
    """Return what a person must decide about a set-up that the change has an installation of its own from."""
    if {*map(os.fspath, base.values())} == {*map(os.fspath, patch.values())}:
        return []
    out = []
    if code := changed_setup_code(changes):
        text = f"{shown(code)} changed, which the set-up runs as code before the checks"
        out.append(VerdictReason(Decision.ASK, text, RULE))
    if new := sorted({name for name, _ in start_files(patch) - start_files(base)}):
        text = f"the set-up of the change installs {shown(new)}, which starts with the interpreter, and base's does not"
        out.append(VerdictReason(Decision.ASK, text, START_RULE))
    return out


def without_setup(changes: Iterable[ChangedFile]) -> tuple[list[VerdictReason], str]:
    """Return what a person must decide, and a note, where no set-up installs what these files name."""
    changed = {change.path: change for change in changes if protected.dependencies(change.path)}
    beside = [path for path, change in changed.items() if _FOR_OTHER_WORK.search(path) or _moves_versions_only(change)]
    asked = [path for path in changed if path not in beside]
    note = f"{shown(beside)} changed; the checks ran with the packages installed before" if beside else ""
    text = (
        f"{shown(asked)} changed, but no set-up of dependencies is configured: "
        "the checks ran with the packages installed before ([verify] setup)"
    )
    return ([VerdictReason(Decision.ASK, text, "dependencies-changed")] if asked else []), note


def _moves_versions_only(change: ChangedFile) -> bool:
    """Return True if a requirements file names the same packages as before, in other versions."""
    if not change.path.endswith((".txt", ".in")) or change.before is None or change.after is None:
        return False
    return _named_packages(change.before) == _named_packages(change.after)


def _named_packages(data: bytes) -> set[str]:
    """Return the packages by name; every other line, such as an address or an index, stands for itself."""
    text = _CONTINUED.sub(" ", data.decode("utf-8", "replace"))
    packages = set()
    for written in text.splitlines():
        line = _HASH.sub("", written).strip()
        if not line or line.startswith("#"):
            continue
        named = _PINNED.fullmatch(line)
        if named:
            name = re.sub(r"[-_.]+", "-", named["name"]).lower()
            packages.add(f"{name}{named['extras'] or ''}")
        else:
            packages.add(line)
    return packages
