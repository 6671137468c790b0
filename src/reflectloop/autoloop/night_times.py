"""Reads times that people type: an hour of the clock, a date, or how long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reflectloop.errors import InvalidInput
from reflectloop.system.patterns import lazy

_HOUR = lazy(r"([01]?\d|2[0-3]):([0-5]\d)")
_SPAN = lazy(r"(\d+(?:\.\d+)?)([smhd])")
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
