"""Makes the failure record of a run or step: by what its command printed, else by its error code."""

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
    # The signature comes from the step's code: the run's code may be MAX_RETRIES, which says nothing of the cause.
    named = diagnosis.bare(step.reason or error.message, about._replace(code=step.error_code))
    return diagnosis.bare(step.reason or error.message, about).model_copy(update={"signature": named.signature})


def of_step(step: StepResult, settings: ReflectConfig, root: Path) -> FailureRecord:
    """Return the failure record of a step whose run goes on."""
    return of(by_code(step.error_code or Internal.code)(step.reason or "failed"), step, 1, settings, root)


def counted(record: FailureRecord, times: int) -> FailureRecord:
    """Return the record with the error class of a failure that its task has seen so many times."""
    if exit_code_rules.is_signal(record.exit_code) and record.error_class is ErrorClass.PIPELINE:
        return record
    kind = class_of(record.category, code=record.code, times_seen=times)
    return record.model_copy(update={"error_class": kind})


def _rules(settings: ReflectConfig, root: Path) -> Rules:
    """Return the project's rules and ours; only ours if the project's cannot be read."""
    try:
        return log_diagnosis.rules_of(settings, root)
    except InvalidInput:
        return diagnosis.shipped()


def _printed(step: StepResult) -> bytes:
    """Return the end of what the failed command printed; empty for noise."""
    if not step.tail or not step.logs:
        return b""
    with step.logs[-1].open("rb") as file:
        file.seek(max(0, step.logs[-1].stat().st_size - _LOOKED_AT))
        printed = file.read()
    return b"" if large_log.is_noise(printed) else printed
