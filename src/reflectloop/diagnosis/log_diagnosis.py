"""`diagnose`: read a log or a test report of any tool, and diagnose its failure."""

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
from reflectloop.system import files
from reflectloop.verification import reports
from reflectloop.verification.compare import NO_ANSWER
from reflectloop.verification.result import VerificationResult
from reflectloop.workspace import project

_LAST_LINES = 8
_LONGEST = 200


class LogDiagnosis(NamedTuple):
    """The result in a log or a report, with the failure if it is one."""

    result: VerificationResult
    failure: FailureRecord | None

    def as_data(self) -> dict[str, Any]:
        """Return the diagnosis as JSON data, with secrets redacted."""
        return {
            "result": redacted(self.result.model_dump(mode="json")),
            "failure": redacted(self.failure.as_data()) if self.failure else None,
        }


class CheckFault(NamedTuple):
    """The reason why a check gave no usable result: a tool is missing, crashed, or found nothing to run."""

    check: str
    summary: str
    cause: str
    suggestion: str
    last_lines: tuple[str, ...]
    log: str | None

    def lines(self) -> list[str]:
        """Return the lines that a person reads: the likely cause, what to do, the end of the log and its path."""
        return [
            f"{self.check}: " + (f"likely cause: {self.cause}" if self.cause else self.summary),
            *([f"  suggestion: {self.suggestion}"] if self.suggestion else []),
            *(f"  | {line}" for line in self.last_lines),
            *([f"  log: {self.log}"] if self.log else []),
        ]


def fault_of(check: str, result: VerificationResult, rules: Rules | None = None) -> CheckFault | None:
    """Return why a check gave no usable result; None if it gave one, good or bad."""
    if result.ok or result.type not in NO_ANSWER:
        return None
    path = Path(result.log_path) if result.log_path else None
    if path is None or not path.is_file():
        return CheckFault(check, result.summary, "", result.suggestion, (), None)
    failure = diagnosis.diagnose(lines.without_clock(load(path)), result, rules=rules)
    known = failure.diagnosis if failure else None
    return CheckFault(
        check,
        result.summary,
        known.root_cause if known else "",
        (known.suggestion if known else "") or result.suggestion,
        tuple(line[:_LONGEST] for line in files.last_lines(path, _LAST_LINES).splitlines() if line.strip()),
        str(path),
    )


def use_project(start: Path) -> Rules:
    """Return the project's rules with the built-in ones, and apply its secret settings to this process."""
    root = project.locate(start)
    settings = config.load(root)
    secrets.use_detector(secrets.detector_for(settings.secrets, root))
    return rules_of(settings.reflect, root)


def rules_of(settings: config.ReflectConfig, root: Path) -> Rules:
    return diagnosis.with_own(rulefile.checked(root / settings.rules).rules if settings.rules else ())


def diagnose_log(
    data: bytes | str, *, exit_code: int | None = None, log_path: str | None = None, rules: Rules
) -> LogDiagnosis:
    """Return the diagnosis of a log or a report, with the exit code if it is known."""
    if why := _unreadable(data):
        if exit_code is None:
            return _without_text(why, log_path)
        data = b""  # only the exit code is left
    text = lines.without_clock(data)
    tail = text[-(1 << 16) :]
    log = tail if isinstance(tail, str) else tail.decode("utf-8", "replace")
    result = reports.judge(reports.read(text), exit_code=exit_code, log=log, log_path=log_path)
    return LogDiagnosis(result, diagnosis.diagnose(text, result, rules=rules))


def _unreadable(data: bytes | str) -> Diagnosis | None:
    """Return the diagnosis of data that is not text or empty; None if it can be read."""
    if isinstance(data, bytes) and large_log.is_noise(data):
        return Diagnosis(rule="not-text", root_cause="the log is not text", suggestion="unpack or decode it first")
    if not data.strip():
        return Diagnosis(
            rule="empty-log", root_cause="the log is empty", suggestion="give --exit-code, or the output of the tool"
        )
    return None


def _without_text(why: Diagnosis, log_path: str | None) -> LogDiagnosis:
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
    """Answer one line of a batch, an object with `id`, `text` and perhaps `exit_code`."""
    if not isinstance(question.get("text"), str):
        raise InvalidInput(f"line {number} is not an object with 'id' and 'text'")
    code = question.get("exit_code")
    result = diagnose_log(question["text"], exit_code=code if isinstance(code, int) else None, rules=rules)
    return {"id": question.get("id"), **result.as_data()}


def redacted(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with secrets redacted."""
    text = json.dumps(data, ensure_ascii=False)
    return data if secrets.current_detector().redact(text) == text else _redacted(data)


def _redacted(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Redact each string by itself, so that no quote or comma of the JSON is lost."""
    if isinstance(value, str):
        return secrets.current_detector().redact(value)
    if isinstance(value, dict):
        return {_redacted(key): _redacted(item) for key, item in value.items()}
    return [_redacted(item) for item in value] if isinstance(value, list) else value
