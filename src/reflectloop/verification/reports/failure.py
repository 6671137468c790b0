"""Turn the text of a test failure into one Detail, with the place in the project it points to."""

from __future__ import annotations

import re
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import report_builder
from reflectloop.verification.result import Detail

_LOOKED_AT = 12_000  # characters of a failure's text
_FOREIGN = lazy(
    r"node_modules|site-packages|dist-packages|node:internal|internal/|<frozen|/rustc/|/usr/(?:local/)?lib|"
    r"\.cargo/registry|/lib/python3|/vendor/|/gems/|\bjava\.base\b|org/junit|org\.junit|/go/src/|unittest/|_pytest/|"
    r"/pluggy/|/library/(?:core|std|test)/"
)
_LIBRARY = lazy(r"\s*at (?:javax?|sun|jdk|kotlin|scala|groovy|org\.(?:junit|apache|assertj|hamcrest|opentest4j))\.")
_PYTHON = lazy(r'File "([^"\n]{1,400})", line (\d{1,7})')
_PATH = r"(?:[A-Za-z]:(?=[\\/]))?[^\s:()\[\]\"'`<>,=]{1,300}"
_PLACES = lazy(
    rf"(?P<colon>{_PATH}\.[A-Za-z]\w{{0,9}}):(?P<line>\d{{1,7}})(?::(?P<column>\d{{1,5}}))?(?![\w.])|"
    rf"(?P<paren>{_PATH}\.[A-Za-z]\w{{0,9}})\((?P<line2>\d{{1,7}})(?:,(?P<column2>\d{{1,5}}))?\)|"
    rf"(?P<word>{_PATH}\.[A-Za-z]\w{{0,9}})(?:,? (?:on )?|:)line (?P<line3>\d{{1,7}})"
)
_HOST = lazy(r"\.(?:com|org|net|io|dev|local|test)$|^\d+(?:\.\d+){3}$|^(?:https?|file)$|//")


class Frame(NamedTuple):
    """A file, line and column named in a failure's text."""

    file: str
    line: int
    column: int | None = None


def locate(text: str) -> Frame | None:
    """Return the innermost project frame of a Python traceback, or else the first location in the text."""
    tail = text[-_LOOKED_AT:]
    frames = [Frame(match[1], int(match[2])) for match in _PYTHON.finditer(tail)]
    project_frames = [frame for frame in frames if not _FOREIGN.search(frame.file)]
    if project_frames or frames:
        return (project_frames or frames)[-1]
    return _elsewhere(text)


def _elsewhere(text: str) -> Frame | None:
    first: Frame | None = None
    lines = [line[:400] for line in text[:_LOOKED_AT].split("\n")]
    reported = [line for line in lines if line[:1] not in {"", " ", "\t", ">"}]
    # pytest ends each traceback entry with `path:line: Error` at the start of a line; the last entry is innermost.
    for line in [*reversed([candidate for candidate in reported if ".py:" in candidate]), *lines]:
        for match in _PLACES.finditer(line):
            frame = _frame(match)
            if frame is None:
                continue
            if not _FOREIGN.search(frame.file) and not _LIBRARY.match(line):
                return frame
            first = first or frame
    return first


def _frame(match: re.Match[str]) -> Frame | None:
    file = match["colon"] or match["paren"] or match["word"]
    if _HOST.search(file):
        return None
    line = match["line"] or match["line2"] or match["line3"]
    column = match["column"] or match["column2"]
    return Frame(file, int(line), int(column) if column else None)


_AROUND = 4
_MARKED = lazy(r"^E\s{1,60}(\S.*)$")  # indented like the line that raised
_ERROR_LINE = lazy(r"^\s{0,8}((?:[\w.$]*(?:Error|Exception|Failure|Panic|Warning)\b|panic:|thread ').*)$")
_ASSERTED = lazy(r"\bexpected\b|\bassert|\bshould\b|\bgot\b|!=|\bto (?:be|equal|have)\b", re.IGNORECASE)


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
    frame = locate(text) or locate(message)
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
