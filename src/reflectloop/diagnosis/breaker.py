"""A circuit breaker per tool: after repeated failures calls are blocked for a while, then one call is tried."""

from __future__ import annotations

from enum import StrEnum
from threading import Lock
from typing import NamedTuple


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class BreakerLimits(NamedTuple):
    """When a breaker opens, and for how long."""

    failures: int = 5  # consecutive failures until it opens
    cool_s: float = 60.0


class Breaker(NamedTuple):
    """The state of one tool's breaker, as a value."""

    failures: int = 0
    opened_at: float | None = None
    trying: bool = False  # half-open, and the trial call is running

    def state(self, now: float, limits: BreakerLimits) -> BreakerState:
        if self.opened_at is None:
            return BreakerState.CLOSED
        return BreakerState.HALF_OPEN if now >= self.opened_at + limits.cool_s else BreakerState.OPEN

    def lets_through(self, now: float, limits: BreakerLimits) -> bool:
        state = self.state(now, limits)
        return state == BreakerState.CLOSED or (state == BreakerState.HALF_OPEN and not self.trying)

    def after(self, now: float, limits: BreakerLimits, *, well: bool) -> Breaker:
        if well:
            return Breaker()
        failures = self.failures + 1
        opens = self.opened_at is not None or failures >= limits.failures
        return Breaker(failures, now if opens else None)


class Breakers:
    """The breakers of all tools in this process; safe to share between threads."""

    def __init__(self, limits: BreakerLimits | None = None) -> None:
        self.limits = limits or BreakerLimits()
        self._tools: dict[str, Breaker] = {}
        self._lock = Lock()

    def state(self, tool: str, now: float) -> BreakerState:
        return self._tools.get(tool, Breaker()).state(now, self.limits)

    def enter(self, tool: str, now: float) -> bool:
        """Return True if a call may proceed; a call that enters half-open is the trial call."""
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
