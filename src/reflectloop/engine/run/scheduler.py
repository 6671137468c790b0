"""Runs the steps of a plan: one after another in one workspace, or a batch at a time in several."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from reflectloop import secrets
from reflectloop.engine.run import recovery
from reflectloop.engine.run.lesson_hooks import LessonHooks
from reflectloop.engine.steps.execution import FailedStep, StepObserver, StepResult, execute, refuse_changes
from reflectloop.errors import ApplyConflict, Interrupted, StepFailed
from reflectloop.plan.model import Plan, Step
from reflectloop.plan.order import batches, sequence
from reflectloop.sandbox.sandbox import Box
from reflectloop.state import events
from reflectloop.state.journal import Journal
from reflectloop.system.process import Cancel
from reflectloop.workspace import apply as applying
from reflectloop.workspace import patch
from reflectloop.workspace.checkout import Workspace

_TURN_S = 0.2


@dataclass
class Scheduler:
    """Executes the steps of a run. `open_space` lays out another workspace beside the first."""

    run_id: str
    plan: Plan
    journal: Journal
    logs: Path
    show: StepObserver
    main: Workspace
    make_box: Callable[[Workspace, Cancel], Box]
    open_space: Callable[[int], Workspace]
    loop: LessonHooks
    agents: Callable[[Step, Box, str, tuple[Path, ...]], StepResult] | None = None  # does the steps that need one
    keep_going: bool = False
    results: list[StepResult] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    skipped: frozenset[str] = frozenset()
    starts: Mapping[str, str] = field(default_factory=dict)  # of what an earlier engine did: the tree it began with
    stop_asked: Callable[[], str | None] = lambda: None  # why the run is to stop before the next step
    between: Callable[[list[str], str, str], None] = lambda _steps, _before, _after: None  # the quick gate; may raise

    def run(self, jobs: int) -> None:
        """Fill `results`; the first failure in plan order is for the caller to find there."""
        self.done |= {result.id for result in self.results if result.success} | self.skipped
        if any(not result.success for result in self.results) and not self.keep_going:
            return
        needs = {step.id: step.depends_on for step in self.plan.steps}
        steps = {step.id: step for step in self.plan.steps}
        with _cancelling() as cancel:
            if jobs == 1:
                self._one_by_one([steps[name] for name in sequence(needs)], cancel)
            else:
                _Batches(self, jobs, cancel).run([[steps[name] for name in batch] for batch in batches(needs)])

    def _one_by_one(self, steps: list[Step], cancel: Cancel) -> None:
        box = self.make_box(self.main, cancel)
        good = self.main.tree
        known = {result.id for result in self.results} | self.skipped
        for step in self._runnable([step for step in steps if step.id not in known]):
            self.refuse_if_asked()
            if self.main.tree != good:
                self.main.step_back(good)  # what does not depend on a failed step does not see its work either
            result = self.perform(step, box)
            self.settle(result)
            good = result.tree if result.success else good
            if not result.success and not self.keep_going:
                return

    def refuse_if_asked(self) -> None:
        why = self.stop_asked()
        if why:
            raise Interrupted(why, next_step="reflectloop resume")

    def _runnable(self, steps: list[Step]) -> Iterator[Step]:
        for step in steps:
            if not self.blocked(step):
                yield step

    def blocked(self, step: Step) -> bool:
        """Return whether a step that it depends on failed or was not run."""
        return any(need not in self.done for need in step.depends_on)

    def perform(self, step: Step, box: Box) -> StepResult:
        before = box.workspace.tree
        self.journal.append(events.StepStarted(run_id=self.run_id, step_id=step.id, tree=before))
        self.loop.warn(step)

        def attempt(earlier: tuple[Path, ...]) -> StepResult:
            return self._attempt(step, box, before, earlier)

        result = attempt(())
        if result.success or step.agent:  # an agent was told what is known, and has had its attempts
            return result
        return self.loop.try_fixes(FailedStep(step, box, before, result, attempt))

    def _attempt(self, step: Step, box: Box, before: str, earlier: tuple[Path, ...]) -> StepResult:
        if step.agent and self.agents:
            result = self.agents(step, box, before, earlier)
        else:
            result = execute(self.plan, step, box, self.logs, self.show, earlier)
        return refuse_changes(step, result, box, before)

    def settle(self, result: StepResult) -> None:
        self.results.append(result)
        if result.success:
            self.done.add(result.id)
        for fix in result.fixes:
            self.journal.append(events.FixTried(run_id=self.run_id, step_id=result.id, **recovery.fix_record(fix)))
        self.journal.append(
            events.StepFinished(
                run_id=self.run_id,
                step_id=result.id,
                success=result.success,
                exit_code=result.exit_code,
                tree=result.tree,
                duration_ms=result.duration_ms,
                error_code=result.error_code,
                reason=secrets.current_detector().redact(result.reason),
                command=secrets.current_detector().redact(result.command),
                changed=result.changed,
                checks=[recovery.check_record(check) for check in result.checks],
            )
        )
        self.loop.settle(result)


@contextmanager
def _cancelling() -> Iterator[Cancel]:
    cancel = Cancel()
    try:
        yield cancel
    finally:
        cancel.close()


class _Batches:
    """Every step of a batch begins at one tree, in a workspace of its own; changes are merged in plan order."""

    def __init__(self, work: Scheduler, jobs: int, cancel: Cancel) -> None:
        self.work, self.jobs, self.cancel = work, jobs, cancel
        # What all finished batches came to; those of an earlier engine are merged again.
        self.tree = work.main.base_tree
        self.free: list[Workspace] = [work.main]
        self.used: set[str] = set()
        self.count = 1
        self.lock = threading.Lock()

    def run(self, groups: list[list[Step]]) -> None:
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="step") as pool:
            try:
                for group in groups:
                    self.work.refuse_if_asked()
                    ready = [step for step in group if not self.work.blocked(step) and step.id not in self.work.skipped]
                    before = self.tree
                    self._run_batch(pool, ready)
                    if not self.work.keep_going and any(not result.success for result in self.work.results):
                        return
                    if self.tree != before:
                        self._gate([step.id for step in ready], before)
            except BaseException:
                self.cancel.set()  # before the pool waits for what is still running
                raise
        self.work.main.reset_to(self.tree)

    def _gate(self, steps: list[str], before: str) -> None:
        """The next batch stands on this one: what is broken is found here, and lies there to be looked at."""
        try:
            self.work.between(steps, before, self.tree)
        except BaseException:
            self.work.main.reset_to(self.tree)
            raise

    def _run_batch(self, pool: ThreadPoolExecutor, steps: list[Step]) -> None:
        base = self.tree
        known = {result.id: result for result in self.work.results}
        done = {step.id: known[step.id] for step in steps if step.id in known}
        waiting = {pool.submit(self._perform, step, base, done) for step in steps if step.id not in known}
        unsettled = list(steps)
        self._settle(base, done, unsettled, known)
        while waiting:
            # By turns: a signal handed to another thread does not wake this one.
            finished, waiting = wait(waiting, timeout=_TURN_S, return_when=FIRST_COMPLETED)
            for future in finished:
                future.result()
            self._settle(base, done, unsettled, known)
            failed = any(not result.success for result in (*done.values(), *self.work.results))
            if failed and not self.work.keep_going:
                self.cancel.set()
                waiting = {future for future in waiting if not future.cancel()}
        for step in unsettled:  # behind one that never began
            if step.id in done:
                self.work.settle(self._merge(base, done[step.id]))

    def _settle(
        self, base: str, done: dict[str, StepResult], unsettled: list[Step], known: Mapping[str, StepResult]
    ) -> None:
        """In plan order; what an earlier engine settled is merged again, and not written down twice."""
        while unsettled and unsettled[0].id in done:
            name = unsettled.pop(0).id
            result = self._merge(self.work.starts.get(name, base) if name in known else base, done[name])
            if result.id not in known:
                self.work.settle(result)

    def _perform(self, step: Step, base: str, done: dict[str, StepResult]) -> None:
        if self.cancel.is_set:
            return
        space = self._take(base)
        try:
            done[step.id] = self.work.perform(step, self.work.make_box(space, self.cancel))
        finally:
            with self.lock:
                self.free.append(space)

    def _take(self, base: str) -> Workspace:
        """A workspace with exactly the files of `base`: one that is free, or a new one."""
        with self.lock:
            space = self.free.pop() if self.free else None
            number = self.count
            self.count += space is None
        if space is None:
            space = self.work.open_space(number)
        if space.tree != base or space.name in self.used:
            space.reset_to(base)
        self.used.add(space.name)
        return space

    def _merge(self, base: str, result: StepResult) -> StepResult:
        """Add a step's change to what the batch has so far; a conflict is the later step's failure."""
        if not result.success or result.tree == base:
            return result
        git = self.work.main.git_for_merges()
        try:
            self.tree = applying.merge(self.work.main.store, base=base, ours=self.tree, theirs=result.tree, by=git)
        except ApplyConflict as conflict:
            names = set(conflict.missing)
            others = [step.id for step in self.work.results if step.success and names & self._touched(base, step.tree)]
            reason = f"changes the same lines as step {', '.join(others)}: {', '.join(sorted(names)[:10])}"
            reason += "; let one depend on the other"
            return result._replace(error_code=StepFailed.code, reason=reason, exit_code=1)
        return result

    def _touched(self, base: str, tree: str) -> set[str]:
        return {change.path for change in patch.touched_files(self.work.main.git(), base, tree)}
