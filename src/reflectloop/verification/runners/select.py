"""Build the arguments that make each tool run only some tests, named by file or by the id in its report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

_SPECIAL = re.compile(r"([\\.^$*+?()\[\]{}|])")
_FILE = re.compile(r"\.(py|[cm]?[jt]sx?|vue|svelte|go|rb|php|bats|rs|java|kt|cs)$")


class TestSelection(NamedTuple):
    """A test file, a test, or a test in a file."""

    file: str | None
    name: str | None


class Selector(NamedTuple):
    """A tool's way to select tests."""

    words: Callable[[Sequence[str]], tuple[str, ...] | None]
    replaces: bool = True  # the selection replaces what the command names


def wanted(test: str) -> TestSelection:
    file, joined, name = test.partition("::")
    if joined:
        return TestSelection(file, name)
    return TestSelection(test, None) if _FILE.search(test) else TestSelection(None, test)


def _unchanged(tests: Sequence[str]) -> tuple[str, ...]:
    return tuple(tests)


def _files_alone(tests: Sequence[str]) -> tuple[str, ...] | None:
    parts = [wanted(test) for test in tests]
    return _files(parts) if all(part.file for part in parts) else None


def _files(parts: Iterable[TestSelection]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.file for part in parts if part.file))


def any_of(names: Iterable[str], *, whole: bool = True) -> str:
    """Return a pattern that means the same in every dialect of regular expressions."""
    inner = "|".join(dict.fromkeys(_SPECIAL.sub(r"\\\1", name) for name in names))
    return f"^({inner})$" if whole else f"({inner})"


def _named(option: str, files: tuple[str, ...] = (), *, joined: bool = False) -> Selector:
    """Select files as arguments and names by one pattern; a file selected as a whole makes the pattern unnecessary."""

    def arguments(tests: Sequence[str]) -> tuple[str, ...]:
        parts = [wanted(test) for test in tests]
        names = [part.name.replace(" > ", " ").replace("::", " ") for part in parts if part.name]
        pattern: tuple[str, ...] = ()
        if names and all(part.name for part in parts):
            pattern = (f"{option}={any_of(names)}",) if joined else (option, any_of(names))
        chosen = _files(parts)
        return (*pattern, *(files if chosen else ()), *chosen)

    return Selector(arguments)


def _unittest(tests: Sequence[str]) -> tuple[str, ...]:
    """Select by pattern, since the names depend on the folder discovery starts in."""
    out: list[str] = []
    for test in tests:
        part = wanted(test)
        name = part.name or ""
        if part.file:
            stem = PurePosixPath(part.file).stem
            name = f"*{stem}.{name.replace('::', '.') or '*'}"
        out += ["-k", name]
    return tuple(out)


def _django(tests: Sequence[str]) -> tuple[str, ...]:
    return tuple(_dotted(test) for test in tests)


def _dotted(test: str) -> str:
    part = wanted(test)
    module = ".".join(PurePosixPath(part.file).with_suffix("").parts) if part.file else ""
    return ".".join(word for word in (module, (part.name or "").replace("::", ".")) if word)


def _go(tests: Sequence[str]) -> tuple[str, ...]:
    """Select subtests by their parent, which may set up what they need."""
    packages, names = [], []
    for test in tests:
        package, name = _go_parts(test)
        packages.append(package)
        names.append(name.split("/")[0])
    pattern = ("-run", any_of(names)) if all(names) else ()
    return (*pattern, *dict.fromkeys(packages))


def _go_parts(test: str) -> tuple[str, str]:
    if test.endswith(".go"):
        folder = PurePosixPath(test).parent
        return (f"./{folder}" if str(folder) != "." else "."), ""
    package, joined, name = test.partition("::")
    if not joined:
        package, joined, name = test.rpartition(".")
    return (package, name) if joined else ("./...", test)


def _cargo(tests: Sequence[str]) -> tuple[str, ...] | None:
    return None if any(test.endswith(".rs") for test in tests) else ("--", "--exact", *tests)


def _nextest(tests: Sequence[str]) -> tuple[str, ...] | None:
    if any(test.endswith(".rs") for test in tests):
        return None
    return ("-E", " | ".join(f"test(={test})" for test in tests))


def _ctest(tests: Sequence[str]) -> tuple[str, ...] | None:
    return ("-R", any_of(tests)) if all(wanted(test).name for test in tests) else None


def _maven(tests: Sequence[str]) -> tuple[str, ...]:
    return (f"-Dtest={','.join(_java(test, '#') for test in tests)}", "-Dsurefire.failIfNoSpecifiedTests=false")


def _gradle(tests: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for test in tests for word in ("--tests", _java(test, ".")))


def _java(test: str, joint: str) -> str:
    part = wanted(test)
    owner = part.file or ""
    if _FILE.search(owner):
        owner = PurePosixPath(owner).stem
    return joint.join(word for word in (owner, part.name) if word)


def _dotnet(tests: Sequence[str]) -> tuple[str, ...]:
    return ("--filter", "|".join(f"FullyQualifiedName={test}" for test in tests))


def _phpunit(tests: Sequence[str]) -> tuple[str, ...] | None:
    return _files_alone(tests) if all(_FILE.search(test) for test in tests) else ("--filter", f"/{any_of(tests)}/")


SELECTORS: dict[str, Selector] = {
    "pytest": Selector(_unchanged),
    "unittest": Selector(_unittest, replaces=False),
    "django": Selector(_django),
    "ruff": Selector(_files_alone),
    "flake8": Selector(_files_alone),
    "eslint": Selector(_files_alone),
    "jest": _named("--testNamePattern", ("--runTestsByPath",), joined=True),
    "vitest": _named("--testNamePattern", joined=True),
    "mocha": _named("--grep"),
    "node-test": _named("--test-name-pattern", joined=True),
    "go-test": Selector(_go),
    "cargo-test": Selector(_cargo),
    "nextest": Selector(_nextest),
    "ctest": Selector(_ctest, replaces=False),
    "maven": Selector(_maven, replaces=False),
    "gradle": Selector(_gradle, replaces=False),
    "dotnet-test": Selector(_dotnet, replaces=False),
    "rspec": Selector(_unchanged),
    "phpunit": Selector(_phpunit),
    "bats": _named("--filter"),
}
