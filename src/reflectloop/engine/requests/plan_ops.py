"""The plan and its state behind FileOps' six domain ops: each one a real transition, journalled when the request is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import JsonValue

from reflectloop import secrets
from reflectloop.engine.artifacts import views
from reflectloop.engine.folders import Folders
from reflectloop.fileops.ops_context import Data, EngineEvidence, Refusal
from reflectloop.fileops.plan_ops import (
    AppendSteps,
    ApplySplit,
    Finalize,
    MarkBlocked,
    NewStep,
    PlanInit,
    Preflight,
    StepName,
)
from reflectloop.policy import CommandPolicy
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.state import events, journal
from reflectloop.state.fold import RunState, StepState, Task, advance, fold
from reflectloop.state.journal import JournalEntry
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock
from reflectloop.verification import evidence

ATTEMPTS = 3
_CHECK_TIMEOUT_S = 600
_SHOWN = 300  # of a command, in the journal
_LEFT = ("pending", "running", "blocked", "failed")
# Words of the protocol that say what to look at after a step was finalized; others are not known.
_KNOWN_WORDS = frozenset(("", "verify_pointer_moved"))


class ProvenTree(NamedTuple):
    """What the engine ran on a tree, all of it well; on any other tree it shows nothing."""

    tree: str
    checks: list[events.Json]


@dataclass
class TaskOps:
    """The current task, worked on by requests. What a request does holds once it is kept."""

    folders: Folders
    base_tree: str
    base_commit: str
    isolation: str
    box: Box | None = None
    policy: CommandPolicy | None = None  # what checks are judged by before they run
    pending: list[events.Event] = field(default_factory=list)
    opened: str | None = None  # a task that this request opened
    proven: ProvenTree | None = None  # what the engine has already run
    took_ms: int = 0  # by the attempt that ends, where the engine itself did it
    made_by: str = ""  # the command that opens a task, where it is one that also works on it

    # What stands --------------------------------------------------------------------------------------------------

    def _task(self) -> Task:
        """With what the request has done so far."""
        current = None if self.opened else self.folders.current_task()
        task = fold(journal.read(self.folders.journal(current))) if current else Task()
        for number, event in enumerate(self.pending, 1):
            advance(task, JournalEntry(number, "", event))
        return task

    def _at_work(self) -> tuple[Task, RunState]:
        task = self._task()
        run = list(task.runs.values())[-1] if task.runs else None
        if run is None or not run.kind.is_stepwise or task.state in (TaskState.DONE, TaskState.ABORTED):
            raise Refusal("there is no plan to work on", hint="send triflow_plan_init first")
        return task, run

    def _current(self, run: RunState, wanted: StepName | None) -> StepState:
        """The step the state points to; a caller that believes in another one is told."""
        left = [step for step in run.steps.values() if step.status in _LEFT]
        if not left:
            raise Refusal("nothing is left to do", hint="finish with the final review")
        if wanted is not None and str(wanted) != left[0].id:
            raise Refusal(f"the next step is {left[0].id}, not {wanted}", key="step", hint="send preflight again")
        return left[0]

    # The six ops --------------------------------------------------------------------------------------------------

    def plan_init(self, op: PlanInit, seen: EngineEvidence) -> Data:
        task = self._task()
        if task.id and task.state not in (TaskState.DONE, TaskState.ABORTED):
            raise Refusal(
                f"task {task.id} is {task.state}: a running plan is not overwritten",
                hint="finish it, or reflectloop abort --reason TEXT",
            )
        if op.plan is not None:
            raise Refusal("a plan file is run by `reflectloop run`; give its steps here", key="plan")
        if not op.steps:
            raise Refusal("a plan has steps", key="steps")
        _refuse_secrets(op)
        at = clock.now()
        names = [str(number) for number in range(1, len(op.steps) + 1)]
        title = op.taskName or op.objective.goal or "A plan"
        self.opened, self.pending = clock.task_id(at), []
        self.pending.append(events.TaskOpened(task_id=self.opened, plan_path="", title=title))
        self.pending.append(
            events.RunStarted(
                run_id=clock.run_id(at),
                plan_hash="",
                base_tree=self.base_tree,
                base_commit=self.base_commit,
                isolation=self.isolation,
                steps=names,
                mode=events.BY_REQUESTS,
                titles=_titles(names, op.steps),
                details=_details(names, op.steps),
                objective={
                    "objective": op.objective.model_dump(mode="json"),
                    "context": op.context.model_dump(mode="json"),
                    "constraints": list(op.constraints),
                    "finalDone": list(op.finalDone),
                    **({"contract": op.contract.model_dump(mode="json")} if op.contract else {}),
                    **({"made_by": self.made_by} if self.made_by else {}),
                },
            )
        )
        return {"task": self.opened, "steps": list(names), "tree": seen.tree}

    def preflight(self, op: Preflight, seen: EngineEvidence) -> Data:
        _, run = self._at_work()
        step = self._current(run, op.step)
        if step.status == "blocked":
            raise Refusal(
                f"step {step.id} is blocked: {step.reason}; {step.unblock}", hint=f"reflectloop answer {step.id} TEXT"
            )
        if step.attempts - step.forgiven >= ATTEMPTS:
            raise Refusal(f"step {step.id} had its {ATTEMPTS} attempts", hint="split it, or mark it blocked")
        if step.status == "running":
            self.pending.append(self._ended(run, step, seen, good=False, reason=op.reason or "begun again"))
        if step.status in ("running", "failed"):
            reason = "another attempt"
            self.pending.append(events.StepsReset(run_id=run.id, steps=[step.id], how="retry", reason=reason))
        self.pending.append(events.StepStarted(run_id=run.id, step_id=step.id, tree=seen.begun))
        return {
            "step": step.id,
            "title": run.titles.get(step.id, ""),
            "attempt": step.attempts + 1,
            "details": run.details.get(step.id, {}),  # type: ignore[dict-item]
            "answer": step.answer,
            "left": sum(one.status in _LEFT for one in run.steps.values()),
        }

    def finalize(self, op: Finalize, seen: EngineEvidence) -> Data:
        _, run = self._at_work()
        step = self._current(run, op.step)
        if step.status != "running":
            raise Refusal(f"step {step.id} was not begun", hint="send triflow_state_preflight first")
        if (op.verification or "") not in _KNOWN_WORDS:
            raise Refusal(f"{op.verification!r} is no verification the engine knows", key="verification")
        proofs = self._prove(run, step, seen)
        self.pending.append(self._ended(run, step, seen, good=True, checks=proofs))
        after = self._task()
        left = [one.id for one in list(after.runs.values())[-1].steps.values() if one.status in _LEFT]
        said: list[JsonValue] = [str(proof["command"]) for proof in proofs]
        return {"step": step.id, "evidence": said, "next": left[0] if left else None, "state": str(after.state)}

    def mark_blocked(self, op: MarkBlocked, seen: EngineEvidence) -> Data:  # noqa: ARG002
        _, run = self._at_work()
        step = self._current(run, op.step)
        event = events.StepBlocked(run_id=run.id, step_id=step.id, reason=op.reason, unblock=op.unblock)
        self.pending.append(event)
        return {"step": step.id, "state": str(self._task().state)}

    def apply_split(self, op: ApplySplit, seen: EngineEvidence) -> Data:  # noqa: ARG002
        _refuse_secrets(op)
        _, run = self._at_work()
        step = self._current(run, op.step)
        if step.status not in ("pending", "running"):
            raise Refusal(f"step {step.id} is {step.status} and cannot be split", key="step")
        names = [f"{step.id}.{number}" for number in range(1, len(op.substeps) + 1)]
        self._add(run, names, op.substeps, step.id, op.reason)
        return {"step": step.id, "substeps": list(names)}

    def append_steps(self, op: AppendSteps, seen: EngineEvidence) -> Data:  # noqa: ARG002
        _refuse_secrets(op)
        task, run = self._at_work()
        if task.state is not TaskState.FINAL_REVIEW:
            raise Refusal(
                f"steps are appended in FINAL_REVIEW, when none is left; the task is {task.state}",
                hint="make a follow-up task",
            )
        first = sum("." not in name for name in run.steps) + 1
        names = [str(number) for number in range(first, first + len(op.steps))]
        self._add(run, names, op.steps, None, op.reason)
        return {"steps": list(names)}

    def _add(self, run: RunState, names: list[str], steps: Sequence[NewStep], parent: str | None, reason: str) -> None:
        self.pending.append(
            events.StepsAdded(
                run_id=run.id,
                steps=names,
                titles=_titles(names, steps),
                details=_details(names, steps),
                parent=parent,
                reason=reason,
            )
        )

    # Evidence -----------------------------------------------------------------------------------------------------

    def _prove(self, run: RunState, step: StepState, seen: EngineEvidence) -> list[events.Json]:
        """By the step's own checks, run here and now; a step without any by what this request ran, all of it well."""
        if self.proven and self.proven.tree == seen.tree and self.proven.checks:
            return self.proven.checks
        wanted = run.details.get(step.id, {}).get("checks")
        if isinstance(wanted, list) and wanted:
            return [self._check(number, command) for number, command in enumerate(wanted, 1)]
        ran = [one for one in seen.commands if one.exitCode == 0]
        if not ran or len(ran) != len(seen.commands):
            raise Refusal(
                f"nothing the engine ran shows that step {step.id} is done; words are no evidence",
                hint="put a `run` op that shows it before this one, in the same request; or give the step checks",
            )
        return [proof("exit", one.cmd) for one in ran]

    def _check(self, number: int, command: object) -> events.Json:
        assert self.box  # noqa: S101 - requests are carried out in one
        words = command if isinstance(command, str) else tuple(str(word) for word in command)  # type: ignore[attr-defined]
        verdict = self.policy.judge(words) if self.policy else None
        if verdict and not verdict.allowed:
            raise Refusal(f"check {number} of the step may not run: {verdict.reason} ({verdict.rule})")
        log = self.folders.scratch / f"check-{clock.run_id(clock.now())}.log"
        try:
            done = self.box.run(SandboxCommand(words, self.box.workspace.resolve("."), log, _CHECK_TIMEOUT_S))
            seen = evidence.digest_of(log)
            printed = log.read_bytes()[-_SHOWN:].decode("utf-8", "replace")
        finally:
            log.unlink(missing_ok=True)
        if done.exit_code or done.timed_out:
            why = f"ran past {_CHECK_TIMEOUT_S} s" if done.timed_out else f"exited {done.exit_code}"
            said = words if isinstance(words, str) else shlex.join(words)
            raise Refusal(
                f"check {number} of the step does not hold: {said[:_SHOWN]}: it {why}",
                hint=f"it printed: {printed.strip()}" if printed.strip() else "it printed nothing",
            )
        return proof("check", words, output_sha256=seen, duration_ms=done.duration_ms)

    def _ended(
        self,
        run: RunState,
        step: StepState,
        seen: EngineEvidence,
        *,
        good: bool,
        reason: str = "",
        checks: list[events.Json] | None = None,
    ) -> events.StepFinished:
        return events.StepFinished(
            run_id=run.id,
            step_id=step.id,
            success=good,
            exit_code=0 if good else 1,
            tree=seen.tree,
            duration_ms=self.took_ms,
            error_code=None if good else "STEP_FAILED",
            reason=reason,
            changed=seen.tree != step.tree,
            checks=checks or [],
        )

    # All or nothing -----------------------------------------------------------------------------------------------

    def keep(self) -> None:
        if not self.pending:
            return
        name = self.opened or self.folders.current_task()
        assert name  # noqa: S101 - else nothing had been pending
        book = self.folders.open_journal(name)
        try:
            for event in self.pending:
                book.append(event)
        finally:
            book.close()
        if self.opened:
            self.folders.set_current_task(self.opened)
        views.refresh(book.path.parent)
        self.take_back()

    def take_back(self) -> None:
        self.pending, self.opened = [], None


def proof(kind: str, command: str | Sequence[str], **seen: object) -> events.Json:
    """What the engine saw to go well, as a check of the step."""
    shown = (command if isinstance(command, str) else shlex.join(command))[:_SHOWN]
    held: events.Json = {
        "name": shown,
        "held": True,
        "reason": "exited 0",
        "exit_code": 0,
        "duration_ms": 0,
        "log": None,
    }
    return {**held, "kind": kind, "command": shown, **seen}


def _titles(names: Sequence[str], steps: Sequence[NewStep]) -> dict[str, str]:
    return {name: step.title for name, step in zip(names, steps, strict=True)}


def _refuse_secrets(op: PlanInit | AppendSteps | ApplySplit) -> None:
    """Refuse a plan that holds what may be a secret: the journal keeps it, and its checks run from there."""
    for finding in secrets.current().scan(op.model_dump_json().encode()):
        raise Refusal(
            f"the plan holds what may be a secret ({finding.rule}, fingerprint {finding.fingerprint})",
            hint="let commands read it from a variable that [run] env_allow names",
        )


def _details(names: Sequence[str], steps: Sequence[NewStep]) -> dict[str, events.Json]:
    return {name: step.model_dump(mode="json", exclude={"title"}) for name, step in zip(names, steps, strict=True)}
