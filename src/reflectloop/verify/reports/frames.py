"""Finds, in a traceback or a failure's text, the place in the project it is about."""

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
    file: str
    line: int
    column: int | None = None


def locate(text: str) -> Frame | None:
    """The innermost frame of a Python traceback that is the project's own, or the first place elsewhere."""
    tail = text[-_LOOKED_AT:]
    frames = [Frame(found[1], int(found[2])) for found in _PYTHON.finditer(tail)]
    own = [frame for frame in frames if not _FOREIGN.search(frame.file)]
    if own or frames:
        return (own or frames)[-1]
    return _elsewhere(text)


def _elsewhere(text: str) -> Frame | None:
    first: Frame | None = None
    lines = [line[:400] for line in text[:_LOOKED_AT].split("\n")]
    reported = [line for line in lines if line[:1] not in {"", " ", "\t", ">"}]
    # pytest ends each entry of a traceback with `path:line: Error`, at the beginning of a line; the last is innermost.
    for line in [*reversed([one for one in reported if ".py:" in one]), *lines]:
        for found in _PLACES.finditer(line):
            frame = _frame(found)
            if frame is None:
                continue
            if not _FOREIGN.search(frame.file) and not _LIBRARY.match(line):
                return frame
            first = first or frame
    return first


def _frame(found: re.Match[str]) -> Frame | None:
    file = found["colon"] or found["paren"] or found["word"]
    if _HOST.search(file):
        return None
    line = found["line"] or found["line2"] or found["line3"]
    column = found["column"] or found["column2"]
    return Frame(file, int(line), int(column) if column else None)
