"""Whether work moves: a changed tree, or other failing tests than before. Words are no progress."""

from __future__ import annotations

from reflectloop.fileops.response import CommandProof, Response
from reflectloop.verification import reports

MOST_IDLE = 15  # turns in a row


class LoopProgress:
    """`epoch` counts the changes; `idle` the turns since the last one."""

    def __init__(self) -> None:
        self.epoch = 0
        self.idle = 0
        self._failing: dict[str, frozenset[str]] = {}

    def turn(self) -> None:
        self.idle += 1

    def saw(self, response: Response) -> None:
        told = [self._tested(one) for one in response.proof.commands]
        if response.changedFiles or any(told):
            self.epoch += 1
            self.idle = 0

    def _tested(self, one: CommandProof) -> bool:
        """Whether a command's failing tests are others than when it last ran."""
        command = one.cmd if isinstance(one.cmd, str) else "\0".join(one.cmd)
        before, now = self._failing.get(command), _failing(one)
        if now is None and before is not None and not one.exitCode:
            now = frozenset()
        if now is None:
            return False
        self._failing[command] = now
        return before is not None and before != now


def _failing(one: CommandProof) -> frozenset[str] | None:
    """The names of the tests that failed; None where the output is no test runner's."""
    reading = reports.read(f"{one.stdout}\n{one.stderr}") if one.stdout or one.stderr else None
    if reading is None or reading.kind != "test":
        return None
    named = {name for name, outcome in reading.tests.items() if outcome in ("failed", "error")}
    return frozenset(named | {detail.test or detail.error for detail in reading.details})
