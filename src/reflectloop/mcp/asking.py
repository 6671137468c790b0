"""Questions that only a person may answer, put by the client to its user.

An agent must not answer for its user. So the question goes out as an elicitation, which a client shows to a person; a
client that cannot ask gets a refusal. An approval needs more: agents' programs have hooks that answer elicitations, and
over HTTP nobody knows who answers. There a person types the command on a terminal.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mcp_types import ClientCapabilities
from pydantic import BaseModel, Field

from reflectloop.commands import approve as approving
from reflectloop.commands import task_control
from reflectloop.commands.approve import ApprovalQuestion, ApproveResult, PendingReview
from reflectloop.commands.task_control import ControlResult
from reflectloop.engine.run.request import NullObserver, RunObserver
from reflectloop.errors import NeedsInput, NothingToDo
from reflectloop.mcp.reading import ProjectReader
from reflectloop.state.fold import StepState
from reflectloop.trust import person

_LONGEST = 6000  # characters of a question


class ApprovalForm(BaseModel):
    """The form by which a person approves findings."""

    approve: bool = Field(description="Approve these findings on this change?")
    reason: str = Field(description="Why; it is written to the journal and the receipt.", max_length=1000)


class AnswerForm(BaseModel):
    """The form by which a person answers a blocked step."""

    answer: str = Field(description="Your answer; the step goes on with it.", max_length=4000)


class AskedReview(NamedTuple):
    """A change that waits for a person, and which findings they are asked about."""

    run_id: str
    findings: tuple[str, ...]
    text: str


def refuse_without_person(capabilities: ClientCapabilities | None, command: str) -> None:
    """Raise NeedsInput if the client cannot show a form to its user."""
    elicitation = capabilities.elicitation if capabilities else None
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        raise NeedsInput(
            "this is for a person, and this client cannot ask its user", next_step=f"on a terminal: {command}"
        )


def refuse_unknown_person(command: str, *, local: bool) -> None:
    """Raise NeedsInput where an agent could answer for its user, or nobody can tell who answers."""
    if not local:
        raise NeedsInput(
            "an approval cannot come over HTTP, where nobody can tell who answers",
            next_step=f"on a terminal: {command}",
        )
    try:
        person.refuse_programs("approving", os.environ, hooks=True)
    except NeedsInput as fault:
        raise NeedsInput(fault.message, next_step=f"on a terminal of your own: {command}") from fault


def review(reader: ProjectReader, run: str, wanted: Sequence[str]) -> AskedReview:
    """Return the findings that wait for a person, as a question; raise if there is nothing to approve."""
    with reader.open():
        pending = approving.pending(reader.root, run)
        findings = approving.chosen(pending, wanted)
    return AskedReview(pending.run_id, tuple(item.finding for item in findings), _question(pending, findings))


def _question(pending: PendingReview, findings: Sequence[approving.OpenFinding]) -> str:
    lines = [f"{pending.run_id} waits for your approval of:"]
    for item in findings:
        lines += [f"- {item.finding} {item.text}", *(f"    {line}" for line in item.details)]
    text = "\n".join(lines)
    if len(text) > _LONGEST:  # nobody may agree to what they were not shown
        raise NeedsInput(
            f"the findings of {pending.run_id} are too long for a form",
            next_step=f"on a terminal: reflectloop approve {pending.run_id} --reason TEXT",
        )
    return text


def record_approval(reader: ProjectReader, asked: AskedReview, reason: str) -> ApproveResult:
    """Record the person's yes to exactly what they were asked, and judge what remains."""

    def agree(question: ApprovalQuestion) -> bool:
        return tuple(item.finding for item in question.findings) == asked.findings

    with reader.open():
        result = approving.approve(reader.root, asked.run_id, asked.findings, reason, agree, _unobserved)
    if result is None:
        raise NeedsInput("the findings changed while the question was open", next_step="call approve again")
    return result


@contextlib.contextmanager
def _unobserved() -> Iterator[RunObserver]:
    yield NullObserver()


def blocked_step(reader: ProjectReader, name: str) -> StepState:
    """Return the blocked step of the current run with this id."""
    with reader.open() as folders:
        run = folders.peek_current().last_run if folders.current_task() else None
    step = run.steps.get(name) if run else None
    if step is None or step.status != "blocked":
        raise NothingToDo(f"no step {name!r} of the current task waits for an answer", next_step="reflectloop status")
    return step


def record_answer(reader: ProjectReader, step: str, text: str) -> ControlResult:
    """Give a blocked step the person's answer."""
    with reader.open():
        return task_control.answer(reader.root, step, text)


def step_question(step: StepState) -> str:
    return f"Step {step.id} is blocked: {step.reason}\n{step.unblock}".strip()[:_LONGEST]
