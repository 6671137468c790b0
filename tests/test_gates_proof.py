"""The proof gate: levels, thresholds, and the needs of each track; pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_builders import (
    GREEN,
    RED,
    changed_file,
    check_proof,
    check_result,
    make_contract,
    no_check_verdict,
    sealed_verdict,
)
from reflectloop.gates import api
from reflectloop.gates.decisions import Ruling
from reflectloop.gates.proof import ProofInput
from reflectloop.terms import Decision, Track
from reflectloop.verification.verdict import PatchTests

ALL_GOOD = "All good, verified end-to-end, 15/15 passed"


def texts(ruling: Ruling) -> str:
    return " | ".join(str(reason) for reason in ruling.reasons)


def test_claims_without_a_run_are_l0_and_rejected() -> None:
    proof = check_proof(make_contract(), ProofInput(verdict=no_check_verdict(), report=ALL_GOOD))
    assert (proof.level, proof.ruling.decision) == ("L0", Decision.REDO)
    assert "L0" in texts(proof.ruling)


@pytest.mark.parametrize("hedge", ["It should work, and usually does.", "应该可以", "大概能用", "I think so, probably"])
def test_hedging_does_not_lower_a_passed_run(hedge: str) -> None:
    evidence = ProofInput(verdict=sealed_verdict(GREEN, GREEN), exits=True, report=hedge)
    proof = check_proof(make_contract(), evidence)
    assert (proof.level, proof.ruling.decision) == ("L3", Decision.PASS)
    step = check_proof(make_contract(Track.DIRECT), ProofInput(exits=True, report=hedge))
    assert (step.level, step.ruling.decision) == ("L2", Decision.PASS)


@pytest.mark.parametrize("hedge", ["This should work.", "应该可以", "大概能"])
def test_hedging_lowers_a_citation_to_l0(hedge: str) -> None:
    proof = check_proof(make_contract(), ProofInput(verdict=no_check_verdict(), cited=[True], report=hedge))
    assert (proof.level, proof.ruling.decision) == ("L0", Decision.REDO)


@pytest.mark.parametrize("track", [Track.FEATURE, Track.FIX, Track.REFACTOR])
def test_a_citation_where_a_run_is_needed_asks_for_the_check(track: Track) -> None:
    proof = check_proof(make_contract(track), ProofInput(cited=[True, True], report=ALL_GOOD))
    assert (proof.level, proof.ruling.decision) == ("L1", Decision.RETRY)
    assert "name a check" in texts(proof.ruling)


def test_a_citation_is_enough_on_the_direct_track() -> None:
    proof = check_proof(make_contract(Track.DIRECT), ProofInput(cited=[True]))
    assert (proof.level, proof.ruling.decision) == ("L1", Decision.PASS)


def test_a_direct_change_with_correct_files_changed_is_l1() -> None:
    assert check_proof(make_contract(Track.DIRECT), ProofInput(claim_correct=True)).level == "L1"
    assert check_proof(make_contract(Track.DIRECT), ProofInput(claim_correct=False)).ruling.decision is Decision.REDO
    assert check_proof(make_contract(Track.FEATURE), ProofInput(claim_correct=True)).level == "L0"


@pytest.mark.parametrize("track", Track)
def test_a_false_citation_is_l0(track: Track) -> None:
    proof = check_proof(make_contract(track), ProofInput(cited=[True, False], claim_correct=True))
    assert (proof.level, proof.ruling.decision) == ("L0", Decision.REDO)


@given(st.text(max_size=60), st.lists(st.booleans(), max_size=3), st.booleans(), st.sampled_from(Track))
def test_a_report_never_raises_the_level(
    report_text: str, cited: list[bool], claim_correct: bool, track: Track
) -> None:
    order = ("L0", "L1", "L2", "L3")
    plain = check_proof(make_contract(track), ProofInput(cited=cited, claim_correct=claim_correct)).level
    spoken = check_proof(
        make_contract(track), ProofInput(cited=cited, claim_correct=claim_correct, report=f"{ALL_GOOD} {report_text}")
    ).level
    assert order.index(spoken) <= order.index(plain) < order.index("L2")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("test", "newly failing"), ("build", "newly failing"), ("type", "newly failing")],
)
def test_a_failing_test_build_or_type_check_is_retried(kind: str, words: str) -> None:
    from reflectloop.verification import compare, verdict
    from reflectloop.verification.result import Detail, DetectedCheck, VerificationResult

    result_type = {"test": "test_failure", "build": "build_failure", "type": "type_error"}[kind]
    bad = VerificationResult.model_validate(
        {
            "ok": False,
            "type": result_type,
            "summary": "1 failed",
            "kind": kind,
            "tests": {"test_up": "failed"} if kind == "test" else {},
            "details": [Detail(error="wrong type")],
        }
    )
    good = check_result(kind=kind, test_up="passed") if kind == "test" else check_result(kind=kind)
    judged = verdict.CheckComparison(DetectedCheck(kind, kind, kind, (kind,)), good, bad, compare.compare(good, bad))  # type: ignore[arg-type]
    reasons = verdict.of_checks(
        [
            judged,
            judged._replace(
                check=DetectedCheck("t", "test", "t", ("t",)), sealed=good, comparison=compare.compare(good, good)
            ),
        ],
        None,
    )
    proof = check_proof(
        make_contract(), ProofInput(verdict=no_check_verdict()._replace(level="L3", reasons=tuple(reasons)), exits=True)
    )
    assert proof.ruling.decision is Decision.RETRY
    assert words in texts(proof.ruling)


def test_a_fix_is_red_on_base_and_green_after() -> None:
    assert (
        check_proof(make_contract(Track.FIX), ProofInput(verdict=sealed_verdict(RED, GREEN, Track.FIX))).ruling.decision
        is Decision.PASS
    )


def test_a_fix_without_a_newly_passing_test_is_not_proven() -> None:
    proof = check_proof(make_contract(Track.FIX), ProofInput(verdict=sealed_verdict(GREEN, GREEN, Track.FIX)))
    assert proof.ruling.decision is Decision.RETRY
    assert "nothing that failed on base passes now" in texts(proof.ruling)


def test_a_fix_whose_named_reproduction_did_not_turn_green_is_not_proven() -> None:
    other = make_contract(Track.FIX, reproduction={"test": "test_other"})
    proof = check_proof(other, ProofInput(verdict=sealed_verdict(RED, GREEN, Track.FIX)))
    assert proof.ruling.decision is Decision.RETRY
    assert "reproduction test_other does not fail on base and pass now" in texts(proof.ruling)


@pytest.mark.parametrize(("check", "decision"), [("pytest", Decision.PASS), ("ruff", Decision.RETRY)])
def test_a_fix_may_be_reproduced_by_a_whole_check(check: str, decision: Decision) -> None:
    evidence = ProofInput(verdict=sealed_verdict(RED, GREEN, Track.FIX))
    assert check_proof(make_contract(Track.FIX, reproduction={"check": check}), evidence).ruling.decision is decision


def test_a_fix_may_be_proven_by_a_test_it_adds() -> None:
    patch_tests = PatchTests(
        "pytest", check_result(ok=False, test_up="failed"), check_result(test_up="passed"), ("test_up",)
    )
    proof = check_proof(
        make_contract(Track.FIX),
        ProofInput(
            verdict=sealed_verdict({"test_other": "passed"}, {"test_other": "passed"}, Track.FIX, [patch_tests])
        ),
    )
    assert proof.ruling.decision is Decision.PASS


def test_a_fix_that_breaks_another_test_is_rejected() -> None:
    proof = check_proof(
        make_contract(Track.FIX),
        ProofInput(verdict=sealed_verdict(RED, {"test_up": "passed", "test_other": "failed"}, Track.FIX)),
    )
    assert proof.ruling.decision is Decision.RETRY
    assert "test_other" in texts(proof.ruling)


def test_a_refactoring_that_changes_an_outcome_is_rejected() -> None:
    proof = check_proof(make_contract(Track.REFACTOR), ProofInput(verdict=sealed_verdict(RED, GREEN, Track.REFACTOR)))
    assert proof.ruling.decision is Decision.RETRY
    assert "a refactoring must not change outcomes" in texts(proof.ruling)


def test_a_refactoring_that_changes_a_public_signature_is_rejected() -> None:
    breaks = api.breaking_changes([changed_file("src/pkg/app.py", "def f(a): ...\n", "def f(a, b): ...\n")])
    proof = check_proof(
        make_contract(Track.REFACTOR), ProofInput(verdict=sealed_verdict(GREEN, GREEN, Track.REFACTOR), breaks=breaks)
    )
    assert proof.ruling.decision is Decision.RETRY
    assert "pkg.app.f: parameter was added as required (b)" in texts(proof.ruling)


def test_a_refactoring_that_keeps_outcomes_and_interface_passes() -> None:
    breaks = api.breaking_changes(
        [
            changed_file(
                "pkg/app.py", "def f(a):\n    return a\n", "def f(a):\n    return _g(a)\ndef _g(a):\n    return a\n"
            )
        ]
    )
    proof = check_proof(
        make_contract(Track.REFACTOR), ProofInput(verdict=sealed_verdict(GREEN, GREEN, Track.REFACTOR), breaks=breaks)
    )
    assert proof.ruling.decision is Decision.PASS


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("def f(a): ...\n", "", "pkg.app.f: public object was removed"),
        (
            "class K:\n    def m(self, x): ...\n",
            "class K:\n    def m(self): ...\n",
            "pkg.app.K.m: parameter was removed",
        ),
        ("def f(a=1): ...\n", "def f(a=2): ...\n", "default"),
        ("def f(a): ...\n", None, "the module is gone"),
        ("def _f(a): ...\n", "def _f(): ...\n", ""),
        ("def f(a): ...\n", "from pkg.other import f\n", ""),
        ("def f(a): ...\n", "def f(a): ...\ndef more(): ...\n", ""),
        ("def f(a): ...\n", "def f(a:\n", ""),
    ],
)
def test_breaking_changes_of_the_public_interface_are_reported(before: str, after: str | None, expected: str) -> None:
    breaks = "; ".join(api.breaking_changes([changed_file("src/pkg/app.py", before, after)]))
    assert expected in breaks if expected else breaks == ""


@pytest.mark.parametrize(
    "path", ["tests/test_app.py", "setup.py", "docs/conf.py", "pkg/_inner.py", "pkg/_x/y.py", "a.js"]
)
def test_files_that_nobody_imports_have_no_public_interface(path: str) -> None:
    assert api.public_module(path) is None


@pytest.mark.parametrize(
    ("track", "least"), [(Track.FEATURE, "L2"), (Track.FIX, "L2"), (Track.REFACTOR, "L2"), (Track.DIRECT, "L1")]
)
def test_each_track_has_its_threshold(track: Track, least: str) -> None:
    from reflectloop.gates import proof

    assert [level for level in ("L0", "L1", "L2", "L3") if proof.is_enough(track, level)][0] == least  # noqa: RUF015
