"""戒: contract, bounds, permissions, security; pure functions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_builders import (
    CODE,
    WHOLE,
    changed,
    examined,
    harmless,
    output,
    said,
)
from reflectloop.errors import InvalidInput
from reflectloop.gates import contract as contracts
from reflectloop.gates import rules
from reflectloop.gates.decisions import Ruling
from reflectloop.plan.model import Plan
from reflectloop.terms import Decision, Track


def texts(ruling: Ruling) -> str:
    return " | ".join(str(one) for one in ruling.reasons)


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
