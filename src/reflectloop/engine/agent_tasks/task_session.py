"""What the nine steps share while one engine works: the workspace, the crew, the plan's state, what was tried."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from reflectloop.agents.backend import Act
from reflectloop.engine import next_command, task_control
from reflectloop.engine.agent_tasks import agent_fileops, prompts
from reflectloop.engine.agent_tasks.agent_pool import AgentPool, Budget
from reflectloop.engine.agent_tasks.attempt_history import AttemptHistory
from reflectloop.engine.agent_tasks.prompts import StepBrief
from reflectloop.engine.artifacts import usage, views
from reflectloop.engine.artifacts.usage import AgentBudget
from reflectloop.engine.folders import Folders, folders_at
from reflectloop.engine.requests import fileops_session
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.engine.requests.plan_ops import TaskOps
from reflectloop.errors import Interrupted, NothingToDo
from reflectloop.fileops import execute
from reflectloop.fileops.ops_context import OpsContext
from reflectloop.fileops.request import FileopsRequest
from reflectloop.fileops.response import Response
from reflectloop.sandbox import isolation
from reflectloop.state import events, journal
from reflectloop.state.fold import RunState, StepState, Task, fold
from reflectloop.state.transitions import TaskState
from reflectloop.terms import Isolation, Network, Role
from reflectloop.workspace import patch
from reflectloop.workspace.checkout import Workspace

_LARGEST_DIFF = 200_000  # characters that are kept of a diff for agents to read
Tell = Callable[[str], None]


@dataclass
class TaskSession:
    folders: Folders
    hands: OpsContext
    crew: AgentPool
    tell: Tell
    past: AttemptHistory = field(default_factory=lambda: AttemptHistory(""))
    why: str = ""  # the attempt before is given up

    @property
    def space(self) -> Workspace:
        return self.hands.workspace

    @property
    def domain(self) -> TaskOps:
        return cast("TaskOps", self.hands.domain)

    def look(self) -> tuple[Task, RunState]:
        """The task as its journal says now."""
        return at_work(self.folders)

    def request(self, purpose: str, *ops: Mapping[str, Any], summary: str = "") -> Response:
        """A request of the engine's own: all or nothing, journalled, remembered."""
        said = {
            "proto": agent_fileops.PROTO,
            "id": agent_fileops.new_id(),
            "purpose": purpose,
            "summary": summary,
            "ops": list(ops),
        }
        return execute.execute(FileopsRequest.model_validate(said), self.hands)

    def diff(self, begun: str, end: str) -> str:
        """As people read it, and with its secrets taken out."""
        out: list[bytes] = []
        cleaned = patch.RedactedPatch(out.append)
        patch.stream(self.space.git(), begun, end, cleaned.feed, exact=False)
        cleaned.finish()
        return prompts.cut(b"".join(out).decode("utf-8", "replace"), _LARGEST_DIFF)

    def work(self, run: RunState, step: StepState) -> StepBrief:
        details = run.details.get(step.id, {})
        objective = run.objective.get("objective")
        return StepBrief(
            str(objective.get("goal", "")) if isinstance(objective, dict) else "",
            step.id,
            run.titles.get(step.id, ""),
            str(details.get("details", "")),
            texts(details.get("done")),
            tuple(words(one) for one in listed(details.get("checks"))),
            texts(run.objective.get("constraints")),
            step.answer,
        )

    def papers(self, task: Task, step: str) -> Path:
        return self.folders.journal(task.id).parent / "steps" / step

    def folder(self, task: Task, step: str, attempt: int) -> Path:
        made = self.papers(task, step) / str(attempt)
        made.mkdir(parents=True, exist_ok=True)
        return made

    def act(self) -> Act:
        """Hands for an executor that has none."""
        return agent_fileops.by(self.hands, writable=True)


def at_work(folders: Folders) -> tuple[Task, RunState]:
    current = folders.current_task()
    task = fold(journal.read(folders.journal(current))) if current else Task()
    run = list(task.runs.values())[-1] if task.runs else None
    if run is None or task.state in (TaskState.DONE, TaskState.ABORTED):
        raise NothingToDo("there is no plan to work on", next_step="reflectloop tp GOAL")
    if not run.kind.is_stepwise:
        raise NothingToDo(f"task {task.id} was made by `run`, and is gone on with by it", next_step="reflectloop run")
    return task, run


@contextlib.contextmanager
def opened(place: FileopsTarget, tell: Tell, purpose: str = "tr") -> Iterator[TaskSession]:
    """A desk on the project's current task, or on none, with the lock held."""
    with fileops_session.opened(place, purpose) as hands:
        folders = folders_at(place.start)
        made = of(folders, hands, place, tell)
        _settle_network(made, place)
        yield made


def _settle_network(desk: TaskSession, place: FileopsTarget) -> None:
    """A program that asks a model over the network lowers `full`, and is refused where that was promised."""
    settings, wall = desk.crew.settings, desk.hands.box.wall
    reached = {f"agent {settings.roles.bound_to(role)} as {role}": settings.network_of(role) for role in Role}
    floor = max(settings.box.isolation, place.isolation or Isolation.NONE, key=lambda level: level.rank)
    isolation.refuse_network(wall, floor, {name: one for name, one in reached.items() if one is Network.HOST})
    desk.domain.isolation = wall.stamp(reached.values())


def of(folders: Folders, hands: OpsContext, place: FileopsTarget, tell: Tell) -> TaskSession:
    from reflectloop import config  # noqa: PLC0415 - read again: a person may have changed it

    settings = config.load(folders.root)
    current = folders.current_task()
    task = fold(journal.read(folders.journal(current))) if current else Task()
    if task.passed or task.state is TaskState.ABORTED:
        task = Task()  # what was used for it is nothing that the next one begins with
    run = list(task.runs.values())[-1] if task.runs else None
    crew = AgentPool(
        settings,
        folders.root,
        place.caller,
        hands.box,
        run.id if run else "",
        lambda event: note(folders, event),
        Budget(AgentBudget.of(settings, usage.budget_of(run) if run else None), usage.since(task)),
        run.base_tree if run else hands.workspace.tree,
        agent_fileops.by(hands, writable=False),
    )
    return TaskSession(folders, hands, crew, tell)


def note(folders: Folders, event: events.Event) -> None:
    current = folders.current_task()
    assert current  # noqa: S101 - events belong to a task
    book = folders.open_journal(current)
    try:
        book.append(event)
    finally:
        book.close()
    views.refresh(book.path.parent)


def refuse_if_asked(folders: Folders) -> None:
    why = task_control.asked(folders)
    if why:
        raise Interrupted(why, next_step=next_command.BY_AGENTS)


def listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def texts(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in listed(value))


def words(command: object) -> str:
    return command if isinstance(command, str) else " ".join(map(str, listed(command)))
