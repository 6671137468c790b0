"""The states of a task and the allowed moves between them; pure."""

from __future__ import annotations

from enum import StrEnum


class TaskState(StrEnum):
    __hash__ = str.__hash__  # that of an enumeration is written in Python, and a journal asks for it at every event

    IDLE = "IDLE"
    INTAKE = "INTAKE"
    CONTEXT = "CONTEXT"
    PLANNING = "PLANNING"
    EXECUTING = "EXECUTING"
    VERIFYING = "VERIFYING"
    INSIGHT = "INSIGHT"
    STORING = "STORING"
    FINAL_REVIEW = "FINAL_REVIEW"
    DONE = "DONE"
    RECOVERING = "RECOVERING"
    BLOCKED = "BLOCKED"
    LATCHED = "LATCHED"
    PAUSED = "PAUSED"
    ABORTED = "ABORTED"


_S = TaskState
_MOVES: dict[TaskState, tuple[TaskState, ...]] = {
    _S.IDLE: (_S.INTAKE,),
    _S.INTAKE: (_S.CONTEXT,),
    _S.CONTEXT: (_S.PLANNING,),
    _S.PLANNING: (_S.EXECUTING,),
    _S.EXECUTING: (_S.VERIFYING, _S.RECOVERING, _S.BLOCKED, _S.PLANNING),
    _S.VERIFYING: (_S.INSIGHT, _S.STORING, _S.RECOVERING, _S.EXECUTING),
    _S.INSIGHT: (_S.STORING, _S.VERIFYING),
    _S.STORING: (_S.EXECUTING, _S.FINAL_REVIEW),
    _S.FINAL_REVIEW: (_S.EXECUTING, _S.DONE, _S.RECOVERING),
    _S.RECOVERING: (_S.EXECUTING, _S.PLANNING, _S.BLOCKED),
    _S.BLOCKED: (_S.EXECUTING, _S.PLANNING),
    _S.LATCHED: (_S.PLANNING, _S.EXECUTING),  # by `unlock` only
    _S.PAUSED: (),  # only back to the state before the pause
    _S.DONE: (),
    _S.ABORTED: (),
}
_ENDS = frozenset((_S.DONE, _S.ABORTED))
_FROM_ANYWHERE = frozenset((_S.LATCHED, _S.PAUSED, _S.ABORTED))


def allowed(before: TaskState, after: TaskState, left: TaskState | None = None) -> bool:
    """Return True if a task may move from `before` to `after`; `left` is the state before a pause."""
    if before in _ENDS:
        return False
    if before is _S.PAUSED:
        return after in (left, _S.ABORTED, _S.LATCHED)
    return after in _FROM_ANYWHERE or after in _MOVES[before]
