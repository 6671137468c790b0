"""Result types shared by all tools: results of checks, and findings about a patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from reflectloop.config import Service
from reflectloop.verification import changed_file

Kind = Literal["test", "lint", "type", "build", "custom"]
Type = Literal[
    "passed",
    "test_failure",
    "collection_error",
    "build_failure",
    "lint",
    "type_error",
    "no_tests",
    "tool_missing",
    "timeout",
    "crashed",
    "unknown_project",
    "tampered",
]
# A new kind of check is added here: its place in the order, what its failure is called, and how it is judged.
KIND_ORDER: tuple[Kind, ...] = ("build", "lint", "type", "test", "custom")
FAILURES: dict[Kind, Type] = {"lint": "lint", "type": "type_error", "build": "build_failure"}
PROBED = "probed "  # how the remarks begin that say how many functions were probed
FINDING_KINDS: frozenset[Kind] = frozenset({"lint", "type"})  # judged by their findings; the others by their outcome
Outcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]
RED: frozenset[Outcome] = frozenset(("failed", "error"))  # outcomes of tests that do not pass


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Detail(_Value):
    """One problem a tool reported."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    error: str = ""
    context: str | None = None
    rule: str | None = None
    severity: Literal["error", "warning", "info"] = "error"
    test: str | None = None  # id of the failed test


class Counts(_Value):
    """The number of tests per outcome."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    xfailed: int = 0


class VerificationResult(_Value):
    """The result of one check, in the same form for every tool."""

    ok: bool
    type: Type
    summary: str
    details: tuple[Detail, ...] = ()
    suggestion: str = ""
    kind: Kind = "custom"
    tool: str | None = None
    command: tuple[str, ...] = ()
    exit_code: int | None = None
    duration_ms: int = 0
    counts: Counts = Counts()
    tests: dict[str, Outcome] = {}
    log_path: str | None = None
    observed: bool = False  # True if the outcomes were seen as they happened
    oddities: dict[str, str] = {}  # what an untouched runner does not do, as text by its key


class ReportReading(NamedTuple):
    """The content of a report or a log, before it is judged with the exit code."""

    tool: str
    kind: Kind
    details: tuple[Detail, ...] = ()
    counts: Counts | None = None  # None if the format does not count tests
    tests: Mapping[str, Outcome] = {}
    collected: bool = True  # False if the tool could not collect its tests


Grade = Literal["weakening", "suspect", "note"]


class TamperFinding(NamedTuple):
    """Something a patch did to the tests or settings that judge it."""

    rule: str
    path: str
    line: int | None
    what: str  # description for a reviewer
    grade: Grade = "weakening"  # the first two never allow a PASS
    details: tuple[str, ...] = ()  # lines that were removed and added, marked - and +


ChangedFile = changed_file.ChangedFile


class DetectedCheck(NamedTuple):
    """A check that a project has, and why it was detected."""

    name: str
    kind: Kind
    tool: str
    command: tuple[str, ...]
    cwd: str = "."
    reason: str = ""
    service: Service | None = None

    def relative(self, path: str) -> str:
        """Return a path of the project as the check, which runs in its own folder, names it."""
        return path if self.cwd in (".", "") else path.removeprefix(f"{self.cwd.rstrip('/')}/")
