"""`run`: the straight line from a plan to a patch or a blocker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reflectloop import config, policy, secrets
from reflectloop.engine import task_control, task_plan, tasks
from reflectloop.engine.artifacts import publish
from reflectloop.engine.folders import folders_at
from reflectloop.engine.gating import alarm, seal
from reflectloop.engine.run import admission, finish_run, recovery
from reflectloop.engine.run.lesson_hooks import LessonHooks, RunSettings
from reflectloop.engine.run.recovery import ResumePoint
from reflectloop.engine.run.run_context import NullObserver, RunContext, RunObserver, RunOutcome, RunRequest
from reflectloop.engine.run.scheduler import Scheduler
from reflectloop.engine.run.steps import CANCELLED, StepObserver, StepResult
from reflectloop.errors import (
    Internal,
    Interrupted,
    ReflectloopError,
    StepFailed,
    by_code,
)
from reflectloop.plan import load as plans
from reflectloop.plan.load import LoadedPlan
from reflectloop.plan.model import Step
from reflectloop.policy import AddedLineRules
from reflectloop.sandbox import editable_installs, limits
from reflectloop.sandbox.limits import Limiter
from reflectloop.sandbox.sandbox import Box
from reflectloop.state import events, latch, lock
from reflectloop.system import cgroup, clock, git
from reflectloop.system.process import Cancel
from reflectloop.workspace import apply as applying
from reflectloop.workspace import checkout, patch, project, secret_guard, snapshot
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.record_tree import Unrecordable
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store, open_for

_LEFT_OUT = "{} is a git repository of its own and is left out of the patch"
_REFUSED = "{} has a name that git keeps for itself, and is left out of the patch"
_SHOWN = 60  # of a command, in a message


def run(request: RunRequest, observer: RunObserver | None = None) -> RunOutcome:
    """Every fault once the project is known ends in artifacts and an outcome; faults before that are raised."""
    folders = folders_at(request.start, request.mode)
    folders.claim()
    watching = observer or NullObserver()
    with lock.hold(folders.own, "run", wait=watching.waits if request.wait else None):
        point = recovery.find(folders) if request.resume else None
        line = _Walk(request, folders, point.run.id if point else clock.run_id(clock.now()), watching, point)
        try:
            with git.room_left(folders.own):
                line.walk()
        except ReflectloopError as fault:
            line.error = fault
        except KeyboardInterrupt:
            line.error = Interrupted("stopped by the user; every process of the run is dead", next_step=line.onward())
        except Exception as bug:  # noqa: BLE001 - a bug of ours still leaves a card, and no workspace
            line.error = Internal(f"{type(bug).__name__}: {bug}")
            line.error.__cause__ = bug
        return finish_run.finish(line)


class _Walk(RunContext):
    """Each method is one station."""

    def walk(self) -> None:
        self.config = config.load(self.folders.root)
        secrets.use(secrets.of(self.config.secrets, self.folders.root))
        loaded = self._go_on(self.point) if self.point else self._begin()
        if not self.over:
            self._work(loaded)
        self._raise_failed()
        self._patch_out()
        self._seal(loaded)

    def _begin(self) -> LoadedPlan:
        secret_guard.refuse_words(self.request.retry_reason or "", "the reason")
        foreign = publish.foreign_latch(self.folders)
        self.warnings += [foreign] if foreign else []
        latch.refuse_if_stopped(self.folders.own)
        root = self.folders.root
        plan = plans.locate(root, self.asked_plan(), lambda path: project.is_tracked(root, path))
        self.loaded = loaded = plans.load(plan)
        self.warnings += loaded.warnings
        self.observer.begins(loaded, self.run_id)
        admission.refuse_agents(loaded, self.config, self.request.caller, self.folders.root)
        admission.refuse_incomplete(loaded.plan)
        admission.refuse_untrusted(loaded.plan, self.config)
        admission.refuse_commands(loaded, policy.of(self.config.policy, self.folders.root))
        self.wall = admission.reach(self.config, self.request, loaded)
        self.project = project.open_at(self.folders.root, self.request.mode)
        self.store = open_for(self.project, self.config.workspace)
        if applying.undo_killed(self.project, self.store, self.folders.scratch):
            self.warnings.append("an apply was killed half way; your files were put back to what they were before it")
        self.base = snapshot.take(self.project, self.store, self.folders.scratch)
        self.warnings += self.base.warnings
        cleared = self._admit(loaded, self.base)
        self._lay_out(loaded)
        recovery.keep_plan(loaded, self.folder)
        self._open_journal(loaded, self.base, self.stamp(), cleared)
        return loaded

    def _go_on(self, point: ResumePoint) -> LoadedPlan:
        """Everything as the dead engine had it: the plan as it was, the tree that the last whole step left."""
        latch.refuse_if_stopped(self.folders.own)
        self.loaded = loaded = self._plan_then(point)
        self.observer.begins(loaded, self.run_id)
        done = [name for name, step in point.run.steps.items() if step.status in ("done", "skipped")]
        admission.refuse_commands(loaded, policy.of(self.config.policy, self.folders.root), done)
        self.wall = admission.reach(self.config, self.request, loaded)
        recovery.refuse_lower(point.run.isolation, self.stamp())
        self.project = project.open_at(self.folders.root, "copy" if point.run.mode == "copy" else "auto")
        self.store = open_for(self.project, self.config.workspace)
        applying.undo_killed(self.project, self.store, self.folders.scratch)
        recovery.take_in(self.folders, self.store, self.run_id)
        self.base = Snapshot(point.run.base_tree, point.run.base_commit, dirty=False, warnings=())
        self.task, self.over = point.task, point.run.status != "running"
        self.steps += recovery.results(loaded.plan, point.run, self.folder.logs)
        self.tree = point.run.end_tree or self._reached(point, self.store)
        self._lay_out(loaded)
        self._reopen_journal(point)
        return loaded

    def _plan_then(self, point: ResumePoint) -> LoadedPlan:
        if point.plan is None:
            return task_plan.loaded(self.folders, point.task, point.run)
        return recovery.plan_then(point, self.folders)

    def _reached(self, point: ResumePoint, store: Store) -> str:
        if point.plan is None:
            from reflectloop.engine.requests import concluding  # noqa: PLC0415

            return concluding.tree_of(self.folders, store, point.task, point.run)
        return recovery.reached(point.run, store)

    def _reopen_journal(self, point: ResumePoint) -> None:
        self.journal = self.folders.open_journal(point.task.id, self.observer.happened)
        self.begun = True
        if self.over:
            return
        self.journal.append(events.RunResumed(run_id=self.run_id))
        for name in point.half_done:
            self.journal.append(events.StepInterrupted(run_id=self.run_id, step_id=name))
        recovery.refuse_deadly(point)

    def asked_plan(self) -> Path | None:
        """`retry` is about the plan of the task that failed."""
        if self.request.retry_reason is None or self.request.plan:
            return self.request.plan
        return self.folders.root / tasks.latched_task(self.folders).plan_path

    def _admit(self, loaded: LoadedPlan, base: Snapshot) -> events.LatchCleared | None:
        key = tasks.plan_key(self.folders, loaded.path)
        self.task = None if self.request.new_task else tasks.find_open(self.folders, key)
        admission.refuse_causeless(self.task, self.request.retry_reason)
        if self.request.retry_reason is not None and self.task and self.task.latch:
            return events.LatchCleared(how="retry", reason=self.request.retry_reason)
        return tasks.admit(self.task, loaded, base.tree)

    def _lay_out(self, loaded: LoadedPlan) -> None:
        assert self.project  # noqa: S101
        self.root = checkout.sandbox_root(self.project, self.request.sandbox_root or self.config.workspace.root)
        space = self._open_space(0)
        if not self.wall.mounted:
            editable_installs.refuse(self.folders.root, self.request.caller, [*map(Path, space.copied), *space.carried])
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

    def _open_journal(
        self, loaded: LoadedPlan, base: Snapshot, level: str, cleared: events.LatchCleared | None
    ) -> None:
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

    def _work(self, loaded: LoadedPlan) -> None:
        assert self.space and self.journal  # noqa: S101, PT018
        work = Scheduler(
            self.run_id,
            loaded.plan,
            self.journal,
            self.folder.logs,
            self._show(),
            self.space,
            self._box,
            self._open_space,
            LessonHooks(self._setting(loaded)),
            self._agents(loaded),
            keep_going=self.request.keep_going,
            results=self.steps,
            skipped=frozenset(self._skipped()),
            starts=recovery.starts(self.point.run) if self.point else {},
            stop_asked=lambda: task_control.asked(self.folders),
            between=self._between,
        )
        work.run(self.request.jobs or loaded.plan.jobs)
        for result in self.steps:
            self.warnings += [_LEFT_OUT.format(name) for name in result.nested]
            self.warnings += [_REFUSED.format(name) for name in result.refused]
            self.warnings += [f"step {result.id}: redacted what may be a secret: {one}" for one in result.doubtful]

    def _agents(self, loaded: LoadedPlan) -> Callable[[Step, Box, str, tuple[Path, ...]], StepResult] | None:
        if not any(step.agent for step in loaded.plan.steps):
            return None
        from reflectloop.engine.run.agent_steps import AgentSteps  # noqa: PLC0415 - most plans need no agent

        assert self.journal  # noqa: S101
        return AgentSteps(self, loaded.plan, self.journal, self._show()).perform

    def _show(self) -> StepObserver:
        return StepObserver(self.observer.command, self.observer.output, self.observer.warning)

    def _setting(self, loaded: LoadedPlan) -> RunSettings:
        met = self.task.met if self.task else {}
        attempts = loaded.plan.limits.step_attempts
        return RunSettings(self.folders, self.config, self.run_id, self.folder.logs, self._show(), attempts, met)

    def _between(self, steps: list[str], before: str, after: str) -> None:
        from reflectloop.engine.gating import gated  # noqa: PLC0415 - only batches need it

        gated.between(self, steps, before, after)

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
        if space.name not in self.limiters and (made := limits.behind(self.wall, space.name, self.config.box)):
            self.limiters[space.name] = made
        return self.limiters.get(space.name)

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
        self.warnings += [_REFUSED.format(name) for name in now.refused]
        end, git = now.tree, self.space.git()
        doubtful = patch.write(git, self.space.base_tree, end, self.folder.patch)
        self.touched = patch.touched(git, self.space.base_tree, end)
        self.suspect = bool(doubtful)
        admission.refuse_doubtful(doubtful)
        large = patch.oversize(self.folder.patch)
        self.warnings += [large] if large else []

    def _is_dangerous(self) -> bool:
        rules = policy.of(self.config.policy, self.folders.root)
        return alarm.raised(self.folder.patch, self.touched, AddedLineRules(rules.rules, rules.allowed))

    def _touches_judges(self) -> bool:
        """Whether what judges later changes is among what was changed."""
        if not self.touched:
            return False
        from reflectloop.verification import protected  # noqa: PLC0415 - knows many names

        return any(protected.guard(change.path) for change in self.touched)

    def _seal(self, loaded: LoadedPlan) -> None:
        """The last word: the gates, with base and patch judged in workspaces that no step ever touched."""
        asked = self.by_requests or seal.is_judged(loaded.plan) or self._touches_judges() or self._is_dangerous()
        if not asked or (self.over and self.point and not self.point.run.decision):
            return
        # Here, and not above: most of what judges a change is of no use to a run that asks for no judgement.
        from reflectloop.engine.gating import gated  # noqa: PLC0415

        error = gated.judge(self)
        if error:
            raise error


def _short(command: str) -> str:
    first = command.strip().splitlines()[0]
    return first if len(first) <= _SHOWN else first[: _SHOWN - 1] + "…"
