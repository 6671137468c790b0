"""A project with a bug and scripted agents, for the stories of the nine steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reflectloop.commands.apply_run import apply
from reflectloop.engine.agent_tasks import planning, task_runner
from reflectloop.engine.agent_tasks.planning import PlanningResult, PlanRequest
from reflectloop.engine.agent_tasks.task_runner import TaskResult
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.state import events, journal
from reflectloop.state.fold import StepState, fold
from reflectloop.workspace.folders import open_project_dirs
from support import Repo

BROKEN = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
TEST = "from calc import add\n\nassert add(2, 3) == 5\n"
CHECK = "python3 test_calc.py"
WRITE = {"op": "write_file", "path": "calc.py", "content": RIGHT}
PASSES = {"verdict": "PASS"}
DONE = {"control": "step_done", "approach": "plus instead of minus"}
DESIGN: dict[str, Any] = {
    "title": "Mend add",
    "goal": "add() adds",
    "steps": [{"title": "Make add add", "details": "calc.add subtracts", "checks": [CHECK]}],
}


class Crew:
    """A project with a bug, and agents that play what a test gives them."""

    def __init__(self, repo: Repo) -> None:
        self.repo, self.place, self.said = repo, FileopsTarget(repo.path), []  # type: ignore[var-annotated]
        repo.write("calc.py", BROKEN)
        repo.write("test_calc.py", TEST)

    def plays(self, *entries: dict[str, Any], settings: str = "", roles: str = "planner executor reviewer") -> Crew:
        """Entries come first; behind them everybody is honest."""
        honest = [
            {"role": "planner", "says": "Make a plan", "answer": DESIGN},
            {"role": "planner", "says": "Design one step", "answer": {"approach": "swap the operator"}},
            {"role": "planner", "says": "Review", "answer": PASSES},
            {"role": "reviewer", "answer": PASSES},
            {"role": "executor", "ops": [WRITE], "answer": DONE},
        ]
        bound = "".join(f'{role} = "script"\n' for role in roles.split())
        self.repo.write("reflectloop.toml", f'[roles]\n{bound}[agents.script]\nfile = "../agent.yaml"\n{settings}')
        self.repo.write("../agent.yaml", json.dumps({"script": [*entries, *honest]}))
        self.repo.commit("agents")
        return self

    def plan(self, goal: str = "add() adds") -> PlanningResult:
        return planning.plan(self.place, PlanRequest(goal), lambda _design: True, self.said.append)

    def work(self, *, every: bool = True) -> TaskResult:
        return task_runner.work(self.place, self.said.append, every=every)

    def story(self) -> TaskResult:
        self.plan()
        return self.work()

    def history(self) -> list[events.Event]:
        folders = open_project_dirs(self.repo.path)
        current = folders.current_task()
        assert current
        return [entry.event for entry in journal.read(folders.journal(current))]

    def asked(self, role: str) -> list[events.AgentAsked]:
        return [one for one in self.history() if isinstance(one, events.AgentAsked) and one.role == role]

    def papers(self, pattern: str) -> list[Path]:
        return sorted((self.repo.path / ".reflectloop").glob(f"tasks/*/steps/{pattern}"))

    def apply(self) -> None:
        apply(self.repo.path, None, commit=False, branch=None, message=None, agree=lambda _offer: True)

    def steps(self) -> dict[str, StepState]:
        folders = open_project_dirs(self.repo.path)
        current = folders.current_task()
        assert current
        return list(fold(journal.read(folders.journal(current))).runs.values())[-1].steps
