"""Measures progress: a changed tree, or a changed set of failing tests. Text alone is no progress."""

from __future__ import annotations

from reflectloop.fileops.response import CommandProof, Response
from reflectloop.verification import reports

MOST_IDLE = 15  # turns in a row


class LoopProgress:
    """Counts the changes (`epoch`) and the turns since the last one (`idle`)."""

    def __init__(self) -> None:
        self.epoch = 0
        self.idle = 0
        self._failing: dict[str, frozenset[str]] = {}

    def turn(self) -> None:
        self.idle += 1

    def saw(self, response: Response) -> None:
        changed = [self._tests_changed(command) for command in response.proof.commands]
        if response.changedFiles or any(changed):
            self.epoch += 1
            self.idle = 0

    def _tests_changed(self, proof: CommandProof) -> bool:
        """Return True if a command's failing tests differ from its last run."""
        command = proof.cmd if isinstance(proof.cmd, str) else "\0".join(proof.cmd)
        before, now = self._failing.get(command), _failing(proof)
        if now is None and before is not None and not proof.exitCode:
            now = frozenset()
        if now is None:
            return False
        self._failing[command] = now
        return before is not None and before != now


def _failing(proof: CommandProof) -> frozenset[str] | None:
    """Return the names of the failed tests, or None if the output is not a test report."""
    reading = reports.read(f"{proof.stdout}\n{proof.stderr}") if proof.stdout or proof.stderr else None
    if reading is None or reading.kind != "test":
        return None
    named = {name for name, outcome in reading.tests.items() if outcome in ("failed", "error")}
    return frozenset(named | {detail.test or detail.error for detail in reading.details})
