"""What came of one check, in one shape whatever tool it was; and what a look at a patch found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from reflectloop.config import Service

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
]
Outcome = Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Detail(_Value):
    """One thing a tool complained about."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    error: str = ""
    context: str | None = None
    rule: str | None = None
    severity: Literal["error", "warning", "info"] = "error"
    test: str | None = None  # the id of the test it belongs to


class Counts(_Value):
    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    xfailed: int = 0


class VerificationResult(_Value):
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


class Reading(NamedTuple):
    """What a report or a log says, before an exit code is set beside it."""

    tool: str
    kind: Kind
    details: tuple[Detail, ...] = ()
    counts: Counts | None = None  # None where the format counts no tests
    tests: Mapping[str, Outcome] = {}
    collected: bool = True  # False where the tool could not even gather its tests


class Finding(NamedTuple):
    """Something a patch did to what judges it."""

    rule: str
    path: str
    line: int | None
    what: str  # in words a reviewer would use
    grade: Literal["weakening", "suspect", "note"] = "weakening"  # the first two are never a PASS


class Change(NamedTuple):
    """One file as it was and as the patch leaves it; None where it is not there."""

    path: str
    before: bytes | None
    after: bytes | None
    mode_before: str = "100644"
    mode_after: str = "100644"


class Detected(NamedTuple):
    """A check that a project has, and why we think so."""

    name: str
    kind: Kind
    tool: str
    command: tuple[str, ...]
    cwd: str = "."
    reason: str = ""
    service: Service | None = None
