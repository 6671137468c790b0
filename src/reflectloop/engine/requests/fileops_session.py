"""Opens the current task's workspace for FileOps requests and agents. Each continues where the last one ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reflectloop import config, policy, secrets
from reflectloop.config import Config
from reflectloop.engine.requests.plan_ops import TaskOps
from reflectloop.engine.requests.request_log import RequestLog
from reflectloop.engine.tasks import open_tasks, task_plan
from reflectloop.engine.tasks.task_journal import Base, TaskJournal
from reflectloop.errors import NothingToDo, ReflectloopError, SecretLeak
from reflectloop.fileops import execute, validate
from reflectloop.fileops.ops_context import InMemoryResponses, NoPlanOps, OpsContext
from reflectloop.fileops.response import Failure, Response, redact_response
from reflectloop.fileops.validate import Invalid
from reflectloop.sandbox import editable_installs, isolation, limits
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.limits import Limiter
from reflectloop.sandbox.sandbox import Box
from reflectloop.state import latch, lock
from reflectloop.state.transitions import TaskState
from reflectloop.system import cgroup, clock
from reflectloop.terms import Isolation
from reflectloop.workspace import apply as applying
from reflectloop.workspace import checkout, project, snapshot, workspace_registry
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders, open_project_dirs
from reflectloop.workspace.project import Project
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store, open_store


class SecondWorkspace:
    """A workspace with the files of a session's first one, for an agent that looks while another one does.

    It is laid out on first use. Commands are told apart, limited and ended by workspace, so two agents need two.
    """

    def __init__(self, project: Project, store: Store, base: Snapshot, settings: Config, first: OpsContext) -> None:
        self.project, self.store, self.base, self.settings, self.first = project, store, base, settings, first
        self.ops: OpsContext | None = None
        self.limiter: Limiter | None = None

    def open(self) -> OpsContext:
        """Return a workspace with the files that the first one has now."""
        tree = self.first.workspace.record().tree
        if self.ops is None:
            self.ops = self._lay_out(tree)
        elif self.ops.workspace.record().tree != tree:
            self.ops.workspace.reset_to(tree)
        return self.ops

    def _lay_out(self, tree: str) -> OpsContext:
        first, level = self.first.workspace, self.first.box.wall
        space = checkout.create(
            self.project,
            self.store,
            self.base._replace(tree=tree),
            name=f"{first.name}.1",
            root=first.folder.parent,
            shared_objects=first.quarantine,
            carry=self.settings.workspace,
            mounted=level.mounted,
            bound=level.by == "bubblewrap",
        )
        self.limiter = limits.limiter_for(level, space.name, self.settings.box)
        box = Box.by(self.settings, space, self.first.box.caller, level, self.limiter)
        return OpsContext(space, box, NoPlanOps(), InMemoryResponses(), self.first.logs, policy=self.first.policy)

    def close(self, folders: Folders) -> None:
        if self.limiter:
            self.limiter.close()
        if self.ops is None:
            return
        self.ops.close()
        self.ops.workspace.close()
        entry = workspace_registry.find(folders.own, self.ops.workspace.name)
        if entry:
            workspace_registry.remove(entry)


EXIT_CODES = {"ok": 0, "validation_error": 12, "fail": 30, "ask": 40, "split": 40}


@dataclass(frozen=True)
class FileopsTarget:
    """The project to work on, the least isolation, and the caller's environment."""

    start: Path
    isolation: Isolation | None = None
    sandbox_root: Path | None = None
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class FileopsSession(NamedTuple):
    """An open workspace of the current task, or of none, while the project's lock is held."""

    folders: Folders
    config: Config
    ops: OpsContext
    log: RequestLog
    domain: TaskOps
    floor: Isolation  # the least isolation that was asked for
    second: Callable[[], OpsContext]  # lays out another workspace with the same files

    @property
    def workspace(self) -> Workspace:
        return self.ops.workspace

    @property
    def box(self) -> Box:
        return self.ops.box

    @property
    def journal(self) -> TaskJournal:
        return self.domain.journal

    def commit(self) -> None:
        """Write the pending changes of the task. The tree they name is stored first, and found by the next session."""
        self.log.secure()
        self.journal.commit()
        self.log.continue_from(self.workspace.tree)


def answer(target: FileopsTarget, raw: bytes, *, strict: bool = False) -> Response:
    """Execute one request. Text that is no request is answered without opening anything."""
    try:
        request = validate.parse(raw, strict=strict)
    except Invalid as fault:
        return redact_response(fault.response)
    with open_session(target) as session:
        return execute.execute(request, session.ops)


def id_in(raw: bytes) -> str:
    """Return the id of a request that got no answer."""
    try:
        return validate.parse(raw).id
    except Invalid as fault:
        return fault.response.id


@contextlib.contextmanager
def open_session(target: FileopsTarget, purpose: str = "fileops") -> Iterator[FileopsSession]:
    """Hold the project's lock and lay out a workspace. A leak, an escape or a spent budget locks the project."""
    folders = open_project_dirs(target.start)
    folders.ensure_owned()
    with lock.hold_lock(folders.own, purpose):
        opening = _Opening(target, folders)
        try:
            yield opening.open()
            opening.succeeded = True
        except ReflectloopError as fault:
            if open_tasks.stops(fault):
                opening.lock_out(fault)
            raise
        finally:
            opening.close()


class _Progress(NamedTuple):
    """The task being worked on, the tree it began with, and the tree it has come to by its journal."""

    task: str | None
    base: str
    tree: str
    named: str = ""  # the same, if its steps are executed one at a time
    floor: Isolation = Isolation.NONE  # what its plan requires


class _Opening:
    """Creates what a session needs, and removes it."""

    def __init__(self, target: FileopsTarget, folders: Folders) -> None:
        self.target, self.folders = target, folders
        self.run_id = clock.run_id(clock.now())
        self.space: Workspace | None = None
        self.ops: OpsContext | None = None
        self.limiter: Limiter | None = None
        self.second: SecondWorkspace | None = None
        self.leak: SecretLeak | None = None
        self.tree, self.succeeded = "", False

    def open(self) -> FileopsSession:
        self.config = config.load(self.folders.root)
        secrets.use_detector(secrets.detector_for(self.config.secrets, self.folders.root))
        latch.refuse_if_stopped(self.folders.own)
        opened = project.open_project(self.folders.root)
        store = open_store(opened, self.config.workspace)
        applying.undo_killed(opened, store, self.folders.scratch)
        base = snapshot.take_snapshot(opened, store, self.folders.scratch)
        progress = self._progress(base.tree)
        asked = (self.config.box.isolation, self.target.isolation or Isolation.NONE, progress.floor)
        floor = max(asked, key=lambda level: level.rank)
        level = isolation.choose_level(floor, self.config.box.strongest)
        log = RequestLog(self.folders, store)
        tree = progress.tree if log.has(progress.tree) else base.tree
        self.tree = log.begin(progress.task, progress.base, tree, progress.named)
        self.space = checkout.create(
            opened,
            store,
            base._replace(tree=self.tree),
            name=self.run_id,
            root=checkout.sandbox_root(opened, self.target.sandbox_root or self.config.workspace.root),
            carry=self.config.workspace,
            mounted=level.mounted,
            bound=level.by == "bubblewrap",
        )
        self._refuse_editable(self.space, level)
        log.serve(self.space)
        cgroup.sweep()
        self.limiter = limits.limiter_for(level, self.space.name, self.config.box)
        box = Box.by(self.config, self.space, self.target.caller, level, self.limiter)
        rules = policy.of(self.config.policy, self.folders.root).in_workspace
        domain = TaskOps(self.folders, Base(base.tree, base.commit, level.stamp(())), box, rules, log.ran_before)
        self.ops = OpsContext(self.space, box, domain, log, log.logs, policy=rules)
        self.ops.notes.extend(self.space.notes)
        if log.restarted:
            self.ops.notes.append(
                "the task or the project changed since the last request: this one starts from its present state"
            )
        self.second = SecondWorkspace(opened, store, base, self.config, self.ops)
        return FileopsSession(self.folders, self.config, self.ops, log, domain, floor, self.second.open)

    def _refuse_editable(self, space: Workspace, level: IsolationLevel) -> None:
        if not level.mounted:
            editable_installs.refuse_editable_installs(
                self.folders.root, self.target.caller, [*map(Path, space.copied), *space.carried]
            )

    def _progress(self, now: str) -> _Progress:
        """Return the current task's progress; `now` is the project's tree, which a task at work does not follow."""
        name = self.folders.current_task()
        if name is None or not self.folders.journal(name).is_file():
            return _Progress(None, now, now)
        task = self.folders.load_task(name)
        if task.passed or task.state is TaskState.ABORTED:
            return _Progress(None, now, now)  # a new task begins with nothing of it
        if task.state is TaskState.PAUSED:
            raise NothingToDo(f"task {task.id} is paused", next_step="reflectloop resume")
        last = task.last_run
        if last and last.kind.is_stepwise and last.status == "running":
            required = task_plan.plan_of(task, last).isolation
            floor = required.require if required else Isolation.NONE
            return _Progress(name, last.base_tree, last.stands, last.stands, floor)
        ends = [run.end_tree for run in task.runs.values() if run.end_tree]
        return _Progress(name, now, ends[-1] if ends else now)

    def lock_out(self, fault: ReflectloopError) -> None:
        self.leak = fault if isinstance(fault, SecretLeak) else None
        open_tasks.stop_project(self.folders, fault, open_tasks.FailurePlace(self._run_id(), None, "", self.tree))

    def _run_id(self) -> str:
        """Return the run that a person's `unlock` is about: the current task's, if there is one."""
        task = self.folders.load_current()
        return self.run_id if task.passed or task.last_run is None else task.last_run.id

    def close(self) -> None:
        if self.second:
            self.second.close(self.folders)
        if self.limiter:
            self.limiter.close()
        if self.ops:
            self.ops.close()
        if self.space:
            self.space.close()
        entry = workspace_registry.find(self.folders.own, self.run_id)
        if entry and self.leak:
            self._destroy(entry, self.leak)
        elif entry and self.space and self.succeeded and self.config.workspace.warm:
            workspace_registry.keep_warm(self.folders.own, entry, self.space.mark_ns, self.space.identity)
        elif entry:
            workspace_registry.remove(entry)
        for old in workspace_registry.stale(self.folders.own, self.config.workspace.keep_failed) if entry else ():
            workspace_registry.remove(old)

    def _destroy(self, entry: workspace_registry.WorkspaceEntry, leak: SecretLeak) -> None:
        left = workspace_registry.destroy(entry)
        if left:
            where = ", ".join(map(os.fspath, left))
            leak.message += f"; what leaked may still lie in {where}, which could not be removed"
        for log in self.ops.logs.glob(f"{self.run_id}.*.log") if self.ops else ():
            log.unlink()


def of_error(error: ReflectloopError, request_id: str = "") -> Response:
    """Return what a program that sent a request is told when the engine cannot continue."""
    hint = f"{error.code}; next: {error.next_step}"
    return redact_response(Response(id=request_id, status="fail", fail=Failure(reason=error.message, hint=hint)))
