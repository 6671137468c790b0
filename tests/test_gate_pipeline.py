"""The gate pipeline, its limits, and its report; pure functions."""

from __future__ import annotations

import json

import pytest

from gate_builders import (
    GREEN,
    GateRun,
    attempt,
    changed_file,
    check_proof,
    check_rules,
    lines,
    make_contract,
    no_check_verdict,
    ruling_of,
    sealed_verdict,
)
from reflectloop.errors import MaxRetries
from reflectloop.gates import attempt_limits, decisions, report
from reflectloop.gates.decisions import Gate, GateReason, Ruling
from reflectloop.gates.insight import Remark
from reflectloop.gates.proof import ProofInput
from reflectloop.terms import Decision, Track

ALL_GOOD = "All good, verified end-to-end, 15/15 passed"


def texts(ruling: Ruling) -> str:
    return " | ".join(str(reason) for reason in ruling.reasons)


def test_an_output_rejected_by_the_rules_is_not_run() -> None:
    run = GateRun(make_contract(goal=None))
    assert run.gates_run == ["戒"]
    assert run.report.decision is Decision.REDO
    assert run.report.proof is None


def test_an_unproven_output_reaches_neither_insight_nor_retention() -> None:
    run = GateRun(
        make_contract(Track.FIX),
        evidence=ProofInput(verdict=sealed_verdict(GREEN, GREEN, Track.FIX)),
        changes=[changed_file(after=lines(50))],
    )
    assert run.gates_run == ["戒", "定"]
    run = GateRun(make_contract(), evidence=ProofInput(verdict=no_check_verdict(), report=ALL_GOOD))
    assert (run.gates_run, run.report.decision) == (["戒", "定"], Decision.REDO)


def test_every_output_starts_at_the_rules() -> None:
    past = [attempt(Decision.REDO, 1), attempt(Decision.RETRY, 2)]
    assert GateRun(make_contract(Track.FIX), past=past).gates_run[0] == "戒"


@pytest.mark.parametrize("decision", [Decision.RETRY, Decision.REDO])
def test_the_third_failure_of_a_kind_stops_with_every_attempt(decision: Decision) -> None:
    past = [attempt(decision, 1, text="first"), attempt(decision, 2, text="second")]
    ruling = attempt_limits.apply_limit(ruling_of(decision, "third"), past)
    assert ruling.decision is Decision.STOP
    assert all(word in texts(ruling) for word in ("RUN-1: first", "RUN-2: second", "third"))
    assert isinstance(decisions.as_error(ruling, ""), MaxRetries)
    assert attempt_limits.apply_limit(ruling_of(decision), past[:1]).decision is decision


def test_retries_and_redos_are_counted_separately() -> None:
    past = [attempt(Decision.REDO, 1), attempt(Decision.REDO, 2)]
    assert attempt_limits.apply_limit(ruling_of(Decision.RETRY), past).decision is Decision.RETRY


def test_a_pass_resets_the_count() -> None:
    past = [attempt(Decision.RETRY, 1), attempt(Decision.RETRY, 2), attempt(Decision.PASS, 3)]
    assert attempt_limits.apply_limit(ruling_of(Decision.RETRY), past).decision is Decision.RETRY


def test_ask_decisions_never_add_up_to_a_stop() -> None:
    past = [attempt(Decision.ASK, number) for number in range(5)]
    assert attempt_limits.apply_limit(ruling_of(Decision.ASK), past).decision is Decision.ASK


def test_the_root_cause_is_required_after_the_second_retry() -> None:
    assert not attempt_limits.needs_root_cause([attempt(Decision.RETRY, 1)])
    assert attempt_limits.needs_root_cause([attempt(Decision.RETRY, 1), attempt(Decision.RETRY, 2)])
    assert not attempt_limits.needs_root_cause([attempt(Decision.REDO, 1), attempt(Decision.REDO, 2)])


def missed(times: int) -> list[list[Remark]]:
    return [[Remark("evidence", f"doubt {number}")] for number in range(1, times + 1)]


def test_two_backtracks_are_recorded_with_reason_and_result() -> None:
    run = GateRun(make_contract(), evidence=ProofInput(verdict=sealed_verdict(GREEN, GREEN)), remarks=missed(2))
    assert [(back.number, back.gate, back.reason, back.result) for back in run.report.backtracks] == [
        (1, Gate.PROOF, "doubt 1", "not mended"),
        (2, Gate.PROOF, "doubt 2", "mended"),
    ]
    assert "| 2 | 定 | doubt 2 | mended |" in report.report_markdown(run.report)
    assert run.report.warnings == (
        "insight (慧) sent it back 2 times (doubt 1; doubt 2); the next time stops the project",
    )


def test_the_third_backtrack_stops_with_every_reason() -> None:
    run = GateRun(make_contract(), evidence=ProofInput(verdict=sealed_verdict(GREEN, GREEN)), remarks=missed(5))
    assert run.report.decision is Decision.STOP
    assert run.gates_run.count("慧") == 3
    assert "doubt 1; doubt 2; doubt 3" in texts(run.report.last)
    assert "识" not in run.gates_run


def test_backtracks_of_earlier_outputs_count() -> None:
    past = [attempt(Decision.RETRY, 1, backtracks=2)]
    run = GateRun(
        make_contract(), evidence=ProofInput(verdict=sealed_verdict(GREEN, GREEN)), past=past, remarks=missed(1)
    )
    assert run.report.decision is Decision.STOP


def test_a_stop_lists_attempts_errors_likely_causes_and_next_steps() -> None:
    past = [attempt(Decision.REDO, 1, text="outside may_change", rule="boundary.outside")] * 2
    run = GateRun(make_contract(files_changed=["x.py"]), changes=[changed_file("x.py")], past=past)
    packet = run.report.packet
    assert packet
    assert [attempt["number"] for attempt in packet.attempts] == [1, 2, 3]
    assert all(attempt["errors"] for attempt in packet.attempts)
    assert any("the same fault came back" in cause for cause in packet.causes)
    assert any("may_change may be too narrow" in cause for cause in packet.causes)
    assert any("reflectloop unlock" in line for line in packet.asked)
    page = report.report_markdown(run.report)
    assert "### Escalation" in page
    assert page.count("| RUN-1 |") == 2


def test_a_stop_by_a_limit_is_counted_as_the_failure_it_was() -> None:
    from reflectloop.gates import pipeline

    past = [attempt(Decision.REDO, 1), attempt(Decision.REDO, 2)]
    run = GateRun(make_contract(goal=None), past=past)
    assert run.report.decision is Decision.STOP
    assert pipeline.as_attempt(run.report, "RUN").decision == "REDO"


def test_the_report_has_the_header_the_table_and_the_details_of_each_gate() -> None:
    run = GateRun(make_contract(may_change=["**"]), evidence=ProofInput(verdict=sealed_verdict(GREEN, GREEN)))
    page = report.report_markdown(run.report, run.evidence.verdict)
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


def test_a_rejected_report_leaves_the_failed_checkbox_empty() -> None:
    page = report.report_markdown(
        GateRun(make_contract(files_changed=["app.py", "b.py"]), changes=[changed_file(), changed_file("b.py")]).report
    )
    assert "- [ ] Boundaries and permissions" in page
    assert "❌ REFUSED · REJECT · REDO" in page
    assert "定" not in page.split("### Gates")[1].split("####")[0]


def test_the_json_report_has_the_same_content() -> None:
    run = GateRun(make_contract(), evidence=ProofInput(verdict=sealed_verdict(GREEN, GREEN)), remarks=missed(1))
    data = json.loads(json.dumps(report.report_data(run.report, run.evidence.verdict)))
    assert (data["decision"], data["level"], data["insight"]["grade"]) == ("PASS", "L3", "C")
    assert [gate["sign"] for gate in data["gates"]] == ["戒", "定", "慧", "识"]
    assert data["backtracks"] == [{"number": 1, "gate": "proof", "reason": "doubt 1", "result": "mended"}]


def test_every_reason_names_a_fix() -> None:
    faults: list[GateReason] = [
        *check_rules(make_contract(goal=None, decisions=3, files_changed=["b.py"], role="planner")).reasons,
        *check_proof(make_contract(Track.REFACTOR), ProofInput(breaks=["x"])).ruling.reasons,
    ]
    assert len(faults) > 5
    assert all(reason.mend for reason in faults)
