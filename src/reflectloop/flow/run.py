"""`run`: the straight line from a plan to a patch or a blocker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from reflectloop import config, secrets
from reflectloop.box import box as boxes
from reflectloop.box import environment
from reflectloop.box.box import Box
from reflectloop.errors import (
    AgentUnavailable,
    Interrupted,
    NoSpace,
    ReflectloopError,
    SecretLeak,
    by_code,
)
from reflectloop.flow import report
from reflectloop.flow.envelope import Envelope, of_error
from reflectloop.flow.folders import Folders, RunFolder
from reflectloop.flow.steps import Show, StepResult, execute
from reflectloop.plan import load as plans
from reflectloop.plan.load import Loaded
from reflectloop.plan.order import sequence
from reflectloop.state import events, lock
from reflectloop.state.fold import fold
from reflectloop.state.journal import Entry, Journal
from reflectloop.terms import Isolation
from reflectloop.workspace import checkout, ledger, patch, project, snapshot
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.patch import Touched
from reflectloop.workspace.project import Project
from reflectloop.workspace.store import Store, open_for
from reflectloop.world import bubblewrap, clock, files
from reflectloop.world.git import Git

MODE = "git"


class Observer(Protocol):
    """Who watches a run: a terminal, a log, nobody."""

    def begins(self, loaded: Loaded, run_id: str) -> None: ...
    def happened(self, entry: Entry) -> None: ...
    def command(self, step_id: str, words: str) -> None: ...
    def output(self, step_id: str, data: bytes) -> None: ...


class Nobody:
    def begins(self, loaded: Loaded, run_id: str) -> None:
        pass

    def happened(self, entry: Entry) -> None:
        pass

    def command(self, step_id: str, words: str) -> None:
        pass

    def output(self, step_id: str, data: bytes) -> None:
        pass


@dataclass(frozen=True)
class Request:
    start: Path
    plan: Path | None = None
    isolation: Isolation | None = None
    sandbox_root: Path | None = None
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class Outcome(NamedTuple):
    envelope: Envelope
    folder: RunFolder
    steps: list[StepResult]
    touched: tuple[Touched, ...]
    error: ReflectloopError | None


def run(request: Request, observer: Observer | None = None) -> Outcome:
    """Every fault once the project is known ends in artifacts and an outcome; faults before that are raised."""
    root = project.locate(request.start)
    started = clock.now()
    with lock.hold(Folders(root).own, "run"):
        line = _Line(request, Folders(root), clock.run_id(started), observer or Nobody())
        try:
            line.walk()
        except ReflectloopError as fault:
            line.error = fault
        except KeyboardInterrupt:
            line.error = Interrupted("stopped by the user; every process of the run is dead")
        except BaseException:
            line.abandon()
            raise
        return line.finish()


class _Line:
    """The state of one walk down the line; each method is one station."""

    def __init__(self, request: Request, folders: Folders, run_id: str, observer: Observer) -> None:
        self.request, self.folders, self.run_id, self.observer = request, folders, run_id, observer
        self.started, self.clock = clock.now(), clock.monotonic()
        self.folder = folders.open_run(run_id)
        self.config = config.Config()
        self.loaded: Loaded | None = None
        self.project: Project | None = None
        self.store: Store | None = None
        self.journal: Journal | None = None
        self.space: Workspace | None = None
        self.steps: list[StepResult] = []
        self.touched: tuple[Touched, ...] = ()
        self.warnings: list[str] = []
        self.error: ReflectloopError | None = None
        self.begun = False

    def walk(self) -> None:
        self.config = config.load(self.folders.root)
        self.loaded = loaded = plans.load(plans.locate(self.folders.root, self.request.plan))
        self.warnings += loaded.warnings
        self.observer.begins(loaded, self.run_id)
        refuse_agents(loaded)
        level = boxes.reach(self._floor(loaded))
        self.project = project.open_at(self.folders.root)
        self.store = open_for(self.project)
        base = snapshot.take(self.project, self.store, self.folders.scratch)
        self.warnings += base.warnings
        root = checkout.sandbox_root(self.project, self.request.sandbox_root or self.config.workspace.root)
        self.space = checkout.create(self.project, self.store, base, run_id=self.run_id, root=root)
        for step in loaded.plan.steps:
            self.space.resolve(step.cwd)
        self._open_journal(loaded, base, level)
        self._run_steps(loaded)
        self._patch_out()

    def _floor(self, loaded: Loaded) -> Isolation:
        asked = [self.config.box.isolation, self.request.isolation or Isolation.NONE]
        if loaded.plan.isolation:
            asked.append(loaded.plan.isolation.require)
        return max(asked, key=lambda level: level.rank)

    def _open_journal(self, loaded: Loaded, base: snapshot.Snapshot, level: Isolation) -> None:
        path = os.fspath(loaded.path)
        task_id = _open_task(self.folders, path)
        fresh = task_id is None
        task_id = task_id or clock.task_id(self.started)
        self.journal = Journal(self.folders.journal(task_id), self.observer.happened)
        if fresh:
            self.journal.append(events.TaskOpened(task_id=task_id, plan_path=path, title=loaded.plan.title))
            self.folders.set_current_task(task_id)
        self.journal.append(
            events.RunStarted(
                run_id=self.run_id,
                plan_hash=loaded.plan.hash,
                base_tree=base.tree,
                base_commit=base.commit,
                isolation=level,
                steps=[step.id for step in loaded.plan.steps],
            )
        )
        self.begun = True

    def _run_steps(self, loaded: Loaded) -> None:
        assert self.space and self.journal  # noqa: S101, PT018
        box = Box(
            self.space,
            self.request.caller,
            namespaced=bubblewrap.refusal() is None,
            env_allow=self.config.run.env_allow,
            grace_s=self.config.run.grace_s,
            log_cap=self.config.run.log_cap_mb << 20,
        )
        show = Show(self.observer.command, self.observer.output)
        by_id = {step.id: step for step in loaded.plan.steps}
        for name in sequence({step.id: step.depends_on for step in loaded.plan.steps}):
            self.journal.append(events.StepStarted(run_id=self.run_id, step_id=name, tree=self.space.tree))
            result = execute(loaded.plan, by_id[name], box, self.folder.logs, show)
            self.steps.append(result)
            self.warnings += [
                f"{one} is a git repository of its own and is left out of the patch" for one in result.nested
            ]
            self.journal.append(
                events.StepFinished(
                    run_id=self.run_id,
                    step_id=name,
                    success=result.success,
                    exit_code=result.exit_code,
                    tree=result.tree,
                    duration_ms=result.duration_ms,
                    error_code=result.error_code,
                )
            )
            if result.error_code:
                where = f"step {name}: {result.command}: " if result.command else f"step {name}: "
                raise by_code(result.error_code)(
                    where + result.reason, next_step=f"reflectloop log {self.run_id} {name}"
                )

    def _patch_out(self) -> None:
        assert self.space  # noqa: S101
        end = self.space.record(thorough=True).tree
        git = self.space.git()
        text = patch.between(git, self.space.base_tree, end)
        refuse_leaks(git, self.space.base_tree, end, text)
        self.touched = patch.touched(git, self.space.base_tree, end)
        files.write_atomic(self.folder.patch, text)

    # After the line, whatever came of it ----------------------------------------------------------------

    def finish(self) -> Outcome:
        if self.journal:
            try:
                if self.begun:
                    self._close_run()
            except NoSpace as full:
                self.error = self.error or full  # the rest is still cleared away
            self.journal.close()
        if self.space:
            self.space.close()
        self._clear_away()
        envelope = self._envelope()
        self._write(envelope)
        return Outcome(envelope, self.folder, self.steps, self.touched, self.error)

    def abandon(self) -> None:
        """A bug of ours ended the walk: leave no workspace, and let the bug be seen."""
        if self.space:
            self.space.close()
        for entry in self._ledger():
            if entry.run_id == self.run_id:
                ledger.remove(entry)

    def _close_run(self) -> None:
        assert self.journal and self.space  # noqa: S101, PT018
        self.journal.append(
            events.RunFinished(
                run_id=self.run_id,
                error_code=self.error.code if self.error else None,
                end_tree=self.space.tree,
                duration_ms=self._elapsed_ms(),
            )
        )

    def _elapsed_ms(self) -> int:
        return round((clock.monotonic() - self.clock) * 1000)

    def _clear_away(self) -> None:
        """A leak leaves nothing; a failed step's workspace is kept to be looked at; the rest goes."""
        mine = [entry for entry in self._ledger() if entry.run_id == self.run_id]
        for entry in mine:
            if isinstance(self.error, SecretLeak):
                ledger.destroy(entry)
                continue
            if self.store and self.space and self.begun:
                self.store.take_in(self.space.quarantine)
                end = self.store.commit(self.space.tree, message=f"End of {self.run_id}")
                self.store.keep(f"{self.run_id}/end", end)
                self.store.keep(f"{self.run_id}/base", self.store.commit(self.space.base_tree, message="Base"))
            if self.error and self.begun and self.project and self.config.workspace.keep_failed:
                ledger.keep(self.project, self.run_id)
            else:
                ledger.remove(entry)
        if self.project:
            for old in ledger.stale(self.folders.own, self.config.workspace.keep_failed):
                ledger.remove(old)

    def _ledger(self) -> list[ledger.Entry]:
        return ledger.entries(self.project) if self.project else []

    def _envelope(self) -> Envelope:
        stamp = clock.stamp(self.started)
        plain = (
            of_error("run", stamp, self.error) if self.error else Envelope(command="run", timestamp=stamp, status="OK")
        )
        written = [self.folder.envelope, self.folder.result, self.folder.summary]
        written += [self.folder.blocker] if self.error else [self.folder.patch]
        plan = self.loaded
        return plain.model_copy(
            update={
                "artifacts_read": [_relative(plan.path, self.folders.root)] if plan else [],
                "artifacts_written": [_relative(path, self.folders.root) for path in written],
                "next": self.error.next_step if self.error else self._next(),
                "run_id": self.run_id,
                "plan_form": plan.form if plan else None,
                "plan_hash": plan.plan.hash if plan else None,
                "base_tree": self.space.base_tree if self.space else None,
                "isolation": str(Isolation.WORKSPACE) if self.begun else None,
                "process_namespace": bubblewrap.refusal() is None if self.begun else None,
                "sandbox_mode": MODE if self.space else None,
                "evidence_level": "L2" if self.begun and not self.error else None,
                "duration_ms": self._elapsed_ms(),
                "warnings": list(dict.fromkeys(self.warnings)),
            }
        )

    def _next(self) -> str:
        return f"reflectloop apply {self.run_id}" if self.touched else "reflectloop status"

    def _write(self, envelope: Envelope) -> None:
        plan = self.loaded.plan if self.loaded else None
        names = [*self.config.run.env_allow]
        body: dict[str, Any] = report.result_body(
            run_id=self.run_id,
            source_hash=self.loaded.source_hash if self.loaded else None,
            mode=MODE,
            env_status=environment.status(names, self.request.caller),
            steps=self.steps,
            error=self.error,
            folder=self.folder,
            touched=self.touched,
        )
        title = plan.title if plan else "A run that could not begin"
        total = len(plan.steps) if plan else 0
        text = report.summary(
            envelope, title=title, steps=self.steps, total=total, touched=self.touched, error=self.error
        )
        report.write_yaml(self.folder.result, envelope, body)
        files.write_atomic(self.folder.summary, text)
        if self.error:
            asked = self.loaded.path if self.loaded else self.request.plan
            card = report.blocker_body(
                self.error,
                at=self.started,
                run_id=self.run_id,
                plan=_relative(asked, self.folders.root) if asked else "PLAN",
                steps=self.steps,
                total=total,
            )
            report.write_yaml(self.folder.blocker, envelope, card)
        # Last: where the envelope stands, everything it names stands.
        report.write_yaml(self.folder.envelope, envelope)


def refuse_leaks(git: Git, base: str, end: str, text: bytes) -> None:
    """What a patch adds, as lines or as binary files, must hold no secret."""
    found = secrets.scan_added(text)
    for content in patch.binaries(git, base, end) if b"\nGIT binary patch\n" in text else ():
        found += secrets.scan(content)
    for leak in found:
        if leak.grade == "certain":
            raise SecretLeak(
                f"{leak.rule} in what the patch adds (line {leak.line}, fingerprint {leak.fingerprint})",
                next_step="take the secret out of what the steps write, and change it: it was exposed",
            )


def refuse_agents(loaded: Loaded) -> None:
    needing = [step.id for step in loaded.plan.steps if step.agent]
    if needing:
        raise AgentUnavailable(
            f"step(s) {', '.join(needing)} need an agent, and no backend is bound to their role",
            next_step=f"give {needing[0]} commands instead of an agent",
            missing=tuple(f"backend:{name}" for name in needing),
        )


def _open_task(folders: Folders, plan_path: str) -> str | None:
    """The task this plan is already being worked on in, unless it ended well."""
    task_id = folders.current_task()
    if task_id is None:
        return None
    journal = Journal(folders.journal(task_id))
    journal.close()
    task = fold(journal.entries)
    ended_well = any(one.status == "ok" for one in task.runs.values())
    return task_id if task.plan_path == plan_path and not ended_well else None


def _relative(path: Path, root: Path) -> str:
    return os.fspath(path.relative_to(root)) if path.is_relative_to(root) else os.fspath(path)
