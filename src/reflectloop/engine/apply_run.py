"""`apply` and `gc`: giving a run's change to the user, and clearing up."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from reflectloop import config
from reflectloop.engine import tasks
from reflectloop.engine.artifacts import publish, task_status, views
from reflectloop.engine.folders import Folders, RunFolder, folders_at
from reflectloop.engine.git_lock_retry import patiently
from reflectloop.errors import InvalidInput, NothingToDo
from reflectloop.sandbox import environment
from reflectloop.state import events, lock
from reflectloop.state.fold import RunState, Task
from reflectloop.system import files, process
from reflectloop.system.git import GitFailed
from reflectloop.workspace import apply as applying
from reflectloop.workspace import commit as committing
from reflectloop.workspace import patch, project, secret_guard, workspace_registry
from reflectloop.workspace.apply import RunChange
from reflectloop.workspace.commit import CommitPart
from reflectloop.workspace.patch import TouchedFile
from reflectloop.workspace.store import Store, open_for


class ApplyResult(NamedTuple):
    run_id: str
    touched: tuple[TouchedFile, ...]
    commit: str | None
    ref: str | None


class Offer(NamedTuple):
    """What is about to be done, for the user to say yes to. `stream` makes the patch to read, which may be large."""

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
    """None when the user did not agree. Everything that can refuse does so before anything is touched."""
    folders = folders_at(start)
    with lock.hold(folders.own, "apply"):
        task, run = _passed(folders, name)
        home = project.open_at(folders.root, "copy" if run.mode == "copy" else "auto")
        store = open_for(home, config.load(folders.root).workspace)
        change = RunChange(run.id, run.base_tree, run.end_tree or run.base_tree)
        if change.base == change.end:
            raise NothingToDo(f"{run.id} changed nothing; there is nothing to apply")
        try:
            patch.refuse_leaks(store.git(), change.base, change.end)
        except GitFailed as fault:
            raise task_status.base_is_gone(run.id) from fault
        prepared = None if branch is not None else applying.prepare(home, store, change, folders.scratch)
        before, after = (prepared.now, prepared.result) if prepared else (change.base, change.end)
        if prepared and before == after and not commit:
            raise NothingToDo(f"the change of {run.id} is already in your tree")
        secret_guard.refuse_words(message or "", "the message of the commit")
        text = message or f"{task.title}\n\nReflectloop-Run: {run.id}\n"
        wanted = commit or branch is not None
        parts = _parts(folders, run, text) if each_step else [CommitPart(change.end, text)]
        pending = patiently(lambda: committing.prepare(home, store, change, parts, branch=branch)) if wanted else None
        git = store.git()
        offer = Offer(
            run.id, patch.touched(git, before, after), lambda take: patch.stream(git, before, after, take, exact=False)
        )
        if not agree(offer):
            return None
        _carry_out(home, store, prepared, pending, folders.scratch)
        made, ref = (pending.commit, pending.ref) if pending else (None, None)
        _note(folders, task, events.Applied(run_id=run.id, result_tree=after, commit=made, ref=ref))
        return ApplyResult(run.id, offer.touched, made, ref)


def _parts(folders: Folders, run: RunState, last: str) -> list[CommitPart]:
    """A commit for each step that was done, with its own title; what came after the last of them goes with that."""
    done = [run.steps[name] for name in run.order if run.steps[name].status == "done"]
    by_turns = run.kind.is_stepwise or all(after.start == before.tree for before, after in itertools.pairwise(done))
    if not by_turns:
        raise InvalidInput(
            f"the steps of {run.id} were worked on side by side, and are one change",
            next_step=f"reflectloop apply {run.id} without --each-step",
        )
    titles = run.titles or _titles(folders, run)
    mark = f"Reflectloop-Run: {run.id}\n"
    parts = [
        CommitPart(step.tree or "", f"{titles.get(step.id) or step.id}\n\n{mark}Reflectloop-Step: {step.id}\n")
        for step in done
    ]
    end = run.end_tree or run.base_tree
    if parts and parts[-1].tree == end:
        return parts
    return [*parts, CommitPart(end, last)]


def _titles(folders: Folders, run: RunState) -> dict[str, str]:
    from reflectloop.engine.run import recovery  # noqa: PLC0415
    from reflectloop.plan import load as plans  # noqa: PLC0415 - only where each step is a commit

    plan = plans.load(recovery.plan_of(RunFolder(folders.own / "runs" / run.id))).plan
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
            patiently(lambda: committing.publish(home, pending))

    if prepared:
        applying.to_work_tree(home, store, prepared, scratch, then)
    else:
        then()


def _note(folders: Folders, task: Task, event: events.Applied) -> None:
    journal = folders.open_journal(task.id)
    try:
        journal.append(event)
    finally:
        journal.close()
    views.refresh(journal.path.parent)


def _passed(folders: Folders, name: str | None) -> tuple[Task, RunState]:
    """The run to apply: the one named, or the last that began; only if it passed."""
    known = task_status.tasks(folders)
    if name in (None, "latest"):
        current = next((task for task in known if task.id == folders.current_task()), None)
        run_id = list(current.runs)[-1] if current and current.runs else folders.find_run(None).run_id
    else:
        run_id = folders.find_run(name).run_id
    for task in reversed(known):
        run = task.runs.get(run_id)
        if run and run.status == "ok":
            return task, run
    raise NothingToDo(f"{run_id} did not pass; only proven work is applied", next_step=f"reflectloop show {run_id}")


class GcResult(NamedTuple):
    workspaces: int
    freed: int
    processes: int


def gc(start: Path, *, everything: bool) -> GcResult:
    """Take away what crashes left and failed workspaces beyond those to be kept; with `everything`, all of them."""
    folders = folders_at(start)
    with lock.hold(folders.own, "gc"):
        settings = config.load(folders.root).workspace
        gone = (
            workspace_registry.entries(folders.own)
            if everything
            else workspace_registry.stale(folders.own, settings.keep_failed)
        )
        roots = {entry.folder.parent for entry in workspace_registry.entries(folders.own)}
        roots.add(settings.root or Path(tempfile.gettempdir()) / "reflectloop")
        killed = sum(process.end_carrying(f"{environment.RUN}={entry.name}") for entry in gone)
        total = sum(files.size_of(entry.folder) for entry in gone)
        for entry in gone:
            workspace_registry.remove(entry)
        lost = [path for root in roots for path in workspace_registry.unwritten(folders.own, root)]
        total += sum(files.size_of(path) for path in lost)
        for path in lost:
            workspace_registry.bury(path)
        total += _drop_half_objects(folders.own / "git" / "objects")
        total += _drop_request_logs(folders.own / "requests" / "logs", 0 if everything else _KEPT_LOGS)
        return GcResult(len(gone) + len(lost), total, killed)


def _drop_half_objects(folder: Path) -> int:
    """What git began to write when the disk was full; nobody writes now, since we hold the lock. How many bytes."""
    total = 0
    for path in folder.glob("*/tmp_obj_*"):
        total += path.stat().st_size
        path.unlink()
    return total


def _drop_request_logs(folder: Path, kept: int) -> int:
    """What commands of requests printed, but for the newest; their answers say what matters. How many bytes."""
    logs = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime, reverse=True)[kept:]
    total = sum(path.stat().st_size for path in logs)
    for path in logs:
        path.unlink()
    return total


def unlock(start: Path, reason: str) -> tasks.UnlockResult:
    folders = folders_at(start)
    with lock.hold(folders.own, "unlock"):
        secret_guard.refuse_words(reason, "the reason")
        lifted = tasks.unlock(folders, reason)
        publish.remove_home_latch(folders, config.load(folders.root).publish)
        return lifted


_KEPT_LOGS = 200
