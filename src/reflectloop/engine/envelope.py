"""What every command answers with, in one shape, whether it went well or not."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from reflectloop.errors import ReflectloopError


class Envelope(BaseModel):
    """First key of every published YAML; the whole of what `--json` prints, with `data` beside it."""

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
