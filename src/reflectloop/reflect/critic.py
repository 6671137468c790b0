"""Judges an output by its requirements: computed scores, a verdict, and a rewind ticket where it must be done again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from reflectloop.plan.globs import named
from reflectloop.reflect import output as outputs
from reflectloop.reflect import ticket as tickets
from reflectloop.reflect.output import Output
from reflectloop.reflect.requirements import Requirements
from reflectloop.reflect.ticket import Issue, Severity, Ticket, Verdict

_COSTS: dict[Severity, float] = {"high": 0.4, "medium": 0.15, "low": 0.05}
_HOPELESS = 0.3
_NEARLY = 0.75  # of what is asked for: too few, but not far too few
_SHOWN = 10


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Requirement(_Value):
    """One thing that was asked for, and what was found."""

    requirement: str
    expected: str
    actual: str
    met: bool
    share: float  # how much of it is there, from 0 to 1


class Details(_Value):
    required: int
    met: int
    each: tuple[Requirement, ...]


class Completeness(_Value):
    score: float
    requirements_met: bool
    issues: tuple[Issue, ...]
    details: Details


class Correctness(_Value):
    score: float
    issues: tuple[Issue, ...]


class CriticReport(_Value):
    evaluation_id: str
    timestamp: str
    target: str
    completeness: Completeness
    correctness: Correctness
    quality_score: float
    verdict: Verdict
    rewind_ticket: Ticket | None

    @property
    def issues(self) -> tuple[Issue, ...]:
        return tickets.gravest_first((*self.completeness.issues, *self.correctness.issues))


class Checked(NamedTuple):
    """What came of one check that the engine ran."""

    name: str
    held: bool
    reason: str


class Identity(NamedTuple):
    """Names and time, passed in."""

    evaluation_id: str
    ticket_id: str
    timestamp: str
    source: str = ""  # where the requirements stand
    step: str | None = None


def evaluate(output: Output, asked: Requirements, checked: Sequence[Checked], about: Identity) -> CriticReport:
    found = (*_looked_for(output, asked), *(_as_requirement(one) for one in checked))
    missing = (*(_missing(output, one) for one in found if not one.met and _is_part(one)), *_unfinished(output))
    wrong = tuple(_wrong(output, asked, checked))
    completeness = Completeness(
        score=_score(sum(one.share for one in found) / len(found) if found else 1.0, missing),
        requirements_met=all(one.met for one in found) and not output.fault,
        issues=(*missing, *_astray(output, asked)),
        details=Details(required=len(found), met=sum(one.met for one in found), each=found),
    )
    # Of what holds nothing, nothing is known to be right.
    correctness = Correctness(score=0.0 if output.hollow else _score(1.0, wrong), issues=wrong)
    quality = round((completeness.score + correctness.score) / 2, 3)
    report = CriticReport(
        evaluation_id=about.evaluation_id,
        timestamp=about.timestamp,
        target=output.name,
        completeness=completeness,
        correctness=correctness,
        quality_score=quality,
        verdict=_verdict(quality, completeness, asked.min_quality),
        rewind_ticket=None,
    )
    ticket = _ticket(report, asked, about) if report.verdict != Verdict.PASS else None
    return report.model_copy(update={"rewind_ticket": ticket})


def _score(share: float, issues: Iterable[Issue]) -> float:
    return round(max(0.0, share - sum(_COSTS[one.severity] for one in issues)), 3)


def _verdict(quality: float, completeness: Completeness, bar: float) -> Verdict:
    if quality < _HOPELESS or any(one.category == "direction" for one in completeness.issues):
        return Verdict.REJECT
    return Verdict.PASS if completeness.requirements_met and quality >= bar else Verdict.REVISE


# What is missing --------------------------------------------------------------------------------------------------


def _looked_for(output: Output, asked: Requirements) -> Iterator[Requirement]:
    for place, count in asked.min_items.items():
        there = len(set(outputs.items(output, place)))  # the same thing twice is one thing
        yield Requirement(
            requirement=place or "items",
            expected=f"at least {count}",
            actual=str(there),
            met=there >= count,
            share=min(1.0, there / count),
        )
    for part in asked.must_have:
        there = outputs.has(output, part)
        yield Requirement(
            requirement=part,
            expected="there, and not empty",
            actual="there" if there else "missing or empty",
            met=there,
            share=float(there),
        )
    for words in asked.must_not_have:
        there = outputs.mentions(output, words)
        yield Requirement(
            requirement=words,
            expected=_ABSENT,
            actual="there" if there else "not there",
            met=not there,
            share=float(not there),
        )
    for text in asked.unshown:
        yield Requirement(
            requirement=text, expected="shown by a check", actual="no check shows it", met=False, share=0.0
        )


_HOLDS, _ABSENT = "holds", "not there"


def _as_requirement(one: Checked) -> Requirement:
    return Requirement(
        requirement=f"check {one.name}", expected=_HOLDS, actual=one.reason, met=one.held, share=float(one.held)
    )


def _is_part(one: Requirement) -> bool:
    """As opposed to what makes an output wrong, not incomplete."""
    return one.expected not in (_HOLDS, _ABSENT)


def _missing(output: Output, one: Requirement) -> Issue:
    counted = one.expected.startswith("at least")
    severity: Severity = "medium" if counted and one.share >= _NEARLY else "high"
    if counted:
        fix = f"add to {one.requirement} in {output.name} until there are {one.expected}, none of them twice"
    elif one.actual.startswith("no check"):
        fix = f"name a check that shows it: {one.requirement}"
    else:
        fix = f"add {one.requirement} to {output.name}"
    return Issue(
        category="completeness",
        severity=severity,
        description=f"{one.requirement}: {one.actual}, must be {one.expected}",
        suggested_fix=fix,
    )


def _unfinished(output: Output) -> Iterator[Issue]:
    """What an output says itself is not done."""
    said = [
        (f"{one!r} says that something is still to be done", "do it, or say it is left out") for one in output.left_open
    ]
    said += [
        (f"nothing stands below the heading {title!r}", "write the section, or take it out")
        for title in outputs.bare_sections(output)
    ]
    for text, fix in said[:_SHOWN]:
        yield Issue(category="completeness", severity="low", description=text, suggested_fix=fix)


# What is wrong ----------------------------------------------------------------------------------------------------


def _wrong(output: Output, asked: Requirements, checked: Sequence[Checked]) -> Iterator[Issue]:
    if output.fault:
        yield _issue("high", output.fault, f"write {output.name} anew, so that it can be read")
    for one in checked:
        if not one.held:
            yield _issue("high", f"check {one.name}: {one.reason}", f"make check {one.name} hold")
    for words in asked.must_not_have:
        if outputs.mentions(output, words):
            yield _issue("medium", f"it holds {words!r}, and must not", f"take {words!r} out")
    for place in asked.min_items:
        there = outputs.items(output, place)
        if len(set(there)) < len(there):
            times = len(there) - len(set(there))
            yield _issue("medium", f"{place or 'items'}: {times} stand there twice", "take out what is repeated")


def _issue(severity: Severity, description: str, fix: str) -> Issue:
    return Issue(category="correctness", severity=severity, description=description, suggested_fix=fix)


def _astray(output: Output, asked: Requirements) -> Iterator[Issue]:
    """What no amount of mending makes good: it is another work than was asked for."""
    said = []
    if asked.about and not output.hollow and not any(outputs.mentions(output, words) for words in asked.about):
        said.append(f"it is not about what was asked: none of {', '.join(asked.about)} occurs")
    if asked.may_change and not named(output.name, asked.may_change):
        said.append(f"{output.name} is outside of what may be changed")
    if named(output.name, asked.must_not_change):
        said.append(f"{output.name} must not be changed")
    for text in said:
        yield Issue(
            category="direction", severity="high", description=text, suggested_fix="go back to the goal, and begin anew"
        )


def _ticket(report: CriticReport, asked: Requirements, about: Identity) -> Ticket:
    context = [f"the output: {report.target}", f"the requirements: {about.source}" if about.source else ""]
    context += [f"the goal: {asked.goal}" if asked.goal else ""]
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
