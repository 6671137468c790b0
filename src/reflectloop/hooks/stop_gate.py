"""Let an agent end its turn only if sealed verification proves what its session changed.

The verification runs in a process of its own: it starts after an edit, outlives the hook, and its signed receipt, not
the hook, is what `apply`, `git push` and CI believe.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.engine.gating import receipts, working_tree
from reflectloop.errors import MaxRetries
from reflectloop.hooks.model import ALLOW, HookAnswer, HookCall, HookEvent
from reflectloop.state import latch
from reflectloop.system import clock, files, process
from reflectloop.terms import OutcomeWord
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import project as projects
from reflectloop.workspace import sessions
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.sessions import Session
from reflectloop.workspace.store import open_store

MOST_REFUSALS = 3  # for the same reasons
_MOST_IN_ALL = 7  # Claude Code ends a turn as a success after eight
PROSE = (".md", ".rst", ".txt", ".adoc")
_POLL_S = 0.2
_LARGEST_ANSWER = 8 << 20
_MOST_SHOWN = 8
_MOST_FAILURES = 3
_BLOCKER = "blocker.md"
_RUNNING = "running.json"
_ANSWER = "answer.json"


class StopVerdict(NamedTuple):
    """The verdict on one tree of a session."""

    outcome: str
    reasons: tuple[str, ...]
    run_id: str
    next_command: str


class StopGate:
    """Judges the end of one session's turn."""

    def __init__(self, call: HookCall, folders: Folders, deadline: float) -> None:
        self.call, self.folders, self.deadline = call, folders, deadline
        self.project = projects.open_project(folders.root)
        self.store = open_store(self.project)

    def begin(self) -> Session:
        """Return the session; one whose start nobody saw began at the last commit."""
        folders = self.folders
        return sessions.begin(
            self.project,
            self.store,
            folders.own,
            folders.scratch,
            self.call.client,
            self.call.session,
            unseen=self.call.event is not HookEvent.SESSION_START,
        )

    def checkpoint(self) -> Session:
        """Record the tree as it is now, so that a person can return to it."""
        session = self.begin()
        tree = self._tree(session)
        if tree in (session.tree, *session.checkpoints):
            return session
        commit = self.store.commit(tree, message="Checkpoint of a session")
        self.store.keep(f"{session.ref}-{len(session.checkpoints) + 1}", commit)
        session = replace(session, checkpoints=(*session.checkpoints, tree))
        sessions.write(self.folders.own, session)
        return session

    def start_verifying(self) -> None:
        """Start the verification in the background, unless it runs, is done, or has nothing to judge."""
        session = self.begin()
        tree = self._tree(session)
        if self._judged_paths(session, tree) and not self._known(session, tree) and not self._running(session, tree):
            self._start(session, tree)

    def judge(self) -> HookAnswer:
        """Return whether the turn may end."""
        if latch.read_stop(self.folders.own):
            return ALLOW  # nothing more can be done here, and nothing of it can be applied
        session = self.begin()
        if session.disturbed and not (session.told and session.start_known):
            return self._tell_disturbed(session)
        tree = self._tree(session)
        if not self._judged_paths(session, tree):
            return ALLOW
        verdict = self._known(session, tree) or self._wait(session, tree)
        if verdict is None:
            text = "The verification of this change is still running. Wait for it: reflectloop verify --session latest"
            return HookAnswer("block", f"{text} --wait")
        if verdict.outcome == OutcomeWord.PASS:
            return self._pass(session, verdict)
        return self._refuse(session, tree, verdict)

    def _tell_disturbed(self, session: Session) -> HookAnswer:
        """Say that the record was edited or deleted; without a start that can be believed, nothing is proven."""
        if not session.start_known:
            return HookAnswer("end", _NO_START)
        sessions.write(self.folders.own, replace(session, told=True))
        return HookAnswer("block", _DISTURBED.format(record=self._folder(session) / "session.json"))

    # What changed ----------------------------------------------------------------------------------------------------

    def _tree(self, session: Session) -> str:
        objects = self.folders.scratch / f"objects-{clock.run_id(clock.now())}"
        trees = TreeBuilder(self.store, self.folders.scratch, objects)
        objects.mkdir(parents=True)
        try:
            head = self.project.head or session.commit
            tree, _ = working_tree.record(self.project, trees, self.folders.scratch, head, session.tree)
            self.store.take_in(objects)
            return tree
        finally:
            files.remove_tree(objects)

    def _judged_paths(self, session: Session, tree: str) -> list[str]:
        """Return the changed paths that a check could judge: prose alone holds nobody up."""
        if tree == session.tree:
            return []
        names = self.store.git().run("diff-tree", "-r", "-z", "--name-only", "--no-renames", session.tree, tree)
        paths = [os.fsdecode(name) for name in names.split(b"\0") if name]
        return [path for path in paths if not path.lower().endswith(PROSE)]

    # The verification ------------------------------------------------------------------------------------------------

    def _folder(self, session: Session) -> Path:
        return sessions.folder_of(self.folders.own, session.name)

    def _start(self, session: Session, tree: str) -> None:
        folder = self._folder(session)
        answer = folder / _ANSWER
        answer.unlink(missing_ok=True)
        words = ("verify", "--session", session.name, "--wait", "--json", "--project", os.fspath(self.folders.root))
        pid = process.detach([sys.executable, "-m", "reflectloop", *words], answer)
        record = {"tree": tree, "pid": pid, "start": process.start_time(pid)}
        files.write_atomic(folder / _RUNNING, json.dumps(record) + "\n")

    def _running(self, session: Session, tree: str) -> int | None:
        """Return the process that verifies this tree, or None."""
        record = _read(self._folder(session) / _RUNNING)
        pid = record.get("pid")
        if record.get("tree") != tree or not isinstance(pid, int) or process.has_ended(pid):
            return None
        return pid if process.start_time(pid) == record.get("start") else None

    def _wait(self, session: Session, tree: str) -> StopVerdict | None:
        """Wait for the verification of this tree, until the client's patience ends."""
        pid = self._running(session, tree)
        if pid is None:
            self._start(session, tree)
            pid = self._running(session, tree)
        while pid is not None and not process.has_ended(pid):
            if time.monotonic() >= self.deadline:
                return None
            time.sleep(_POLL_S)
        return self._known(session, tree) or self._failed(session)

    def _known(self, session: Session, tree: str) -> StopVerdict | None:
        """Return the verdict of a signed receipt about exactly this change."""
        every = sorted((self.folders.own / "verifications").glob("*/receipt.json"), key=lambda path: path.parent.name)
        for path in reversed(every):
            receipt = _read(path)
            if receipt.get("base_tree") != session.tree or receipt.get("tree") != tree:
                continue
            receipt_check = receipts.checked(self.folders.root, path.parent.name)
            if not receipt_check.data()["authenticated"]:
                continue
            run = path.parent.name
            reasons = tuple(map(str, receipt.get("reasons", [])))
            reasons += tuple(_failures(path.parent / "verdict.json")) if reasons else ()
            word = str(receipt.get("outcome"))
            follow = f"reflectloop approve {run}" if word == OutcomeWord.REVIEW else f"reflectloop show {run}"
            return StopVerdict(word, reasons, run, follow)
        return None

    def _failed(self, session: Session) -> StopVerdict:
        """Return why a verification ended without a receipt."""
        envelope = _read(self._folder(session) / _ANSWER).get("envelope")
        record: dict[str, Any] = envelope if isinstance(envelope, dict) else {}
        message = str(record.get("message") or "the verification ended without an answer")
        code = str(record.get("error_code") or "")
        text = f"{code}: {message}" if code else message
        return StopVerdict(str(OutcomeWord.NOT_JUDGED), (text,), "", str(record.get("next") or "reflectloop doctor"))

    # The answer ------------------------------------------------------------------------------------------------------

    def _pass(self, session: Session, verdict: StopVerdict) -> HookAnswer:
        """Let the turn end. Tests that fail as they did before are pointed out once: they may have been the task."""
        red = _failures(self.folders.own / "verifications" / verdict.run_id / "verdict.json")
        remind = bool(red) and not session.reminded
        if session.refusals or remind:
            sessions.write(self.folders.own, replace(session, refusals=(), reminded=session.reminded or remind))
        if not remind:
            return ALLOW
        listed = "\n".join(f"- {text}" for text in red)
        text = "Nothing is broken by this change, but these fail now as they did before it:"
        return HookAnswer("block", f"{text}\n{listed}\nIf that was the task, go on. Otherwise end your turn again.")

    def _refuse(self, session: Session, tree: str, verdict: StopVerdict) -> HookAnswer:
        """Hand the reasons back; after some refusals without progress, end the turn."""
        session = sessions.with_refusal(session, tree, verdict.outcome, verdict.reasons)
        sessions.write(self.folders.own, session)
        alike = [item for item in session.refusals if item.failing == verdict.reasons]
        text = _described(verdict)
        if verdict.outcome == OutcomeWord.REVIEW:  # the agent may take the edits back once; then a person decides
            return HookAnswer("block" if len(alike) == 1 else "end", text)
        left = min(MOST_REFUSALS - len(alike), _MOST_IN_ALL - len(session.refusals))
        if left > 0:
            return HookAnswer("block", f"{text}\n{left} more refusal(s) like this, and a person must look at it.")
        return self._stop(session, verdict, text)

    def _stop(self, session: Session, verdict: StopVerdict, text: str) -> HookAnswer:
        """Lock the project until a person has looked: nothing of the session can be applied."""
        blocker = self._folder(session) / _BLOCKER
        files.write_atomic(blocker, f"# The session {session.name} could not prove its change\n\n{text}\n")
        reason = f"the session {session.name} could not prove its change: {' '.join(verdict.reasons[:1])}"
        stop = latch.make(
            clock.now(),
            reason=reason[:500],
            error_code=MaxRetries.code,
            run_id=verdict.run_id or session.name,
            step_id=None,
            plan_hash="",
            base_tree=session.tree,
        )
        latch.set_stop(self.folders.own, stop)
        sessions.write(self.folders.own, replace(session, refusals=()))  # counted anew after a person unlocked it
        return HookAnswer("end", f"{text}\nNothing of it can be applied. See {blocker}, then: {_UNLOCK}")


_UNLOCK = "reflectloop unlock --reason TEXT"
_DISTURBED = (
    "The record of this session ({record}) was edited or deleted. It decides nothing: the start of the session is kept "
    "outside of the project. End your turn again, and the change is judged from there."
)
_NO_START = (
    "The record of this session was edited, and no copy of it is left, so nothing shows where the session began. "
    "The change is not proven. A person decides from where it is judged: reflectloop verify --base REV"
)


def _described(verdict: StopVerdict) -> str:
    shown: Sequence[str] = verdict.reasons[:_MOST_SHOWN] or ("no reason is known",)
    more = len(verdict.reasons) - len(shown)
    lines = [f"{verdict.outcome}: the change of this session is not proven.", *(f"- {reason}" for reason in shown)]
    lines += [f"- and {more} more"] if more > 0 else []
    if verdict.outcome == OutcomeWord.REVIEW:
        lines.append(f"Take these edits back, or let a person decide: {verdict.next_command}")
    else:
        lines.append(f"More: {verdict.next_command}")
    return "\n".join(lines)


def _failures(path: Path) -> list[str]:
    """Return where the failing tests of a verdict failed, and with which words."""
    data = _read(path).get("data")
    checks = data.get("checks", []) if isinstance(data, dict) else []
    details = [
        detail
        for check in checks
        for detail in (check.get("sealed") or {}).get("details", [])
        if detail.get("test") or detail.get("severity") == "error"
    ]
    return [f"{item.get('file')}:{item.get('line')}: {item.get('error')}" for item in details[:_MOST_FAILURES]]


def _read(path: Path) -> dict[str, Any]:
    """Return a JSON object of ours; empty if there is none that can be read."""
    try:
        if path.stat().st_size > _LARGEST_ANSWER:
            return {}
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
