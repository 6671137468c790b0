"""The last word of a run: its change judged by sealed runs. Imported when it is asked for: judging loads a lot."""

from __future__ import annotations

from collections.abc import Sequence

from reflectloop import config
from reflectloop.flow import seal
from reflectloop.flow import verify as verifying
from reflectloop.flow.verify import Stage
from reflectloop.plan.model import Plan
from reflectloop.terms import Track
from reflectloop.verify.evidence import Chain
from reflectloop.verify.result import Detected
from reflectloop.verify.sealed import Case
from reflectloop.verify.verdict import Verdict

# Which kinds of the project's own checks a plan's `verification` asks for.
_KINDS = {
    "lint": ("lint", "type"),
    "test": ("build", "test"),
    "build": ("build",),
    "custom": (),
    "none": (),
    None: ("build", "lint", "type", "test", "custom"),
}


def judge(stage: Stage, plan: Plan, base: str, end: str, chain: Chain, commit: str) -> Verdict:
    """What comes of a plan's change."""
    tree = verifying.seen_by_detector(stage.trees, base)
    found = verifying.known_checks(stage.settings, tree, stage.project.root, stage.caller)
    return verifying.judge(stage, _case(plan, base, end, found, stage.settings), chain, commit, plan.hash)


def _kinds(plan: Plan) -> Sequence[str]:
    """Of the checks that the project itself has; a direct plan that names its own needs no others."""
    if plan.verification:
        return _KINDS[plan.verification.mode]
    return () if plan.settled_track is Track.DIRECT else _KINDS[None]


def _case(plan: Plan, base: str, head: str, found: Sequence[Detected], settings: config.Config) -> Case:
    wanted = _kinds(plan)
    return Case(
        base,
        head,
        [check for check in found if check.kind in wanted],
        plan.settled_track if plan.settled_track is not Track.DIRECT else None,
        lifted=plan.may_change_protected,
        protect=settings.verify.protect,
        required=frozenset(check.name for check in settings.verify.checks),
        named=seal.final_checks(plan),
        criteria={f"{item.id} {item.text}".strip(): item.check for item in plan.acceptance},
        has_setup=bool(settings.verify.setup),
    )
