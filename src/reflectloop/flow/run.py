"""`run`: the straight line from a plan to a patch or a blocker."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from reflectloop import config, secrets
from reflectloop.box import editable, environment, limits, walls
from reflectloop.box.box import Box
from reflectloop.box.limits import Limiter
from reflectloop.box.walls import Wall
from reflectloop.errors import (
    AgentUnavailable,
    GateRejected,
    Internal,
    Interrupted,
    Latched,
    NoSpace,
    ReflectloopError,
    SandboxEscape,
    SecretLeak,
    StateDamaged,
    StepFailed,
    by_code,
)
from reflectloop.flow import exchange, publish, recovery, report, seal, steer, tasks, views
from reflectloop.flow.envelope import Envelope, of_error
from reflectloop.flow.folders import Folders, RunFolder, folders_at
from reflectloop.flow.recovery import Point
from reflectloop.flow.steps import CANCELLED, Show, StepResult
from reflectloop.flow.work import Work
from reflectloop.plan import load as plans
from reflectloop.plan.load import Loaded
from reflectloop.state import events, journal, latch, lock
from reflectloop.state.fold import Task, fold
from reflectloop.state.journal import Entry, Journal
from reflectloop.terms import Isolation
from reflectloop.verify import evidence
from reflectloop.verify.evidence import Chain
from reflectloop.verify.trees import Trees
from reflectloop.verify.verdict import Verdict
from reflectloop.workspace import apply as applying
from reflectloop.workspace import checkout, leaks, ledger, patch, project, snapshot
from reflectloop.workspace.added import Added
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.patch import Touched
from reflectloop.workspace.project import Project
from reflectloop.workspace.record import Unrecordable
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store, open_for
from reflectloop.world import cgroup, clock, files, process
from reflectloop.world.git import GitFailed
from reflectloop.world.process import Cancel

_LEFT_OUT = "{} is a git repository of its own and is left out of the patch"
_NAMED = 5  # of many findings, in a message
_SHOWN = 60  # of a command, in a message


class Observer(Protocol):
    """Who watches a run: a terminal, a log, nobody."""

    def waits(self, why: str) -> None: ...
    def begins(self, loaded: Loaded, run_id: str) -> None: ...
    def happened(self, entry: Entry) -> None: ...
    def command(self, step_id: str, words: str) -> None: ...
    def output(self, step_id: str, data: bytes) -> None: ...


class Nobody:
    def waits(self, why: str) -> None:
        pass

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
    jobs: int | None = None
    keep_going: bool = False
    new_task: bool = False
    max_retries: int | None = None
    retry_reason: str | None = None
    wait: bool = False
    resume: bool = False  # go on with the run whose engine died
    mode: Literal["auto", "git", "copy"] = "auto"
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class Outcome(NamedTuple):
    envelope: Envelope
    folder: RunFolder
    steps: list[StepResult]
    touched: tuple[Touched, ...]
    error: ReflectloopError | None


def run(request: Request, observer: Observer | None = None) -> Outcome:
    """Every fault once the project is known ends in artifacts and an outcome; faults before that are raised."""
    folders = folders_at(request.start, request.mode)
    folders.claim()
    watching = observer or Nobody()
    with lock.hold(folders.own, "run", wait=watching.waits if request.wait else None):
        point = recovery.find(folders) if request.resume else None
        line = _Line(request, folders, point.run.id if point else clock.run_id(clock.now()), watching, point)
        try:
            with files.room_left(folders.own):
                line.walk()
        except ReflectloopError as fault:
            line.error = fault
        except KeyboardInterrupt:
            line.error = Interrupted("stopped by the user; every process of the run is dead", next_step=line.onward())
        except Exception as bug:  # noqa: BLE001 - a bug of ours still leaves a card, and no workspace
            line.error = Internal(f"{type(bug).__name__}: {bug}")
            line.error.__cause__ = bug
        return line.finish()


class _Line:
    """The state of one walk down the line; each method is one station."""

    def __init__(
        self, request: Request, folders: Folders, run_id: str, observer: Observer, point: Point | None = None
    ) -> None:
        self.request, self.folders, self.run_id, self.observer = request, folders, run_id, observer
        self.started, self.clock = clock.now(), clock.monotonic()
        self.point = point
        self.folder = point.folder if point else folders.open_run(run_id)
        self.config = config.Config()
        self.loaded: Loaded | None = None
        self.project: Project | None = None
        self.store: Store | None = None
        self.base: Snapshot | None = None
        self.task: Task | None = None
        self.journal: Journal | None = None
        self.spaces: list[Workspace] = []
        self.steps: list[StepResult] = []
        self.touched: tuple[Touched, ...] = ()
        self.warnings: list[str] = []
        self.error: ReflectloopError | None = None
        self.begun = False
        self.wall = Wall(Isolation.NONE, "nothing")
        self.limiters: dict[str, Limiter] = {}
        self.verdict: Verdict | None = None
        self.tree: str | None = None  # where the work goes on; None: at the base
        self.over = False  # whether the journal already says how the run ended
        self._chain: Chain | None = None

    @property
    def space(self) -> Workspace | None:
        return self.spaces[0] if self.spaces else None

    def walk(self) -> None:
        self.config = config.load(self.folders.root)
        secrets.use(secrets.of(self.config.secrets, self.folders.root))
        loaded = self._go_on(self.point) if self.point else self._begin()
        if not self.over:
            self._work(loaded)
        self._raise_failed()
        self._patch_out()
        self._seal(loaded)

    def _begin(self) -> Loaded:
        leaks.refuse_words(self.request.retry_reason or "", "the reason")
        foreign = publish.foreign_latch(self.folders)
        self.warnings += [foreign] if foreign else []
        latch.refuse_if_stopped(self.folders.own)
        self.loaded = loaded = plans.load(plans.locate(self.folders.root, self._asked_plan()))
        self.warnings += loaded.warnings
        self.observer.begins(loaded, self.run_id)
        refuse_agents(loaded, self.config.roles)
        self.wall = reach(self.config, self.request, loaded)
        self.project = project.open_at(self.folders.root, self.request.mode)
        self.store = open_for(self.project, self.config.workspace)
        if applying.undo_killed(self.project, self.store, self.folders.scratch):
            self.warnings.append("an apply was killed half way; your files were put back to what they were before it")
        self.base = snapshot.take(self.project, self.store, self.folders.scratch)
        self.warnings += self.base.warnings
        cleared = self._admit(loaded, self.base)
        self._lay_out(loaded)
        recovery.keep_plan(loaded.path, self.folder)
        self._open_journal(loaded, self.base, self._stamp(), cleared)
        return loaded

    def _go_on(self, point: Point) -> Loaded:
        """Everything as the dead engine had it: the plan as it was, the tree that the last whole step left."""
        latch.refuse_if_stopped(self.folders.own)
        read = plans.load(point.plan)
        if read.plan.hash != point.run.plan_hash:
            raise StateDamaged(
                f"{point.plan} is not the plan that {self.run_id} began with", next_step="reflectloop run PLAN --new"
            )
        self.loaded = loaded = read._replace(path=self.folders.root / point.task.plan_path)
        self.observer.begins(loaded, self.run_id)
        self.wall = reach(self.config, self.request, loaded)
        recovery.refuse_lower(point.run.isolation, self._stamp())
        self.project = project.open_at(self.folders.root, "copy" if point.run.mode == "copy" else "auto")
        self.store = open_for(self.project, self.config.workspace)
        applying.undo_killed(self.project, self.store, self.folders.scratch)
        recovery.take_in(self.folders, self.store, self.run_id)
        self.base = Snapshot(point.run.base_tree, point.run.base_commit, dirty=False, warnings=())
        self.task, self.over = point.task, point.run.status != "running"
        self.steps += recovery.results(loaded.plan, point.run, self.folder.logs)
        self.tree = point.run.end_tree or recovery.reached(point.run, self.store)
        self._lay_out(loaded)
        self._reopen_journal(point)
        return loaded

    def _reopen_journal(self, point: Point) -> None:
        self.journal = Journal(self.folders.journal(point.task.id), self.observer.happened)
        self.begun = True
        if self.over:
            return
        self.journal.append(events.RunResumed(run_id=self.run_id))
        for name in point.half_done:
            self.journal.append(events.StepInterrupted(run_id=self.run_id, step_id=name))
        recovery.refuse_deadly(point)

    def _asked_plan(self) -> Path | None:
        """`retry` is about the plan of the task that failed."""
        if self.request.retry_reason is None or self.request.plan:
            return self.request.plan
        return self.folders.root / tasks.latched_task(self.folders).plan_path

    def again(self) -> str:
        """The command that runs the same plan once more, from where the user stands."""
        place = ["--project", os.fspath(self.request.start)] if self.request.start != Path() else []
        plan = [os.fspath(self.loaded.path)] if self.loaded and (self.request.plan or self.request.retry_reason) else []
        return shlex.join(["reflectloop", "run", *place, *plan])

    def onward(self) -> str:
        """The command that goes on where this run was stopped; one that never began begins anew."""
        return self.again().split(" run", 1)[0] + " resume" if self.begun else self.again()

    def _admit(self, loaded: Loaded, base: Snapshot) -> events.LatchCleared | None:
        key = tasks.plan_key(self.folders, loaded.path)
        self.task = None if self.request.new_task else tasks.find_open(self.folders, key)
        if self.request.retry_reason is not None and self.task and self.task.latch:
            return events.LatchCleared(how="retry", reason=self.request.retry_reason)
        return tasks.admit(self.task, loaded, base.tree)

    def _lay_out(self, loaded: Loaded) -> None:
        assert self.project  # noqa: S101
        self.root = checkout.sandbox_root(self.project, self.request.sandbox_root or self.config.workspace.root)
        space = self._open_space(0)
        if not self.wall.mounted:
            editable.refuse(self.folders.root, self.request.caller, [*map(Path, space.copied), *space.carried])
        cgroup.sweep()
        for step in loaded.plan.steps:
            space.resolve(step.cwd)

    def _open_space(self, number: int) -> Workspace:
        assert self.project and self.store and self.base  # noqa: S101, PT018
        name = f"{self.run_id}.{number}" if number else self.run_id
        shared = self.spaces[0].quarantine if self.spaces else None
        space = checkout.create(
            self.project,
            self.store,
            self.base._replace(tree=self.tree or self.base.tree),
            name=name,
            root=self.root,
            shared_objects=shared,
            carry=self.config.workspace,
            mounted=self.wall.mounted,
            bound=self.wall.by == "bubblewrap",
        )
        space.base_tree = self.base.tree
        self.spaces.append(space)
        return space

    def _open_journal(self, loaded: Loaded, base: Snapshot, level: str, cleared: events.LatchCleared | None) -> None:
        key = tasks.plan_key(self.folders, loaded.path)
        self.journal, self.task = tasks.open_journal(
            self.folders, self.task, key, loaded.plan.title, self.started, self.observer.happened
        )
        if cleared:
            self.journal.append(cleared)
        self.journal.append(
            events.RunStarted(
                run_id=self.run_id,
                plan_hash=loaded.plan.hash,
                base_tree=base.tree,
                base_commit=base.commit,
                isolation=level,
                steps=[step.id for step in loaded.plan.steps],
                mode=self.project.mode if self.project else "git",
            )
        )
        self.begun = True

    def _work(self, loaded: Loaded) -> None:
        assert self.space and self.journal  # noqa: S101, PT018
        work = Work(
            self.run_id,
            loaded.plan,
            self.journal,
            self.folder.logs,
            Show(self.observer.command, self.observer.output),
            self.space,
            self._box,
            self._open_space,
            keep_going=self.request.keep_going,
            results=self.steps,
            skipped=frozenset(self._skipped()),
            starts=recovery.starts(self.point.run) if self.point else {},
            stop_asked=lambda: steer.asked(self.folders),
        )
        work.run(self.request.jobs or loaded.plan.jobs)
        for result in self.steps:
            self.warnings += [_LEFT_OUT.format(name) for name in result.nested]
            self.warnings += [f"step {result.id}: redacted what may be a secret: {one}" for one in result.doubtful]

    def _skipped(self) -> list[str]:
        steps = self.point.run.steps.values() if self.point else ()
        return [step.id for step in steps if step.status == "skipped"]

    def _raise_failed(self) -> None:
        """What went wrong, also where an earlier engine saw it and died before it could say so."""
        ended = self.point.run if self.point and self.over else None
        failed = next((one for one in self.steps if one.error_code not in (None, CANCELLED)), None)
        if failed and failed.error_code:
            what = f"{_short(failed.command)}: " if failed.command else ""
            raise by_code(failed.error_code)(
                f"step {failed.id}: {what}{failed.reason}", next_step=f"reflectloop log {self.run_id} {failed.id}"
            )
        if ended and ended.error_code and not ended.decision:
            raise by_code(ended.error_code)("so its journal says; the engine died before it could say more")

    def _box(self, space: Workspace, cancel: Cancel) -> Box:
        return Box.by(self.config, space, self.request.caller, self.wall, self._limiter(space), cancel)

    def _limiter(self, space: Workspace) -> Limiter | None:
        """One for each workspace, kept for the run."""
        if self.wall.level is Isolation.FULL and space.name not in self.limiters:
            self.limiters[space.name] = Limiter(space.name, limits.wanted(self.config.box))
        return self.limiters.get(space.name)

    def _stamp(self) -> str:
        return self.wall.stamp(step.network for step in self.loaded.plan.steps) if self.loaded else str(self.wall.level)

    def _patch_out(self) -> None:
        assert self.space  # noqa: S101
        try:
            now = self.space.record(thorough=True)
            patch.refuse_large(self.space.git(), self.space.base_tree, now.tree, self.space.largest)
        except Unrecordable as fault:
            raise StepFailed(
                f"what the steps left cannot be recorded: {fault}", next_step=f"reflectloop shell {self.run_id}"
            ) from fault
        self.warnings += [_LEFT_OUT.format(name) for name in now.nested]
        end, git = now.tree, self.space.git()
        doubtful = patch.write(git, self.space.base_tree, end, self.folder.patch)
        large = patch.oversize(self.folder.patch)
        self.warnings += [large] if large else []
        self.touched = patch.touched(git, self.space.base_tree, end)
        refuse_doubtful(doubtful)

    def _seal(self, loaded: Loaded) -> None:
        """The last word: base and patch judged in workspaces that no step ever touched."""
        assert self.project and self.store and self.base and self.space and self.journal  # noqa: S101, PT018
        if not seal.is_asked(loaded.plan) or (self.over and self.point and not self.point.run.decision):
            return
        # Here, and not above: most of what judges a change is of no use to a run that asks for no judgement.
        from reflectloop.flow import sealing  # noqa: PLC0415
        from reflectloop.flow import verify as verifying  # noqa: PLC0415
        from reflectloop.verify.runs import Told  # noqa: PLC0415

        stage = verifying.Stage(
            self.run_id,
            self.project,
            Trees(self.store, self.folders.scratch, self.space.quarantine),
            self.config,
            self.wall,
            self.request.caller,
            self.root,
            self.folders.own / "cache",
            self.folder.logs,
            Told(lambda name, words: self.observer.command("verify", f"{name} {words}"), self.observer.output),
        )
        self.verdict = verdict = sealing.judge(
            stage, loaded.plan, self.space.base_tree, self.space.tree, self.chain(), self.base.commit
        )
        self.warnings += verdict.notes
        if not (self.point and self.point.run.decision):
            self.journal.append(
                events.Judged(
                    run_id=self.run_id,
                    decision=str(verdict.decision),
                    level=verdict.level,
                    tree=verdict.tree,
                    sealed_tree=verdict.sealed_tree,
                )
            )
        error = verifying.as_error(verdict, self.run_id)
        if error:
            raise error

    def chain(self) -> Chain:
        """The evidence of this run; what its steps showed comes first."""
        if self._chain is None:
            # What an earlier engine told is told again from the journal: two chains in one file prove nothing.
            (self.folder.path / evidence.FILE).unlink(missing_ok=True)
            self._chain = Chain(self.folder.path / evidence.FILE)
            assert self.loaded and self.base  # noqa: S101, PT018
            seal.note_steps(self._chain, self.steps, self.base.tree, self.loaded.plan.hash, self._stamp())
        return self._chain

    # After the line, whatever came of it ----------------------------------------------------------------

    def finish(self) -> Outcome:
        self._keep_change()
        try:
            self._settle_task()
        except NoSpace as full:
            self.error = self.error or full  # the rest is still cleared away
        if self.journal:
            self.journal.close()
            self.warnings += views.refresh(self.journal.path.parent)
        bound_by = next((limiter.mechanism for limiter in self.limiters.values()), None)
        closing = [space.close for space in self.spaces] + [limiter.close for limiter in self.limiters.values()]
        for close in closing:
            with self._tidying("what the run held open"):
                close()
        self._clear_away()
        if not isinstance(self.error, Latched):
            self.folders.set_latest(self.run_id)  # what was refused leaves the last failure in sight
        envelope = self._envelope().model_copy(update={"limits_by": bound_by})
        self._write(envelope)
        envelope = envelope.model_copy(update={"warnings": list(dict.fromkeys(self.warnings))})
        return Outcome(envelope, self.folder, self.steps, self.touched, self.error)

    def _settle_task(self) -> None:
        """Tell the journal how the run ended, and what that means for its task."""
        if not (self.begun and self.journal and self.task and self.loaded and self.base):
            self._stop_unbegun()
            return
        limits = self.loaded.plan.limits
        allowed = limits.runs if self.request.max_retries is None else self.request.max_retries + 1
        if self.error:
            self.error = tasks.escalate(self.task, self.error, allowed, self.run_id)
        if isinstance(self.error, Interrupted) and not self.over:
            self._pause()
            return
        if self.error and not (self.task.latch and self.task.latch.run_id == self.run_id):
            failed = next((step.id for step in self.steps if step.error_code not in (None, CANCELLED)), None)
            held = tasks.set_latch(self.folders, self.journal, self.error, self._place(failed))
            if held:
                self.warnings += publish.set_home_latch(
                    self.folders, self.config.publish, held, "stop" if self.error.code in tasks.STOPPING else "failure"
                )
        # After the latch: a run that is over was also held, whenever the engine may die.
        if not self.over:
            end = self.space.tree if self.space else self.base.tree
            code = self.error.code if self.error else None
            self.journal.append(
                events.RunFinished(run_id=self.run_id, error_code=code, end_tree=end, duration_ms=self._elapsed_ms())
            )
        if not self.error:
            tasks.close(self.folders, self.task)
            publish.remove_home_latch(self.folders, self.config.publish)

    def _pause(self) -> None:
        """A run that somebody stopped is not over: its half steps are dropped, and it can be gone on with."""
        assert self.journal and self.error  # noqa: S101, PT018
        run = fold(journal.read(self.journal.path)).runs[self.run_id]
        for step in run.steps.values():
            if step.status == "running":
                self.journal.append(events.StepInterrupted(run_id=self.run_id, step_id=step.id))
        self.journal.append(events.RunPaused(run_id=self.run_id, reason=self.error.message))

    def _place(self, step_id: str | None) -> tasks.Place:
        assert self.loaded and self.base  # noqa: S101, PT018
        return tasks.Place(self.run_id, step_id, self.loaded.plan.hash, self.base.tree)

    def _stop_unbegun(self) -> None:
        """An escape found in the laid-out workspace stops the project although nothing ran."""
        if isinstance(self.error, SandboxEscape) and self.spaces:
            tasks.stop_project(self.folders, self.error, self._place(None))

    def _elapsed_ms(self) -> int:
        return round((clock.monotonic() - self.clock) * 1000)

    @contextlib.contextmanager
    def _tidying(self, what: str) -> Iterator[None]:
        """How a run ended does not depend on whether its traces could be cleared away."""
        try:
            yield
        except Exception as fault:  # noqa: BLE001 - said to the user, beside the outcome
            self.warnings.append(f"could not clear away {what}: {type(fault).__name__}: {fault}")

    def _keep_change(self) -> None:
        """What was proven harmless goes into the store; where that fails, the run did not give what it promised."""
        if not (self.store and self.space and self.begun) or isinstance(self.error, SecretLeak):
            return
        try:
            self.store.take_in(self.space.quarantine)
            end = self.store.commit(self.space.tree, message=f"End of {self.run_id}")
            self.store.keep(f"{self.run_id}/end", end)
            self.store.keep(f"{self.run_id}/base", self.store.commit(self.space.base_tree, message="Base"))
        except ReflectloopError as fault:
            self.error = self.error or fault
        except (GitFailed, OSError) as fault:
            self.error = self.error or NoSpace(f"cannot keep the change of {self.run_id} in {self.store.path}: {fault}")

    def _clear_away(self) -> None:
        """A leak leaves nothing; a failed run's workspace is kept to be looked at; one that served is kept warm."""
        for number, entry in enumerate(self._mine()):
            with self._tidying(os.fspath(entry.folder)):
                self._settle_space(entry, first=number == 0)
        with self._tidying("what earlier runs left"):
            for old in ledger.stale(self.folders.own, self.config.workspace.keep_failed):
                self._save_recorded(old)
                # An engine killed in the very instant of starting a command may have left it.
                process.end_carrying(f"{environment.RUN}={old.name}")
                ledger.remove(old)

    def _save_recorded(self, dead: ledger.Entry) -> None:
        """The trees of a run that can be gone on with; its files are of no use."""
        if self.store and dead.fate == "at work" and (dead.desk / "objects").is_dir():
            self.store.take_in(dead.desk / "objects")

    def _settle_space(self, entry: ledger.Entry, *, first: bool) -> None:
        if isinstance(self.error, SecretLeak):
            left = ledger.destroy(entry)
            if left:
                where = ", ".join(map(os.fspath, left))
                self.error.message += f"; what leaked may still lie in {where}, which could not be removed"
        elif self.error and self.begun and self.config.workspace.keep_failed and first:
            ledger.set_fate(entry, "kept")
        elif not self.error and self.config.workspace.warm and first:
            self._keep_warm(entry)
        else:
            ledger.remove(entry)

    def _keep_warm(self, entry: ledger.Entry) -> None:
        """One is enough: an older warm one makes room."""
        for other in ledger.entries(self.folders.own):
            if other.fate == "warm":
                ledger.remove(other)
        ledger.set_fate(entry, "warm", self.spaces[0].mark_ns, self.spaces[0].identity)

    def _mine(self) -> list[ledger.Entry]:
        names = [self.run_id, *(f"{self.run_id}.{number}" for number in range(1, 1 + len(self.spaces)))]
        return [entry for entry in ledger.entries(self.folders.own) if entry.name in names]

    def _envelope(self) -> Envelope:
        stamp = clock.stamp(self.started)
        plain = (
            of_error("run", stamp, self.error) if self.error else Envelope(command="run", timestamp=stamp, status="OK")
        )
        written = [self.folder.envelope, self.folder.result, self.folder.summary, self.folder.junit, self.folder.sarif]
        proofs = [self.folder.path / name for name in (evidence.FILE, evidence.RECEIPT)]
        written += proofs if self.begun and not isinstance(self.error, SecretLeak) else []
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
                "isolation": self._stamp() if self.begun else None,
                "isolation_by": self.wall.by if self.begun else None,
                "sandbox_mode": self.project.mode if self.project else None,
                "evidence_level": self._level(),
                "duration_ms": self._elapsed_ms(),
                "warnings": list(dict.fromkeys(self.warnings)),
            }
        )

    def _level(self) -> str | None:
        if self.verdict:
            return self.verdict.level
        return "L2" if self.begun and not self.error else None

    def _give_receipt(self) -> None:
        """What was decided and what that rests on, for whoever was not here. A leak leaves none."""
        if not (self.begun and self.loaded and self.space) or isinstance(self.error, SecretLeak):
            return
        said = {
            "run_id": self.run_id,
            "decision": "PASS" if not self.error else str(self.verdict.decision) if self.verdict else "STOP",
            "level": self._level(),
            "track": str(self.loaded.plan.settled_track),
            "base_tree": self.space.base_tree,
            "tree": self.space.tree,
            "sealed_tree": self.verdict.sealed_tree if self.verdict else None,
            "plan_hash": self.loaded.plan.hash,
            "reasons": [secrets.current().redact(self.error.message)] if self.error else [],
            "finished": clock.stamp(clock.now()),
        }
        named = [path.name for path in (*self.folder.path.glob("plan.*"), self.folder.patch) if path.exists()]
        evidence.write_receipt(self.folder.path, self.chain(), said, named)

    def _next(self) -> str:
        return f"reflectloop apply {self.run_id}" if self.touched else "reflectloop status"

    def _write(self, envelope: Envelope) -> None:
        plan = self.loaded.plan if self.loaded else None
        path = _relative(self.loaded.path, self.folders.root) if self.loaded else None
        body: dict[str, Any] = report.result_body(
            run_id=self.run_id,
            source_hash=self.loaded.source_hash if self.loaded else None,
            mode=self.project.mode if self.project else None,
            env_status=environment.status(self.config.run.env_allow, self.request.caller),
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
        files.write_atomic(
            self.folder.junit, exchange.junit(title, plan, self.steps, self.error, envelope.duration_ms or 0)
        )
        files.write_atomic(self.folder.sarif, exchange.sarif(path or self._asked_key(), self.steps, self.error))
        card = self._card(total) if self.error else None
        if card:
            report.write_yaml(self.folder.blocker, envelope, card)
        with self._tidying("what a receipt needs"):
            self._give_receipt()
        # Last of ours: where the envelope stands, everything it names stands.
        report.write_yaml(self.folder.envelope, envelope)
        if publish.wanted(self.config.publish, path or self._asked_key()):
            self.warnings += publish.attempt(self.folders, self.folder, envelope, body, card)

    def _asked_key(self) -> str | None:
        """Where the plan would have been read from, had it been readable."""
        if self.request.plan:
            return tasks.plan_key(self.folders, self.request.plan)
        there = [place for place in plans.DISCOVERED if (self.folders.root / place).exists()]
        return str(there[0]) if there else None

    def _card(self, total: int) -> dict[str, Any]:
        from reflectloop.flow import failures  # noqa: PLC0415 - a run that goes well needs no diagnosis

        assert self.error  # noqa: S101
        asked = self.loaded.path if self.loaded else self.request.plan
        history = self.task.failures if self.task else []
        failed = next((step for step in self.steps if not step.success), None)
        return report.blocker_body(
            self.error,
            at=self.started,
            run_id=self.run_id,
            plan=_relative(asked, self.folders.root) if asked else "PLAN",
            steps=self.steps,
            total=total,
            history=history,
            record=failures.of(self.error, failed, len(history) + 1, self.config.reflect, self.folders.root),
        )


def refuse_agents(loaded: Loaded, roles: config.RolesConfig) -> None:
    """Before anything runs. Says how a backend is bound, and that this version has none that could be."""
    needing = {step.id: step.agent.role for step in loaded.plan.steps if step.agent}
    if not needing:
        return
    bound = {role: getattr(roles, role) for role in dict.fromkeys(needing.values())}
    how = ", ".join(
        f"{role} is bound to {name}" if name else f'{role} = "NAME" under [roles] in {config.NAME} would bind one'
        for role, name in bound.items()
    )
    raise AgentUnavailable(
        f"step(s) {', '.join(needing)} need an agent, and this version of reflectloop ships no backend: {how}",
        next_step=f"write commands for step {next(iter(needing))}, then: reflectloop plan check {loaded.path}",
        missing=tuple(f"backend:{name}" for name in needing),
    )


def floor(settings: config.Config, request: Request, loaded: Loaded) -> Isolation:
    """The least isolation anybody asked for."""
    asked = [settings.box.isolation, request.isolation or Isolation.NONE]
    if loaded.plan.isolation:
        asked.append(loaded.plan.isolation.require)
    return max(asked, key=lambda level: level.rank)


def refuse_doubtful(found: list[Added]) -> None:
    """What may be a secret is not let through unseen, and is no leak either: a person says which."""
    if found:
        named = {f"{one.path}:{one.line} ({one.finding.rule}, fingerprint {one.finding.fingerprint})" for one in found}
        raise GateRejected(
            f"the patch adds what may be a secret: {', '.join(sorted(named)[:_NAMED])}"
            + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""),
            next_step="take it out; or, if it is none, name its fingerprint in the baseline (docs/secrets.md)",
        )


def reach(settings: config.Config, request: Request, loaded: Loaded) -> Wall:
    """The wall this run is to have, or why it cannot begin."""
    least = floor(settings, request, loaded)
    wall = walls.reach(least, settings.box.strongest)
    walls.refuse_network(wall, least, {step.id: step.network for step in loaded.plan.steps})
    return wall


def _short(command: str) -> str:
    first = command.strip().splitlines()[0]
    return first if len(first) <= _SHOWN else first[: _SHOWN - 1] + "…"


def _relative(path: Path, root: Path) -> str:
    return os.fspath(path.relative_to(root)) if path.is_relative_to(root) else os.fspath(path)
