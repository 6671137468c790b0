"""`reflect`: the six steps on a ticket or a failed run; a repair is a command, a file, or left to whoever reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config, secrets
from reflectloop.diagnosis import signature
from reflectloop.errors import GateRejected, InvalidInput, MaxRetries, NothingToDo, ReflectloopError, VerificationFailed
from reflectloop.reflection import blocker_card, critic_command, reflection, remediation, ticket_store
from reflectloop.reflection.critic_command import Judge
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
from reflectloop.workspace.folders import Folders, folders_at


@dataclass(frozen=True)
class ReflectionRequest:
    """`repair` is an agent's or a program's: it is given rounds until the critic is content or none is left."""

    start: Path
    name: str  # a ticket's or a run's
    revised: Path | None = None  # an output that somebody has mended
    fixes: tuple[str, ...] = ()  # commands that mend it, run in the box
    repair: Repair | None = None
    analyse: Callable[[Reflection], object] | None = None
    answer: str | None = None  # to what was not known
    unattended: bool = False
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def mends(self) -> bool:
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
        measures = [one._asdict() for one in self.acted] or measures
        return {
            "ticket": self.ticket.model_dump(mode="json"),
            "rounds": [_round_data(one) for one in self.rounds],
            "handling": {"class": self.handled.error_class, "needs": self.handled.needs, "measures": measures},
        }


def _round_data(one: ReflectionRound) -> dict[str, Any]:
    return {
        "round": one.number,
        "reflection": one.report.model_dump(mode="json"),
        "submission": one.submission.model_dump(mode="json"),
        "evaluation": one.evaluation.model_dump(mode="json") if one.evaluation else None,
        "notes": list(one.notes),
    }


def reflect(asked: ReflectionRequest) -> ReflectionOutcome:
    folders = folders_at(asked.start)
    settings = config.load(folders.root)
    secrets.use(secrets.of(settings.secrets, folders.root))
    if asked.revised and asked.fixes:
        raise InvalidInput("an output that is mended already needs no fix", next_step="name --revised or --fix")
    secret_guard.refuse_words(asked.answer or "", "the answer")
    folders.claim()
    with lock.hold(folders.own, "reflect"):
        known = TICKET_ID.fullmatch(asked.name)
        opened = ticket_store.find(folders, asked.name) if known else blocker_card.ticket_of(folders, asked.name)
        desk = TicketFiles(folders, settings, opened, _judge(folders, settings, asked, opened))
        return _Work(asked, desk).walk()


def on_ticket(
    folders: Folders,
    settings: config.Config,
    opened: OpenTicket,
    analyse: Callable[[Reflection], object] | None = None,
    answer: str | None = None,
) -> ReflectionOutcome:
    """The same by rules, or with an agent's analysis or answer, for whoever holds the project's lock."""
    asked = ReflectionRequest(folders.root, opened.ticket.ticket_id, analyse=analyse, answer=answer, unattended=True)
    return _Work(asked, TicketFiles(folders, settings, opened, None)).walk()


def _judge(folders: Folders, settings: config.Config, asked: ReflectionRequest, opened: OpenTicket) -> Judge | None:
    if not asked.mends:
        return None
    if opened.context.requirements is None:
        raise InvalidInput(
            f"{opened.ticket.ticket_id} is about {opened.ticket.target}, not about an output",
            next_step="mend it, then: reflectloop retry --reason TEXT",
        )
    return Judge(folders, settings, Path(opened.context.requirements), asked.caller)


class _Work:
    def __init__(self, asked: ReflectionRequest, desk: TicketFiles) -> None:
        self.asked, self.desk, self.ticket = asked, desk, desk.ticket

    def walk(self) -> ReflectionOutcome:
        before = self.desk.rounds()
        tried = sum(one.tried for one in before)
        case = self.desk.case()
        if before and not self.asked.mends:  # looking again costs nothing, and changes nothing
            ended = ReflectionRounds((before[-1],), case.ticket.verdict, stopped=tried >= MOST_ROUNDS)
            return self._outcome(case, ended, act=self.asked.answer is not None)
        if case.ticket.verdict == CriticVerdict.PASS:
            raise NothingToDo(f"the critic let {self.ticket.target} pass already", next_step="reflectloop status")
        if tried >= MOST_ROUNDS:
            raise self._spent()
        most = MOST_ROUNDS if self.asked.repair else 1
        ended = reflection.walk(case, self._hands(), done=len(before), tried=tried, most=most)
        return self._outcome(case, ended, act=True)

    def _outcome(self, case: TicketFacts, ended: ReflectionRounds, *, act: bool) -> ReflectionOutcome:
        handled = self._handled(case, ended)
        acted = remediation.act(self.desk, handled, ended.rounds[-1], self.asked.answer) if act else ()
        written, warnings = tuple(self.desk.written), tuple(self.desk.warnings)
        return ReflectionOutcome(self.ticket, ended.rounds, handled, self._error(ended), written, warnings, acted)

    def _hands(self) -> ReflectionIO:
        return ReflectionIO(
            keep=self.desk.keep,
            now=lambda: clock.stamp(clock.now()),
            new_id=lambda: clock.reflection_id(clock.now()),
            explore=self.desk.explore,
            repair=self.asked.repair or self._repair,
            put=self.desk.put,
            evaluate=self.desk.evaluate if self.desk.judge else None,
            analyse=self.asked.analyse,
        )

    # Repairs ---------------------------------------------------------------------------------------------------

    def _repair(self, plan: RepairPlan, ticket: Ticket) -> RepairOutcome:
        if self.asked.revised:
            return self._handed_in(plan, ticket, critic_command.read_output(self.asked.revised))
        return self._mended() if self.asked.fixes else reflection.left_alone(plan, ticket)

    def _handed_in(self, plan: RepairPlan, ticket: Ticket, content: bytes) -> RepairOutcome:
        """A step was carried out where the critic no longer sees what it was for."""
        if content == self.desk.present():
            raise InvalidInput(
                f"{self.asked.revised} is what was judged already", next_step=f"mend it: {plan.repair_steps[0]}"
            )
        left = {signature.normal(one.description) for one in self.desk.evaluate(content).issues}
        gone = {one.suggested_fix: signature.normal(one.description) not in left for one in ticket.issues}
        results = tuple(
            RepairResult(step=step, status="completed" if gone.get(step) else "failed") for step in plan.repair_steps
        )
        return RepairOutcome(results, content)

    def _mended(self) -> RepairOutcome:
        from reflectloop.reflection.check_sandbox import CheckSandbox  # noqa: PLC0415 - loads a lot

        before = self.desk.present()
        if before is None or Path(self.desk.target).is_absolute():
            where = "is not there any more" if before is None else "lies outside of the project, where nothing is run"
            raise InvalidInput(f"{self.ticket.target} {where}", next_step="name --revised FILE")
        bench = CheckSandbox(self.desk.folders, self.desk.settings, self.asked.caller)
        results, content = bench.mend(self.desk.target, before, self.asked.fixes)
        return RepairOutcome(tuple(results), content if content != before else None)

    # What comes of it ------------------------------------------------------------------------------------------

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
            needs = "REPLAN: make another plan" if self.asked.unattended else "ASK: say where it is to go"
            return GateRejected(f"the critic rejects {self.ticket.target}; {needs}", next_step=_anew(self.ticket))
        if ended.stopped:
            return self._spent()
        last = ended.rounds[-1].submission
        return VerificationFailed(f"{last.status}: {'; '.join(last.remaining_issues[:3])}", next_step=self._next())

    def _next(self) -> str:
        context = self.desk.context
        if context.requirements:
            return f"mend it, then: reflectloop reflect {self.ticket.ticket_id} --revised FILE"
        if context.trigger == "director_request":
            return "reflectloop resume"
        known = context.failure.diagnosis if context.failure else None
        return (known.next_command if known else None) or "mend it, then: reflectloop retry --reason TEXT"

    def _spent(self) -> MaxRetries:
        return MaxRetries(
            f"{MOST_ROUNDS} rounds of reflection on {self.ticket.ticket_id} are spent; a person must look",
            next_step=_anew(self.ticket),
        )


def _anew(ticket: Ticket) -> str:
    return f"make {ticket.target} anew, then: reflectloop critic {ticket.target} --requirements FILE"
