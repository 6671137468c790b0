"""`watch`: verify the working tree while somebody edits it, with the verification that the stop gate uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from reflectloop.commands import watch_status
from reflectloop.commands.watch_status import ENDED, LOCKED, UNCHANGED, VERIFYING, WatchStatus
from reflectloop.engine.gating.background import BackgroundVerification
from reflectloop.errors import InvalidInput, ReflectloopError, UnsupportedRepository
from reflectloop.state import latch
from reflectloop.system import clock, process
from reflectloop.system.inotify import TreeWatch
from reflectloop.terms import OutcomeWord
from reflectloop.workspace.folders import Folders, open_project_dirs

_POLL_S = 2.0  # between two looks without inotify, and at the latch
_END_POLL_S = 0.2  # between two looks at a verification that runs
_FOLLOW_S = 0.5  # between two looks at what another watcher found
Wait = Callable[[int | None], None]  # until a file may have changed, or this process has ended


class Watcher:
    """Looks at one project. Only one of all watchers of a project verifies; the others show what it found."""

    def __init__(self, folders: Folders, wait: Wait) -> None:
        self.folders = folders
        self._wait = wait
        self._lead: int | None = None
        self._verification: BackgroundVerification | None = None
        self._started = ""  # the tree whose verification this watcher started
        self._pid: int | None = None
        self._last = ""  # the last outcome, and its tree
        self._last_tree = ""

    def statuses(self, *, once: bool = False) -> Iterator[WatchStatus]:
        """Yield each status that differs from the one before; with `once` until the present tree has an answer."""
        before: WatchStatus | None = None
        while True:
            status = self.look()
            if before is None or status._replace(at="") != before._replace(at=""):
                before = status
                yield status
            if once and status.state != VERIFYING:
                return
            self._wait(self._pid if status.state == VERIFYING else None)

    def look(self) -> WatchStatus:
        """Return what is known about the tree as it is now; start its verification if nothing is."""
        if not self.folders.root.is_dir():
            raise InvalidInput(f"{self.folders.root} is gone", next_step="reflectloop watch --project DIR")
        if self._lead is None:
            self._lead = watch_status.lead(self.folders.own)
        if self._lead is None:
            return watch_status.read(self.folders.own) or WatchStatus(VERIFYING)
        try:
            status = self._judged()
        except UnsupportedRepository:
            raise
        except ReflectloopError as error:  # a secret in a file, a full disk: the next edit may repair it
            status = WatchStatus(str(OutcomeWord.NOT_JUDGED), reasons=(f"{error.code}: {error.message}",))
            status = status._replace(next=error.next_step or "")
        status = status._replace(at=clock.stamp(clock.now()))
        watch_status.write(self.folders.own, status)
        return status

    def _judged(self) -> WatchStatus:
        stop = latch.read_stop(self.folders.own)
        if stop:
            self._cancel()
            return WatchStatus(LOCKED, reasons=(stop.reason,), next="reflectloop unlock --reason TEXT")
        verification = BackgroundVerification(self.folders, watch_status.folder_of(self.folders.own))
        self._verification, head = verification, verification.project.head
        if head is None:
            raise UnsupportedRepository(
                f"{self.folders.root} is not inside a git repository", next_step="git init, and commit"
            )
        base = verification.project.git().line("rev-parse", f"{head}^{{tree}}")
        tree = verification.record(head, base)
        paths = verification.judged_paths(base, tree)
        if not paths:
            self._cancel()
            return WatchStatus(UNCHANGED, tree, base)
        status = WatchStatus(VERIFYING, tree, base, len(paths))
        verdict = verification.known(base, tree)
        if verdict is None:
            self._pid = verification.running(tree)
            if self._pid is not None:
                return self._with_old(status)
            if self._started != tree:
                self._begin(verification, tree)
                return self._with_old(status)
            verdict = verification.failed()
        self._last, self._last_tree = verdict.outcome, tree
        return status._replace(
            state=verdict.outcome, reasons=verdict.reasons, run_id=verdict.run_id, next=verdict.next_command
        )

    def _begin(self, verification: BackgroundVerification, tree: str) -> None:
        """End the verification of an older tree, and start that of this one."""
        verification.cancel()
        self._pid = verification.start(tree)
        self._started = tree

    def _with_old(self, status: WatchStatus) -> WatchStatus:
        return status._replace(old=self._last if self._last_tree != status.tree else "")

    def _cancel(self) -> None:
        if self._verification is not None and self._started:
            self._verification.cancel()
        self._started = ""

    def close(self) -> None:
        """End the verification that nobody waits for any more, and say that nobody watches."""
        if self._lead is None:
            return
        self._cancel()
        if watch_status.folder_of(self.folders.own).is_dir():  # else the project is being removed
            watch_status.write(self.folders.own, WatchStatus(ENDED, at=clock.stamp(clock.now())))
        os.close(self._lead)
        self._lead = None

    @property
    def leads(self) -> bool:
        return self._lead is not None


def open_watcher(start: Path) -> tuple[Watcher, TreeWatch]:
    """Return the watcher of the project around a folder, and what it waits with."""
    folders = open_project_dirs(start)
    folders.ensure_owned()
    changes = TreeWatch(folders.root)
    watcher = Watcher(folders, lambda pid: _wait(changes, watcher, pid))
    return watcher, changes


def _wait(changes: TreeWatch, watcher: Watcher, pid: int | None) -> None:
    """Wait until a file may have changed, the verification has ended, or the project was locked or removed."""
    if not changes.watches or not watcher.leads:
        clock.wait(_POLL_S if watcher.leads else _FOLLOW_S)
        return
    root, own = watcher.folders.root, watcher.folders.own
    locked = latch.read_stop(own) is not None
    while root.is_dir() and (latch.read_stop(own) is not None) == locked:
        changed = changes.wait(_POLL_S if pid is None else _END_POLL_S)
        if changed or (pid is not None and process.has_ended(pid)):
            return
