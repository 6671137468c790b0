"""The only module that reads the clock or draws random ids."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def exact_stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def monotonic() -> float:
    return time.monotonic()


def run_id(at: datetime) -> str:
    return f"RLOP-{at:%Y%m%d}-{os.urandom(3).hex()}"


def task_id(at: datetime) -> str:
    return f"T-{at:%Y%m%d}-{os.urandom(3).hex()}"


def ticket_id(at: datetime) -> str:
    return f"rewind_{at:%Y%m%d_%H%M%S}_{os.urandom(3).hex()}"


def evaluation_id(at: datetime) -> str:
    return f"eval_{at:%Y%m%d_%H%M%S}_{os.urandom(3).hex()}"


def reflection_id(at: datetime) -> str:
    return f"ref_{at:%Y%m%d_%H%M%S}_{os.urandom(3).hex()}"


def trace_id() -> str:
    return os.urandom(8).hex()


def mark() -> str:
    """Return an unpredictable random text."""
    return os.urandom(8).hex()


def wait(seconds: float) -> None:
    time.sleep(seconds)
