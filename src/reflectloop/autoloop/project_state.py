"""Reads what the tasks of one project need, from their journals and the queue; a journal is read when it has grown."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop import config
from reflectloop.artifacts import next_command
from reflectloop.autoloop.submissions import QueueEntry, SubmissionQueue
from reflectloop.autoloop.task_view import Standing, TaskView
from reflectloop.engine.steps.agent_executor import UNANSWERED
from reflectloop.engine.tasks import open_tasks
from reflectloop.errors import NeedsInput, ReflectloopError
from reflectloop.state import latch, lock, snapshot
from reflectloop.state.fold import RunState, Task, TaskKind
from reflectloop.state.transitions import TaskState
from reflectloop.terms import OutcomeWord, one_line, shorten
from reflectloop.workspace.folders import TASK_ID, Folders, open_project_dirs

LAND = ("autoloop", "land")
_ABOUT_CURRENT = ("reflectloop answer ", "reflectloop skip ", "reflectloop agents ", next_command.RESUME)
_EXECUTING = (("run",), ("tr",), ("resume",))
PAUSED = "it is paused"
_BY_OTHERS = "an outside program sends its requests"
_RUN = ("run",)  # of the plan that the task was opened for
_TR, _RESUME = ("tr", "--all"), ("resume",)
_LONGEST_REASON = 500
_FIRST_LINE = 1 << 16
# Ends that are no fault of the work: a new run may succeed.
_TEMPORARY = frozenset(("AGENT_FAILED", "AGENT_UNAVAILABLE", "NO_SPACE", "INTERRUPTED", "LOCKED"))


class TaskFacts(NamedTuple):
    """The part of a task that decisions and budgets need; it stays small however long the journal is."""

    standing: Standing
    position: str
    title: str = ""
    reason: str = ""
    next_command: str = ""
    run_id: str = ""
    step_id: str = ""
    words: tuple[str, ...] = ()
    usd: float = 0.0
    unpriced: int = 0
    level: str = ""


class ProjectState:
    """One project: its queue, its current task, and the tasks that were opened for submissions."""

    def __init__(self, root: Path, *, in_terminal: bool = False) -> None:
        self.folders = open_project_dirs(root)
        self._in_terminal = in_terminal  # the outside program is one that we drive
        self.queue = SubmissionQueue(self.folders)
        self._facts: dict[str, tuple[tuple[int, int, int], TaskFacts]] = {}
        self._plan_paths: dict[str, str] = {}  # of a task's plan -> task
        self._seen: set[str] = set()

    @property
    def name(self) -> str:
        return os.fspath(self.folders.root)

    @property
    def is_gone(self) -> bool:
        return not self.folders.root.is_dir()

    @property
    def is_busy(self) -> bool:
        """Return True if an engine works in the project."""
        return lock.is_held(self.folders.own)

    def apply_policy(self) -> str:
        return str(config.load(self.folders.root).autoloop.apply)

    def views(self) -> list[TaskView]:
        """Return every submission that was not withdrawn, and the current task if no submission is about it."""
        if self.is_gone:
            return []
        self._link_plans()
        entries = [entry for entry in self.queue.entries().values() if not entry.withdrawn]
        stop = latch.read_stop(self.folders.own)
        lands = any(entry.task_id for entry in entries) and self.apply_policy() != "never"
        views = [self._of_submission(entry, lands=lands) for entry in entries]
        linked = {entry.task_id for entry in self.queue.entries().values()}
        named = [name for entry in entries for name in entry.after if TASK_ID.fullmatch(name)]
        for name in dict.fromkeys([self.folders.current_task() or "", *named]):
            facts = self.facts(name) if name and name not in linked else None
            views += [self._view(name, facts)._replace(task_id=name)] if facts else []
        if stop is None:
            return views
        reason, command = f"{stop.error_code}: {stop.reason}", next_command.UNLOCK
        return [
            view
            if view.standing.is_over
            else view._replace(standing=Standing.STOPPED, reason=reason, next_command=command)
            for view in views
        ]

    def _of_submission(self, entry: QueueEntry, *, lands: bool) -> TaskView:
        facts = self.facts(entry.task_id) if entry.task_id else None
        if facts is None:
            words = ("run", f"{self.queue.plans}/{entry.plan}") if entry.plan else ("tp", entry.goal, "--yes")
            facts = TaskFacts(Standing.QUEUED, f"{entry.id} queued", words=words)
        if facts.standing is Standing.PROVEN and (lands or entry.landing):
            facts = _landing(entry, facts)
        facts = facts._replace(next_command=for_person(entry.task_id, facts.next_command))
        view = self._view(entry.id, facts)._replace(
            title=one_line(entry.title),
            priority=entry.priority,
            number=entry.number,
            after=entry.after,
            task_id=entry.task_id,
        )
        agent = ("--executor", entry.agent) if entry.agent and view.words[:1] in _EXECUTING else ()
        return view._replace(words=(*view.words, *agent))

    def _view(self, key: str, facts: TaskFacts) -> TaskView:
        return TaskView(
            key,
            self.name,
            facts.standing,
            facts.position,
            facts.title,
            facts.reason,
            facts.next_command,
            run_id=facts.run_id,
            step_id=facts.step_id,
            words=facts.words,
        )

    # Reading journals ----------------------------------------------------------------------------------------------

    def facts(self, task_id: str) -> TaskFacts | None:
        """Return the facts of a task, or None if it has no journal."""
        try:
            status = self.folders.journal(task_id).stat()
        except OSError:
            self._facts.pop(task_id, None)
            return None
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._facts.get(task_id)
        if known is None or known[0] != version:
            known = (version, self._read(task_id, status.st_size))
            self._facts[task_id] = known
        return known[1]

    def _read(self, task_id: str, size: int) -> TaskFacts:
        position = f"{task_id} {size}"
        try:
            task = snapshot.load_task(self.folders.journal(task_id).parent)
        except ReflectloopError as error:
            return TaskFacts(Standing.FAILED, position, task_id, f"{error.code}: {error.message}", error.next_step)
        facts = facts_of(task, position)
        if self._in_terminal and facts.reason == _BY_OTHERS:
            facts = facts._replace(standing=Standing.UNFINISHED, reason="")
        if facts.words == _RUN:
            facts = facts._replace(words=(*_RUN, os.fspath(self.folders.root / task.plan_path)))
        spent = task.spent_in_all
        return facts._replace(usd=spent.usd, unpriced=spent.unpriced)

    def _link_plans(self) -> None:
        """Find the tasks of submitted plans: each has a plan file of its own, so a crash loses none of them."""
        waiting = [entry for entry in self.queue.entries().values() if entry.plan and not entry.task_id]
        if not waiting:
            return
        self._read_new_tasks()
        folder = open_tasks.plan_key(self.folders, self.queue.plans)
        for entry in waiting:
            task_id = self._plan_paths.get(f"{folder}/{entry.plan}")
            if task_id:
                self.queue.open_task(entry.id, task_id)

    def _read_new_tasks(self) -> None:
        try:
            names = [path.name for path in (self.folders.own / "tasks").iterdir()]
        except OSError:
            return
        for name in names:
            if name not in self._seen and TASK_ID.fullmatch(name):
                path = plan_path_of(self.folders, name)
                if path is not None:
                    self._seen.add(name)
                    self._plan_paths[path] = name


def for_person(task_id: str, command: str) -> str:
    """Return a command about a task that may not be the current one when it is typed."""
    return f"reflectloop tasks --use {task_id} && {command}" if command.startswith(_ABOUT_CURRENT) else command


def plan_path_of(folders: Folders, task_id: str) -> str | None:
    """Return the plan that a task was opened for, from the first line of its journal; None if it has none yet."""
    try:
        with folders.journal(task_id).open("rb") as file:
            line = file.readline(_FIRST_LINE)
        return str(json.loads(line)["plan_path"]) if line.endswith(b"\n") else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _landing(entry: QueueEntry, facts: TaskFacts) -> TaskFacts:
    if not entry.landing:
        return facts._replace(standing=Standing.TO_LAND, words=(*LAND, entry.id))
    if entry.landing.get("commit"):
        where = f"on {entry.landing.get('branch')} as {str(entry.landing['commit'])[:12]}"
        return facts._replace(standing=Standing.APPLIED, reason=where)
    command = f"reflectloop apply {facts.run_id}"
    reason = f"proven alone, and does not land: {entry.landing.get('reason')}"
    return facts._replace(standing=Standing.ASKS, reason=reason, next_command=command)


# The standing of a task --------------------------------------------------------------------------------------------


def facts_of(task: Task, position: str) -> TaskFacts:
    """Return what a task needs, by its state alone."""
    run = task.last_run
    facts = TaskFacts(Standing.UNFINISHED, position, one_line(task.title), run_id=run.id if run else "")
    if task.state is TaskState.ABORTED:
        return facts._replace(standing=Standing.ABORTED)
    if run is None:  # its engine is about to write the next line, or died there
        return facts._replace(words=_RUN)
    asks = _asked_of_person(task, run)
    if asks:
        words = _RESUME if run.kind is TaskKind.RUN else _TR
        return facts._replace(standing=Standing.ASKS, reason=asks[0], next_command=asks[1], words=words)
    if run.status == "ok" and not run.applied and run.outcome != OutcomeWord.PASS and run.end_tree != run.base_tree:
        reason = "no check judged it on a sealed copy"
        return facts._replace(standing=Standing.ASKS, reason=reason, next_command=f"reflectloop diff {run.id}")
    if run.status == "ok":
        level = next((str(gate.get("level") or "") for gate in reversed(task.gated) if gate["run_id"] == run.id), "")
        standing = Standing.APPLIED if run.applied else Standing.PROVEN
        return facts._replace(standing=standing, level=level, next_command=f"reflectloop apply {run.id}")
    return _of_failed(task, run, facts) if run.status == "failed" else _of_running(run, facts)


def _asked_of_person(task: Task, run: RunState) -> tuple[str, str] | None:
    """Return the question about a whole task, and the command that answers it."""
    if run.waits_for_approval:
        return _gate_reasons(task, run), next_command.approve(run.id)
    return (PAUSED, next_command.RESUME) if task.state is TaskState.PAUSED else None


def _of_failed(task: Task, run: RunState, facts: TaskFacts) -> TaskFacts:
    reason = task.latch.reason if task.latch and task.latch.run_id == run.id else _gate_reasons(task, run)
    reason = shorten(f"{run.error_code}: {reason}".removesuffix(": "), _LONGEST_REASON)
    if run.error_code == NeedsInput.code and run.kind is TaskKind.RUN:
        command = f"reflectloop retry {shlex.quote(task.plan_path)} --reason TEXT"
        return facts._replace(standing=Standing.ASKS, reason=reason, next_command=command)
    if run.error_code in _TEMPORARY and run.kind is TaskKind.RUN:
        return facts._replace(standing=Standing.UNANSWERED, reason=reason, words=_RUN)
    return facts._replace(standing=Standing.FAILED, reason=reason, next_command=f"reflectloop show {run.id}")


def _of_running(run: RunState, facts: TaskFacts) -> TaskFacts:
    """Return the facts of a run that did not end: its steps are executed in one go, or one at a time."""
    if run.kind is TaskKind.RUN:
        return facts._replace(words=_RESUME)
    step = next(iter(run.unfinished_steps), None)
    facts = facts._replace(words=_TR, step_id=step.id if step else "")
    if step is None or step.status != "blocked":
        is_ours = run.kind is TaskKind.AGENTS
        return facts if is_ours else facts._replace(standing=Standing.WORKING, reason=_BY_OTHERS)
    reason = shorten(step.reason, _LONGEST_REASON)
    if UNANSWERED in step.reason:
        return facts._replace(standing=Standing.UNANSWERED, reason=reason)
    return facts._replace(
        standing=Standing.ASKS, reason=reason, next_command=step.unblock or next_command.answer(step.id)
    )


def _gate_reasons(task: Task, run: RunState) -> str:
    """Return the reasons of the gates' last decision on the whole change."""
    for decision in reversed(task.gated):
        if decision["run_id"] == run.id and not decision["subject"]:
            reasons = decision.get("reasons")
            return shorten("; ".join(map(str, reasons)) if isinstance(reasons, list) else "", _LONGEST_REASON)
    return ""


def spending(projects: Iterator[ProjectState]) -> dict[str, tuple[float, int]]:
    """Return the cost of every task that was looked at: known US dollars, and calls of unknown price."""
    return {
        task_id: (facts.usd, facts.unpriced)
        for project in projects
        for task_id, (_, facts) in project._facts.items()  # noqa: SLF001 - the same module
    }
