"""The rules gate: contract, boundaries, permissions, security; pure functions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_builders import (
    CODE,
    FULL_CONTRACT,
    changed_file,
    check_rules,
    danger_policy,
    make_contract,
    output,
)
from reflectloop.errors import InvalidInput
from reflectloop.gates import contract as contracts
from reflectloop.gates import rules
from reflectloop.gates.decisions import Ruling
from reflectloop.plan.model import Plan
from reflectloop.terms import Decision, Track


def texts(ruling: Ruling) -> str:
    return " | ".join(str(reason) for reason in ruling.reasons)


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
    assert check_rules(make_contract(track)).decision is Decision.PASS


@pytest.mark.parametrize(("track", "field"), [(track, field) for track, fields in REQUIRED.items() for field in fields])
def test_a_missing_required_field_rejects_the_output_and_is_named(track: Track, field: str) -> None:
    ruling = check_rules(make_contract(track, **{field: None}))
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
def test_an_empty_required_field_counts_as_missing(track: Track, field: str) -> None:
    empty: Any = None if field == "reproduction" else "  " if isinstance(FULL_CONTRACT[field], str) else []
    assert check_rules(make_contract(track, **{field: empty})).decision is Decision.REDO


@pytest.mark.parametrize("track", Track)
def test_a_field_that_the_track_does_not_require_may_be_missing(track: Track) -> None:
    least = {name: None for name in FULL_CONTRACT if name not in REQUIRED[track]}
    assert check_rules(make_contract(track, **least)).decision is Decision.PASS


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
def test_a_malformed_field_is_retried_and_named(field: str, value: object) -> None:
    ruling = check_rules(make_contract(Track.FIX, **{field: value}))
    assert ruling.decision is Decision.RETRY
    assert field in texts(ruling)


@pytest.mark.parametrize(
    ("track", "words"), [("epic", "'epic' is no track"), (None, "names no track"), (3, "3 is no track")]
)
def test_a_contract_without_a_known_track_is_refused(track: object, words: str) -> None:
    fields = {**FULL_CONTRACT, **({"track": track} if track else {})}
    with pytest.raises(InvalidInput, match=words):
        contracts.parse_contract(fields, "contract.yaml")


@pytest.mark.parametrize("value", [None, [], "text", 7])
def test_a_contract_must_be_a_mapping(value: object) -> None:
    with pytest.raises(InvalidInput, match="mapping"):
        contracts.parse_contract(value, "contract.yaml")


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
        read = contracts.parse_contract({**fields, "track": "feature"}, "contract.yaml")
    except InvalidInput:
        return
    assert check_rules(read).decision in (Decision.REDO, Decision.RETRY)


def test_files_that_are_claimed_and_not_changed_are_named() -> None:
    ruling = check_rules(make_contract(files_changed=["app.py", "ghost.py"]))
    assert ruling.decision is Decision.REDO
    assert "claimed and not changed: ghost.py" in texts(ruling)


def test_files_that_are_changed_and_not_claimed_are_named() -> None:
    ruling = check_rules(make_contract(may_change=["**"]), [changed_file(), changed_file("quiet.py")])
    assert ruling.decision is Decision.REDO
    assert "changed and not claimed: quiet.py" in texts(ruling)


def test_a_change_outside_may_change_is_rejected() -> None:
    ruling = check_rules(
        make_contract(files_changed=["app.py", "lib/other.py"]), [changed_file(), changed_file("lib/other.py")]
    )
    assert ruling.decision is Decision.REDO
    assert "outside may_change (app.py): lib/other.py" in texts(ruling)


def test_a_change_to_a_must_not_change_file_is_rejected() -> None:
    ruling = check_rules(make_contract(may_change=["**"], must_not_change=["app.py"]))
    assert ruling.decision is Decision.REDO
    assert "must_not_change names it: app.py" in texts(ruling)


def test_a_protected_file_that_the_plan_allows_is_within_bounds() -> None:
    subject = output(
        make_contract(files_changed=["test_app.py"]),
        [changed_file("test_app.py")],
        may_change_protected=["test_app.py"],
    )
    assert rules.check_rules(subject, danger_policy()).decision is Decision.PASS


@pytest.mark.parametrize("role", ["planner", "second_planner", "reviewer", "critic", "researcher"])
def test_a_read_only_role_may_not_change_files(role: str) -> None:
    ruling = check_rules(make_contract(role=role))
    assert ruling.decision is Decision.REDO
    assert f"a {role.replace('_', ' ')} may not change files, and this one changed app.py" in texts(ruling)
    idle: dict[str, Any] = {
        "role": role,
        "files_changed": [],
        "acceptance": None,
        "decisions": None,
        "may_change": None,
    }
    assert check_rules(make_contract(**idle), []).decision is Decision.PASS


@pytest.mark.parametrize(
    ("where", "read", "changes"),
    [
        ("a line that the patch adds", make_contract(), [changed_file(after=CODE + "danger()\n")]),
        ("a path", make_contract(files_changed=["danger/key"], may_change=["**"]), [changed_file("danger/key")]),
        ("a command offered as proof", make_contract(tests_run=[{"command": "danger --now"}]), [changed_file()]),
    ],
)
def test_a_security_breach_stops_and_cannot_be_retried(where: str, read: Any, changes: Any) -> None:
    ruling = check_rules(read, changes, "danger")
    assert ruling.decision is Decision.STOP, where
    assert not ruling.retryable
    assert "danger is dangerous" in texts(ruling)


def test_existing_dangerous_lines_are_not_reported() -> None:
    old = "danger()\n"
    assert (
        check_rules(make_contract(), [changed_file(before=old, after=old + CODE)], "danger").decision is Decision.PASS
    )


def test_an_ask_rule_names_the_setting_that_allows_it() -> None:
    ruling = rules.check_rules(
        output(make_contract(), [changed_file(after="careful()\n")]), danger_policy(asked=["careful"])
    )
    assert ruling.decision is Decision.ASK
    assert '[policy] allow = ["sample"]' in texts(ruling)


def test_a_possible_secret_asks() -> None:
    ruling = rules.check_rules(output(make_contract(), possible_secrets=["app.py:1: may be a secret"]), danger_policy())
    assert ruling.decision is Decision.ASK


def test_the_engine_fills_the_contract_of_commands_from_plan_and_diff() -> None:
    plan = Plan.model_validate({"title": "Round up", "track": "fix", "steps": [{"id": "a", "commands": ["true"]}]})
    read = contracts.contract_from_plan(plan, ["app.py"])
    assert check_rules(read).decision is Decision.PASS
    assert read.contract.files_changed == ("app.py",)


@pytest.mark.parametrize(
    ("acceptance", "decision", "words"),
    [
        ([], Decision.REDO, "acceptance is required on track feature"),
        ([{"id": "AC-1", "text": "is quick"}], Decision.RETRY, "names no check"),
    ],
)
def test_a_feature_needs_criteria_with_checks(acceptance: list[Any], decision: Decision, words: str) -> None:
    ruling = check_rules(make_contract(acceptance=acceptance))
    assert ruling.decision is decision
    assert words in texts(ruling)
