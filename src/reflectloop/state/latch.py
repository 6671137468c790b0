"""The stop latch: a file that locks a project until a person unlocks it with a reason."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.errors import Latched
from reflectloop.system import clock, files

_NAME = "latch.json"


class Stop(NamedTuple):
    id: str
    reason: str
    error_code: str
    run_id: str
    step_id: str | None
    plan_hash: str
    base_tree: str
    created_at: str
    pid: int
    host: str

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "grade": "stop", **{key: value for key, value in self._asdict().items() if key != "id"}}


def make(
    at: datetime, *, reason: str, error_code: str, run_id: str, step_id: str | None, plan_hash: str, base_tree: str
) -> Stop:
    identity = f"L-{run_id.removeprefix('RLOP-')}"
    stamp = clock.stamp(at)
    return Stop(
        identity, reason, error_code, run_id, step_id, plan_hash, base_tree, stamp, os.getpid(), os.uname().nodename
    )


def set_stop(folder: Path, stop: Stop) -> None:
    files.write_atomic(folder / _NAME, files.json_text(stop.as_json()) + "\n")


def read_stop(folder: Path) -> Stop | None:
    """Return the latch, or None if there is none. An unreadable latch still locks the project."""
    path = folder / _NAME
    if not os.path.lexists(path):
        return None
    if not path.is_file():
        return _unreadable()
    try:
        raw = path.read_text()
    except (OSError, UnicodeDecodeError):
        return _unreadable()
    try:
        record = json.loads(raw)
        record.pop("grade", None)
        return Stop(**record)
    except (ValueError, TypeError, AttributeError):
        return _unreadable()


def _unreadable() -> Stop:
    return Stop(
        "L-unreadable",
        "the latch file cannot be read, so the project stays locked",
        "LATCHED",
        "",
        None,
        "",
        "",
        "",
        0,
        "",
    )


def clear_stop(folder: Path) -> None:
    path = folder / _NAME
    if path.is_dir() and not path.is_symlink():
        files.remove_tree(path)
    path.unlink(missing_ok=True)


def refuse_if_stopped(folder: Path) -> None:
    stop = read_stop(folder)
    if stop:
        since = f" since {stop.created_at}" if stop.created_at else ""
        raise Latched(
            f"stopped{since} by {stop.error_code}{f' in {stop.run_id}' if stop.run_id else ''}: {stop.reason}",
            next_step="find out why, then: reflectloop unlock --reason TEXT",
        )
