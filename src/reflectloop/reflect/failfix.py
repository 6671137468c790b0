"""A failure of a tool with what mended it, as a value; where such pairs are kept is another room's affair."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from reflectloop.reflect.record import ToolErrorType


class FailFix(BaseModel):
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

    def counted(self, *, worked: bool) -> FailFix:
        field = "worked" if worked else "failed"
        return self.model_copy(update={field: getattr(self, field) + 1})

    @property
    def retired(self) -> bool:
        """A fix that fails more often than it works is not tried any more."""
        return self.failed > self.worked


def known(pairs: Iterable[FailFix], tool: str, signature: str) -> FailFix | None:
    """The pair that met this failure before, the one that worked most; none that is retired."""
    fitting = [pair for pair in pairs if pair.tool == tool and pair.signature == signature and not pair.retired]
    return max(fitting, key=lambda pair: pair.worked - pair.failed, default=None)
