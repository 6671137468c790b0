"""Judge one change by sealed runs. This loads all that judges, which a change that was proven before does not need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reflectloop.artifacts import next_command
from reflectloop.config import Config
from reflectloop.engine.gating import danger_policy, sealed_environment
from reflectloop.engine.gating.sealed_environment import SealedEnvironment
from reflectloop.errors import ReflectloopError
from reflectloop.gates import decisions, rules
from reflectloop.gates.decisions import Gate
from reflectloop.sandbox import editable_installs
from reflectloop.system import cgroup
from reflectloop.terms import Isolation, Track
from reflectloop.verification import protected, setup, strands
from reflectloop.verification.check_runner import CheckRunner
from reflectloop.verification.evidence_chain import Chain
from reflectloop.verification.fresh_workspaces import WorkspaceFactory
from reflectloop.verification.progress import Times
from reflectloop.verification.quick import QuickVerification
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.sealed import SealedVerification
from reflectloop.verification.sealed_trees import VerificationInput
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.verification.verdict import Verdict
from reflectloop.workspace import carry, layers


def judge(
    stage: SealedEnvironment, case: VerificationInput, chain: Chain, commit: str, plan_hash: str | None = None
) -> Verdict:
    """Return the sealed verdict on one change."""
    if case.checks or case.named:
        stage.settings.refuse_without("verify.setup", "verify.checks")
    cgroup.sweep()
    notes = _refuse_tracked(stage, case)
    beside = sealed_environment.beside(stage, case.checks, notes)
    ground = WorkspaceFactory(
        stage.name, stage.project, stage.trees, stage.settings, stage.wall, stage.caller, stage.root, commit, beside
    )
    if stage.wall.level is Isolation.FULL:  # commands side by side share neither network nor temporary files
        layers.allow(stage.settings.workspace)
        ground.strands.width = strands.cores()
    runs = CheckRunner(
        ground,
        stage.cache / "verify",
        stage.logs,
        lambda installed: sealed_environment.surroundings(stage, case.base, beside, installed),
        case.base,
        stage.observer,
        Times(stage.cache / "verify-times.json"),
        _expected_runs(stage.trees, case),
        notes=notes,
    )
    sealed = (QuickVerification if case.quick else SealedVerification)(case, runs, chain, plan_hash)
    if stage.settings.verify.setup:
        runs.carried = _SetUp(ground, stage, case.base)
    elif not stage.wall.mounted:
        editable_installs.refuse_editable_installs(
            stage.project.root, stage.caller, [Path(name) for name in stage.settings.workspace.carry]
        )
    with ground, runs:
        return sealed.judge()


def _refuse_tracked(stage: SealedEnvironment, case: VerificationInput) -> set[str]:
    """Raise if settings carry a path that git tracks on either side; return remarks about what is carried."""
    git, settings = stage.trees.git, stage.settings.workspace
    plans = [
        carry.plan_carry(stage.project, settings, git, tree, base=case.base, bound=True)
        for tree in (case.head, case.base)
    ]
    return set(plans[-1].notes)


def _expected_runs(trees: TreeBuilder, case: VerificationInput) -> int:
    """Return about how many runs a verification takes: base and patch, the patch's own tests, proof of a fix."""
    changed = (entry for entry in trees.changed_entries(case.base, case.head) if not entry.is_gone)
    has_tests = any(protected.is_test(entry.path) for entry in changed)
    tests = sum(check.kind == "test" for check in case.checks)
    own = 2 * tests if has_tests else 0
    again = 3 if case.track is Track.FIX and tests else 0  # red twice, green once
    looks_back = case.track in (Track.FIX, Track.FEATURE)
    named = sum(2 if check.red_on_base or looks_back else 1 for check in case.named.values())
    return 2 * len(case.checks) + own + again + named


class _SetUp(dict[str, Mapping[Path, Path]]):
    """Sets a tree's dependencies up when they are first needed."""

    def __init__(self, ground: WorkspaceFactory, stage: SealedEnvironment, base: str) -> None:
        super().__init__()
        self._ground, self._stage, self._base = ground, stage, base

    def get(self, tree: str, default: Any = None) -> Any:  # noqa: ANN401, ARG002
        if tree not in self:
            stage = self._stage
            self[tree] = setup.made(self._ground, tree, self._base, stage.cache / "setup", stage.logs, stage.observer)
        return self[tree]


def runs_by_itself(
    settings: Config, root: Path, changes: Sequence[ChangedFile], installed: Sequence[str]
) -> Iterator[str]:
    """Yield what a person must decide: files of the change that run without anybody starting them by name."""
    reasons = rules.change_reasons(changes, danger_policy.of(settings, root), installed)
    prefix = f"security.{rules.AUTORUN}"
    yield from dict.fromkeys(str(reason) for reason in reasons if reason.rule.startswith(prefix))


def as_error(verdict: Verdict, run_id: str) -> ReflectloopError | None:
    """Return the error of a verdict that is not PASS."""
    reasons = [
        decisions.GateReason(reason.decision, "sealed", reason.text, finding=reason.finding, unjudged=reason.unjudged)
        for reason in verdict.reasons
    ]
    next_step = "reflectloop verify" if verdict.provisional else next_command.after_verdict(verdict.outcome, run_id)
    return decisions.as_error(decisions.make_ruling(Gate.PROOF, reasons), next_step)
