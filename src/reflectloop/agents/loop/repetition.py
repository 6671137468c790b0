"""Detects calls that repeat while nothing changes, also two calls in alternation. Pure."""

from __future__ import annotations

import json
from collections import Counter, deque
from enum import StrEnum
from typing import Any

from reflectloop.agents.messages import ToolCall

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
