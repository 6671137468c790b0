"""The envelope of every answer: one shape for success and failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from reflectloop import secrets
from reflectloop.errors import ReflectloopError
from reflectloop.system import files


class Envelope(BaseModel):
    """The first key of every published YAML file; `--json` prints it with `data`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str
    timestamp: str
    status: Literal["OK", "ERROR"]
    error_code: str | None = None
    missing_inputs: list[str] = []
    artifacts_read: list[str] = []
    artifacts_written: list[str] = []
    next: str | None = None
    run_id: str | None = None
    plan_form: str | None = None
    plan_hash: str | None = None
    base_tree: str | None = None
    isolation: str | None = None
    isolation_by: str | None = None
    limits_by: str | None = None
    sandbox_mode: str | None = None
    evidence_level: str | None = None
    verified: bool | None = None  # of a run or an apply: whether checks judged the change on a sealed copy
    duration_ms: int | None = None
    message: str | None = None
    warnings: list[str] = []
    faults: list[dict[str, object]] = []


def of_error(command: str, timestamp: str, error: ReflectloopError) -> Envelope:
    return Envelope(
        command=command,
        timestamp=timestamp,
        status="ERROR",
        error_code=error.code,
        missing_inputs=list(error.missing),
        next=error.next_step,
        message=error.message,
        faults=[fault._asdict() for fault in error.faults],
    )


def write_yaml(path: Path, envelope: Envelope, body: dict[str, Any] | None = None) -> None:
    """Write a YAML file that begins with the envelope; possible secrets in it are redacted."""
    import yaml  # noqa: PLC0415 - commands that only print need no YAML

    value = {"envelope": envelope.model_dump(mode="json"), **(body or {})}
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=110)
    files.write_atomic(path, secrets.current_detector().redact(text))
