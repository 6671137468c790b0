"""Executes one step: its commands, then its checks; records the tree that they left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from reflectloop.errors import NeedsInput, StepFailed, StepTimeout, VerificationFailed
from reflectloop.plan.model import Plan, Step, command_text
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.system import files
from reflectloop.terms import join_first
from reflectloop.verification import checks
from reflectloop.verification.checks import CheckResult
from reflectloop.workspace import patch
from reflectloop.workspace.checkout import TreeNow
from reflectloop.workspace.record_tree import Unrecordable

_SHOWN = 5  # files, in a message
CANCELLED = "CANCELLED"  # of a step, never of a run


class FixAttempt(NamedTuple):
    """A known fix that was tried after a step failed."""

    lesson: str  # its id
    outcome: Literal["worked", "failed", "other", "refused"]  # other: the failure went, and another came
    title: str
    scope: Literal["project", "user"]
    signature: str  # of the failure it was tried against
    fix: str
    commands: tuple[str, ...]
    changed: tuple[str, ...] = ()  # files, by the fix itself; they are part of the step's change
    reason: str = ""
    log: str = ""
    tried: str = ""  # when

    def __str__(self) -> str:
        more = f" ({self.reason})" if self.reason else ""
        files = f"; it changed {', '.join(self.changed)}" if self.changed else ""
        return f"known fix {self.lesson} tried: {_CAME_OF_IT[self.outcome]}{more}{files}"


_CAME_OF_IT = {
    "worked": "worked",
    "failed": "did not help",
    "other": "the failure went, and another came",
    "refused": "was refused and not run",
}


class StepResult(NamedTuple):
    id: str
    title: str
    exit_code: int
    duration_ms: int
    tree: str
    changed: bool
    logs: tuple[Path, ...]
    checks: tuple[CheckResult, ...]
    error_code: str | None = None
    reason: str = ""
    command: str = ""
    tail: str = ""
    nested: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()  # names that git takes for its own, and no patch can hold
    doubtful: tuple[str, ...] = ()  # redacted from its output
    fixes: tuple[FixAttempt, ...] = ()
    commands_run: int | None = None  # of its commands, the first ones; None in journals that do not say it

    @property
    def success(self) -> bool:
        return self.error_code is None


class FailedStep(NamedTuple):
    """A step that failed, its sandbox, and the function that makes another attempt."""

    step: Step
    box: Box
    before: str  # the tree it began with
    result: StepResult
    again: Callable[[tuple[Path, ...]], StepResult]  # behind the logs there are


class StepFailure(NamedTuple):
    """Why a step failed: the first command or check that did not succeed."""

    code: str
    reason: str
    exit_code: int
    command: str
    log: Path | None


class StepObserver(NamedTuple):
    """An observer of a step: it is told which command begins, and what it prints."""

    command: Callable[[str, str], None]
    output: Callable[[str, bytes], None]
    warning: Callable[[str, str], None] = lambda _step, _words: None


class AgentProblem(NamedTuple):
    """Why an agent's work on a step is not worth checking."""

    code: str
    reason: str


class CheckedStep(NamedTuple):
    results: tuple[CheckResult, ...]
    failure: StepFailure | None


def run_checks(plan: Plan, step: Step, box: Box, logs: Path, show: StepObserver) -> CheckedStep:
    """Run the checks of a step on the workspace as it is, up to the first that fails."""
    work = _StepRun(plan, step, box, logs, show)
    failure = work.verifications()
    return CheckedStep(tuple(work.results), failure)


def execute(
    plan: Plan,
    step: Step,
    box: Box,
    logs: Path,
    show: StepObserver,
    earlier: tuple[Path, ...] = (),
    acting: Callable[[], AgentProblem | None] = lambda: None,
) -> StepResult:
    """Run the commands and checks of a step. A failed command is a value; only escapes and leaks are raised.

    `earlier` logs are kept; `acting` is what an agent does before the commands and checks.
    """
    work = _StepRun(plan, step, box, logs, show)
    work.written += earlier
    unwell = acting()
    refused = StepFailure(unwell.code, unwell.reason, 1, "", None) if unwell else None
    failure = refused or work.commands() or work.verifications()
    try:
        now = box.workspace.record(thorough=step.agent is not None)
    except Unrecordable as fault:
        # What a command left behind is the command's doing.
        now = TreeNow(box.workspace.tree, changed=False, nested=())
        failure = failure or StepFailure(StepFailed.code, str(fault), 1, "", None)
    return StepResult(
        id=step.id,
        title=step.title,
        exit_code=failure.exit_code if failure else work.exited,
        duration_ms=work.duration_ms,
        tree=now.tree,
        changed=now.changed,
        logs=tuple(work.written),
        checks=tuple(work.results),
        error_code=failure.code if failure else None,
        reason=failure.reason if failure else "",
        command=failure.command if failure else "",
        tail=files.last_lines(failure.log) if failure and failure.log else "",
        nested=now.nested,
        refused=now.refused,
        doubtful=tuple(work.doubtful),
        commands_run=work.commands_run,
    )


def refuse_changes(step: Step, result: StepResult, box: Box, before: str) -> StepResult:
    """Return the result, failed if a step that is marked read_only changed files."""
    if not step.looks_only or not result.success or result.tree == before:
        return result
    names = [change.path for change in patch.touched_files(box.workspace.git(), before, result.tree)]
    why = "is marked read_only" if step.read_only else "has tools for reading only"
    reason = f"{why}, and changed {join_first(names, _SHOWN)}"
    return result._replace(error_code=StepFailed.code, reason=reason, exit_code=1)


class _StepRun:
    def __init__(self, plan: Plan, step: Step, box: Box, logs: Path, show: StepObserver) -> None:
        self.plan, self.step, self.box, self.folder, self.show = plan, step, box, logs, show
        self.cwd = box.workspace.resolve(step.cwd)
        self.written: list[Path] = []
        self.results: list[CheckResult] = []
        self.duration_ms = 0
        self.commands_run = 0
        self.doubtful: list[str] = []
        self.exited = 0  # of the last command
        self.may_fail = any(wanted.check.commands_exit for wanted in plan.checks_of(step))
        texts = {wanted.check.output_contains for wanted in plan.checks_of(step)}
        self.needles = {text: checks.Needle(text) for text in texts if text}

    def _look(self, data: bytes) -> None:
        for needle in self.needles.values():
            needle.look(data)

    def _log(self) -> Path:
        path = self.folder / f"{self.step.id}.{len(self.written) + 1}.log"
        self.written.append(path)
        return path

    def _print(self, data: bytes) -> None:
        self.show.output(self.step.id, data)

    def commands(self) -> StepFailure | None:
        if not self.cwd.is_dir():
            return StepFailure(StepFailed.code, f"cwd {self.step.cwd!r} is not a folder", 1, "", None)
        for number, command in enumerate(self.step.commands, 1):
            self.show.command(self.step.id, command_text(command))
            log = self._log()
            order = SandboxCommand(
                command,
                self.cwd,
                log,
                self.step.timeout_s,
                env=self.step.env,
                show=self._print,
                look=self._look,
                idle_s=self.step.idle_s,
                network=self.step.network,
            )
            self.commands_run = number
            done = self.box.run(order)
            self.duration_ms += done.duration_ms
            self.doubtful += done.doubtful
            if done.cancelled:
                reason = "was ended because another step failed"
                return StepFailure(CANCELLED, reason, done.exit_code, command_text(command), log)
            if done.idle:
                return StepFailure(NeedsInput.code, self._idle_words(), done.exit_code, command_text(command), log)
            if done.timed_out:
                reason = f"ran past {self.step.timeout_s} s and was killed with its children"
                return StepFailure(StepTimeout.code, reason, done.exit_code, command_text(command), log)
            self.exited = done.exit_code
            if done.exit_code and not (self.may_fail and number == len(self.step.commands)):
                reason = f"exited {done.exit_code}" + (f": {done.limit}" if done.limit else "")
                return StepFailure(StepFailed.code, reason, done.exit_code, command_text(command), log)
        return None

    def _idle_words(self) -> str:
        idle_s = self.step.idle_s or self.box.idle_s
        return f"printed nothing, wrote nothing and used no processor for {idle_s:g} s: it seems to wait for input"

    def verifications(self) -> StepFailure | None:
        try:
            return self._verify()
        except Unrecordable as fault:
            return StepFailure(StepFailed.code, str(fault), 1, "", None)

    def _verify(self) -> StepFailure | None:
        for name, check, must_fail in self.plan.checks_of(self.step):
            self.show.command(self.step.id, f"check {name}: {check.description}")
            log = self._log() if check.run is not None else self.folder
            cwd = self.box.workspace.resolve(".")
            result = checks.run(
                name,
                check,
                self.box,
                must_fail=must_fail,
                log=log,
                cwd=cwd,
                env=self.step.env,
                printed=lambda text: self.needles[text].seen,
                exited=self.exited,
                show=self._print,
                network=self.step.network,
            )
            self.results.append(result)
            self.duration_ms += result.duration_ms
            self.doubtful += result.doubtful
            if not result.held:
                code = 1 if result.exit_code in (None, 0) else result.exit_code
                return StepFailure(
                    VerificationFailed.code,
                    f"check {name}: {result.reason}",
                    code or 1,
                    command_text(check.run) if check.run is not None else "",
                    result.log,
                )
        return None
