"""Read the text of a patch: what it does to tests, settings and what judges, and what its sources can newly do."""

from __future__ import annotations

from reflectloop.terms import Track
from reflectloop.verification import protected, tampering
from reflectloop.verification.fresh_workspaces import WorkspaceFactory
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.sealed_trees import SealedTrees, VerificationInput
from reflectloop.verification.tampering.powers import newer_reader, surrounding_files
from reflectloop.verification.tree_builder import TreeBuilder

_CONTEXT = 8 << 20  # bytes of tests and settings of base that a patch is compared with


def look(ground: WorkspaceFactory, case: VerificationInput, laid: SealedTrees) -> list[TamperFinding]:
    """Return the findings about the text, and a note on every protected file that has no other finding."""
    newer = newer_reader(ground.project.root, ground.caller)
    is_fix = case.track is Track.FIX
    around = surrounding_files(ground.trees, case.base, case.head, is_fix=is_fix, read_newer=newer)
    findings = tampering.look(laid.changes, _judging_files(ground.trees, case.base), around)
    reported = {finding.path for finding in findings}
    known = {change.path: change for change in laid.changes}
    notes = [
        TamperFinding("protected", path, _first(known.get(path)), _who_judged(known.get(path)), "note")
        for path in laid.restored
        if path not in reported
    ]
    return findings + notes


def _judging_files(trees: TreeBuilder, base: str) -> dict[str, bytes]:
    room = _CONTEXT
    listing = trees.listing(base)
    guarded = [path for path in listing if protected.guard(path)]
    tests = [path for path in guarded if protected.is_test(path)]
    paths = [*(path for path in guarded if protected.configures(path)), *tests]  # settings are few and short
    contents = trees.contents([listing[path].blob for path in paths])
    out: dict[str, bytes] = {}
    for path in paths:
        room -= len(contents[listing[path].blob])
        if room > 0:
            out[path] = contents[listing[path].blob]
    return out


def _who_judged(change: ChangedFile | None) -> str:
    if change is not None and change.before is None:
        return "is protected: base has no such file, so it was left out while the change was judged"
    return "is protected: the version of base judged"


def _first(change: ChangedFile | None) -> int | None:
    """Return the first line that differs, or None for a file without lines."""
    if change is None or b"\0" in (change.after or b"\0"):
        return None
    old, new = ((data or b"").splitlines() for data in (change.before, change.after))
    return next(
        (at for at, (old_line, new_line) in enumerate(zip(old, new, strict=False), 1) if old_line != new_line),
        min(len(old), len(new)) + 1,
    )
