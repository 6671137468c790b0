"""Says what a plan must prove at the end of its run. Pure."""

from __future__ import annotations

from reflectloop.plan.model import Check, Plan
from reflectloop.plan.order import sequence
from reflectloop.terms import Track


def is_verified(plan: Plan) -> bool:
    """Return whether the change is verified sealed: always, except a `direct` plan without verification and checks."""
    if plan.verification:
        return plan.verification.mode != "none"
    return plan.settled_track is not Track.DIRECT or bool(final_checks(plan))


def is_judged(plan: Plan) -> bool:
    """Return whether the gates judge the change: it is to be verified, or the plan sets boundaries."""
    return is_verified(plan) or bool(plan.may_change or plan.must_not_change)


def final_checks(plan: Plan) -> dict[str, Check]:
    """Return the named checks that must pass at the end, without those of a step's output or last expected to fail."""
    order = sequence({step.id: step.depends_on for step in plan.steps})
    steps = {step.id: step for step in plan.steps}
    last = {wanted.name: wanted.must_fail for name in order for wanted in plan.checks_of(steps[name])}
    return {name: check for name, check in plan.checks.items() if not last.get(name, False) and check.stands_alone}
