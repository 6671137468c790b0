"""Verify the working tree in a process of its own, for those who wait for the answer: the stop gate and `watch`.

The process outlives whoever started it. Its signed receipt, and nothing else, is the answer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.engine.gating import remembered, working_tree
from reflectloop.engine.gating.remembered import read_json
from reflectloop.errors import ReflectloopError
from reflectloop.system import clock, files, process
from reflectloop.system.git import GitFailed
from reflectloop.terms import OutcomeWord
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import object_hashes, tree_diff
from reflectloop.workspace import project as projects
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.store import open_store

PROSE = (".md", ".rst", ".txt", ".adoc")
_MOST_FAILURES = 3
_RUNNING = "running.json"
_ANSWER = "answer.json"
_GRACE_S = 5.0


class TreeVerdict(NamedTuple):
    """The verdict on one tree, compared with one base."""

    outcome: str
    reasons: tuple[str, ...]
    run_id: str
    next_command: str


class BackgroundVerification:
    """Starts, finds and reads verifications of the working tree; `folder` has the notes on the one that runs."""

    def __init__(self, folders: Folders, folder: Path, words: Sequence[str] = ()) -> None:
        self.folders, self.folder, self._words = folders, folder, tuple(words)
        self.project = projects.open_project(folders.root)
        self.store = open_store(self.project)

    def record(self, commit: str, base: str) -> str:
        """Return the tree of the folder as it is now, as it is compared with a base."""
        objects = self.folders.scratch / f"objects-{clock.run_id(clock.now())}"
        trees = TreeBuilder(self.store, self.folders.scratch, objects)
        objects.mkdir(parents=True)
        try:
            tree, _ = working_tree.record(self.project, trees, self.folders.scratch, self.project.head or commit, base)
            self.store.take_in(objects)
            return tree
        finally:
            files.remove_tree(objects)

    def judged_paths(self, base: str, tree: str) -> list[str]:
        """Return the changed paths that a check could judge: prose alone holds nobody up."""
        if tree == base:
            return []
        paths = [os.fsdecode(name) for name in tree_diff.changed_names(self.store.git(), base, tree)]
        return [path for path in paths if not path.lower().endswith(PROSE)]

    def start(self, tree: str) -> int:
        """Start the verification, and return its process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        answer = self.folder / _ANSWER
        answer.unlink(missing_ok=True)
        words = ("verify", *self._words, "--wait", "--json", "--project", os.fspath(self.folders.root))
        pid = process.detach([sys.executable, "-m", "reflectloop", *words], answer)
        record = {"tree": tree, "pid": pid, "start": process.start_time(pid)}
        files.write_atomic(self.folder / _RUNNING, json.dumps(record) + "\n")
        return pid

    def running(self, tree: str) -> int | None:
        """Return the process that verifies this tree, or None."""
        record = read_json(self.folder / _RUNNING)
        pid = record.get("pid")
        if record.get("tree") != tree or not isinstance(pid, int) or process.has_ended(pid):
            return None
        return pid if process.start_time(pid) == record.get("start") else None

    def cancel(self) -> None:
        """End the verification that runs, if one does: nobody waits for its answer any more."""
        record = read_json(self.folder / _RUNNING)
        pid, start = record.get("pid"), record.get("start")
        if isinstance(pid, int) and isinstance(start, int) and process.is_alive(pid, start):
            process.end_detached(pid, start, _GRACE_S)

    def known(self, base: str, tree: str) -> TreeVerdict | None:
        """Return the verdict of a signed receipt about exactly this change."""
        every = sorted((self.folders.own / "verifications").glob("*/receipt.json"), key=lambda path: path.parent.name)
        for path in reversed(every):
            receipt = read_json(path)
            if receipt.get("base_tree") != base or receipt.get("tree") != tree or receipt.get("provisional"):
                continue
            if not self._is_authentic(path, base, tree):
                continue
            run = path.parent.name
            reasons = tuple(map(str, receipt.get("reasons", [])))
            reasons += tuple(failures(path.parent / "verdict.json")) if reasons else ()
            word = str(receipt.get("outcome"))
            follow = f"reflectloop approve {run}" if word == OutcomeWord.REVIEW else f"reflectloop show {run}"
            return TreeVerdict(word, reasons, run, follow)
        return None

    def _is_authentic(self, path: Path, base: str, tree: str) -> bool:
        """Return True if this user's engine signed a receipt, and its files and objects are unchanged."""
        store = self.store
        try:
            fault = object_hashes.first_fault(store.git(), store.object_format, base, tree)
        except (ReflectloopError, GitFailed):
            return False
        return not fault and remembered.is_authentic(self.folders.root, path)

    def failed(self) -> TreeVerdict:
        """Return why a verification ended without a receipt."""
        envelope = read_json(self.folder / _ANSWER).get("envelope")
        record: dict[str, Any] = envelope if isinstance(envelope, dict) else {}
        message = str(record.get("message") or "the verification ended without an answer")
        code = str(record.get("error_code") or "")
        text = f"{code}: {message}" if code else message
        return TreeVerdict(str(OutcomeWord.NOT_JUDGED), (text,), "", str(record.get("next") or "reflectloop doctor"))


def failures(path: Path) -> list[str]:
    """Return where the failing tests of a verdict failed, and with which words."""
    data = read_json(path).get("data")
    checks = data.get("checks", []) if isinstance(data, dict) else []
    details = [
        detail
        for check in checks
        for detail in (check.get("sealed") or {}).get("details", [])
        if detail.get("test") or detail.get("severity") == "error"
    ]
    return [f"{item.get('file')}:{item.get('line')}: {item.get('error')}" for item in details[:_MOST_FAILURES]]
