"""Builds steps of a plan from drafts: what an agent or a FileOps request says of a step in a title and shell lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from reflectloop.plan.model import Acceptance, Agent, Argv, Check, Plan, Step, StepCheck


class StepDraft(Protocol):
    """One step: who drafts it names commands where no agent is needed, and commands that exit 0 once it is done."""

    @property
    def title(self) -> str: ...
    @property
    def details(self) -> str: ...
    @property
    def done(self) -> Sequence[str]: ...
    @property
    def commands(self) -> Sequence[str | Argv]: ...
    @property
    def checks(self) -> Sequence[str | Argv]: ...


class DraftedSteps(NamedTuple):
    steps: tuple[Step, ...]
    checks: dict[str, Check]  # by name, so that they are also run on the whole change


class DraftedCriteria(NamedTuple):
    acceptance: tuple[Acceptance, ...]
    checks: dict[str, Check]


def build(drafts: Mapping[str, StepDraft]) -> DraftedSteps:
    """Return the steps, by id, and their checks."""
    steps: list[Step] = []
    checks: dict[str, Check] = {}
    for name, draft in drafts.items():
        named = {f"{_prefix(name)}{number}": Check(run=command) for number, command in enumerate(draft.checks, 1)}
        checks |= named
        steps.append(
            Step(
                id=name,
                title=draft.title,
                details=draft.details,
                commands=tuple(draft.commands),
                agent=None if draft.commands else Agent(prompt=draft.details or draft.title, tools=_tools(draft)),
                verify=(*(StepCheck(check=key) for key in named), *(StepCheck(claim=text) for text in draft.done)),
            )
        )
    return DraftedSteps(tuple(steps), checks)


def _tools(draft: StepDraft) -> tuple[str, ...]:
    return tuple(getattr(draft, "tools", ()))


def name_checks(plan: Plan) -> Plan:
    """Return the plan in which checks that steps wrote out have names, so that they also run on the whole change."""
    checks = dict(plan.checks)
    steps = []
    for step in plan.steps:
        verify = []
        for number, item in enumerate(step.verify, 1):
            if item.check or item.claim or item.expect == "fail":
                verify.append(item)
                continue
            name = f"{_prefix(step.id)}{number}"
            checks[name] = Check.model_validate(item.model_dump(exclude={"check", "expect", "claim"}))
            verify.append(StepCheck(check=name))
        steps.append(step.model_copy(update={"verify": tuple(verify)}))
    return plan.model_copy(update={"steps": tuple(steps), "checks": checks})


def drop_unused(plan: Plan, names: Iterable[str]) -> Plan:
    """Return the plan without the checks that `build` made for these steps and no step asks for any more."""
    used = {item.check for step in plan.steps for item in step.verify}
    drafted = {key for name in names for key in checks_drafted_for(name, plan.checks)}
    remaining = {key: check for key, check in plan.checks.items() if key in used or key not in drafted}
    return plan.model_copy(update={"checks": remaining})


def criteria(drafts: Mapping[str, tuple[str, str | Argv | None]]) -> DraftedCriteria:
    """Return acceptance criteria, by id, from their text and the command that shows each."""
    checks = {f"acceptance-{name}": Check(run=command) for name, (_, command) in drafts.items() if command}
    return DraftedCriteria(
        tuple(
            Acceptance(id=name, text=text, check=f"acceptance-{name}" if command else None)
            for name, (text, command) in drafts.items()
        ),
        checks,
    )


def checks_drafted_for(name: str, checks: Mapping[str, Check]) -> list[str]:
    """Return the names of the checks that `build` made for a step."""
    prefix = _prefix(name)
    return [key for key in checks if key.startswith(prefix) and key[len(prefix) :].isdigit()]


def _prefix(name: str) -> str:
    return f"step-{name}."
