"""Build contracts, changes, verdicts and gate runs for the tests of the gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reflectloop.gates import contract as contracts
from reflectloop.gates import insight, pipeline, proof, retention, rules
from reflectloop.gates.attempt_limits import GateAttempt
from reflectloop.gates.contract import ContractReading
from reflectloop.gates.decisions import Gate, GateReason, Ruling, make_ruling
from reflectloop.gates.insight import Background, Insight, Remark
from reflectloop.gates.pipeline import GateReport, GateStages
from reflectloop.gates.proof import GateProof, ProofInput
from reflectloop.gates.retention import RetentionResult
from reflectloop.gates.rules import Breach, DangerPolicy, GateSubject
from reflectloop.terms import Decision, Track
from reflectloop.verification import verdict as verdicts
from reflectloop.verification.compare import Comparison, compare
from reflectloop.verification.result import ChangedFile, Counts, DetectedCheck, Outcome, VerificationResult
from reflectloop.verification.verdict import CheckComparison, PatchTests, Verdict

CODE = "def f(a):\n    return a\n"
FULL_CONTRACT: dict[str, Any] = {
    "goal": "Round up",
    "summary": "rounds up",
    "files_changed": ["app.py"],
    "may_change": ["app.py"],
    "must_not_change": [],
    "acceptance": [{"id": "AC-1", "text": "rounds up", "check": "test_up"}],
    "reproduction": {"test": "test_up"},
    "regression_risk": "callers that relied on rounding down",
    "behaviour_kept": "same outcomes",
    "decisions": ["negate twice"],
}


def make_contract(track: Track | str = Track.FEATURE, **other: Any) -> ContractReading:
    """Return a contract that is complete on any track; `other` replaces fields, and None removes one."""
    fields = {**FULL_CONTRACT, "track": str(track), **other}
    return contracts.parse_contract(
        {name: value for name, value in fields.items() if value is not None}, "contract.yaml"
    )


def changed_file(path: str = "app.py", before: str | None = "", after: str | None = CODE) -> ChangedFile:
    return ChangedFile(path, None if before is None else before.encode(), None if after is None else after.encode())


def danger_policy(*denied: str, asked: Sequence[str] = ()) -> DangerPolicy:
    """Return a policy that denies, or asks about, text that contains one of the words."""

    def breach(text: str) -> Breach | None:
        hit = next((word for word in (*denied, *asked) if word in text), None)
        return Breach(hit in denied, "sample", f"{hit} is dangerous") if hit else None

    return DangerPolicy(
        lambda path, number, text: breach(text if number else path),
        lambda command: breach(command if isinstance(command, str) else " ".join(command)),
    )


def output(
    read: ContractReading | None = None, changes: Sequence[ChangedFile] = (changed_file(),), **more: Any
) -> GateSubject:
    return GateSubject(read or make_contract(), changes, "tree-0", **more)


def check_rules(
    read: ContractReading | None = None, changes: Sequence[ChangedFile] = (changed_file(),), *denied: str
) -> Ruling:
    return rules.check_rules(output(read, changes), danger_policy(*denied))


def check_result(*, ok: bool = True, kind: str = "test", **tests: Outcome) -> VerificationResult:
    passed = sum(outcome == "passed" for outcome in tests.values())
    return VerificationResult.model_validate(
        {
            "ok": ok,
            "type": "passed" if ok else "test_failure",
            "summary": f"{passed} passed",
            "kind": kind,
            "tests": tests,
            "counts": Counts(passed=passed),
        }
    )


def sealed_verdict(
    base: Mapping[str, Outcome],
    now: Mapping[str, Outcome],
    track: Track = Track.FEATURE,
    patch_tests: Sequence[PatchTests] = (),
    flaky: tuple[str, ...] = (),
) -> Verdict:
    """Return the verdict on a test suite with these outcomes on base and with the patch."""
    green = all(outcome == "passed" for outcome in now.values())
    before, after = check_result(ok="failed" not in base.values(), **base), check_result(ok=green, **now)
    change = compare(before, after)._replace(flaky=flaky)
    judged = CheckComparison(DetectedCheck("pytest", "test", "pytest", ("pytest", "-q")), before, after, change)
    reasons = verdicts.of_checks([judged], track)
    if track is Track.FIX:
        reasons += verdicts.of_fix([*change.fixed, *(name for tests in patch_tests for name in tests.red_then_green)])
    return _verdict(track, reasons, (judged,), patch_tests, change)


def no_check_verdict(track: Track = Track.FEATURE) -> Verdict:
    """Return the verdict on a project that has no check."""
    return _verdict(track, verdicts.of_checks([], track), (), (), Comparison())


def _verdict(track: Track, reasons: Any, checks: Any, patch_tests: Any, change: Comparison) -> Verdict:
    level = "L3" if checks else "L0"
    decision = verdicts.gravest(reasons)
    return Verdict(decision, level, track, tuple(reasons), (), checks, tuple(patch_tests), (), change, "b", "t", "s")  # type: ignore[arg-type]


GREEN: dict[str, Outcome] = {"test_up": "passed", "test_other": "passed"}
RED: dict[str, Outcome] = {"test_up": "failed", "test_other": "passed"}


def check_proof(read: ContractReading, evidence: ProofInput) -> GateProof:
    return proof.check_proof(read.contract, evidence, "tree-0")


def check_insight(read: ContractReading | None = None, **more: Any) -> Insight:
    contract = (read or make_contract()).contract
    fields: dict[str, Any] = {"verdict": sealed_verdict(GREEN, GREEN), "changes": (changed_file(),), **more}
    level = GateProof(Ruling(Gate.PROOF, Decision.PASS), fields.pop("level", "L3"), "")
    return insight.reflect(Background(contract, fields.pop("changes"), level, **fields))


class GateRun:
    """One run of the pipeline that records which gates ran, in order."""

    def __init__(
        self,
        read: ContractReading | None = None,
        *,
        evidence: ProofInput | None = None,
        changes: Sequence[ChangedFile] = (changed_file(),),
        past: Sequence[GateAttempt] = (),
        remarks: Sequence[Sequence[Remark]] = (),
        denied: Sequence[str] = (),
    ) -> None:
        self.read, self.changes, self.past = read or make_contract(), changes, past
        self.evidence = evidence or ProofInput(verdict=sealed_verdict(RED, GREEN, self.read.contract.track), exits=True)
        self.remarks, self.denied = list(remarks), denied
        self.gates_run: list[str] = []
        self.report = self._run()

    def _run(self) -> GateReport:
        skip = insight.skip_reason(self.read.contract, self.changes)
        stages = GateStages(self._check_rules, self._prove, self._reflect, self._retain, skip)
        return pipeline.run_gates("Round up", self.read.contract, stages, self.past, "RUN")

    def _check_rules(self) -> Ruling:
        self.gates_run.append("戒")
        return rules.check_rules(output(self.read, self.changes), danger_policy(*self.denied))

    def _prove(self, _again: int) -> GateProof:
        self.gates_run.append("定")
        return check_proof(self.read, self.evidence)

    def _reflect(self, gate_proof: GateProof) -> Insight:
        self.gates_run.append("慧")
        remarks = self.remarks.pop(0) if self.remarks else ()
        return check_insight(
            self.read, verdict=self.evidence.verdict, level=gate_proof.level, changes=self.changes, remarks=remarks
        )

    def _retain(self, insight_result: Insight | None) -> RetentionResult:
        self.gates_run.append("识")
        return retention.select_anchors(insight_result.anchors if insight_result else (), {}, {})


def attempt(
    decision: Decision, number: int, *, text: str = "test_up fails", backtracks: int = 0, rule: str = "sealed"
) -> GateAttempt:
    return GateAttempt(f"RUN-{number}", "proof", str(decision), (text,), (rule,), backtracks)


def ruling_of(decision: Decision, text: str = "no") -> Ruling:
    return make_ruling(Gate.PROOF, [GateReason(decision, "sealed", text)], "tree-0")


def lines(count: int) -> str:
    return "".join(f"x{number} = {number}\n" for number in range(count))
