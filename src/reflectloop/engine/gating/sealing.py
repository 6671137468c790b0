"""The last word of a run: its change judged by sealed runs. Imported when it is asked for: judging loads a lot."""

from __future__ import annotations

from collections.abc import Sequence

from reflectloop import config
from reflectloop.engine.gating import seal
from reflectloop.engine.gating import verify_command as verifying
from reflectloop.engine.gating.verify_command import SealedEnvironment
from reflectloop.plan.model import Plan
from reflectloop.terms import Track
from reflectloop.verification.evidence import Chain
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.sealed import VerificationInput
from reflectloop.verification.verdict import Verdict

# Which kinds of the project's own checks a plan's `verification` asks for.
_KINDS = {
    "lint": ("lint", "type"),
    "test": ("build", "test"),
    "build": ("build",),
    "custom": (),
    "none": (),
    None: ("build", "lint", "type", "test", "custom"),
}


def judge(
    stage: SealedEnvironment, plan: Plan, base: str, end: str, chain: Chain, commit: str, *, whole: bool = False
) -> Verdict:
    """What comes of a plan's change; `whole` asks for all checks that the project has, whatever the plan says."""
    tree = verifying.seen_by_detector(stage.trees, base)
    found = verifying.known_checks(stage.settings, tree, stage.project.root, stage.caller)
    return verifying.judge(
        stage,
        _case(plan, base, end, found if whole else _wanted(plan, found), stage.settings),
        chain,
        commit,
        plan.hash,
    )


def _wanted(plan: Plan, found: Sequence[DetectedCheck]) -> list[DetectedCheck]:
    """Of the checks that the project itself has; a direct plan that names its own needs no others."""
    if plan.verification:
        kinds: Sequence[str] = _KINDS[plan.verification.mode]
    else:
        kinds = () if plan.settled_track is Track.DIRECT else _KINDS[None]
    return [check for check in found if check.kind in kinds]


def _case(
    plan: Plan, base: str, head: str, found: Sequence[DetectedCheck], settings: config.Config
) -> VerificationInput:
    return VerificationInput(
        base,
        head,
        found,
        plan.settled_track if plan.settled_track is not Track.DIRECT else None,
        lifted=plan.may_change_protected,
        protect=settings.verify.protect,
        required=frozenset(check.name for check in settings.verify.checks),
        named=seal.final_checks(plan),
        criteria={f"{item.id} {item.text}".strip(): item.check for item in plan.acceptance},
        has_setup=bool(settings.verify.setup),
    )
