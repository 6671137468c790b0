"""Runs the steps of a plan: one after another in one workspace, or a batch at a time in several."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

from reflectloop import secrets
from reflectloop.engine.run import recovery
from reflectloop.engine.run.context import PreparedRun
from reflectloop.engine.run.lesson_hooks import LessonHooks
from reflectloop.engine.steps.execution import FailedStep, StepResult, execute, refuse_changes
from reflectloop.engine.tasks import open_tasks
from reflectloop.errors import ApplyConflict, Interrupted, StepFailed
from reflectloop.plan.model import Step
from reflectloop.plan.order import batches, sequence
from reflectloop.sandbox.sandbox import Box
from reflectloop.state import events
from reflectloop.system.process import Cancel
from reflectloop.system.undo import on_failure
from reflectloop.workspace import apply as applying
from reflectloop.workspace import patch
from reflectloop.workspace.checkout import Workspace

_TURN_S = 0.2


class Scheduler:
    """Executes the steps of a run. `judge_batch` is called after each batch with steps and trees, and may raise."""

    def __init__(self, run: PreparedRun, judge_batch: Callable[[list[str], str, str], None]) -> None:
        self.run = run
        self.judge_batch = judge_batch
        self.lessons = LessonHooks(run)
        self.results = run.results
        self.keep_going = run.request.keep_going
        earlier = run.resume.run if run.resume else None
        self.starts: Mapping[str, str] = recovery.starts(earlier) if earlier else {}  # trees that steps began with
        self.skipped = {step.id for step in earlier.steps.values() if step.status == "skipped"} if earlier else set()
        self.done = {result.id for result in self.results if result.success} | self.skipped
        self._ask_agent = _agent_executor(run)

    def execute_steps(self) -> None:
        """Add to the results of the run; the first failure in plan order is for the caller to find there."""
        if any(not result.success for result in self.results) and not self.keep_going:
            return
        plan = self.run.plan
        jobs = self.run.request.jobs or plan.jobs
        needs = {step.id: step.depends_on for step in plan.steps}
        steps = {step.id: step for step in plan.steps}
        with contextlib.closing(Cancel()) as cancel:
            if jobs == 1:
                self._one_by_one([steps[name] for name in sequence(needs)], cancel)
            else:
                _Batches(self, jobs, cancel).run([[steps[name] for name in batch] for batch in batches(needs)])

    def _one_by_one(self, steps: list[Step], cancel: Cancel) -> None:
        space = self.run.workspace
        box = self.run.make_box(space, cancel)
        good = space.tree
        known = {result.id for result in self.results} | self.skipped
        for step in self._runnable([step for step in steps if step.id not in known]):
            self.refuse_if_asked()
            if space.tree != good:
                space.step_back(good)  # what does not depend on a failed step does not see its work either
            result = self.perform(step, box)
            self.settle(result)
            good = result.tree if result.success else good
            if not result.success and not self.keep_going:
                return

    def refuse_if_asked(self) -> None:
        why = open_tasks.pause_requested(self.run.folders)
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
        self.run.journal.append(events.StepStarted(run_id=self.run.run_id, step_id=step.id, tree=before))
        self.lessons.warn(step)

        def attempt(earlier: tuple[Path, ...]) -> StepResult:
            return self._attempt(step, box, before, earlier)

        result = attempt(())
        if result.success or step.agent:  # an agent was told what is known, and has had its attempts
            return result
        return self.lessons.try_fixes(FailedStep(step, box, before, result, attempt))

    def _attempt(self, step: Step, box: Box, before: str, earlier: tuple[Path, ...]) -> StepResult:
        if step.agent and self._ask_agent:
            result = self._ask_agent(step, box, before, earlier)
        else:
            result = execute(self.run.plan, step, box, self.run.folder.logs, self.run.show, earlier)
        return refuse_changes(step, result, box, before)

    def settle(self, result: StepResult) -> None:
        self.results.append(result)
        if result.success:
            self.done.add(result.id)
        for fix in result.fixes:
            self.run.journal.append(
                events.FixTried(run_id=self.run.run_id, step_id=result.id, **recovery.fix_record(fix))
            )
        self.run.journal.append(
            events.StepFinished(
                run_id=self.run.run_id,
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
                commands_run=result.commands_run,
            )
        )
        self.lessons.settle(result)


def _agent_executor(run: PreparedRun) -> Callable[[Step, Box, str, tuple[Path, ...]], StepResult] | None:
    if not any(step.agent for step in run.plan.steps):
        return None
    from reflectloop.engine.run.agent_steps import AgentSteps  # noqa: PLC0415 - most plans need no agent

    return AgentSteps(run).perform


class _Batches:
    """Runs each step of a batch in a workspace of its own, from one tree; merges their changes in plan order."""

    def __init__(self, work: Scheduler, jobs: int, cancel: Cancel) -> None:
        self.work, self.jobs, self.cancel = work, jobs, cancel
        self.main = work.run.workspace
        # The tree that all finished batches made; those of an earlier engine are merged again.
        self.tree = self.main.base_tree
        self.free: list[Workspace] = [self.main]
        self.used: set[str] = set()
        self.count = 1
        self.lock = threading.Lock()

    def run(self, groups: list[list[Step]]) -> None:
        # After an error, steps are cancelled before the pool waits for what is still running.
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="step") as pool, on_failure(self.cancel.set):
            for group in groups:
                self.work.refuse_if_asked()
                ready = [step for step in group if not self.work.blocked(step) and step.id not in self.work.skipped]
                before = self.tree
                self._run_batch(pool, ready)
                if not self.work.keep_going and any(not result.success for result in self.work.results):
                    return
                if self.tree != before:
                    self._gate([step.id for step in ready], before)
        self.main.reset_to(self.tree)

    def _gate(self, steps: list[str], before: str) -> None:
        """Judge a batch before the next one begins on its tree, which is left in the workspace if it is refused."""
        with on_failure(lambda: self.main.reset_to(self.tree)):
            self.work.judge_batch(steps, before, self.tree)

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
        """Merge results in plan order; one that an earlier engine settled is merged, but not journalled again."""
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
            done[step.id] = self.work.perform(step, self.work.run.make_box(space, self.cancel))
        finally:
            with self.lock:
                self.free.append(space)

    def _take(self, base: str) -> Workspace:
        """Return a workspace with exactly the files of `base`: a free one, or a new one."""
        with self.lock:
            space = self.free.pop() if self.free else None
            number = self.count
            self.count += space is None
        if space is None:
            space = self.work.run.open_workspace(number)
        if space.tree != base or space.name in self.used:
            space.reset_to(base)
        self.used.add(space.name)
        return space

    def _merge(self, base: str, result: StepResult) -> StepResult:
        """Add a step's change to what the batch has so far; a conflict is the later step's failure."""
        if not result.success or result.tree == base:
            return result
        git = self.main.git_for_merges()
        try:
            self.tree = applying.merge(self.main.store, base=base, ours=self.tree, theirs=result.tree, by=git)
        except ApplyConflict as conflict:
            names = set(conflict.missing)
            others = [step.id for step in self.work.results if step.success and names & self._touched(base, step.tree)]
            reason = f"changes the same lines as step {', '.join(others)}: {', '.join(sorted(names)[:10])}"
            reason += "; let one depend on the other"
            return result._replace(error_code=StepFailed.code, reason=reason, exit_code=1)
        return result

    def _touched(self, base: str, tree: str) -> set[str]:
        return {change.path for change in patch.touched_files(self.main.git(), base, tree)}
