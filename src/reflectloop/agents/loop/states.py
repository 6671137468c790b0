"""Which state a loop is in, and how one ends."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from reflectloop.agents.messages import Json, StopReason


class LoopState(StrEnum):
    """It begins in one of the first three by what is asked, and ends in one of the others. None of them is success."""

    PLANNING = "PLANNING"
    ANSWERING = "ANSWERING"
    EXECUTING = "EXECUTING"
    ANSWERED = "ANSWERED"  # with the shape that was asked for
    VERIFYING = "VERIFYING"  # it says it is done: what follows is the engine's look
    REPLANNING = "REPLANNING"  # it says the plan does not fit
    NEEDS_INPUT = "NEEDS_INPUT"  # a person is asked
    STOPPED = "STOPPED"  # by a breaker or a budget


class LoopEnd(NamedTuple):
    state: LoopState
    stop_reason: StopReason
    text: str = ""
    data: Json | None = None
    reason: str = ""  # why it did not come to an end of its own

    @property
    def whole(self) -> bool:
        """Whether the model itself brought it to this end."""
        return not self.reason


def stopped(why: StopReason, reason: str, text: str = "") -> LoopEnd:
    asks = why in (StopReason.MAX_ITER, StopReason.NEEDS_INPUT)
    return LoopEnd(LoopState.NEEDS_INPUT if asks else LoopState.STOPPED, why, text, reason=f"{why}: {reason}")
