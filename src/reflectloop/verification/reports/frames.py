"""Find the project's file and line in a traceback or a failure's text."""

from __future__ import annotations

import re
from typing import NamedTuple

_LOOKED_AT = 12_000  # characters of a failure's text
_FOREIGN = re.compile(
    r"node_modules|site-packages|dist-packages|node:internal|internal/|<frozen|/rustc/|/usr/(?:local/)?lib|"
    r"\.cargo/registry|/lib/python3|/vendor/|/gems/|\bjava\.base\b|org/junit|org\.junit|/go/src/|unittest/|_pytest/|"
    r"/pluggy/|/library/(?:core|std|test)/"
)
_LIBRARY = re.compile(
    r"\s*at (?:javax?|sun|jdk|kotlin|scala|groovy|org\.(?:junit|apache|assertj|hamcrest|opentest4j))\."
)
_PYTHON = re.compile(r'File "([^"\n]{1,400})", line (\d{1,7})')
_PATH = r"(?:[A-Za-z]:(?=[\\/]))?[^\s:()\[\]\"'`<>,=]{1,300}"
_PLACES = re.compile(
    rf"(?P<colon>{_PATH}\.[A-Za-z]\w{{0,9}}):(?P<line>\d{{1,7}})(?::(?P<column>\d{{1,5}}))?(?![\w.])|"
    rf"(?P<paren>{_PATH}\.[A-Za-z]\w{{0,9}})\((?P<line2>\d{{1,7}})(?:,(?P<column2>\d{{1,5}}))?\)|"
    rf"(?P<word>{_PATH}\.[A-Za-z]\w{{0,9}})(?:,? (?:on )?|:)line (?P<line3>\d{{1,7}})"
)
_HOST = re.compile(r"\.(?:com|org|net|io|dev|local|test)$|^\d+(?:\.\d+){3}$|^(?:https?|file)$|//")


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
