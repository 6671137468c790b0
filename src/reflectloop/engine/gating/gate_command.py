"""`gate`: any patch with a contract, through all four gates, without a plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import secrets
from reflectloop.artifacts import next_command, views
from reflectloop.artifacts.envelope import Envelope
from reflectloop.engine.gating import danger_policy, gate_pipeline, insight_lessons, one_truth, sealed_judgement
from reflectloop.engine.gating import verify_command as verifying
from reflectloop.engine.gating.gate_pipeline import GatePipeline
from reflectloop.engine.gating.verify_command import BaseAndHead, VerifyOutcome, VerifyRequest
from reflectloop.engine.run import junit_sarif
from reflectloop.engine.run.request import VerifyObserver
from reflectloop.engine.tasks import open_tasks
from reflectloop.errors import Fault, InvalidInput, Latched, ReflectloopError
from reflectloop.gates import attempt_limits, decisions
from reflectloop.gates import contract as contracts
from reflectloop.gates.contract import Contract, ContractReading
from reflectloop.gates.pipeline import ChangeApprovals, GateReport
from reflectloop.gates.proof import ProofInput
from reflectloop.gates.rules import GateSubject
from reflectloop.plan import strict_yaml
from reflectloop.plan.model import Check
from reflectloop.state import events
from reflectloop.state.fold import Task
from reflectloop.state.journal import Journal
from reflectloop.system import clock, files
from reflectloop.terms import Track
from reflectloop.verification import evidence
from reflectloop.verification.evidence_chain import Chain, write_receipt
from reflectloop.verification.sealed_trees import VerificationInput
from reflectloop.verification.verdict import Verdict
from reflectloop.workspace import secret_guard

_LARGEST = 1 << 20  # bytes of a contract or a report
_TITLE = 200
SUBJECT = ""  # the whole change
CONTRACT, REPORT = "contract.yaml", "report.md"  # copies of what the change was judged by


class ApprovedGate(NamedTuple):
    """A change that the gates judge once more, since a person approved findings on it."""

    run_id: str
    tree: str
    approve: Callable[[], events.Approved]  # records the approval; called once, when the change is known to be the same


class GateInput(NamedTuple):
    """A change, what its author says it is, and what its author says about it."""

    change: VerifyRequest
    contract: Path
    report: Path | None = None
    again: ApprovedGate | None = None


class GateResult(NamedTuple):
    envelope: Envelope
    report: GateReport
    data: dict[str, Any]
    folder: Path
    error: ReflectloopError | None
    verdict: Verdict | None = None  # of the sealed runs, if there were any


def gate(asked: GateInput, observer: VerifyObserver) -> GateResult:
    """Judge a change. Faults of the input are raised; faults of the change are part of the outcome."""
    reading = read_contract(asked.contract)
    words = _read(asked.report, "report").decode("utf-8", "replace") if asked.report else ""
    case = _GateCase(reading, _read(asked.contract, "contract"), words, asked.again)
    judged: list[tuple[GateReport, dict[str, Any]]] = []

    def line(*given: Any) -> _Line:  # noqa: ANN401 - what every line is made with
        return _Line(case, judged, *given)

    outcome = verifying.verify(asked.change, observer, line, asked.again.run_id if asked.again else None)
    report, data = judged[0]
    return GateResult(outcome.envelope, report, data, outcome.folder, outcome.error, outcome.verdict)


def read_contract(path: Path) -> ContractReading:
    raw = _read(path, "contract")
    try:
        document = strict_yaml.parse(raw)
    except strict_yaml.UnreadableYaml as refused:
        raise _no_contract(path, refused.fault) from refused
    if document.faults:
        raise _no_contract(path, document.faults[0])
    secret_guard.refuse_secret_text(raw.decode("utf-8", "replace"), "the contract")
    return contracts.parse_contract(document.value, str(path))


def _no_contract(path: Path, fault: Fault) -> InvalidInput:
    return InvalidInput(f"{path} is no contract: {fault}", next_step="see docs/gates.md")


def _read(path: Path, what: str) -> bytes:
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise InvalidInput(
                f"{path} has {size / 1e6:.1f} MB; a {what} has 1 MB at most", next_step=f"make the {what} shorter"
            )
        return path.read_bytes()
    except OSError as fault:
        raise InvalidInput(
            f"cannot read the {what} {path}: {fault.strerror}", next_step="reflectloop gate --help"
        ) from fault


class _GateCase(NamedTuple):
    """The contract that a change is judged by, also as it stands in its file."""

    reading: ContractReading
    contract: bytes
    words: str
    again: ApprovedGate | None


class _Line(verifying.Verification):
    """A verification that begins with 戒 and ends with 识. Each goal has a task of its own, which counts its tries."""

    command = "gate"

    def __init__(self, case: _GateCase, judged: list[tuple[GateReport, dict[str, Any]]], *given: Any) -> None:  # noqa: ANN401
        super().__init__(*given)
        self.given, self.judged = case, judged
        self.reading, self.words, self.again = case.reading, case.words, case.again

    @property
    def contract(self) -> Contract:
        return self.reading.contract

    def judge(self, sides: BaseAndHead) -> VerifyOutcome:
        digest = hashlib.sha256(f"{self.contract.track} {self.contract.goal}".encode()).hexdigest()[:16]
        key = f"{next_command.GATE}{digest}"
        task = open_tasks.find_open(self.folders, key)
        past = attempt_limits.of_journal(task.gated if task else (), SUBJECT)
        self._refuse_causeless(past)
        approved = self._approve(sides)
        chain = Chain(self.folder / evidence.FILE)
        way = self._gate_pipeline(sides, chain, past)
        book, task = self._open(key, task, sides, approved)
        try:
            made = way.walk()
            self.warnings += made.warnings
            self.warnings += self.approvals.unused(
                sides.base, sides.head, [item.reason.finding for item in made.approved]
            )
            book.append(gate_pipeline.event(made, self.run_id, SUBJECT))
            error = decisions.as_error(made.last, next_command.after_verdict(made.outcome, self.run_id))
            self._settle(book, error, sides)
        finally:
            book.close()
        self.judged.append((made, way.write(made, self.folder, book.path.parent)))
        self.warnings += views.refresh(book.path.parent)
        return self._outcome(sides, way, chain, error)

    def _refuse_causeless(self, past: list[attempt_limits.GateAttempt]) -> None:
        """Refuse a third try without a root cause in its contract; this does not count as a try."""
        if attempt_limits.needs_root_cause(past) and not (self.contract.root_cause or "").strip():
            raise Latched(
                f"this was sent back {len(attempt_limits.since_pass(past))} times: {past[-1].reasons[0]}; "
                "a third try needs the cause of the first two",
                next_step="say it as root_cause in the contract",
            )

    # The four gates ----------------------------------------------------------------------------------------------

    def _gate_pipeline(self, sides: BaseAndHead, chain: Chain, past: list[attempt_limits.GateAttempt]) -> GatePipeline:
        changes = self.trees.changes(sides.base, sides.head)
        return GatePipeline(
            self.run_id,
            self.contract.goal or "a change without a goal",
            GateSubject(self.reading, changes, sides.base, possible_secrets=self.doubts),
            danger_policy.of(self.config, self.folders.root),
            lambda again: self._see(sides, chain, again),
            past,
            insight_lessons.remembered(self.folders),
            lambda: chain.records,
            approvals=ChangeApprovals(sides.base, sides.head, self.approvals.known(sides.base, sides.head)),
        )

    def _see(self, sides: BaseAndHead, chain: Chain, again: int) -> ProofInput:  # noqa: ARG002 - sealed runs tell flakes by themselves
        paths = [change.path for change in self.trees.changes(sides.base, sides.head)]
        seen = ProofInput(
            cited=[
                gate_pipeline.says_so(citation, lambda path: self.trees.read(sides.head, path))
                for citation in self.contract.evidence or ()
            ],
            claim_correct=not contracts.claim_reasons(self.reading, paths),
            report=self.words,
        )
        case = self.case(sides)
        if self.contract.track is Track.DIRECT and not case.named:
            weakened = gate_pipeline.weakened(self.trees, sides.base, sides.head)
            return seen._replace(tampering=weakened)
        verdict = sealed_judgement.judge(self.stage(), case, chain, sides.commit)
        self.warnings += verdict.notes
        return seen._replace(verdict=verdict)

    def case(self, sides: BaseAndHead) -> VerificationInput:
        """Return the verification input. Checks that the contract names are run too, since a claim proves nothing."""
        plain = super().case(sides)
        contract = self.contract
        named = {
            f"claimed {number}": Check(run=test.command) for number, test in enumerate(contract.tests_run or (), 1)
        }
        if contract.reproduction and contract.reproduction.run:
            named["reproduction"] = Check(run=contract.reproduction.run, red_on_base=True)
        direct = contract.track is Track.DIRECT
        return VerificationInput(
            plain.base,
            plain.head,
            () if direct else plain.checks,
            None if direct else contract.track,
            protect=plain.protect,
            required=plain.required,
            named=named,
            named_by_author=True,
            criteria={f"{criterion.id} {criterion.text}": criterion.check for criterion in contract.acceptance or ()},
            has_setup=plain.has_setup,
            doubts=self.unjudged,
            approved=plain.approved,
        )

    # What is kept ------------------------------------------------------------------------------------------------

    def _approve(self, sides: BaseAndHead) -> events.Approved | None:
        if self.again is None:
            return None
        if sides.head != self.again.tree:
            raise InvalidInput(
                f"the patch of {self.run_id} does not make the tree that was judged",
                next_step="reflectloop gate --contract FILE",
            )
        (self.folder / evidence.FILE).unlink(missing_ok=True)  # what runs now is written again
        return self.again.approve()

    def _open(
        self, key: str, task: Task | None, sides: BaseAndHead, approved: events.Approved | None
    ) -> tuple[Journal, Task]:
        """Open the journal of the task that stands for this contract's goal; it does not become the current task."""
        title = f"gate: {self.contract.goal}"[:_TITLE]
        book, task = open_tasks.open_journal(self.folders, task, key, title, clock.now(), lambda _: None, current=False)
        if approved:
            book.append(events.RunReopened(run_id=self.run_id))
            book.append(approved)
            return book, task
        book.append(
            events.RunStarted(
                run_id=self.run_id,
                plan_hash="",
                base_tree=sides.base,
                base_commit=sides.commit,
                isolation=str(self.wall.level),
                steps=[],
                mode=one_truth.GATE,
            )
        )
        return book, task

    def _settle(self, book: Journal, error: ReflectloopError | None, sides: BaseAndHead) -> None:
        if error and open_tasks.stops(error):
            open_tasks.set_latch(self.folders, book, error, open_tasks.FailurePlace(self.run_id, None, "", sides.base))
        spent = round((clock.monotonic() - self.clock) * 1000)
        code = error.code if error else None
        book.append(events.RunFinished(run_id=self.run_id, error_code=code, end_tree=sides.head, duration_ms=spent))

    def _keep_input(self) -> list[str]:
        """Keep what the change was judged by, so that it can be judged again after an approval."""
        texts = {CONTRACT: self.given.contract, REPORT: secrets.current_detector().redact(self.words).encode()}
        for name, text in texts.items():
            files.write_atomic(self.folder / name, text)
        return list(texts)

    def _outcome(
        self, sides: BaseAndHead, way: GatePipeline, chain: Chain, error: ReflectloopError | None
    ) -> VerifyOutcome:
        made, data = self.judged[-1]
        level = made.proof.level if made.proof else None
        about = {
            "run_id": self.run_id,
            "decision": str(made.decision),
            "outcome": str(made.outcome),
            "approvals": data["approved"],
            "level": level,
            "track": str(self.contract.track),
            "base_tree": sides.base,
            "tree": sides.head,
            "sealed_tree": way.seen.verdict.sealed_tree if way.seen.verdict else None,
            "plan_hash": None,
            "switched_off": list(way.seen.verdict.switched_off) if way.seen.verdict else [],
            "reasons": [reason["text"] for judged in data["gates"] for reason in judged["reasons"]],
            "finished": clock.stamp(clock.now()),
        }
        written = [self.patch_name, gate_pipeline.PAGE, gate_pipeline.DATA, *self._keep_input()]
        if not chain.records:
            chain.path.touch()  # nothing was run, and the receipt says so
        write_receipt(self.folder, chain, junit_sarif.cleaned(about), written)
        envelope = self.envelope(error, sides.base, level, [evidence.RECEIPT, evidence.FILE, *written])
        return VerifyOutcome(envelope, way.seen.verdict, self.folder, error)
