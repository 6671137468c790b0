"""The decisions of a gate and their effects; pure functions."""

from __future__ import annotations

import pytest

from gate_builders import ruling_of
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
def test_every_decision_has_one_surface_word_and_one_error(
    decision: Decision, surface: str, retryable: bool, error: type[Exception] | None
) -> None:
    ruling = ruling_of(decision)
    assert (ruling.surface, ruling.retryable) == (surface, retryable)
    raised = decisions.as_error(ruling, "next")
    assert type(raised) is error if error else raised is None
    assert bool(raised and raised.stops) is (decision is Decision.STOP)


def test_a_rejected_output_names_the_tree_to_restart_from() -> None:
    assert ruling_of(Decision.REDO).redo_from == "tree-0"
    assert ruling_of(Decision.REPLAN).redo_from == "plan"
    assert ruling_of(Decision.RETRY).redo_from == ""


def test_feedback_has_its_own_surface_word_and_changes_no_decision() -> None:
    ruling = Ruling(Gate.INSIGHT, Decision.PASS, feedback=("slow",))
    assert (ruling.surface, ruling.decision) == ("FEEDBACK", Decision.PASS)
    assert decisions.effect_of(ruling).states == (TaskState.STORING,)
    assert ruling_of(Decision.RETRY)._replace(feedback=("slow",)).surface == "RETRY"


@pytest.mark.parametrize("decision", [decision for decision in Decision if not decision.goes_on])
def test_every_decision_leads_to_allowed_states(decision: Decision) -> None:
    at = TaskState.VERIFYING
    for state in decisions.effect_of(ruling_of(decision)).states:
        assert allowed(at, state), (at, state)
        at = state


@pytest.mark.parametrize(
    ("gate", "states"),
    [
        (Gate.RULES, ()),
        (Gate.PROOF, (TaskState.INSIGHT,)),
        (Gate.INSIGHT, (TaskState.STORING,)),
        (Gate.STORE, (TaskState.FINAL_REVIEW,)),
    ],
)
def test_a_passed_gate_leads_to_the_next(gate: Gate, states: tuple[TaskState, ...]) -> None:
    effect = decisions.effect_of(Ruling(gate, Decision.PASS))
    assert (effect.states, effect.error) == (states, None)


def test_a_backtrack_leads_to_the_gate_it_names() -> None:
    effect = decisions.effect_of(Ruling(Gate.INSIGHT, Decision.PASS, backtrack_to=Gate.RULES))
    assert effect.states == (TaskState.VERIFYING,)
    assert "戒" in effect.words
