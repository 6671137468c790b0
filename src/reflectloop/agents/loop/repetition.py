"""Notices calls that repeat while nothing changes, one call or two in turn. Pure: it counts, and says what follows."""

from __future__ import annotations

import json
from collections import Counter, deque
from enum import StrEnum
from typing import Any

from reflectloop.agents.messages import ToolCall

WARN, INJECT, STOP = 3, 5, 50
WINDOW = 10
# What such a call does is told by the call alone. The others look at the world: the same look at another is another.
_CHANGING = frozenset(("write_file", "write_json", "apply_patch", "delete_file", "move_file"))


class RepetitionVerdict(StrEnum):
    FINE = "fine"
    WARN = "warn"
    INJECT = "inject"  # E_STUTTERING instead of the call
    STOP = "stop"


class RepetitionDetector:
    """The calls of one run, and how often each was made in its task. Two in turn fall to the same count as one."""

    def __init__(self, counts: Counter[str] | None = None, step: str = "") -> None:
        self._last: deque[str] = deque(maxlen=WINDOW)
        self._counts, self._step = Counter() if counts is None else counts, step

    def met(self, call: ToolCall, epoch: int) -> RepetitionVerdict:
        """Count a call; `epoch` says how often the world has changed."""
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
    said: Any = [call.name, call.arguments, call.fault]
    return json.dumps(said if call.name in _CHANGING else [*said, epoch], sort_keys=True)
