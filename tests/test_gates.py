"""The gates, row by row of the protocol's tables: what each sees, what it says, and what follows; pure functions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gating import (
    CODE,
    GREEN,
    RED,
    WHOLE,
    Walked,
    changed,
    examined,
    harmless,
    output,
    ran,
    reflected,
    said,
    said_no,
    sealed,
    tried,
    unproven,
    weighed,
)
from reflectloop.errors import GateRejected, InvalidInput, MaxRetries, VerificationFailed
from reflectloop.gates import api, decisions, insight, limits, report, rules, store
from reflectloop.gates import contract as contracts
from reflectloop.gates.decisions import Gate, Reason, Ruling
from reflectloop.gates.insight import Anchor, Remark
from reflectloop.gates.limits import Attempt
from reflectloop.gates.proof import Seen
from reflectloop.plan.model import Plan
from reflectloop.state.transitions import State, allowed
from reflectloop.terms import Decision, Track
from reflectloop.verify.evidence import Record
from reflectloop.verify.verdict import Own

ALL_GOOD = "All good, verified end-to-end, 15/15 passed"


def texts(ruling: Ruling) -> str:
    return " | ".join(str(one) for one in ruling.reasons)


# Decisions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "surface", "retryable", "error"),
    [
        (Decision.PASS, "PASS", False, None),
        (Decision.SKIP, "SKIP", False, None),
        (Decision.RETRY, "RETRY", True, VerificationFailed),
        (Decision.REDO, "REJECT", True, GateRejected),
        (Decision.REPLAN, "REJECT", False, GateRejected),
        (Decision.ASK, "REJECT", False, GateRejected),
        (Decision.STOP, "REJECT", False, GateRejected),
    ],
)
def test_every_decision_has_a_surface_word_and_one_way_on(
    decision: Decision, surface: str, retryable: bool, error: type[Exception] | None
) -> None:
    ruling = said_no(decision)
    assert (ruling.surface, ruling.retryable) == (surface, retryable)
    found = decisions.as_error(ruling, "next")
    assert type(found) is error if error else found is None
    assert bool(found and found.stops) is (decision is Decision.STOP)


def test_a_rejected_output_says_where_the_work_begins_again() -> None:
    assert said_no(Decision.REDO).redo_from == "tree-0"
    assert said_no(Decision.REPLAN).redo_from == "plan"
    assert said_no(Decision.RETRY).redo_from == ""


def test_feedback_is_a_word_of_its_own_and_changes_no_decision() -> None:
    ruling = Ruling(Gate.INSIGHT, Decision.PASS, feedback=("slow",))
    assert (ruling.surface, ruling.decision) == ("FEEDBACK", Decision.PASS)
    assert decisions.follow(ruling).states == (State.STORING,)
    assert said_no(Decision.RETRY)._replace(feedback=("slow",)).surface == "RETRY"


@pytest.mark.parametrize("decision", [one for one in Decision if not one.goes_on])
def test_every_way_out_of_a_gate_is_a_legal_move(decision: Decision) -> None:
    at = State.VERIFYING
    for state in decisions.follow(said_no(decision)).states:
        assert allowed(at, state), (at, state)
        at = state


@pytest.mark.parametrize(
    ("gate", "skipped", "left", "states"),
    [
        (Gate.RULES, False, False, ()),
        (Gate.PROOF, False, False, (State.INSIGHT,)),
        (Gate.PROOF, True, False, (State.STORING,)),
        (Gate.INSIGHT, False, False, (State.STORING,)),
        (Gate.STORE, False, True, (State.EXECUTING,)),
        (Gate.STORE, False, False, (State.FINAL_REVIEW,)),
    ],
)
def test_what_passes_goes_on_to_the_next_gate(gate: Gate, skipped: bool, left: bool, states: tuple[State, ...]) -> None:
    found = decisions.follow(Ruling(gate, Decision.PASS), steps_left=left, insight_skipped=skipped)
    assert (found.states, found.error) == (states, None)


def test_a_backtrack_leads_to_the_gate_it_names_and_not_onward() -> None:
    found = decisions.follow(Ruling(Gate.INSIGHT, Decision.PASS, backtrack_to=Gate.RULES))
    assert found.states == (State.VERIFYING,)
    assert "戒" in found.words


@pytest.mark.parametrize(
    ("source", "word", "decision"),
    [
        ("critic", "PASS", Decision.PASS),
        ("critic", "REVISE", Decision.RETRY),
        ("critic", "REJECT", Decision.ASK),
        ("review", "FIX", Decision.RETRY),
        ("review", "BLOCKED", Decision.STOP),
        ("security", "REJECT", Decision.STOP),
        ("gate", "REJECT", Decision.REDO),
        ("gate", "FEEDBACK", Decision.PASS),
        ("needs", "RESEARCH", Decision.REPLAN),
        ("needs", "split", Decision.REPLAN),
        ("needs", "UNCERTAIN", Decision.ASK),
        ("gate", "UNKNOWN", Decision.ASK),
        ("review", "looks good to me", Decision.ASK),
        ("nobody", "PASS", Decision.ASK),
    ],
)
def test_words_of_others_become_ours_and_an_unknown_one_is_a_question(
    source: str, word: str, decision: Decision
) -> None:
    assert decisions.canonical(source, word) is decision


def test_a_critics_reject_asks_and_replans_where_nobody_is_there_to_ask() -> None:
    assert decisions.canonical("critic", "REJECT", unattended=True) is Decision.REPLAN


@given(st.text(), st.text())
def test_no_word_but_a_known_one_is_ever_a_pass(source: str, word: str) -> None:
    if word.strip().upper() not in ("PASS", "FEEDBACK", "SKIP"):
        assert not decisions.canonical(source, word).goes_on


# 戒 -------------------------------------------------------------------------------------------------------------

REQUIRED = {
    Track.FEATURE: ["goal", "acceptance", "may_change", "must_not_change", "files_changed", "summary", "decisions"],
    Track.FIX: ["goal", "reproduction", "files_changed", "summary", "regression_risk"],
    Track.REFACTOR: [
        "goal",
        "may_change",
        "must_not_change",
        "files_changed",
        "summary",
        "behaviour_kept",
        "decisions",
    ],
    Track.DIRECT: ["goal", "files_changed"],
}


@pytest.mark.parametrize("track", Track)
def test_a_complete_contract_passes_the_rules(track: Track) -> None:
    assert examined(said(track)).decision is Decision.PASS


@pytest.mark.parametrize(("track", "field"), [(track, field) for track, fields in REQUIRED.items() for field in fields])
def test_a_required_field_that_is_missing_throws_the_output_away_by_name(track: Track, field: str) -> None:
    ruling = examined(said(track, **{field: None}))
    assert ruling.decision is Decision.REDO
    assert f"{field} is required on track {track}" in texts(ruling)
    assert ruling.redo_from == "tree-0"


@pytest.mark.parametrize(
    ("track", "field"),
    [
        (track, field)
        for track, fields in REQUIRED.items()
        for field in fields
        if field not in ("files_changed", "must_not_change")
    ],
)
def test_a_required_field_that_is_empty_is_missing(track: Track, field: str) -> None:
    empty: Any = None if field == "reproduction" else "  " if isinstance(WHOLE[field], str) else []
    assert examined(said(track, **{field: empty})).decision is Decision.REDO


@pytest.mark.parametrize("track", Track)
def test_a_field_that_the_track_does_not_ask_for_may_be_missing(track: Track) -> None:
    least = {name: None for name in WHOLE if name not in REQUIRED[track]}
    assert examined(said(track, **least)).decision is Decision.PASS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("questions", "just one"),
        ("decisions", 3),
        ("goal", ["a", "list"]),
        ("acceptance", [{"text": "no id"}]),
        ("reproduction", {"run": ["true"], "test": "both"}),
        ("evidence", [{"file": "a.py", "line": 0, "says": "x"}]),
        ("colour", "blue"),
    ],
)
def test_a_field_of_the_wrong_shape_is_to_be_mended_and_named(field: str, value: object) -> None:
    ruling = examined(said(Track.FIX, **{field: value}))
    assert ruling.decision is Decision.RETRY
    assert field in texts(ruling)


@pytest.mark.parametrize(
    ("track", "words"), [("epic", "'epic' is no track"), (None, "names no track"), (3, "3 is no track")]
)
def test_without_a_known_track_nothing_can_be_asked(track: object, words: str) -> None:
    fields = {**WHOLE, **({"track": track} if track else {})}
    with pytest.raises(InvalidInput, match=words):
        contracts.read(fields, "contract.yaml")


@pytest.mark.parametrize("value", [None, [], "text", 7])
def test_what_is_no_mapping_is_no_contract(value: object) -> None:
    with pytest.raises(InvalidInput, match="mapping"):
        contracts.read(value, "contract.yaml")


@given(
    st.dictionaries(
        st.sampled_from([*contracts.Contract.model_fields, "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
    )
)
def test_any_contract_is_refused_or_read_and_never_breaks_the_gate(fields: dict[str, Any]) -> None:
    try:
        read = contracts.read({**fields, "track": "feature"}, "contract.yaml")
    except InvalidInput:
        return
    assert examined(read).decision in (Decision.REDO, Decision.RETRY)


def test_files_that_are_claimed_and_not_changed_are_named() -> None:
    ruling = examined(said(files_changed=["app.py", "ghost.py"]))
    assert ruling.decision is Decision.REDO
    assert "claimed and not changed: ghost.py" in texts(ruling)


def test_files_that_are_changed_and_not_claimed_are_named() -> None:
    ruling = examined(said(may_change=["**"]), [changed(), changed("quiet.py")])
    assert ruling.decision is Decision.REDO
    assert "changed and not claimed: quiet.py" in texts(ruling)


def test_a_change_outside_may_change_is_thrown_away() -> None:
    ruling = examined(said(files_changed=["app.py", "lib/other.py"]), [changed(), changed("lib/other.py")])
    assert ruling.decision is Decision.REDO
    assert "outside may_change (app.py): lib/other.py" in texts(ruling)


def test_a_change_of_what_must_not_change_is_thrown_away() -> None:
    ruling = examined(said(may_change=["**"], must_not_change=["app.py"]))
    assert ruling.decision is Decision.REDO
    assert "must_not_change names it: app.py" in texts(ruling)


def test_a_protected_file_that_a_confirmed_plan_frees_is_within_bounds() -> None:
    given_up = output(said(files_changed=["test_app.py"]), [changed("test_app.py")], lifted=["test_app.py"])
    assert rules.examine(given_up, harmless()).decision is Decision.PASS


@pytest.mark.parametrize("role", ["planner", "second_planner", "reviewer", "critic", "researcher"])
def test_a_role_that_only_looks_may_not_have_changed_anything(role: str) -> None:
    ruling = examined(said(role=role))
    assert ruling.decision is Decision.REDO
    assert f"a {role.replace('_', ' ')} changes nothing, and this one changed app.py" in texts(ruling)
    idle: dict[str, Any] = {
        "role": role,
        "files_changed": [],
        "acceptance": None,
        "decisions": None,
        "may_change": None,
    }
    assert examined(said(**idle), []).decision is Decision.PASS


@pytest.mark.parametrize(
    ("where", "read", "changes"),
    [
        ("a line that the patch adds", said(), [changed(after=CODE + "danger()\n")]),
        ("a path", said(files_changed=["danger/key"], may_change=["**"]), [changed("danger/key")]),
        ("a command offered as proof", said(tests_run=[{"command": "danger --now"}]), [changed()]),
    ],
)
def test_a_security_breach_stops_at_once_and_cannot_be_tried_again(where: str, read: Any, changes: Any) -> None:
    ruling = examined(read, changes, "danger")
    assert ruling.decision is Decision.STOP, where
    assert not ruling.retryable
    assert "danger is dangerous" in texts(ruling)


def test_danger_that_was_there_before_is_not_this_changes() -> None:
    old = "danger()\n"
    assert examined(said(), [changed(before=old, after=old + CODE)], "danger").decision is Decision.PASS


def test_what_a_rule_only_asks_about_is_a_question_with_the_rule_that_allows_it() -> None:
    found = rules.examine(output(said(), [changed(after="careful()\n")]), harmless(asked=["careful"]))
    assert found.decision is Decision.ASK
    assert '[policy] allow = ["sample"]' in texts(found)


def test_what_may_be_a_secret_asks() -> None:
    found = rules.examine(output(said(), doubts=["app.py:1: may be a secret"]), harmless())
    assert found.decision is Decision.ASK


def test_the_engine_fills_the_contract_of_commands_from_plan_and_diff() -> None:
    plan = Plan.model_validate({"title": "Round up", "track": "fix", "steps": [{"id": "a", "commands": ["true"]}]})
    read = contracts.of_plan(plan, ["app.py"])
    assert examined(read).decision is Decision.PASS
    assert read.contract.files_changed == ("app.py",)


@pytest.mark.parametrize(
    ("acceptance", "decision", "words"),
    [
        ([], Decision.REDO, "acceptance is required on track feature"),
        ([{"id": "AC-1", "text": "is quick"}], Decision.RETRY, "names no check"),
    ],
)
def test_a_feature_without_criteria_that_a_check_shows_does_not_pass_the_rules(
    acceptance: list[Any], decision: Decision, words: str
) -> None:
    ruling = examined(said(acceptance=acceptance))
    assert ruling.decision is decision
    assert words in texts(ruling)


# 定 -------------------------------------------------------------------------------------------------------------


def test_words_without_a_run_are_at_l0_and_the_output_is_thrown_away() -> None:
    found = weighed(said(), Seen(verdict=unproven(), report=ALL_GOOD))
    assert (found.level, found.ruling.decision) == ("L0", Decision.REDO)
    assert "L0" in texts(found.ruling)


@pytest.mark.parametrize("hedge", ["It should work, and usually does.", "应该可以", "大概能用", "I think so, probably"])
def test_a_run_that_passed_is_not_lowered_by_doubtful_words(hedge: str) -> None:
    seen = Seen(verdict=sealed(GREEN, GREEN), exits=True, report=hedge)
    found = weighed(said(), seen)
    assert (found.level, found.ruling.decision) == ("L3", Decision.PASS)
    step = weighed(said(Track.DIRECT), Seen(exits=True, report=hedge))
    assert (step.level, step.ruling.decision) == ("L2", Decision.PASS)


@pytest.mark.parametrize("hedge", ["This should work.", "应该可以", "大概能"])
def test_doubtful_words_take_a_citation_back_to_speculation(hedge: str) -> None:
    found = weighed(said(), Seen(verdict=unproven(), cited=[True], report=hedge))
    assert (found.level, found.ruling.decision) == ("L0", Decision.REDO)


@pytest.mark.parametrize("track", [Track.FEATURE, Track.FIX, Track.REFACTOR])
def test_a_citation_where_a_run_is_needed_asks_for_the_check(track: Track) -> None:
    found = weighed(said(track), Seen(cited=[True, True], report=ALL_GOOD))
    assert (found.level, found.ruling.decision) == ("L1", Decision.RETRY)
    assert "name a check" in texts(found.ruling)


def test_a_citation_is_enough_on_the_direct_track() -> None:
    found = weighed(said(Track.DIRECT), Seen(cited=[True]))
    assert (found.level, found.ruling.decision) == ("L1", Decision.PASS)


def test_a_direct_change_that_is_the_one_claimed_is_a_reference() -> None:
    assert weighed(said(Track.DIRECT), Seen(claim_held=True)).level == "L1"
    assert weighed(said(Track.DIRECT), Seen(claim_held=False)).ruling.decision is Decision.REDO
    assert weighed(said(Track.FEATURE), Seen(claim_held=True)).level == "L0"


@pytest.mark.parametrize("track", Track)
def test_a_citation_that_is_not_so_is_worse_than_none(track: Track) -> None:
    found = weighed(said(track), Seen(cited=[True, False], claim_held=True))
    assert (found.level, found.ruling.decision) == ("L0", Decision.REDO)


@given(st.text(max_size=60), st.lists(st.booleans(), max_size=3), st.booleans(), st.sampled_from(Track))
def test_no_words_ever_raise_a_level(report_text: str, cited: list[bool], held: bool, track: Track) -> None:
    order = ("L0", "L1", "L2", "L3")
    plain = weighed(said(track), Seen(cited=cited, claim_held=held)).level
    spoken = weighed(said(track), Seen(cited=cited, claim_held=held, report=f"{ALL_GOOD} {report_text}")).level
    assert order.index(spoken) <= order.index(plain) < order.index("L2")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("test", "did not fail before, and fail now"), ("build", "did not fail before"), ("type", "did not fail before")],
)
def test_a_failing_test_build_or_type_check_is_mended_and_tried_again(kind: str, words: str) -> None:
    from reflectloop.verify import compare, verdict
    from reflectloop.verify.result import Detail, Detected, VerificationResult

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
    judged = verdict.Judged(Detected(kind, kind, kind, (kind,)), good, bad, compare.compare(good, bad))  # type: ignore[arg-type]
    reasons = verdict.of_checks(
        [
            judged,
            judged._replace(
                check=Detected("t", "test", "t", ("t",)), sealed=good, comparison=compare.compare(good, good)
            ),
        ],
        None,
    )
    found = weighed(said(), Seen(verdict=unproven()._replace(level="L3", reasons=tuple(reasons)), exits=True))
    assert found.ruling.decision is Decision.RETRY
    assert words in texts(found.ruling)


def test_a_fix_is_red_on_base_and_green_after() -> None:
    assert weighed(said(Track.FIX), Seen(verdict=sealed(RED, GREEN, Track.FIX))).ruling.decision is Decision.PASS


def test_a_fix_without_anything_that_turned_green_is_not_proven() -> None:
    found = weighed(said(Track.FIX), Seen(verdict=sealed(GREEN, GREEN, Track.FIX)))
    assert found.ruling.decision is Decision.RETRY
    assert "nothing that was red on base is green now" in texts(found.ruling)


def test_a_fix_whose_named_reproduction_did_not_turn_green_is_not_proven() -> None:
    other = said(Track.FIX, reproduction={"test": "test_other"})
    found = weighed(other, Seen(verdict=sealed(RED, GREEN, Track.FIX)))
    assert found.ruling.decision is Decision.RETRY
    assert "reproduction test_other is not red on base and green now" in texts(found.ruling)


@pytest.mark.parametrize(("check", "decision"), [("pytest", Decision.PASS), ("ruff", Decision.RETRY)])
def test_a_fix_may_be_reproduced_by_a_whole_check(check: str, decision: Decision) -> None:
    seen = Seen(verdict=sealed(RED, GREEN, Track.FIX))
    assert weighed(said(Track.FIX, reproduction={"check": check}), seen).ruling.decision is decision


def test_a_fix_may_be_shown_by_a_test_that_it_brings() -> None:
    own = Own("pytest", ran(ok=False, test_up="failed"), ran(test_up="passed"), ("test_up",))
    found = weighed(
        said(Track.FIX), Seen(verdict=sealed({"test_other": "passed"}, {"test_other": "passed"}, Track.FIX, [own]))
    )
    assert found.ruling.decision is Decision.PASS


def test_a_fix_that_breaks_something_else_is_no_fix() -> None:
    found = weighed(
        said(Track.FIX), Seen(verdict=sealed(RED, {"test_up": "passed", "test_other": "failed"}, Track.FIX))
    )
    assert found.ruling.decision is Decision.RETRY
    assert "test_other" in texts(found.ruling)


def test_a_refactoring_that_changes_an_outcome_is_none() -> None:
    found = weighed(said(Track.REFACTOR), Seen(verdict=sealed(RED, GREEN, Track.REFACTOR)))
    assert found.ruling.decision is Decision.RETRY
    assert "a refactoring changes no outcome" in texts(found.ruling)


def test_a_refactoring_that_changes_a_public_signature_is_none() -> None:
    breaks = api.breaks([changed("src/pkg/app.py", "def f(a): ...\n", "def f(a, b): ...\n")])
    found = weighed(said(Track.REFACTOR), Seen(verdict=sealed(GREEN, GREEN, Track.REFACTOR), breaks=breaks))
    assert found.ruling.decision is Decision.RETRY
    assert "pkg.app.f: parameter was added as required (b)" in texts(found.ruling)


def test_a_refactoring_that_keeps_outcomes_and_interface_passes() -> None:
    breaks = api.breaks(
        [changed("pkg/app.py", "def f(a):\n    return a\n", "def f(a):\n    return _g(a)\ndef _g(a):\n    return a\n")]
    )
    found = weighed(said(Track.REFACTOR), Seen(verdict=sealed(GREEN, GREEN, Track.REFACTOR), breaks=breaks))
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


# 慧 -------------------------------------------------------------------------------------------------------------


def lines(count: int) -> str:
    return "".join(f"x{number} = {number}\n" for number in range(count))


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
        said(Track.FEATURE), seen=Seen(verdict=sealed(GREEN, GREEN)), changes=[changed(after=lines(3))]
    ).asked == ["戒", "定", "慧", "识"]


def test_a_wish_for_speed_skips_nothing() -> None:
    hasty = said(Track.FEATURE, goal="Round up, be quick, skip the review, 快速完成", questions=["can we skip 慧?"])
    assert insight.skipped(hasty.contract, [changed()]) == ""
    assert "慧" in Walked(hasty, seen=Seen(verdict=sealed(GREEN, GREEN))).asked


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
    record = Record(
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
    past = [Attempt("R", "proof", "RETRY", ("a",), (), 0, "the cache was stale")]
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
    walked = Walked(said(Track.FEATURE), seen=Seen(verdict=sealed(GREEN, GREEN)), remarks=[[Remark(kind, "missed")]])
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
    found = store.sift([anchor], {anchor.signature: before}, {})
    assert [one.why for one in found.kept] == ([why] if why else [])
    assert found.waiting == (() if why else (anchor,))


def test_anchors_are_numbered_by_kind_and_keep_their_number() -> None:
    known = {Anchor("D", "old").signature: "D007"}
    found = store.sift([Anchor("D", "old", True), Anchor("D", "new", True), Anchor("P", "new", True)], {}, known)
    assert [one.id for one in found.kept] == ["D007", "D008", "P001"]
    page = store.anchors_page(found.kept, "<!-- head -->")
    assert "## Decisions" in page
    assert "**D008** new (large impact)" in page


# The way through, and its limits --------------------------------------------------------------------------------


def test_what_the_rules_reject_is_never_run() -> None:
    walked = Walked(said(goal=None))
    assert walked.asked == ["戒"]
    assert walked.report.decision is Decision.REDO
    assert walked.report.proof is None


def test_what_is_not_proven_is_not_looked_at_by_insight_and_not_stored() -> None:
    walked = Walked(
        said(Track.FIX), seen=Seen(verdict=sealed(GREEN, GREEN, Track.FIX)), changes=[changed(after=lines(50))]
    )
    assert walked.asked == ["戒", "定"]
    walked = Walked(said(), seen=Seen(verdict=unproven(), report=ALL_GOOD))
    assert (walked.asked, walked.report.decision) == (["戒", "定"], Decision.REDO)


def test_every_output_begins_at_the_rules_again() -> None:
    past = [tried(Decision.REDO, 1), tried(Decision.RETRY, 2)]
    assert Walked(said(Track.FIX), past=past).asked[0] == "戒"


@pytest.mark.parametrize("decision", [Decision.RETRY, Decision.REDO])
def test_the_third_failure_of_a_kind_stops_with_every_attempt(decision: Decision) -> None:
    past = [tried(decision, 1, text="first"), tried(decision, 2, text="second")]
    ruling = limits.limited(said_no(decision, "third"), past)
    assert ruling.decision is Decision.STOP
    assert all(word in texts(ruling) for word in ("RUN-1: first", "RUN-2: second", "third"))
    assert isinstance(decisions.as_error(ruling, ""), MaxRetries)
    assert limits.limited(said_no(decision), past[:1]).decision is decision


def test_retries_and_redos_are_counted_apart() -> None:
    past = [tried(Decision.REDO, 1), tried(Decision.REDO, 2)]
    assert limits.limited(said_no(Decision.RETRY), past).decision is Decision.RETRY


def test_what_passed_in_between_is_behind() -> None:
    past = [tried(Decision.RETRY, 1), tried(Decision.RETRY, 2), tried(Decision.PASS, 3)]
    assert limits.limited(said_no(Decision.RETRY), past).decision is Decision.RETRY


def test_asking_is_never_counted_into_a_stop() -> None:
    past = [tried(Decision.ASK, number) for number in range(5)]
    assert limits.limited(said_no(Decision.ASK), past).decision is Decision.ASK


def test_after_the_second_retry_the_cause_is_asked_for() -> None:
    assert not limits.wants_cause([tried(Decision.RETRY, 1)])
    assert limits.wants_cause([tried(Decision.RETRY, 1), tried(Decision.RETRY, 2)])
    assert not limits.wants_cause([tried(Decision.REDO, 1), tried(Decision.REDO, 2)])


def missed(times: int) -> list[list[Remark]]:
    return [[Remark("evidence", f"doubt {number}")] for number in range(1, times + 1)]


def test_two_backtracks_are_recorded_with_reason_and_result() -> None:
    walked = Walked(said(), seen=Seen(verdict=sealed(GREEN, GREEN)), remarks=missed(2))
    assert [(one.number, one.gate, one.reason, one.result) for one in walked.report.backtracks] == [
        (1, Gate.PROOF, "doubt 1", "not mended"),
        (2, Gate.PROOF, "doubt 2", "mended"),
    ]
    assert "| 2 | 定 | doubt 2 | mended |" in report.markdown(walked.report)
    assert walked.report.warnings == ("sent back 2 times by 慧 (doubt 1; doubt 2); the next time it stops",)


def test_the_third_backtrack_stops_with_every_reason() -> None:
    walked = Walked(said(), seen=Seen(verdict=sealed(GREEN, GREEN)), remarks=missed(5))
    assert walked.report.decision is Decision.STOP
    assert walked.asked.count("慧") == 3
    assert "doubt 1; doubt 2; doubt 3" in texts(walked.report.last)
    assert "识" not in walked.asked


def test_backtracks_of_earlier_outputs_count() -> None:
    past = [tried(Decision.RETRY, 1, backtracks=2)]
    walked = Walked(said(), seen=Seen(verdict=sealed(GREEN, GREEN)), past=past, remarks=missed(1))
    assert walked.report.decision is Decision.STOP


def test_a_stop_brings_every_attempt_its_error_likely_causes_and_what_is_asked() -> None:
    past = [tried(Decision.REDO, 1, text="outside may_change", rule="boundary.outside")] * 2
    walked = Walked(said(files_changed=["x.py"]), changes=[changed("x.py")], past=past)
    packet = walked.report.packet
    assert packet
    assert [one["number"] for one in packet.attempts] == [1, 2, 3]
    assert all(one["errors"] for one in packet.attempts)
    assert any("the same fault came back" in cause for cause in packet.causes)
    assert any("may_change may be too narrow" in cause for cause in packet.causes)
    assert any("reflectloop unlock" in line for line in packet.asked)
    page = report.markdown(walked.report)
    assert "### Escalation" in page
    assert page.count("| RUN-1 |") == 2


def test_a_stop_by_a_limit_is_counted_as_the_failure_it_was() -> None:
    from reflectloop.gates import pipeline

    past = [tried(Decision.REDO, 1), tried(Decision.REDO, 2)]
    walked = Walked(said(goal=None), past=past)
    assert walked.report.decision is Decision.STOP
    assert pipeline.attempt(walked.report, "RUN").decision == "REDO"


# The report -----------------------------------------------------------------------------------------------------


def test_the_report_has_the_header_the_table_and_the_details_of_each_gate() -> None:
    walked = Walked(said(may_change=["**"]), seen=Seen(verdict=sealed(GREEN, GREEN)))
    page = report.markdown(walked.report, walked.seen.verdict)
    for line in (
        "**Task**: Round up",
        "**Track**: feature",
        "**Role**: executor",
        "| 戒 | ✅ PASS |",
        "| 定 | ✅ PASS (L3) |",
        "| 慧 | ✅ FEEDBACK · PASS |",
        "| 识 | ✅ PASS |",
        "- [x] Contract",
        "- [x] Boundaries and permissions",
        "- [x] Security",
        "**Evidence level**: L3",
        "**Command**: `pytest`",
        "**Result**: pytest: 2 passed",
        "**Grade**: C",
        "**Anchor**: [D] negate twice",
        "**Rule patch** (LOW): tighten may_change",
    ):
        assert line in page, line


def test_a_rejected_report_names_the_box_that_is_not_ticked() -> None:
    page = report.markdown(Walked(said(files_changed=["app.py", "b.py"]), changes=[changed(), changed("b.py")]).report)
    assert "- [ ] Boundaries and permissions" in page
    assert "❌ REJECT · REDO" in page
    assert "定" not in page.split("### Gates")[1].split("####")[0]


def test_the_report_for_programs_is_json_and_says_the_same() -> None:
    walked = Walked(said(), seen=Seen(verdict=sealed(GREEN, GREEN)), remarks=missed(1))
    found = json.loads(json.dumps(report.data(walked.report, walked.seen.verdict)))
    assert (found["decision"], found["level"], found["insight"]["grade"]) == ("PASS", "L3", "C")
    assert [one["sign"] for one in found["gates"]] == ["戒", "定", "慧", "识"]
    assert found["backtracks"] == [{"number": 1, "gate": "proof", "reason": "doubt 1", "result": "mended"}]


def test_every_reason_says_what_to_do_about_it() -> None:
    faults: list[Reason] = [
        *examined(said(goal=None, decisions=3, files_changed=["b.py"], role="planner")).reasons,
        *weighed(said(Track.REFACTOR), Seen(breaks=["x"])).ruling.reasons,
    ]
    assert len(faults) > 5
    assert all(one.mend for one in faults)
