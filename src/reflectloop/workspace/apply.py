"""Puts a run's tree onto the user's: computed first, checked next, touched last, put back on failure."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import ApplyConflict
from reflectloop.system import files, git, tree_walk
from reflectloop.system.git import Git, GitFailed
from reflectloop.workspace import patch
from reflectloop.workspace.apply_backup import ApplyBackup, recover
from reflectloop.workspace.project import Project
from reflectloop.workspace.snapshot import take
from reflectloop.workspace.store import Store

_SAVED = "apply.saved"
_INDEX = "apply.index"
LISTING = ("-r", "-z", "--name-only", "--no-renames")


class RunChange(NamedTuple):
    """What a run did: from the tree it began with to the tree it ended with."""

    run_id: str
    base: str
    end: str


class PreparedApply(NamedTuple):
    now: str  # the user's tree as it stands
    result: str  # what it will be
    touched: tuple[patch.TouchedFile, ...]


def prepare(project: Project, store: Store, change: RunChange, scratch: Path) -> PreparedApply:
    """Work out the result without touching anything; APPLY_CONFLICT when it cannot be had."""
    undo_killed(project, store, scratch)
    now = take(project, store, scratch).tree
    result = merge(store, base=change.base, ours=now, theirs=change.end)
    return PreparedApply(now, result, patch.touched(store.git(), now, result))


def _without(name: bytes, ends: tuple[bytes, ...]) -> bytes:
    end = next((end for end in ends if name.endswith(end)), b"")
    return name[: len(name) - len(end)]


def merge(store: Store, *, base: str, ours: str, theirs: str, by: Git | None = None) -> str:
    """Three-way merge of trees; the result's id, or APPLY_CONFLICT with the files."""
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    root = store.commit(base, message="base", git=by)
    sides = [store.commit(tree, root, message="side", git=by) for tree in (ours, theirs)]
    merged = (by or store.git()).attempt("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", *sides)
    fields = git.paths(merged.stdout)
    if merged.code == 1:
        # Where a file and a folder meet, git names the file by the side it comes from: "name~COMMIT".
        ends = tuple(f"~{side}".encode() for side in sides)
        names = list(dict.fromkeys(files.display(_without(name, ends)) for name in fields[1:]))
        raise ApplyConflict(
            f"{len(names)} file(s) changed on both sides: {', '.join(names[:10])}",
            next_step=f"{'undo' if store.copies else 'commit or undo'} those changes, or run the plan again",
            missing=tuple(names),
        )
    if merged.code:
        raise GitFailed(["merge-tree"], merged.code, merged.stderr)
    return fields[0].decode()


def to_work_tree(
    project: Project, store: Store, prepared: PreparedApply, scratch: Path, then: Callable[[], None] = lambda: None
) -> None:
    """Change the user's files from `now` to `result`, then do `then`; when either fails, all is put back."""
    if prepared.now == prepared.result:
        then()
        return
    _refuse_hidden(project, store, prepared)
    index = scratch / _INDEX
    target = store.git(work_tree=project.root, index=index)
    names = git.paths(store.git().run("diff-tree", *LISTING, prepared.now, prepared.result))
    with ApplyBackup(project.root, scratch / _SAVED, names, prepared.result) as saved:
        try:
            target.run("read-tree", prepared.now)
            target.attempt("update-index", "-q", "--refresh")
            # Tied to us: a git that goes on after we were killed would change files behind the next apply's back.
            dataclasses.replace(target, tied=True).run("read-tree", "-m", "-u", prepared.now, prepared.result)
            _refuse_unwritten(project, store, prepared, names, scratch)
            then()
        except BaseException as fault:
            saved.put_back()
            if isinstance(fault, GitFailed):
                raise ApplyConflict(
                    f"git could not change the files, and nothing was changed: {fault.stderr}",
                    next_step="mend what git says, then apply again",
                ) from fault
            raise
        finally:
            _drop_index(scratch)


def _drop_index(scratch: Path) -> None:
    for name in (_INDEX, f"{_INDEX}.lock"):
        (scratch / name).unlink(missing_ok=True)


def undo_killed(project: Project, store: Store, scratch: Path) -> bool:
    """Put back what an apply that was killed half way has touched. Whether there was one."""
    _drop_index(scratch)
    return recover(project.root, scratch / _SAVED, store.git(work_tree=project.root))


def was_killed(scratch: Path) -> bool:
    return (scratch / _SAVED).exists()


def _refuse_unwritten(
    project: Project, store: Store, prepared: PreparedApply, names: list[bytes], scratch: Path
) -> None:
    """Git only warns about a file it could not remove; what stands there now is what counts."""
    now = take(project, store, scratch).tree
    differing = set(git.paths(store.git().run("diff-tree", *LISTING, now, prepared.result)))
    wrong = [files.display(name) for name in names if name in differing]
    if wrong:
        raise ApplyConflict(
            f"{len(wrong)} file(s) could not be changed, and nothing was: {', '.join(wrong[:10])}",
            next_step="make them and their folders writable, then apply again",
            missing=tuple(wrong),
        )


def _refuse_hidden(project: Project, store: Store, prepared: PreparedApply) -> None:
    """An ignored file in the way is not in the snapshot, and git would overwrite it without a word."""
    between = (prepared.now, prepared.result)
    added = git.paths(store.git().run("diff-tree", *LISTING, "--diff-filter=A", *between))
    removed = set(git.paths(store.git().run("diff-tree", *LISTING, "--diff-filter=D", *between)))
    root = os.fsencode(project.root)
    hidden = [files.display(found) for name in added for found in _in_the_way(root, name, removed)]
    if hidden:
        raise ApplyConflict(
            f"ignored file(s) stand where the patch adds one: {', '.join(hidden[:10])}",
            next_step="move them away and apply again",
            missing=tuple(hidden),
        )


def _in_the_way(root: bytes, name: bytes, removed: set[bytes]) -> Iterator[bytes]:
    """What stands at `name`, above it or below it, and is not about to be removed by the patch itself."""
    parts = name.split(b"/")
    for depth in range(1, len(parts) + 1):
        place = b"/".join(parts[:depth])
        path = root + b"/" + place
        if os.path.islink(path) or os.path.isfile(path):  # noqa: PTH113, PTH114 - bytes names
            if place not in removed:
                yield place
            return
    for folder in tree_walk.walk(Path(os.fsdecode(root + b"/" + name)), passing=(OSError,)):
        files_in = (entry for entry in folder.entries if not entry.is_dir(follow_symlinks=False))
        inside = (name + b"/" + os.fsencode(folder.within(entry.name)) for entry in files_in)
        yield from (one for one in inside if one not in removed)
