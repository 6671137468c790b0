"""Retry for a short time if another git process holds a lock in the user's repository."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from reflectloop.errors import ApplyConflict

T = TypeVar("T")
_RETRIES, _DELAY_S = 3, 0.2
_LOCK = ".lock"
_GIT_MESSAGE = "Another git process seems to be running in this repository"


def patiently(act: Callable[[], T]) -> T:
    """Return the result of `act`; if it fails because of a lock, try again. `act` changes nothing if it fails."""
    try:
        return act()
    except ApplyConflict as fault:
        if _LOCK not in fault.message:
            raise
    return _retry(act)


def _retry(act: Callable[[], T]) -> T:
    from reflectloop.diagnosis import safe_call  # noqa: PLC0415 - a lock is rare
    from reflectloop.diagnosis.retry_policy import RetryPolicy  # noqa: PLC0415

    faults: list[Exception] = []

    def invoke(_tool: str, _params: safe_call.Params) -> T:
        try:
            return act()
        except Exception as fault:
            faults.append(fault)
            if isinstance(fault, ApplyConflict) and _LOCK in fault.message:
                raise safe_call.ToolError(f"{_GIT_MESSAGE}: {fault.message}") from fault
            raise

    wait = RetryPolicy(tool="git", rule="locked", action="wait for the other git", retries=_RETRIES, delay_s=_DELAY_S)
    no_more = RetryPolicy(tool="git", action="report")
    outcome = safe_call.safe_call(
        "git", {}, invoke=invoke, idempotent=True, ways=safe_call.RetryOptions(policies=(wait, no_more))
    )
    if isinstance(outcome, safe_call.ToolFailure):
        raise faults[-1]  # the original error, which safe_call only reports
    result: T = outcome.value
    return result
