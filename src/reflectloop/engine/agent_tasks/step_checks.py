"""What a step must show: its checks, run here by the engine, and what a failed one means."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from reflectloop.diagnosis import diagnosis
from reflectloop.diagnosis.diagnosis import FailedCommand
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.agent_tasks.task_session import TaskSession, listed, words
from reflectloop.engine.failures import diagnose
from reflectloop.engine.requests.plan_ops import proof
from reflectloop.plan.model import Command
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.state import events
from reflectloop.state.fold import RunState, StepState
from reflectloop.verification import evidence, reports
from reflectloop.workspace.record_tree import Unrecordable

_TIMEOUT_S = 600
_LOOKED_AT = 1 << 18  # bytes of a log
_SHOWN = 4_000


class StepProof(NamedTuple):
    """Checks that held, and the first that did not."""

    held: list[events.Json]
    failed: str = ""  # which, and how it ended
    output: str = ""
    failure: FailureRecord | None = None

    @property
    def ok(self) -> bool:
        return not self.failed

    def lines(self) -> list[str]:
        """For a reviewer: what was run, and how it ended."""
        return [f"{one['command']}: exited 0" for one in self.held] + ([self.failed] if self.failed else [])


def checks_of(desk: TaskSession, run: RunState, step: StepState) -> list[Command]:
    """The step's own; where it has none, the project's tests as they are found in it."""
    own = [one if isinstance(one, str) else tuple(one) for one in listed(run.details.get(step.id, {}).get("checks"))]
    if own or listed(run.details.get(step.id, {}).get("commands")):
        return own
    from reflectloop.engine.gating.verify_command import detected  # noqa: PLC0415 - knows many ecosystems

    return [one.command for one in detected(desk.folders.root, desk.crew.caller) if one.kind == "test"]


def prove(desk: TaskSession, commands: list[Command], folder: Path, step: str, attempt: int) -> StepProof:
    held: list[events.Json] = []
    for number, command in enumerate(commands, 1):
        log = folder / f"check-{number}.log"
        verdict = desk.hands.policy.judge(command)
        if not verdict.allowed:
            return StepProof(held, f"{words(command)}: may not run: {verdict.reason} ({verdict.rule})")
        one = _run(desk.hands.box, command, log)
        if one:
            output = _tail(log)
            return StepProof(
                held, f"{words(command)}: {one}", output, _diagnosed(desk, command, log, one, step, attempt)
            )
        held.append(proof("check", command, output_sha256=evidence.digest_of(log)))
    return StepProof(held)


def asked_for(desk: TaskSession, tests: tuple[str, ...], folder: Path, label: str) -> list[str]:
    """Tests that a reviewer asks for: those the policy lets run, in the workspace, whose files stay as they are."""
    rules = desk.hands.policy
    before, out = desk.space.record().tree, []
    for number, test in enumerate(tests, 1):
        verdict = rules.judge(test)
        if not verdict.allowed:
            desk.tell(f"a test that the review asks for is not run: {verdict.reason} ({verdict.rule})")
            continue
        log = folder / f"extra-{label}-{number}.log"
        one = _run(desk.hands.box, test, log)
        if one:
            out.append(f"{test}: {one}\n{_tail(log)}")
    if _left_something(desk, before):
        desk.space.reset_to(before)
    return out


def _left_something(desk: TaskSession, before: str) -> bool:
    try:
        return desk.space.record().tree != before
    except Unrecordable:
        return True


def _run(box: Box, command: Command, log: Path) -> str:
    """Empty where it exited 0."""
    done = box.run(SandboxCommand(command, box.workspace.resolve("."), log, _TIMEOUT_S))
    if done.timed_out:
        return f"ran past {_TIMEOUT_S} s"
    if done.idle:
        return "waits for input"
    return f"exited {done.exit_code}" if done.exit_code else ""


def _tail(log: Path) -> str:
    return log.read_bytes()[-_SHOWN:].decode("utf-8", "replace")


def _diagnosed(
    desk: TaskSession, command: Command, log: Path, how: str, step: str, attempt: int
) -> FailureRecord | None:
    printed = log.read_bytes()[-_LOOKED_AT:]
    text = printed.decode("utf-8", "replace")
    result = reports.judge(reports.read(printed), exit_code=1, log=text, timed_out="past" in how)
    about = FailedCommand(
        "VERIFICATION_FAILED", attempt=attempt, step=step, command=words(command), tree=desk.space.tree
    )
    rules = diagnose.rules_of(desk.crew.settings.reflect, desk.folders.root)
    return diagnosis.diagnose(printed or how.encode(), result, rules=rules, about=about)
