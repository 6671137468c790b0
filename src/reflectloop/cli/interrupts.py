"""What a signal means to a command that must clear up before it ends."""

from __future__ import annotations

import signal
from types import FrameType


def as_interrupts() -> None:
    """Let every polite request to end be the one that clears up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, _unmoved)  # as `nohup` wants it, without handing that on to commands
        elif number != signal.SIGQUIT:
            signal.signal(number, _as_interrupt)


def _unmoved(number: int, frame: object) -> None:
    pass


def _as_interrupt(_: int, __: FrameType | None) -> None:
    # Once: what follows is clearing up, and must not be cut short.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
