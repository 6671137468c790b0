"""Tries a stored fix on a step that failed, and does the step again after it; each fix once, and never without end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.steps.execution import CANCELLED, FailedStep, FixAttempt, StepObserver, StepResult
from reflectloop.errors import ReflectloopError
from reflectloop.lessons import lesson_recall, lesson_scopes, lesson_store
from reflectloop.lessons.lesson import Lesson
from reflectloop.lessons.lesson_files import LessonDir
from reflectloop.policy import CommandPolicy
from reflectloop.sandbox.sandbox import SandboxCommand
from reflectloop.system import clock
from reflectloop.workspace import patch
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.record_tree import Unrecordable

_SHOWN = 20  # files, in a record
_LONGEST, _NEAR = 1_000, 3  # characters that are looked up, and how many are found by them


class FixTools(NamedTuple):
    """The lessons, policy and limits with which a run tries fixes."""

    lesson_dirs: tuple[LessonDir, ...]  # the project's first
    policy: Callable[[], CommandPolicy]
    diagnose: Callable[[StepResult], FailureRecord]
    logs: Path
    show: StepObserver
    attempts: int  # of one step, the first among them


def lesson_dirs_of(folders: Folders) -> tuple[LessonDir, ...]:
    """Return the lesson folders that exist, the project's first."""
    every = (lesson_scopes.project_dir(folders), lesson_scopes.user_dir())
    return tuple(lesson_dir for lesson_dir in every if lesson_dir.folder.is_dir())


def executable(lesson: Lesson) -> bool:
    """Return True if a fix may run: somebody recorded it as commands, and no other lesson contradicts it."""
    return bool(lesson.commands) and lesson.status == "active"


def try_fixes(broken: FailedStep, means: FixTools, first: FailureRecord) -> StepResult:
    """Try known fixes; return the step's last result, with every fix that was tried."""
    return _FixTrial(broken, means).run(first)


def fixes(lesson_dirs: Sequence[LessonDir], signature: str) -> list[Lesson]:
    """Return the fixes that may be tried against this failure: the project's first, the most successful first."""
    known = [
        lesson
        for lesson_dir in lesson_dirs
        for lesson in lesson_recall.known_fixes([lesson_dir], signature)
        if executable(lesson)
    ]
    return [
        lesson
        for lesson in known
        if not any(_contradicts(lesson_dir, lesson) for lesson_dir in lesson_dirs if lesson_dir.scope != lesson.scope)
    ]


def _contradicts(lesson_dir: LessonDir, lesson: Lesson) -> bool:
    """Within a scope that is a conflict already; a word against it in the other one counts as much."""
    return any(
        lesson.id in other.contradicts and other.status != "retired" for other in lesson_store.read(lesson_dir).lessons
    )


class _Ran(NamedTuple):
    """The result of a fix's own commands."""

    changed: tuple[str, ...]
    trouble: str = ""
    stopped: bool = False  # nothing can be said of it


class _FixTrial:
    def __init__(self, broken: FailedStep, means: FixTools) -> None:
        self.broken, self.means = broken, means
        self.result = broken.result
        self.helping: list[Lesson] = []  # their failure went, and another came
        self.tried: dict[str, FixAttempt] = {}
        self.left = means.attempts - 1
        self.spent_ms = 0
        self.commands = 0  # of fixes, so far
        self.doubtful: list[str] = []

    def run(self, met: FailureRecord) -> StepResult:
        while self.left > 0 and (fix := self._next(met.signature)):
            refusal = self._refusal(fix)
            if refusal:
                self._note(fix, met, "refused", refusal)
                continue
            self.left -= 1
            now = self._attempt(fix, met)
            if now is None:
                break
            met = now
        return self._finished()

    def _next(self, signature: str) -> Lesson | None:
        try:
            known = fixes(self.means.lesson_dirs, signature)
        except (ReflectloopError, OSError) as fault:  # how a run ends does not depend on what can be read up
            self.means.show.warning(self.broken.step.id, f"known fixes could not be looked up: {fault}")
            return None
        return next((fix for fix in known if fix.id not in self.tried), None)

    def _refusal(self, fix: Lesson) -> str:
        rules = self.means.policy().in_workspace
        verdicts = (rules.judge(command) for command in fix.commands)
        return next((f"{verdict.rule}: {verdict.reason}" for verdict in verdicts if not verdict.allowed), "")

    def _attempt(self, fix: Lesson, met: FailureRecord) -> FailureRecord | None:
        """Try one fix. Return the failure that is left, or None if there is nothing more to try."""
        ran = self._apply(fix)
        if ran.stopped:
            return None
        if ran.trouble:
            self._note(fix, met, "failed", ran.trouble)
            return met
        result = self.broken.again(self.result.logs)
        if result.error_code == CANCELLED:
            return None
        self.spent_ms += self.result.duration_ms
        self.result = result
        if result.success:
            self._note(fix, met, "worked", changed=ran.changed)
            return None
        return self._compare(fix, met, ran)

    def _compare(self, fix: Lesson, met: FailureRecord, ran: _Ran) -> FailureRecord:
        now = self.means.diagnose(self.result)
        if now.signature == met.signature:
            self._note(fix, met, "failed", changed=ran.changed)
        else:
            self.helping.append(fix)
            self._note(fix, met, "other", changed=ran.changed)
        return now

    def _apply(self, fix: Lesson) -> _Ran:
        """Reset to the tree before the step, apply the fixes that helped so far, then this one."""
        self.broken.box.workspace.step_back(self.broken.before)
        for helped in self.helping:
            earlier = self._carry_out(helped)
            if earlier.trouble or earlier.stopped:
                return earlier._replace(stopped=True)  # not this one's doing
        return self._carry_out(fix)

    def _carry_out(self, fix: Lesson) -> _Ran:
        space = self.broken.box.workspace
        before = space.tree
        trouble, stopped = "", False
        for command in fix.commands:
            self.means.show.command(self.broken.step.id, f"known fix {fix.id}: {command}")
            done = self.broken.box.run(self._order(command))
            self.spent_ms += done.duration_ms
            trouble = "its command ran past the step's time" if done.timed_out else ""
            trouble = trouble or (f"its command exited {done.exit_code}" if done.exit_code else "")
            self.doubtful += done.doubtful
            stopped = done.cancelled
            if trouble or stopped:
                break
        try:
            after = space.record().tree
        except Unrecordable as fault:
            space.reset_to(before)
            return _Ran((), str(fault))
        changed = [change.path for change in patch.touched_files(space.git(), before, after)] if after != before else []
        return _Ran(tuple(changed[:_SHOWN]), trouble, stopped)

    def _order(self, command: str) -> SandboxCommand:
        """Return the sandbox command for a fix, with the settings of the step."""
        step, space = self.broken.step, self.broken.box.workspace
        self.commands += 1
        there = space.resolve(step.cwd)
        return SandboxCommand(
            command,
            there if there.is_dir() else space.resolve("."),  # to make the folder may be the fix
            self.means.logs / self._log(),
            step.timeout_s,
            env=step.env,
            show=lambda data: self.means.show.output(step.id, data),
            idle_s=step.idle_s,
            network=step.network,
        )

    def _log(self) -> str:
        return f"{self.broken.step.id}.fix{self.commands}.log"

    def _note(
        self,
        fix: Lesson,
        met: FailureRecord,
        outcome: Literal["worked", "failed", "other", "refused"],
        reason: str = "",
        changed: tuple[str, ...] = (),
    ) -> None:
        redact = secrets.current_detector().redact
        self.tried[fix.id] = FixAttempt(
            lesson=fix.id,
            outcome=outcome,
            title=redact(fix.title),
            scope=fix.scope,
            signature=met.signature,
            fix=redact(fix.fix),
            commands=tuple(map(redact, fix.commands)),
            changed=changed,
            reason=redact(reason),
            log="" if outcome == "refused" else self._log(),
            tried=clock.stamp(clock.now()),
        )

    def _finished(self) -> StepResult:
        space, result = self.broken.box.workspace, self.result
        if space.tree != result.tree:
            space.step_back(result.tree)  # what did not help is not left lying about
        fixes = tuple(self._settled(result))
        spent, changed = result.duration_ms + self.spent_ms, result.tree != self.broken.before
        doubtful = (*result.doubtful, *self.doubtful)
        return result._replace(fixes=fixes, duration_ms=spent, changed=changed, doubtful=doubtful)

    def _settled(self, result: StepResult) -> Iterator[FixAttempt]:
        """A fix that replaced one failure by another counts as successful if the step passes in the end."""
        for attempt in self.tried.values():
            yield attempt._replace(outcome="worked") if attempt.outcome == "other" and result.success else attempt


def known(folders: Folders, record: FailureRecord) -> list[dict[str, object]]:
    """Return the fixes of a failure for its blocker; those found by words alone, or contradicted, are never run."""
    lesson_dirs = lesson_dirs_of(folders)
    usable = {fix.id for fix in fixes(lesson_dirs, record.signature)}
    shown: dict[str, dict[str, object]] = {}
    for lesson_dir in lesson_dirs:
        for lesson in lesson_store.by_mark(lesson_dir, record.signature):
            if lesson.kind == "failfix" and lesson.status != "retired":
                shown.setdefault(lesson.id, _shown(lesson, "signature", executable=lesson.id in usable))
    cause = record.diagnosis.root_cause if record.diagnosis else ""
    for lesson in lesson_recall.recall(lesson_dirs, "failure", f"{cause} {record.log_excerpt[-_LONGEST:]}").lessons[
        :_NEAR
    ]:
        shown.setdefault(lesson.id, _shown(lesson, "words", executable=False))
    return list(shown.values())


def _shown(lesson: Lesson, match: str, *, executable: bool) -> dict[str, object]:
    return {
        "id": lesson.id,
        "title": lesson.title,
        "fix": lesson.fix or "; ".join(lesson.commands),
        "commands": list(lesson.commands),
        "worked": lesson.worked,
        "failed": lesson.failed,
        "executable": executable,
        "status": lesson.status,
        "scope": lesson.scope,
        "match": match,
    }
