"""Recognise the forms in which tools write a file, a line and a message."""

from __future__ import annotations

import re
from typing import NamedTuple

from reflectloop.verification.reports import report_builder
from reflectloop.verification.reports.location_patterns import DRIVE, SHAPES
from reflectloop.verification.reports.report_builder import Severity


class SourceLocation(NamedTuple):
    """A file, line and column with the message reported there."""

    file: str
    line: int | None
    column: int | None
    message: str
    grade: Severity | None = None
    rule: str | None = None


# A location inside a line: used only if the words before it report a problem.
EMBEDDED = re.compile(
    rf"(?:^|[\s(\[])(?P<file>{DRIVE}[^\s:()\[\]\"'`|]{{1,300}}):(?P<line>\d{{1,7}})(?::(?P<column>\d{{1,6}}))?(?=[\s:,)\].]|$)"
)
_LED_BY = re.compile(
    r"(?:\b(?:error|warning|fatal|fail(?:ed|ure)?|vet|location|issue)\b[^/]{0,160}|"
    r" (?:at|in|-)|^\[[A-Z]\][^/]{0,12}|^\*\* \(\w+\)|^\s*[-─┌╭,]+[─\[>]*|^Location:?)\s*$",
    re.IGNORECASE,
)
_ARROW = re.compile(
    r"^\s*(?:-+>|[╭┌,]─*\[?|╭─+\[|┌─+|,-\[|at\s|on\s|Location:|┃\s+)\s*"
    rf"(?P<file>{DRIVE}[^\s:()\[\]\"'`|]{{1,300}})(?::| line )(?P<line>\d{{1,7}})(?::(?P<column>\d{{1,6}}))?\b"
)

_EXTENSION = re.compile(r"\.[A-Za-z][\w+-]{0,14}$|\.[A-Za-z]\w{0,9}\.\w{1,6}$")
_BARE = re.compile(
    r"^(?:\.[A-Za-z][\w.-]*|[A-Z][A-Za-z]*[Ff]ile|WORKSPACE|BUILD|README|LICENSE|SConstruct|configure|<\w+>|stdin)$"
)
_HOST = re.compile(r"^[\w.-]+\.(?:com|org|net|io|local|localdomain|internal)$|^\d+(?:\.\d+)+$")
_MOMENT = re.compile(r"\d{2,4}[/-]\d{1,2}[/-]\d{1,4}(?:[T ,]+\d{1,2})?$|^\d")
_CLASS = re.compile(r"^[a-z]\w*(?:\.\w+){2,}$")
_CODE = re.compile(r"[=;{}]|\s{2,}|\breturn\b|^\W*(?:from|at|in|on|to|and)\s")
_SPACED = re.compile(r"^(?:\.{0,2}[/\\]|[A-Za-z]:[/\\]|[^\s/\\]+[/\\])")
_LED_OUT = re.compile(
    r"^\s*(?:In file included from|Included from|from|required from|included at|instantiated from)\b", re.IGNORECASE
)


UNREADABLE = "\ufffd"  # stands where bytes were no text: what holds it is noise, not a tool's message


def is_path(file: str) -> bool:
    """Return True if this can be the name of a file that a tool reports on."""
    name = file.strip()
    if not name or UNREADABLE in name:
        return False
    if "://" in name.removeprefix("file://") or _CODE.search(name):
        return False
    if " " in name and not _SPACED.match(name):
        return False
    if "/" not in name and "\\" not in name:
        if _HOST.match(name) or (_CLASS.match(name) and not _KNOWN.search(name)):
            return False
        return bool(_BARE.match(name) or (_EXTENSION.search(name) and not _MOMENT.search(name)))
    return not _MOMENT.search(name) or bool(_EXTENSION.search(name))


_KNOWN = re.compile(
    r"\.(?:py|rb|erb|haml|slim|js|jsx|ts|tsx|mjs|cjs|vue|svelte|css|scss|less|html?|xml|ya?ml|json|toml|ini|cfg|conf|md|rst|txt|"
    r"go|rs|java|kt|kts|scala|groovy|gradle|c|h|cc|cpp|cxx|hpp|hh|m|mm|cs|fs|vb|swift|php|pl|pm|lua|ex|exs|erl|hs|ml|mli|clj|"
    r"cljs|dart|sh|bash|zsh|sql|proto|tf|nix|f|f90|pas|adb|ads|vim|r|R|jl|el|nim|zig|cr|d|v|sv|vhd|env|lock|pp|j2|spec|feature)$"
)

_GRADED = re.compile(
    r"^(?:[\[(]?(?P<word>fatal error|syntax error|parse error|error|warning|warn|note|info|hint|suggestion|"
    r"remark|style|fatal|notice|critical|refactor|convention|performance|deprecated|[EWCIRFN](?=\]|: ))[\])]?)"
    r"(?: ?\[?(?P<rule>[A-Za-z]{1,12}-?\d{1,6}|[\w-]+/[\w/-]+)\]?)?(?P<end>\s*[:\]\-–]+\s*|\s+)",
    re.IGNORECASE,
)
_RULE_FIRST = re.compile(
    r"^\[?(?P<rule>[A-Z]{1,8}-?\d{2,6}|[a-z]+[\w-]*/[\w/-]+|[A-Z]\w+/\w+)(?:\[\w+\])?\]?(?::| |$)\s*"
)
_RULE_LAST = re.compile(
    r"[\[(](?P<rule>-W[\w=+-]+|[A-Za-z][\w-]*(?:[/:.][\w-]+)*)[\])]\s*$|\s{2,}(?P<bare>@?[\w-]+(?:/[\w-]+)*)\s*$"
)


def described(message: str, default: Severity | None = None) -> tuple[str, Severity | None, str | None]:
    """Split a message into its text, its severity and the rule it names."""
    text, grade, rule = message.strip(), default, None
    graded = _GRADED.match(text)
    if graded:
        grade, rule = report_builder.severity(graded["word"]), graded["rule"]
        text = text[graded.end() :] if len(text) > graded.end() else text
    if not rule and (first := _RULE_FIRST.match(text)):
        rule = first["rule"]
    if not rule and (last := _RULE_LAST.search(text[-120:])):
        rule = last["rule"] or last["bare"]
    return text.strip(), grade, rule


def find(line: str) -> SourceLocation | None:
    """Return the location a whole line reports, or None."""
    for needle, shape in SHAPES:
        match = shape.match(line) if needle in line else None
        if match and is_path(clean(match["file"])):
            return _place(match)
    return None


def _place(match: re.Match[str]) -> SourceLocation:
    parts = match.groupdict()
    line_grade = report_builder.severity(parts["grade"]) if parts.get("grade") else None
    message, grade, rule = described(parts.get("message") or "", line_grade)
    return SourceLocation(
        clean(parts["file"]),
        int(parts["line"]) if parts.get("line") else None,
        int(parts["column"]) if parts.get("column") else None,
        message,
        grade,
        parts.get("rule") or rule,
    )


def clean(file: str) -> str:
    return file.strip().rstrip(",").strip("\"'`").removeprefix("file://")


def embedded(line: str) -> SourceLocation | None:
    """Return the location inside a line, if the words before it report a problem."""
    if ":" not in line or _LED_OUT.match(line):
        return None
    match = EMBEDDED.search(line)
    if not match or not is_path(match["file"]) or not _LED_BY.search(line[: match.start("file")]):
        return None
    rest = line[match.end() :].lstrip(" :,)]")
    before = line[: match.start("file")].strip(" [(-")
    message, grade, rule = described(rest or before)
    return SourceLocation(clean(match["file"]), int(match["line"]), _column(match), message, grade, rule)


def pointer(line: str) -> SourceLocation | None:
    """Return a location that belongs to the message on the line above, or None."""
    match = _ARROW.match(line)
    if not match or not is_path(match["file"]):
        return None
    return SourceLocation(clean(match["file"]), int(match["line"]), _column(match), line[match.end() :].strip(" ]:,"))


def _column(match: re.Match[str]) -> int | None:
    return int(match["column"]) if match["column"] else None
