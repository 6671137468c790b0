"""The facts that a decision needs: a task as its journal has it, what was done about it, and the limits of a night."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class Standing(StrEnum):
    """The need of a task: a session, a person, or nothing."""

    QUEUED = "queued"  # it was submitted, and no task is open for it yet
    UNFINISHED = "unfinished"  # a session would continue it
    UNANSWERED = "unanswered"  # an agent did not answer: a session may try again later
    TO_LAND = "to land"  # proven, and waits for its turn on the branch
    WORKING = "working"  # an engine works on it
    ASKS = "asks"  # a person must answer, approve or resume
    WAITS = "waits"  # for another task
    HELD = "held"  # by a task that failed
    STOPPED = "stopped"  # the project is locked until a person unlocks it
    PROVEN = "proven"
    APPLIED = "applied"
    FAILED = "failed"
    ABORTED = "aborted"

    @property
    def wants_session(self) -> bool:
        return self in _WANTING

    @property
    def is_over(self) -> bool:
        return self in _OVER

    @property
    def succeeded(self) -> bool:
        return self in (Standing.PROVEN, Standing.APPLIED)


_WANTING = frozenset((Standing.QUEUED, Standing.UNFINISHED, Standing.UNANSWERED, Standing.TO_LAND))
_OVER = frozenset((Standing.PROVEN, Standing.APPLIED, Standing.FAILED, Standing.ABORTED))


class TaskView(NamedTuple):
    """One task or submission. `position` differs after every advance, retry and answer."""

    entry: str  # the submission's id, else the task's
    project: str
    standing: Standing
    position: str
    title: str = ""
    reason: str = ""  # the question, or why it failed
    next_command: str = ""  # for a person
    priority: int = 0
    number: int = 0  # the order of submission
    after: tuple[str, ...] = ()  # keys of tasks that must succeed before
    task_id: str = ""
    run_id: str = ""
    step_id: str = ""
    words: tuple[str, ...] = ()  # the command of its next session


class Acknowledgement(NamedTuple):
    """The last session of a task and how it ended."""

    position: str = ""  # at which the session was started
    sessions: int = 0  # in a row that ended without an advance
    waits_s: float = 0.0  # until the next one
    ended: str = ""  # wall clock, for a person and for a restart
    code: str = ""  # how the last one ended
    reason: str = ""
    notified: str = ""  # the standing and position that a person was told
    left_at: str = ""  # the position at which the session ended
    next_step: str = ""  # for a person, as the last session named it


class Limits(NamedTuple):
    """The limits of one night; None means no limit."""

    until: datetime | None = None
    cost_usd: float | None = None
    hours: float | None = None
    jobs: int = 1
    cooldown_s: float = 20.0


class Spending(NamedTuple):
    """The use of the night so far, over all projects."""

    usd: float = 0.0
    unpriced: int = 0  # calls of unknown price
    hours: float = 0.0
