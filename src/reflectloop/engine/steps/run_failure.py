"""The record of a run's failure: by its code where that says enough, else by what the failed command printed."""

from __future__ import annotations

from pathlib import Path

from reflectloop.config import ReflectConfig
from reflectloop.diagnosis import diagnosis, exit_code_rules, large_log, log_diagnosis
from reflectloop.diagnosis.diagnosis import FailedCommand
from reflectloop.diagnosis.failure_record import ErrorClass, FailureRecord, class_of
from reflectloop.diagnosis.rule import Rules
from reflectloop.engine.steps.execution import StepResult
from reflectloop.errors import Internal, InvalidInput, ReflectloopError, by_code
from reflectloop.verification import reports

_LOOKED_AT = 1 << 18  # bytes


def of(
    error: ReflectloopError, step: StepResult | None, attempt: int, settings: ReflectConfig, root: Path
) -> FailureRecord:
    about = FailedCommand(error.code, attempt=attempt)
    if step is None:
        return diagnosis.bare(error.message, about)
    about = about._replace(step=step.id, command=step.command or None, tree=step.tree)
    printed = _printed(step)
    log = printed.decode("utf-8", "replace")
    result = reports.judge(reports.read(printed), exit_code=step.exit_code or 1, log=log)
    says_enough = printed or exit_code_rules.is_signal(step.exit_code)
    record = diagnosis.diagnose(printed, result, rules=_rules(settings, root), about=about) if says_enough else None
    if record:
        return record
    # By the step's own code: what a whole run ends with may be that this was one time too many.
    named = diagnosis.bare(step.reason or error.message, about._replace(code=step.error_code))
    return diagnosis.bare(step.reason or error.message, about).model_copy(update={"signature": named.signature})


def of_step(step: StepResult, settings: ReflectConfig, root: Path) -> FailureRecord:
    """The same while the run still goes on."""
    return of(by_code(step.error_code or Internal.code)(step.reason or "failed"), step, 1, settings, root)


def counted(record: FailureRecord, times: int) -> FailureRecord:
    """With the class that so many times of one failure in a task make of it."""
    if exit_code_rules.is_signal(record.exit_code) and record.error_class is ErrorClass.PIPELINE:
        return record
    kind = class_of(record.category, code=record.code, times_seen=times)
    return record.model_copy(update={"error_class": kind})


def _rules(settings: ReflectConfig, root: Path) -> Rules:
    """The project's own come first; where they cannot be used, the failure is told by ours."""
    try:
        return log_diagnosis.rules_of(settings, root)
    except InvalidInput:
        return diagnosis.shipped()


def _printed(step: StepResult) -> bytes:
    """The end of what the failed command printed."""
    if not step.tail or not step.logs:
        return b""
    with step.logs[-1].open("rb") as file:
        file.seek(max(0, step.logs[-1].stat().st_size - _LOOKED_AT))
        printed = file.read()
    return b"" if large_log.is_noise(printed) else printed
