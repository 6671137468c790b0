"""What is done about a tool's failure, as a table: the first policy that fits the tool and its error decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from reflectloop.reflect.record import FailureRecord, ToolErrorType

Severity = Literal["low", "medium", "high"]
_NO_POLICY = "report"


class Policy(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = "*"  # a glob over tools' names
    error: ToolErrorType | Literal["*"] = "*"
    rule: str = "*"  # a glob over the ids of rules of diagnosis
    action: Annotated[str, Field(min_length=1)]
    retries: Annotated[int, Field(ge=0, le=20)] = 0
    delay_s: Annotated[float, Field(ge=0, le=3600)] = 3.0
    most_s: Annotated[float, Field(ge=0, le=86400)] = 300.0
    set: dict[str, Any] = {}  # parameters given another value
    drop: tuple[str, ...] = ()  # parameters left out
    shorten: dict[str, Annotated[int, Field(ge=1)]] = {}  # parameters of text, and how many words of them stay
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

    def mended(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters as this policy would have them."""
        kept = {name: value for name, value in params.items() if name not in self.drop}
        short = {
            name: " ".join(kept[name].split()[:words])
            for name, words in self.shorten.items()
            if isinstance(kept.get(name), str)
        }
        return {**kept, **short, **self.set}


def choose(policies: Iterable[Policy], tool: str, failure: FailureRecord) -> Policy:
    """The first that fits; where none does, nothing is tried."""
    found = next((policy for policy in policies if policy.fits(tool, failure)), None)
    return found or Policy(action=_NO_POLICY, retries=0)
