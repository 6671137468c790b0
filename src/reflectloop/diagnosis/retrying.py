"""Compute the wait before a call is repeated; pure, with the random source passed in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from reflectloop.diagnosis.retry_policy import RetryPolicy
from reflectloop.system.patterns import lazy

_ASKED = lazy(r"(?im)^\s*<?\s*retry[-_ ]after[\"']?\s*[:=]\s*[\"']?(?P<value>[^\r\n\"'}]{1,60})")
_IN_WORDS = lazy(r"(?i)\b(?:retry|try again) (?:after|in) (?P<value>\d+(?:\.\d+)?) ?(?P<unit>ms|m|s|sec|min)?")
_UNITS = {"ms": 0.001, "m": 60.0, "min": 60.0}
_MOST_ASKED_S = 3600.0


def delay_of(policy: RetryPolicy, again: int, chance: Callable[[], float], asked_s: float | None = None) -> float:
    """Return a growing delay with jitter on top: never less than is stated, or than the service asked for."""
    full = min(policy.delay_s * 2.0**again, policy.most_s)
    jittered = full * (1.25 - chance() / 4)
    return max(jittered, asked_s) if asked_s is not None else jittered


def retry_after(text: str, now: datetime) -> float | None:
    """Return the seconds a service asks to wait: from its header, as seconds or a date, or from its text."""
    if header := _ASKED.search(text):
        return _seconds(header["value"].strip(), now)
    if phrase := _IN_WORDS.search(text):
        return min(float(phrase["value"]) * _UNITS.get(phrase["unit"] or "s", 1.0), _MOST_ASKED_S)
    return None


def _seconds(value: str, now: datetime) -> float | None:
    try:
        return min(max(0.0, float(value.split(maxsplit=1)[0].rstrip("s,;"))), _MOST_ASKED_S)
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(value)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return min(max(0.0, (until - now).total_seconds()), _MOST_ASKED_S)
