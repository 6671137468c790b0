"""`reflect`: walk the six steps of reflection on a ticket or a failed run, with a repair if one is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config, secrets
from reflectloop.diagnosis import signature
from reflectloop.errors import GateRejected, InvalidInput, MaxRetries, NothingToDo, ReflectloopError, VerificationFailed
from reflectloop.reflection import (
    blocker_card,
    critic_command,
    outside_files,
    reflection,
    reflection_prompt,
    remediation,
    ticket_store,
)
from reflectloop.reflection.critic import CriticReport
from reflectloop.reflection.critic_command import Judge
from reflectloop.reflection.outside_files import KeptReport
from reflectloop.reflection.reflection import (
    MOST_ROUNDS,
    ReflectionIO,
    ReflectionRound,
    ReflectionRounds,
    Repair,
    RepairOutcome,
    RepairPlan,
    RepairResult,
)
from reflectloop.reflection.reflection_report import Reflection
from reflectloop.reflection.reflection_text import TicketFacts, expected
from reflectloop.reflection.remediation import MeasureResult
from reflectloop.reflection.remediation_table import TicketRemediation, handle
from reflectloop.reflection.ticket import CriticVerdict, Ticket
from reflectloop.reflection.ticket_files import TicketFiles
from reflectloop.reflection.ticket_store import TICKET_ID, OpenTicket
from reflectloop.state import lock
from reflectloop.system import clock
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import Folders, open_project_dirs


class TicketAgents(NamedTuple):
    """The parts of agents in a reflection; each is None if nobody is bound to the role."""

    analyse: Callable[[Reflection], object] | None = None  # the critic: a better analysis
    revise: Callable[[Ticket, bytes | None], bytes | None] | None = None  # the executor: the output, repaired
    research: Callable[[str], str | None] | None = None  # the researcher: an answer to what is not known


@dataclass(frozen=True)
class ReflectionRequest:
    """A request to reflect. `repair` is a program or an agent: it gets rounds until the critic passes its output."""

    start: Path
    name: str  # of a ticket or a run
    revised: Path | None = None  # an output that somebody has repaired
    fixes: tuple[str, ...] = ()  # commands that repair it, run in the sandbox
    repair: Repair | None = None
    analyse: Callable[[Reflection], object] | None = None
    answer: str | None = None  # to the question of a ticket
    unattended: bool = False
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def repairs(self) -> bool:
        return bool(self.revised or self.fixes or self.repair)


class ReflectionOutcome(NamedTuple):
    ticket: Ticket
    rounds: tuple[ReflectionRound, ...]
    handled: TicketRemediation
    error: ReflectloopError | None
    written: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    acted: tuple[MeasureResult, ...] = ()

    def as_data(self) -> dict[str, Any]:
        measures = [{"measure": name, "about": about} for name, about in self.handled.measures]
        measures = [result._asdict() for result in self.acted] or measures
        return {
            "ticket": self.ticket.model_dump(mode="json"),
            "rounds": [_round_data(round_) for round_ in self.rounds],
            "handling": {"class": self.handled.error_class, "needs": self.handled.needs, "measures": measures},
        }


def _round_data(round_: ReflectionRound) -> dict[str, Any]:
    return {
        "round": round_.number,
        "reflection": round_.report.model_dump(mode="json"),
        "submission": round_.submission.model_dump(mode="json"),
        "evaluation": round_.evaluation.model_dump(mode="json") if round_.evaluation else None,
        "notes": list(round_.notes),
    }


def reflect(request: ReflectionRequest) -> ReflectionOutcome:
    """Reflect on the ticket or failed run that the request names."""
    folders = open_project_dirs(request.start)
    settings = config.load(folders.root)
    secrets.use_detector(secrets.detector_for(settings.secrets, folders.root))
    if request.revised and request.fixes:
        raise InvalidInput("a revised output needs no fix", next_step="give --revised or --fix, not both")
    secret_guard.refuse_secret_text(request.answer or "", "the answer")
    folders.ensure_owned()
    with lock.hold_lock(folders.own, "reflect"):
        return reflect_locked(folders, settings, request, lambda _opened: TicketAgents())


def reflect_locked(
    folders: Folders, settings: config.Config, request: ReflectionRequest, agents: Callable[[OpenTicket], TicketAgents]
) -> ReflectionOutcome:
    """Reflect with the agents that are chosen for the ticket. The caller holds the project's lock."""
    opened = _opened(folders, request.name)
    chosen = agents(opened)
    files = TicketFiles(folders, settings, opened, _judge(folders, settings, request, opened, chosen))
    return _ReflectionRun(request, files, chosen).walk()


def prompt_of(start: Path, name: str) -> str:
    """Return the prompt that asks for a reflection on a ticket; nothing is reflected on."""
    folders = open_project_dirs(start)
    settings = config.load(folders.root)
    secrets.use_detector(secrets.detector_for(settings.secrets, folders.root))
    folders.ensure_owned()
    with lock.hold_lock(folders.own, "reflect"):
        ticket = _opened(folders, name).ticket
    return reflection_prompt.reflection_required(ticket, reflection_prompt.revised_name(ticket.target))


def _opened(folders: Folders, name: str) -> OpenTicket:
    """Return the ticket that is named, that a file holds, or that is opened for a failed run."""
    if TICKET_ID.fullmatch(name):
        return ticket_store.find(folders, name)
    path = Path(name)
    if path.is_file():
        return outside_files.take_ticket(folders, path, outside_files.read(path))
    return blocker_card.ticket_of(folders, name)


def keep_report(start: Path, path: Path) -> KeptReport:
    """Check and keep a reflection report that an agent or a person wrote."""
    folders = open_project_dirs(start)
    settings = config.load(folders.root)
    secrets.use_detector(secrets.detector_for(settings.secrets, folders.root))
    folders.ensure_owned()
    with lock.hold_lock(folders.own, "reflect"):
        return outside_files.take_report(folders, settings, path, outside_files.read(path))


def on_ticket(
    folders: Folders,
    settings: config.Config,
    opened: OpenTicket,
    analyse: Callable[[Reflection], object] | None = None,
    answer: str | None = None,
) -> ReflectionOutcome:
    """Reflect on an open ticket by rules or with an agent's analysis. The caller holds the project's lock."""
    request = ReflectionRequest(folders.root, opened.ticket.ticket_id, analyse=analyse, answer=answer, unattended=True)
    return _ReflectionRun(request, TicketFiles(folders, settings, opened, None)).walk()


def _judge(
    folders: Folders, settings: config.Config, request: ReflectionRequest, opened: OpenTicket, agents: TicketAgents
) -> Judge | None:
    """Return the critic for a repaired output; None if nothing is repaired."""
    if agents.revise and opened.context.requirements is None:
        return None
    if not request.repairs and not agents.revise:
        return None
    if opened.context.requirements is None:
        raise InvalidInput(
            f"{opened.ticket.ticket_id} is about {opened.ticket.target}, not about an output",
            next_step="repair it, then: reflectloop retry --reason TEXT",
        )
    return Judge(folders, settings, Path(opened.context.requirements), request.caller)


class _ReflectionRun:
    def __init__(self, request: ReflectionRequest, files: TicketFiles, agents: TicketAgents | None = None) -> None:
        self.request, self.files, self.ticket = request, files, files.ticket
        self.agents = agents or TicketAgents()

    def walk(self) -> ReflectionOutcome:
        before = self.files.rounds()
        tried = sum(round_.tried for round_ in before)
        case = self.files.case()
        if before and not self.request.repairs:  # asking again shows the last round and changes nothing
            ended = ReflectionRounds((before[-1],), case.ticket.verdict, stopped=tried >= MOST_ROUNDS)
            return self._outcome(case, ended, act=self.request.answer is not None)
        if case.ticket.verdict == CriticVerdict.PASS:
            raise NothingToDo(f"the critic let {self.ticket.target} pass already", next_step="reflectloop status")
        if tried >= MOST_ROUNDS:
            raise self._spent()
        most = MOST_ROUNDS if self.request.repair or self.agents.revise else 1
        ended = reflection.walk(case, self._io(), done=len(before), tried=tried, most=most)
        return self._outcome(case, ended, act=True)

    def _outcome(self, case: TicketFacts, ended: ReflectionRounds, *, act: bool) -> ReflectionOutcome:
        handled = self._handled(case, ended)
        acted = remediation.act(self.files, handled, ended.rounds[-1], self._answer(handled)) if act else ()
        written, warnings = tuple(self.files.written), tuple(self.files.warnings)
        return ReflectionOutcome(self.ticket, ended.rounds, handled, self._error(ended), written, warnings, acted)

    def _answer(self, handled: TicketRemediation) -> str | None:
        """Return the user's answer, or a researcher's if something is not known."""
        question = dict(handled.measures).get("ask_research")
        if self.request.answer is not None or question is None or self.agents.research is None:
            return self.request.answer
        return self.agents.research(question)

    def _io(self) -> ReflectionIO:
        return ReflectionIO(
            keep=self.files.keep,
            now=lambda: clock.stamp(clock.now()),
            new_id=lambda: clock.reflection_id(clock.now()),
            explore=self.files.explore,
            repair=self.request.repair or self._repair,
            put=self.files.put,
            evaluate=self.files.evaluator(),
            analyse=self.request.analyse or self.agents.analyse,
        )

    # Repairs ---------------------------------------------------------------------------------------------------

    def _repair(self, plan: RepairPlan, ticket: Ticket) -> RepairOutcome:
        if self.request.revised:
            return self._revised(plan, ticket, critic_command.read_output(self.request.revised))
        if self.request.fixes:
            return self._run_fixes()
        return self._by_agent(plan, ticket) if self.agents.revise else reflection.left_alone(plan, ticket)

    def _by_agent(self, plan: RepairPlan, ticket: Ticket) -> RepairOutcome:
        """Let an agent repair the output."""
        before = self.files.present()
        content = self.agents.revise(ticket, before) if self.agents.revise else None
        if content is None or content == before:
            results = tuple(RepairResult(step=step, status="failed") for step in plan.repair_steps)
            return RepairOutcome(results)
        return self._judged(plan, ticket, content)

    def _judged(self, plan: RepairPlan, ticket: Ticket, content: bytes) -> RepairOutcome:
        """Return the outcome by the critic's verdict; without a critic no repair step counts as completed."""
        evaluate = self.files.evaluator()
        if evaluate is None:
            return reflection.left_alone(plan, ticket)._replace(revised=content)
        return judged_repair(plan, ticket, content, evaluate(content))

    def _revised(self, plan: RepairPlan, ticket: Ticket, content: bytes) -> RepairOutcome:
        """Take over a revised output; a repair step is completed if the critic no longer reports its issue."""
        if content == self.files.present():
            raise InvalidInput(
                f"{self.request.revised} is the output that was judged before",
                next_step=f"repair it: {plan.repair_steps[0]}",
            )
        return self._judged(plan, ticket, content)

    def _run_fixes(self) -> RepairOutcome:
        from reflectloop.reflection.check_sandbox import CheckSandbox  # noqa: PLC0415 - slow to import

        before = self.files.present()
        if before is None or Path(self.files.target).is_absolute():
            where = "does not exist any more" if before is None else "lies outside of the project, where no fix is run"
            raise InvalidInput(f"{self.ticket.target} {where}", next_step="give --revised FILE")
        sandbox = CheckSandbox(self.files.folders, self.files.settings, self.request.caller)
        results, content = sandbox.repair(self.files.target, before, self.request.fixes)
        return RepairOutcome(tuple(results), content if content != before else None)

    # The outcome ----------------------------------------------------------------------------------------------

    def _handled(self, case: TicketFacts, ended: ReflectionRounds) -> TicketRemediation:
        report = ended.rounds[-1].report
        pattern = report.anti_pattern
        return handle(
            ended.afterwards or report.error_classification.type,
            what=report.error_analysis.surface_issue,
            checkpoint=expected(case),
            pattern=pattern.pattern_name if pattern else "",
            step=self.ticket.target_step or "",
        )

    def _error(self, ended: ReflectionRounds) -> ReflectloopError | None:
        if ended.verdict == CriticVerdict.PASS:
            return None
        if ended.verdict == CriticVerdict.REJECT:
            needs = "REPLAN: make another plan" if self.request.unattended else "ASK: a person must decide"
            return GateRejected(
                f"the critic rejects {self.ticket.target}; {needs}", next_step=_from_scratch(self.ticket)
            )
        if ended.stopped:
            return self._spent()
        last = ended.rounds[-1].submission
        return VerificationFailed(
            f"another iteration is needed: {'; '.join(last.remaining_issues[:3])}", next_step=self._next()
        )

    def _next(self) -> str:
        context = self.files.context
        if not context.requirements and self.ticket.target is None:
            return f"repair it: {self.ticket.repair_plan[0]}; then let the critic look again"
        if context.requirements:
            return f"repair it, then: reflectloop reflect {self.ticket.ticket_id} --revised FILE"
        if context.trigger == "director_request":
            return "reflectloop resume"
        known = context.failure.diagnosis if context.failure else None
        return (known.next_command if known else None) or "repair it, then: reflectloop retry --reason TEXT"

    def _spent(self) -> MaxRetries:
        return MaxRetries(
            f"{MOST_ROUNDS} rounds of reflection on {self.ticket.ticket_id} are spent; a person must look",
            next_step=_from_scratch(self.ticket),
        )


def judged_repair(plan: RepairPlan, ticket: Ticket, content: bytes, report: CriticReport) -> RepairOutcome:
    """Return a repair whose steps are completed as far as the critic no longer reports their issues."""
    left = {signature.normal(issue.description) for issue in report.issues}
    solved = {issue.suggested_fix: signature.normal(issue.description) not in left for issue in ticket.issues}
    results = tuple(
        RepairResult(step=step, status="completed" if solved.get(step) else "failed") for step in plan.repair_steps
    )
    return RepairOutcome(results, content)


def _from_scratch(ticket: Ticket) -> str:
    return f"make {ticket.target} again from scratch, then: reflectloop critic {ticket.target} --requirements FILE"
