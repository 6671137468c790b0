"""The states of a loop, and its end."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from reflectloop.agents.messages import Json, StopReason


class LoopState(StrEnum):
    """A loop begins in one of the first three states and ends in one of the others. None of them means success."""

    PLANNING = "PLANNING"
    ANSWERING = "ANSWERING"
    EXECUTING = "EXECUTING"
    ANSWERED = "ANSWERED"  # with valid data
    VERIFYING = "VERIFYING"  # the model claims success; the engine's verification follows
    REPLANNING = "REPLANNING"  # the model says the plan does not fit
    NEEDS_INPUT = "NEEDS_INPUT"  # a person must answer
    STOPPED = "STOPPED"  # by a limit or the budget


class LoopEnd(NamedTuple):
    state: LoopState
    stop_reason: StopReason
    text: str = ""
    data: Json | None = None
    reason: str = ""  # why the loop was stopped; empty if the model ended it

    @property
    def completed(self) -> bool:
        """Return True if the model itself ended the loop."""
        return not self.reason


def stopped(why: StopReason, reason: str, text: str = "") -> LoopEnd:
    asks = why in (StopReason.MAX_ITER, StopReason.NEEDS_INPUT)
    return LoopEnd(LoopState.NEEDS_INPUT if asks else LoopState.STOPPED, why, text, reason=f"{why}: {reason}")
