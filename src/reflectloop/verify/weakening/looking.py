"""Puts every look at a patch together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening.python import tests


def look(changes: Sequence[Change], context: Mapping[str, bytes] | None = None) -> list[Finding]:
    """Everything found, by path and line; `context` holds test files of base that the patch leaves alone."""
    changed = [change for change in changes if change.before != change.after or change.mode_before != change.mode_after]
    found = dict.fromkeys([*tests.look(changed)])
    return sorted(found, key=lambda each: (each.path, each.line or 0, each.rule))
