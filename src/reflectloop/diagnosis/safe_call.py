"""Call a tool so that no failure is silent: diagnose it, act by a policy, report it. Starts nothing itself.

    outcome = safe_call("search", {"query": "multi-agent"}, invoke=client.call, idempotent=True)
    if isinstance(outcome, Failed): ...

A failed call is a separate type without a result, so that none can be used by mistake.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from reflectloop import secrets
from reflectloop.diagnosis import diagnosis, retry_policy, rulefile
from reflectloop.diagnosis.breaker import Breakers
from reflectloop.diagnosis.diagnosis import FailedCommand
from reflectloop.diagnosis.failfix import FailFix, known
from reflectloop.diagnosis.failure_record import Diagnosis, FailureRecord, ToolErrorType
from reflectloop.diagnosis.retry_policy import RetryPolicy
from reflectloop.diagnosis.retrying import delay_of, retry_after
from reflectloop.diagnosis.rule import Rules
from reflectloop.diagnosis.tool_failure_report import ToolReport, report
from reflectloop.errors import StepFailed
from reflectloop.system import clock
from reflectloop.verification import reports
from reflectloop.verification.result import VerificationResult

Params = Mapping[str, Any]
Invoke = Callable[[str, Params], Any]
Correct = Callable[[Params, FailureRecord], Params | None]
_ANSWERED = {"DATA", "ENV", "LOGIC", "PERMISSION"}  # failures in which the tool itself responded
_OUT_OF_TIME = TimeoutError


_SILENT = Diagnosis(
    rule="silent",
    root_cause="it failed and printed nothing",
    suggestion="run it by hand, with more output (-v) if it has that option",
)


class ToolError(Exception):
    """Raised by an `invoke` that knows an exit code, or how long a service asked to wait."""

    def __init__(self, message: str, *, exit_code: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.retry_after_s = retry_after_s


class RetryIO(NamedTuple):
    """Time and randomness, passed in."""

    now: Callable[[], datetime] = clock.now
    monotonic: Callable[[], float] = clock.monotonic
    wait: Callable[[float], None] = clock.wait
    chance: Callable[[], float] = random.random


class ToolSuccess(NamedTuple):
    """The result of a call that succeeded in the end."""

    value: Any
    tool: str  # the tool that answered
    attempts: int
    reports: tuple[ToolReport, ...] = ()  # of the failed attempts before
    pair: FailFix | None = None  # the fix that helped, if any

    @property
    def ok(self) -> bool:
        return True


class ToolFailure(NamedTuple):
    """The failure of a call for which nothing helped."""

    failure: FailureRecord
    tool: str
    attempts: int
    reports: tuple[ToolReport, ...] = ()

    @property
    def ok(self) -> bool:
        return False


Outcome = ToolSuccess | ToolFailure


class RetryOptions(NamedTuple):
    """The options for recovering a failed call."""

    fallbacks: tuple[str, ...] = ()  # tools to try next, with the same parameters
    policies: Sequence[RetryPolicy] = ()  # tried before the built-in ones
    retries: int | None = None  # overrides the policy
    correct: Correct | None = None  # returns corrected parameters, or None
    pairs: Iterable[FailFix] = ()  # fixes that helped before
    rules: Rules | None = None
    breakers: Breakers | None = None
    tell: Callable[[ToolReport], None] = lambda _: None  # called with each diagnosis


def safe_call(
    tool: str,
    params: Params,
    *,
    invoke: Invoke,
    idempotent: bool = False,
    options: RetryOptions | None = None,
    io: RetryIO | None = None,
) -> Outcome:
    """Call a tool; if it fails, diagnose the failure, and retry or use another tool only as far as that is safe."""
    work = _Call(invoke, options or RetryOptions(), io or RetryIO(), idempotent=idempotent)
    queue = list(options.fallbacks) if options else []
    outcome = work.call(tool, params)
    # A missing permission must not be bypassed with another tool.
    while isinstance(outcome, ToolFailure) and outcome.failure.tool_error_type != ToolErrorType.PERMISSION:
        named = work.reports[-1].corrective_action.fallback_tool
        if named and named not in work.tried and named not in queue:
            queue.insert(0, named)
        if not queue:
            break
        outcome = work.call(queue.pop(0), params)
    return outcome


class _Call:
    def __init__(self, invoke: Invoke, options: RetryOptions, io: RetryIO, *, idempotent: bool) -> None:
        self._invoke, self._options, self._io, self._idempotent = invoke, options, io, idempotent
        self._policies = (*options.policies, *rulefile.shipped().policies)
        self._breakers = options.breakers or Breakers()
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
                return ToolSuccess(value, tool, self._attempts, tuple(self.reports), self._pair())
            chosen = retry_policy.choose(self._policies, tool, failure)
            better = self._corrected(params, failure, chosen)
            allowed = chosen.retries if self._options.retries is None else self._options.retries
            may = again < allowed and self._may_repeat(failure, changed=better != params)
            wait_s = delay_of(chosen, again, self._io.chance, self._asked_s) if may else None
            self._note(tool, params, failure, chosen, better, wait_s)
            if not may:
                return ToolFailure(failure, tool, self._attempts, tuple(self.reports))
            self._io.wait(wait_s or 0.0)
            params, again = better, again + 1

    def _attempt(self, tool: str, params: Params) -> tuple[FailureRecord | None, Any]:
        now = self._io.monotonic
        if not self._breakers.enter(tool, now()):
            return self._blocked(tool), None
        self._attempts += 1
        alive = False
        try:
            value = self._invoke(tool, params)
            alive = True
        except Exception as fault:  # noqa: BLE001 - any exception of a tool is reported as its failure
            failure = self._diagnosed(tool, fault)
            alive = not failure.transient and failure.category in _ANSWERED
            return failure, None
        finally:
            self._breakers.leave(tool, now(), well=alive)  # after an interrupt too, so that the trial call ends
        return None, value

    def _blocked(self, tool: str) -> FailureRecord:
        message = f"{tool} failed too often in a row; it is left alone for {self._breakers.limits.cool_s:g} s"
        failure = diagnosis.bare(
            message, FailedCommand(StepFailed.code, attempt=self._attempts, command=tool), "EXTERNAL"
        )
        self._first = self._first or failure
        return failure

    def _diagnosed(self, tool: str, fault: Exception) -> FailureRecord:
        text = secrets.current_detector().redact(_message(fault))
        code = fault.exit_code if isinstance(fault, ToolError) else None
        result = reports.judge(reports.read(text), exit_code=code or 1, timed_out=_late(fault), log=text, tool=None)
        about = FailedCommand(attempt=self._attempts, command=tool)
        failed = result if not result.ok else VerificationResult(ok=False, type="crashed", summary=text[:240])
        failure = diagnosis.diagnose_failed(text, failed, rules=self._options.rules, about=about)
        asked_s = fault.retry_after_s if isinstance(fault, ToolError) else None
        self._asked_s = asked_s if asked_s is not None else retry_after(text, self._io.now())
        failure = failure.model_copy(update={"exit_code": code})  # only a real exit code
        if isinstance(fault, ToolError) and not str(fault).strip() and failure.category == "EXECUTION":
            failure = failure.model_copy(update={"diagnosis": _SILENT})
        self._first = self._first or failure
        return failure

    def _may_repeat(self, failure: FailureRecord, *, changed: bool) -> bool:
        """Never repeat without permission; repeat unchanged calls only if they are idempotent and may pass."""
        if failure.tool_error_type == ToolErrorType.PERMISSION or failure.diagnosis is None:
            return False  # without a diagnosis, the breaker blocked the call
        return changed or (self._idempotent and failure.transient)

    def _corrected(self, params: Params, failure: FailureRecord, chosen: RetryPolicy) -> Params:
        if self._options.correct and failure.tool_error_type == ToolErrorType.PARAMETER:
            better = self._options.correct(params, failure)
            if better is not None:
                return better
        better = chosen.corrected(params)
        if failure.tool_error_type == ToolErrorType.PARAMETER and better == dict(params):
            better = corrected_params(params, failure.log_excerpt) or better
        return better

    def _note(
        self,
        tool: str,
        params: Params,
        failure: FailureRecord,
        chosen: RetryPolicy,
        better: Params,
        wait_s: float | None,
    ) -> None:
        fix = known(self._options.pairs, tool, failure.signature)
        tool_report = report(
            tool,
            params,
            failure,
            chosen,
            modified=better if better != params else None,
            fallback=chosen.fallback_tool
            or next((fallback for fallback in self._options.fallbacks if fallback not in self.tried), None),
            delay_s=wait_s,
            at=clock.stamp(self._io.now()),
            known_fix=fix.successful_fix if fix else None,
        )
        self._fix = chosen.action
        self.reports.append(tool_report)
        self._options.tell(tool_report)

    def _pair(self) -> FailFix | None:
        """Return the first failure with what was done before the call succeeded, or None."""
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
            timestamp=clock.stamp(self._io.now()),
        )


def _message(fault: Exception) -> str:
    """Return the tool's message; for exceptions other than ToolError with the class name."""
    text = str(fault)
    if isinstance(fault, ToolError):
        return text if text.strip() else _silent(fault)
    return f"{type(fault).__name__}: {text or type(fault).__name__}"


def _silent(fault: ToolError) -> str:
    return "it printed nothing" + (f" and exited {fault.exit_code}" if fault.exit_code is not None else "")


def _late(fault: Exception) -> bool:
    return isinstance(fault, _OUT_OF_TIME)


# Corrected parameters -----------------------------------------------------------------------------------------------
# By what the error of a tool says about them. What is not certain is left alone.

_UNKNOWN = re.compile(
    r"(?i)(?:unexpected|unknown|unrecogni[sz]ed|extra|unsupported)\s+(?:keyword\s+)?"
    r"(?:argument|parameter|field|property|key|option)s?\W{1,4}(?P<name>\w+)"
)
_LIMIT = re.compile(
    r"(?i)(?P<name>\w+)['\"`]?\s*(?:\S+\s+){0,3}?"
    r"(?:(?P<most>at most|<=|less than or equal to|maximum(?: is| of)?|exceeds(?: the)?(?: maximum| limit)?(?: of)?)|"
    r"(?P<least>at least|>=|greater than or equal to|minimum(?: is| of)?))\W{0,3}(?P<bound>-?\d+)"
)
_TYPED = re.compile(
    r"(?i)(?P<name>\w+)['\"`]?\W{0,3}(?:\S+\s+){0,4}?(?:must be|should be|expected|is not)\s+(?:of type\s+)?(?:an?\s+)?"
    r"(?:valid\s+)?['\"`]?(?P<type>int(?:eger)?|number|float|str(?:ing)?|bool(?:ean)?|list|array)\b"
)
_SYNTAX = re.compile(
    r"(?i)\b(?:invalid|bad|malformed|cannot parse|could not parse)\b.{0,40}\b(?:query|syntax|expression)\b"
)
_QUERIES = ("query", "q", "search", "search_query", "expression")
_OR, _AND = re.compile(r"\s*(?:\|\|?|,|;|\bor\b)\s*"), re.compile(r"\s*(?:&&?|\band\b)\s*")
_STRAY = re.compile(r"[^\w\s\"():.*-]")


def corrected_params(params: Params, message: str) -> dict[str, Any] | None:
    """Return the parameters with what the message complains about corrected; None if nothing can be."""
    better = dict(params)
    for match in _UNKNOWN.finditer(message):
        better.pop(match["name"], None)
    for match in _LIMIT.finditer(message):
        _bound(better, match["name"], int(match["bound"]), is_most=match["most"] is not None)
    for match in _TYPED.finditer(message):
        if match["name"] in better:
            better[match["name"]] = _converted(better[match["name"]], match["type"].lower())
    if _SYNTAX.search(message):
        for name in _QUERIES:
            if isinstance(better.get(name), str):
                better[name] = corrected_query(better[name])
    return better if better != dict(params) and better else None


def corrected_query(text: str) -> str:
    """Return a query whose alternatives are joined by OR and AND, with brackets and quotes that fit."""
    query = _AND.sub(" AND ", _OR.sub(" OR ", text.strip(" ,;|&")))
    query = " ".join(_STRAY.sub(" ", query).split())
    if query.count('"') % 2:
        query = query.replace('"', "")
    if query.count("(") != query.count(")"):
        query = query.replace("(", "").replace(")", "")
    words = query.split()
    while words and words[-1] in ("OR", "AND", "NOT"):
        words.pop()
    while words and words[0] in ("OR", "AND"):
        words.pop(0)
    return " ".join(words)


def _bound(params: dict[str, Any], name: str, bound: int, *, is_most: bool) -> None:
    value = params.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        params[name] = min(value, bound) if is_most else max(value, bound)


def _converted(value: Any, kind: str) -> Any:  # noqa: ANN401 - any JSON value
    try:
        if kind.startswith("int"):
            return int(str(value)) if isinstance(value, str | float) else value
        if kind in ("number", "float"):
            return float(value) if isinstance(value, str) else value
        if kind.startswith("bool"):
            return {"true": True, "false": False}.get(str(value).lower(), value)
    except ValueError:
        return value
    if kind.startswith("str"):
        return value if isinstance(value, str) else str(value)
    return value if isinstance(value, list) else [value]
