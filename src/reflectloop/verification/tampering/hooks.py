"""Check files that run automatically, replace something else, or belong to the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reflectloop.verification.protected import guard
from reflectloop.verification.protected.changes import shades
from reflectloop.verification.protected.fixtures import beyond_fixtures
from reflectloop.verification.protected.names import RUNNER_MODULES
from reflectloop.verification.protected.paths import shadowed
from reflectloop.verification.result import ChangedFile, TamperFinding

_RUN_AT_START = ("sitecustomize.py", "usercustomize.py")


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    known = {name for change in changes if change.before is not None and (name := _module(change.path))}
    for change in changes:
        if change.after is not None:
            yield from _started(change)
            # A package that is only moved hides nothing new.
            yield from _stands_in(change, moved=_module(change.path) in known)


def _started(change: ChangedFile) -> Iterator[TamperFinding]:
    name = change.path.rpartition("/")[2]
    if name in _RUN_AT_START or name.endswith(".pth"):
        yield TamperFinding(
            "runs-at-start", change.path, 1, f"{name} runs whenever Python starts, so also around every check"
        )
    elif name == "conftest.py":
        for line, what, grave in beyond_fixtures(change.before, change.after):
            yield TamperFinding(
                "conftest-beyond-fixtures", change.path, line, f"conftest.py {what}", "weakening" if grave else "note"
            )
    elif (protection := guard(change.path)) and protection.kind == "hook" and change.before is None:
        yield TamperFinding("hook-added", change.path, 1, f"{name} is new: {protection.why}", "suspect")


def _module(path: str) -> str | None:
    folder, _, name = path.rpartition("/")
    return folder.rpartition("/")[2] if name == "__init__.py" else None


def _stands_in(change: ChangedFile, *, moved: bool) -> Iterator[TamperFinding]:
    module = shadowed(change.path)
    protection = guard(change.path)
    if module and change.before is None and not moved:
        message = f"would be imported instead of {module}"
        yield TamperFinding(
            "module-shadowed", change.path, 1, message, "weakening" if module in RUNNER_MODULES else "suspect"
        )
    elif protection is None:
        return
    elif protection.kind == "shadow" and shades(change) and not module:
        yield TamperFinding("tool-shadowed", change.path, 1, protection.why)
    elif protection.kind == "artefact":
        lines = change.after is not None and b"\0" not in change.after
        yield TamperFinding("artefact", change.path, 1 if lines else None, protection.why)
    elif protection.kind == "own":
        message = f"changes {protection.why}"
        yield TamperFinding(
            "own-settings", change.path, 1, message, "suspect" if ".claude/" in change.path else "weakening"
        )
