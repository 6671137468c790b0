"""Questions that only a person may answer, put by the client to its user.

An agent must not answer for its user. So the question goes out as an elicitation, which a client shows to a person; a
client that cannot ask gets a refusal. An approval needs more: agents' programs have hooks that answer elicitations, and
over HTTP nobody knows who answers. There a person types the command on a terminal.
"""

from __future__ import annotations

import os

from mcp_types import ClientCapabilities
from pydantic import BaseModel, Field

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


def blocked_step(reader: ProjectReader, name: str) -> StepState:
    """Return the blocked step of the current run with this id."""
    with reader.open() as folders:
        run = folders.peek_current().last_run if folders.current_task() else None
    step = run.steps.get(name) if run else None
    if step is None or step.status != "blocked":
        raise NothingToDo(f"no step {name!r} of the current task waits for an answer", next_step="reflectloop status")
    return step


def step_question(step: StepState) -> str:
    return f"Step {step.id} is blocked: {step.reason}\n{step.unblock}".strip()[:_LONGEST]
