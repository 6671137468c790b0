"""Text of a reflection that rules can derive from the ticket, the scores and the failure; pure."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from reflectloop.diagnosis.failure_record import ErrorClass, Facts, FailureRecord
from reflectloop.reflection import ticket as tickets
from reflectloop.reflection.critic import CriticReport, CriticRequirement
from reflectloop.reflection.reflection_report import AntiPattern, ErrorAnalysis, ErrorClassification, Trigger
from reflectloop.reflection.remediation_table import HANDLING
from reflectloop.reflection.ticket import Category, Issue, Ticket

_MOST_PARTS = 6
_LONGEST = 160  # characters of a name
_WITH_PATTERN = {ErrorClass.CAPABILITY, ErrorClass.DECISION}
_CAUSES: dict[Category, str] = {
    "completeness": "the work ended before the requirements were met, and nothing compared the two on the way",
    "correctness": "the output was submitted without running its own checks",
    "direction": "the goal was misunderstood, and nobody asked before the work began",
}
_NAMES: dict[Category, str] = {
    "completeness": "handed in short",
    "correctness": "handed in wrong",
    "direction": "went astray",
}
_QUESTIONS: dict[Category, tuple[str, ...]] = {
    "completeness": (
        "was the search wide enough?",
        "was the available time used?",
        "was the number checked on the way?",
    ),
    "correctness": ("was each check run before submitting?", "where does the error come from?"),
    "direction": ("what does the goal say, word for word?", "what would show that this is the right direction?"),
}
_NOTES: dict[Category, str] = {
    "completeness": "write down the minimum requirements first; compare with them while working and at the end",
    "correctness": "run every check on the output before submitting it; a check that cannot run counts as failed",
    "direction": "restate the goal in one sentence, and have it confirmed, before the work begins",
}


class WorkspaceFacts(BaseModel):
    """The output, tree and artifacts that a reflection starts from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ticket_id: str
    target: str | None
    target_exists: bool = False
    target_bytes: int | None = None
    target_sha256: str | None = None
    tree: str | None = None  # last tree of the task
    artifacts: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()  # finished steps, with the tree of each


class TicketFacts(NamedTuple):
    """One ticket, and everything the engine knows about it."""

    ticket: Ticket
    trigger: Trigger
    agent: str
    facts: Facts
    seen: WorkspaceFacts
    problem: str = ""
    evaluation: CriticReport | None = None
    failure: FailureRecord | None = None
    known_fixes: tuple[str, ...] = ()

    def after(self, evaluation: CriticReport) -> TicketFacts:
        """Return the ticket with the remaining issues of a revised output, or its old issues if none remain."""
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
    def unmet(self) -> tuple[CriticRequirement, ...]:
        each = self.evaluation.completeness.details.each if self.evaluation else ()
        return tuple(requirement for requirement in each if not requirement.met)


class ExpectationGap(BaseModel):
    """The difference between what was expected and what was delivered."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expected: str
    actual: str
    gap: str


class Deviation(BaseModel):
    """The second step of a reflection: the task, the output, and the gap between them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    original_problem: str
    assigned_task: str
    actual_output: str
    gap_analysis: ExpectationGap
    questions: tuple[str, ...]


def deviation(case: TicketFacts) -> Deviation:
    explored, failure = case.seen, case.failure
    delivered = (
        f"{explored.target}, {explored.target_bytes} bytes"
        if explored.target_exists
        else f"{explored.target}: no such file"
    )
    expected_parts = [f"{item.requirement} {item.expected}" for item in case.unmet]
    actual_parts = [f"{item.requirement}: {item.actual}" for item in case.unmet]
    if failure:
        delivered, expected_parts = (
            f"{explored.target}, ended with {failure.code}",
            [f"step {failure.step or '?'} does its work"],
        )
        actual_parts = [f"exit code {failure.exit_code}" if failure.exit_code is not None else failure.code]
    kinds = dict.fromkeys(item.category for item in case.ticket.issues)
    return Deviation(
        original_problem=case.problem or "not said",
        assigned_task=case.ticket.target_step or case.ticket.target or "not said",
        actual_output=delivered,
        gap_analysis=ExpectationGap(
            expected=_joined(expected_parts) or "no issue of any kind",
            actual=_joined(actual_parts) or _joined([item.description for item in case.ticket.issues]),
            gap=_joined([item.description for item in case.ticket.issues]),
        ),
        questions=tuple(f"Q{at}: {text}" for at, text in enumerate((q for k in kinds for q in _QUESTIONS[k]), 1)),
    )


def _joined(parts: list[str]) -> str:
    more = f"; and {len(parts) - _MOST_PARTS} more" if len(parts) > _MOST_PARTS else ""
    return "; ".join(parts[:_MOST_PARTS]) + more


def classification(case: TicketFacts, kind: ErrorClass) -> ErrorClassification:
    return ErrorClassification(
        type=kind,
        description=f"{kind.english} ({kind.chinese}): {case.main.description}",
        remediation=HANDLING[kind].remediation,
    )


def analysis(case: TicketFacts) -> ErrorAnalysis:
    """Explain how the failure came about, and its cause."""
    known = case.failure.diagnosis if case.failure else None
    cause = known.root_cause if known else _CAUSES[case.main.category]
    if case.failure and not known:
        cause = f"not known from its output; {case.failure.category} by the code {case.failure.code}"
    events = _run_events(case.failure) if case.failure else _output_events(case)
    return ErrorAnalysis(
        surface_issue=case.main.description,
        occurrence_process=tuple(f"{number}. {text}" for number, text in enumerate(events, 1)),
        root_cause=cause,
    )


def _run_events(failure: FailureRecord) -> list[str]:
    events = [f"step {failure.step} began, attempt {failure.attempt}" if failure.step else "the run began"]
    events += [f"it ran: {failure.command}"] if failure.command else []
    events += [f"it printed: {failure.diagnosis.line}"] if failure.diagnosis and failure.diagnosis.line else []
    ended = f"exit code {failure.exit_code}, " if failure.exit_code is not None else ""
    return [*events, f"it ended with {ended}{failure.code}"]


def _output_events(case: TicketFacts) -> list[str]:
    explored = case.seen
    events = [f"{explored.target or 'the work'} was submitted by {case.agent}"]
    events += [
        f"{item.requirement} should be {item.expected}, but is {item.actual}" for item in case.unmet[:_MOST_PARTS]
    ]
    events += [f"wrong: {item.description}" for item in case.ticket.issues if item.category != "completeness"][
        :_MOST_PARTS
    ]
    if case.facts.times_seen > 1:
        events.append(f"the same happened {case.facts.times_seen} times so far")
    return [*events, "nothing had revealed this before it was submitted"]


def expected(case: TicketFacts) -> str:
    """Return the result a repair must bring."""
    if case.failure:
        return f"step {case.failure.step or 'that failed'} passes, and the rest of the plan goes on"
    wanted = [f"{requirement.requirement} {requirement.expected}" for requirement in case.unmet]
    return _joined(wanted) or f"no longer so: {case.main.description}"


def learning(case: TicketFacts) -> str:
    """Return what to do differently next time."""
    known = case.failure.diagnosis if case.failure else None
    if known:
        return f"when this is seen ({known.rule}): {known.suggestion}"
    return f"{_NOTES[case.main.category]}; here: {expected(case)}"


def _pattern_name(case: TicketFacts) -> str:
    """Return a name that keeps patterns apart, since lessons with the same name are merged."""
    if case.failure:
        known = case.failure.diagnosis
        return f"fails again: {(known.line or known.rule) if known else case.main.description}"[:_LONGEST]
    where = case.ticket.target_step or case.ticket.target or case.main.category
    about = next(
        (requirement.requirement for requirement in case.unmet if requirement.requirement in case.main.description),
        where,
    )
    return f"{_NAMES[case.main.category]}: {about}"[:_LONGEST]


def anti_pattern(case: TicketFacts, kind: ErrorClass) -> AntiPattern | None:
    """Return an anti-pattern for wrong decisions and repeated failures, or None; an outage is not a pattern."""
    if kind not in _WITH_PATTERN:
        return None
    return AntiPattern(
        pattern_name=_pattern_name(case),
        symptoms=tuple(issue.description for issue in case.ticket.issues[:_MOST_PARTS]),
        prevention=learning(case),
        error_type=kind,
    )
