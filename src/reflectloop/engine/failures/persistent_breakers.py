"""Breakers that outlive their process: a tool that failed too often is left alone by the next call, too."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from reflectloop.diagnosis.breaker import Breaker, BreakerLimits, Breakers
from reflectloop.engine.folders import Folders
from reflectloop.state import lock
from reflectloop.system import files

T = TypeVar("T")
_FOLDER = Path("cache") / "breakers"
_FILE = "tools.json"
_LARGEST = 1 << 20


def _name(tool: str) -> str:
    """A tool can be a whole command, and a command can hold a secret."""
    return hashlib.sha256(tool.encode("utf-8", "surrogateescape")).hexdigest()[:16]


class PersistentBreakers(Breakers):
    """Times are the machine's since it started, the same for all its processes; what is older than that is void."""

    def __init__(self, folders: Folders, limits: BreakerLimits | None = None) -> None:
        super().__init__(limits)
        self._folders = folders
        self._path = folders.own / _FOLDER / _FILE

    def enter(self, tool: str, now: float) -> bool:
        tool = _name(tool)
        if not self._path.exists():
            return super().enter(tool, now)
        return self._locked(now, lambda: super(PersistentBreakers, self).enter(tool, now))

    def leave(self, tool: str, now: float, *, well: bool) -> None:
        tool = _name(tool)
        if well and not self._path.exists():  # what goes well leaves nothing behind
            return
        self._locked(now, lambda: super(PersistentBreakers, self).leave(tool, now, well=well))

    def _locked(self, now: float, work: Callable[[], T]) -> T:
        self._folders.refuse_strange()
        self._folders.claim()
        with lock.hold(self._path.parent, "breakers", wait=lambda _: None):
            before = self._read(now)
            self._tools = dict(before)
            done = work()
            if self._tools != before:
                self._write(now)
            return done

    def _read(self, now: float) -> dict[str, Breaker]:
        """What can be read; a damaged file is as none."""
        try:
            said = json.loads(self._path.read_bytes()[:_LARGEST])
            kept = {str(tool): _breaker(one, now, self.limits) for tool, one in said.items()}
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            return {}
        return {tool: one for tool, one in kept.items() if one != Breaker()}

    def _write(self, now: float) -> None:
        told = {
            tool: {"failures": one.failures, "opened_at": one.opened_at, "trying_since": now if one.trying else None}
            for tool, one in self._tools.items()
            if one != Breaker()
        }
        files.write_atomic(self._path, json.dumps(told) + "\n")


def _breaker(said: dict[str, float | None], now: float, limits: BreakerLimits) -> Breaker:
    opened, since = said["opened_at"], said["trying_since"]
    if opened is not None and now < opened:
        return Breaker()  # the machine was started since
    # Who tried may have died meanwhile: nobody is waited for longer than a tool is left alone.
    trying = since is not None and 0 <= now - since < limits.cool_s
    return Breaker(int(said["failures"] or 0), opened, trying)
