"""The only module that reads the clock or draws random ids."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def monotonic() -> float:
    return time.monotonic()


def run_id(at: datetime) -> str:
    return f"RLOP-{at:%Y%m%d}-{secrets.token_hex(3)}"


def task_id(at: datetime) -> str:
    return f"T-{at:%Y%m%d}-{secrets.token_hex(3)}"


def wait(seconds: float) -> None:
    time.sleep(seconds)
