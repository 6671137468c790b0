"""What a gate may say, and what follows; pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_builders import (
    said_no,
)
from reflectloop.errors import GateRejected, VerificationFailed
from reflectloop.gates import decisions
from reflectloop.gates.decisions import Gate, Ruling
from reflectloop.state.transitions import TaskState, allowed
from reflectloop.terms import Decision


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
    assert decisions.follow(ruling).states == (TaskState.STORING,)
    assert said_no(Decision.RETRY)._replace(feedback=("slow",)).surface == "RETRY"


@pytest.mark.parametrize("decision", [one for one in Decision if not one.goes_on])
def test_every_way_out_of_a_gate_is_a_legal_move(decision: Decision) -> None:
    at = TaskState.VERIFYING
    for state in decisions.follow(said_no(decision)).states:
        assert allowed(at, state), (at, state)
        at = state


@pytest.mark.parametrize(
    ("gate", "skipped", "left", "states"),
    [
        (Gate.RULES, False, False, ()),
        (Gate.PROOF, False, False, (TaskState.INSIGHT,)),
        (Gate.PROOF, True, False, (TaskState.STORING,)),
        (Gate.INSIGHT, False, False, (TaskState.STORING,)),
        (Gate.STORE, False, True, (TaskState.EXECUTING,)),
        (Gate.STORE, False, False, (TaskState.FINAL_REVIEW,)),
    ],
)
def test_what_passes_goes_on_to_the_next_gate(
    gate: Gate, skipped: bool, left: bool, states: tuple[TaskState, ...]
) -> None:
    found = decisions.follow(Ruling(gate, Decision.PASS), steps_left=left, insight_skipped=skipped)
    assert (found.states, found.error) == (states, None)


def test_a_backtrack_leads_to_the_gate_it_names_and_not_onward() -> None:
    found = decisions.follow(Ruling(Gate.INSIGHT, Decision.PASS, backtrack_to=Gate.RULES))
    assert found.states == (TaskState.VERIFYING,)
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
