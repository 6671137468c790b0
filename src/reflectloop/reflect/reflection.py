"""The six steps of a reflection, each leaving its output, and the rounds they are walked in; acts by what it is given.

explore → reflect → classify → plan → execute → submit, then the critic again; three rounds at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from reflectloop.reflect import explain, trace
from reflectloop.reflect import ticket as tickets
from reflectloop.reflect.critic import CriticReport
from reflectloop.reflect.explain import Case
from reflectloop.reflect.explored import Explored
from reflectloop.reflect.record import ErrorClass, classify
from reflectloop.reflect.ticket import Ticket, Verdict
from reflectloop.reflect.trace import ErrorClassification, Reflection, RepairAction, Status

MOST_ROUNDS = 3
STEPS = ("explore", "reflect", "classify", "plan", "execute", "submit")
Standing = Literal["ready_for_re_evaluation", "needs_another_iteration"]
Effort = Literal["low", "medium", "high"]
_LITTLE, _MUCH = 1, 4  # steps
_LONGEST = 2_000  # of what a step of repair printed


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RepairPlan(_Value):
    repair_steps: tuple[str, ...]
    resources_needed: tuple[str, ...]
    estimated_effort: Effort


class RepairResult(_Value):
    step: str
    status: Status
    output: str = ""


class Executed(_Value):
    repair_results: tuple[RepairResult, ...]
    all_completed: bool

    @property
    def tried(self) -> bool:
        return any(one.status != "pending" for one in self.repair_results)


class Submission(_Value):
    reflection_report: Reflection
    revised_output_file: str | None
    timestamp: str
    ready_for_re_evaluation: bool
    status: Standing
    remaining_issues: tuple[str, ...]


class Repaired(NamedTuple):
    """What a repair did, and the output it came to; None where it came to none."""

    results: tuple[RepairResult, ...]
    revised: bytes | None = None


def left_alone(plan: RepairPlan, _: Ticket) -> Repaired:
    """The repair of whoever has neither a fix nor an agent: the plan stays a plan."""
    return Repaired(tuple(RepairResult(step=step, status="pending") for step in plan.repair_steps))


Repair = Callable[[RepairPlan, Ticket], Repaired]


class Hands(NamedTuple):
    """What a reflection does its work with."""

    keep: Callable[[int, str, dict[str, Any]], None]  # a round, a step's name, and what it left
    now: Callable[[], str]
    new_id: Callable[[], str]
    explore: Callable[[Ticket], Explored]
    repair: Repair = left_alone
    put: Callable[[bytes], str] = lambda _: ""  # a revised output, as its next version; its name
    evaluate: Callable[[bytes], CriticReport] | None = None  # the critic on a revised output
    analyse: Callable[[Reflection], object] | None = None  # an agent's report in place of the rules' analysis


class Round(NamedTuple):
    number: int
    report: Reflection
    submission: Submission
    evaluation: CriticReport | None  # of the revised output
    notes: tuple[str, ...] = ()  # why an agent's report was not taken
    tried: bool = False  # something was repaired, well or not


class Ended(NamedTuple):
    rounds: tuple[Round, ...]
    verdict: Verdict  # of the last output that was judged
    stopped: bool  # the rounds are spent

    @property
    def afterwards(self) -> ErrorClass | None:
        """What passed after a changed attempt was a normal iteration; said afterwards, never as an excuse."""
        return ErrorClass.ITERATION if self.verdict == Verdict.PASS and self.rounds else None


def walk(case: Case, hands: Hands, *, done: int = 0, tried: int = 0, most: int = MOST_ROUNDS) -> Ended:
    """Rounds until the critic is content, nothing was revised, or none is left.

    `done` were walked before; `tried` are those of them in which something was repaired, and only these are counted.
    """
    rounds: list[Round] = []
    verdict = case.ticket.verdict
    for number in range(done + 1, done + min(MOST_ROUNDS - tried, most) + 1):
        rounds.append(one := _round(case, hands, number))
        if one.evaluation is None:
            break
        verdict = one.evaluation.verdict
        if verdict != Verdict.REVISE:
            break
        case = case.after(one.evaluation)
    spent = tried + sum(one.tried for one in rounds) >= MOST_ROUNDS
    return Ended(tuple(rounds), verdict, stopped=spent and verdict == Verdict.REVISE)


def _round(case: Case, hands: Hands, number: int) -> Round:
    def keep(name: str, value: BaseModel) -> None:
        hands.keep(number, name, value.model_dump(mode="json"))

    case = case._replace(seen=hands.explore(case.ticket))
    keep("explore", case.seen)
    keep("reflect", explain.deviation(case))
    keep("classify", kind := classified(case))
    keep("plan", plan := planned(case))
    # What is wrong in its direction is not mended: a person says where to go.
    rejected = case.ticket.verdict == Verdict.REJECT
    repaired = left_alone(plan, case.ticket) if rejected else hands.repair(plan, case.ticket)
    keep("execute", done := executed(repaired))
    report, notes = _written(case, kind, repaired, hands)
    submission, evaluation = _submitted(case, report, repaired, hands)
    if evaluation:
        keep("evaluation", evaluation)
    keep("submit", submission)
    return Round(number, report, submission, evaluation, notes, done.tried)


# The steps --------------------------------------------------------------------------------------------------------


def classified(case: Case) -> ErrorClassification:
    """By the decision tree on what the engine knows, unless a failure's own record says it."""
    found = case.failure.error_class if case.failure and not case.facts.finished else classify(case.facts)
    return explain.classification(case, found)


def planned(case: Case) -> RepairPlan:
    issues = tickets.gravest_first(case.ticket.issues)
    steps = tuple(dict.fromkeys((*case.known_fixes, *case.ticket.repair_plan))) or tickets.repair_plan(issues)
    effort: Effort = "low" if len(steps) <= _LITTLE else "high" if len(steps) > _MUCH else "medium"
    return RepairPlan(repair_steps=steps, resources_needed=case.ticket.context_needed, estimated_effort=effort)


def executed(repaired: Repaired) -> Executed:
    results = tuple(one.model_copy(update={"output": one.output[-_LONGEST:]}) for one in repaired.results)
    return Executed(
        repair_results=results, all_completed=bool(results) and all(one.status == "completed" for one in results)
    )


def _written(
    case: Case, kind: ErrorClassification, repaired: Repaired, hands: Hands
) -> tuple[Reflection, tuple[str, ...]]:
    """The report that the rules fill, or an agent's that passes the checklist and keeps to the facts."""
    actions = tuple(
        RepairAction(action=one.step, status=one.status, expected_outcome=explain.expected(case))
        for one in repaired.results
    )
    facts = Reflection(
        reflection_id=hands.new_id(),
        timestamp=hands.now(),
        agent=case.agent,
        trigger=case.trigger,
        rewind_ticket_id=case.ticket.ticket_id,
        error_analysis=explain.analysis(case),
        error_classification=kind,
        repair_actions=actions,
        learning_notes=explain.learning(case),
        anti_pattern=explain.anti_pattern(case, kind.type),
    )
    if hands.analyse is None:
        return facts, tuple(trace.faults_of(facts.model_dump(mode="json")))
    said = hands.analyse(facts)
    faults = trace.faults_of(said) or trace.contradictions(written := Reflection.model_validate(said), facts)
    if faults:
        return facts, tuple(f"the report that was written is not taken: {fault}" for fault in faults)
    return written.model_copy(update={"reflection_id": facts.reflection_id, "timestamp": facts.timestamp}), ()


def _submitted(
    case: Case, report: Reflection, repaired: Repaired, hands: Hands
) -> tuple[Submission, CriticReport | None]:
    name, evaluation, left = None, None, tuple(one.description for one in case.ticket.issues)
    if repaired.revised is not None:
        name = hands.put(repaired.revised)
        evaluation = hands.evaluate(repaired.revised) if hands.evaluate else None
    if evaluation:
        left = tuple(one.description for one in evaluation.issues)
    ready = evaluation is not None and evaluation.completeness.requirements_met
    submission = Submission(
        reflection_report=report,
        revised_output_file=name,
        timestamp=hands.now(),
        ready_for_re_evaluation=ready,
        status="ready_for_re_evaluation" if ready else "needs_another_iteration",
        remaining_issues=left,
    )
    return submission, evaluation
