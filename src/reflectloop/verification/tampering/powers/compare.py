"""Compare what each changed source can do with what its base version could."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from reflectloop.verification.protected import guard
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import JAVASCRIPT, added, ending
from reflectloop.verification.tampering.powers.equality import unequal_comparisons
from reflectloop.verification.tampering.powers.javascript import javascript_uses
from reflectloop.verification.tampering.powers.kinds import POWERS, PowerUse
from reflectloop.verification.tampering.powers.names import power_of
from reflectloop.verification.tampering.powers.project import SurroundingFiles, imported_names
from reflectloop.verification.tampering.powers.python_uses import PythonUses
from reflectloop.verification.tampering.powers.unread import content_of, unread
from reflectloop.verification.tampering.powers.words import questions

_BESIDE = frozenset(("docs", "doc", "examples", "example", "benchmarks", "benchmark", "bench"))
_ON_A_FIX = frozenset(
    ("environment", "arguments", "clock", "surroundings", "read", "write", "handlers", "chance", "later")
)
_LONGEST = 80  # characters of a line that a message shows
_ROOTS = frozenset(("src", "lib", "python", ""))


def look(changes: Sequence[ChangedFile], project: SurroundingFiles) -> Iterator[TamperFinding]:
    """Yield one finding for each power that a changed source newly has, and for each file that cannot be read."""
    moved = _removed_lines(changes)
    imported = imported_names(change.after or b"" for change in changes)
    for changed in changes:
        if changed.after is None or not _is_source(changed.path, changes):
            continue
        change = changed._replace(before=moved_from(changed, changes), after=content_of(changed, project))
        if finding := unread(changed, change, project):
            yield finding
        elif change.after is not None:
            yield from _new_powers(change, project, moved, imported)


def moved_from(change: ChangedFile, changes: Sequence[ChangedFile]) -> bytes | None:
    """Return the base version of a file, for a new one that of a removed file with the same name."""
    if change.before is not None:
        return change.before
    name = change.path.rpartition("/")[2]
    removed = [other for other in changes if other.after is None and other.path.rpartition("/")[2] == name]
    return removed[0].before if len(removed) == 1 else None


def _is_source(path: str, changes: Sequence[ChangedFile]) -> bool:
    """Return True for code that a change brings; tests and settings are judged by base's version."""
    protection = guard(path)
    if protection is not None and protection.kind not in ("shadow", "artefact"):
        return False
    folder = path.partition("/")[0].lower()
    if folder not in _BESIDE:
        return True
    imported = re.compile(rf"\b(?:from|import)\s+{re.escape(folder)}\b|[\"'./]{re.escape(folder)}[./]".encode())
    sources = [other for other in changes if ending(other.path) in CODE_ENDINGS and guard(other.path) is None]
    return any(
        imported.search(other.after or b"") for other in sources if not other.path.lower().startswith(f"{folder}/")
    )


def _removed_lines(changes: Sequence[ChangedFile]) -> frozenset[str]:
    """Return the lines that the patch takes out of some source; they bring nothing new elsewhere."""
    removed: set[str] = set()
    for change in changes:
        if change.before is not None and guard(change.path) is None and b"\0" not in change.before:
            old = Counter(_normal(line) for line in _lines(change.before))
            removed |= {*(old - Counter(_normal(line) for line in _lines(change.after)))}
    return frozenset(removed - {""})


def _lines(data: bytes | None) -> list[str]:
    return re.split(r"\r\n|\r|\n", (data or b"").decode(errors="replace"))  # as Python counts lines


def _normal(line: str) -> str:
    return re.sub(r"\s+", "", line).replace('"', "'")


def _new_powers(
    change: ChangedFile, project: SurroundingFiles, moved: frozenset[str], imported: frozenset[str]
) -> Iterator[TamperFinding]:
    before = Counter(use.power for use in uses(change.path, change.before, project))
    rows = _lines(change.after)
    places_of: dict[str, list[PowerUse]] = {}
    for use in uses(change.path, change.after, project):
        if not (0 < use.line <= len(rows) and _normal(rows[use.line - 1]) in moved):
            places_of.setdefault(use.power, []).append(use)
    # A power is there or not; of questions about tests and of equalities, each further one counts.
    new = {
        power: places
        for power, places in places_of.items()
        if not before[power] or (power.startswith(("knows-", "equality")) and len(places) > before[power])
    }
    added_lines = {line.number for line in added(change)} if new else set()
    for power, places in new.items():
        places.sort(key=lambda use: (use.line not in added_lines, use.line))
        if finding := _finding(change, POWERS[power].name, places[0], project, rows, imported):
            yield finding


def uses(path: str, data: bytes | None, project: SurroundingFiles) -> list[PowerUse]:
    """Return every use of a power in one version of a file."""
    if data is None:
        return []
    if is_python(path, data):
        tree = project.module(data)
        if tree is None:
            return []
        python = PythonUses(tree, project.packages | _package_of(path))
        return [*python.all(), *unequal_comparisons(python.names), *questions(python)]
    return list(javascript_uses(data)) if ending(path) in JAVASCRIPT else []


def is_python(path: str, data: bytes) -> bool:
    """Return True for a Python file, by its ending or by its first line."""
    if ending(path) in ("py", "pyw"):
        return True
    return "." not in path.rpartition("/")[2] and re.match(rb"#!.*\bpython", data[:80]) is not None


def _package_of(path: str) -> frozenset[str]:
    """Return the top-level package of a file; never the name of something that gives powers."""
    parts = [part for part in path.split("/")[:-1] if part not in _ROOTS]
    return frozenset(part for part in parts[:1] if not power_of(part))


def _finding(
    change: ChangedFile,
    power: str,
    use: PowerUse,
    project: SurroundingFiles,
    rows: Sequence[str],
    imported: frozenset[str],
) -> TamperFinding | None:
    known = POWERS[power]
    shown = rows[use.line - 1].strip()[:_LONGEST] if 0 < use.line <= len(rows) else ""
    if known.reach == "dangerous":
        since = "a new file" if change.before is None else "its base version could not"
    else:
        if not project.is_known or project.had(power, beside=project.is_beside(change.path, imported)):
            return None
        scripts_could = project.had(power, beside=True)
        since = "only scripts beside it could before" if scripts_could else "nothing in the project could before"
    asks = known.reach != "ordinary" or (project.is_fix and power in _ON_A_FIX)
    message = f"can now {known.phrase}: `{shown}` ({since})"
    return TamperFinding(use.rule, change.path, use.line, message, "suspect" if asks else "note")
