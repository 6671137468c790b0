"""The model behind the real programs of a night: it knows a task by its prompt, and answers by the turn it is at."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from proof.night_tasks import CLAUDE, TASKS, NightTask, as_shell
from proof.paper import ROOT
from proof.takeover import texts_of

sys.path.insert(0, str(ROOT / "tests"))

from model import Call, Tokens, Turn, say

_TASK = re.compile(r"\bDo (\w+)\.")
_CLAIM = {"control": "step_done", "approach": "as asked"}
_REST = {"summary": "", "question": "", "reason": "", "substeps": []}
_FULL = Tokens(input=150_000)
_HOUR = "rate limit reached, retry after 3600 s"
_TOO_LONG = "prompt is too long: 208310 tokens > 200000 maximum"


class NightModel:
    """Answers any number of sessions at once; a session that begins again is answered as a new one."""

    def __init__(self) -> None:
        self._tasks = {task.name: task for task in TASKS}
        self._lock = threading.Lock()
        self.requests: Counter[str] = Counter()  # by task
        self.is_out = True

    def answers(self) -> Iterator[Callable[[dict[str, Any]], Turn]]:
        while True:
            yield self.answer

    def answer(self, body: dict[str, Any]) -> Turn:
        named = next((match[1] for text in texts_of(body) for match in _TASK.finditer(text)), "")
        task = self._tasks.get(named)
        if task is None:
            return say("There is nothing to do.")
        with self._lock:
            self.requests[named] += 1
            count = self.requests[named]
        return self._fault(task, count, body) or self._work(task, _results(body))

    def _fault(self, task: NightTask, count: int, body: dict[str, Any]) -> Turn | None:
        if task.name == "rate_limit":
            return Turn(status=429, error=_HOUR, retry_after="3600")
        if task.name == "outage" and self.is_out:
            return Turn(status=503, error="overloaded")
        if task.name == "full_context" and count <= _FULL_UNTIL:  # the first session fills its context
            return (
                self._work(task, 0)._replace(tokens=_FULL) if not _results(body) else Turn(status=400, error=_TOO_LONG)
            )
        return None

    def _work(self, task: NightTask, results: int) -> Turn:
        is_claude = task.agent == CLAUDE
        acts = 1 if task.ops else 0
        if results < acts:
            command = as_shell(task.ops)
            words = {"command": command, "description": "work"} if is_claude else {"cmd": command}
            return Turn(calls=(Call("Bash" if is_claude else "exec_command", words),))
        if not is_claude:
            return say(json.dumps(_REST | _CLAIM))
        return Turn(calls=(Call("StructuredOutput", _CLAIM),)) if results == acts else say("done")


_FULL_UNTIL = 2  # requests


def _results(body: dict[str, Any]) -> int:
    """Count the results of tools in a conversation."""
    items = [*body.get("input", ())]
    items += [
        part for turn in body.get("messages", ()) if isinstance(turn["content"], list) for part in turn["content"]
    ]
    return sum(item.get("type") in ("tool_result", "function_call_output") for item in items)
