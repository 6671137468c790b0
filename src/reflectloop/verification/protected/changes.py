"""Decide whether the sealed tree takes a file from base, and whether the patch's tests need the new version."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected.fixtures import beyond_fixtures
from reflectloop.verification.protected.parts import part
from reflectloop.verification.protected.paths import guard, on_path, shadowed
from reflectloop.verification.result import ChangedFile

_RUNS = ("100755", "120000")
_LISTS_TESTS = ("cmakelists.txt", "makefile.am", "meson.build")  # without its line there, a new test is not built
_COMPILED = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp")
_WORD = lazy(r"[\w-]+")


def restored(change: ChangedFile) -> bool:
    """Return True if the sealed tree takes this file from base."""
    protection = guard(change.path)
    if protection is None:
        return False
    if protection.kind == "shadow":
        return shades(change)
    return steering_differs(change) if protection.mixed else True


def shades(change: ChangedFile) -> bool:
    """Return True if the file hides a module or a tool: a module must be new, a tool executable or on PATH."""
    if shadowed(change.path):
        return change.before is None
    return on_path(change.path) or change.mode_after in _RUNS or change.mode_before in _RUNS


def steering_differs(change: ChangedFile) -> bool:
    """Return True if the part of a mixed file that controls checks changed or cannot be read."""
    before, after = part(change.path, change.before), part(change.path, change.after)
    return before is None or after is None or before != after


def built_by_lists(kept: Iterable[ChangedFile], changes: Iterable[ChangedFile]) -> frozenset[str]:
    """Return new files of tests that a kept list of what to build names: without them, nothing could be built."""
    lists = [change.after or b"" for change in kept if change.path.lower().endswith(_LISTS_TESTS)]
    words = {word for content in lists for word in _WORD.findall(content.decode("utf-8", "replace"))}
    added = [change.path for change in changes if change.before is None and change.path.endswith(_COMPILED)]
    return frozenset(path for path in added if PurePosixPath(path).stem in words)


def serves_tests(change: ChangedFile) -> bool:
    """Return True if the new version, or its absence, is used when only the patch's tests run."""
    protection = guard(change.path)
    if protection is None or (change.before is None and shadowed(change.path)):
        return False
    if protection.kind == "hook":
        name = change.path.rpartition("/")[2]
        return name == "conftest.py" and not beyond_fixtures(change.before, change.after)
    if change.path.lower().endswith(_LISTS_TESTS):
        return change.mode_after != "120000"
    return protection.kind in {"test", "fixture", "snapshot"} and change.mode_after != "120000"
