"""A tool failure with its fix, as a value; storage is handled elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from reflectloop.diagnosis.failure_record import ToolErrorType


class FailFix(BaseModel):
    """A tool failure, the fix that worked, and how often it worked or failed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pattern_id: str
    tool: str
    error_type: ToolErrorType | None
    signature: str
    symptoms: tuple[str, ...]
    successful_fix: str
    timestamp: str
    worked: int = 1
    failed: int = 0

    def as_protocol(self) -> dict[str, Any]:
        """Return the pair with the fields of the reflection protocol."""
        fields = ("pattern_id", "tool", "error_type", "symptoms", "successful_fix", "timestamp")
        data = self.model_dump(mode="json")
        return {name: data[name] for name in fields}

    def counted(self, *, worked: bool) -> FailFix:
        field = "worked" if worked else "failed"
        return self.model_copy(update={field: getattr(self, field) + 1})

    @property
    def retired(self) -> bool:
        """True if the fix failed more often than it worked, so that it is no longer tried."""
        return self.failed > self.worked


def known(pairs: Iterable[FailFix], tool: str, signature: str) -> FailFix | None:
    """Return the most successful fix of this failure that is not retired, or None."""
    fitting = [pair for pair in pairs if pair.tool == tool and pair.signature == signature and not pair.retired]
    return max(fitting, key=lambda pair: pair.worked - pair.failed, default=None)
