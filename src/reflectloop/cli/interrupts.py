"""Turns signals into KeyboardInterrupt, for commands that clean up before they end."""

from __future__ import annotations

import signal
from types import FrameType


def as_interrupts() -> None:
    """Raise KeyboardInterrupt on INT, TERM and HUP. A signal that the caller ignores stays ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            # A handler of our own, not SIG_IGN: commands would inherit that (as under `nohup`).
            signal.signal(number, _ignore)
        elif number != signal.SIGQUIT:
            signal.signal(number, _interrupt)


def _ignore(number: int, frame: object) -> None:
    pass


def _interrupt(_: int, __: FrameType | None) -> None:
    # Once: the clean-up that follows must not be interrupted.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
