"""One place of the project that was found, and why."""

from __future__ import annotations

from typing import Any, NamedTuple


class Hit(NamedTuple):
    """A range of lines that is relevant; `source` names the signals that agree on it."""

    source: tuple[str, ...]
    path: str
    start_line: int
    end_line: int
    score: float
    why: str
    text: str = ""  # the whole range, redacted; empty if it does not fit the token budget

    def as_data(self) -> dict[str, Any]:
        return {**self._asdict(), "source": list(self.source), "score": round(self.score, 4)}
