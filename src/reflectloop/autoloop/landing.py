"""The merge queue: proven work lands in order, each change verified again on the branch as it is then.

A change that passed alone and breaks the branch does not land; the change that it breaks with is found and named.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from reflectloop import config
from reflectloop.artifacts import views
from reflectloop.autoloop.project_state import ProjectState
from reflectloop.autoloop.submissions import QueueEntry
from reflectloop.commands import apply_run
from reflectloop.engine.gating import one_truth
from reflectloop.engine.gating.one_truth import RunRecords
from reflectloop.errors import ApplyConflict, InvalidInput, NothingToDo, ReflectloopError
from reflectloop.state import events, lock
from reflectloop.system import clock, process
from reflectloop.system.git import Git, GitFailed
from reflectloop.terms import OutcomeWord, one_line, shorten
from reflectloop.workspace import apply as applying
from reflectloop.workspace import commit as committing
from reflectloop.workspace import patch
from reflectloop.workspace import project as projects
from reflectloop.workspace.project import Project
from reflectloop.workspace.store import Store, open_store

_TASK_BRANCHES = "refs/heads/reflectloop/tasks/"
_LEVEL = "L3"
_MOST_SEARCHED = 64  # changes on the branch among which the guilty one is searched
_TRIES = 3  # if the branch moves meanwhile
_LONGEST = 600


class BranchVerdict(NamedTuple):
    """The verdict on a change on top of a commit."""

    outcome: str
    reasons: str = ""


Verify = Callable[[str, str, str], BranchVerdict]  # base commit, candidate commit, track


class LandingPlace(NamedTuple):
    """The branch on which work lands, and the repository it is in."""

    project: Project
    store: Store
    ref: str
    tip: str
    is_new: bool

    @property
    def tip_tree(self) -> str:
        return self.git.line("rev-parse", f"{self.tip}^{{tree}}")

    @property
    def git(self) -> Git:
        return self.project.git()


def land(state: ProjectState, name: str, verify: Verify | None = None) -> dict[str, Any]:
    """Land the change of a submission, or find out why it cannot; record either in the queue, and return it."""
    policy = config.load(state.folders.root).autoloop
    if policy.apply == "never":
        raise NothingToDo('nothing lands by itself: [autoloop] apply = "never"', next_step="reflectloop apply")
    entry = next((entry for entry in state.queue.entries().values() if name in (entry.id, entry.task_id)), None)
    if entry is None or not entry.task_id:
        raise NothingToDo(f"{name} is no submission with a task", next_step="reflectloop autoloop status")
    run_id = ""
    try:
        records, track = _proven(state, entry)
        run_id = records.run.id
        for _ in range(_TRIES):
            landing = _try(state, records, track, policy, verify or _verifier(state))
            if landing is not None:
                break
        else:
            raise ApplyConflict("the branch moves again and again", next_step="reflectloop autoloop land " + entry.id)
    except _NotLanded as fault:
        landing = {"reason": shorten(str(fault), _LONGEST), "with": fault.guilty}
    landing = {"at": clock.stamp(clock.now()), "run": run_id, **landing}
    state.queue.record_landing(entry.id, landing)
    return landing


class _NotLanded(Exception):
    """The change does not land; `guilty` names the change that it breaks with, if one was found."""

    def __init__(self, message: str, guilty: str = "") -> None:
        super().__init__(message)
        self.guilty = guilty


def _proven(state: ProjectState, entry: QueueEntry) -> tuple[RunRecords, str]:
    """Return the records of a run that all its records say is proven on a sealed copy, and its track."""
    folders = state.folders
    run = folders.load_task(entry.task_id).last_run
    if run is None or run.status != "ok" or run.outcome != OutcomeWord.PASS:
        raise _NotLanded(f"{run.id if run else entry.id} is not proven")
    records = one_truth.read_run(folders, entry.task_id, run.id)
    home = projects.open_project(folders.root)
    store = open_store(home, config.load(folders.root).workspace)
    receipt = one_truth.require(folders, records, store).receipt
    if receipt.get("level") != _LEVEL or receipt.get("outcome") != OutcomeWord.PASS:
        raise _NotLanded(f"{run.id} has evidence {receipt.get('level')}, and only {_LEVEL} lands by itself")
    patch.refuse_leaks(store.git(), run.base_tree, run.end_tree or run.base_tree)
    return records, str(receipt.get("track") or "")


def _try(
    state: ProjectState, records: RunRecords, track: str, policy: config.AutoloopConfig, verify: Verify
) -> dict[str, Any] | None:
    """Land one change on the branch as it is now; return None if the branch moved meanwhile."""
    place = _place(state, policy)
    run, title = records.run, one_line(records.task.title)  # a line more could name another run
    end = run.end_tree or run.base_tree
    try:
        tree = applying.merge(place.store, base=run.base_tree, ours=place.tip_tree, theirs=end)
    except ApplyConflict as fault:
        guilty = _guilty_by_text(place, fault.missing)
        other = f" with {guilty}" if guilty else ""
        raise _NotLanded(f"conflicts in text{other}: {fault.message}", guilty) from fault
    branch = place.ref.removeprefix("refs/heads/")
    if tree == place.tip_tree:
        return {"commit": place.tip, "branch": branch}
    commit = _write_commit(place, tree, f"{title}\n\nReflectloop-Run: {run.id}\n")
    if place.tip_tree != run.base_tree:  # else exactly this change was judged already
        verdict = verify(place.tip, commit, track)
        if verdict.outcome != OutcomeWord.PASS:
            guilty = _guilty_by_behaviour(place, records, track, verify)
            together = f" together with {guilty}" if guilty else ""
            raise _NotLanded(f"breaks the branch{together}: {verdict.outcome}: {verdict.reasons}", guilty)
    if policy.apply == "commit":
        return _commit_here(state, place, run.id, branch)
    return _move(state, place, records, commit, tree)


def _place(state: ProjectState, policy: config.AutoloopConfig) -> LandingPlace:
    home = projects.open_project(state.folders.root)
    if home.mode != "git" or home.head is None:
        raise InvalidInput(f"{home.root} is not a git repository, so nothing can land", next_step="git init")
    store = open_store(home, config.load(state.folders.root).workspace)
    if policy.apply == "commit":
        if home.branch is None:
            raise InvalidInput("HEAD is detached: there is no branch to land on", next_step="git switch BRANCH")
        return LandingPlace(home, store, home.branch, home.head, is_new=False)
    ref = f"refs/heads/{policy.branch}"
    if home.git().attempt("check-ref-format", ref).code:
        raise InvalidInput(f"{policy.branch!r} is not a branch name", next_step="correct [autoloop] branch")
    if home.branch == ref:
        raise InvalidInput(
            f"{policy.branch} is checked out, and would move under your files",
            next_step='[autoloop] apply = "commit", or switch to another branch',
        )
    tip = home.git().attempt("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    known = tip.stdout.decode().strip()
    return LandingPlace(home, store, ref, known or home.head, is_new=not known)


def _write_commit(place: LandingPlace, tree: str, message: str) -> str:
    """Write a commit on top of the branch into the user's repository; no ref names it yet."""
    change = applying.RunChange("", place.tip_tree, tree)
    parts = [committing.CommitPart(tree, message)]
    return committing.write_on(place.project, place.store, change, parts, place.tip)


def _move(
    state: ProjectState, place: LandingPlace, records: RunRecords, commit: str, tree: str
) -> dict[str, Any] | None:
    """Move the branch, unless somebody else did, and let a branch of the task's own name the commit."""
    old = "0" * len(commit) if place.is_new else place.tip
    try:
        place.git.run("update-ref", "-m", "reflectloop autoloop", place.ref, commit, old)
    except GitFailed:
        return None
    place.git.run("update-ref", f"{_TASK_BRANCHES}{records.task.id}", commit)
    with lock.hold_lock(state.folders.own, "autoloop land", wait=lambda _owner: None):
        applied = events.Applied(run_id=records.run.id, result_tree=tree, commit=commit, ref=place.ref)
        views.append_events(state.folders, records.task.id, [applied])
    return {"commit": commit, "branch": place.ref.removeprefix("refs/heads/")}


def _commit_here(state: ProjectState, place: LandingPlace, run_id: str, branch: str) -> dict[str, Any] | None:
    """Commit to the checked-out branch and the user's files, as `apply --commit` does."""
    if projects.open_project(state.folders.root).head != place.tip:
        return None
    try:
        result = apply_run.apply(
            state.folders.root, run_id, commit=True, branch=None, message=None, agree=lambda _offer: True
        )
    except ApplyConflict as fault:
        raise _NotLanded(f"does not fit your files: {fault.message}") from fault
    return {"commit": result.commit if result else None, "branch": branch}


# Verification and the guilty ---------------------------------------------------------------------------------------


def _verifier(state: ProjectState) -> Verify:
    """Return a function that verifies one commit on top of another in a process of its own."""

    def verify(base: str, commit: str, track: str) -> BranchVerdict:
        words = ["verify", "--base", base, "--branch", commit, "--wait", "--json", "--project", state.name]
        words += ["--track", track] if track else []
        done = process.capture([sys.executable, "-m", "reflectloop", *words])
        try:
            answer = json.loads(done.stdout)
            envelope, data = answer["envelope"], answer.get("data") or {}
        except (ValueError, KeyError, TypeError):
            return BranchVerdict(str(OutcomeWord.NOT_JUDGED), "the verification ended without an answer")
        outcome = str(data.get("outcome") or OutcomeWord.NOT_JUDGED)
        if done.code == 0 and outcome == OutcomeWord.PASS:
            return BranchVerdict(outcome)
        reasons = "; ".join(_reason_text(reason) for reason in data.get("reasons") or [])
        return BranchVerdict(outcome, reasons or str(envelope.get("message") or ""))

    return verify


def _reason_text(reason: object) -> str:
    return str(reason.get("text") if isinstance(reason, dict) else reason)


def _guilty_by_text(place: LandingPlace, names: Sequence[str]) -> str:
    """Return the last change on the branch that touched one of these files."""
    head = place.project.head or place.tip
    last = place.git.attempt("log", "-1", "--format=%h %s", f"{head}..{place.tip}", "--", *names)
    return last.stdout.decode("utf-8", "replace").strip()


def _guilty_by_behaviour(place: LandingPlace, records: RunRecords, track: str, verify: Verify) -> str:
    """Return the first change on the branch with which this one breaks, by halving; empty if it is not one of them."""
    run = records.run
    listing = place.git.attempt(
        "rev-list", "--first-parent", "--reverse", f"--max-count={_MOST_SEARCHED}", place.tip, f"^{run.base_commit}"
    )
    commits = listing.stdout.decode().split()
    if listing.code or not commits:
        return ""

    def breaks(commit: str) -> bool:
        tree = place.git.line("rev-parse", f"{commit}^{{tree}}")
        try:
            merged = applying.merge(place.store, base=run.base_tree, ours=tree, theirs=run.end_tree or run.base_tree)
        except ApplyConflict:
            return True
        if tree in (merged, run.base_tree):
            return False
        change = applying.RunChange("", tree, merged)
        parts = [committing.CommitPart(merged, "candidate\n")]
        candidate = committing.write_on(place.project, place.store, change, parts, commit)
        return verify(commit, candidate, track).outcome != OutcomeWord.PASS

    low, high = 0, len(commits) - 1  # the last one breaks
    try:
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if breaks(commits[middle]) else (middle + 1, high)
        return place.git.line("log", "-1", "--format=%h %s", commits[low])
    except (ReflectloopError, GitFailed):
        return ""
