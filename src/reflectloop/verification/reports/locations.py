"""Recognise the forms in which tools write a file, a line and a message."""

from __future__ import annotations

import re
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import report_builder
from reflectloop.verification.reports.report_builder import Severity

DRIVE = r"(?:[A-Za-z]:(?=[\\/]))?"
_NAME = rf"(?:file://)?{DRIVE}[^:\t\"'|]"
_FILE = rf"(?P<file>{_NAME}{{1,300}}|<\w{{1,20}}>)"
_LINE = r"(?P<line>\d{1,7})"
_NUMBERS = rf"{_LINE}(?:[:.,] ?(?P<column>\d{{1,6}}))?(?:\s?-\s?\d{{1,7}}(?:[:.,]\d{{1,6}})?)?"
_PAIR = rf"{_LINE}(?:[,:.] ?(?P<column>\d{{1,6}}))?(?:[-,:] ?\d{{1,7}}){{0,2}}"
_REST = r"(?P<message>.*)$"
_COLUMN = r"(?:(?:,|:)? ?(?:col(?:umn)?|character|char|position|pos)s?[:.]? ?(?P<column>\d{1,6})(?:-\d{1,6})?)?"

# A required substring, which rules out most lines cheaply, and the pattern. An example is above each.
_SHAPES = (
    # ::error file=a.py,line=3,col=5::message
    (
        "::",
        (
            rf"^::(?P<grade>error|warning|notice) (?:[^:,]*,)?file=(?P<file>[^,:]{{1,300}})(?:,line={_LINE})?"
            rf"(?:,\w+=(?P<column>\d{{1,6}}))?[^:]{{0,200}}::{_REST}"
        ),
    ),
    # ##vso[task.logissue type=error;sourcepath=a.py;linenumber=3;columnnumber=5;code=F401;]message
    (
        "##vso[",
        (
            rf"^##vso\[task\.logissue type=(?P<grade>\w+);sourcepath=(?P<file>[^;\]]{{1,300}});linenumber={_LINE}"
            rf"(?:;columnnumber=(?P<column>\d{{1,6}}))?(?:;code=(?P<rule>[^;\]]{{1,80}}))?[^\]]{{0,200}}\]{_REST}"
        ),
    ),
    # as a.c:3:5: message, a.c:3 message, a.ts:3:5 - error or a.f90:3.5-7:
    (":", rf"^{_FILE} ?:{_NUMBERS}(?P<sep>: ?| +-+ +| +|$){_REST}"),
    # A.java:[3,5] message    B.hs:(3,5)-(4,7): message
    (":", rf"^{_FILE}:[\[(]{_PAIR}[\])](?:-\(\d{{1,7}},\d{{1,6}}\))?:? *{_REST}"),
    # a.cs(3,5): error    a.pas(3) Hint:    a.kt: (3, 5): message
    ("(", rf"^{_FILE}(?:: )? ?\((?:line )?{_PAIR}\) ?(?::|(?=\s*[A-Za-z]))\s*{_REST}"),
    # in brackets: a.ts[3, 5]: message
    ("[", rf"^{_FILE}\[{_PAIR}\] ?: ?{_REST}"),
    # [a.go:3:5] message    [a.cpp:3]: (style) message
    ("[", rf"^\[{_FILE}:{_NUMBERS}\](?: ->.{{0,300}}\])?:? *-? *{_REST}"),
    # "a.c", line 3: message    File "a.ml", line 3, characters 5-7:
    ('"', rf"^(?:File )?\"(?P<file>[^\"\n]{{1,300}})\",? ?(?:line )?{_LINE}(?:-\d{{1,7}})?{_COLUMN}[:,]? *{_REST}"),
    # a.js: line 3, col 5, message    a.f90, line 3: message    In a.sh line 3:
    ("line", rf"^(?:In |on |at |File )?{_FILE}[,:]? ?(?:at |on )?line:? {_LINE}{_COLUMN}(?:[:,.]| -|$) *{_REST}"),
    # a.pl: message at line 3, column 5.    a.pp - WARNING: message on line 3
    (" line ", rf"^(?P<file>{_NAME}{{1,300}}?)(?:: | - )(?P<message>.{{1,600}}?) (?:at|on|in) line {_LINE}{_COLUMN}\b"),
    # message in a.php on line 3    message at a.pl line 3.
    (" line ", rf"^(?P<message>.{{1,600}}) (?:in|at) (?P<file>{DRIVE}[^:\t\"' ]{{1,300}}) (?:on )?line {_LINE}\b"),
    # a.rst: WARNING: message    a.py: error: message
    (":", rf"^{_FILE}::?(?:None:)? ?(?P<grade>(?i:error|warning|fatal error))(?:: |\[){_REST}"),
    # 1. ERROR in A.java (at line 3)
    ("(at line ", rf"^(?:\d+\. )?(?P<message>(?P<grade>ERROR|WARNING|INFO)) in {_FILE} \(at line {_LINE}\)$"),
    # INFO|HINT|UNUSED|a.dart|3|5|7|message
    (
        "|",
        (
            rf"^(?P<grade>\w{{1,12}})\|\w{{1,30}}\|(?P<rule>\w{{1,80}})\|(?P<file>[^|]{{1,300}})\|{_LINE}\|"
            rf"(?P<column>\d{{1,6}})\|\d*\|{_REST}"
        ),
    ),
    # warning file=/p/a.scala message=no line=3 column=5
    ("file=", rf"^(?P<grade>\w{{1,12}}) file=(?P<file>\S{{1,300}}) message=(?P<message>.{{0,600}}?) line={_LINE}\b"),
    # a.c|3 col 5| message
    ("|", rf"^(?P<file>[^|:\t]{{1,300}})\|{_LINE}(?: col (?P<column>\d{{1,6}}))?(?: \w+)?\| ?{_REST}"),
    # a.rb<TAB>3<TAB>message
    ("\t", rf"^(?P<file>[^\t]{{1,300}})\t{_LINE}\t(?:(?P<column>\d{{1,6}})\t)?{_REST}"),
)
SHAPES = tuple((needle, lazy(shape)) for needle, shape in _SHAPES)


class SourceLocation(NamedTuple):
    """A file, line and column with the message reported there."""

    file: str
    line: int | None
    column: int | None
    message: str
    grade: Severity | None = None
    rule: str | None = None


# A location inside a line: used only if the words before it report a problem.
EMBEDDED = lazy(
    rf"(?:^|[\s(\[])(?P<file>{DRIVE}[^\s:()\[\]\"'`|]{{1,300}}):(?P<line>\d{{1,7}})(?::(?P<column>\d{{1,6}}))?(?=[\s:,)\].]|$)"
)
_LED_BY = lazy(
    r"(?:\b(?:error|warning|fatal|fail(?:ed|ure)?|vet|location|issue)\b[^/]{0,160}|"
    r" (?:at|in|-)|^\[[A-Z]\][^/]{0,12}|^\*\* \(\w+\)|^\s*[-─┌╭,]+[─\[>]*|^Location:?)\s*$",
    re.IGNORECASE,
)
_ARROW = lazy(
    r"^\s*(?:-+>|[╭┌,]─*\[?|╭─+\[|┌─+|,-\[|at\s|on\s|Location:|┃\s+)\s*"
    rf"(?P<file>{DRIVE}[^\s:()\[\]\"'`|]{{1,300}})(?::| line )(?P<line>\d{{1,7}})(?::(?P<column>\d{{1,6}}))?\b"
)

_EXTENSION = lazy(r"\.[A-Za-z][\w+-]{0,14}$|\.[A-Za-z]\w{0,9}\.\w{1,6}$")
_BARE = lazy(
    r"^(?:\.[A-Za-z][\w.-]*|[A-Z][A-Za-z]*[Ff]ile|WORKSPACE|BUILD|README|LICENSE|SConstruct|configure|<\w+>|stdin)$"
)
_HOST = lazy(r"^[\w.-]+\.(?:com|org|net|io|local|localdomain|internal)$|^\d+(?:\.\d+)+$")
_MOMENT = lazy(r"\d{2,4}[/-]\d{1,2}[/-]\d{1,4}(?:[T ,]+\d{1,2})?$|^\d")
_CLASS = lazy(r"^[a-z]\w*(?:\.\w+){2,}$")
_CODE = lazy(r"[=;{}]|\s{2,}|\breturn\b|^\W*(?:from|at|in|on|to|and)\s")
_SPACED = lazy(r"^(?:\.{0,2}[/\\]|[A-Za-z]:[/\\]|[^\s/\\]+[/\\])")
_LED_OUT = lazy(
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


_KNOWN = lazy(
    r"\.(?:py|rb|erb|haml|slim|js|jsx|ts|tsx|mjs|cjs|vue|svelte|css|scss|less|html?|xml|ya?ml|json|toml|ini|cfg|conf|md|rst|txt|"
    r"go|rs|java|kt|kts|scala|groovy|gradle|c|h|cc|cpp|cxx|hpp|hh|m|mm|cs|fs|vb|swift|php|pl|pm|lua|ex|exs|erl|hs|ml|mli|clj|"
    r"cljs|dart|sh|bash|zsh|sql|proto|tf|nix|f|f90|pas|adb|ads|vim|r|R|jl|el|nim|zig|cr|d|v|sv|vhd|env|lock|pp|j2|spec|feature)$"
)

_GRADED = lazy(
    r"^(?:[\[(]?(?P<word>fatal error|syntax error|parse error|error|warning|warn|note|info|hint|suggestion|"
    r"remark|style|fatal|notice|critical|refactor|convention|performance|deprecated|[EWCIRFN](?=\]|: ))[\])]?)"
    r"(?: ?\[?(?P<rule>[A-Za-z]{1,12}-?\d{1,6}|[\w-]+/[\w/-]+)\]?)?(?P<end>\s*[:\]\-–]+\s*|\s+)",
    re.IGNORECASE,
)
_RULE_FIRST = lazy(r"^\[?(?P<rule>[A-Z]{1,8}-?\d{2,6}|[a-z]+[\w-]*/[\w/-]+|[A-Z]\w+/\w+)(?:\[\w+\])?\]?(?::| |$)\s*")
_RULE_LAST = lazy(
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
