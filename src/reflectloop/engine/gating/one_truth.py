"""Compares all that is stored of a run: journal, receipt, evidence, logs and git objects must say the same."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import NotAuthenticated, NothingToDo, RecordsDisagree
from reflectloop.state import events, journal
from reflectloop.state.fold import RunState, Task, fold
from reflectloop.state.journal import JournalEntry, Signatures
from reflectloop.terms import Decision, OutcomeWord
from reflectloop.trust import signing
from reflectloop.verification import evidence
from reflectloop.verification.evidence import RECEIPT, ReceiptCheck, SignatureState
from reflectloop.workspace import object_hashes
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.store import Store

GATE = "gate"  # the mode of a run by the command `gate`


class RunRecords(NamedTuple):
    """A run as its journal has it, with what speaks against the journal."""

    task: Task
    run: RunState
    faults: list[str]
    unsigned: list[str]  # why parts cannot be authenticated, though nothing speaks against them
    judged: events.Judged | None  # the last sealed verdict


def read_run(folders: Folders, task_id: str, run_id: str) -> RunRecords:
    """Read a journal once, and check its signatures in the very bytes that the run is computed from."""
    path = folders.journal(task_id)
    raw = journal.content(path)
    journal.refuse_cut(path, raw)
    entries = journal.parse(path, raw)
    faults, unsigned = _signature_faults(path, raw, entries, run_id)
    task = fold(entries)
    verdicts = [entry.event for entry in entries if isinstance(entry.event, events.Judged)]
    judged = next((event for event in reversed(verdicts) if event.run_id == run_id), None)
    return RunRecords(task, task.runs[run_id], faults, unsigned, judged)


def _signature_faults(path: Path, raw: bytes, entries: list[JournalEntry], run_id: str) -> tuple[list[str], list[str]]:
    key = signing.key()
    if key is None:
        return [], [f"there is no key: {signing.path()} cannot be written"]
    signatures = journal.check_signatures(raw, key.signer("journal"))
    if signatures.broken is not None and not _is_foreign(signatures):
        return [f"{path}:{signatures.broken}: this line, or one before it, is not the one that was written"], []
    begun = next(
        entry.seq for entry in entries if isinstance(entry.event, events.RunStarted) and entry.event.run_id == run_id
    )
    if signatures.first is None or signatures.broken is not None or begun < signatures.first:
        return [], [f"{path}: the events of {run_id} are not signed with this user's key"]
    return [], []


def _is_foreign(signatures: Signatures) -> bool:
    """Return True if not even the first signature fits: another key made all of them, or somebody made them up."""
    return signatures.broken == signatures.first


def find_run(folders: Folders, run_id: str) -> RunRecords | None:
    """Return the records of a run by its id, or None if no journal has it."""
    for task in folders.load_tasks():
        if run_id in task.runs:
            return read_run(folders, task.id, run_id)
    return None


def faults_between(records: RunRecords, checked: ReceiptCheck) -> list[str]:
    """Return where a journal and a receipt of the same run say different things."""
    run, receipt = records.run, checked.receipt
    faults = list(records.faults)
    passed = receipt.get("decision") == Decision.PASS
    if (run.status == "ok") != passed:
        word = "passed" if run.status == "ok" else "did not pass"
        faults.append(f"the journal says that {run.id} {word}, and {RECEIPT} says {receipt.get('decision')}")
    for name, known in (("base_tree", run.base_tree), ("tree", run.end_tree), ("run_id", run.id)):
        if known is not None and run.status == "ok" and receipt.get(name) != known:
            faults.append(f"the journal has {name} {known}, and {RECEIPT} {receipt.get(name)}")
    if run.status == "ok" and run.plan_hash and receipt.get("plan_hash") != run.plan_hash:
        faults.append(f"the journal and {RECEIPT} name different plans")
    return faults + (_verdict_faults(records, receipt.get("sealed_tree")) if run.status == "ok" else [])


def _verdict_faults(records: RunRecords, sealed_tree: object) -> list[str]:
    """Return what speaks against a run that passed: it was judged otherwise, or another tree was judged."""
    run, judged = records.run, records.judged
    if run.outcome not in ("", OutcomeWord.PASS) or run.decision not in (None, Decision.PASS):
        return [f"the gates decided {run.outcome or run.decision} on {run.id}, which is not PASS"]
    if judged is None:
        told_elsewhere = sealed_tree is None or run.mode == GATE  # `gate` journals the decision alone
        return [] if told_elsewhere else [f"{RECEIPT} names a sealed verdict that is not in the journal"]
    if judged.tree != run.end_tree or judged.sealed_tree != sealed_tree:
        return [f"tree {judged.tree} was judged, and the change ends with {run.end_tree}"]
    return []


def require(folders: Folders, records: RunRecords, store: Store) -> ReceiptCheck:
    """Raise unless everything that is stored of a run says that this change passed; called before it is applied."""
    run = records.run
    path = folders.own / "runs" / run.id / RECEIPT
    if not path.exists():
        raise NothingToDo(f"{run.id} has no receipt, so nothing shows that it passed", next_step="reflectloop resume")
    checked = evidence.verify(path)
    faults = [*checked.faults, *faults_between(records, checked)]
    wrong = object_hashes.first_fault(store.git(), store.object_format, run.base_tree, run.end_tree or run.base_tree)
    faults += [wrong] if wrong else []
    again = verify_again(run.id)
    if faults:
        raise RecordsDisagree(f"{run.id} is not applied: {'; '.join(faults)}", next_step=again)
    reasons = [*records.unsigned, *not_authenticated(folders.root, checked)]
    if reasons:
        raise NotAuthenticated(f"{run.id} is not applied: {reasons[0]}", next_step=again)
    return checked


def not_authenticated(root: Path, checked: ReceiptCheck) -> list[str]:
    """Return why a receipt cannot be trusted by its signature."""
    if signing.lies_in(root):
        return [f"the key {signing.path()} lies in the project: set XDG_STATE_HOME to a folder outside"]
    return [] if checked.signed is SignatureState.HERE else [f"{RECEIPT}: {checked.signed}"]


def verify_again(run_id: str) -> str:
    """Return the commands that judge the change of a run again and then apply what was judged."""
    file = shlex.quote(f"{run_id}.patch")
    return f"reflectloop diff {run_id} > {file} && reflectloop verify --patch {file} && git apply {file}"
