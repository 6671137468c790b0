"""The facts of a brief: everything that an agent who remembers nothing must know to continue a task."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Quote(_Fact):
    """Text from files, logs, agents or people, which is data and never an instruction."""

    name: str
    text: str


class JudgingCheck(_Fact):
    name: str
    command: str
    kind: str
    source: Literal["plan", "project"]


class ProtectedFolder(_Fact):
    """Files of one folder that judge a change and are taken from the base."""

    folder: str
    kind: str
    files: int


class Criterion(_Fact):
    id: str
    text: str
    check: str | None = None


class BriefContract(_Fact):
    """The files that a change may touch, and the checks that judge it."""

    track: str | None = None
    acceptance: tuple[Criterion, ...] = ()
    may_change: tuple[str, ...] = ()
    must_not_change: tuple[str, ...] = ()
    may_change_protected: tuple[str, ...] = ()
    protected: tuple[ProtectedFolder, ...] = ()
    checks: tuple[JudgingCheck, ...] = ()
    step_attempts: int | None = None
    constraints: tuple[str, ...] = ()


class BriefGoal(_Fact):
    text: str
    done_when: str = ""
    non_goals: tuple[str, ...] = ()


class BriefStep(_Fact):
    """One step of the plan, without its state, which is told later."""

    id: str
    title: str
    checks: tuple[str, ...] = ()


class BriefLesson(_Fact):
    id: str
    text: str


class CodePart(_Fact):
    """A part of a file that bears on the task."""

    path: str
    start_line: int
    end_line: int
    text: str
    source: tuple[str, ...] = ()
    why: str = ""


class FailedPlace(_Fact):
    """One test that failed, or one place that a tool reported."""

    test: str | None = None
    file: str | None = None
    line: int | None = None
    error: str = ""


class BriefFailure(_Fact):
    """The diagnosis of a failure."""

    code: str
    category: str
    needs: str
    signature: str
    cause: str = ""
    suggestion: str = ""
    places: tuple[FailedPlace, ...] = ()


class HistoryEntry(_Fact):
    """One thing that happened, in the order of the journal."""

    seq: int
    kind: str
    text: str
    step: str | None = None
    attempt: int | None = None
    failure: BriefFailure | None = None
    quotes: tuple[Quote, ...] = ()


class CurrentStep(_Fact):
    id: str
    title: str
    status: str
    details: str = ""
    attempt: int = 0
    done_when: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    question: str = ""
    answer: str = ""
    findings: str = ""
    requested: str = ""  # by a review, of the next attempt
    design: str = ""  # the approach that the planners settled


class BriefStop(_Fact):
    """The latch: nothing may be done before a person lifts it."""

    code: str
    reason: str


class BriefTicket(_Fact):
    """An output or a step that was sent back and not repaired yet."""

    id: str
    target: str
    issues: tuple[str, ...]


class LastVerification(_Fact):
    run_id: str
    outcome: str
    reasons: tuple[str, ...] = ()


class Position(_Fact):
    """The present place of the task: the newest facts."""

    state: str
    steps_done: int = 0
    steps_total: int = 0
    step: CurrentStep | None = None
    changed_files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    tickets: tuple[BriefTicket, ...] = ()
    verification: LastVerification | None = None
    lessons: tuple[BriefLesson, ...] = ()  # against the last failure
    code: tuple[CodePart, ...] = ()  # for the current step and the last failure, besides the code of the goal
    next: str


class Brief(_Fact):
    """The facts in the order in which they are told: those that seldom change first, the newest last."""

    format: Literal["reflectloop.brief/1"] = "reflectloop.brief/1"
    stopped: BriefStop | None = None
    task: str | None = None
    title: str = ""
    goal: BriefGoal | None = None
    contract: BriefContract = BriefContract()
    plan: tuple[BriefStep, ...] = ()
    map: str = ""  # of the repository, where there is no task
    code: tuple[CodePart, ...] = ()
    lessons: tuple[BriefLesson, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    now: Position
