"""Finds the place of a hunk in a text, tolerating differences in blanks and quotes, and applies it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

_SHOWN = 3  # lines of a hunk, in a message
# Characters that editors and models write instead of ASCII.
_PLAIN = {
    **dict.fromkeys(map(ord, "‐‑‒–—―−"), "-"),
    **dict.fromkeys(map(ord, "‘’‚‛"), "'"),
    **dict.fromkeys(map(ord, "“”„‟"), '"'),
    **dict.fromkeys(map(ord, "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"), " "),
}
_Normaliser = Callable[[str], str]
_NORMALISERS: tuple[_Normaliser, ...] = (
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
    anchors: tuple[str, ...] = ()  # lines that occur somewhere before it
    near: int | None = None  # the number of lines before it, by a unified diff
    at_end: bool = False
    bare: bool | None = None  # True: the text ends after it without a line break; None: unchanged

    @property
    def wanted(self) -> list[str]:
        return [line.text for line in self.lines if line.mark != "+"]


class HunkMismatch(Exception):
    """The text does not contain the lines that a hunk needs."""


class _Body:
    """A text as lines, and normalised forms of it for comparison."""

    def __init__(self, text: str) -> None:
        breaks = text.count("\n")
        self.eol = "\r\n" if breaks and breaks == text.count("\r\n") else "\n"
        self.ended = not text or text.endswith(self.eol)
        self.lines = text.split(self.eol)[: -1 if self.ended else None]
        self._normalised: dict[int, tuple[str, list[int]]] = {}

    def normalised(self, grade: int) -> tuple[str, list[int]]:
        """Return the normalised lines joined, each after a line break, and the position of each."""
        if grade not in self._normalised:
            lines = [_NORMALISERS[grade](line) for line in self.lines]
            starts, position = [], 0
            for line in lines:
                starts.append(position)
                position += len(line) + 1
            self._normalised[grade] = "".join(f"\n{line}" for line in lines) + "\n", starts
        return self._normalised[grade]

    def places(self, lines_before: list[str], since: int, grade: int) -> Iterator[int]:
        """Yield the line numbers at which the wanted lines occur."""
        text, starts = self.normalised(grade)
        position = text.find(_needle(lines_before, grade), starts[since]) if since < len(starts) else -1
        while position >= 0:
            yield bisect_left(starts, position)  # every line break begins a line
            position = text.find(_needle(lines_before, grade), position + 1)

    def nearest(self, lines_before: list[str], since: int, near: int, grade: int) -> int | None:
        """Return the line number nearest to `near` at which the wanted lines occur, or None."""
        text, starts = self.normalised(grade)
        if since >= len(starts):
            return None
        needle, here = _needle(lines_before, grade), starts[max(since, min(near, len(starts) - 1))]
        positions = (text.rfind(needle, starts[since], here + len(needle)), text.find(needle, here))
        numbers = [bisect_left(starts, position) for position in positions if position >= 0]
        return min(numbers, key=lambda number: abs(number - near), default=None)


def _needle(lines_before: list[str], grade: int) -> str:
    return "".join(f"\n{_NORMALISERS[grade](line)}" for line in lines_before) + "\n"


def apply(text: str, hunks: tuple[Hunk, ...], *, close: bool = False) -> str:
    """Return the text with every hunk applied; `close` makes it end with a line break."""
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
    """Append the hunk's result to `out`. Context lines are copied from the text, not from the hunk."""
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
        line = _find(body, [anchor], begin, None, at_end=False)
        if line is None:
            raise HunkMismatch(f"hunk {number}: the line {anchor[:200]!r} is not there after line {begin}")
        begin = line + 1
    if not hunk.wanted:
        return _free_place(body, hunk, begin), hunk.lines
    for lines in _forms(hunk.lines):
        lines_before = [line.text for line in lines if line.mark != "+"]
        at = _find(body, lines_before, begin, hunk.near, at_end=hunk.at_end)
        if at is not None:
            return at, lines
    expected = "\n".join(hunk.wanted[:_SHOWN])
    raise HunkMismatch(f"hunk {number}: these lines are not there after line {begin}:\n{expected[:500]}")


def _forms(lines: tuple[HunkLine, ...]) -> Iterator[tuple[HunkLine, ...]]:
    """Yield the lines as written, and without an empty last line, which may belong to the end of the patch."""
    yield lines
    if len(lines) > 1 and lines[-1] == (" ", ""):
        yield lines[:-1]


def _free_place(body: _Body, hunk: Hunk, begin: int) -> int:
    if hunk.anchors:
        return begin
    last = len(body.lines)
    return last if hunk.near is None else max(begin, min(hunk.near, last))


def _find(body: _Body, lines_before: list[str], begin: int, near: int | None, *, at_end: bool) -> int | None:
    if near is not None and near >= begin and body.lines[near : near + len(lines_before)] == lines_before:
        return near
    for grade in range(len(_NORMALISERS)):
        places = body.places(lines_before, begin, grade)
        if at_end:
            match = next((place for place in places if place + len(lines_before) == len(body.lines)), None)
        else:
            match = next(places, None) if near is None else body.nearest(lines_before, begin, near, grade)
        if match is not None:
            return match
    return _find(body, lines_before, begin, near, at_end=False) if at_end else None
