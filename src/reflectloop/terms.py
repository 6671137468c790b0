"""The few words that three rooms or more share."""

from __future__ import annotations

from enum import StrEnum


class Isolation(StrEnum):
    """How far a command is kept from the machine, weakest first."""

    NONE = "none"
    WORKSPACE = "workspace"
    FS = "fs"
    FULL = "full"

    @property
    def rank(self) -> int:
        return list(Isolation).index(self)


class Network(StrEnum):
    """What a command can reach: nothing but a loopback of its own, or what its user can."""

    NONE = "none"
    HOST = "host"


class Track(StrEnum):
    """What kind of change a plan makes, and so what must be proven."""

    FEATURE = "feature"
    FIX = "fix"
    REFACTOR = "refactor"
    DIRECT = "direct"
