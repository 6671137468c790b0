"""Detects a loop without progress: repeated calls, or turns that change neither the tree nor the failing tests."""

from __future__ import annotations

import json
from collections import Counter, deque
from enum import StrEnum
from typing import Any

from reflectloop.agents.messages import ToolCall
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


WARN, INJECT, STOP = 3, 5, 50
WINDOW = 10
# The effect of these depends on the call alone. Any other call reads state, so it repeats only if nothing changed.
_CHANGING = frozenset(("write_file", "write_json", "apply_patch", "delete_file", "move_file"))


class RepetitionVerdict(StrEnum):
    FINE = "fine"
    WARN = "warn"
    INJECT = "inject"  # E_STUTTERING instead of the call
    STOP = "stop"


class RepetitionDetector:
    """Counts the calls of one run, and of its task. Two alternating calls reach the same limits as one."""

    def __init__(self, counts: Counter[str] | None = None, step: str = "") -> None:
        self._last: deque[str] = deque(maxlen=WINDOW)
        self._counts, self._step = Counter() if counts is None else counts, step

    def count_call(self, call: ToolCall, epoch: int) -> RepetitionVerdict:
        """Count a call and return what to do about it; `epoch` is the number of changes so far."""
        key = f"{self._step} {_key(call, epoch)}"
        self._last.append(key)
        self._counts[key] += 1
        recent = self._last.count(key)
        if self._counts[key] >= STOP:
            return RepetitionVerdict.STOP
        if recent >= INJECT:
            return RepetitionVerdict.INJECT
        return RepetitionVerdict.WARN if recent >= WARN else RepetitionVerdict.FINE


def _key(call: ToolCall, epoch: int) -> str:
    key: Any = [call.name, call.arguments, call.fault]
    return json.dumps(key if call.name in _CHANGING else [*key, epoch], sort_keys=True)
