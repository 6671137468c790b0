"""The server: tools, questions, resources and prompts of one project."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resolve import ElicitationResult
from mcp_types import CallToolResult, ClientCapabilities, ToolAnnotations
from pydantic import BaseModel, Field

import reflectloop
from reflectloop.errors import NeedsInput, NothingToDo, ReflectloopError
from reflectloop.mcp import prompts
from reflectloop.mcp.reading import ProjectReader
from reflectloop.mcp.replies import AnswerReply, ToolReply
from reflectloop.mcp.results import CodedServer, guarded
from reflectloop.mcp.tools import ToolSet
from reflectloop.state.fold import StepState
from reflectloop.trust import person

_INSTRUCTIONS = (
    "reflectloop lets only proven work through. Call `context` first. Before you say that a change is done, call "
    "`verify`: REFUSED names what to repair; REVIEW needs a person, so tell the user and do not work around it. Long "
    "work returns a handle: call `status` with it until the state is not running."
)
_ASKS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)
Form = TypeVar("Form", bound=BaseModel)
_AnswerResult = Annotated[CallToolResult, AnswerReply]


def make_server(start: Path, *, local: bool = True) -> CodedServer:
    """Return the server of the project around a folder; `local` if the client is the process that started it."""
    reader = ProjectReader(start)
    server = CodedServer(
        "reflectloop", version=reflectloop.__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    ToolSet(reader).register(server)
    _add_answer(server, reader)
    _add_approve(server, reader, local=local)
    _add_resources(server, reader)
    _add_briefs(server, reader)
    prompts.register(server, lambda: reader.brief_text(None))
    return server


def _add_answer(server: MCPServer[Any], reader: ProjectReader) -> None:
    """Add the tool that asks the user what a blocked step wants to know."""

    async def ask_answer(ctx: Context[Any, Any], step: str) -> Elicit[AnswerForm] | ReflectloopError:
        try:
            refuse_without_person(ctx.client_capabilities, f"reflectloop answer {step[:80]} TEXT")
            blocked = await to_thread.run_sync(blocked_step, reader, step)
        except ReflectloopError as error:
            return error
        return Elicit(step_question(blocked), AnswerForm)

    async def answer(
        step: Annotated[str, Field(max_length=200, description="The blocked step of the current task.")],
        person: Annotated[ElicitationResult[AnswerForm], Resolve(ask_answer)],
    ) -> _AnswerResult:
        """Ask the user the question of a blocked step, and give the step their answer."""

        def record() -> ToolReply:
            from reflectloop.mcp import person_answers  # noqa: PLC0415 - it loads the engine; most clients never ask

            done = person_answers.record_answer(reader, step, _accepted(person, AnswerForm).answer)
            return AnswerReply(done=True, run_id=done.run_id, next=done.next_step)

        return await guarded(AnswerReply, lambda: to_thread.run_sync(record))

    server.add_tool(answer, annotations=_ASKS)


def _add_approve(server: MCPServer[Any], reader: ProjectReader, *, local: bool) -> None:
    """Add the tool that asks the user to approve findings."""

    async def ask_approval(
        ctx: Context[Any, Any], run: str, findings: list[str]
    ) -> Elicit[ApprovalForm] | ReflectloopError:
        from reflectloop.mcp import person_answers  # noqa: PLC0415 - it loads the engine; most clients never ask

        command = f"reflectloop approve {run[:80]} --reason TEXT"
        try:
            refuse_without_person(ctx.client_capabilities, command)
            refuse_unknown_person(command, local=local)
            asked = await to_thread.run_sync(person_answers.review, reader, run, findings)
        except ReflectloopError as error:
            return error
        return Elicit(asked.text, ApprovalForm)

    async def approve(
        run: Annotated[str, Field(max_length=200, description="A run or verification whose outcome is REVIEW.")],
        person: Annotated[ElicitationResult[ApprovalForm], Resolve(ask_approval)],
        findings: Annotated[list[str], Field(max_length=100, description="Ids of findings; default: all.")] = [],  # noqa: B006
    ) -> _AnswerResult:
        """Ask the user to approve findings on a change. Only a person can say yes; you cannot answer for them."""

        def record() -> ToolReply:
            from reflectloop.mcp import person_answers  # noqa: PLC0415 - it loads the engine; most clients never ask

            form = _accepted(person, ApprovalForm)
            if not form.approve:
                raise NeedsInput("the user did not approve", next_step="take the edits back, or ask the user why")
            asked = person_answers.review(reader, run, findings)
            done = person_answers.record_approval(reader, asked, form.reason)
            return AnswerReply(
                done=True,
                run_id=done.run_id,
                outcome=done.outcome,
                remaining=list(done.remaining),
                next=done.next_step,
            )

        return await guarded(AnswerReply, lambda: to_thread.run_sync(record))

    server.add_tool(approve, annotations=_ASKS)


def _accepted(outcome: object, form: type[Form]) -> Form:
    """Return the filled form; raise if nobody could be asked, or the user did not answer."""
    data = getattr(outcome, "data", None)
    if isinstance(data, ReflectloopError):
        raise data
    if not isinstance(data, form):
        raise NeedsInput("the user did not answer", next_step="ask the user, then call it again")
    return data


def _add_resources(server: MCPServer[Any], reader: ProjectReader) -> None:
    def add(uri: str, read: Callable[..., str], about: str, kind: str) -> None:
        server.resource(uri, name=uri.removeprefix("reflectloop://"), description=about, mime_type=kind)(read)

    def state() -> str:
        return _read(reader.state_text)

    def todo() -> str:
        return _read(reader.todo_text)

    def blocker() -> str:
        return _read(lambda: reader.blocker_text(None))

    def evidence() -> str:
        return _read(lambda: reader.evidence_text(None))

    def lessons() -> str:
        return _read(reader.lessons_text)

    def blocker_of(run: str) -> str:
        return _read(lambda: reader.blocker_text(run))

    def evidence_of(run: str) -> str:
        return _read(lambda: reader.evidence_text(run))

    def lesson(name: str) -> str:
        return _read(lambda: reader.lesson_text(name))

    json, markdown, yaml = "application/json", "text/markdown", "application/yaml"
    add("reflectloop://state", state, "Every task, run and verification, and the next command.", json)
    add("reflectloop://todo", todo, "The steps of the current task.", markdown)
    add("reflectloop://blocker", blocker, "Why the last run stopped.", yaml)
    add("reflectloop://evidence", evidence, "The signed receipt of the latest verification or run.", json)
    add("reflectloop://lessons", lessons, "The lessons from earlier work.", json)
    add("reflectloop://blocker/{run}", blocker_of, "Why a run stopped.", yaml)
    add("reflectloop://evidence/{run}", evidence_of, "The signed receipt of a verification or run.", json)
    add("reflectloop://lessons/{name}", lesson, "One lesson in full.", json)


def _add_briefs(server: MCPServer[Any], reader: ProjectReader) -> None:
    @server.resource(
        "reflectloop://brief",
        name="brief",
        description="Everything that a fresh agent needs to continue the current task.",
        mime_type="text/markdown",
    )
    def brief() -> str:
        return _read(lambda: reader.brief_text(None))

    @server.resource(
        "reflectloop://brief/{task}", name="brief/{task}", description="The same for a task.", mime_type="text/markdown"
    )
    def brief_of(task: str) -> str:
        return _read(lambda: reader.brief_text(task))


def _read(read: Callable[[], str]) -> str:
    try:
        return read()
    except NothingToDo as fault:
        raise ResourceNotFoundError(f"{fault.code}: {fault.message}; next: {fault.next_step}") from fault
    except ReflectloopError as fault:
        raise ResourceError(f"{fault.code}: {fault.message}; next: {fault.next_step}") from fault


# Questions that only a person may answer ----------------------------------------------------------------------------
# An agent must not answer for its user. So the question goes out as an elicitation, which a client shows to a person; a
# client that cannot ask gets a refusal. An approval needs more: agents' programs have hooks that answer elicitations,
# and over HTTP nobody knows who answers. There a person types the command on a terminal.

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
