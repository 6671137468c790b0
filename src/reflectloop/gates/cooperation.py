"""Remarks on how the agents of a task worked together: who judged whom, who gave no answer; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_ANSWERED = "ok"
_MOST = 5  # steps that are named


class RoleCall(NamedTuple):
    """One call of an agent."""

    role: str
    agent: str
    status: str
    step: str = ""
    attempt: int = 1


def remarks(turns: Sequence[RoleCall]) -> Iterator[str]:
    """Yield what the cooperation of the agents leaves to be improved."""
    yield from _unreviewed(turns)
    silent = Counter((turn.role, turn.agent) for turn in turns if turn.status != _ANSWERED)
    for (role, agent), times in sorted(silent.items()):
        asked = sum((turn.role, turn.agent) == (role, agent) for turn in turns)
        yield f"{agent} as {role} gave no usable answer to {times} of {asked} question(s)"
    attempts = {turn.step: 0 for turn in turns if turn.step}
    for turn in turns:
        if turn.step and turn.role == "executor":
            attempts[turn.step] = max(attempts[turn.step], turn.attempt)
    again = [f"{step} ({number})" for step, number in attempts.items() if number > 1]
    if again:
        yield f"steps that took several attempts: {', '.join(again[:_MOST])}"


def _unreviewed(turns: Sequence[RoleCall]) -> Iterator[str]:
    """Yield a remark if no other agent looked at what an executor did."""
    executors = {turn.agent for turn in turns if turn.role == "executor"}
    reviewers = {turn.agent for turn in turns if turn.role in ("reviewer", "planner") and turn.status == _ANSWERED}
    if not executors:
        return
    names = ", ".join(sorted(executors))
    if not reviewers:
        yield f"no agent reviewed what {names} did"
    elif reviewers <= executors and len(executors) == 1:
        yield f"{names} reviewed its own work: bind another agent to the reviewer"
