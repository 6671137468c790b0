"""`approve`: a person says yes to findings on a change; what remains is judged as before."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflectloop import config, secrets
from reflectloop.artifacts import next_command
from reflectloop.artifacts.envelope import Envelope, of_error
from reflectloop.commands import task_status
from reflectloop.engine import pipeline
from reflectloop.engine.gating import gate_command
from reflectloop.engine.gating.gate_command import ApprovedGate, GateInput
from reflectloop.engine.gating.verify_command import PATCH, VerifyRequest
from reflectloop.engine.run import junit_sarif
from reflectloop.engine.run.recovery import ResumePoint
from reflectloop.engine.run.request import RunObserver, RunRequest
from reflectloop.errors import GateRejected, InvalidInput, NotAuthenticated, NothingToDo, ReflectloopError
from reflectloop.gates import decisions
from reflectloop.gates.decisions import Gate, GateReason
from reflectloop.state import events, lock
from reflectloop.state.fold import RunState, Task
from reflectloop.state.transitions import TaskState
from reflectloop.system import clock, files
from reflectloop.system.git import Git
from reflectloop.terms import Decision, OutcomeWord, one_line
from reflectloop.trust import approvals, person
from reflectloop.trust.approvals import Approval
from reflectloop.verification import evidence
from reflectloop.verification.evidence import SignatureState
from reflectloop.verification.verdict import finding_id
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import Folders, RunFolder, open_project_dirs

_VERDICT, _GATES = "verdict.json", "gates.json"
_SHORTEST = 4  # characters by which a finding may be named


class OpenFinding(NamedTuple):
    """A finding that waits for a person."""

    finding: str
    text: str
    details: tuple[str, ...] = ()  # old and new lines


class PendingReview(NamedTuple):
    """A change on which findings wait for a person."""

    folders: Folders
    run_id: str
    kind: Literal["verify", "gate", "run"]
    folder: Path
    receipt: Mapping[str, Any]
    findings: tuple[OpenFinding, ...]

    @property
    def base_tree(self) -> str:
        return str(self.receipt["base_tree"])

    @property
    def tree(self) -> str:
        return str(self.receipt["tree"])


class ApprovalQuestion(NamedTuple):
    """The findings that a person is asked to agree to."""

    run_id: str
    findings: tuple[OpenFinding, ...]
    left: int  # findings that will still wait
    by: str
    reason: str


class ApproveResult(NamedTuple):
    run_id: str
    outcome: str
    approved: tuple[OpenFinding, ...]
    by: str
    reason: str
    remaining: tuple[str, ...]
    next_step: str
    error: ReflectloopError | None

    def as_data(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "outcome": self.outcome,
            "approved": [finding._asdict() for finding in self.approved],
            "by": self.by,
            "reason": self.reason,
            "remaining": list(self.remaining),
        }


# What waits --------------------------------------------------------------------------------------------------------


def pending(start: Path, name: str) -> PendingReview:
    """Return the findings of a run or verification that wait for a person; raise if there is nothing to approve."""
    folders = open_project_dirs(start)
    folder = _find(folders, name)
    settings = config.load(folders.root)
    secrets.use_detector(secrets.detector_for(settings.secrets, folders.root))
    kind: Literal["verify", "gate", "run"] = (
        "run" if folder.parent.name == "runs" else "verify" if (folder / _VERDICT).exists() else "gate"
    )
    receipt = _receipt(folder)
    reasons = _reasons(folder, kind, receipt)
    if receipt.get("outcome") != OutcomeWord.REVIEW:
        raise _not_in_review(folder.name, receipt.get("outcome"), reasons)
    findings = tuple(_finding(reason, receipt, folder.name) for reason in reasons if reason.get("finding"))
    return PendingReview(folders, folder.name, kind, folder, receipt, findings)


def _find(folders: Folders, name: str) -> Path:
    known = [path for kind in ("runs", "verifications") for path in (folders.own / kind).glob("RLOP-*")]
    if name == "latest":
        matches = sorted(known, key=lambda path: path.stat().st_mtime_ns)[-1:]
    else:
        matches = [path for path in known if path.name.startswith(name) or path.name.endswith(name)]
    if len(matches) > 1:
        raise InvalidInput(f"{name!r} fits {len(matches)} runs", next_step="reflectloop status --all")
    if not matches:
        raise NothingToDo(f"there is no run or verification {name!r}", next_step="reflectloop status --all")
    return matches[0]


def _receipt(folder: Path) -> dict[str, Any]:
    if not (folder / evidence.RECEIPT).exists():
        raise NothingToDo(
            f"{folder.name} has no receipt, so nothing was decided about it",
            next_step=f"reflectloop show {folder.name}",
        )
    checked = evidence.verify(folder / evidence.RECEIPT)
    if checked.faults:
        raise _changed(folder.name, "; ".join(checked.faults))
    if checked.signed is not SignatureState.HERE:  # an approval would sign what somebody else wrote
        raise NotAuthenticated(
            f"{folder.name} cannot be approved: {evidence.RECEIPT}: {checked.signed}",
            next_step="judge the change again: reflectloop verify",
        )
    return checked.receipt


def _changed(run_id: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"{run_id} cannot be approved, since its records were changed: {what}",
        next_step="do not trust it; judge the change again",
    )


def _reasons(folder: Path, kind: str, receipt: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the reasons of the verdict, or of the gate that did not let the change pass."""
    name = _VERDICT if kind == "verify" else _GATES
    if name not in receipt.get("files", {}):
        return []
    document = json.loads((folder / name).read_bytes())
    if kind == "verify":
        reasons: list[dict[str, Any]] = document["data"]["reasons"]
        return reasons
    return [reason for stage in document["gates"] for reason in stage["reasons"]]


def _finding(reason: Mapping[str, Any], receipt: Mapping[str, Any], run_id: str) -> OpenFinding:
    """Return a finding, after checking that its text is the one that its id was made from."""
    rule = reason.get("finding_rule") or reason.get("rule") or ""
    if reason["finding"] != finding_id(str(receipt["base_tree"]), str(receipt["tree"]), rule, reason["text"]):
        raise _changed(run_id, f"the text of finding {reason['finding']} is not the one that was found")
    details = tuple(one_line(str(line)) for line in reason.get("details") or ())
    return OpenFinding(reason["finding"], one_line(reason["text"]), details)


def _not_in_review(run_id: str, outcome: object, reasons: Sequence[Mapping[str, Any]]) -> NothingToDo:
    firm = next((f": {reason['text']}" for reason in reasons if not reason.get("finding")), "")
    if outcome == OutcomeWord.PASS:
        why = f"{run_id} is PASS: there is nothing to approve"
    elif outcome is None:
        why = f"{run_id} was judged by an earlier version, which knew no approvals; judge the change again"
    else:
        why = f"{run_id} is {outcome}, and nobody can approve that{firm}"
    return NothingToDo(why, next_step=f"reflectloop receipt show {run_id}")


def chosen(review: PendingReview, wanted: Sequence[str]) -> tuple[OpenFinding, ...]:
    """Return the named findings, each by its id or the beginning of it; all of them if none is named."""
    if not wanted:
        return review.findings
    named: dict[str, OpenFinding] = {}
    for name in wanted:
        matches = [item for item in review.findings if len(name) >= _SHORTEST and item.finding.startswith(name)]
        if len(matches) != 1:
            known = ", ".join(item.finding for item in review.findings)
            raise InvalidInput(
                f"{review.run_id} has no open finding {name!r}; it has: {known}",
                next_step=f"reflectloop approve {review.run_id} FINDING --reason TEXT",
            )
        named[matches[0].finding] = matches[0]
    return tuple(named.values())


def file_text(review: PendingReview, findings: Sequence[OpenFinding]) -> str:
    """Return a file of approvals for these findings, with empty reasons for a person to fill in."""
    lines = ["# Fill in who approves each finding and why; remove what you do not approve.", "approvals:"]
    for item in findings:
        entry = {"finding": item.finding, "base_tree": review.base_tree, "tree": review.tree, "text": item.text}
        fields = [
            f"{name}: {files.json_text(value, indent=None)}"
            for name, value in (entry | {"by": "", "reason": ""}).items()
        ]
        lines += [f"  # {line}".rstrip() for line in item.details]
        lines += [f"  {'-' if number == 0 else ' '} {field}" for number, field in enumerate(fields)]
    return "\n".join([*lines, ""])


# Approving ---------------------------------------------------------------------------------------------------------


def approve(
    start: Path,
    name: str,
    wanted: Sequence[str],
    reason: str,
    agree: Callable[[ApprovalQuestion], bool],
    observe: Callable[[], AbstractContextManager[RunObserver]],
) -> ApproveResult | None:
    """Record a person's yes and judge what remains; return None if the person does not agree.

    `observe` shows the progress of what is judged again.
    """
    person.refuse_programs("approving", os.environ, hooks=True)
    if not reason.strip():
        raise InvalidInput(
            "the reason is empty: whoever reads the receipt must know why this was approved",
            next_step=f"reflectloop approve {name} --reason TEXT",
        )
    review = pending(start, name)
    secret_guard.refuse_secret_text(reason, "the reason")
    findings = chosen(review, wanted)
    by, why = _who(review.folders.root), one_line(reason.strip())
    left = len(review.findings) - len(findings)
    if not agree(ApprovalQuestion(review.run_id, findings, left, by, why)):
        return None
    with observe() as observer:
        act = _Act(review, findings, by, why, observer)
        return {"verify": act.verification, "gate": act.gate, "run": act.run}[review.kind]()


def _who(root: Path) -> str:
    """Return who types: by git's name and address, where git knows them, and the user of the system."""
    ident = Git(cwd=root).attempt("var", "GIT_COMMITTER_IDENT")
    name = os.fsdecode(ident.stdout).strip().rpartition("> ")[0] if not ident.code else ""
    user = pwd.getpwuid(os.getuid()).pw_name
    return f"{name}> (user {user})" if name else f"user {user}"


class _Act:
    """The yes of one person to some findings on one change."""

    def __init__(
        self, review: PendingReview, findings: tuple[OpenFinding, ...], by: str, reason: str, observer: RunObserver
    ) -> None:
        self.review, self.findings, self.by, self.reason = review, findings, by, reason
        self.observer = observer

    def _record(self) -> events.Approved:
        """Record the yes in the user's store; return the event for the journal of the task."""
        review, at = self.review, clock.stamp(clock.now())
        approvals.add(
            review.folders.root,
            review.base_tree,
            review.tree,
            [Approval(item.finding, item.text, self.by, self.reason, at, self.review.run_id) for item in self.findings],
        )
        return events.Approved(
            run_id=review.run_id,
            by=self.by,
            reason=self.reason,
            base_tree=review.base_tree,
            tree=review.tree,
            findings=[dict(item._asdict()) for item in self.findings],
        )

    def _result(
        self, error: ReflectloopError | None, outcome: str, remaining: Sequence[str], then: str
    ) -> ApproveResult:
        next_step = error.next_step if error else then
        return ApproveResult(
            self.review.run_id, outcome, self.findings, self.by, self.reason, tuple(remaining), next_step, error
        )

    # A verification: what is stored of it, without what was approved ---------------------------------------------

    def verification(self) -> ApproveResult:
        review = self.review
        with lock.hold_lock(review.folders.own, "approve"):
            if _receipt(review.folder) != review.receipt:
                raise _changed(review.run_id, "they are not what you were asked about")
            self._record()
            document = json.loads((review.folder / _VERDICT).read_bytes())
            data = document["data"]
            names = {item.finding for item in self.findings}
            approval = f"{self.by}: {self.reason}"
            gone = [reason | {"approval": approval} for reason in data["reasons"] if reason["finding"] in names]
            data["reasons"] = [reason for reason in data["reasons"] if reason["finding"] not in names]
            data["approved"] = [*data["approved"], *gone]
            ruling = decisions.make_ruling(Gate.PROOF, map(_gate_reason, data["reasons"]))
            data["decision"], data["outcome"] = str(ruling.decision), str(ruling.outcome)
            error = decisions.as_error(ruling, next_command.after_verdict(ruling.outcome, review.run_id))
            then = f"reflectloop receipt verify {review.run_id}"
            document["envelope"] = _envelope(document["envelope"], error, then)
            files.write_atomic(review.folder / _VERDICT, junit_sarif.pretty(document))
            decided = {
                "decision": data["decision"],
                "outcome": data["outcome"],
                "reasons": [reason["text"] for reason in data["reasons"]],
                "approvals": [
                    {name: item[name] for name in ("finding", "text", "approval")} for item in data["approved"]
                ],
            }
            evidence.update_receipt(review.folder, review.receipt, junit_sarif.cleaned(decided))
        return self._result(error, data["outcome"], _remaining(data["reasons"]), then)

    # `gate`: the gates judge the stored patch once more -----------------------------------------------------------

    def gate(self) -> ApproveResult:
        review = self.review
        _, run = self._waiting()
        if not (review.folder / PATCH).exists():
            return self._without_patch()
        report = review.folder / gate_command.REPORT
        result = gate_command.gate(
            GateInput(
                VerifyRequest(review.folders.root, base=run.base_commit, patch=review.folder / PATCH),
                review.folder / gate_command.CONTRACT,
                report if report.stat().st_size else None,
                ApprovedGate(review.run_id, review.tree, self._record),
            ),
            self.observer,
        )
        remaining = _remaining(reason for stage in result.data["gates"] for reason in stage["reasons"])
        return self._result(result.error, result.data["outcome"], remaining, str(result.envelope.next))

    def _without_patch(self) -> ApproveResult:
        """Record the yes only: a change that may hold a secret is not stored, so it must be given again."""
        with lock.hold_lock(self.review.folders.own, "approve"):
            self._record()
        why = "what you approved is recorded; the change may hold a secret and was not stored, so judge it again"
        error = GateRejected(f"REVIEW: {why}", next_step="reflectloop gate --contract FILE, for the same change")
        return self._result(error, OutcomeWord.REVIEW, [why], error.next_step)

    # A run: its gates judge its change once more ------------------------------------------------------------------

    def run(self) -> ApproveResult:
        review = self.review
        _, run = self._waiting()
        request = RunRequest(review.folders.root, mode="copy" if run.mode == "copy" else "auto")
        outcome = pipeline.judge_again(request, self.observer, self._reopen)
        gates = json.loads((review.folder / _GATES).read_bytes())
        remaining = _remaining(reason for stage in gates["gates"] for reason in stage["reasons"])
        word = str(OutcomeWord.PASS) if outcome.error is None else _word(outcome.error, gates)
        return self._result(outcome.error, word, remaining, str(outcome.envelope.next))

    def _reopen(self, folders: Folders) -> ResumePoint:
        """Record the yes and open the run again; called with the project's lock held."""
        task, run = self._waiting()
        approved = self._record()
        journal = folders.open_journal(task.id)
        try:
            if run.status != "running":
                journal.append(events.RunReopened(run_id=run.id))
            journal.append(approved)
        finally:
            journal.close()
        task = folders.load_task(task.id)
        run = task.runs[run.id]
        folder = RunFolder(self.review.folder)
        if run.kind.is_stepwise:
            return ResumePoint(task, run, folder, None)
        run.end_tree = self.review.tree  # the tree that was approved
        return ResumePoint(task, run, folder, folder.saved_plan())

    def _waiting(self) -> tuple[Task, RunState]:
        """Return the run with its task, if its journal says that it still waits and nothing came after it."""
        run_id = self.review.run_id
        known = task_status.find_run(self.review.folders, RunFolder(self.review.folder))
        if known is None or not known[1].waits_for_approval:
            raise NothingToDo(
                f"the journal of {run_id} does not say that it waits for a person", next_step="reflectloop status"
            )
        task, run = known
        last = task.last_run
        if last is not None and last.id != run_id:
            raise NothingToDo(
                f"{last.id} came after {run_id} in the same task", next_step=f"reflectloop show {last.id}"
            )
        if task.state in (TaskState.ABORTED, TaskState.LATCHED):
            raise NothingToDo(f"task {task.id} is {task.state}", next_step="reflectloop status")
        return task, run


def _remaining(reasons: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the reasons that still stand, each with the id by which a person can approve it, if it has one."""
    return [f"{reason.get('finding') or ''} {reason['text']}".strip() for reason in reasons]


def _gate_reason(reason: Mapping[str, Any]) -> GateReason:
    return GateReason(
        Decision(reason["decision"]),
        "sealed",
        reason["text"],
        finding=reason["finding"] or "",
        unjudged=bool(reason["unjudged"]),
    )


def _envelope(old: Mapping[str, Any], error: ReflectloopError | None, then: str) -> dict[str, Any]:
    envelope = Envelope.model_validate(old)
    changed: dict[str, Any] = {"status": "OK", "error_code": None, "message": None, "next": then, "faults": []}
    if error:
        failed = of_error(envelope.command, envelope.timestamp, error)
        changed = {name: getattr(failed, name) for name in changed}
    return envelope.model_copy(update=changed).model_dump(mode="json")


def _word(error: ReflectloopError, gates: Mapping[str, Any]) -> str:
    return str(gates["outcome"]) if error.review or error.code == "NOT_JUDGED" else str(OutcomeWord.REFUSED)
