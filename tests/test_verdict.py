"""Comparing outcomes, deciding, and the chain of evidence: the pure part of sealed verification."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.errors import InvalidInput
from reflectloop.plan.globs import matches_any
from reflectloop.terms import Decision, OutcomeWord, Track, outcome_of
from reflectloop.verification import compare, evidence, verdict
from reflectloop.verification.evidence_chain import Chain, EvidenceRecord, write_receipt
from reflectloop.verification.result import (
    Counts,
    Detail,
    DetectedCheck,
    Outcome,
    TamperFinding,
    Type,
    VerificationResult,
)
from reflectloop.verification.verdict import CheckComparison, PatchTests, PlanCheckResult, VerdictReason

OUTCOMES: list[Outcome] = ["passed", "failed", "error", "skipped", "xfailed", "xpassed"]


def result(*, ok: bool = True, kind: str = "test", came: Type | None = None, **tests: Outcome) -> VerificationResult:
    said: Type = came or ("passed" if ok else "test_failure")
    return VerificationResult.model_validate(
        {"ok": ok, "type": said, "summary": said, "kind": kind, "tests": dict(tests)}
    )


def judged(base: VerificationResult, now: VerificationResult, kind: str = "test") -> CheckComparison:
    check = DetectedCheck("tests", kind, "pytest", ("pytest",))  # type: ignore[arg-type]
    return CheckComparison(check, base, now, compare.compare(base, now))


def test_a_test_that_turned_red_is_newly_failing() -> None:
    found = compare.by_test({"a": "passed", "b": "passed"}, {"a": "failed", "b": "passed"})
    assert found.newly_failing == ("a",)
    assert found.worse


def test_a_test_that_is_not_run_any_more_has_vanished() -> None:
    assert compare.by_test({"a": "passed", "b": "failed", "c": "skipped"}, {}).vanished == ("a", "b")


@pytest.mark.parametrize("aside", ["skipped", "xfailed"])
def test_a_test_put_aside_is_not_a_test_that_passes(aside: Outcome) -> None:
    assert compare.by_test({"a": "failed"}, {"a": aside}).now_skipped == ("a",)
    assert compare.by_test({"a": "passed"}, {"a": aside}).worse


def test_what_failed_before_and_fails_still_is_proven_to_be_old() -> None:
    found = compare.by_test({"a": "failed", "b": "error"}, {"a": "failed", "b": "passed"})
    assert (found.pre_existing, found.fixed, found.worse) == (("a",), ("b",), False)


def test_a_new_test_that_fails_is_newly_failing() -> None:
    assert compare.by_test({}, {"new": "error"}).newly_failing == ("new",)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(OUTCOMES)),
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(OUTCOMES)),
)
def test_every_passed_test_is_accounted_for(base: dict[str, Outcome], now: dict[str, Outcome]) -> None:
    found = compare.by_test(base, now)
    for name, came in base.items():
        if came == "passed" and now.get(name) not in ("passed", "xpassed"):
            assert name in (*found.newly_failing, *found.vanished, *found.now_skipped)
    assert not compare.by_test(base, base).worse


def test_an_issue_that_only_moved_is_not_new() -> None:
    old = VerificationResult(
        ok=False, type="lint", summary="", kind="lint", details=(Detail(file="a.py", line=3, rule="E1", error="long"),)
    )
    moved = old.model_copy(update={"details": (Detail(file="a.py", line=30, rule="E1", error="long"),)})
    more = moved.model_copy(update={"details": (*moved.details, Detail(file="a.py", line=31, rule="E1", error="long"))})
    assert compare.compare(old, moved).newly_failing == ()
    assert len(compare.compare(old, more).newly_failing) == 1


def test_a_runner_that_died_counts_whole_and_not_as_a_thousand_lost_tests() -> None:
    found = compare.compare(result(a="passed", b="passed"), result(ok=False, came="crashed"))
    assert (found.newly_failing, found.vanished) == (("crashed",), ())


def test_a_suite_that_could_not_be_collected_and_can_be_now_is_fixed() -> None:
    assert compare.compare(result(ok=False, came="collection_error"), result(a="passed")).fixed


def test_without_any_check_nothing_is_proven() -> None:
    assert verdict.gravest(verdict.of_checks([], None)) is Decision.RETRY


def test_linters_alone_prove_nothing() -> None:
    one = judged(result(kind="lint"), result(kind="lint"), kind="lint")
    assert verdict.gravest(verdict.of_checks([one], None)) is Decision.RETRY


@pytest.mark.parametrize("came", ["no_tests", "tool_missing", "timeout", "crashed", "collection_error"])
def test_a_check_without_an_answer_is_no_pass_though_base_had_none_either(came: Type) -> None:
    one = judged(result(ok=False, came=came), result(ok=False, came=came))
    assert verdict.gravest(verdict.of_checks([one], None)) is Decision.RETRY


def test_a_check_that_gave_no_result_on_base_either_is_the_tools_fault() -> None:
    one = judged(result(ok=False, came="crashed"), result(ok=False, came="crashed"))
    assert outcome_of(verdict.of_checks([one], None)) is OutcomeWord.NOT_JUDGED
    crashes_now = judged(result(a="passed"), result(ok=False, came="crashed"))
    assert outcome_of(verdict.of_checks([crashes_now], None)) is OutcomeWord.REFUSED


def test_a_test_that_breaks_is_seen_though_the_check_ended_badly_on_base_for_another_reason() -> None:
    base = result(ok=False, came="crashed", a="passed", b="passed")  # say, the coverage is too low
    broken = judged(base, result(ok=False, a="passed", b="failed"))
    assert broken.comparison.newly_failing == ("b",)
    assert outcome_of(verdict.of_checks([broken], None)) is OutcomeWord.REFUSED
    lost = judged(base, result(ok=False, came="crashed", a="passed"))
    assert lost.comparison.vanished == ("b",)


def test_a_check_that_ends_badly_for_the_same_other_reason_is_not_this_changes_fault() -> None:
    base = result(ok=False, came="crashed", a="passed").model_copy(update={"exit_code": 1})
    assert verdict.of_checks([judged(base, base)], None) == []
    killed = base.model_copy(update={"exit_code": -9})
    assert outcome_of(verdict.of_checks([judged(base, killed)], None)) is OutcomeWord.REFUSED


def test_tests_that_fail_are_new_failures_where_base_gave_no_result() -> None:
    one = judged(result(ok=False, came="timeout"), result(ok=False, a="failed", b="passed"))
    assert one.comparison.newly_failing == ("a",)


def test_a_reason_with_a_rule_can_be_approved_for_this_change_alone() -> None:
    weakened = verdict.of_findings([TamperFinding("skip-added", "tests/test_a.py", 3, "skips the test")], [])
    (mine,) = verdict.identified(weakened, "base", "tree")
    assert outcome_of([mine]) is OutcomeWord.REVIEW
    assert verdict.split_approved([mine], {mine.finding: "Ann: agreed"})[0] == []
    (other,) = verdict.identified(weakened, "base", "another tree")
    assert verdict.split_approved([other], {mine.finding: "Ann: agreed"})[0] == [other]
    assert outcome_of([mine, *verdict.of_fix([])]) is OutcomeWord.REFUSED


def test_old_failures_alone_are_not_this_changes_fault() -> None:
    one = judged(result(ok=False, a="failed", b="passed"), result(ok=False, a="failed", b="passed"))
    assert verdict.of_checks([one], None) == []


def test_a_suite_of_which_no_test_passes_judges_nothing() -> None:
    red = result(ok=False, a="failed", b="error")
    one = judged(red, red)
    (reason,) = verdict.of_red_suite([one], [])
    assert outcome_of([reason]) is OutcomeWord.NOT_JUDGED
    assert "no test passes, neither on base nor on the change" in reason.text
    assert verdict.of_red_suite([judged(red, result(ok=False, a="failed", b="passed"))], []) == []
    assert verdict.of_red_suite([judged(result(ok=False, a="failed", b="passed"), red)], []) == []
    assert verdict.of_red_suite([one, judged(result(a="passed"), result(a="passed"))], []) == []
    assert verdict.of_red_suite([one, judged(result(kind="build"), result(kind="build"), kind="build")], []) == []
    lint = judged(result(kind="lint"), result(kind="lint"), kind="lint")
    assert verdict.of_red_suite([one, lint], []) == [reason]
    assert verdict.of_red_suite([one], [PatchTests("tests", red, result(new="passed"))]) == []
    nothing_ran = result(ok=False, came="crashed")
    assert verdict.of_red_suite([judged(nothing_ran, nothing_ran)], []) == []


def test_a_failure_that_names_no_tests_and_no_numbers_cannot_be_called_old() -> None:
    one = judged(result(ok=False), result(ok=False))
    assert verdict.gravest(verdict.of_checks([one], None)) is Decision.RETRY


def test_a_refactoring_that_changes_an_outcome_is_none() -> None:
    one = judged(result(ok=False, a="failed", b="passed"), result(a="passed", b="passed"))
    assert verdict.of_checks([one], Track.FEATURE) == []
    assert verdict.gravest(verdict.of_checks([one], Track.REFACTOR)) is Decision.RETRY


def test_a_refactoring_may_remove_an_issue_of_a_linter() -> None:
    issue = Detail(file="a.py", line=3, rule="UP035", error="import from collections.abc")
    old = result(ok=False, kind="lint").model_copy(update={"type": "lint", "details": (issue,)})
    one = judged(old, result(kind="lint"), kind="lint")
    assert one.comparison.fixed
    tests = judged(result(a="passed"), result(a="passed"))
    assert verdict.of_checks([one, tests], Track.REFACTOR) == []


def test_a_weakening_is_thrown_away_unless_a_person_freed_the_file() -> None:
    found = [TamperFinding("skip-added", "tests/test_a.py", 3, "skips the test")]
    assert verdict.gravest(verdict.of_findings(found, [])) is Decision.REDO
    assert verdict.gravest(verdict.of_findings(found, ["tests/test_a.py"])) is Decision.ASK
    assert verdict.of_findings([found[0]._replace(grade="note")], []) == []


def test_a_fix_shows_something_that_was_red() -> None:
    assert verdict.gravest(verdict.of_fix([])) is Decision.RETRY
    assert verdict.of_fix(["tests/test_a.py::test_x"]) == []


def test_a_check_that_is_green_on_base_reproduces_nothing() -> None:
    assert verdict.of_named([PlanCheckResult("repro", True, "", red_on_base=True)]) == []
    assert verdict.gravest(verdict.of_named([PlanCheckResult("repro", True, "", red_on_base=False)])) is Decision.RETRY
    assert verdict.gravest(verdict.of_named([PlanCheckResult("repro", False, "exit code 1, not 0")])) is Decision.RETRY


def test_own_tests_that_fail_are_named() -> None:
    one = PatchTests("pytest", result(), result(ok=False, x="failed"), failing=("x",))
    assert "x" in verdict.of_own([one])[0].text


def test_a_new_test_that_needs_a_network_is_not_judged_rather_than_refused() -> None:
    run = result(ok=False, x="failed", y="failed")
    offline = Detail(test="x", error="socket.gaierror: [Errno -3] Temporary failure in name resolution")
    alone = PatchTests("pytest", result(), run.model_copy(update={"details": (offline,)}), failing=("x",))
    assert [reason.unjudged for reason in verdict.of_own([alone])] == [True]
    wrong = Detail(test="y", error="assert 1 == 2")
    both = PatchTests("pytest", result(), run.model_copy(update={"details": (offline, wrong)}), failing=("x", "y"))
    assert [reason.unjudged for reason in verdict.of_own([both])] == [False]


def test_the_gravest_reason_decides() -> None:
    reasons = [VerdictReason(one, "") for one in (Decision.ASK, Decision.RETRY, Decision.REDO)]
    assert verdict.gravest(reasons) is Decision.REDO
    assert verdict.gravest([]) is Decision.PASS


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("src/**", "src/a/b.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src", "src/a/b.py", True),
        ("**/test_*.py", "test_a.py", True),
        ("**/test_*.py", "x/y/test_a.py", True),
        ("a?.py", "ab.py", True),
        ("a[bc].py", "ac.py", True),
        ("a+b.py", "aab.py", False),
    ],
)
def test_patterns_mean_what_people_mean_by_them(pattern: str, path: str, fits: bool) -> None:
    assert matches_any(path, [pattern]) is fits


def _folder(path: Path) -> Path:
    chain = Chain(path / evidence.FILE)
    for claim in ("on base", "sealed"):
        chain.add(
            EvidenceRecord(
                claim=claim,
                level="L3",
                kind="test",
                command=("pytest",),
                exit_code=0,
                counts=Counts(passed=3),
                tree="t",
                base_tree="b",
                plan_hash=None,
                output_sha256=None,
                isolation="full",
                started="",
                duration_ms=1,
            )
        )
    (path / "changes.patch").write_text("diff --git a/x b/x\n")
    (path / "plan.txt").write_text("plan: {}\n")
    return write_receipt(path, chain, {"decision": "PASS"}, ["changes.patch", "plan.txt"])


def test_what_was_written_verifies(tmp_path: Path) -> None:
    found = evidence.verify(_folder(tmp_path))
    assert found.faults == []
    assert [record["id"] for record in found.records] == ["E-001", "E-002"]


@pytest.mark.parametrize("name", [evidence.FILE, "changes.patch", "plan.txt", evidence.RECEIPT])
def test_any_changed_byte_is_seen(tmp_path: Path, name: str) -> None:
    receipt = _folder(tmp_path)
    whole = (tmp_path / name).read_bytes()
    for place in range(len(whole)):
        (tmp_path / name).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            checked = evidence.verify(receipt)
            seen = bool(checked.faults) or checked.signed is not evidence.SignatureState.HERE
        except InvalidInput:
            seen = True
        assert seen, f"byte {place} of {name}"
    (tmp_path / name).write_bytes(whole)
    assert evidence.verify(receipt).faults == []


def test_a_record_taken_out_of_the_middle_is_seen_though_hashes_were_made_again(tmp_path: Path) -> None:
    receipt = _folder(tmp_path)
    lines = (tmp_path / evidence.FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / evidence.FILE).write_bytes(lines[1])
    said = json.loads(receipt.read_text())
    said["files"][evidence.FILE] = evidence.digest_of(tmp_path / evidence.FILE)
    body = {key: value for key, value in said.items() if key != "digest"}
    receipt.write_text(json.dumps({**body, "digest": evidence.digest(evidence.canonical(body))}, indent=2) + "\n")
    assert any("does not follow" in fault for fault in evidence.verify(receipt).faults)


def test_what_is_no_receipt_is_refused_by_name(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"version": 9}'):
        (tmp_path / "receipt.json").write_text(text)
        with pytest.raises(InvalidInput, match=r"receipt\.json"):
            evidence.verify(tmp_path / "receipt.json")
    with pytest.raises(InvalidInput, match="No such file"):
        evidence.verify(tmp_path / "none.json")


def in_words(passed: int, *red: str) -> VerificationResult:
    """As a runner's text says it: only what failed has a name."""
    tests: dict[str, Outcome] = dict.fromkeys(red, "failed")
    found = result(ok=not red).model_copy(update={"tests": tests, "type": "test_failure" if red else "passed"})
    return found.model_copy(update={"counts": Counts(passed=passed, failed=len(red))})


def test_where_only_failures_have_names_what_is_not_named_any_more_is_fixed() -> None:
    mended = compare.compare(in_words(8, "a", "b"), in_words(9, "b"))
    assert (mended.fixed, mended.pre_existing, mended.vanished) == (("a",), ("b",), ())
    assert compare.compare(in_words(8, "a"), in_words(9)).fixed == ("a",)
    assert compare.compare(in_words(8, "a"), in_words(8, "c")).newly_failing == ("c",)


def test_where_only_failures_have_names_fewer_tests_fix_nothing() -> None:
    gone = compare.compare(in_words(8, "a"), in_words(8))
    assert (gone.fixed, gone.vanished) == ((), ("1 tests",))


def test_one_edit_of_a_test_is_asked_about_once() -> None:
    check = PlanCheckResult("pytest", held=True, reason="", edited=("tests/test_a.py",))
    assert [reason.decision for reason in verdict.of_named([check])] == [Decision.ASK]
    assert verdict.of_named([check], ["tests/test_a.py"]) == []
    assert [reason.decision for reason in verdict.of_named([check], ["tests/test_b.py"])] == [Decision.ASK]
