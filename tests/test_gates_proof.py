"""定: levels, thresholds, and what each track must show; pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_builders import (
    GREEN,
    RED,
    changed,
    ran,
    said,
    sealed,
    unproven,
    weighed,
)
from reflectloop.gates import api
from reflectloop.gates.decisions import Ruling
from reflectloop.gates.proof import ProofInput
from reflectloop.terms import Decision, Track
from reflectloop.verification.verdict import PatchTests

ALL_GOOD = "All good, verified end-to-end, 15/15 passed"


def texts(ruling: Ruling) -> str:
    return " | ".join(str(one) for one in ruling.reasons)


def test_words_without_a_run_are_at_l0_and_the_output_is_thrown_away() -> None:
    found = weighed(said(), ProofInput(verdict=unproven(), report=ALL_GOOD))
    assert (found.level, found.ruling.decision) == ("L0", Decision.REDO)
    assert "L0" in texts(found.ruling)


@pytest.mark.parametrize("hedge", ["It should work, and usually does.", "应该可以", "大概能用", "I think so, probably"])
def test_a_run_that_passed_is_not_lowered_by_doubtful_words(hedge: str) -> None:
    seen = ProofInput(verdict=sealed(GREEN, GREEN), exits=True, report=hedge)
    found = weighed(said(), seen)
    assert (found.level, found.ruling.decision) == ("L3", Decision.PASS)
    step = weighed(said(Track.DIRECT), ProofInput(exits=True, report=hedge))
    assert (step.level, step.ruling.decision) == ("L2", Decision.PASS)


@pytest.mark.parametrize("hedge", ["This should work.", "应该可以", "大概能"])
def test_doubtful_words_take_a_citation_back_to_speculation(hedge: str) -> None:
    found = weighed(said(), ProofInput(verdict=unproven(), cited=[True], report=hedge))
    assert (found.level, found.ruling.decision) == ("L0", Decision.REDO)


@pytest.mark.parametrize("track", [Track.FEATURE, Track.FIX, Track.REFACTOR])
def test_a_citation_where_a_run_is_needed_asks_for_the_check(track: Track) -> None:
    found = weighed(said(track), ProofInput(cited=[True, True], report=ALL_GOOD))
    assert (found.level, found.ruling.decision) == ("L1", Decision.RETRY)
    assert "name a check" in texts(found.ruling)


def test_a_citation_is_enough_on_the_direct_track() -> None:
    found = weighed(said(Track.DIRECT), ProofInput(cited=[True]))
    assert (found.level, found.ruling.decision) == ("L1", Decision.PASS)


def test_a_direct_change_that_is_the_one_claimed_is_a_reference() -> None:
    assert weighed(said(Track.DIRECT), ProofInput(claim_held=True)).level == "L1"
    assert weighed(said(Track.DIRECT), ProofInput(claim_held=False)).ruling.decision is Decision.REDO
    assert weighed(said(Track.FEATURE), ProofInput(claim_held=True)).level == "L0"


@pytest.mark.parametrize("track", Track)
def test_a_citation_that_is_not_so_is_worse_than_none(track: Track) -> None:
    found = weighed(said(track), ProofInput(cited=[True, False], claim_held=True))
    assert (found.level, found.ruling.decision) == ("L0", Decision.REDO)


@given(st.text(max_size=60), st.lists(st.booleans(), max_size=3), st.booleans(), st.sampled_from(Track))
def test_no_words_ever_raise_a_level(report_text: str, cited: list[bool], held: bool, track: Track) -> None:
    order = ("L0", "L1", "L2", "L3")
    plain = weighed(said(track), ProofInput(cited=cited, claim_held=held)).level
    spoken = weighed(said(track), ProofInput(cited=cited, claim_held=held, report=f"{ALL_GOOD} {report_text}")).level
    assert order.index(spoken) <= order.index(plain) < order.index("L2")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("test", "newly failing"), ("build", "newly failing"), ("type", "newly failing")],
)
def test_a_failing_test_build_or_type_check_is_mended_and_tried_again(kind: str, words: str) -> None:
    from reflectloop.verification import compare, verdict
    from reflectloop.verification.result import Detail, DetectedCheck, VerificationResult

    came = {"test": "test_failure", "build": "build_failure", "type": "type_error"}[kind]
    bad = VerificationResult.model_validate(
        {
            "ok": False,
            "type": came,
            "summary": "1 failed",
            "kind": kind,
            "tests": {"test_up": "failed"} if kind == "test" else {},
            "details": [Detail(error="wrong type")],
        }
    )
    good = ran(kind=kind, test_up="passed") if kind == "test" else ran(kind=kind)
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
    found = weighed(said(), ProofInput(verdict=unproven()._replace(level="L3", reasons=tuple(reasons)), exits=True))
    assert found.ruling.decision is Decision.RETRY
    assert words in texts(found.ruling)


def test_a_fix_is_red_on_base_and_green_after() -> None:
    assert weighed(said(Track.FIX), ProofInput(verdict=sealed(RED, GREEN, Track.FIX))).ruling.decision is Decision.PASS


def test_a_fix_without_anything_that_turned_green_is_not_proven() -> None:
    found = weighed(said(Track.FIX), ProofInput(verdict=sealed(GREEN, GREEN, Track.FIX)))
    assert found.ruling.decision is Decision.RETRY
    assert "nothing that failed on base passes now" in texts(found.ruling)


def test_a_fix_whose_named_reproduction_did_not_turn_green_is_not_proven() -> None:
    other = said(Track.FIX, reproduction={"test": "test_other"})
    found = weighed(other, ProofInput(verdict=sealed(RED, GREEN, Track.FIX)))
    assert found.ruling.decision is Decision.RETRY
    assert "reproduction test_other is not red on base and green now" in texts(found.ruling)


@pytest.mark.parametrize(("check", "decision"), [("pytest", Decision.PASS), ("ruff", Decision.RETRY)])
def test_a_fix_may_be_reproduced_by_a_whole_check(check: str, decision: Decision) -> None:
    seen = ProofInput(verdict=sealed(RED, GREEN, Track.FIX))
    assert weighed(said(Track.FIX, reproduction={"check": check}), seen).ruling.decision is decision


def test_a_fix_may_be_shown_by_a_test_that_it_brings() -> None:
    own = PatchTests("pytest", ran(ok=False, test_up="failed"), ran(test_up="passed"), ("test_up",))
    found = weighed(
        said(Track.FIX),
        ProofInput(verdict=sealed({"test_other": "passed"}, {"test_other": "passed"}, Track.FIX, [own])),
    )
    assert found.ruling.decision is Decision.PASS


def test_a_fix_that_breaks_something_else_is_no_fix() -> None:
    found = weighed(
        said(Track.FIX), ProofInput(verdict=sealed(RED, {"test_up": "passed", "test_other": "failed"}, Track.FIX))
    )
    assert found.ruling.decision is Decision.RETRY
    assert "test_other" in texts(found.ruling)


def test_a_refactoring_that_changes_an_outcome_is_none() -> None:
    found = weighed(said(Track.REFACTOR), ProofInput(verdict=sealed(RED, GREEN, Track.REFACTOR)))
    assert found.ruling.decision is Decision.RETRY
    assert "a refactoring must not change outcomes" in texts(found.ruling)


def test_a_refactoring_that_changes_a_public_signature_is_none() -> None:
    breaks = api.breaks([changed("src/pkg/app.py", "def f(a): ...\n", "def f(a, b): ...\n")])
    found = weighed(said(Track.REFACTOR), ProofInput(verdict=sealed(GREEN, GREEN, Track.REFACTOR), breaks=breaks))
    assert found.ruling.decision is Decision.RETRY
    assert "pkg.app.f: parameter was added as required (b)" in texts(found.ruling)


def test_a_refactoring_that_keeps_outcomes_and_interface_passes() -> None:
    breaks = api.breaks(
        [changed("pkg/app.py", "def f(a):\n    return a\n", "def f(a):\n    return _g(a)\ndef _g(a):\n    return a\n")]
    )
    found = weighed(said(Track.REFACTOR), ProofInput(verdict=sealed(GREEN, GREEN, Track.REFACTOR), breaks=breaks))
    assert found.ruling.decision is Decision.PASS


@pytest.mark.parametrize(
    ("before", "after", "seen"),
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
def test_what_callers_would_notice_of_a_change(before: str, after: str | None, seen: str) -> None:
    found = "; ".join(api.breaks([changed("src/pkg/app.py", before, after)]))
    assert seen in found if seen else found == ""


@pytest.mark.parametrize(
    "path", ["tests/test_app.py", "setup.py", "docs/conf.py", "pkg/_inner.py", "pkg/_x/y.py", "a.js"]
)
def test_what_nobody_imports_has_no_public_interface(path: str) -> None:
    assert api.module(path) is None


@pytest.mark.parametrize(
    ("track", "least"), [(Track.FEATURE, "L2"), (Track.FIX, "L2"), (Track.REFACTOR, "L2"), (Track.DIRECT, "L1")]
)
def test_each_track_has_its_threshold(track: Track, least: str) -> None:
    from reflectloop.gates import proof

    assert [level for level in ("L0", "L1", "L2", "L3") if proof.enough(track, level)][0] == least  # noqa: RUF015
