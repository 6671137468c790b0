"""Reads a log or a report that someone else's run left, and says what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any, NamedTuple

from reflectloop import config, secrets
from reflectloop.diagnosis import diagnosis, large_log, lines, rulefile
from reflectloop.diagnosis.diagnosis import FailedCommand
from reflectloop.diagnosis.failure_record import Diagnosis, FailureRecord
from reflectloop.diagnosis.rule import Rules
from reflectloop.errors import InvalidInput, StepFailed
from reflectloop.verification import reports
from reflectloop.verification.result import VerificationResult
from reflectloop.workspace import project


class LogDiagnosis(NamedTuple):
    """What a log or a report tells: the result, and the failure where it is one."""

    result: VerificationResult
    failure: FailureRecord | None

    def as_data(self) -> dict[str, Any]:
        """Without the secrets a log may hold."""
        return {
            "result": redacted(self.result.model_dump(mode="json")),
            "failure": redacted(self.failure.as_data()) if self.failure else None,
        }


def look_as(start: Path) -> Rules:
    """From here on take out what the settings of the project here call a secret, too; its rules and ours."""
    root = project.locate(start)
    settings = config.load(root)
    secrets.use(secrets.of(settings.secrets, root))
    return rules_of(settings.reflect, root)


def rules_of(settings: config.ReflectConfig, root: Path) -> Rules:
    return diagnosis.with_own(rulefile.checked(root / settings.rules).rules if settings.rules else ())


def of(data: bytes | str, *, exit_code: int | None = None, log_path: str | None = None, rules: Rules) -> LogDiagnosis:
    """What a log or a report tells, with the exit code beside it where that is known."""
    if why := _without_words(data):
        if exit_code is None:
            return _unread(why, log_path)
        data = b""  # the exit code alone speaks
    told = lines.without_clock(data)
    tail = told[-(1 << 16) :]
    log = tail if isinstance(tail, str) else tail.decode("utf-8", "replace")
    result = reports.judge(reports.read(told), exit_code=exit_code, log=log, log_path=log_path)
    return LogDiagnosis(result, diagnosis.diagnose(told, result, rules=rules))


def _without_words(data: bytes | str) -> Diagnosis | None:
    """Where there is nothing to read. Nothing of it is shown either: it would be nobody's words."""
    if isinstance(data, bytes) and large_log.is_noise(data):
        return Diagnosis(
            rule="not-text",
            root_cause="what was given as a log is not text",
            suggestion="give it as text: unpack or decode it first",
        )
    if not data.strip():
        return Diagnosis(
            rule="empty-log", root_cause="the log is empty", suggestion="say --exit-code, or give what the tool printed"
        )
    return None


def _unread(why: Diagnosis, log_path: str | None) -> LogDiagnosis:
    result = VerificationResult(
        ok=False, type="unknown_project", summary=why.root_cause, suggestion=why.suggestion, log_path=log_path
    )
    code = InvalidInput.code if why.rule == "not-text" else StepFailed.code
    record = diagnosis.bare(why.root_cause, FailedCommand(code))
    return LogDiagnosis(result, record.model_copy(update={"diagnosis": why, "log_excerpt": ""}))


def load(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return large_log.read(file)
    except OSError as fault:
        raise InvalidInput(
            f"{path} cannot be read: {fault.strerror}", next_step="reflectloop diagnose --help"
        ) from fault


def stream(source: IO[bytes]) -> bytes:
    return large_log.read(source)


def answer(question: dict[str, Any], number: int, rules: Rules) -> dict[str, Any]:
    """One question of a batch: `id` and `text`, and `exit_code` where it is known."""
    if not isinstance(question.get("text"), str):
        raise InvalidInput(f"line {number} is not an object with 'id' and 'text'")
    code = question.get("exit_code")
    found = of(question["text"], exit_code=code if isinstance(code, int) else None, rules=rules)
    return {"id": question.get("id"), **found.as_data()}


def redacted(found: dict[str, Any]) -> dict[str, Any]:
    """The same data, without the secrets a log may hold."""
    whole = json.dumps(found, ensure_ascii=False)
    return found if secrets.current().redact(whole) == whole else _redacted(found)


def _redacted(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Text by text, so that what is taken out takes no quote or comma along."""
    if isinstance(value, str):
        return secrets.current().redact(value)
    if isinstance(value, dict):
        return {_redacted(key): _redacted(one) for key, one in value.items()}
    return [_redacted(one) for one in value] if isinstance(value, list) else value
