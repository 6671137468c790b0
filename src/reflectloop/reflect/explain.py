"""The words of a reflection that the rules can find themselves, from the ticket, the scores and the failure; pure."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from reflectloop.reflect import ticket as tickets
from reflectloop.reflect.critic import CriticReport, Requirement
from reflectloop.reflect.explored import Explored
from reflectloop.reflect.handling import HANDLING
from reflectloop.reflect.record import ErrorClass, Facts, FailureRecord
from reflectloop.reflect.ticket import Category, Issue, Ticket
from reflectloop.reflect.trace import AntiPattern, ErrorAnalysis, ErrorClassification, Trigger

_SHOWN = 6
_LONGEST = 160  # of a name
_WITH_PATTERN = {ErrorClass.CAPABILITY, ErrorClass.DECISION}
_CAUSES: dict[Category, str] = {
    "completeness": "the work was ended before what was asked for was there: nothing on the way compared the two",
    "correctness": "the output was handed in without having been put to its own checks",
    "direction": "the goal was taken for another one than was meant, and nobody asked before the work began",
}
_NAMES: dict[Category, str] = {
    "completeness": "handed in short",
    "correctness": "handed in wrong",
    "direction": "went astray",
}
_QUESTIONS: dict[Category, tuple[str, ...]] = {
    "completeness": ("was it looked for widely enough?", "was the time used up?", "was it counted on the way?"),
    "correctness": ("was each check run before handing in?", "where does what is wrong come from?"),
    "direction": ("what does the goal say, word for word?", "what would show that this is the right way?"),
}
_NOTES: dict[Category, str] = {
    "completeness": "write down first what must be there at the least; compare half way and at the end",
    "correctness": "run every check on the output before it is handed in; a check that cannot run counts as failed",
    "direction": "say the goal back in one sentence, and have it confirmed, before the work begins",
}


class Case(NamedTuple):
    """One ticket, and everything the engine knows about it."""

    ticket: Ticket
    trigger: Trigger
    agent: str
    facts: Facts
    seen: Explored
    problem: str = ""
    evaluation: CriticReport | None = None
    failure: FailureRecord | None = None
    known_fixes: tuple[str, ...] = ()

    def after(self, evaluation: CriticReport) -> Case:
        """The same ticket with what a revised output still lacks; what it was about stays where it lacks nothing."""
        issues = evaluation.issues or self.ticket.issues
        ticket = self.ticket.model_copy(
            update={
                "verdict": evaluation.verdict,
                "quality_score": evaluation.quality_score,
                "issues": issues,
                "repair_plan": tickets.repair_plan(issues),
            }
        )
        times = self.facts.times_seen + 1 if ticket.signature == self.ticket.signature else 1
        facts = self.facts._replace(finished=evaluation.completeness.requirements_met, times_seen=times)
        return self._replace(ticket=ticket, evaluation=evaluation, facts=facts)

    @property
    def main(self) -> Issue:
        return tickets.gravest_first(self.ticket.issues)[0]

    @property
    def unmet(self) -> tuple[Requirement, ...]:
        each = self.evaluation.completeness.details.each if self.evaluation else ()
        return tuple(one for one in each if not one.met)


class Gap(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    expected: str
    actual: str
    gap: str


class Deviation(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    original_problem: str
    assigned_task: str
    actual_output: str
    gap_analysis: Gap
    questions: tuple[str, ...]


def deviation(case: Case) -> Deviation:
    seen, failure = case.seen, case.failure
    there = f"{seen.target}, {seen.target_bytes} bytes" if seen.target_exists else f"{seen.target}: no such file"
    asked = [f"{one.requirement} {one.expected}" for one in case.unmet]
    found = [f"{one.requirement}: {one.actual}" for one in case.unmet]
    if failure:
        there, asked = f"{seen.target}, ended with {failure.code}", [f"step {failure.step or '?'} does its work"]
        found = [f"exit code {failure.exit_code}" if failure.exit_code is not None else failure.code]
    kinds = dict.fromkeys(one.category for one in case.ticket.issues)
    return Deviation(
        original_problem=case.problem or "not said",
        assigned_task=case.ticket.target_step or case.ticket.target or "not said",
        actual_output=there,
        gap_analysis=Gap(
            expected=_joined(asked) or "no issue of any kind",
            actual=_joined(found) or _joined([one.description for one in case.ticket.issues]),
            gap=_joined([one.description for one in case.ticket.issues]),
        ),
        questions=tuple(f"Q{at}: {text}" for at, text in enumerate((q for k in kinds for q in _QUESTIONS[k]), 1)),
    )


def _joined(parts: list[str]) -> str:
    more = f"; and {len(parts) - _SHOWN} more" if len(parts) > _SHOWN else ""
    return "; ".join(parts[:_SHOWN]) + more


def classification(case: Case, kind: ErrorClass) -> ErrorClassification:
    return ErrorClassification(
        type=kind,
        description=f"{kind.english} ({kind.chinese}): {case.main.description}",
        remediation=HANDLING[kind].remediation,
    )


def analysis(case: Case) -> ErrorAnalysis:
    known = case.failure.diagnosis if case.failure else None
    cause = known.root_cause if known else _CAUSES[case.main.category]
    if case.failure and not known:
        cause = f"not known from its output; {case.failure.category} by the code {case.failure.code}"
    told = _how_a_run_failed(case.failure) if case.failure else _how_an_output_fell_short(case)
    return ErrorAnalysis(
        surface_issue=case.main.description,
        occurrence_process=tuple(f"{number}. {text}" for number, text in enumerate(told, 1)),
        root_cause=cause,
    )


def _how_a_run_failed(failure: FailureRecord) -> list[str]:
    told = [f"step {failure.step} began, attempt {failure.attempt}" if failure.step else "the run began"]
    told += [f"it ran: {failure.command}"] if failure.command else []
    told += [f"it printed: {failure.diagnosis.line}"] if failure.diagnosis and failure.diagnosis.line else []
    ended = f"exit code {failure.exit_code}, " if failure.exit_code is not None else ""
    return [*told, f"it ended with {ended}{failure.code}"]


def _how_an_output_fell_short(case: Case) -> list[str]:
    seen = case.seen
    told = [f"{seen.target or 'the work'} was handed in by {case.agent}"]
    told += [f"{one.requirement} was to be {one.expected}, and was found {one.actual}" for one in case.unmet[:_SHOWN]]
    told += [f"found wrong: {one.description}" for one in case.ticket.issues if one.category != "completeness"][:_SHOWN]
    if case.facts.times_seen > 1:
        told.append(f"the same was found {case.facts.times_seen} times by now")
    return [*told, "nothing had shown this before it was handed in"]


def expected(case: Case) -> str:
    """What a repair is to bring."""
    if case.failure:
        return f"step {case.failure.step or 'that failed'} passes, and the rest of the plan goes on"
    wanted = [f"{one.requirement} {one.expected}" for one in case.unmet]
    return _joined(wanted) or f"no longer so: {case.main.description}"


def learning(case: Case) -> str:
    known = case.failure.diagnosis if case.failure else None
    if known:
        return f"when this is seen ({known.rule}): {known.suggestion}"
    return f"{_NOTES[case.main.category]}; here: {expected(case)}"


def _pattern_name(case: Case) -> str:
    """What keeps two patterns apart: lessons of one name are one lesson."""
    if case.failure:
        known = case.failure.diagnosis
        return f"fails again: {(known.line or known.rule) if known else case.main.description}"[:_LONGEST]
    where = case.ticket.target_step or case.ticket.target or case.main.category
    about = next((one.requirement for one in case.unmet if one.requirement in case.main.description), where)
    return f"{_NAMES[case.main.category]}: {about}"[:_LONGEST]


def anti_pattern(case: Case, kind: ErrorClass) -> AntiPattern | None:
    """Of what was decided wrongly or keeps coming back; a service that was down is no pattern of anybody's."""
    if kind not in _WITH_PATTERN:
        return None
    return AntiPattern(
        pattern_name=_pattern_name(case),
        symptoms=tuple(one.description for one in case.ticket.issues[:_SHOWN]),
        prevention=learning(case),
        error_type=kind,
    )
