"""Another git at work in the user's repository is waited for a little, as any tool's passing failure is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reflectloop.errors import ApplyConflict

T = TypeVar("T")
_RETRIES, _DELAY_S = 3, 0.2
_LOCK = ".lock"
_SAID_BY_GIT = "Another git process seems to be running in this repository"


def patiently(act: Callable[[], T]) -> T:
    """What `act` gives. It changes nothing where it fails: only so can it be done again."""
    try:
        return act()
    except ApplyConflict as fault:
        if _LOCK not in fault.message:
            raise
    return _again(act)


def _again(act: Callable[[], T]) -> T:
    from reflectloop.diagnosis import safe_call  # noqa: PLC0415 - a lock is seldom met
    from reflectloop.diagnosis.retry_policy import RetryPolicy  # noqa: PLC0415

    faults: list[Exception] = []

    def invoke(_tool: str, _params: safe_call.Params) -> T:
        try:
            return act()
        except Exception as fault:
            faults.append(fault)
            if isinstance(fault, ApplyConflict) and _LOCK in fault.message:
                raise safe_call.ToolError(f"{_SAID_BY_GIT}: {fault.message}") from fault
            raise

    wait = RetryPolicy(tool="git", rule="locked", action="wait for the other git", retries=_RETRIES, delay_s=_DELAY_S)
    no_more = RetryPolicy(tool="git", action="report")
    outcome = safe_call.safe_call(
        "git", {}, invoke=invoke, idempotent=True, ways=safe_call.RetryOptions(policies=(wait, no_more))
    )
    if isinstance(outcome, safe_call.ToolFailure):
        raise faults[-1]  # as it was: safe_call has only told it
    made: T = outcome.value
    return made
