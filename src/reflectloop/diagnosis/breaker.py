"""A circuit breaker per tool: after repeated failures calls are blocked for a while, then one call is tried."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from reflectloop.state import lock
from reflectloop.system import files
from reflectloop.workspace.folders import Folders


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


# On disk ----------------------------------------------------------------------------------------------------------

T = TypeVar("T")
_FOLDER = Path("cache") / "breakers"
_FILE = "tools.json"
_LARGEST = 1 << 20


class PersistentBreakers(Breakers):
    """Breakers that outlive their process, so that the next call also leaves a failing tool alone.

    Times are seconds since the machine started, which all its processes share; older entries are void.
    """

    def __init__(self, folders: Folders, limits: BreakerLimits | None = None) -> None:
        super().__init__(limits)
        self._folders = folders
        self._path = folders.own / _FOLDER / _FILE

    def enter(self, tool: str, now: float) -> bool:
        tool = _digest(tool)
        if not self._path.exists():
            return super().enter(tool, now)
        return self._locked(now, lambda: super(PersistentBreakers, self).enter(tool, now))

    def leave(self, tool: str, now: float, *, well: bool) -> None:
        tool = _digest(tool)
        if well and not self._path.exists():  # a call that succeeds leaves no file behind
            return
        self._locked(now, lambda: super(PersistentBreakers, self).leave(tool, now, well=well))

    def _locked(self, now: float, work: Callable[[], T]) -> T:
        """Run `work` on the stored breakers, under a lock, and store what it changed."""
        self._folders.reject_links()
        self._folders.ensure_owned()
        with lock.hold_lock(self._path.parent, "breakers", wait=lambda _: None):
            before = self._read(now)
            self._tools = dict(before)
            result = work()
            if self._tools != before:
                self._write(now)
            return result

    def _read(self, now: float) -> dict[str, Breaker]:
        """Return the stored breakers; none if the file is missing or damaged."""
        try:
            stored = json.loads(self._path.read_bytes()[:_LARGEST])
            breakers = {str(tool): _breaker(entry, now, self.limits) for tool, entry in stored.items()}
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            return {}
        return {tool: breaker for tool, breaker in breakers.items() if breaker != Breaker()}

    def _write(self, now: float) -> None:
        entries = {
            tool: {
                "failures": breaker.failures,
                "opened_at": breaker.opened_at,
                "trying_since": now if breaker.trying else None,
            }
            for tool, breaker in self._tools.items()
            if breaker != Breaker()
        }
        files.write_atomic(self._path, json.dumps(entries) + "\n")


def _digest(tool: str) -> str:
    """Return a digest of a tool's name, which can be a whole command with a secret in it."""
    return hashlib.sha256(tool.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _breaker(entry: dict[str, float | None], now: float, limits: BreakerLimits) -> Breaker:
    opened, since = entry["opened_at"], entry["trying_since"]
    if opened is not None and now < opened:
        return Breaker()  # the machine was restarted
    # The process that made the trial call may have died: do not wait for it longer than a breaker stays open.
    trying = since is not None and 0 <= now - since < limits.cool_s
    return Breaker(int(entry["failures"] or 0), opened, trying)
