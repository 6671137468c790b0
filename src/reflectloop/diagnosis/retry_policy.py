"""Policies for tool failures, as a table: the first policy that matches the tool and its error decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from reflectloop.diagnosis.failure_record import FailureRecord, ToolErrorType

Severity = Literal["low", "medium", "high"]
_NO_POLICY = "汇报该失败 (report the failure)"


class RetryPolicy(BaseModel):
    """The response to one kind of tool failure."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = "*"  # a glob over names of tools
    error: ToolErrorType | Literal["*"] = "*"
    rule: str = "*"  # a glob over ids of diagnosis rules
    action: Annotated[str, Field(min_length=1)]
    retries: Annotated[int, Field(ge=0, le=20)] = 0
    delay_s: Annotated[float, Field(ge=0, le=3600)] = 3.0
    most_s: Annotated[float, Field(ge=0, le=86400)] = 300.0
    set: dict[str, Any] = {}  # parameters to replace
    drop: tuple[str, ...] = ()  # parameters to remove
    shorten: dict[str, Annotated[int, Field(ge=1)]] = {}  # text parameters, and the number of words to keep
    fallback_tool: str | None = None
    alternative: str | None = None
    severity: Severity = "medium"

    def fits(self, tool: str, failure: FailureRecord) -> bool:
        rule = failure.diagnosis.rule if failure.diagnosis else ""
        return (
            fnmatchcase(tool, self.tool)
            and self.error in {"*", failure.tool_error_type}
            and fnmatchcase(rule, self.rule)
        )

    def corrected(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters as changed by this policy."""
        remaining = {name: value for name, value in params.items() if name not in self.drop}
        short = {
            name: " ".join(remaining[name].split()[:most])
            for name, most in self.shorten.items()
            if isinstance(remaining.get(name), str)
        }
        return {**remaining, **short, **self.set}


def choose(policies: Iterable[RetryPolicy], tool: str, failure: FailureRecord) -> RetryPolicy:
    """Return the first policy that matches, or one that tries nothing."""
    match = next((policy for policy in policies if policy.fits(tool, failure)), None)
    return match or RetryPolicy(action=_NO_POLICY, retries=0)
