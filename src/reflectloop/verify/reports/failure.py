"""Turns what a test left behind when it failed into one Detail."""

from __future__ import annotations

import re

from reflectloop.verify.reports import frames, tally
from reflectloop.verify.result import Detail

_AROUND = 4
_MARKED = re.compile(r"^E\s{1,60}(\S.*)$")  # as deep as the line that raised
_SAID = re.compile(r"^\s{0,8}((?:[\w.$]*(?:Error|Exception|Failure|Panic|Warning)\b|panic:|thread ').*)$")
_ASSERTED = re.compile(r"\bexpected\b|\bassert|\bshould\b|\bgot\b|!=|\bto (?:be|equal|have)\b", re.IGNORECASE)


def detail(
    test: str | None,
    message: str,
    text: str = "",
    *,
    file: str | None = None,
    line: int | None = None,
    rule: str | None = None,
) -> Detail:
    """`message` is what the report gives in short, `text` at length."""
    frame = frames.locate(text) or frames.locate(message)
    if frame and (file is None or line is None or _same_file(file, frame.file)):
        file, line = frame.file, frame.line
    return tally.detail(
        _in_short(message, text),
        file=file,
        line=line,
        column=frame.column if frame and frame.file == file else None,
        context=around(text or message, line),
        rule=rule,
        test=test,
    )


def _in_short(message: str, text: str) -> str:
    first = _first_line(message)
    if first.endswith("...") and text:  # the runner cut it to the width of a terminal
        return said(text) or first
    return first or said(text) or "failed"


def _same_file(given: str, found: str) -> bool:
    return given.endswith(found) or found.endswith(given)


def _first_line(message: str) -> str:
    lines = [line.strip() for line in message.split("\n", 40) if line.strip()]
    if not lines:
        return ""
    return lines[0] if len(lines[0]) > 3 or len(lines) == 1 else " ".join(lines[:2])  # noqa: PLR2004 - `1)` alone


def said(text: str) -> str:
    """The line of a failure's text that says what was wrong."""
    lines = [line for line in text.split("\n")[:400] if line.strip() and not line.lstrip().startswith("●")]
    marked = [found[1] for line in lines if (found := _MARKED.match(line[:400]))]
    if marked:
        return _error_of(marked)
    for number, line in enumerate(lines):
        if found := _SAID.match(line[:400]):
            rest = lines[number + 1].strip() if line.startswith("thread '") and number + 1 < len(lines) else ""
            return rest or found[1].strip()
    return next((line.strip() for line in lines if _ASSERTED.search(line[:400])), lines[0].strip() if lines else "")


def _error_of(marked: list[str]) -> str:
    """Of what pytest marks with E the line that names an error, else the first."""
    return next((line for line in marked if re.match(r"[\w.]*(?:Error|Exception)\b", line)), marked[0])


def around(text: str, line: int | None) -> str | None:
    """A few lines: those about the place, or the first."""
    lines = text.strip("\n").split("\n")[:600]
    if line is not None:
        mark = re.compile(rf"(?:[:(,]|line )0*{line}\b")
        spots = [number for number, one in enumerate(lines) if mark.search(one[:400])]
        if spots:
            at = spots[-1]
            return "\n".join(lines[max(0, at - _AROUND) : at + _AROUND + 1])
    return "\n".join(lines[: 2 * _AROUND]) or None
