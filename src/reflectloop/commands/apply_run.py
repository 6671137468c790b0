"""`apply`, `gc` and `unlock`: apply a run's change, remove leftovers, lift the latch."""

from __future__ import annotations

import contextlib
import itertools
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from reflectloop import config
from reflectloop.artifacts import publish, views
from reflectloop.commands import task_status
from reflectloop.engine.gating import one_truth
from reflectloop.engine.gating.one_truth import RunRecords
from reflectloop.engine.tasks import open_tasks
from reflectloop.errors import ApplyConflict, InvalidInput, NothingToDo
from reflectloop.sandbox import environment
from reflectloop.state import events, lock
from reflectloop.state.fold import RunState
from reflectloop.system import files
from reflectloop.system.git import GitFailed
from reflectloop.terms import one_line
from reflectloop.workspace import apply as applying
from reflectloop.workspace import checkout, layer_removal, patch, project, secret_guard, workspace_registry
from reflectloop.workspace import commit as committing
from reflectloop.workspace.apply import RunChange
from reflectloop.workspace.commit import CommitPart
from reflectloop.workspace.folders import Folders, open_project_dirs
from reflectloop.workspace.patch import TouchedFile
from reflectloop.workspace.store import Store, open_store

_INDEX_IN_USE_S = 3600
_LOGS_TO_KEEP = 200  # of FileOps requests
_CACHE_BYTES = 64 << 20  # of remembered outcomes, and of remembered checks
T = TypeVar("T")
_LOCK_RETRIES, _LOCK_DELAY_S = 3, 0.2
_LOCK = ".lock"
_GIT_MESSAGE = "Another git process seems to be running in this repository"


class ApplyResult(NamedTuple):
    run_id: str
    touched: tuple[TouchedFile, ...]
    commit: str | None
    ref: str | None
    verified: bool = False  # whether checks judged the change on a sealed copy


class Offer(NamedTuple):
    """A change that the user is asked to accept. `stream` writes its patch, which may be large."""

    run_id: str
    touched: tuple[TouchedFile, ...]
    stream: Callable[[Callable[[bytes], None]], None]


def apply(
    start: Path,
    name: str | None,
    *,
    commit: bool,
    branch: str | None,
    message: str | None,
    agree: Callable[[Offer], bool],
    each_step: bool = False,
) -> ApplyResult | None:
    """Apply the change of a run, if all its records agree; return None if the user does not agree.

    Every check that can refuse runs before anything is changed.
    """
    folders = open_project_dirs(start)
    with lock.hold_lock(folders.own, "apply"):
        records = _passed(folders, name)
        task, run = records.task, records.run
        home = project.open_project(folders.root, "copy" if run.mode == "copy" else "auto")
        store = open_store(home, config.load(folders.root).workspace)
        change = RunChange(run.id, run.base_tree, run.end_tree or run.base_tree)
        if change.base == change.end:
            raise NothingToDo(f"{run.id} changed nothing; there is nothing to apply")
        try:
            patch.refuse_leaks(store.git(), change.base, change.end)
        except GitFailed as fault:
            raise task_status.base_is_gone(run.id) from fault
        receipt = one_truth.require(folders, records, store).receipt
        prepared = None if branch is not None else applying.prepare(home, store, change, folders.scratch)
        before, after = (prepared.now, prepared.result) if prepared else (change.base, change.end)
        if prepared and before == after and not commit:
            raise NothingToDo(f"the change of {run.id} is already in your tree")
        secret_guard.refuse_secret_text(message or "", "the message of the commit")
        text = message or f"{one_line(task.title)}\n\nReflectloop-Run: {run.id}\n"
        wanted = commit or branch is not None
        parts = _parts(folders, run, text) if each_step else [CommitPart(change.end, text)]
        pending = (
            retry_on_git_lock(lambda: committing.prepare(home, store, change, parts, branch=branch)) if wanted else None
        )
        git = store.git()
        offer = Offer(
            run.id,
            patch.touched_files(git, before, after),
            lambda take: patch.stream(git, before, after, take, exact=False),
        )
        if not agree(offer):
            return None
        _carry_out(home, store, prepared, pending, folders.scratch)
        committed, ref = (pending.commit, pending.ref) if pending else (None, None)
        applied = events.Applied(run_id=run.id, result_tree=after, commit=committed, ref=ref)
        views.append_events(folders, task.id, [applied])
        return ApplyResult(run.id, offer.touched, committed, ref, receipt.get("sealed_tree") is not None)


def _parts(folders: Folders, run: RunState, last: str) -> list[CommitPart]:
    """Return one commit per finished step; changes after the last step make one more."""
    done = [run.steps[name] for name in run.order if run.steps[name].status == "done"]
    in_sequence = run.kind.is_stepwise or all(after.start == before.tree for before, after in itertools.pairwise(done))
    if not in_sequence:
        raise InvalidInput(
            f"the steps of {run.id} ran in parallel and make one change",
            next_step=f"reflectloop apply {run.id} without --each-step",
        )
    titles = run.titles or _titles(folders, run)
    mark = f"Reflectloop-Run: {run.id}\n"
    parts = [
        CommitPart(
            step.tree or "", f"{one_line(titles.get(step.id) or step.id)}\n\n{mark}Reflectloop-Step: {step.id}\n"
        )
        for step in done
    ]
    end = run.end_tree or run.base_tree
    if parts and parts[-1].tree == end:
        return parts
    return [*parts, CommitPart(end, last)]


def _titles(folders: Folders, run: RunState) -> dict[str, str]:
    from reflectloop.plan import load as plans  # noqa: PLC0415 - needed only for one commit per step

    plan = plans.load(folders.run_folder(run.id).saved_plan()).plan
    return {step.id: step.title for step in plan.steps}


def _carry_out(
    home: project.Project,
    store: Store,
    prepared: applying.PreparedApply | None,
    pending: committing.PendingCommit | None,
    scratch: Path,
) -> None:
    def then() -> None:
        if pending:
            retry_on_git_lock(lambda: committing.publish(home, pending))

    if prepared:
        applying.to_work_tree(home, store, prepared, scratch, then)
    else:
        then()


def _passed(folders: Folders, name: str | None) -> RunRecords:
    """Return the run to apply, the named one or the last one, if it passed."""
    known = folders.load_tasks()
    if name in (None, "latest"):
        current = next((task for task in known if task.id == folders.current_task()), None)
        run_id = current.last_run.id if current and current.last_run else folders.find_run(None).run_id
    else:
        run_id = folders.find_run(name).run_id
    for task in reversed(known):
        run = task.runs.get(run_id)
        if run and run.status == "ok":
            records = one_truth.read_run(folders, task.id, run_id)
            if records.run.status == "ok":
                return records
    raise NothingToDo(
        f"{run_id} did not pass; only verified changes are applied", next_step=f"reflectloop show {run_id}"
    )


# A lock of another git ------------------------------------------------------------------------------------------


def retry_on_git_lock(act: Callable[[], T]) -> T:
    """Return the result of `act`; if it fails because of a lock, try again. `act` changes nothing if it fails."""
    try:
        return act()
    except ApplyConflict as fault:
        if _LOCK not in fault.message:
            raise
    return _retry(act)


def _retry(act: Callable[[], T]) -> T:
    from reflectloop.diagnosis import safe_call  # noqa: PLC0415 - a lock is rare
    from reflectloop.diagnosis.retry_policy import RetryPolicy  # noqa: PLC0415

    faults: list[Exception] = []

    def invoke(_tool: str, _params: safe_call.Params) -> T:
        try:
            return act()
        except Exception as fault:  # raised again below: safe_call only reports it
            faults.append(fault)
            if isinstance(fault, ApplyConflict) and _LOCK in fault.message:
                raise safe_call.ToolError(f"{_GIT_MESSAGE}: {fault.message}") from fault
            raise

    wait = RetryPolicy(
        tool="git", rule="locked", action="wait for the other git", retries=_LOCK_RETRIES, delay_s=_LOCK_DELAY_S
    )
    no_more = RetryPolicy(tool="git", action="report")
    outcome = safe_call.safe_call(
        "git", {}, invoke=invoke, idempotent=True, options=safe_call.RetryOptions(policies=(wait, no_more))
    )
    if isinstance(outcome, safe_call.ToolFailure):
        raise faults[-1]  # the original error, which safe_call only reports
    result: T = outcome.value
    return result


# Removing leftovers -----------------------------------------------------------------------------------------------


class GcResult(NamedTuple):
    workspaces: int
    freed: int
    processes: int


def gc(start: Path, *, everything: bool) -> GcResult:
    """Remove leftovers of crashes and old failed workspaces; with `everything`, all workspaces."""
    folders = open_project_dirs(start)
    with lock.hold_lock(folders.own, "gc"):
        settings = config.load(folders.root).workspace
        removed = (
            workspace_registry.entries(folders.own)
            if everything
            else workspace_registry.stale(folders.own, settings.keep_failed)
        )
        entries = workspace_registry.entries(folders.own)
        roots = {*layer_removal.roots(folders.own), *(entry.folder.parent for entry in entries)}
        usual = Path(tempfile.gettempdir()).resolve() / "reflectloop"
        roots |= {settings.root} if settings.root else {usual, checkout.plain_root(usual)}
        killed = sum(environment.kill_leftovers(entry.name, entry.folder) for entry in removed)
        total = sum(files.size_of(entry.folder) for entry in removed)
        for entry in removed:
            workspace_registry.remove(entry)
        lost = [path for root in roots for path in workspace_registry.unregistered_folders(folders.own, root)]
        total += sum(files.size_of(path) for path in lost)
        for path in lost:
            workspace_registry.delete_in_background(path)
        total += layer_removal.remove_unused(folders.own, folders.root, 0 if everything else settings.layers_mb * 10**6)
        total += _drop_half_objects(folders.own / "git" / "objects")
        total += _drop_old_indexes(folders.scratch)
        total += _drop_request_logs(folders.own / "requests" / "logs", 0 if everything else _LOGS_TO_KEEP)
        total += sum(_drop_oldest(folders.own / "cache" / name, _CACHE_BYTES) for name in ("checks", "verify"))
        return GcResult(len(removed) + len(lost), total, killed)


def _drop_half_objects(folder: Path) -> int:
    """Remove objects that git could not finish writing; return their bytes. We hold the lock, so nobody writes."""
    total = 0
    for path in folder.glob("*/tmp_obj_*"):
        total += path.stat().st_size
        path.unlink()
    return total


def _drop_old_indexes(folder: Path) -> int:
    """Remove git indexes that a killed process left behind; return their bytes. A hook may be using a new one."""
    total = 0
    for path in folder.glob("*.index*"):
        with contextlib.suppress(FileNotFoundError):  # its process has just ended
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_mtime < time.time() - _INDEX_IN_USE_S:
                path.unlink()
                total += status.st_size
    return total


def _drop_request_logs(folder: Path, keep: int) -> int:
    """Remove all but the newest logs of FileOps requests; return their bytes."""
    logs = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime, reverse=True)[keep:]
    total = sum(path.stat().st_size for path in logs)
    for path in logs:
        path.unlink()
    return total


def _drop_oldest(folder: Path, most: int) -> int:
    """Remove the oldest remembered results of a folder above `most` bytes; return their bytes."""
    left, freed = most, 0
    known = [(path.lstat(), path) for path in folder.glob("*.json")]
    for status, path in sorted(known, key=lambda entry: entry[0].st_mtime_ns, reverse=True):
        left -= status.st_size
        if left < 0:
            path.unlink()
            freed += status.st_size
    return freed


def unlock(start: Path, reason: str) -> open_tasks.UnlockResult:
    folders = open_project_dirs(start)
    with lock.hold_lock(folders.own, "unlock"):
        secret_guard.refuse_secret_text(reason, "the reason")
        lifted = open_tasks.unlock(folders, reason)
        publish.remove_home_latch(folders, config.load(folders.root).publish)
        return lifted
