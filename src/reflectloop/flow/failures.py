"""The record of a run's failure: by its code where that says enough, else by what the failed command printed."""

from __future__ import annotations

from pathlib import Path

from reflectloop.config import ReflectConfig
from reflectloop.errors import InvalidInput, ReflectloopError
from reflectloop.flow import diagnose, hugelog
from reflectloop.flow.steps import StepResult
from reflectloop.reflect import diagnosis
from reflectloop.reflect.diagnosis import Attempt
from reflectloop.reflect.record import FailureRecord
from reflectloop.reflect.rule import Rules
from reflectloop.verify import reports

_LOOKED_AT = 1 << 18  # bytes


def of(
    error: ReflectloopError, step: StepResult | None, attempt: int, settings: ReflectConfig, root: Path
) -> FailureRecord:
    about = Attempt(error.code, attempt=attempt)
    if step is None:
        return diagnosis.bare(error.message, about)
    about = about._replace(step=step.id, command=step.command or None, tree=step.tree)
    printed = _printed(step)
    log = printed.decode("utf-8", "replace")
    result = reports.judge(reports.read(printed), exit_code=step.exit_code or 1, log=log)
    found = diagnosis.diagnose(printed, result, rules=_rules(settings, root), about=about) if printed else None
    return found or diagnosis.bare(step.reason or error.message, about)


def _rules(settings: ReflectConfig, root: Path) -> Rules:
    """The project's own come first; where they cannot be used, the failure is told by ours."""
    try:
        return diagnose.rules_of(settings, root)
    except InvalidInput:
        return diagnosis.shipped()


def _printed(step: StepResult) -> bytes:
    """The end of what the failed command printed."""
    if not step.tail or not step.logs:
        return b""
    with step.logs[-1].open("rb") as file:
        file.seek(max(0, step.logs[-1].stat().st_size - _LOOKED_AT))
        printed = file.read()
    return b"" if hugelog.is_noise(printed) else printed
