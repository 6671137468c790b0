"""Calls a tool so that no failure is silent: it is diagnosed, acted on by a policy, and told. Starts nothing itself.

    outcome = safe_call("search", {"query": "multi-agent"}, invoke=client.call, idempotent=True)
    if isinstance(outcome, Failed): ...

A failed call is a value without a result to take by mistake.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from reflectloop import secrets
from reflectloop.errors import StepFailed
from reflectloop.reflect import diagnosis, policy, rulefile
from reflectloop.reflect.breaker import Breakers
from reflectloop.reflect.diagnosis import Attempt
from reflectloop.reflect.failfix import FailFix, known
from reflectloop.reflect.policy import Policy
from reflectloop.reflect.record import Diagnosis, FailureRecord, ToolErrorType
from reflectloop.reflect.report import ToolReport, report
from reflectloop.reflect.retrying import delay_of, retry_after
from reflectloop.reflect.rule import Rules
from reflectloop.verify import reports
from reflectloop.verify.result import VerificationResult
from reflectloop.world import clock

Params = Mapping[str, Any]
Invoke = Callable[[str, Params], Any]
Mend = Callable[[Params, FailureRecord], Params | None]
_ANSWERED = {"DATA", "ENV", "LOGIC", "PERMISSION"}  # failures in which the tool itself works
_OUT_OF_TIME = TimeoutError


_SILENT = Diagnosis(
    rule="silent",
    root_cause="it failed without a word",
    suggestion="run it by hand, with more output (-v) where it has that",
)


class ToolError(Exception):
    """What an `invoke` raises where it knows more than words: an exit code, and how long it was asked to wait."""

    def __init__(self, message: str, *, exit_code: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.retry_after_s = retry_after_s


class Hands(NamedTuple):
    """Time and chance, passed in."""

    now: Callable[[], datetime] = clock.now
    monotonic: Callable[[], float] = clock.monotonic
    wait: Callable[[float], None] = clock.wait
    chance: Callable[[], float] = random.random


class Answered(NamedTuple):
    value: Any
    tool: str  # which answered in the end
    attempts: int
    reports: tuple[ToolReport, ...] = ()  # of what failed before
    pair: FailFix | None = None  # what mended it, where something did

    @property
    def ok(self) -> bool:
        return True


class Failed(NamedTuple):
    failure: FailureRecord
    tool: str
    attempts: int
    reports: tuple[ToolReport, ...] = ()

    @property
    def ok(self) -> bool:
        return False


Outcome = Answered | Failed


class Ways(NamedTuple):
    """How a call may be made good: all of it data or functions of the caller's."""

    fallbacks: tuple[str, ...] = ()  # tools to try after this one, with the same parameters
    policies: Sequence[Policy] = ()  # before the shipped ones
    retries: int | None = None  # instead of what the policy says
    mend: Mend | None = None  # corrects parameters; None where it does not know how
    pairs: Iterable[FailFix] = ()  # what mended such failures before
    rules: Rules | None = None
    breakers: Breakers | None = None
    tell: Callable[[ToolReport], None] = lambda _: None  # asked to record each diagnosis as it is made


def safe_call(
    tool: str,
    params: Params,
    *,
    invoke: Invoke,
    idempotent: bool = False,
    ways: Ways | None = None,
    hands: Hands | None = None,
) -> Outcome:
    """Call a tool; where it fails, diagnose, act by policy, and try again or another only as far as that is safe."""
    work = _Call(invoke, ways or Ways(), hands or Hands(), idempotent=idempotent)
    queue = [tool, *(ways.fallbacks if ways else ())]
    outcome: Outcome | None = None
    while queue:
        outcome = work.call(queue.pop(0), params)
        if isinstance(outcome, Answered) or outcome.failure.tool_error_type == ToolErrorType.PERMISSION:
            break  # what is not allowed is not got by another way
        named = work.reports[-1].corrective_action.fallback_tool
        if named and named not in work.tried and named not in queue:
            queue.insert(0, named)
    assert outcome  # noqa: S101 - there is at least the tool itself
    return outcome


class _Call:
    def __init__(self, invoke: Invoke, ways: Ways, hands: Hands, *, idempotent: bool) -> None:
        self._invoke, self._ways, self._hands, self._idempotent = invoke, ways, hands, idempotent
        self._policies = (*ways.policies, *rulefile.shipped().policies)
        self._breakers = ways.breakers or Breakers()
        self.reports: list[ToolReport] = []
        self.tried: list[str] = []
        self._attempts = 0
        self._first: FailureRecord | None = None
        self._fix = ""
        self._asked_s: float | None = None

    def call(self, tool: str, params: Params) -> Outcome:
        self.tried.append(tool)
        again = 0
        while True:
            failure, value = self._attempt(tool, params)
            if failure is None:
                return Answered(value, tool, self._attempts, tuple(self.reports), self._pair())
            chosen = policy.choose(self._policies, tool, failure)
            better = self._mended(params, failure, chosen)
            allowed = chosen.retries if self._ways.retries is None else self._ways.retries
            may = again < allowed and self._may_repeat(failure, changed=better != params)
            wait_s = delay_of(chosen, again, self._hands.chance, self._asked_s) if may else None
            self._note(tool, params, failure, chosen, better, wait_s)
            if not may:
                return Failed(failure, tool, self._attempts, tuple(self.reports))
            self._hands.wait(wait_s or 0.0)
            params, again = better, again + 1

    def _attempt(self, tool: str, params: Params) -> tuple[FailureRecord | None, Any]:
        now = self._hands.monotonic
        if not self._breakers.enter(tool, now()):
            return self._held_open(tool), None
        self._attempts += 1
        alive = False
        try:
            value = self._invoke(tool, params)
            alive = True
        except Exception as fault:  # noqa: BLE001 - whatever a tool raises is its failure, and told
            failure = self._diagnosed(tool, fault)
            alive = not failure.transient and failure.category in _ANSWERED
            return failure, None
        finally:
            self._breakers.leave(tool, now(), well=alive)  # after an interrupt, too: nobody tries for ever
        return None, value

    def _held_open(self, tool: str) -> FailureRecord:
        words = f"{tool} failed too often in a row; it is left alone for {self._breakers.limits.cool_s:g} s"
        made = diagnosis.bare(words, Attempt(StepFailed.code, attempt=self._attempts, command=tool), "EXTERNAL")
        self._first = self._first or made
        return made

    def _diagnosed(self, tool: str, fault: Exception) -> FailureRecord:
        said = secrets.current().redact(_words(fault))
        code = fault.exit_code if isinstance(fault, ToolError) else None
        result = reports.judge(reports.read(said), exit_code=code or 1, timed_out=_late(fault), log=said, tool=None)
        about = Attempt(attempt=self._attempts, command=tool)
        failed = result if not result.ok else VerificationResult(ok=False, type="crashed", summary=said[:240])
        found = diagnosis.diagnose(said, failed, rules=self._ways.rules, about=about)
        assert found  # noqa: S101 - the result is no pass
        told = fault.retry_after_s if isinstance(fault, ToolError) else None
        self._asked_s = told if told is not None else retry_after(said, self._hands.now())
        found = found.model_copy(update={"exit_code": code})  # none is made up
        if isinstance(fault, ToolError) and not str(fault).strip() and found.category == "EXECUTION":
            found = found.model_copy(update={"diagnosis": _SILENT})
        self._first = self._first or found
        return found

    def _may_repeat(self, failure: FailureRecord, *, changed: bool) -> bool:
        """Never where a right is missing; with the same parameters only what may be repeated and may pass."""
        if failure.tool_error_type == ToolErrorType.PERMISSION or failure.diagnosis is None:
            return False  # without a diagnosis the breaker held the call back
        return changed or (self._idempotent and failure.transient)

    def _mended(self, params: Params, failure: FailureRecord, chosen: Policy) -> Params:
        if self._ways.mend and failure.tool_error_type == ToolErrorType.PARAMETER:
            better = self._ways.mend(params, failure)
            if better is not None:
                return better
        return chosen.mended(params)

    def _note(
        self, tool: str, params: Params, failure: FailureRecord, chosen: Policy, better: Params, wait_s: float | None
    ) -> None:
        met = known(self._ways.pairs, tool, failure.signature)
        made = report(
            tool,
            params,
            failure,
            chosen,
            modified=better if better != params else None,
            fallback=chosen.fallback_tool or next((one for one in self._ways.fallbacks if one not in self.tried), None),
            delay_s=wait_s,
            at=clock.stamp(self._hands.now()),
            known_fix=met.successful_fix if met else None,
        )
        self._fix = chosen.action
        self.reports.append(made)
        self._ways.tell(made)

    def _pair(self) -> FailFix | None:
        """What failed first, and what was done before it went well."""
        if not self._first:
            return None
        other = f"; {self.tried[-1]} instead of {self.tried[0]}" if len(self.tried) > 1 else ""
        return FailFix(
            pattern_id=f"tool_fail_{self._first.signature[:6]}",
            tool=self.tried[0],
            error_type=self._first.tool_error_type,
            signature=self._first.signature,
            symptoms=tuple(line for line in self._first.log_excerpt.splitlines() if line.strip())[:3],
            successful_fix=self._fix + other,
            timestamp=clock.stamp(self._hands.now()),
        )


def _words(fault: Exception) -> str:
    """What a tool said; the name of an error only where it is not ours."""
    text = str(fault)
    if isinstance(fault, ToolError):
        return text if text.strip() else _silent(fault)
    return f"{type(fault).__name__}: {text or type(fault).__name__}"


def _silent(fault: ToolError) -> str:
    return "it printed nothing" + (f" and exited {fault.exit_code}" if fault.exit_code is not None else "")


def _late(fault: Exception) -> bool:
    return isinstance(fault, _OUT_OF_TIME)
