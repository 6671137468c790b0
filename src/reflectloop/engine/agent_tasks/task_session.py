"""Holds what the work on an agent task needs while one engine runs: workspace, journal, agents, attempt history."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reflectloop.agents.backend import Act
from reflectloop.artifacts import next_command, usage
from reflectloop.artifacts.usage import AgentBudget
from reflectloop.config import Config
from reflectloop.engine.requests import fileops_session
from reflectloop.engine.requests.fileops_session import FileopsSession, FileopsTarget
from reflectloop.engine.run import admission
from reflectloop.engine.steps import agent_fileops, attempt_history, prompts
from reflectloop.engine.steps.agent_pool import AgentPool, Budget
from reflectloop.engine.steps.attempt_history import AttemptHistory
from reflectloop.engine.steps.prompts import StepBrief
from reflectloop.engine.tasks import open_tasks, task_plan
from reflectloop.engine.tasks.task_journal import TaskJournal
from reflectloop.errors import Interrupted, NothingToDo
from reflectloop.plan.model import Plan, Step
from reflectloop.policy import CommandPolicy
from reflectloop.sandbox import isolation
from reflectloop.sandbox.sandbox import Box
from reflectloop.state.fold import RunState, StepState, Task
from reflectloop.state.transitions import TaskState
from reflectloop.terms import Network, Role
from reflectloop.workspace import patch
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders

_LARGEST_DIFF = 200_000  # characters of a diff that are kept for agents to read
Tell = Callable[[str], None]


@dataclass
class TaskSession:
    """The current task, or none while a plan is being made."""

    files: FileopsSession
    pool: AgentPool
    tell: Tell
    history: AttemptHistory = field(default_factory=lambda: AttemptHistory(""))
    given_up: str = ""  # why the attempt before this one failed

    @property
    def folders(self) -> Folders:
        return self.files.folders

    @property
    def settings(self) -> Config:
        return self.pool.settings

    @property
    def workspace(self) -> Workspace:
        return self.files.workspace

    @property
    def box(self) -> Box:
        return self.files.box

    @property
    def journal(self) -> TaskJournal:
        return self.files.journal

    @property
    def policy(self) -> CommandPolicy:
        return self.files.ops.policy

    def commit(self) -> None:
        self.files.commit()

    def read(self) -> tuple[Task, RunState]:
        """Return the task as its journal is now."""
        return read_task(self.folders)

    def plan(self) -> Plan:
        return task_plan.plan_of(*self.read())

    def diff(self, begun: str, end: str) -> str:
        """Return a diff for people and agents to read, with secrets redacted."""
        chunks: list[bytes] = []
        redacted = patch.RedactedPatch(chunks.append)
        patch.stream(self.workspace.git(), begun, end, redacted.feed, exact=False)
        redacted.finish()
        return prompts.cut(b"".join(chunks).decode("utf-8", "replace"), _LARGEST_DIFF)

    def brief(self, run: RunState, plan: Plan, step: Step) -> StepBrief:
        """Return what an agent must know of a step."""
        constraints = run.objective.get("constraints")
        return StepBrief(
            plan.objective.goal,
            step.id,
            step.title,
            step.agent.prompt if step.agent and step.agent.prompt != step.title else step.details,
            tuple(item.claim for item in step.verify if item.claim and item.claim not in plan.checks),
            tuple(wanted.check.description for wanted in plan.checks_of(step) if not wanted.must_fail),
            tuple(map(str, constraints)) if isinstance(constraints, list) else (),
            run.steps[step.id].answer,
            step.agent.tools if step.agent else (),
            self._findings(run, step),
        )

    def _findings(self, run: RunState, step: Step) -> str:
        """Return what the steps before this one found by looking."""
        task = self.folders.load_current()
        earlier = list(run.steps)[: list(run.steps).index(step.id)]
        texts = {name: attempt_history.findings_in(self.step_folder(task, name)) for name in earlier}
        return "\n\n".join(f"step {name}: {text.strip()}" for name, text in texts.items() if text)

    def step_folder(self, task: Task, step: str) -> Path:
        return self.folders.journal(task.id).parent / "steps" / step

    def attempt_folder(self, task: Task, step: str, attempt: int) -> Path:
        folder = self.step_folder(task, step) / str(attempt)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def act(self, step: Step) -> Act:
        """Return the file operations of an executor that has no tools of its own, as far as the step permits them."""
        tools = step.agent.tools if step.agent else ()
        return agent_fileops.by(self.files.ops, writable=not step.looks_only, tools=tools)


def next_step(run: RunState) -> StepState | None:
    return next(iter(run.unfinished_steps), None)


def read_task(folders: Folders) -> tuple[Task, RunState]:
    """Return the current task and its run; refuse if no agent works on it."""
    task = folders.load_current()
    run = task.last_run
    if run is None or task.state in (TaskState.DONE, TaskState.ABORTED):
        raise NothingToDo("there is no plan to work on", next_step="reflectloop tp GOAL")
    if not run.kind.is_stepwise:
        raise NothingToDo(
            f"task {task.id} was started by `reflectloop run`; continue it with `reflectloop run`",
            next_step="reflectloop run",
        )
    return task, run


@contextlib.contextmanager
def open_task_session(target: FileopsTarget, tell: Tell, purpose: str = "tr") -> Iterator[TaskSession]:
    """Open the project's current task, or none, with the lock held."""
    with fileops_session.open_session(target, purpose) as files:
        session = _session(files, target, tell)
        _settle_network(session)
        yield session


def _settle_network(session: TaskSession) -> None:
    """Refuse programs and steps that need the network where `full` was promised; else say which level is left."""
    level, settings = session.box.wall, session.settings
    agents = {f"agent {settings.roles.bound_to(role)} as {role}": settings.network_of(role) for role in Role}
    needed: dict[str, Network | None] = {name: network for name, network in agents.items() if network is Network.HOST}
    domain = session.files.domain
    task = domain.journal.task()
    run = task.last_run
    steps: dict[str, Network | None] = {}
    if run and run.kind.is_stepwise and run.status == "running":
        steps = {f"step {name}": network for name, network in _networks(task, run).items()}
    isolation.refuse_network(level, session.files.floor, needed | steps)
    domain.base = domain.base._replace(isolation=level.stamp([*agents.values(), *steps.values()]))


def _networks(task: Task, run: RunState) -> dict[str, Network | None]:
    plan = task_plan.plan_of(task, run)
    return {step.id: step.network for step in plan.steps if step.network}


def _session(files: FileopsSession, target: FileopsTarget, tell: Tell) -> TaskSession:
    task = files.journal.task()
    if task.passed or task.state is TaskState.ABORTED:
        task = Task()  # the next task does not begin with what was used for this one
    run = task.last_run
    limits = task_plan.plan_of(task, run).limits if run and run.kind.is_stepwise else None
    pool = AgentPool(
        files.config,
        files.folders.root,
        target.caller,
        files.box,
        run.id if run else "",
        files.journal.note,
        Budget(AgentBudget.of(files.config, limits), usage.used_since_unlock(task)),
        run.base_tree if run else files.workspace.tree,
        agent_fileops.by(files.ops, writable=False),
        second=lambda: _second(files),
    )
    return TaskSession(files, pool, tell)


def _second(files: FileopsSession) -> tuple[Box, Act]:
    """Return a box and read-only operations on a second workspace with the same files."""
    ops = files.second()
    return ops.box, agent_fileops.by(ops, writable=False)


def refuse_if_asked(folders: Folders) -> None:
    """Stop before the next step if a person asked for a pause or an abort."""
    why = open_tasks.pause_requested(folders)
    if why:
        raise Interrupted(why, next_step=next_command.BY_AGENTS)


def refusals(session: TaskSession, plan: Plan, step: Step) -> list[admission.RefusedCommand]:
    """Return the commands and checks of a step that the policy does not let run."""
    return list(admission.refusals_of(plan, (step,), session.policy))
