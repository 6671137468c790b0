"""The way through the gates, its limits, and its report; pure functions."""

from __future__ import annotations

import json

import pytest

from gate_builders import (
    GREEN,
    Walked,
    changed,
    examined,
    lines,
    said,
    said_no,
    sealed,
    tried,
    unproven,
    weighed,
)
from reflectloop.errors import MaxRetries
from reflectloop.gates import attempt_limits, decisions, report
from reflectloop.gates.decisions import Gate, GateReason, Ruling
from reflectloop.gates.insight import Remark
from reflectloop.gates.proof import ProofInput
from reflectloop.terms import Decision, Track

ALL_GOOD = "All good, verified end-to-end, 15/15 passed"


def texts(ruling: Ruling) -> str:
    return " | ".join(str(one) for one in ruling.reasons)


def test_what_the_rules_reject_is_never_run() -> None:
    walked = Walked(said(goal=None))
    assert walked.asked == ["戒"]
    assert walked.report.decision is Decision.REDO
    assert walked.report.proof is None


def test_what_is_not_proven_is_not_looked_at_by_insight_and_not_stored() -> None:
    walked = Walked(
        said(Track.FIX), seen=ProofInput(verdict=sealed(GREEN, GREEN, Track.FIX)), changes=[changed(after=lines(50))]
    )
    assert walked.asked == ["戒", "定"]
    walked = Walked(said(), seen=ProofInput(verdict=unproven(), report=ALL_GOOD))
    assert (walked.asked, walked.report.decision) == (["戒", "定"], Decision.REDO)


def test_every_output_begins_at_the_rules_again() -> None:
    past = [tried(Decision.REDO, 1), tried(Decision.RETRY, 2)]
    assert Walked(said(Track.FIX), past=past).asked[0] == "戒"


@pytest.mark.parametrize("decision", [Decision.RETRY, Decision.REDO])
def test_the_third_failure_of_a_kind_stops_with_every_attempt(decision: Decision) -> None:
    past = [tried(decision, 1, text="first"), tried(decision, 2, text="second")]
    ruling = attempt_limits.limited(said_no(decision, "third"), past)
    assert ruling.decision is Decision.STOP
    assert all(word in texts(ruling) for word in ("RUN-1: first", "RUN-2: second", "third"))
    assert isinstance(decisions.as_error(ruling, ""), MaxRetries)
    assert attempt_limits.limited(said_no(decision), past[:1]).decision is decision


def test_retries_and_redos_are_counted_apart() -> None:
    past = [tried(Decision.REDO, 1), tried(Decision.REDO, 2)]
    assert attempt_limits.limited(said_no(Decision.RETRY), past).decision is Decision.RETRY


def test_what_passed_in_between_is_behind() -> None:
    past = [tried(Decision.RETRY, 1), tried(Decision.RETRY, 2), tried(Decision.PASS, 3)]
    assert attempt_limits.limited(said_no(Decision.RETRY), past).decision is Decision.RETRY


def test_asking_is_never_counted_into_a_stop() -> None:
    past = [tried(Decision.ASK, number) for number in range(5)]
    assert attempt_limits.limited(said_no(Decision.ASK), past).decision is Decision.ASK


def test_after_the_second_retry_the_cause_is_asked_for() -> None:
    assert not attempt_limits.wants_cause([tried(Decision.RETRY, 1)])
    assert attempt_limits.wants_cause([tried(Decision.RETRY, 1), tried(Decision.RETRY, 2)])
    assert not attempt_limits.wants_cause([tried(Decision.REDO, 1), tried(Decision.REDO, 2)])


def missed(times: int) -> list[list[Remark]]:
    return [[Remark("evidence", f"doubt {number}")] for number in range(1, times + 1)]


def test_two_backtracks_are_recorded_with_reason_and_result() -> None:
    walked = Walked(said(), seen=ProofInput(verdict=sealed(GREEN, GREEN)), remarks=missed(2))
    assert [(one.number, one.gate, one.reason, one.result) for one in walked.report.backtracks] == [
        (1, Gate.PROOF, "doubt 1", "not mended"),
        (2, Gate.PROOF, "doubt 2", "mended"),
    ]
    assert "| 2 | 定 | doubt 2 | mended |" in report.markdown(walked.report)
    assert walked.report.warnings == ("sent back 2 times by 慧 (doubt 1; doubt 2); the next time it stops",)


def test_the_third_backtrack_stops_with_every_reason() -> None:
    walked = Walked(said(), seen=ProofInput(verdict=sealed(GREEN, GREEN)), remarks=missed(5))
    assert walked.report.decision is Decision.STOP
    assert walked.asked.count("慧") == 3
    assert "doubt 1; doubt 2; doubt 3" in texts(walked.report.last)
    assert "识" not in walked.asked


def test_backtracks_of_earlier_outputs_count() -> None:
    past = [tried(Decision.RETRY, 1, backtracks=2)]
    walked = Walked(said(), seen=ProofInput(verdict=sealed(GREEN, GREEN)), past=past, remarks=missed(1))
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
    walked = Walked(said(may_change=["**"]), seen=ProofInput(verdict=sealed(GREEN, GREEN)))
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
    walked = Walked(said(), seen=ProofInput(verdict=sealed(GREEN, GREEN)), remarks=missed(1))
    found = json.loads(json.dumps(report.data(walked.report, walked.seen.verdict)))
    assert (found["decision"], found["level"], found["insight"]["grade"]) == ("PASS", "L3", "C")
    assert [one["sign"] for one in found["gates"]] == ["戒", "定", "慧", "识"]
    assert found["backtracks"] == [{"number": 1, "gate": "proof", "reason": "doubt 1", "result": "mended"}]


def test_every_reason_says_what_to_do_about_it() -> None:
    faults: list[GateReason] = [
        *examined(said(goal=None, decisions=3, files_changed=["b.py"], role="planner")).reasons,
        *weighed(said(Track.REFACTOR), ProofInput(breaks=["x"])).ruling.reasons,
    ]
    assert len(faults) > 5
    assert all(one.mend for one in faults)
