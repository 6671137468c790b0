"""The insight and retention gates; pure functions."""

from __future__ import annotations

from typing import Any

import pytest

from gate_builders import (
    GREEN,
    RED,
    GateRun,
    attempt,
    changed_file,
    check_insight,
    lines,
    make_contract,
    sealed_verdict,
)
from reflectloop.gates import insight, retention
from reflectloop.gates.attempt_limits import GateAttempt
from reflectloop.gates.decisions import Gate
from reflectloop.gates.insight import Anchor, Remark
from reflectloop.gates.proof import ProofInput
from reflectloop.plan.model import Plan
from reflectloop.terms import Decision, Track
from reflectloop.verification.evidence_chain import EvidenceRecord


@pytest.mark.parametrize(
    ("read", "changes", "why"),
    [
        (make_contract(Track.DIRECT), [changed_file(after=lines(500))], "track direct"),
        (make_contract(Track.FIX), [changed_file(after=lines(19))], "a fix of 19 line(s) in one file"),
        (make_contract(role="researcher"), [], "a researcher implements nothing"),
        (make_contract(role="planner"), [], "a planner implements nothing"),
        (make_contract(role="reviewer"), [], "a reviewer implements nothing"),
        (make_contract(Track.FIX), [changed_file(after=lines(20))], ""),
        (make_contract(Track.FIX), [changed_file(after=lines(2)), changed_file("b.py", after=lines(2))], ""),
        (make_contract(Track.FIX), [changed_file("a.bin", after="\0" * 9)], ""),
        (make_contract(Track.FEATURE), [changed_file(after=lines(3))], ""),
        (make_contract(Track.REFACTOR), [changed_file(after=lines(3))], ""),
    ],
)
def test_insight_is_skipped_for_these_reasons_and_no_others(read: Any, changes: Any, why: str) -> None:
    assert insight.skip_reason(read.contract, changes) == why


def test_a_feature_of_three_lines_never_skips_insight() -> None:
    assert GateRun(
        make_contract(Track.FEATURE),
        evidence=ProofInput(verdict=sealed_verdict(GREEN, GREEN)),
        changes=[changed_file(after=lines(3))],
    ).gates_run == ["戒", "定", "慧", "识"]


def test_a_request_for_speed_skips_nothing() -> None:
    hasty = make_contract(
        Track.FEATURE, goal="Round up, be quick, skip the review, 快速完成", questions=["can we skip 慧?"]
    )
    assert insight.skip_reason(hasty.contract, [changed_file()]) == ""
    assert "慧" in GateRun(hasty, evidence=ProofInput(verdict=sealed_verdict(GREEN, GREEN))).gates_run


def test_assumptions_without_a_passing_check_are_reported() -> None:
    read = make_contract(
        assumptions=["sizes are positive", {"text": "it rounds up", "check": "test_up"}, {"text": "x", "check": "gone"}]
    )
    assert check_insight(read).unproven == ("sizes are positive", "x")
    assert "unproven: sizes are positive" in check_insight(read).feedback


def test_a_repeated_problem_becomes_an_anchor() -> None:
    past = [
        attempt(Decision.RETRY, 1, text="test_up fails in 3 ms"),
        attempt(Decision.RETRY, 2, text="test_up fails in 71 ms"),
    ]
    result = check_insight(past=past)
    assert [anchor.kind for anchor in result.anchors if "test_up" in anchor.text] == ["P"]
    assert any(text.startswith("again: test_up fails") for text in result.feedback)
    assert not any("again" in text for text in check_insight(past=past[:1]).feedback)


def test_two_contradicting_rules_become_a_rule_patch() -> None:
    (patch, *_) = check_insight(make_contract(may_change=["*.py"], must_not_change=["app.py"])).patches
    assert patch._asdict().keys() == {"action", "target", "rule", "reason", "priority"}
    assert (patch.action, patch.target, patch.priority) == ("tighten", "may_change", "HIGH")
    assert "app.py is in may_change and in must_not_change" in patch.reason


def test_a_protected_file_named_in_may_change_is_a_conflict_of_rules() -> None:
    (patch,) = check_insight(make_contract(may_change=["app.py", "tests/test_app.py"])).patches
    assert (patch.action, patch.target) == ("loosen", "may_change_protected")


def test_a_boundary_that_allows_everything_should_be_tightened() -> None:
    (patch,) = check_insight(make_contract(may_change=["**"])).patches
    assert (patch.action, patch.rule) == ("tighten", "app.py")


def test_steps_that_could_run_in_parallel_are_reported() -> None:
    steps = [{"id": name, "commands": ["true"]} for name in ("a", "b", "c")]
    plan = Plan.model_validate({"title": "T", "steps": steps})
    spent = {"a": 4000, "b": 3000, "c": 2000}
    (feedback,) = check_insight(plan=plan, durations_ms=spent).feedback
    assert "steps a, b, c do not depend on each other: --jobs 3 would save 5.0 s" in feedback
    assert check_insight(plan=plan, durations_ms=spent, jobs=3).feedback == ()


def test_a_check_that_ran_twice_on_one_tree_is_reported() -> None:
    record = EvidenceRecord(
        claim="x",
        level="L2",
        kind="test",
        command=("pytest",),
        exit_code=0,
        tree="t",
        base_tree="b",
        plan_hash=None,
        output_sha256=None,
        isolation="full",
        started="",
        duration_ms=3000,
    )
    assert check_insight(records=[record, record]).feedback == ("ran 2 times on one tree: pytest",)
    assert check_insight(records=[record, record.model_copy(update={"tree": "u"})]).feedback == ()


@pytest.mark.parametrize(
    ("level", "tests", "grade"),
    [
        ("L3", {"test_empty": "passed", "test_invalid_input_is_refused": "passed"}, "A"),
        ("L2", {"test_empty": "passed", "test_invalid": "passed"}, "B"),
        ("L3", {"test_up": "passed", "test_empty": "passed"}, "B"),
        ("L3", {"test_up": "passed"}, "C"),
        ("L2", {}, "C"),
        ("L1", {"test_empty": "passed", "test_invalid": "passed"}, "D"),
        ("L0", {}, "D"),
    ],
)
def test_the_grade_depends_on_level_and_edge_and_error_tests(level: str, tests: dict[str, Any], grade: str) -> None:
    assert check_insight(level=level, verdict=sealed_verdict(tests, tests)).grade == grade


def test_features_and_refactorings_anchor_decisions_and_fixes_a_problem() -> None:
    assert [anchor.kind for anchor in check_insight(make_contract(Track.FEATURE)).anchors] == ["D"]
    assert [anchor.kind for anchor in check_insight(make_contract(Track.REFACTOR)).anchors] == ["D"]
    (problem,) = check_insight(make_contract(Track.FIX), verdict=sealed_verdict(RED, GREEN, Track.FIX)).anchors
    assert (problem.kind, "test_up" in problem.text) == ("P", True)


def test_interfaces_constraints_and_root_causes_become_anchors() -> None:
    past = [GateAttempt("R", "proof", "RETRY", ("a",), (), 0, "the cache was stale")]
    result = check_insight(breaks=["pkg.f: gone"], past=past, remarks=[Remark("constraint", "sizes are positive")])
    assert {anchor.kind for anchor in result.anchors} == {"D", "I", "M", "C"}


@pytest.mark.parametrize(
    ("kind", "gate"),
    [
        ("security", Gate.RULES),
        ("contract", Gate.RULES),
        ("evidence", Gate.PROOF),
        ("scenario", Gate.PROOF),
        ("efficiency", None),
        ("constraint", None),
    ],
)
def test_a_missed_problem_goes_back_to_its_gate_and_other_remarks_are_recorded(kind: Any, gate: Gate | None) -> None:
    run = GateRun(
        make_contract(Track.FEATURE),
        evidence=ProofInput(verdict=sealed_verdict(GREEN, GREEN)),
        remarks=[[Remark(kind, "missed")]],
    )
    assert [backtrack.gate for backtrack in run.report.backtracks] == ([gate] if gate else [])
    again = {Gate.RULES: ["戒", "定", "慧"], Gate.PROOF: ["定", "慧"], None: []}[gate]
    assert run.gates_run == ["戒", "定", "慧", *again, "识"]
    assert run.report.decision is Decision.PASS


def test_flaky_evidence_that_the_proof_needs_goes_back_to_proof() -> None:
    result = check_insight(verdict=sealed_verdict(GREEN, GREEN, flaky=("test_up",)))
    assert result.backtrack
    assert insight.BACK[result.backtrack.kind] is Gate.PROOF
    assert "test_up is flaky" in result.backtrack.text
    assert check_insight(verdict=sealed_verdict(GREEN, GREEN, flaky=("test_other",))).backtrack is None


def test_a_criterion_whose_check_passed_no_test_goes_back_to_proof() -> None:
    read = make_contract(acceptance=[{"id": "A", "text": "x", "check": "pytest"}])
    result = check_insight(read, verdict=sealed_verdict({"test_up": "passed"}, {}))
    assert result.backtrack
    assert result.backtrack.kind == "scenario"


@pytest.mark.parametrize(
    ("anchor", "before", "why"),
    [
        (Anchor("D", "x"), 0, ""),
        (Anchor("D", "x"), 1, "seen 2 times"),
        (Anchor("D", "x", impact=True), 0, "large impact"),
        (Anchor("P", "x", reusable=True), 0, "reusable"),
    ],
)
def test_only_anchors_above_the_threshold_are_kept(anchor: Anchor, before: int, why: str) -> None:
    result = retention.select_anchors([anchor], {anchor.signature: before}, {})
    assert [retained.why for retained in result.retained] == ([why] if why else [])
    assert result.waiting == (() if why else (anchor,))


def test_anchors_are_numbered_by_kind_and_keep_their_number() -> None:
    known = {Anchor("D", "old").signature: "D007"}
    result = retention.select_anchors(
        [Anchor("D", "old", True), Anchor("D", "new", True), Anchor("P", "new", True)], {}, known
    )
    assert [retained.id for retained in result.retained] == ["D007", "D008", "P001"]
    page = retention.anchors_page(result.retained, "<!-- head -->")
    assert "## Decisions" in page
    assert "**D008** new (large impact)" in page
