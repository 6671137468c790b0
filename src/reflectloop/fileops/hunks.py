"""Finds where a hunk belongs in a text, as forgiving as its users expect, and puts its lines there. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

_SHOWN = 3  # lines of a hunk, in a message
# What editors and models put for plain characters.
_PLAIN = {
    **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-"),
    **dict.fromkeys(map(ord, "‘’‚‛"), "'"),
    **dict.fromkeys(map(ord, "“”„‟"), '"'),
    **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"), " "),
}
_Squash = Callable[[str], str]
_SQUASHES: tuple[_Squash, ...] = (
    lambda line: line,
    str.rstrip,
    str.strip,
    lambda line: line.strip().translate(_PLAIN),
)


class HunkLine(NamedTuple):
    mark: Literal[" ", "-", "+"]
    text: str


class Hunk(NamedTuple):
    lines: tuple[HunkLine, ...]
    anchors: tuple[str, ...] = ()  # lines that stand somewhere before it
    near: int | None = None  # how many lines a unified diff says stand before it
    at_end: bool = False
    bare: bool | None = None  # whether the text ends without a line break after it; None: as it was

    @property
    def wanted(self) -> list[str]:
        return [line.text for line in self.lines if line.mark != "+"]


class HunkMismatch(Exception):
    """The text does not hold the lines that a hunk needs."""


class _Body:
    """A text as lines, and the same squashed for comparing."""

    def __init__(self, text: str) -> None:
        breaks = text.count("\n")
        self.eol = "\r\n" if breaks and breaks == text.count("\r\n") else "\n"
        self.ended = not text or text.endswith(self.eol)
        self.lines = text.split(self.eol)[: -1 if self.ended else None]
        self._squashed: dict[int, tuple[str, list[int]]] = {}

    def squashed(self, grade: int) -> tuple[str, list[int]]:
        """The lines joined, each behind a line break, and where each begins."""
        if grade not in self._squashed:
            lines = [_SQUASHES[grade](line) for line in self.lines]
            starts, position = [], 0
            for line in lines:
                starts.append(position)
                position += len(line) + 1
            self._squashed[grade] = "".join(f"\n{line}" for line in lines) + "\n", starts
        return self._squashed[grade]

    def places(self, wanted: list[str], since: int, grade: int) -> Iterator[int]:
        """The numbers of lines from which on the wanted ones stand."""
        text, starts = self.squashed(grade)
        position = text.find(_needle(wanted, grade), starts[since]) if since < len(starts) else -1
        while position >= 0:
            yield bisect_left(starts, position)  # every line break begins a line
            position = text.find(_needle(wanted, grade), position + 1)

    def nearest(self, wanted: list[str], since: int, near: int, grade: int) -> int | None:
        """The same, of the place that is nearest to a line."""
        text, starts = self.squashed(grade)
        if since >= len(starts):
            return None
        needle, here = _needle(wanted, grade), starts[max(since, min(near, len(starts) - 1))]
        found = (text.rfind(needle, starts[since], here + len(needle)), text.find(needle, here))
        numbers = [bisect_left(starts, position) for position in found if position >= 0]
        return min(numbers, key=lambda number: abs(number - near), default=None)


def _needle(wanted: list[str], grade: int) -> str:
    return "".join(f"\n{_SQUASHES[grade](line)}" for line in wanted) + "\n"


def apply(text: str, hunks: tuple[Hunk, ...], *, close: bool = False) -> str:
    """The text with every hunk put in; `close` ends it with a line break in any case."""
    body = _Body(text)
    out: list[str] = []
    cursor, ended = 0, body.ended
    for number, hunk in enumerate(hunks, 1):
        place, lines = _place(body, hunk, cursor, number)
        out += body.lines[cursor:place]
        cursor = _put(body, lines, place, out)
        if hunk.bare is not None and cursor >= len(body.lines):
            ended = not hunk.bare
    out += body.lines[cursor:]
    ended = ended or close
    return body.eol.join(out) + (body.eol if out and ended else "")


def _put(body: _Body, lines: tuple[HunkLine, ...], cursor: int, out: list[str]) -> int:
    """What a hunk keeps stays as the text has it, though it was found by a likeness."""
    for line in lines:
        if line.mark == "+":
            out.append(line.text.removesuffix("\r") if body.eol == "\r\n" else line.text)
            continue
        if line.mark == " ":
            out.append(body.lines[cursor])
        cursor += 1
    return cursor


def _place(body: _Body, hunk: Hunk, cursor: int, number: int) -> tuple[int, tuple[HunkLine, ...]]:
    begin = cursor
    for anchor in hunk.anchors:
        found = _find(body, [anchor], begin, None, at_end=False)
        if found is None:
            raise HunkMismatch(f"hunk {number}: the line {anchor[:200]!r} is not there after line {begin}")
        begin = found + 1
    if not hunk.wanted:
        return _free_place(body, hunk, begin), hunk.lines
    for lines in _forms(hunk.lines):
        wanted = [line.text for line in lines if line.mark != "+"]
        at = _find(body, wanted, begin, hunk.near, at_end=hunk.at_end)
        if at is not None:
            return at, lines
    shown = "\n".join(hunk.wanted[:_SHOWN])
    raise HunkMismatch(f"hunk {number}: these lines are not there after line {begin}:\n{shown[:500]}")


def _forms(lines: tuple[HunkLine, ...]) -> Iterator[tuple[HunkLine, ...]]:
    """As written; and without an empty last line, which may only stand for the end of the patch."""
    yield lines
    if len(lines) > 1 and lines[-1] == (" ", ""):
        yield lines[:-1]


def _free_place(body: _Body, hunk: Hunk, begin: int) -> int:
    if hunk.anchors:
        return begin
    last = len(body.lines)
    return last if hunk.near is None else max(begin, min(hunk.near, last))


def _find(body: _Body, wanted: list[str], begin: int, near: int | None, *, at_end: bool) -> int | None:
    if near is not None and near >= begin and body.lines[near : near + len(wanted)] == wanted:
        return near
    for grade in range(len(_SQUASHES)):
        places = body.places(wanted, begin, grade)
        if at_end:
            found = next((place for place in places if place + len(wanted) == len(body.lines)), None)
        else:
            found = next(places, None) if near is None else body.nearest(wanted, begin, near, grade)
        if found is not None:
            return found
    return _find(body, wanted, begin, near, at_end=False) if at_end else None
