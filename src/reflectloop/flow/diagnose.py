"""Reads a log or a report that someone else's run left, and says what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

from reflectloop import config, secrets
from reflectloop.errors import InvalidInput
from reflectloop.verify import reports
from reflectloop.verify.result import VerificationResult
from reflectloop.workspace import project

_MOST = 128 << 20


def look_as(start: Path) -> None:
    """From here on take out what the settings of the project here call a secret, too."""
    root = project.locate(start)
    secrets.use(secrets.of(config.load(root).secrets, root))


def of(data: bytes | str, *, exit_code: int | None = None, log_path: str | None = None) -> VerificationResult:
    """The result a log or a report tells, with the exit code beside it where that is known."""
    reading = reports.read(data)
    tail = data[-(1 << 16) :]
    log = tail if isinstance(tail, str) else tail.decode("utf-8", "replace")
    return reports.judge(reading, exit_code=exit_code, log=log, log_path=log_path)


def load(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return _bounded(file)
    except OSError as fault:
        raise InvalidInput(
            f"{path} cannot be read: {fault.strerror}", next_step="reflectloop diagnose --help"
        ) from fault


def _bounded(source: IO[bytes]) -> bytes:
    """All of it, or of what is huge the beginning and the end."""
    data = source.read(_MOST)
    while more := source.read(_MOST):
        data = data[: _MOST // 4] + (data + more)[-_MOST // 2 :]
    return data


def stream(source: IO[bytes]) -> bytes:
    return _bounded(source)


def answer(line: bytes | str, number: int) -> str:
    """One question of a batch: a JSON line with `id` and `text`, and `exit_code` where it is known."""
    try:
        question = json.loads(line)
    except ValueError as fault:
        raise InvalidInput(f"line {number} is not JSON: {fault}") from fault
    if not isinstance(question, dict) or not isinstance(question.get("text"), str):
        raise InvalidInput(f"line {number} is not an object with 'id' and 'text'")
    code = question.get("exit_code")
    result = of(question["text"], exit_code=code if isinstance(code, int) else None)
    return json.dumps({"id": question.get("id"), "result": redacted(result)}, ensure_ascii=True)


def redacted(result: VerificationResult) -> dict[str, Any]:
    """The result as data, without the secrets a log may hold."""
    found: dict[str, Any] = result.model_dump(mode="json")
    whole = json.dumps(found, ensure_ascii=False)
    return found if secrets.current().redact(whole) == whole else _redacted(found)


def _redacted(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Text by text, so that what is taken out takes no quote or comma along."""
    if isinstance(value, str):
        return secrets.current().redact(value)
    if isinstance(value, dict):
        return {_redacted(key): _redacted(one) for key, one in value.items()}
    return [_redacted(one) for one in value] if isinstance(value, list) else value
