"""Hands for the stories of the gates: contracts, changes and verdicts made to measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reflectloop.gates import contract as contracts
from reflectloop.gates import insight, pipeline, proof, retention, rules
from reflectloop.gates.attempt_limits import GateAttempt
from reflectloop.gates.contract import ContractReading
from reflectloop.gates.decisions import Gate, GateReason, Ruling, settle
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
WHOLE: dict[str, Any] = {
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


def said(track: Track | str = Track.FEATURE, **other: Any) -> ContractReading:
    """A contract that is complete on any track, but for what is changed or, by None, left out."""
    fields = {**WHOLE, "track": str(track), **other}
    return contracts.read({name: value for name, value in fields.items() if value is not None}, "contract.yaml")


def changed(path: str = "app.py", before: str | None = "", after: str | None = CODE) -> ChangedFile:
    return ChangedFile(path, None if before is None else before.encode(), None if after is None else after.encode())


def harmless(*denied: str, asked: Sequence[str] = ()) -> DangerPolicy:
    """Judges that speak up at the words given."""

    def breach(text: str) -> Breach | None:
        hit = next((word for word in (*denied, *asked) if word in text), None)
        return Breach(hit in denied, "sample", f"{hit} is dangerous") if hit else None

    return DangerPolicy(
        lambda path, number, text: breach(text if number else path),
        lambda command: breach(command if isinstance(command, str) else " ".join(command)),
    )


def output(
    read: ContractReading | None = None, changes: Sequence[ChangedFile] = (changed(),), **more: Any
) -> GateSubject:
    return GateSubject(read or said(), changes, "tree-0", **more)


def examined(
    read: ContractReading | None = None, changes: Sequence[ChangedFile] = (changed(),), *denied: str
) -> Ruling:
    return rules.examine(output(read, changes), harmless(*denied))


def ran(*, ok: bool = True, kind: str = "test", **tests: Outcome) -> VerificationResult:
    passed = sum(came == "passed" for came in tests.values())
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


def sealed(
    base: Mapping[str, Outcome],
    now: Mapping[str, Outcome],
    track: Track = Track.FEATURE,
    own: Sequence[PatchTests] = (),
    flaky: tuple[str, ...] = (),
) -> Verdict:
    """The verdict on a suite that came out so on base and so on the patch."""
    green = all(came == "passed" for came in now.values())
    before, after = ran(ok="failed" not in base.values(), **base), ran(ok=green, **now)
    change = compare(before, after)._replace(flaky=flaky)
    judged = CheckComparison(DetectedCheck("pytest", "test", "pytest", ("pytest", "-q")), before, after, change)
    reasons = verdicts.of_checks([judged], track)
    if track is Track.FIX:
        reasons += verdicts.of_fix([*change.fixed, *(name for one in own for name in one.red_then_green)])
    return _verdict(track, reasons, (judged,), own, change)


def unproven(track: Track = Track.FEATURE) -> Verdict:
    """What sealed verification says of a project that has no check."""
    return _verdict(track, verdicts.of_checks([], track), (), (), Comparison())


def _verdict(track: Track, reasons: Any, checks: Any, own: Any, change: Comparison) -> Verdict:
    level = "L3" if checks else "L0"
    decision = verdicts.gravest(reasons)
    return Verdict(decision, level, track, tuple(reasons), (), checks, tuple(own), (), change, "b", "t", "s")  # type: ignore[arg-type]


GREEN: dict[str, Outcome] = {"test_up": "passed", "test_other": "passed"}
RED: dict[str, Outcome] = {"test_up": "failed", "test_other": "passed"}


def weighed(read: ContractReading, seen: ProofInput) -> GateProof:
    return proof.weigh(read.contract, seen, "tree-0")


def reflected(read: ContractReading | None = None, **more: Any) -> Insight:
    contract = (read or said()).contract
    given: dict[str, Any] = {"verdict": sealed(GREEN, GREEN), "changes": (changed(),), **more}
    level = GateProof(Ruling(Gate.PROOF, Decision.PASS), given.pop("level", "L3"), "")
    return insight.reflect(Background(contract, given.pop("changes"), level, **given))


class Walked:
    """A pipeline whose stations note that they were asked."""

    def __init__(
        self,
        read: ContractReading | None = None,
        *,
        seen: ProofInput | None = None,
        changes: Sequence[ChangedFile] = (changed(),),
        past: Sequence[GateAttempt] = (),
        remarks: Sequence[Sequence[Remark]] = (),
        denied: Sequence[str] = (),
    ) -> None:
        self.read, self.changes, self.past = read or said(), changes, past
        self.seen = seen or ProofInput(verdict=sealed(RED, GREEN, self.read.contract.track), exits=True)
        self.remarks, self.denied = list(remarks), denied
        self.asked: list[str] = []
        self.report = self._walk()

    def _walk(self) -> GateReport:
        stations = GateStages(self._examine, self._prove, self._skip, self._reflect, self._store)
        return pipeline.walk("Round up", self.read.contract, stations, self.past, "RUN")

    def _examine(self) -> Ruling:
        self.asked.append("戒")
        return rules.examine(output(self.read, self.changes), harmless(*self.denied))

    def _prove(self, _again: int) -> GateProof:
        self.asked.append("定")
        return weighed(self.read, self.seen)

    def _skip(self) -> str:
        return insight.skipped(self.read.contract, self.changes)

    def _reflect(self, found: GateProof) -> Insight:
        self.asked.append("慧")
        remarks = self.remarks.pop(0) if self.remarks else ()
        return reflected(self.read, verdict=self.seen.verdict, level=found.level, changes=self.changes, remarks=remarks)

    def _store(self, found: Insight | None) -> RetentionResult:
        self.asked.append("识")
        return retention.sift(found.anchors if found else (), {}, {})


def tried(
    decision: Decision, number: int, *, text: str = "test_up fails", backtracks: int = 0, rule: str = "sealed"
) -> GateAttempt:
    return GateAttempt(f"RUN-{number}", "proof", str(decision), (text,), (rule,), backtracks)


def said_no(decision: Decision, text: str = "no") -> Ruling:
    return settle(Gate.PROOF, [GateReason(decision, "sealed", text)], "tree-0")


def lines(count: int) -> str:
    return "".join(f"x{number} = {number}\n" for number in range(count))
