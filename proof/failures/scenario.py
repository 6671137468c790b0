"""What a scenario is: a cause, and a script that really brings it about."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

# What follows from each cause, by the table of the failure record: category, needs.
CAUSES: dict[str, tuple[str, str]] = {
    "a module is not installed": ("ENV", "RESEARCH"),
    "a command is not installed": ("ENV", "RESEARCH"),
    "a library or header is not installed": ("ENV", "RESEARCH"),
    "versions do not fit": ("ENV", "RESEARCH"),
    "a variable is not set": ("ENV", "RESEARCH"),
    "a port is taken": ("ENV", "RESEARCH"),
    "a certificate is not trusted": ("ENV", "RESEARCH"),
    "git does not know who commits": ("ENV", "RESEARCH"),
    "syntax is broken": ("LOGIC", "REPLAN"),
    "types or names are broken": ("LOGIC", "REPLAN"),
    "a test is broken": ("LOGIC", "REPLAN"),
    "an assertion quotes a machine's words": ("LOGIC", "REPLAN"),
    "a fixture is missing": ("LOGIC", "REPLAN"),
    "two changes conflict": ("LOGIC", "REPLAN"),
    "a right is revoked": ("PERMISSION", "ASK"),
    "a service refuses who asks": ("PERMISSION", "ASK"),
    "a person is wanted": ("PERMISSION", "ASK"),
    "a name does not resolve": ("EXTERNAL", "RETRY"),
    "nothing listens": ("EXTERNAL", "RETRY"),
    "a service hangs": ("EXTERNAL", "RETRY"),
    "a service hangs up": ("EXTERNAL", "RETRY"),
    "a service is asked too often": ("EXTERNAL", "RETRY"),
    "a service fails": ("EXTERNAL", "RETRY"),
    "a lock is held": ("EXTERNAL", "RETRY"),
    "time is up": ("EXTERNAL", "RETRY"),
    "the disk is full": ("TOOL", "RESEARCH"),
    "memory is limited": ("TOOL", "RESEARCH"),
    "handles or processes are limited": ("TOOL", "RESEARCH"),
    "the file system is read-only": ("TOOL", "RESEARCH"),
    "arguments are wrong": ("DATA", "REPLAN"),
    "a file is not there": ("DATA", "REPLAN"),
    "an encoding is wrong": ("DATA", "REPLAN"),
    "data is malformed": ("DATA", "REPLAN"),
    "an address does not exist": ("DATA", "REPLAN"),
    "a request is wrong": ("DATA", "REPLAN"),
    "an error is not caught": ("EXECUTION", "RESEARCH"),
    "native code crashes": ("EXECUTION", "RESEARCH"),
}


class Scenario(NamedTuple):
    id: str
    cause: str
    script: str  # for bash, in a fresh folder; everything it prints is the log
    before: str = ""  # the same, and what it prints is dropped

    @property
    def label(self) -> tuple[str, str]:
        return CAUSES[self.cause]

    @property
    def held_aside(self) -> bool:
        """A third, by the scenario's name alone: only scored, never looked at while rules are written."""
        return hashlib.sha256(self.id.encode()).digest()[0] % 3 == 0
