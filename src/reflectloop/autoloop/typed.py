"""Reads what people type: an hour of the clock, a date, how long ago, and the list of projects of one daemon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from reflectloop.errors import InvalidInput
from reflectloop.system import beneath
from reflectloop.system.patterns import lazy

_HOUR = lazy(r"([01]?\d|2[0-3]):([0-5]\d)")
_SPAN = lazy(r"(\d+(?:\.\d+)?)([smhd])")
_LARGEST_LIST = 1 << 20
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def next_time(text: str, now: datetime) -> datetime:
    """Return the time that is meant: the next time the clock of this machine shows it, or a date with time."""
    hour = _HOUR.fullmatch(text.strip())
    if hour is None:
        return _date(text, "--until")
    local = now.astimezone()
    wanted = local.replace(hour=int(hour[1]), minute=int(hour[2]), second=0, microsecond=0)
    return (wanted if wanted > local else wanted + timedelta(days=1)).astimezone(UTC)


def past_time(text: str, now: datetime) -> datetime:
    """Return the time that is meant: so long ago, the last time the clock showed it, or a date with time."""
    span = _SPAN.fullmatch(text.strip())
    if span:
        return now - timedelta(**{_UNITS[span[2]]: float(span[1])})
    hour = _HOUR.fullmatch(text.strip())
    if hour is None:
        return _date(text, "--since")
    local = now.astimezone()
    wanted = local.replace(hour=int(hour[1]), minute=int(hour[2]), second=0, microsecond=0)
    return (wanted if wanted <= local else wanted - timedelta(days=1)).astimezone(UTC)


def _date(text: str, option: str) -> datetime:
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError as fault:
        raise InvalidInput(
            f"{option} {text!r} is no time", next_step=f"{option} 07:00, {option} 2026-01-31T07:00, --since 8h"
        ) from fault
    return (read if read.tzinfo else read.astimezone()).astimezone(UTC)


def read_projects(path: Path) -> list[Path]:
    """Return the folders in a list: one in each line, relative to the list; empty lines and `#` are left out."""
    try:
        text = beneath.read_path(path, _LARGEST_LIST).decode("utf-8", "surrogateescape")
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="--projects FILE") from fault
    lines = [line.strip() for line in text.splitlines()]
    folders = [path.parent / Path(line).expanduser() for line in lines if line and not line.startswith("#")]
    if not folders:
        raise InvalidInput(f"{path} names no project", next_step="write the folder of a project into each line")
    for folder in folders:
        if not folder.is_dir():
            raise InvalidInput(f"{path} names {folder}, which is no folder", next_step=f"correct {path}")
    return folders
