"""Check changes to data that tests read or compare with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from reflectloop.verification.protected import guard
from reflectloop.verification.protected.names import CODE_ENDINGS
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import ending

_PROSE_ENDINGS = frozenset({"md", "rst", "gitignore", "gitkeep", "typed"})


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    new_contents = {change.after for change in changes if change.before is None}
    for change in changes:
        protection = guard(change.path)
        if change.before is None or protection is None or protection.kind not in {"fixture", "snapshot"}:
            continue
        is_prose = protection.kind != "snapshot" and ending(change.path) in _PROSE_ENDINGS
        if ending(change.path) not in CODE_ENDINGS and not is_prose and not _same_document(change):
            yield _data(change, protection.kind, moved=change.before in new_contents)


def _same_document(change: ChangedFile) -> bool:
    """Return True if only the layout of a JSON file changed; the order of keys counts."""
    if ending(change.path) != "json" or change.before is None or change.after is None:
        return False
    try:
        return json.dumps(json.loads(change.before)) == json.dumps(json.loads(change.after))
    except (ValueError, RecursionError):
        return False


def _data(change: ChangedFile, kind: str, *, moved: bool) -> TamperFinding:
    rule = "snapshot-rewritten" if kind == "snapshot" else "data-rewritten"
    if change.after is None:
        message = "moved" if moved else "data that tests read or compare with was removed"
        return TamperFinding(rule, change.path, None, message, "note" if moved else "weakening")
    before, after = _lines(change.before), _lines(change.after)
    lost = [line for line in before if line not in set(after)]
    if not lost and len(after) >= len(before):
        return TamperFinding("data-extended", change.path, None, "only entries were added", "note")
    number = before.index(lost[0]) + 1 if lost else 1
    if not after or (len(after) < len(before) and not set(after) - set(before)):
        return TamperFinding(
            rule,
            change.path,
            number,
            f"{len(before) - len(after)} line(s) were removed from data that tests compare with",
        )
    return TamperFinding(
        rule, change.path, number, f"{len(lost)} line(s) of data that tests compare with were rewritten", "suspect"
    )


def _lines(data: bytes | None) -> list[bytes]:
    return [line.strip().rstrip(b",") for line in (data or b"").splitlines() if line.strip()]
