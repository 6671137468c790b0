"""Let an agent end its turn only if sealed verification proves what its session changed.

The verification runs in a process of its own: it starts after an edit, outlives the hook, and its signed receipt, not
the hook, is what `apply`, `git push` and CI believe.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reflectloop.engine.gating.background import BackgroundVerification, TreeVerdict, failures
from reflectloop.errors import MaxRetries
from reflectloop.hooks.model import ALLOW, HookAnswer, HookCall, HookEvent
from reflectloop.state import latch
from reflectloop.system import clock, files, process
from reflectloop.terms import OutcomeWord
from reflectloop.workspace import sessions
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.sessions import Session

MOST_REFUSALS = 3  # for the same reasons
_MOST_IN_ALL = 7  # Claude Code ends a turn as a success after eight
_POLL_S = 0.2
_MOST_SHOWN = 8
_BLOCKER = "blocker.md"


class StopGate:
    """Judges the end of one session's turn."""

    def __init__(self, call: HookCall, folders: Folders, deadline: float) -> None:
        self.call, self.folders, self.deadline = call, folders, deadline
        name = sessions.safe_name(call.client, call.session)
        folder = sessions.folder_of(folders.own, name)
        self.verification = BackgroundVerification(folders, folder, ("--session", name))
        self.project, self.store = self.verification.project, self.verification.store

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
        running = self.verification.running(tree)
        if self._judged_paths(session, tree) and not self._known(session, tree) and not running:
            self.verification.start(tree)

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

    def _tree(self, session: Session) -> str:
        return self.verification.record(session.commit, session.tree)

    def _judged_paths(self, session: Session, tree: str) -> list[str]:
        return self.verification.judged_paths(session.tree, tree)

    def _folder(self, session: Session) -> Path:
        return sessions.folder_of(self.folders.own, session.name)

    def _known(self, session: Session, tree: str) -> TreeVerdict | None:
        return self.verification.known(session.tree, tree)

    def _wait(self, session: Session, tree: str) -> TreeVerdict | None:
        """Wait for the verification of this tree, until the client's patience ends."""
        pid = self.verification.running(tree)
        if pid is None:
            pid = self.verification.start(tree)
        while not process.has_ended(pid):
            if time.monotonic() >= self.deadline:
                return None
            time.sleep(_POLL_S)
        return self._known(session, tree) or self.verification.failed()

    # The answer ------------------------------------------------------------------------------------------------------

    def _pass(self, session: Session, verdict: TreeVerdict) -> HookAnswer:
        """Let the turn end. Tests that fail as they did before are pointed out once: they may have been the task."""
        red = failures(self.folders.own / "verifications" / verdict.run_id / "verdict.json")
        remind = bool(red) and not session.reminded
        if session.refusals or remind:
            sessions.write(self.folders.own, replace(session, refusals=(), reminded=session.reminded or remind))
        if not remind:
            return ALLOW
        listed = "\n".join(f"- {text}" for text in red)
        text = "Nothing is broken by this change, but these fail now as they did before it:"
        return HookAnswer("block", f"{text}\n{listed}\nIf that was the task, go on. Otherwise end your turn again.")

    def _refuse(self, session: Session, tree: str, verdict: TreeVerdict) -> HookAnswer:
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

    def _stop(self, session: Session, verdict: TreeVerdict, text: str) -> HookAnswer:
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
        sessions.write(self.folders.own, replace(session, refusals=()))  # counted from 0 after a person unlocked it
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


def _described(verdict: TreeVerdict) -> str:
    shown: Sequence[str] = verdict.reasons[:_MOST_SHOWN] or ("no reason is known",)
    more = len(verdict.reasons) - len(shown)
    lines = [f"{verdict.outcome}: the change of this session is not proven.", *(f"- {reason}" for reason in shown)]
    lines += [f"- and {more} more"] if more > 0 else []
    if verdict.outcome == OutcomeWord.REVIEW:
        lines.append(f"Take these edits back, or let a person decide: {verdict.next_command}")
    else:
        lines.append(f"More: {verdict.next_command}")
    return "\n".join(lines)
