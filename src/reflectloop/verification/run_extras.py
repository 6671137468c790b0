"""Define what a run of a check may have besides its command: programs laid beside its report, and variables."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from reflectloop.verification.tools import PreparedCommand


class RunPlace(NamedTuple):
    """The folder of one run's report, and the top of the workspace as its command sees it."""

    outside: Path  # the folder as the engine sees it
    inside: Path  # the same folder as the command sees it
    root: Path


class RunExtras(Protocol):
    """Changes one run of a test check, and reads what it left."""

    def lay(
        self, prepared: PreparedCommand, env: dict[str, str], place: RunPlace
    ) -> tuple[PreparedCommand, dict[str, str]]:
        """Lay programs into the folder, and return the command and the variables to run with."""
        ...

    def collect(self, place: RunPlace) -> None:
        """Read what the run wrote into the folder; the project may have written anything there."""
        ...
