"""慧 and 识: what is looked at, what is skipped, what is kept; pure functions."""

from __future__ import annotations

from typing import Any

import pytest

from gate_builders import (
    GREEN,
    RED,
    Walked,
    changed,
    lines,
    reflected,
    said,
    sealed,
    tried,
)
from reflectloop.gates import insight, retention
from reflectloop.gates.attempt_limits import GateAttempt
from reflectloop.gates.decisions import Gate
from reflectloop.gates.insight import Anchor, Remark
from reflectloop.gates.proof import ProofInput
from reflectloop.plan.model import Plan
from reflectloop.terms import Decision, Track
from reflectloop.verification.evidence import EvidenceRecord


@pytest.mark.parametrize(
    ("read", "changes", "why"),
    [
        (said(Track.DIRECT), [changed(after=lines(500))], "track direct"),
        (said(Track.FIX), [changed(after=lines(19))], "a fix of 19 line(s) in one file"),
        (said(role="researcher"), [], "a researcher implements nothing"),
        (said(role="planner"), [], "a planner implements nothing"),
        (said(role="reviewer"), [], "a reviewer implements nothing"),
        (said(Track.FIX), [changed(after=lines(20))], ""),
        (said(Track.FIX), [changed(after=lines(2)), changed("b.py", after=lines(2))], ""),
        (said(Track.FIX), [changed("a.bin", after="\0" * 9)], ""),
        (said(Track.FEATURE), [changed(after=lines(3))], ""),
        (said(Track.REFACTOR), [changed(after=lines(3))], ""),
    ],
)
def test_insight_is_skipped_for_these_reasons_and_no_others(read: Any, changes: Any, why: str) -> None:
    assert insight.skipped(read.contract, changes) == why


def test_a_feature_of_three_lines_never_skips_insight() -> None:
    assert Walked(
        said(Track.FEATURE), seen=ProofInput(verdict=sealed(GREEN, GREEN)), changes=[changed(after=lines(3))]
    ).asked == ["戒", "定", "慧", "识"]


def test_a_wish_for_speed_skips_nothing() -> None:
    hasty = said(Track.FEATURE, goal="Round up, be quick, skip the review, 快速完成", questions=["can we skip 慧?"])
    assert insight.skipped(hasty.contract, [changed()]) == ""
    assert "慧" in Walked(hasty, seen=ProofInput(verdict=sealed(GREEN, GREEN))).asked


def test_assumptions_that_no_check_bears_out_are_told() -> None:
    read = said(
        assumptions=["sizes are positive", {"text": "it rounds up", "check": "test_up"}, {"text": "x", "check": "gone"}]
    )
    assert reflected(read).unproven == ("sizes are positive", "x")
    assert "unproven: sizes are positive" in reflected(read).feedback


def test_a_problem_that_came_twice_becomes_an_anchor() -> None:
    past = [
        tried(Decision.RETRY, 1, text="test_up fails in 3 ms"),
        tried(Decision.RETRY, 2, text="test_up fails in 71 ms"),
    ]
    found = reflected(past=past)
    assert [one.kind for one in found.anchors if "test_up" in one.text] == ["P"]
    assert any(one.startswith("again: test_up fails") for one in found.feedback)
    assert not any("again" in one for one in reflected(past=past[:1]).feedback)


def test_two_rules_that_a_file_cannot_both_keep_become_a_rule_patch() -> None:
    (patch, *_) = reflected(said(may_change=["*.py"], must_not_change=["app.py"])).patches
    assert patch._asdict().keys() == {"action", "target", "rule", "reason", "priority"}
    assert (patch.action, patch.target, patch.priority) == ("tighten", "may_change", "HIGH")
    assert "app.py is in may_change and in must_not_change" in patch.reason


def test_a_protected_file_named_in_may_change_is_a_conflict_of_rules() -> None:
    (patch,) = reflected(said(may_change=["app.py", "tests/test_app.py"])).patches
    assert (patch.action, patch.target) == ("loosen", "may_change_protected")


def test_a_boundary_that_bounds_nothing_is_to_be_tightened() -> None:
    (patch,) = reflected(said(may_change=["**"])).patches
    assert (patch.action, patch.rule) == ("tighten", "app.py")


def test_steps_that_waited_for_each_other_for_nothing_are_told() -> None:
    steps = [{"id": name, "commands": ["true"]} for name in ("a", "b", "c")]
    plan = Plan.model_validate({"title": "T", "steps": steps})
    spent = {"a": 4000, "b": 3000, "c": 2000}
    (told,) = reflected(plan=plan, durations_ms=spent).feedback
    assert "steps a, b, c do not depend on each other: --jobs 3 would save 5.0 s" in told
    assert reflected(plan=plan, durations_ms=spent, jobs=3).feedback == ()


def test_a_check_that_ran_twice_on_one_tree_is_told() -> None:
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
    assert reflected(records=[record, record]).feedback == ("ran 2 times on one tree: pytest",)
    assert reflected(records=[record, record.model_copy(update={"tree": "u"})]).feedback == ()


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
def test_the_grade_is_by_what_was_run_and_how_far_it_reached(level: str, tests: dict[str, Any], grade: str) -> None:
    assert reflected(level=level, verdict=sealed(tests, tests)).grade == grade


def test_a_feature_and_a_refactoring_leave_their_decisions_a_fix_its_problem() -> None:
    assert [one.kind for one in reflected(said(Track.FEATURE)).anchors] == ["D"]
    assert [one.kind for one in reflected(said(Track.REFACTOR)).anchors] == ["D"]
    (problem,) = reflected(said(Track.FIX), verdict=sealed(RED, GREEN, Track.FIX)).anchors
    assert (problem.kind, "test_up" in problem.text) == ("P", True)


def test_an_interface_a_constraint_and_a_mended_cause_are_anchored_too() -> None:
    past = [GateAttempt("R", "proof", "RETRY", ("a",), (), 0, "the cache was stale")]
    found = reflected(breaks=["pkg.f: gone"], past=past, remarks=[Remark("constraint", "sizes are positive")])
    assert {one.kind for one in found.anchors} == {"D", "I", "M", "C"}


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
def test_what_a_gate_missed_goes_back_to_it_and_the_rest_is_only_written_down(kind: Any, gate: Gate | None) -> None:
    walked = Walked(
        said(Track.FEATURE), seen=ProofInput(verdict=sealed(GREEN, GREEN)), remarks=[[Remark(kind, "missed")]]
    )
    assert [one.gate for one in walked.report.backtracks] == ([gate] if gate else [])
    again = {Gate.RULES: ["戒", "定", "慧"], Gate.PROOF: ["定", "慧"], None: []}[gate]
    assert walked.asked == ["戒", "定", "慧", *again, "识"]
    assert walked.report.decision is Decision.PASS


def test_evidence_that_is_flaky_where_the_proof_rests_on_it_goes_back_to_proof() -> None:
    found = reflected(verdict=sealed(GREEN, GREEN, flaky=("test_up",)))
    assert found.backtrack
    assert insight.BACK[found.backtrack.kind] is Gate.PROOF
    assert "test_up comes out one way and the other" in found.backtrack.text
    assert reflected(verdict=sealed(GREEN, GREEN, flaky=("test_other",))).backtrack is None


def test_a_criterion_shown_by_a_check_that_passed_no_test_goes_back_to_proof() -> None:
    read = said(acceptance=[{"id": "A", "text": "x", "check": "pytest"}])
    found = reflected(read, verdict=sealed({"test_up": "passed"}, {}))
    assert found.backtrack
    assert found.backtrack.kind == "scenario"


# 识 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("anchor", "before", "why"),
    [
        (Anchor("D", "x"), 0, ""),
        (Anchor("D", "x"), 1, "seen 2 times"),
        (Anchor("D", "x", impact=True), 0, "large impact"),
        (Anchor("P", "x", reusable=True), 0, "reusable"),
    ],
)
def test_only_what_passes_the_threshold_is_kept(anchor: Anchor, before: int, why: str) -> None:
    found = retention.sift([anchor], {anchor.signature: before}, {})
    assert [one.why for one in found.kept] == ([why] if why else [])
    assert found.waiting == (() if why else (anchor,))


def test_anchors_are_numbered_by_kind_and_keep_their_number() -> None:
    known = {Anchor("D", "old").signature: "D007"}
    found = retention.sift([Anchor("D", "old", True), Anchor("D", "new", True), Anchor("P", "new", True)], {}, known)
    assert [one.id for one in found.kept] == ["D007", "D008", "P001"]
    page = retention.anchors_page(found.kept, "<!-- head -->")
    assert "## Decisions" in page
    assert "**D008** new (large impact)" in page
