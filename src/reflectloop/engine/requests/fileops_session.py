"""`fileops`: requests carried out in a workspace of the current task, each on the tree that the last one left."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reflectloop import config, policy, secrets
from reflectloop.engine import tasks
from reflectloop.engine.folders import Folders, folders_at
from reflectloop.engine.requests.plan_ops import TaskOps
from reflectloop.engine.requests.request_log import RequestLog
from reflectloop.errors import NothingToDo, ReflectloopError, SecretLeak
from reflectloop.fileops import execute, validate
from reflectloop.fileops.ops_context import Domain, OpsContext
from reflectloop.fileops.response import Failure, Response, clean
from reflectloop.fileops.validate import Invalid
from reflectloop.sandbox import editable_installs, isolation, limits
from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.limits import Limiter
from reflectloop.sandbox.sandbox import Box
from reflectloop.state import journal, latch, lock
from reflectloop.state.fold import Task, fold
from reflectloop.state.transitions import TaskState
from reflectloop.system import cgroup, clock
from reflectloop.terms import Isolation
from reflectloop.workspace import apply as applying
from reflectloop.workspace import checkout, project, snapshot, workspace_registry
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.project import Project
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store, open_for

EXIT_CODES = {"ok": 0, "validation_error": 12, "fail": 30, "ask": 40, "split": 40}


@dataclass(frozen=True)
class FileopsTarget:
    """Where requests are carried out, and for whom."""

    start: Path
    isolation: Isolation | None = None
    sandbox_root: Path | None = None
    domain: Domain | None = None
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


def answer(place: FileopsTarget, raw: bytes, *, strict: bool = False) -> Response:
    """One request. What is no request is answered without opening anything."""
    try:
        request = validate.parse(raw, strict=strict)
    except Invalid as fault:
        return clean(fault.response)
    with opened(place) as hands:
        return execute.execute(request, hands)


def id_in(raw: bytes) -> str:
    """The id of a request that no answer came of."""
    try:
        return validate.parse(raw).id
    except Invalid as fault:
        return fault.response.id


@contextlib.contextmanager
def opened(place: FileopsTarget, purpose: str = "fileops") -> Iterator[OpsContext]:
    """Hands that stand ready, with the project's lock held; leaks, escapes and faults of the machine end it."""
    folders = folders_at(place.start)
    folders.claim()
    with lock.hold(folders.own, purpose):
        ground = _Ground(place, folders)
        try:
            yield ground.open()
            ground.well = True
        except ReflectloopError as fault:
            if tasks.stops(fault):
                ground.stop(fault)
            raise
        finally:
            ground.close()


class _Stands(NamedTuple):
    """The task being worked on, the tree it began with, and the one it has come to by its journal."""

    task: str | None
    base: str
    tree: str
    named: str = ""  # the same, where requests work on it


class _Ground:
    """What requests stand on: made like a run's, and cleared away like it."""

    def __init__(self, place: FileopsTarget, folders: Folders) -> None:
        self.place, self.folders = place, folders
        self.run_id = clock.run_id(clock.now())
        self.space: Workspace | None = None
        self.hands: OpsContext | None = None
        self.limiter: Limiter | None = None
        self.leak: SecretLeak | None = None
        self.tree, self.well = "", False

    def open(self) -> OpsContext:
        self.config = config.load(self.folders.root)
        secrets.use(secrets.of(self.config.secrets, self.folders.root))
        latch.refuse_if_stopped(self.folders.own)
        asked = [self.config.box.isolation, self.place.isolation or Isolation.NONE]
        wall = isolation.reach(max(asked, key=lambda level: level.rank), self.config.box.strongest)
        found = project.open_at(self.folders.root)
        store = open_for(found, self.config.workspace)
        applying.undo_killed(found, store, self.folders.scratch)
        base = snapshot.take(found, store, self.folders.scratch)
        answers = RequestLog(self.folders, store)
        stands = self._stands(base.tree)
        tree = stands.tree if answers.has(stands.tree) else base.tree
        self.tree = answers.begin(stands.task, stands.base, tree, stands.named)
        self.space = space = self._lay_out(found, store, base, wall)
        answers.serve(space)
        cgroup.sweep()
        self.limiter = limits.behind(wall, space.name, self.config.box)
        box = Box.by(self.config, space, self.place.caller, wall, self.limiter)
        rules = policy.of(self.config.policy, self.folders.root).in_workspace
        domain = self.place.domain or TaskOps(self.folders, base.tree, base.commit, wall.stamp(()), box, rules)
        self.hands = OpsContext(space, box, domain, answers, answers.logs, policy=rules)
        if answers.anew:
            self.hands.notes.append("the task or the project is another now: this begins where that stands")
        return self.hands

    def _lay_out(self, found: Project, store: Store, base: Snapshot, wall: IsolationLevel) -> Workspace:
        space = checkout.create(
            found,
            store,
            base._replace(tree=self.tree),
            name=self.run_id,
            root=checkout.sandbox_root(found, self.place.sandbox_root or self.config.workspace.root),
            carry=self.config.workspace,
            mounted=wall.mounted,
            bound=wall.by == "bubblewrap",
        )
        if not wall.mounted:
            editable_installs.refuse(self.folders.root, self.place.caller, [*map(Path, space.copied), *space.carried])
        return space

    def _stands(self, now: str) -> _Stands:
        """Where the current task is; `now` is the project's tree, which a task at work does not follow."""
        name = self.folders.current_task()
        if name is None or not self.folders.journal(name).is_file():
            return _Stands(None, now, now)
        task = fold(journal.read(self.folders.journal(name)))
        if task.passed or task.state is TaskState.ABORTED:
            return _Stands(None, now, now)  # what was done for it is nothing that a new task begins with
        if task.state is TaskState.PAUSED:
            raise NothingToDo(f"task {task.id} is paused", next_step="reflectloop resume")
        last = list(task.runs.values())[-1] if task.runs else None
        if last and last.kind.is_stepwise and last.status == "running":
            return _Stands(name, last.base_tree, last.stands, last.stands)
        ends = [run.end_tree for run in task.runs.values() if run.end_tree]
        return _Stands(name, now, ends[-1] if ends else now)

    def stop(self, fault: ReflectloopError) -> None:
        """A leak, an escape or a spent budget holds the project; of the first nothing is left."""
        self.leak = fault if isinstance(fault, SecretLeak) else None
        tasks.stop_project(self.folders, fault, tasks.FailurePlace(self._run() or self.run_id, None, "", self.tree))

    def _run(self) -> str | None:
        """That of the task at work: it is what a person's `unlock` is about."""
        name = self.folders.current_task()
        task = fold(journal.read(self.folders.journal(name))) if name else Task()
        return None if task.passed or not task.runs else list(task.runs)[-1]

    def close(self) -> None:
        if self.limiter:
            self.limiter.close()
        if self.hands:
            self.hands.close()
        if self.space:
            self.space.close()
        entry = workspace_registry.find(self.folders.own, self.run_id)
        if entry and self.leak:
            self._destroy(entry, self.leak)
        elif entry and self.space and self.well and self.config.workspace.warm:
            self._keep_warm(entry, self.space)
        elif entry:
            workspace_registry.remove(entry)
        for old in workspace_registry.stale(self.folders.own, self.config.workspace.keep_failed) if entry else ():
            workspace_registry.remove(old)

    def _destroy(self, entry: workspace_registry.WorkspaceEntry, leak: SecretLeak) -> None:
        left = workspace_registry.destroy(entry)
        if left:
            where = ", ".join(map(os.fspath, left))
            leak.message += f"; what leaked may still lie in {where}, which could not be removed"
        for log in self.hands.logs.glob(f"{self.run_id}.*.log") if self.hands else ():
            log.unlink()

    def _keep_warm(self, entry: workspace_registry.WorkspaceEntry, space: Workspace) -> None:
        for other in workspace_registry.entries(self.folders.own):
            if other.fate == "warm":
                workspace_registry.remove(other)
        workspace_registry.set_fate(entry, "warm", space.mark_ns, space.identity)


def of_error(error: ReflectloopError, request_id: str = "") -> Response:
    """What a program that sent a request is told when the engine cannot go on."""
    hint = f"{error.code}; next: {error.next_step}"
    return clean(Response(id=request_id, status="fail", fail=Failure(reason=error.message, hint=hint)))
