"""FileOps' six operations on the plan. Each changes the task's journal; what the engine ran finishes a step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from reflectloop.artifacts import views
from reflectloop.engine.requests.request_log import attempt_at_work
from reflectloop.engine.steps import execution
from reflectloop.engine.steps.execution import StepObserver
from reflectloop.engine.tasks.task_journal import DEEPEST_SPLIT, Base, NewTask, TaskJournal
from reflectloop.fileops.ops_context import Data, EngineEvidence, PersonNeeded, Refusal, SplitNeeded
from reflectloop.fileops.plan_ops import AppendSteps, ApplySplit, Finalize, MarkBlocked, PlanInit, Preflight
from reflectloop.plan.model import Plan, Step, command_text
from reflectloop.policy import CommandPolicy
from reflectloop.sandbox.sandbox import Box
from reflectloop.state import events
from reflectloop.state.fold import RunState, StepState, Task
from reflectloop.system import files
from reflectloop.verification import checks, evidence
from reflectloop.verification.checks import CheckResult
from reflectloop.workspace.folders import Folders

_SHOWN = 300  # characters of a command or an output
# What the protocol lets a caller ask to be looked at after a step was finalized.
_KNOWN_VERIFICATIONS = frozenset(("", "verify_pointer_moved"))
_SILENT = StepObserver(lambda _step, _text: None, lambda _step, _data: None)


@dataclass
class TaskOps:
    """The six operations on the current task. What a request changes is kept when all of it succeeded."""

    folders: Folders
    base: Base
    box: Box
    policy: CommandPolicy  # which checks may run
    ran_before: Callable[[str, str], list[str]]  # commands of earlier requests, by attempt and tree
    journal: TaskJournal = field(init=False)

    def __post_init__(self) -> None:
        self.journal = TaskJournal(self.folders)

    def plan_init(self, op: PlanInit, seen: EngineEvidence) -> Data:
        if op.plan is not None:
            raise Refusal("a plan file is run by `reflectloop run`; give its steps here", key="plan")
        if not op.steps:
            raise Refusal("a plan has steps", key="steps")
        plan = op.as_plan()
        details = {
            step.id: draft.model_dump(mode="json", exclude={"title"})
            for step, draft in zip(plan.steps, op.steps, strict=True)
        }
        objective: events.Json = {
            "objective": op.objective.model_dump(mode="json"),
            "context": op.context.model_dump(mode="json"),
            "constraints": list(op.constraints),
            "finalDone": list(op.finalDone),
            **({"contract": op.contract.model_dump(mode="json")} if op.contract else {}),
        }
        opened = self.journal.open_task(NewTask(plan, objective, details), self.base)
        return {"task": opened, "steps": [step.id for step in plan.steps], "tree": seen.tree}

    def preflight(self, op: Preflight, seen: EngineEvidence) -> Data:
        task, run = self.journal.current()
        step = self.journal.next_step(op.step)
        if seen.reads_only:
            return self._step_data(run, step, step.attempts)
        self._refuse_used_up(task, step)
        self.journal.begin_step(seen.begun, expected=op.step, end_tree=seen.tree, reason=op.reason)
        return self._step_data(run, step, step.attempts + 1)

    def _refuse_used_up(self, task: Task, step: StepState) -> None:
        """Ask a person about a blocked step; ask for a split of a step that had all its attempts."""
        if step.status == "blocked":
            answer = f"reflectloop answer {step.id} TEXT"
            raise PersonNeeded(step.reason or "the step is blocked", step=step.id, unblock=step.unblock, answer=answer)
        attempts = self.journal.plan().limits.step_attempts
        if step.attempts - step.forgiven >= attempts and step.id.count(".") < DEEPEST_SPLIT:
            raise SplitNeeded(
                f"step {step.id} had its {attempts} attempts",
                step=step.id,
                fewest=3,
                most=7,
                how="send triflow_state_apply_split, or triflow_state_mark_blocked",
                task=task.id,
            )

    def _step_data(self, run: RunState, step: StepState, attempt: int) -> Data:
        return {
            "step": step.id,
            "title": run.titles.get(step.id, ""),
            "attempt": attempt,
            "details": run.details.get(step.id, {}),  # type: ignore[dict-item]
            "answer": step.answer,
            "left": len(run.unfinished_steps),
        }

    def finalize(self, op: Finalize, seen: EngineEvidence) -> Data:
        step = self.journal.next_step(op.step)
        if step.status != "running":
            raise Refusal(f"step {step.id} was not begun", hint="send triflow_state_preflight first")
        if (op.verification or "") not in _KNOWN_VERIFICATIONS:
            raise Refusal(f"{op.verification!r} is no verification the engine knows", key="verification")
        proofs = self._prove(step.id, seen)
        after = self.journal.finish_step(seen.tree, proofs)
        left = after.last_run.unfinished_steps if after.last_run else []
        shown: list[JsonValue] = [str(proof["command"]) for proof in proofs]
        return {"step": step.id, "evidence": shown, "next": left[0].id if left else None, "state": str(after.state)}

    def mark_blocked(self, op: MarkBlocked, seen: EngineEvidence) -> Data:  # noqa: ARG002
        step = self.journal.block_step(op.reason, op.unblock, expected=op.step)
        return {"step": step, "state": str(self.journal.task().state)}

    def apply_split(self, op: ApplySplit, seen: EngineEvidence) -> Data:  # noqa: ARG002
        step = self.journal.next_step(op.step)
        return {"step": step.id, "substeps": list(self.journal.split_step(op.substeps, op.reason, expected=op.step))}

    def append_steps(self, op: AppendSteps, seen: EngineEvidence) -> Data:  # noqa: ARG002
        return {"steps": list(self.journal.append_steps(op.steps, op.reason))}

    def state_file(self, name: str) -> bytes | None:
        task = self.journal.task()
        return views.triflow_files(task, views.plan_of(self.folders, task))[name] if task.id else None

    def keep(self) -> None:
        self.journal.commit()

    def take_back(self) -> None:
        self.journal.roll_back()

    # Evidence -----------------------------------------------------------------------------------------------------

    def _prove(self, step_id: str, seen: EngineEvidence) -> list[events.Json]:
        """Run the step's checks; a step without any is proven by the commands of this request, if all succeeded."""
        plan = self.journal.plan()
        step = next(step for step in plan.steps if step.id == step_id)
        if plan.checks_of(step):
            return self._check(plan, step)
        succeeded = [command for command in seen.commands if command.exitCode == 0]
        earlier = [] if seen.commands else self.ran_before(attempt_at_work(self.journal.task()), seen.tree)
        if earlier:
            return [proof_of_command(command) for command in earlier]
        if not succeeded or len(succeeded) != len(seen.commands):
            raise Refusal(
                f"nothing the engine ran shows that step {step_id} is done; words are no evidence",
                hint="run what shows it, in this request or in one before it that left the same files; "
                "or give the step checks",
            )
        return [proof_of_command(command.cmd) for command in succeeded]

    def _check(self, plan: Plan, step: Step) -> list[events.Json]:
        for wanted in plan.checks_of(step):
            verdict = self.policy.judge(wanted.check.run) if wanted.check.run is not None else None
            if verdict and not verdict.allowed:
                raise Refusal(f"check {wanted.name} of the step may not run: {verdict.reason} ({verdict.rule})")
        with tempfile.TemporaryDirectory(dir=self.folders.scratch, prefix="checks-") as folder:
            checked = execution.run_checks(plan, step, self.box, Path(folder), _SILENT)
            if checked.failure:
                printed = files.last_lines(checked.failure.log) if checked.failure.log else ""
                command = f": {checked.failure.command[:_SHOWN]}" if checked.failure.command else ""
                raise Refusal(
                    f"the step does not pass {checked.failure.reason}{command}",
                    hint=f"it printed: {printed[-_SHOWN:].strip()}" if printed.strip() else "it printed nothing",
                )
            return proofs_of(plan, step, checked.results)


def proofs_of(plan: Plan, step: Step, results: Sequence[CheckResult]) -> list[events.Json]:
    """Return the passed checks of a step as its journal stores them."""
    described = {wanted.name: wanted.check.description for wanted in plan.checks_of(step)}
    return [
        {
            "name": result.name,
            "held": result.held,
            "reason": _reason(result),
            "exit_code": result.exit_code,
            "duration_ms": result.duration_ms,
            "log": None,
            "kind": "check",
            "command": described[result.name][:_SHOWN],
            **({"output_sha256": evidence.digest_of(result.log)} if result.log else {}),
        }
        for result in results
    ]


def _reason(result: CheckResult) -> str:
    if result.reason == checks.AS_EXPECTED and result.exit_code is not None:
        return f"exited {result.exit_code}"
    return result.reason


def proof_of_command(command: str | Sequence[str]) -> events.Json:
    """Return a command that exited 0 as the journal stores what proves a step."""
    shown = command_text(command)[:_SHOWN]
    return {
        "name": shown,
        "held": True,
        "reason": "exited 0",
        "exit_code": 0,
        "duration_ms": 0,
        "log": None,
        "kind": "exit",
        "command": shown,
    }
