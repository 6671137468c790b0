"""A breaker for each tool: after failures in a row no call goes through for a while, then one is let through to try."""

from __future__ import annotations

from enum import StrEnum
from threading import Lock
from typing import NamedTuple


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Limits(NamedTuple):
    failures: int = 5  # in a row, until it opens
    cool_s: float = 60.0


class Breaker(NamedTuple):
    failures: int = 0
    opened_at: float | None = None
    trying: bool = False  # half-open, and the one call is on its way

    def state(self, now: float, limits: Limits) -> State:
        if self.opened_at is None:
            return State.CLOSED
        return State.HALF_OPEN if now >= self.opened_at + limits.cool_s else State.OPEN

    def lets_through(self, now: float, limits: Limits) -> bool:
        state = self.state(now, limits)
        return state == State.CLOSED or (state == State.HALF_OPEN and not self.trying)

    def after(self, now: float, limits: Limits, *, well: bool) -> Breaker:
        if well:
            return Breaker()
        failures = self.failures + 1
        opens = self.opened_at is not None or failures >= limits.failures
        return Breaker(failures, now if opens else None)


class Breakers:
    """One for each tool, for as long as this lives; safe to share between threads."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._tools: dict[str, Breaker] = {}
        self._lock = Lock()

    def state(self, tool: str, now: float) -> State:
        return self._tools.get(tool, Breaker()).state(now, self.limits)

    def enter(self, tool: str, now: float) -> bool:
        """Whether a call may go through; who enters half-open is the one that tries."""
        with self._lock:
            breaker = self._tools.get(tool, Breaker())
            if not breaker.lets_through(now, self.limits):
                return False
            if breaker.opened_at is not None:
                self._tools[tool] = breaker._replace(trying=True)
            return True

    def leave(self, tool: str, now: float, *, well: bool) -> None:
        with self._lock:
            self._tools[tool] = self._tools.get(tool, Breaker()).after(now, self.limits, well=well)
