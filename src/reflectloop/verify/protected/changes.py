"""Says of a change whether the sealed tree takes base's version, and whether the patch's own tests need the new one."""

from __future__ import annotations

from reflectloop.verify.protected.fixtures import beyond_fixtures
from reflectloop.verify.protected.parts import part
from reflectloop.verify.protected.paths import guard, on_path, shadowed
from reflectloop.verify.result import Change

_RUNS = ("100755", "120000")


def restored(change: Change) -> bool:
    """Whether the sealed tree takes this file as it was in base."""
    found = guard(change.path)
    if found is None:
        return False
    if found.kind == "shadow":
        return shades(change)
    return steering_differs(change) if found.mixed else True


def shades(change: Change) -> bool:
    """A module hides another only where it is new, a tool only where it can be started."""
    if shadowed(change.path):
        return change.before is None
    return on_path(change.path) or change.mode_after in _RUNS or change.mode_before in _RUNS


def steering_differs(change: Change) -> bool:
    """Whether the part of a mixed file that steers checks is another one; one that cannot be read is."""
    before, after = part(change.path, change.before), part(change.path, change.after)
    return before is None or after is None or before != after


def serves_tests(change: Change) -> bool:
    """Whether the new version is laid in when only the patch's own tests are run."""
    found = guard(change.path)
    if found is None or change.after is None or (change.before is None and shadowed(change.path)):
        return False
    if found.kind == "hook":
        name = change.path.rpartition("/")[2]
        return name == "conftest.py" and not beyond_fixtures(change.before, change.after)
    return found.kind in {"test", "fixture", "snapshot"} and change.mode_after != "120000"
