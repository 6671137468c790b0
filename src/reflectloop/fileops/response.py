"""The models of a response; every text in it is redacted."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from reflectloop import secrets
from reflectloop.fileops.plan_ops import PlanOpModel
from reflectloop.fileops.request import Proto

Status = Literal["ok", "ask", "fail", "split", "validation_error"]
DEFAULT_PROTO: Proto = "triflow.fileops.v1"


class OpResult(PlanOpModel):
    opIndex: int  # noqa: N815 - the protocol's own names
    status: Literal["ok", "fail", "undone", "skipped"]
    summary: str


class CommandProof(PlanOpModel):
    cmd: str | tuple[str, ...]
    exitCode: int  # noqa: N815
    stdout: str = ""
    stderr: str = ""


class ResponseProof(PlanOpModel):
    commands: tuple[CommandProof, ...] = ()
    notes: tuple[str, ...] = ()


class Failure(PlanOpModel):
    reason: str
    hint: str = ""


class FieldError(PlanOpModel):
    field: str
    error: str


class Response(PlanOpModel):
    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)

    proto: Proto = DEFAULT_PROTO
    id: str
    status: Status
    changedFiles: tuple[str, ...] = ()  # noqa: N815
    data: dict[str, JsonValue] = Field(default_factory=dict)
    ops: tuple[OpResult, ...] = ()
    proof: ResponseProof = ResponseProof()
    split: dict[str, JsonValue] | None = None
    ask: dict[str, JsonValue] | None = None
    fail: Failure | None = None
    errors: tuple[FieldError, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


def redact_response(response: Response) -> Response:
    """Redact the secrets in a response, before an agent or a file gets it."""
    return Response.model_validate(redacted(response.as_json()))


def redacted(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return secrets.current_detector().redact(value) if value else value
    if isinstance(value, list):
        return [redacted(item) for item in value]
    if isinstance(value, dict):
        return {key: redacted(item) for key, item in value.items()}
    return value
