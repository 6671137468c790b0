"""The diagnosis file of a tool failure, with the fields of the reflection protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import ErrorClass, FailureRecord
from reflectloop.diagnosis.retry_policy import RetryPolicy, Severity

_UNKNOWN = "unknown"


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolDiagnosis(_Value):
    """The diagnosis part of the file."""

    error_type: str  # in Chinese, as in the protocol
    root_cause: str
    severity: Severity


class CorrectiveAction(_Value):
    """The action that was chosen for the failure."""

    action: str
    modified_params: dict[str, Any] | None = None
    fallback_tool: str | None = None
    retry_delay_seconds: float | None = None
    alternative: str | None = None


class ToolReport(_Value):
    """The complete diagnosis file."""

    reflection_type: Literal["tool_failure"] = "tool_failure"
    timestamp: str
    failed_tool: str
    failed_params: dict[str, Any]
    error_message: str
    error_type: str
    error_class: ErrorClass
    diagnosis: ToolDiagnosis
    corrective_action: CorrectiveAction
    signature: str
    known_fix: str | None = None


def report(
    tool: str,
    params: Mapping[str, Any],
    failure: FailureRecord,
    policy: RetryPolicy,
    *,
    modified: Mapping[str, Any] | None,
    fallback: str | None,
    delay_s: float | None,
    at: str,
    known_fix: str | None = None,
) -> ToolReport:
    """Build the diagnosis file of one failed call."""
    kind = failure.tool_error_type
    cause = failure.diagnosis.root_cause if failure.diagnosis else failure.log_excerpt
    return ToolReport(
        timestamp=at,
        failed_tool=tool,
        failed_params=_redacted(params),
        error_message=failure.log_excerpt,
        error_type=kind.value if kind else _UNKNOWN,
        error_class=failure.error_class,
        diagnosis=ToolDiagnosis(
            error_type=kind.chinese if kind else "未知", root_cause=cause, severity=policy.severity
        ),
        corrective_action=CorrectiveAction(
            action=policy.action,
            modified_params=_redacted(modified) if modified is not None else None,
            fallback_tool=fallback if delay_s is None else None,
            retry_delay_seconds=round(delay_s, 3) if delay_s is not None else None,
            alternative=policy.alternative,
        ),
        signature=failure.signature,
        known_fix=known_fix,
    )


def _redacted(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as JSON data, without possible secrets, whatever their types."""
    text = json.dumps(dict(params), ensure_ascii=False, default=str)
    redacted = secrets.current_detector().redact(text)
    if redacted == text:
        return dict(json.loads(text))
    return {
        name: secrets.current_detector().redact(f"{name}={value}").partition("=")[2] for name, value in params.items()
    }
