"""Result types of the comparison of two assertions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reflectloop.terms import join_first
from reflectloop.verification.result import Grade


class TamperVerdict(NamedTuple):
    """The rule, the description and the grade of one finding."""

    rule: str
    what: str
    grade: Grade = "weakening"


class LocatedVerdict(NamedTuple):
    """A verdict with its line."""

    line: int
    verdict: TamperVerdict


_LONGEST = 80  # characters of a quotation
_BEFORE = 24  # characters quoted before the first difference
_MOST = 12  # names in a list


def short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def side_by_side(old: str, new: str) -> str:
    """Return old and new text side by side, cut so that the first difference is seen."""
    same = (at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1])
    start = next(same, min(len(old), len(new))) - _BEFORE
    if start > 0 and max(len(old), len(new)) > _LONGEST:
        old, new = f"...{old[start:]}", f"...{new[start:]}"
    return f"`{short(old)}` -> `{short(new)}`"


def listed(names: Sequence[str]) -> str:
    """Return the names in one line; of a long list the first ones and the number of the others."""
    return join_first(names, _MOST)
