"""One diagnosis rule: a complete line that a tool writes, and its meaning. Patterns run in linear time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import re2
from pydantic import BaseModel, ConfigDict, Field

from reflectloop.diagnosis.failure_record import KINDS, Category, Diagnosis, Needs, ToolErrorType
from reflectloop.system.patterns import lazy

# Placeholders that keep patterns readable. Each may use those after it.
WORDS = {
    # The beginning of a diagnostic: a level, or the name of a tool or of an error.
    "<SAYS>": r"(?:<LEVEL>?<TOOL>+|<LEVEL>|<ERROR>: ?|(?:.+: )?(?:Os|Custom|Error) \{ )",
    "<TOOL>": r"(?:(?:line )?[\w./+@~-]+(?:\[\d+\])?(?: \([\w ]+\))?: )",
    "<LEVEL>": (
        r"(?:\[?(?:[Ee]rror|ERROR|[Ff]atal|FATAL|CRITICAL|WARNING|[Ww]arning)"
        r"(?:\[[\w-]+\])?(?: [A-Z]+\d+)?\]?:? )"
    ),
    "<ERROR>": (
        r"(?:(?:[\w$]+\.)*(?:_?[A-Z]\w*)?"
        r"(?:[Ee]rror|Exception|Warning|Timeout|Expired|Refused|Rejected|Failure)\w*)"
    ),
    "<PLACE>": r"(?:[^\s:]+:\d+(?::\d+)?: )",
    "<Q>": r"['\"‘’“”`]",
}
# The forms in which clients report an HTTP status; CODE is the status.
_STATUS = lazy(r"<STATUS ([\d|\[\]-]+)>")
_BAD = r"(?i:error|fail|fatal|unable|could not|cannot|exception)"
_NAMED = r"(?i:status(?: ?code)?|error code|got|http(?: error)?|response(?: code)?|return code is|returned(?: error)?)"
_TELLS_STATUS = (
    r"(?:curl|wget): .*(?:error|ERROR)[: ]{1,2}CODE\b.*"
    r"|(?:ERROR|WARNING:|ERROR:) CODE(?:: .*| (?:Client |Server )?Error.*)"
    r"|(?:HTTP request sent, )?awaiting response\.\.\. CODE .*"
    r"|.*\bHTTP [Ee]rror(?: code)?:? CODE\b.*"
    r"|.*\((?:HTTP|status:?|code:?) CODE\).*"
    r"|.*\(CODE [A-Z][A-Za-z ]+\) for url.*"
    rf"|.*{_BAD}.*{_NAMED}[:=, ]{{1,3}}\(?CODE\b.*"
    r"|.*(?:Client|Server) [Ee]rror:? ['‘]?CODE\b.*"
    r"|.*Error: CODE (?:Client|Server) Error\b.*"
    r"|CODE [A-Z][A-Za-z ]+ - (?:GET|PUT|POST|HEAD|PATCH|DELETE) .*"
    r"|code ECODE"
    r"|.*(?:reading|[Ff]etch\w*|[Dd]ownload\w*|GET|Get|POST|Post) .*: CODE [A-Z][A-Za-z ]+"
    r"|<ERROR>: (?:HTTP CODE\b.*|CODE [A-Z][A-Za-z ]+)"
)
_HOLE = lazy(r"\{(\w+)\}")
_PLAIN_WORD = lazy(r"[\w@][\w.@/:+-]{0,120}")
_LONGEST = 160
# The text of an assertion is only about what it asserts.
_ASSERTED = lazy(r"(?:[\w$]+\.)*\w*(?:Assert|Comparison|Expectation)\w*(?:Error|Exception|Failure|Failed)\b|assert ")


class DiagnosisRuleEntry(BaseModel):
    """One rule as it is written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    category: Category
    line: str | Annotated[tuple[str, ...], Field(min_length=1)]
    cause: Annotated[str, Field(min_length=1)]
    suggestion: Annotated[str, Field(min_length=1)]
    next: str | None = None
    needs: Needs | None = None
    tool_error: ToolErrorType | None = None
    transient: bool | None = None
    rank: Annotated[int, Field(ge=1, le=9)] = 5  # of two matching rules, the lower rank is the cause
    match: Annotated[tuple[str, ...], Field(min_length=1)]
    not_match: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(spelled(pattern) for pattern in ((self.line,) if isinstance(self.line, str) else self.line))

    @property
    def need(self) -> Needs:
        return self.needs or KINDS[self.category].needs

    @property
    def tool_error_type(self) -> ToolErrorType | None:
        return self.tool_error or KINDS[self.category].tool_error

    @property
    def passes(self) -> bool:
        """True if the failure may disappear without any change."""
        return KINDS[self.category].transient if self.transient is None else self.transient


class RuleMatch(NamedTuple):
    """A rule that matched a line."""

    rule: DiagnosisRuleEntry
    line: str
    named: dict[str, str]

    @property
    def diagnosis(self) -> Diagnosis:
        return Diagnosis(
            rule=self.rule.id,
            root_cause=self._filled(self.rule.cause),
            suggestion=self._filled(self.rule.suggestion),
            next_command=self._command(),
            line=self.line[:600],
        )

    def _filled(self, text: str) -> str:
        values = {"line": self.line.strip(), **self.named}
        return _HOLE.sub(lambda hole: values.get(hole[1], "")[:_LONGEST] or "it", text)

    def _command(self) -> str | None:
        """Return the rule's command, or None if a value from the log is more than a plain shell word."""
        wanted = _HOLE.findall(self.rule.next or "")
        if not all(is_word(self.named.get(name, "")) for name in wanted):
            return None
        return self._filled(self.rule.next) if self.rule.next else None


def is_word(text: str) -> bool:
    """Return True if a shell would read this as a single plain word."""
    return bool(_PLAIN_WORD.fullmatch(text))


def spelled(pattern: str) -> str:
    """Return the full pattern, with placeholders expanded."""
    pattern = _STATUS.sub(lambda match: f"(?:{_TELLS_STATUS})".replace("CODE", f"(?:{match[1]})"), pattern)
    for word, meaning in WORDS.items():
        pattern = pattern.replace(word, meaning)
    return f"^(?:{pattern})$"


def asserts(line: str) -> bool:
    return bool(_ASSERTED.match(line))


class Rules:
    """A set of rules: one filter pass finds candidates, and their patterns decide."""

    def __init__(self, entries: Iterable[DiagnosisRuleEntry]) -> None:
        options = re2.Options()
        options.log_errors = False
        self.entries = tuple(entries)
        self._owners: list[DiagnosisRuleEntry] = []
        self._filter = re2.Filter()
        for entry in self.entries:
            for pattern in entry.patterns:
                self._filter.Add(pattern, options)
                self._owners.append(entry)
        if self._owners:
            self._filter.Compile()

    def hits(self, line: str) -> list[RuleMatch]:
        """Return every rule that matches this complete line."""
        if not self._owners or not line:
            return []
        candidates = self._filter.Match(line.encode("utf-8", "replace")) or ()
        hits = [self._hit(number, line) for number in sorted(candidates)]
        return [hit for hit in hits if hit.rule.category == "LOGIC"] if hits and asserts(line) else hits

    def _hit(self, number: int, line: str) -> RuleMatch:
        matched = self._filter.re(number).search(line)
        named = matched.groupdict() if matched else {}
        return RuleMatch(self._owners[number], line, {name: value for name, value in named.items() if value})
