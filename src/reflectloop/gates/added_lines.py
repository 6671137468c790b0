"""Compare a file before and after a change: the lines it adds, and the number of lines it touches; pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reflectloop.verification.result import ChangedFile

_COMPARED = 600  # lines; in a longer file everything between the common start and end counts as changed


class NumberedLine(NamedTuple):
    number: int  # in the new file
    text: str


class _Middle(NamedTuple):
    """The differing part of a file: both versions without their common first and last lines."""

    before: Sequence[str]
    after: Sequence[str]
    start: int


def added_lines(change: ChangedFile) -> Iterator[NumberedLine]:
    """Yield the lines that are new in a text file; a binary file has none."""
    middle = _middle(change)
    for low, high in _spans(middle):
        for number in range(low, high):
            yield NumberedLine(middle.start + number + 1, middle.after[number])


def touched_lines(change: ChangedFile) -> int:
    """Return the number of lines added and removed; a binary file counts as one too large to compare."""
    middle = _middle(change)
    if _binary(change):
        return _COMPARED
    if max(len(middle.before), len(middle.after)) > _COMPARED:
        return len(middle.before) + len(middle.after)
    return sum(
        (high - low) + (new_high - new_low) for tag, low, high, new_low, new_high in _opcodes(middle) if tag != "equal"
    )


def _binary(change: ChangedFile) -> bool:
    return any(b"\0" in (side or b"")[:8000] for side in (change.before, change.after))


def _text(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines()


def _middle(change: ChangedFile) -> _Middle:
    if _binary(change):
        return _Middle((), (), 0)
    before, after = _text(change.before), _text(change.after)
    short = min(len(before), len(after))
    start = next((number for number in range(short) if before[number] != after[number]), short)
    rest = short - start
    end = next((number for number in range(rest) if before[-1 - number] != after[-1 - number]), rest)
    return _Middle(before[start : len(before) - end], after[start : len(after) - end], start)


def _opcodes(middle: _Middle) -> Sequence[tuple[str, int, int, int, int]]:
    return difflib.SequenceMatcher(None, middle.before, middle.after, autojunk=False).get_opcodes()


def _spans(middle: _Middle) -> Iterator[tuple[int, int]]:
    if max(len(middle.before), len(middle.after)) > _COMPARED:
        yield 0, len(middle.after)
        return
    yield from ((low, high) for tag, _, _, low, high in _opcodes(middle) if tag in ("insert", "replace"))
