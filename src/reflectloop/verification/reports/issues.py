"""Read errors and warnings from any log: lines with a location, rows under a file name, pointers under a message."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reflectloop.system.patterns import lazy
from reflectloop.verification.reports import locations, report_builder
from reflectloop.verification.reports.locations import SourceLocation
from reflectloop.verification.reports.report_builder import Severity
from reflectloop.verification.result import Detail

_CONTEXT = 6
_AFTER_HEADER = 400  # lines after a file name to which the name applies
_LONGEST_HEADER, _MOST_WORDS = 300, 10
_MAY_NAME_PLACE = lazy(
    r"[:(\[|\t,] *\d|\d[:|]|^\s*L?\d|line \d|\", ?\d|format|rror|arn|line=|ERR|WARN"
)  # a cheap test before the expensive patterns

_PREFIX = lazy(
    r"^\s*(?:\d{4}-\d\d-\d\d[T ])?(?:\d{1,2}:\d\d:\d\d(?:[.,]\d+)?Z?\s+)?(?:\d+(?::\d+)?>)?\s*"
    r"(?:\d\d:\d\d\s+(?=\[))?(?:\[(?!(?:error|warn|warning|info|debug|fatal|note)\])[a-z]\w{1,15}\]\s+)?"
)
_LEVEL = lazy(
    r"^(?P<level>\[(?:error|warn|warning|info|debug|fatal|note)\] |"
    r"(?:error|warning|warn|info|fatal|note|fatal error|[we])(?:\[\w+\])?: ?(?=\S)|"
    r"(?:PHP )?(?:Parse error|Fatal error|Warning|Notice|Deprecated): +)",
    re.IGNORECASE,
)
_KIND_FIRST = lazy(r"^(?P<word>[A-Z][\w -]{2,24}(?:\(\w+\))?): (?=\S+, line \d)")
_ROW = lazy(
    r"^\s*(?:[⚡✗✖⚠×] *)?#?(?:L(?:ine)?:? *|(?:Error|Warning) (?:on|at|in) line |│ *)?(?P<line>\d{1,7})"
    r"(?: *[:,|│]+ *(?:P(?:os)?: *|col(?:umn)?:? *)?(?P<column>\d{1,6})\b)?(?:-\d{1,7}(?::\d{1,6})?)?"
    r"\s*(?:[:,|│]\s*|\s)\s*(?P<message>\S.*)$"
)
_HEADER = lazy(
    r"^(?:[-=]{2,} *)?(?:(?:File|FILE|In|Module|Checking|Linting|Line)\s*:?\s+|\[|\*+ ?|>+ ?|#+ |[✖✘×✗⚡●┌╭]\s*)?"
    r"(?P<file>[^\t\"'|]{1,300}?)"
    r"(?:\] \w+|:|\s+[-=]{3,}|\s+--? .{0,60}|\s+line \d+:|\s+\(\d+ \w+\))?\s*$"
)
_CODE_ROW = lazy(r"^\s*(?:>\s*)?\d+\s*[|│┃](?!\s*(?:ERROR|WARNING|INFO|error|warning)\s*[|│])")
_SUMMED_UP = lazy(r"^\s*\d+ (?:errors?|warnings?|problems?|issues?|files?|offenses?|tests?|specs?)(?: [a-z]|,|\.?$)")
_FILE_ONLY = lazy(
    r"^(?P<first>would reformat|error: cannot format|cannot format|Would reformat:|unformatted:?|not formatted:?|"
    r"ERROR:|\[(?:error|warn)\]|error:|warning:|Diff in|Incorrectly formatted:?|"
    r"CMake (?:Warning|Error)(?: \(dev\))? in) "
    r"(?P<file>\S+?)(?P<colon>:?)(?:\s+(?P<message>\S.*))?$"
)
_WITHIN = lazy(r"(?:^|\s)(?P<line>\d{1,6}):(?P<column>\d{1,5}): ")
_STACK = lazy(r"^\s+at .*\(|^\s+at [\w.$<>/]+\(|^\s*from \S+:\d+:in |^\s+File \"")
_TRACEBACK = "Traceback (most recent call last):"


class IssueReader:
    """A single pass over the lines of a log, collecting locations."""

    def __init__(self) -> None:
        self._header: str | None = None
        self._header_at = -_AFTER_HEADER
        self._message = ""  # the last line without a location
        self.found: list[tuple[int, SourceLocation]] = []

    def go(self, lines: list[str]) -> None:
        skipped_to = -1
        for number, line in enumerate(lines):
            if number < skipped_to or not line or line.count(locations.UNREADABLE) > _MOST_UNREADABLE:
                continue
            if line.endswith(_TRACEBACK):
                skipped_to = self._traceback(lines, number)
            elif not self._take(number, line):
                self._remember(line)

    def _take(self, number: int, line: str) -> bool:
        if not _MAY_NAME_PLACE.search(line):
            return self._look_for_header(number, line)
        if _STACK.match(line):
            return True
        place = locations.pointer(line)
        if place:
            return self._pointed(number, line, place)
        place = self._full_line(line) or self._row(number, line)
        if place is None and (place := locations.embedded(line)) is None:
            return self._look_for_header(number, line)
        self.found.append((number, place))
        return True

    def _pointed(self, number: int, line: str, place: SourceLocation) -> bool:
        if self._message:
            message, grade, rule = locations.described(self._message)
            place = place._replace(message=message, grade=grade, rule=rule)
            self._message = ""
            self.found.append((number, place))
        elif not line[:1].isspace():
            self.found.append((number, place))
        return True

    def _full_line(self, line: str) -> SourceLocation | None:
        level, rest = _without_prefix(line)
        place = _file_only(rest) or locations.find(rest)
        if place is None and level:
            place = _file_only(line.strip())
        if place is not None and place.grade is None and level:
            place = place._replace(grade=level)
        return place

    def _row(self, number: int, line: str) -> SourceLocation | None:
        """Return the location in a row under a file name, or None."""
        if self._header is None or number - self._header_at > _AFTER_HEADER or _CODE_ROW.match(line):
            return None
        match = _ROW.match(line)
        if not match or _SUMMED_UP.match(line) or not (line[0] in " \tLEW" or match["column"] or "|" in line):
            return None
        self._header_at = number
        message, grade, rule = locations.described(match["message"].lstrip("|│ "))
        column = int(match["column"]) if match["column"] else None
        return SourceLocation(self._header, int(match["line"]), column, message, grade, rule)

    def _look_for_header(self, number: int, line: str) -> bool:
        text = line.strip()
        if len(text) > _LONGEST_HEADER or text.count(" ") > _MOST_WORDS:
            return False
        match = _HEADER.match(text)
        if not match or not locations.is_path(match["file"]) or text.endswith(("...", ".")):
            return False
        self._header, self._header_at = locations.clean(match["file"]), number
        return True

    def _remember(self, line: str) -> None:
        if not _CODE_ROW.match(line) and line.strip(" |^~-=."):
            self._message = line.strip()

    def _traceback(self, lines: list[str], start: int) -> int:
        """Add the innermost frame of a Python traceback, and return the index of the line after it."""
        frame, number = None, start + 1
        while number < len(lines) and (not lines[number] or lines[number][:1] in " \t"):
            place = locations.find(lines[number].strip()) if 'File "' in lines[number] else None
            frame = place or frame
            number += 1
        message = lines[number].strip() if number < len(lines) else "Traceback"
        if frame:
            self.found.append((number, frame._replace(message=message, grade="error", rule=message.split(":")[0])))
        return number + 1


def _without_prefix(line: str) -> tuple[Severity | None, str]:
    rest = line[_PREFIX.match(line).end() :]  # type: ignore[union-attr]
    match = _LEVEL.match(rest)
    if not match:
        kind = _KIND_FIRST.match(rest)
        return (
            (report_builder.severity(kind["word"].lower(), "warning"), rest[kind.end() :])
            if kind
            else (None, rest.strip())
        )
    word = re.sub(r"[\[\]:]|PHP ", "", match["level"]).strip()
    return report_builder.severity(word), rest[match.end() :].strip()


def _file_only(line: str) -> SourceLocation | None:
    """Return the location of a message about a file as a whole, or None."""
    match = _FILE_ONLY.match(line)
    if not match or not locations.is_path(match["file"]):
        return None
    message = match["message"] or ("" if match["first"].startswith("[") else match["first"])
    within = _WITHIN.search(message)
    if match["file"].rpartition(":")[2].isdecimal():
        return None
    return SourceLocation(
        locations.clean(match["file"]),
        int(within["line"]) if within else None,
        int(within["column"]) if within else None,
        message,
    )


_MOST_UNREADABLE = 4  # letters that were no text in a line that is still read


def details(lines: list[str], default: Severity = "error") -> list[Detail]:
    """Return the errors and warnings that name a location."""
    reader = IssueReader()
    reader.go(lines)
    return list(_details_of(reader.found[: report_builder.MOST_DETAILS], lines, default))


_BARE = lazy(
    r"^(?:[\w./\\+-]+ ?: )?(?:(?:fatal|internal|compilation|build|command line) )?error(?: [A-Z]{1,6}\d+| ?\[\w+\])?"
    r"(?: in \S+)?!?: (?!0 errors?\b|no errors?\b|none\b)(?P<message>\S.*)$|"
    r"^npm (?:ERR!|error) (?P<npm>(?!code |A complete|path |errno ).+)$|"
    r"^(?:.*/)?(?:ld|ld\.lld|ld\.gold|clang|link)(?:\.exe)?: (?P<linker>(?!warning|.*: in function ).+)$|"
    r"^.*(?P<undefined>undefined reference to .+)$|"
    r"^\[ERROR\] (?P<maven>(?!\[Help|For more|To see|Re-run|->|After corr|mvn ).+)$",
    re.IGNORECASE,
)
_MOST_BARE = 20


def without_place(lines: list[str]) -> list[Detail]:
    """Return errors that name no location; used when no located error exists."""
    errors = [(line, match) for line in lines if (match := _BARE.match(line[:600].strip()))]
    return [
        report_builder.detail(next(part for part in match.groups() if part), context=line)
        for line, match in errors[:_MOST_BARE]
    ]


def _details_of(located: list[tuple[int, SourceLocation]], lines: list[str], default: Severity) -> Iterator[Detail]:
    ends = [number for number, _ in located[1:]] + [len(lines)]
    for (number, place), end in zip(located, ends, strict=False):
        after = lines[number + 1 : min(end, number + 1 + _CONTEXT)]
        if "" in after:
            after = after[: after.index("")]
        message = place.message
        if not message or message.endswith(":"):
            message = f"{message} {after[0].strip()}".strip() if after else message
        yield report_builder.detail(
            message or lines[number].strip(),
            file=place.file,
            line=place.line,
            column=place.column,
            context="\n".join([lines[number], *after]),
            rule=place.rule,
            grade=place.grade or default,
        )
