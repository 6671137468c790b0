"""Decides what comes next from what should happen and what was acknowledged. Pure: it is told the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from reflectloop.autoloop.task_view import Acknowledgement, Limits, Spending, Standing, TaskView

MOST_SESSIONS = 3  # in a row without an advance, before a person is told
_TOLD = (Standing.ASKS, Standing.HELD, Standing.STOPPED, Standing.FAILED, Standing.ABORTED, Standing.PROVEN)
# A session that ended so met a limit or a fault outside of the task: it is tried again for as long as the night lasts.
PATIENT = frozenset(("AGENT_FAILED", "NO_SPACE", "LOCKED", "INTERRUPTED"))

# It is tried again all night, but a person may be able to do something about it.
_WORTH_TELLING = ("AGENT_FAILED", "NO_SPACE")


class Clocks(NamedTuple):
    """The time: monotonic for waiting, the wall clock only for the end of the night."""

    monotonic: float
    wall: datetime


class Situation(NamedTuple):
    """All that a decision is made from. Times in `ready` and `started` are monotonic."""

    views: Sequence[TaskView]
    acknowledged: Mapping[str, Acknowledgement] = {}
    ready: Mapping[str, float] = {}  # by key: when a task may have its next session
    started: Mapping[str, float] = {}  # by key: when its last session of this daemon was started
    served: Mapping[str, int] = {}  # by project: sessions so far
    busy: frozenset[str] = frozenset()  # projects in which a session or another engine works
    running: int = 0  # sessions of ours
    working: frozenset[str] = frozenset()  # entries that they work on: nobody is told of them before they end
    limits: Limits = Limits()
    spending: Spending = Spending()


class Notice(NamedTuple):
    """A message for a person, given once for each standing of a task."""

    view: TaskView
    text: str
    mark: str  # a notice with the same one is not given again


class NextAction(NamedTuple):
    """The decision: at most one session to start, the messages, and how long nothing else is due."""

    start: TaskView | None = None
    reason: str = ""
    notices: tuple[Notice, ...] = ()
    wait_s: float | None = None  # None: until something changes
    over: str = ""  # why the night is over
    idle: bool = False  # nothing is left to wait for but a person


def decide(situation: Situation, now: Clocks) -> NextAction:
    """Return the next action. The same situation and time always give the same action."""
    views = with_dependencies(situation.views)
    notices = tuple(_notices(situation, views))
    over = end_of_night(situation, now)
    if over:
        return NextAction(notices=notices, over=over)
    wanting = [view for view in views if view.standing.wants_session and not _is_stuck(situation, view)]
    until = {view.entry: _ready_at(situation, view) for view in wanting}
    free = [view for view in wanting if view.project not in situation.busy and until[view.entry] <= now.monotonic]
    if free and situation.running < situation.limits.jobs:
        view = min(free, key=lambda view: _rank(situation, view))
        return NextAction(view, _why(situation, view), notices, 0.0)
    waits = [until[view.entry] - now.monotonic for view in wanting if until[view.entry] > now.monotonic]
    waits += _until_end(situation, now)
    idle = not wanting and not situation.running and not situation.busy
    return NextAction(notices=notices, wait_s=min(waits, default=None), idle=idle)


def end_of_night(situation: Situation, now: Clocks) -> str:
    """Return why nothing more is started, or nothing."""
    limits, spending = situation.limits, situation.spending
    if limits.until is not None and now.wall >= limits.until:
        return f"it is past {limits.until:%Y-%m-%d %H:%M} UTC"
    if limits.hours is not None and spending.hours >= limits.hours:
        return f"{limits.hours:g} hours are over"
    if limits.cost_usd is not None and spending.unpriced:
        return f"{spending.unpriced} call(s) of unknown price were made, and the limit is in money"
    if limits.cost_usd is not None and spending.usd >= limits.cost_usd:
        return f"{spending.usd:.4f} of {limits.cost_usd:g} USD are spent"
    return ""


def with_dependencies(views: Sequence[TaskView]) -> list[TaskView]:
    """Return the views, with those that wait for another task marked; a failed one holds its dependants by name."""
    known = {view.entry: view for view in views} | {view.task_id: view for view in views if view.task_id}
    held: dict[str, str] = {}
    for view in sorted(views, key=lambda view: view.number):
        for name in view.after:
            other = known.get(name)
            if other is None or other.number >= view.number or _is_lost(other, held):
                held[view.entry] = name
                break
    return [_with_dependency(view, known, held) for view in views]


def _is_lost(other: TaskView, held: Mapping[str, str]) -> bool:
    return other.entry in held or (other.standing.is_over and not other.standing.succeeded)


def _with_dependency(view: TaskView, known: Mapping[str, TaskView], held: Mapping[str, str]) -> TaskView:
    if view.standing is not Standing.QUEUED:
        return view
    if view.entry in held:
        other = known.get(held[view.entry])
        state = "is not known" if other is None else f"is {other.standing}"
        if other and other.number >= view.number:
            state = "was not submitted before it"
        elif other and other.entry in held:
            state = "is held itself"
        return view._replace(standing=Standing.HELD, reason=f"it comes after {held[view.entry]}, which {state}")
    waiting = [name for name in view.after if not known[name].standing.succeeded]
    if waiting:
        return view._replace(standing=Standing.WAITS, reason=f"it comes after {', '.join(waiting)}")
    return view


def _is_stuck(situation: Situation, view: TaskView) -> bool:
    """Return True if sessions end again and again where they began, and not for want of an agent or of space."""
    last = situation.acknowledged.get(view.entry, Acknowledgement())
    if last.position != view.position or last.code in PATIENT:
        return False
    return last.sessions >= MOST_SESSIONS or last.code in _HOPELESS


# Another session would end the same way.
_HOPELESS = frozenset(
    (
        "AGENT_UNAVAILABLE",  # a role is bound to no agent, or to one that is not installed or has no key
        "MISSING_PLAN",
        "INVALID_PLAN",
        "INVALID_INPUT",
        "UNSUPPORTED_REPOSITORY",
        "NOT_TRUSTED",
        "STATE_DAMAGED",
        "NOTHING_TO_DO",
        "LATCHED",
        "NEEDS_INPUT",
        "PAUSED",
        "APPLY_CONFLICT",
        "RECORDS_DISAGREE",
        "NOT_AUTHENTICATED",
    )
)


def _ready_at(situation: Situation, view: TaskView) -> float:
    """Return when a task may have its next session: after the cool-down, and after a failure's wait."""
    last = situation.acknowledged.get(view.entry, Acknowledgement())
    stays = last.position == view.position
    cooled = situation.started.get(view.entry, float("-inf")) + situation.limits.cooldown_s
    begun = view.standing in (Standing.UNFINISHED, Standing.UNANSWERED)
    waited = situation.ready.get(view.entry, float("-inf"))
    return waited if stays else cooled if begun else float("-inf")


def _rank(situation: Situation, view: TaskView) -> tuple[int, int, int, int]:
    """Return the order of tasks: priority, the project that had the fewest sessions, what was begun, submission."""
    begun = 0 if view.standing in (Standing.UNFINISHED, Standing.TO_LAND) else 1
    return (-view.priority, situation.served.get(view.project, 0), begun, view.number)


def _why(situation: Situation, view: TaskView) -> str:
    last = situation.acknowledged.get(view.entry, Acknowledgement())
    if not last.position:
        return f"it is {view.standing}"
    if last.position == view.position:
        return f"again after {last.code or 'an end without an answer'}"
    return "it advanced"


def _until_end(situation: Situation, now: Clocks) -> list[float]:
    limits = situation.limits
    waits = []
    if limits.until is not None:
        waits.append((limits.until - now.wall).total_seconds())
    if limits.hours is not None:
        waits.append((limits.hours - situation.spending.hours) * 3600)
    return [max(0.0, wait) for wait in waits]


def _notices(situation: Situation, views: Sequence[TaskView]) -> list[Notice]:
    out = []
    for view in views:
        if view.entry in situation.working:
            continue
        stuck = view.standing.wants_session and _is_stuck(situation, view)
        last = situation.acknowledged.get(view.entry, Acknowledgement())
        mark = f"{view.standing} {view.position}"
        if view.standing in _TOLD:
            text = _text(view)
        elif stuck:
            reason = f"{last.sessions} session(s) ended without an advance: {last.code or 'no answer'}: {last.reason}"
            text = ": ".join(filter(None, (view.title or view.entry, reason, last.next_step)))
        elif view.standing.wants_session and last.code in _WORTH_TELLING and last.sessions >= MOST_SESSIONS:
            reason = f"{last.sessions} sessions in a row ended with {last.code}, and it is tried again: {last.reason}"
            text, mark = f"{view.title or view.entry}: {reason}", "tried again"
        else:
            continue
        if last.notified != mark:
            out.append(Notice(view, text, mark))
    return out


def _text(view: TaskView) -> str:
    parts = [f"{view.title or view.entry} {_WORDS[view.standing]}", view.reason, view.next_command]
    return ": ".join(filter(None, parts))


_WORDS = {
    Standing.ASKS: "waits for a person",
    Standing.HELD: "cannot begin",
    Standing.STOPPED: "is stopped",
    Standing.FAILED: "failed",
    Standing.ABORTED: "is aborted",
    Standing.PROVEN: "is proven",
}
