"""Compute a short name for a failure that is the same on every machine and in every run; pure.

Only text that states the cause is used. Whatever changes without the cause is removed: folders, line numbers, times,
sizes, hashes, addresses, ports, temporary names, colours, order. File names, test names, error codes and HTTP status
codes stay, since they distinguish causes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import Detail

_DIGITS = 18
_MOST = 500  # number of lines
_LONGEST = 400  # characters of each

_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "`": "'", "´": "'", "\u00a0": " "})
_UNITS = r"(?:ns|us|µs|μs|ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)"
_SIZES = r"(?:[kKMGTP]i?B|bytes?|B|[kKMGT]iB|[KMG])"
_NUMBER = r"[-+]?\d(?:[\d.,_]*\d)?"
_END = r"(?![A-Za-z0-9_])"

_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?"
_CLOCK = r"\d\d[:_]\d\d(?:[:_]\d\d(?:[.,_]\d+)?)?(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_NAME = r"[^\s\\/:'\"()<>,;|\[\]=*?]"  # a character of a file or folder name
_SAYS_STATUS = r"HTTP(?:/\d(?:\.\d)?)?|status(?:[ _]code)?|error|code|returned|response|E"

# Applied in this order: each removes what a later one would misread.
_STEPS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lazy(pattern), put)
    for pattern, put in (
        # An HTTP status identifies a cause; written as a word it is not removed with the numbers.
        (rf"(?i)\b({_SAYS_STATUS})([ :=]{{0,3}})([45]\d\d)\b", r"\1\2http_\3"),
        (r"\b([45]\d\d)(?= (?:Client|Server|[A-Z][a-z]+ ?[A-Z]?[a-z]*))", r"http_\1"),
        (r"\b([a-z][a-z0-9+.-]{1,20}://)(?:[^\s/@'\"]{1,100}@)?([^\s/:'\"<>?#)]{0,200})(?::\d{1,5})?", r"\1\2"),
        (r"(://[^\s?#'\"]{1,400})\?[^\s'\")]*", r"\1"),
        (rf"\b\d{{4}}-\d\d-\d\d(?:[T_ ]{_CLOCK})?", "<when>"),
        (rf"\b{_DAY} (?:\d{{1,2}} )?[A-Z][a-z]{{2}}(?: \d{{1,4}})*(?: [\d:]{{5,8}})?(?: GMT)?(?: \d{{4}})?", "<when>"),
        (r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?|\b\d{1,2}/\d{1,2}/\d{2,4}", "<when>"),
        (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>"),
        (r"\b0[xX][0-9a-fA-F]+\b", "<hex>"),
        (r"(?<![\w.-])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,128}(?![\w-])", "<hex>"),
        (r"\[?(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{1,4}\]?(?::\d{1,5})?\b", "<ip>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b", "<ip>"),
        (r"(?<=\w):\d{2,5}(?=[\s/,;)'\"]|$)", ""),
        # Paths in a temporary folder.
        (r"(?:/private)?(?:/var)?/tmp/[^\s/'\":,;)\]>]+(?=['\":,;)\]\s]|$)", "<temp>"),
        # Folders: an absolute path, and a path to a file with an extension, keep only their last name.
        (rf"(?<![\w:/.<>])(?:~|\.{{1,2}}|[A-Za-z]:)?(?:[\\/]+{_NAME}+)*[\\/]+(?={_NAME})", ""),
        (r"(?<![\w:/.@<>-])(?:[\w.@+-]+[\\/])+(?=[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,9}\b)", ""),
        # Generated names.
        (r"\b(?:tmp|temp|cc|pip-(?:[a-z]+-)+|pytest-)[-_]?(?=[A-Za-z]*[0-9_])[A-Za-z0-9_]{5,12}\b", "<temp>"),
        (rf"\b({_NUMBER}) ?{_UNITS}{_END}(?: ?\d[\d.]* ?{_UNITS}{_END})*", "<time>"),
        (rf"\b{_NUMBER} ?{_SIZES}{_END}", "<size>"),
        (r"\b(python|pip|node|perl|ruby|php|gcc|clang)[-\d][\d.]*\b", r"\1"),
        (r"\[(?:gw)?\d+\]|\bgw\d+\b", "<n>"),
        (rf"(?<![\w]){_NUMBER}(?:[eE][-+]?\d+)?{_END}", "<n>"),
        (r"<n>(?:[:,.x] ?<n>)+", "<n>"),
        (r"\b((?:ba|da|z|k)?sh): (?:line )?<n>: ", r"\1: "),
        (r"(?<=\S):(?:<n>)?:? ?(?=:)|:<n>(?=[:\s,)\]]|$)", ""),
    )
)
_SET = lazy(r"\{([^{}:]{1,300})\}")
_BLANK = lazy(r"\s+")
_PARTS = lazy(r"::| > | › ")
_ELLIPSIS = lazy(r"(?:\.\.\.|…).*$")


def normal(text: str) -> str:
    """Return a line without everything that another run would print differently."""
    line = text[: 4 * _LONGEST].translate(_QUOTES)
    for pattern, put in _STEPS:
        line = pattern.sub(put, line)
    line = _SET.sub(_sorted, line)
    return _BLANK.sub(" ", line).strip()[:_LONGEST]


def _sorted(match: re.Match[str]) -> str:
    """Sort the elements of a printed set, whose order is random."""
    return "{" + ", ".join(sorted(part.strip() for part in match[1].split(","))) + "}"


def of(messages: Iterable[str]) -> str:
    """Return the name of a failure with these lines, in any order."""
    things = sorted({line for line in map(normal, messages) if line})[:_MOST]
    digest = hashlib.sha256("\n".join(things).encode("utf-8", "surrogatepass")).digest()
    # A number, since letters and digits after the word `signature` look like a secret and would be redacted.
    return f"{int.from_bytes(digest) % 10**_DIGITS:0{_DIGITS}d}"


def said_by(detail: Detail) -> str:
    """Return a problem in one line: its test or file, its rule and its text."""
    test = _PARTS.split(detail.test)[-1] if detail.test else ""
    where = "" if test or not detail.file else detail.file.replace("\\", "/").rpartition("/")[2]
    error = _ELLIPSIS.sub("", detail.error)
    return " | ".join(part for part in (test, where, detail.rule or "", error) if part)
