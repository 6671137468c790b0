"""A task of agents whose engine is killed after each of its events: it goes on, and comes to the same end."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

from proof.agreement import Left
from proof.environment import Stage
from proof.paper import Paper

_CHECK = "grep -q 'a + b' calc.py"
_RIGHT = "def add(a, b):\n    return a + b\n"
_DONE = {"control": "step_done", "approach": "plus"}
_PLAN = {
    "title": "Mend add",
    "goal": "add() adds",
    "steps": [
        {"title": "Note it", "commands": ["echo noted >> notes.txt"], "checks": ["test -s notes.txt"]},
        {"title": "Mend it", "checks": [_CHECK]},
    ],
}
_UNLIKED = {"verdict": "RETRY", "items": [{"file": "calc.py", "problem": "no docstring"}]}


def _writes(text: str, **when: Any) -> dict[str, Any]:  # noqa: ANN401 - the fields of an entry
    return {
        "role": "executor",
        **when,
        "ops": [{"op": "write_file", "path": "calc.py", "content": text}],
        "answer": _DONE,
    }


_SCRIPT = [
    {"role": "planner", "says": "Make a plan", "answer": _PLAN},
    {"role": "planner", "says": "Design one step", "answer": {"approach": "swap the operator"}},
    {"role": "planner", "answer": {"verdict": "PASS"}},
    {"role": "reviewer", "step": "2", "attempt": 1, "answer": _UNLIKED},
    {"role": "reviewer", "answer": {"verdict": "PASS"}},
    _writes('"""Sums."""\n' + _RIGHT, attempt=2),
    _writes(_RIGHT),
]


class End(NamedTuple):
    """What must come out the same, however often an engine dies on the way."""

    patch: str
    steps: dict[str, tuple[str, int]]


class Deaths:
    """A small project with a bug; each round begins with a copy in which the plan is made and nothing done."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.number = stage, 0

    def begun(self) -> Path:
        self.number += 1
        project = self.stage.small_project(f"deaths-{self.number}")
        (project / "calc.py").write_text("def add(a, b):\n    return a - b\n")
        script = self.stage.folder / "deaths.json"
        script.write_text(json.dumps({"script": _SCRIPT}))
        roles = "".join(f'{role} = "script"\n' for role in ("planner", "executor", "reviewer"))
        (project / "reflectloop.toml").write_text(f'[roles]\n{roles}[agents.script]\nfile = "{script}"\n')
        for words in (["add", "-A"], ["commit", "-q", "-m", "a bug"]):
            self.stage.sh(project, "git", *words)
        self.stage.loop(project, "tp", "add() adds", "--yes")
        return project

    def killed(self, events: int) -> Path:
        """Once its journal has so many lines."""
        project = self.begun()
        engine = self.stage.start(project, "tr", "--all")
        (journal,) = project.glob(".reflectloop/tasks/*/journal.jsonl")
        while engine.poll() is None and journal.read_bytes().count(b"\n") < events:
            time.sleep(0.001)
        engine.send_signal(signal.SIGKILL)
        engine.communicate()
        return project

    def ended(self, project: Path) -> End | None:
        """Gone on with; None where it does not come to its end."""
        code, _ = self.stage.loop(project, "tr", "--all")
        left = Left.of(project)
        patch = left.own / "runs" / left.run / "changes.patch"
        if code not in (0, 14) or not patch.exists():  # 14: the first engine had come to the end itself
            return None
        return End(patch.read_text(), {name: (one.status, one.attempts) for name, one in left.steps().items()})


def prove(paper: Paper, stage: Stage) -> None:
    deaths = Deaths(stage)
    calm = deaths.begun()
    first = len(Left.of(calm).journal)
    wanted = deaths.ended(calm)
    last = len(Left.of(calm).journal)
    others = [number for number in range(first + 1, last + 1) if deaths.ended(deaths.killed(number)) != wanted]
    left = stage.processes()
    paper.claim(
        "killed by kill -9 after any event, `tr --all` goes on to the same patch with the same attempts",
        f"{last - first} deaths, other ends after event {others or 'none'}; processes left: {left}",
        holds=wanted is not None and not others and not left,
    )
