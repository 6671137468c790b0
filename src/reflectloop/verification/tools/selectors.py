"""Build the arguments that make a tool run only some tests, named by file or by the id in its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.tools.record import Selector

_SPECIAL = lazy(r"([\\.^$*+?()\[\]{}|])")
_FILE = lazy(r"\.(py|[cm]?[jt]sx?|vue|svelte|go|rb|php|rs|java|kt|cs)$")


class TestSelection(NamedTuple):
    """A test file, a test, or a test in a file."""

    file: str | None
    name: str | None


def wanted(test: str, endings: tuple[str, ...] = ()) -> TestSelection:
    """Return what an id names; `endings` are those of files that only this tool has."""
    file, joined, name = test.partition("::")
    if joined:
        return TestSelection(file, name)
    return (
        TestSelection(test, None)
        if is_file(test) or (endings and test.endswith(endings))
        else TestSelection(None, test)
    )


def is_file(test: str) -> bool:
    return _FILE.search(test) is not None


def unchanged(tests: Sequence[str]) -> tuple[str, ...]:
    return tuple(tests)


def files_alone(tests: Sequence[str]) -> tuple[str, ...] | None:
    """Return the files, or None if a test is named without its file."""
    parts = [wanted(test) for test in tests]
    return files(parts) if all(part.file for part in parts) else None


def files(parts: Iterable[TestSelection]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.file for part in parts if part.file))


def any_of(names: Iterable[str]) -> str:
    """Return a pattern of these names that means the same in every dialect of regular expressions."""
    inner = "|".join(dict.fromkeys(_SPECIAL.sub(r"\\\1", name) for name in names))
    return f"^({inner})$"


def by_pattern(
    option: str, before_files: tuple[str, ...] = (), *, joined: bool = False, endings: tuple[str, ...] = ()
) -> Selector:
    """Select files as arguments and names by one pattern; a file selected as a whole makes the pattern unnecessary."""

    def arguments(tests: Sequence[str]) -> tuple[str, ...]:
        parts = [wanted(test, endings) for test in tests]
        names = [part.name.replace(" > ", " ").replace("::", " ") for part in parts if part.name]
        pattern: tuple[str, ...] = ()
        if names and all(part.name for part in parts):
            pattern = (f"{option}={any_of(names)}",) if joined else (option, any_of(names))
        chosen = files(parts)
        return (*pattern, *(before_files if chosen else ()), *chosen)

    return Selector(arguments)
