"""Judge an output against its requirements: scores, a verdict, and a rewind ticket if it must be redone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from reflectloop.plan.globs import matches_any
from reflectloop.reflection import output as outputs
from reflectloop.reflection import ticket as tickets
from reflectloop.reflection.output import ToolOutput
from reflectloop.reflection.requirements import Requirements
from reflectloop.reflection.ticket import CriticVerdict, Issue, Severity, Ticket

_COSTS: dict[Severity, float] = {"high": 0.4, "medium": 0.15, "low": 0.05}
_HOPELESS = 0.3
_NEARLY = 0.75  # share of the requested number that is nearly enough
_MOST_ISSUES = 10


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CriticRequirement(_Value):
    """One requirement, and what the output has."""

    requirement: str
    expected: str
    actual: str
    met: bool
    share: float  # fulfilled share, from 0 to 1


class Details(_Value):
    """The number of requirements, and each of them."""

    required: int
    met: int
    each: tuple[CriticRequirement, ...]


class Completeness(_Value):
    """The score for what the output contains."""

    score: float
    requirements_met: bool
    issues: tuple[Issue, ...]
    details: Details


class Correctness(_Value):
    """The score for what is wrong with the output."""

    score: float
    issues: tuple[Issue, ...]


class CriticReport(_Value):
    """The critic's complete judgement of one output."""

    evaluation_id: str
    timestamp: str
    target: str
    completeness: Completeness
    correctness: Correctness
    quality_score: float
    verdict: CriticVerdict
    rewind_ticket: Ticket | None

    @property
    def issues(self) -> tuple[Issue, ...]:
        return tickets.gravest_first((*self.completeness.issues, *self.correctness.issues))


class CriticCheck(NamedTuple):
    """The result of one check that the engine ran."""

    name: str
    held: bool
    reason: str


class Identity(NamedTuple):
    """Ids and time of an evaluation, passed in."""

    evaluation_id: str
    ticket_id: str
    timestamp: str
    source: str = ""  # file of the requirements
    step: str | None = None


def evaluate(
    output: ToolOutput, required: Requirements, checked: Sequence[CriticCheck], about: Identity
) -> CriticReport:
    """Judge an output by its requirements and the results of its checks."""
    requirements = (*_requirements(output, required), *(_as_requirement(item) for item in checked))
    missing = (
        *(_missing(output, item) for item in requirements if not item.met and _is_part(item)),
        *_unfinished(output),
    )
    errors = tuple(_wrong(output, required, checked))
    completeness = Completeness(
        score=_score(sum(item.share for item in requirements) / len(requirements) if requirements else 1.0, missing),
        requirements_met=all(item.met for item in requirements) and not output.fault,
        issues=(*missing, *_off_target(output, required)),
        details=Details(required=len(requirements), met=sum(item.met for item in requirements), each=requirements),
    )
    # Nothing in an empty output is known to be correct.
    correctness = Correctness(score=0.0 if output.hollow else _score(1.0, errors), issues=errors)
    quality = round((completeness.score + correctness.score) / 2, 3)
    report = CriticReport(
        evaluation_id=about.evaluation_id,
        timestamp=about.timestamp,
        target=output.name,
        completeness=completeness,
        correctness=correctness,
        quality_score=quality,
        verdict=_verdict(quality, completeness, required.min_quality),
        rewind_ticket=None,
    )
    ticket = _ticket(report, required, about) if report.verdict != CriticVerdict.PASS else None
    return report.model_copy(update={"rewind_ticket": ticket})


def _score(share: float, issues: Iterable[Issue]) -> float:
    return round(max(0.0, share - sum(_COSTS[issue.severity] for issue in issues)), 3)


def _verdict(quality: float, completeness: Completeness, bar: float) -> CriticVerdict:
    if quality < _HOPELESS or any(issue.category == "direction" for issue in completeness.issues):
        return CriticVerdict.REJECT
    return CriticVerdict.PASS if completeness.requirements_met and quality >= bar else CriticVerdict.REVISE


# Missing parts ----------------------------------------------------------------------------------------------------


def _requirements(output: ToolOutput, required: Requirements) -> Iterator[CriticRequirement]:
    for place, count in required.min_items.items():
        present = len(set(outputs.items(output, place)))  # duplicates count once
        yield CriticRequirement(
            requirement=place or "items",
            expected=f"at least {count}",
            actual=str(present),
            met=present >= count,
            share=min(1.0, present / count),
        )
    for part in required.must_have:
        present = outputs.has(output, part)
        yield CriticRequirement(
            requirement=part,
            expected="there, and not empty",
            actual="there" if present else "missing or empty",
            met=present,
            share=float(present),
        )
    for forbidden in required.must_not_have:
        present = outputs.mentions(output, forbidden)
        yield CriticRequirement(
            requirement=forbidden,
            expected=_ABSENT,
            actual="there" if present else "not there",
            met=not present,
            share=float(not present),
        )
    for criterion in required.unshown:
        yield CriticRequirement(
            requirement=criterion, expected="shown by a check", actual="no check shows it", met=False, share=0.0
        )


_HOLDS, _ABSENT = "holds", "not there"


def _as_requirement(check: CriticCheck) -> CriticRequirement:
    return CriticRequirement(
        requirement=f"check {check.name}", expected=_HOLDS, actual=check.reason, met=check.held, share=float(check.held)
    )


def _is_part(requirement: CriticRequirement) -> bool:
    """Return True for a required part, as opposed to something that makes an output wrong."""
    return requirement.expected not in (_HOLDS, _ABSENT)


def _missing(output: ToolOutput, unmet: CriticRequirement) -> Issue:
    counted = unmet.expected.startswith("at least")
    severity: Severity = "medium" if counted and unmet.share >= _NEARLY else "high"
    if counted:
        fix = f"add to {unmet.requirement} in {output.name} until there are {unmet.expected}, none of them twice"
    elif unmet.actual.startswith("no check"):
        fix = f"name a check that shows it: {unmet.requirement}"
    else:
        fix = f"add {unmet.requirement} to {output.name}"
    return Issue(
        category="completeness",
        severity=severity,
        description=f"{unmet.requirement}: {unmet.actual}, must be {unmet.expected}",
        suggested_fix=fix,
    )


def _unfinished(output: ToolOutput) -> Iterator[Issue]:
    """Yield what the output itself marks as unfinished."""
    findings = [
        (f"{marker!r} says that something is still to be done", "do it, or say it is left out")
        for marker in output.left_open
    ]
    findings += [
        (f"nothing stands below the heading {title!r}", "write the section, or take it out")
        for title in outputs.bare_sections(output)
    ]
    for text, fix in findings[:_MOST_ISSUES]:
        yield Issue(category="completeness", severity="low", description=text, suggested_fix=fix)


# Errors -----------------------------------------------------------------------------------------------------------


def _wrong(output: ToolOutput, required: Requirements, checked: Sequence[CriticCheck]) -> Iterator[Issue]:
    if output.fault:
        yield _issue("high", output.fault, f"write {output.name} again, so that it can be read")
    for check in checked:
        if not check.held:
            yield _issue("high", f"check {check.name}: {check.reason}", f"make check {check.name} pass")
    for forbidden in required.must_not_have:
        if outputs.mentions(output, forbidden):
            yield _issue("medium", f"it holds {forbidden!r}, and must not", f"take {forbidden!r} out")
    for place in required.min_items:
        items = outputs.items(output, place)
        if len(set(items)) < len(items):
            times = len(items) - len(set(items))
            yield _issue("medium", f"{place or 'items'}: {times} stand there twice", "take out what is repeated")


def _issue(severity: Severity, description: str, fix: str) -> Issue:
    return Issue(category="correctness", severity=severity, description=description, suggested_fix=fix)


def _off_target(output: ToolOutput, required: Requirements) -> Iterator[Issue]:
    """Yield what no repair can fix: the output is not the requested work."""
    descriptions = []
    if required.about and not output.hollow and not any(outputs.mentions(output, topic) for topic in required.about):
        descriptions.append(f"it is not about what was asked: none of {', '.join(required.about)} occurs")
    if required.may_change and not matches_any(output.name, required.may_change):
        descriptions.append(f"{output.name} is outside of what may be changed")
    if matches_any(output.name, required.must_not_change):
        descriptions.append(f"{output.name} must not be changed")
    for text in descriptions:
        yield Issue(
            category="direction",
            severity="high",
            description=text,
            suggested_fix="go back to the goal, and start again",
        )


def _ticket(report: CriticReport, required: Requirements, about: Identity) -> Ticket:
    context = [f"the output: {report.target}", f"the requirements: {about.source}" if about.source else ""]
    context += [f"the goal: {required.goal}" if required.goal else ""]
    return Ticket(
        ticket_id=about.ticket_id,
        verdict=report.verdict,
        quality_score=report.quality_score,
        issues=report.issues,
        repair_plan=tickets.repair_plan(report.issues),
        context_needed=tuple(filter(None, context)),
        target=report.target,
        target_step=about.step,
    )
