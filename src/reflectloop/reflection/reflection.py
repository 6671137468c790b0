"""The six steps of a reflection and its rounds; all IO is passed in.

explore → reflect → classify → plan → execute → submit, then the critic again; three rounds at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from reflectloop.diagnosis.failure_record import ErrorClass, classify
from reflectloop.reflection import reflection_report, reflection_text
from reflectloop.reflection import ticket as tickets
from reflectloop.reflection.critic import CriticReport
from reflectloop.reflection.reflection_report import ErrorClassification, Reflection, RepairAction, Status
from reflectloop.reflection.reflection_text import TicketFacts, WorkspaceFacts
from reflectloop.reflection.ticket import CriticVerdict, Ticket

MOST_ROUNDS = 3
STEPS = ("explore", "reflect", "classify", "plan", "execute", "submit")
Standing = Literal["ready_for_re_evaluation", "needs_another_iteration"]
Effort = Literal["low", "medium", "high"]
_LITTLE, _MUCH = 1, 4  # number of steps
_LONGEST = 2_000  # characters of a repair step's output


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RepairPlan(_Value):
    """The fourth step's output: what to repair, and with what."""

    repair_steps: tuple[str, ...]
    resources_needed: tuple[str, ...]
    estimated_effort: Effort


class RepairResult(_Value):
    """The result of one repair step."""

    step: str
    status: Status
    output: str = ""


class RepairReport(_Value):
    """The fifth step's output: the results of all repair steps."""

    repair_results: tuple[RepairResult, ...]
    all_completed: bool

    @property
    def tried(self) -> bool:
        return any(result.status != "pending" for result in self.repair_results)


class Submission(_Value):
    """The sixth step's output: the report and the revised output."""

    reflection_report: Reflection
    revised_output_file: str | None
    timestamp: str
    ready_for_re_evaluation: bool
    status: Standing
    remaining_issues: tuple[str, ...]


class RepairOutcome(NamedTuple):
    """The results of a repair, and the revised output, or None if there is none."""

    results: tuple[RepairResult, ...]
    revised: bytes | None = None


def left_alone(plan: RepairPlan, _: Ticket) -> RepairOutcome:
    """Leave the plan pending, for callers with neither a fix nor an agent."""
    return RepairOutcome(tuple(RepairResult(step=step, status="pending") for step in plan.repair_steps))


Repair = Callable[[RepairPlan, Ticket], RepairOutcome]


class ReflectionIO(NamedTuple):
    """The functions a reflection uses for its IO."""

    keep: Callable[[int, str, dict[str, Any]], None]  # stores a step's output: round, step name, data
    now: Callable[[], str]
    new_id: Callable[[], str]
    explore: Callable[[Ticket], WorkspaceFacts]
    repair: Repair = left_alone
    put: Callable[[bytes], str] = lambda _: ""  # saves a revised output, and returns its name
    evaluate: Callable[[bytes], CriticReport] | None = None  # runs the critic on a revised output
    analyse: Callable[[Reflection], object] | None = None  # returns an agent's report to replace the rules' analysis


class ReflectionRound(NamedTuple):
    """One round of a reflection."""

    number: int
    report: Reflection
    submission: Submission
    evaluation: CriticReport | None  # evaluation of the revised output
    notes: tuple[str, ...] = ()  # why an agent's report was rejected
    tried: bool = False  # a repair was tried, successfully or not


class ReflectionRounds(NamedTuple):
    """The result of a reflection."""

    rounds: tuple[ReflectionRound, ...]
    verdict: CriticVerdict  # on the last output that was judged
    stopped: bool  # no rounds are left

    @property
    def afterwards(self) -> ErrorClass | None:
        """The error class in hindsight: a pass after a changed attempt was a normal iteration."""
        return ErrorClass.ITERATION if self.verdict == CriticVerdict.PASS and self.rounds else None


def walk(
    case: TicketFacts, io: ReflectionIO, *, done: int = 0, tried: int = 0, most: int = MOST_ROUNDS
) -> ReflectionRounds:
    """Repeat rounds until the critic passes the output, nothing was revised, or no round is left.

    `done` rounds were completed before; in `tried` of them something was repaired, and only these count.
    """
    rounds: list[ReflectionRound] = []
    verdict = case.ticket.verdict
    for number in range(done + 1, done + min(MOST_ROUNDS - tried, most) + 1):
        rounds.append(round_ := _round(case, io, number))
        if round_.evaluation is None:
            break
        verdict = round_.evaluation.verdict
        if verdict != CriticVerdict.REVISE:
            break
        case = case.after(round_.evaluation)
    spent = tried + sum(round_.tried for round_ in rounds) >= MOST_ROUNDS
    return ReflectionRounds(tuple(rounds), verdict, stopped=spent and verdict == CriticVerdict.REVISE)


def _round(case: TicketFacts, io: ReflectionIO, number: int) -> ReflectionRound:
    def keep(name: str, value: BaseModel) -> None:
        io.keep(number, name, value.model_dump(mode="json"))

    case = case._replace(seen=io.explore(case.ticket))
    keep("explore", case.seen)
    keep("reflect", reflection_text.deviation(case))
    keep("classify", kind := classified(case))
    keep("plan", plan := planned(case))
    # A wrong direction is not repaired: a person must decide.
    rejected = case.ticket.verdict == CriticVerdict.REJECT
    repaired = left_alone(plan, case.ticket) if rejected else io.repair(plan, case.ticket)
    keep("execute", done := executed(repaired))
    report, notes = _written(case, kind, repaired, io)
    submission, evaluation = _submitted(case, report, repaired, io)
    if evaluation:
        keep("evaluation", evaluation)
    keep("submit", submission)
    return ReflectionRound(number, report, submission, evaluation, notes, done.tried)


# The steps --------------------------------------------------------------------------------------------------------


def classified(case: TicketFacts) -> ErrorClassification:
    """Classify by the failure's own record, or else by the decision tree."""
    error_class = case.failure.error_class if case.failure and not case.facts.finished else classify(case.facts)
    return reflection_text.classification(case, error_class)


def planned(case: TicketFacts) -> RepairPlan:
    issues = tickets.gravest_first(case.ticket.issues)
    steps = tuple(dict.fromkeys((*case.known_fixes, *case.ticket.repair_plan))) or tickets.repair_plan(issues)
    effort: Effort = "low" if len(steps) <= _LITTLE else "high" if len(steps) > _MUCH else "medium"
    return RepairPlan(repair_steps=steps, resources_needed=case.ticket.context_needed, estimated_effort=effort)


def executed(repaired: RepairOutcome) -> RepairReport:
    results = tuple(result.model_copy(update={"output": result.output[-_LONGEST:]}) for result in repaired.results)
    return RepairReport(
        repair_results=results, all_completed=bool(results) and all(result.status == "completed" for result in results)
    )


def _written(
    case: TicketFacts, kind: ErrorClassification, repaired: RepairOutcome, io: ReflectionIO
) -> tuple[Reflection, tuple[str, ...]]:
    """Return the rules' report, or an agent's report that passes the checklist and agrees with the facts."""
    actions = tuple(
        RepairAction(action=result.step, status=result.status, expected_outcome=reflection_text.expected(case))
        for result in repaired.results
    )
    facts = Reflection(
        reflection_id=io.new_id(),
        timestamp=io.now(),
        agent=case.agent,
        trigger=case.trigger,
        rewind_ticket_id=case.ticket.ticket_id,
        error_analysis=reflection_text.analysis(case),
        error_classification=kind,
        repair_actions=actions,
        learning_notes=reflection_text.learning(case),
        anti_pattern=reflection_text.anti_pattern(case, kind.type),
    )
    if io.analyse is None:
        return facts, tuple(reflection_report.faults_of(facts.model_dump(mode="json")))
    proposal = io.analyse(facts)
    faults = reflection_report.faults_of(proposal) or reflection_report.contradictions(
        written := Reflection.model_validate(proposal), facts
    )
    if faults:
        return facts, tuple(f"the agent's report was rejected: {fault}" for fault in faults)
    return written.model_copy(update={"reflection_id": facts.reflection_id, "timestamp": facts.timestamp}), ()


def _submitted(
    case: TicketFacts, report: Reflection, repaired: RepairOutcome, io: ReflectionIO
) -> tuple[Submission, CriticReport | None]:
    name, evaluation, left = None, None, tuple(issue.description for issue in case.ticket.issues)
    if repaired.revised is not None:
        name = io.put(repaired.revised)
        evaluation = io.evaluate(repaired.revised) if io.evaluate else None
    if evaluation:
        left = tuple(issue.description for issue in evaluation.issues)
    ready = evaluation is not None and evaluation.completeness.requirements_met
    submission = Submission(
        reflection_report=report,
        revised_output_file=name,
        timestamp=io.now(),
        ready_for_re_evaluation=ready,
        status="ready_for_re_evaluation" if ready else "needs_another_iteration",
        remaining_issues=left,
    )
    return submission, evaluation
