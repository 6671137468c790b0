"""Turn the text of a test failure into one Detail."""

from __future__ import annotations

import re

from reflectloop.verification.reports import frames, report_builder
from reflectloop.verification.result import Detail

_AROUND = 4
_MARKED = re.compile(r"^E\s{1,60}(\S.*)$")  # indented like the line that raised
_ERROR_LINE = re.compile(r"^\s{0,8}((?:[\w.$]*(?:Error|Exception|Failure|Panic|Warning)\b|panic:|thread ').*)$")
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
    """Build the Detail of one failure from the short `message` and the long `text` of a report."""
    frame = frames.locate(text) or frames.locate(message)
    if frame and (file is None or line is None or _same_file(file, frame.file)):
        file, line = frame.file, frame.line
    return report_builder.detail(
        _summary(message, text),
        file=file,
        line=line,
        column=frame.column if frame and frame.file == file else None,
        context=around(text or message, line),
        rule=rule,
        test=test,
    )


def _summary(message: str, text: str) -> str:
    first = _first_line(message)
    if first.endswith("...") and text:  # the runner cut it to the terminal's width
        return said(text) or first
    return first or said(text) or "failed"


def _same_file(path: str, other: str) -> bool:
    return path.endswith(other) or other.endswith(path)


def _first_line(message: str) -> str:
    lines = [line.strip() for line in message.split("\n", 40) if line.strip()]
    if not lines:
        return ""
    return lines[0] if len(lines[0]) > 3 or len(lines) == 1 else " ".join(lines[:2])  # noqa: PLR2004 - `1)` alone


def said(text: str) -> str:
    """Return the line of a failure's text that states the error."""
    lines = [line for line in text.split("\n")[:400] if line.strip() and not line.lstrip().startswith("●")]
    marked = [match[1] for line in lines if (match := _MARKED.match(line[:400]))]
    if marked:
        return _first_error(marked)
    for number, line in enumerate(lines):
        if match := _ERROR_LINE.match(line[:400]):
            rest = lines[number + 1].strip() if line.startswith("thread '") and number + 1 < len(lines) else ""
            return rest or match[1].strip()
    return next((line.strip() for line in lines if _ASSERTED.search(line[:400])), lines[0].strip() if lines else "")


def _first_error(marked: list[str]) -> str:
    """Return the first of the lines pytest marks with E that names an error, or else the first line."""
    return next((line for line in marked if re.match(r"[\w.]*(?:Error|Exception)\b", line)), marked[0])


def around(text: str, line: int | None) -> str | None:
    """Return a few lines around the reported line, or the first lines."""
    lines = text.strip("\n").split("\n")[:600]
    if line is not None:
        mark = re.compile(rf"(?:[:(,]|line )0*{line}\b")
        spots = [number for number, candidate in enumerate(lines) if mark.search(candidate[:400])]
        if spots:
            at = spots[-1]
            return "\n".join(lines[max(0, at - _AROUND) : at + _AROUND + 1])
    return "\n".join(lines[: 2 * _AROUND]) or None
