"""Warns before a step, tries known fixes after a failure, scores the warnings; loads nothing without lessons."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from reflectloop import policy
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.run.context import PreparedRun
from reflectloop.engine.steps.execution import CANCELLED, FailedStep, StepResult
from reflectloop.plan.model import Step
from reflectloop.workspace.folders import user_knowledge

if TYPE_CHECKING:  # loaded only if there are lessons
    from reflectloop.reflection.warnings import StepWarning


class LessonHooks:
    def __init__(self, run: PreparedRun) -> None:
        self._run = run
        self._warned: dict[str, tuple[StepWarning, ...]] = {}  # by step
        self._failures: dict[str, FailureRecord] = {}  # the first of each step that failed

    @cached_property
    def knows(self) -> bool:
        return self._run.folders.knowledge.is_dir() or user_knowledge().is_dir()

    def warn(self, step: Step) -> None:
        """Warn before a step of what lessons know to go wrong with such steps."""
        if not self.knows:
            return
        from reflectloop.reflection import warnings  # noqa: PLC0415 - of no use where there are no lessons

        known = [signature for signature, steps in self._run.task.met.items() if step.id in steps]
        self._warned[step.id] = warned = warnings.warnings_for(self._run.folders, step, known, self._run.show.warning)
        for warning in warned:
            self._run.show.warning(step.id, f"{warning.risk}: {warning.mitigation}")

    def try_fixes(self, broken: FailedStep) -> StepResult:
        """Try the known fixes of a failed step; return its result with what they did."""
        if not self.knows or broken.result.error_code == CANCELLED:
            return broken.result
        from reflectloop.engine.run import known_fixes  # noqa: PLC0415 - most steps do not fail

        first = self._failures[broken.step.id] = self._diagnosed(broken.result)
        root = self._run.folders.root
        means = known_fixes.FixTools(
            known_fixes.lesson_dirs_of(self._run.folders),
            lambda: policy.of(self._run.config.policy, root),
            self._diagnosed,
            self._run.folder.logs,
            self._run.show,
            self._run.plan.limits.step_attempts,
        )
        return known_fixes.try_fixes(broken, means, first)

    def settle(self, result: StepResult) -> None:
        """Score the warnings of a step that ended. For one thread at a time."""
        warned, failure = self._warned.get(result.id, ()), self._failures.get(result.id)
        if warned or failure:
            from reflectloop.reflection import warnings  # noqa: PLC0415

            warnings.score_warnings(
                self._run.folders, self._run.run_id, result.id, warned, failure, self._run.show.warning
            )

    def _diagnosed(self, result: StepResult) -> FailureRecord:
        from reflectloop.engine.steps import run_failure  # noqa: PLC0415

        return run_failure.of_step(result, self._run.config.reflect, self._run.folders.root)
