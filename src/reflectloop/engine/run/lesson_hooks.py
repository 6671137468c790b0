"""Warns before a step, tries known fixes after a failure, scores the warnings; loads nothing without lessons."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import policy
from reflectloop.config import Config
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.steps.execution import CANCELLED, FailedStep, StepObserver, StepResult
from reflectloop.plan.model import Step
from reflectloop.workspace.folders import Folders, user_knowledge


class RunSettings(NamedTuple):
    """Which run it is."""

    folders: Folders
    config: Config
    run_id: str
    logs: Path
    show: StepObserver
    attempts: int  # of one step
    met: Mapping[str, list[str]]  # what the task failed of before, by signature: the steps


class LessonHooks:
    def __init__(self, setting: RunSettings) -> None:
        self._in = setting
        self._warned: dict[str, tuple[Any, ...]] = {}  # their room is not loaded where nothing is known
        self._failures: dict[str, FailureRecord] = {}  # the first of each step that failed

    @cached_property
    def knows(self) -> bool:
        return self._in.folders.knowledge.is_dir() or user_knowledge().is_dir()

    def warn(self, step: Step) -> None:
        """Before a step: what is known to go wrong with such."""
        if not self.knows:
            return
        from reflectloop.reflection import warnings  # noqa: PLC0415 - of no use where there are no lessons

        known = [signature for signature, steps in self._in.met.items() if step.id in steps]
        self._warned[step.id] = warned = warnings.warnings_for(self._in.folders, step, known, self._in.show.warning)
        for warning in warned:
            self._in.show.warning(step.id, f"{warning.risk}: {warning.mitigation}")

    def try_fixes(self, broken: FailedStep) -> StepResult:
        """A step that failed is met with what helped before."""
        if not self.knows or broken.result.error_code == CANCELLED:
            return broken.result
        from reflectloop.engine.run import known_fixes  # noqa: PLC0415 - most steps do not fail

        first = self._failures[broken.step.id] = self._diagnosed(broken.result)
        root = self._in.folders.root
        means = known_fixes.FixTools(
            known_fixes.lesson_dirs_of(self._in.folders),
            lambda: policy.of(self._in.config.policy, root),
            self._diagnosed,
            self._in.logs,
            self._in.show,
            self._in.attempts,
        )
        return known_fixes.try_fixes(broken, means, first)

    def settle(self, result: StepResult) -> None:
        """After it: which warnings were right. For one thread at a time."""
        warned, failure = self._warned.get(result.id, ()), self._failures.get(result.id)
        if warned or failure:
            from reflectloop.reflection import warnings  # noqa: PLC0415

            warnings.score_warnings(
                self._in.folders, self._in.run_id, result.id, warned, failure, self._in.show.warning
            )

    def _diagnosed(self, result: StepResult) -> FailureRecord:
        from reflectloop.engine.steps import run_failure  # noqa: PLC0415

        return run_failure.of_step(result, self._in.config.reflect, self._in.folders.root)
