"""Turns a log into its lines as the tools meant them: without colours, clocks and the marks that others put before."""

from __future__ import annotations

import re
from typing import NamedTuple

from reflectloop.verify.reports import plain

_MOST = 20_000  # lines from each end
_LONGEST = 2_000
_CLOCK = re.compile(
    r"\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?\]?(?: ?\| ?|[ \t]|$)"
)
_NEARLY_ALL = 0.8
_FEWEST = 3
# What stands before a line and is no part of what it says: who printed it, how loud, in which process.
_MARK = re.compile(
    r"(?:E {2,8}(?=\S)|npm (?:ERR!|error|warn|WARN)(?: |$)|##\[error\]|::error(?: [^:]{0,200})?::|#\d+ \d+\.\d+ |"
    r"\[(?:ERROR|FATAL|error|fatal|stderr|gw\d+)\] ?|\[pid +\d+\] |[│┃|╰─>×✗✘❌]+ |INTERNALERROR> ?|ERR_PNPM_\w+ +|"
    r"= (?:note|help): |\[cause\]: |# (?=[A-Z])|"
    r"(?:ERROR|FATAL|CRITICAL) {2,}|\[\d+(?:\.\d+)?s\] |"
    r"Exception in thread \"[^\"]{1,200}\" |Caused by: |Uncaught (?=[A-Z]))"
)


class Line(NamedTuple):
    text: str  # as it stands in the log
    core: str  # what its writer meant


def of(data: bytes | str) -> list[Line]:
    """Of a huge log those near its beginning and its end."""
    raw = plain.lines(plain.text(plain.bounded(data)))
    some = raw if len(raw) <= 2 * _MOST else raw[:_MOST] + raw[-_MOST:]
    return [Line(line, core(line)) for line in unclocked(some)]


def without_clock(data: bytes | str) -> bytes | str:
    """The same log without the time that a service put before every line."""
    sample = data[: 1 << 14]
    shown = sample.decode("utf-8", "replace") if isinstance(sample, bytes) else sample
    if not _all_clocked(shown.split("\n")[:-1] or [shown]):
        return data
    whole = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    cut = "\n".join(_CLOCK.sub("", line, count=1) if _CLOCK.match(line) else line for line in whole.split("\n"))
    return cut.encode("utf-8", "surrogateescape") if isinstance(data, bytes) else cut


def unclocked(lines: list[str]) -> list[str]:
    if not _all_clocked(lines):
        return lines
    return [line[found.end() :] if (found := _CLOCK.match(line)) else line for line in lines]


def _all_clocked(lines: list[str]) -> bool:
    told = [line for line in lines if line.strip()]
    return len(told) >= _FEWEST and sum(bool(_CLOCK.match(line)) for line in told) >= _NEARLY_ALL * len(told)


def core(line: str) -> str:
    """The line without what others put before it."""
    rest = line[:_LONGEST].strip()
    while clock := _CLOCK.match(rest):
        rest = rest[clock.end() :].lstrip()
    while (mark := _MARK.match(rest)) and mark.end():
        rest = rest[mark.end() :].lstrip()
    return rest
