"""Split a log into lines without colours, timestamps and the prefixes that other tools add."""

from __future__ import annotations

from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import plain

_MOST = 20_000  # lines from each end
_LONGEST = 2_000
_CLOCK = lazy(
    r"\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?\]?(?: ?\| ?|[ \t]|$)"
)
_NEARLY_ALL = 0.8
_FEWEST = 3
# Prefixes that are no part of the message: the printing tool, the level, the process.
_MARK = lazy(
    r"(?:E {2,8}(?=\S)|npm (?:ERR!|error|warn|WARN)(?: |$)|##\[error\]|::error(?: [^:]{0,200})?::|#\d+ \d+\.\d+ |"
    r"\[(?:ERROR|FATAL|error|fatal|stderr|gw\d+)\] ?|\[pid +\d+\] |[│┃|╰─>×✗✘❌]+ |INTERNALERROR> ?|ERR_PNPM_\w+ +|"
    r"= (?:note|help): |\[cause\]: |# (?=[A-Z])|"
    r"(?:ERROR|FATAL|CRITICAL) {2,}|\[\d+(?:\.\d+)?s\] |"
    r"Exception in thread \"[^\"]{1,200}\" |Caused by: |Uncaught (?=[A-Z]))"
)


class OutputLine(NamedTuple):
    """A line of a log."""

    text: str  # as in the log
    core: str  # without prefixes


def of(data: bytes | str) -> list[OutputLine]:
    """Return the lines of a log; for a huge one those near its beginning and its end."""
    raw = plain.lines(plain.text(plain.bounded(data)))
    some = raw if len(raw) <= 2 * _MOST else raw[:_MOST] + raw[-_MOST:]
    return [OutputLine(line, core(line)) for line in unclocked(some)]


def without_clock(data: bytes | str) -> bytes | str:
    """Return the log without the timestamps that a service put before every line."""
    sample = data[: 1 << 14]
    sample_text = sample.decode("utf-8", "replace") if isinstance(sample, bytes) else sample
    if not _all_clocked(sample_text.split("\n")[:-1] or [sample_text]):
        return data
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    cut = "\n".join(_CLOCK.sub("", line, count=1) if _CLOCK.match(line) else line for line in text.split("\n"))
    return cut.encode("utf-8", "surrogateescape") if isinstance(data, bytes) else cut


def unclocked(lines: list[str]) -> list[str]:
    if not _all_clocked(lines):
        return lines
    return [line[stamp.end() :] if (stamp := _CLOCK.match(line)) else line for line in lines]


def _all_clocked(lines: list[str]) -> bool:
    filled = [line for line in lines if line.strip()]
    return len(filled) >= _FEWEST and sum(bool(_CLOCK.match(line)) for line in filled) >= _NEARLY_ALL * len(filled)


def core(line: str) -> str:
    """Return the line without prefixes."""
    rest = line[:_LONGEST].strip()
    while clock := _CLOCK.match(rest):
        rest = rest[clock.end() :].lstrip()
    while (mark := _MARK.match(rest)) and mark.end():
        rest = rest[mark.end() :].lstrip()
    return rest
