"""`reflect` with agents: the critic analyses, the researcher finds out what is not known, the executor repairs."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from reflectloop import config, secrets
from reflectloop.agents.answer_models import ResearchAnswer, StepClaim
from reflectloop.engine.agent_tasks.task_session import TaskSession, Tell, open_task_session
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.engine.steps import agent_fileops, code_context, prompts
from reflectloop.engine.steps.agent_pool import AgentCall
from reflectloop.errors import AgentFailed, AgentUnavailable, InvalidInput, Latched, NothingToDo
from reflectloop.fileops import safe_files
from reflectloop.reflection import critic_command, reflect_command, reflection_prompt
from reflectloop.reflection.reflect_command import ReflectionOutcome, ReflectionRequest, TicketAgents
from reflectloop.reflection.reflection_report import Reflection
from reflectloop.reflection.ticket import CriticVerdict, Ticket
from reflectloop.reflection.ticket_store import OpenTicket
from reflectloop.state import events
from reflectloop.system import files
from reflectloop.terms import Role
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import open_project_dirs
from reflectloop.workspace.record_tree import Unrecordable

_ROLES = (Role.CRITIC, Role.RESEARCHER, Role.EXECUTOR)
_LONGEST = 1_000  # characters of a researcher's answer that are kept
_LARGEST = 100_000  # characters of an output that a prompt quotes


def reflect(target: FileopsTarget, request: ReflectionRequest, tell: Tell) -> ReflectionOutcome:
    """Reflect on a ticket with the agents that are bound; by rules alone if there are none."""
    folders = open_project_dirs(target.start)
    settings = config.load(folders.root)
    if not any(settings.roles.bound_to(role) for role in _ROLES):
        return reflect_command.reflect(request)
    if request.revised and request.fixes:
        raise InvalidInput("a revised output needs no fix", next_step="give --revised or --fix, not both")
    secrets.use_detector(secrets.detector_for(settings.secrets, folders.root))
    secret_guard.refuse_secret_text(request.answer or "", "the answer")
    with contextlib.ExitStack() as stack:
        try:
            session = stack.enter_context(open_task_session(target, tell, "reflect"))
        except (Latched, NothingToDo) as fault:
            tell(f"no agent was asked: {fault.message}")
        else:
            return reflect_command.reflect_locked(
                folders, settings, request, lambda opened: _TicketAgents(session, opened).agents()
            )
    return reflect_command.reflect(request)


class _TicketAgents:
    """The agents of one ticket. If one fails, the user is told, and rules do its part."""

    def __init__(self, session: TaskSession, opened: OpenTicket) -> None:
        self.session, self.opened = session, opened
        self.folder = opened.place.reflections / f"{opened.ticket.ticket_id}.agents"
        self.round = 0
        self.calls: list[events.Event] = []
        if opened.place.folder == session.folders.own:  # the ticket belongs to no task, so no journal can have them
            session.pool.note = self._note
        self.answer: str | None = None  # of the researcher

    def _note(self, event: events.Event) -> None:
        self.calls.append(event)
        rows = [{"kind": call.kind, **call.payload()} for call in self.calls]
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write_atomic(self.folder / "asked.json", json.dumps(rows, indent=2, ensure_ascii=False) + "\n")

    def agents(self) -> TicketAgents:
        roles = {role: self.session.pool.has(role) for role in _ROLES}
        return TicketAgents(
            self._analyse if roles[Role.CRITIC] else None,
            self._revise if roles[Role.EXECUTOR] and self._is_output() else None,
            self._research if roles[Role.RESEARCHER] else None,
        )

    def _is_output(self) -> bool:
        """Return True if the ticket is about a file of the project, which an executor can repair."""
        name, root = self.opened.ticket.target, self.session.folders.root
        plain = bool(name) and not Path(name or "").is_absolute() and ".." not in Path(name or "").parts
        return plain and (root / str(name)).is_file() and self.opened.ticket.verdict == CriticVerdict.REVISE

    def _asked(self, role: Role, prompt: str, shape: type, label: str = "", **more: object) -> object:
        """Return an agent's answer; None if there is none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        call = AgentCall(role, prompt, shape, self.folder, "", max(self.round, 1), label=label)
        try:
            return self.session.pool.need(call._replace(**more)).data  # type: ignore[arg-type]
        except (AgentFailed, AgentUnavailable) as fault:
            self.session.tell(fault.message)
            return None

    # The critic -----------------------------------------------------------------------------------------------

    def _analyse(self, facts: Reflection) -> object:
        report = facts.model_dump(mode="json")
        code = code_context.quoted(self.session.folders.root, self._query())
        prompt = prompts.reflect(json.dumps(report, indent=2, ensure_ascii=False), code)
        return self._asked(Role.CRITIC, prompt, Reflection, "reflection") or report

    def _query(self) -> str:
        issues = " ".join(issue.description for issue in self.opened.ticket.issues)
        return f"{self.opened.ticket.target or ''} {self.opened.context.problem} {issues}"

    # The researcher -------------------------------------------------------------------------------------------

    def _research(self, question: str) -> str | None:
        if self.answer is None:
            issues = [issue.description for issue in self.opened.ticket.issues]
            prompt = prompts.research_ticket(question, self.opened.context.problem, issues)
            data = self._asked(Role.RESEARCHER, prompt, ResearchAnswer)
            if data is not None:
                answer = ResearchAnswer.model_validate(data)
                sources = f" ({'; '.join(answer.sources)})" if answer.sources else ""
                text = prompts.one_line(answer.answer + sources, _LONGEST)
                self.answer = secrets.current_detector().redact(text)
        return self.answer

    # The executor ---------------------------------------------------------------------------------------------

    def _revise(self, ticket: Ticket, before: bytes | None) -> bytes | None:
        """Let the executor repair the output in a copy of the project; return what it left there."""
        name = str(ticket.target)
        self.round += 1
        if self.opened.context.did_not_know and self.session.pool.has(Role.RESEARCHER):
            self._research("which knowledge was missing here?")
        space = self.session.workspace
        start = space.record().tree
        try:
            if before is not None:
                self._put(name, before)  # a version that was revised before may not be the project's
            act = agent_fileops.by(self.session.files.ops, writable=True)
            claim = self._asked(Role.EXECUTOR, self._prompt(ticket, name, before), StepClaim, "repair", act=act)
            return self._left(name) if claim is not None else None
        except (safe_files.AccessBarred, Unrecordable) as fault:
            self.session.tell(f"{name} was not repaired: {fault}")
            return None
        finally:
            space.reset_to(start)

    def _prompt(self, ticket: Ticket, name: str, before: bytes | None) -> str:
        required = reflection_prompt.reflection_required(ticket, name)
        text = (before or b"").decode("utf-8", "replace")[:_LARGEST]
        return prompts.repair_output(required, name, text, self._requirements(), self.answer or "")

    def _requirements(self) -> str:
        path = self.opened.context.requirements
        try:
            return Path(path).read_text(encoding="utf-8")[:_LARGEST] if path else ""
        except (OSError, UnicodeDecodeError):
            return ""

    def _put(self, name: str, content: bytes) -> None:
        space = self.session.workspace
        with safe_files.open_folder(space.repo, space.identity[2:]) as inside:
            inside.write(name, content)

    def _left(self, name: str) -> bytes | None:
        """Return what the executor left as the output; None if it is too large."""
        space = self.session.workspace
        space.record()  # raises SecretLeak if a secret was written
        with safe_files.open_folder(space.repo, space.identity[2:]) as inside:
            content = inside.read(name, critic_command.LARGEST + 1)
        return content if len(content) <= critic_command.LARGEST else None
