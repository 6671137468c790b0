"""Applies a run's change to the user's files: computes the result, checks it, writes it, and undoes it on failure."""

from __future__ import annotations

import contextlib
import filecmp
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

from reflectloop.errors import ApplyConflict, StateDamaged
from reflectloop.system import files, git, tree_walk
from reflectloop.system.git import Git, GitFailed
from reflectloop.workspace import patch, tree_diff
from reflectloop.workspace.folders import SAVED
from reflectloop.workspace.project import Project
from reflectloop.workspace.snapshot import take_snapshot
from reflectloop.workspace.store import Store

_MANIFEST = "manifest"


class ApplyBackup:
    """Copies of files, on the project's file system, so that restoring them needs no space."""

    def __init__(self, root: Path, folder: Path, names: list[bytes], result: str) -> None:
        self._root, self._folder, self._names, self._result = root, folder, names, result

    def __enter__(self) -> Self:
        with files.room_for("copies of the files to be changed", self._folder):
            self._folder.mkdir()
            for number, name in enumerate(self._names):
                source = self._place(name)
                if source.is_symlink() or source.is_file():
                    shutil.copy2(source, self._copy(number), follow_symlinks=False)
        # From here on, files may have been changed when a crash happens.
        files.write_atomic(self._folder / _MANIFEST, b"\0".join([self._result.encode(), *self._names]))
        return self

    def __exit__(self, *_: object) -> None:
        files.remove_tree(self._folder)

    def _place(self, name: bytes) -> Path:
        return Path(os.fsdecode(os.fsencode(self._root) + b"/" + name))

    def _copy(self, number: int) -> Path:
        return self._folder / str(number)

    def put_back(self) -> None:
        """Restore the files. Added files are removed first: a new folder may be where a file was."""
        for number, name in enumerate(self._names):
            if not os.path.lexists(self._copy(number)):
                with contextlib.suppress(OSError):
                    self._place(name).unlink()
        for number, name in enumerate(self._names):
            place, copy = self._place(name), self._copy(number)
            if os.path.lexists(copy) and not _same(place, copy):
                _remove_empty(place)
                place.parent.mkdir(parents=True, exist_ok=True)
                copy.replace(place)

    def changed_by_others(self, target: Git) -> list[str]:
        """Return the files that somebody else changed: they match neither the backup nor the apply's result."""
        out = []
        for number, name in enumerate(self._names):
            place, copy = self._place(name), self._copy(number)
            if os.path.lexists(place) and not _same(place, copy) and not self._partly_written(target, name, place):
                out.append(files.display(name))
        return out

    def _partly_written(self, target: Git, name: bytes, place: Path) -> bool:
        made = target.attempt("cat-file", "--filters", f"{self._result}:{os.fsdecode(name)}")
        if made.code or place.is_dir():
            return False
        now = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes()
        return made.stdout.startswith(now)


def _remove_empty(folder: Path) -> None:
    """Remove a folder that contains only folders; keep one that contains a file."""
    if folder.is_dir() and not folder.is_symlink():
        for _ in tree_walk.walk(folder, passing=(OSError,), leave=_remove_if_empty):
            pass
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove_if_empty(above: int, name: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=above)


def _same(left: Path, right: Path) -> bool:
    if left.is_symlink() or right.is_symlink():
        return left.is_symlink() and right.is_symlink() and left.readlink() == right.readlink()
    if not (left.is_file() and right.is_file()):
        return False
    return left.stat().st_mode == right.stat().st_mode and filecmp.cmp(left, right, shallow=False)


def _refuse_outside(root: Path, names: list[bytes]) -> None:
    """Raise StateDamaged for names that no apply can have changed: outside the project, or through a link."""
    for name in names:
        parts = name.split(b"/")
        parents = [os.fsencode(root) + b"/" + b"/".join(parts[:depth]) for depth in range(1, len(parts))]
        linked = any(os.path.islink(parent) for parent in parents)  # noqa: PTH114 - bytes names
        if linked or any(part in (b"", b".", b"..") or part.lower() == b".git" for part in parts):
            raise StateDamaged(
                f"the record of an unfinished apply names {files.display(name)!r}, which no apply changes",
                next_step="remove .reflectloop/tmp/apply.saved after looking at it",
            )


def recover(root: Path, folder: Path, target: Git) -> bool:
    """Undo an apply that was killed; return True if there was one."""
    if not folder.exists():
        return False
    manifest = folder / _MANIFEST
    if manifest.exists():
        result, *names = manifest.read_bytes().split(b"\0")
        _refuse_outside(root, names)
        saved = ApplyBackup(root, folder, names, result.decode())
        changed = saved.changed_by_others(target)
        if changed:
            raise ApplyConflict(
                f"an earlier apply was killed, and files have changed since: {', '.join(changed[:10])}",
                next_step=f"look at the copies in {folder}, then remove that folder",
                missing=tuple(changed),
            )
        saved.put_back()
    files.remove_tree(folder)
    return True


_INDEX = "apply.index"


class RunChange(NamedTuple):
    """A run's change: the tree at its start and the tree at its end."""

    run_id: str
    base: str
    end: str


class PreparedApply(NamedTuple):
    now: str  # the user's present tree
    result: str  # the tree after the apply
    touched: tuple[patch.TouchedFile, ...]


def prepare(project: Project, store: Store, change: RunChange, scratch: Path) -> PreparedApply:
    """Compute the result without changing anything; raise APPLY_CONFLICT if the trees conflict."""
    undo_killed(project, store, scratch)
    now = take_snapshot(project, store, scratch).tree
    result = merge(store, base=change.base, ours=now, theirs=change.end)
    return PreparedApply(now, result, patch.touched_files(store.git(), now, result))


def _without(name: bytes, ends: tuple[bytes, ...]) -> bytes:
    end = next((end for end in ends if name.endswith(end)), b"")
    return name[: len(name) - len(end)]


def merge(store: Store, *, base: str, ours: str, theirs: str, by: Git | None = None) -> str:
    """Merge trees three-way and return the result's id, or raise APPLY_CONFLICT with the files."""
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    root = store.commit(base, message="base", git=by)
    sides = [store.commit(tree, root, message="side", git=by) for tree in (ours, theirs)]
    merged = (by or store.git()).attempt("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", *sides)
    fields = git.paths(merged.stdout)
    if merged.code == 1:
        # If a file and a folder conflict, git appends the file's side: "name~COMMIT".
        ends = tuple(f"~{side}".encode() for side in sides)
        names = list(dict.fromkeys(files.display(_without(name, ends)) for name in fields[1:]))
        raise ApplyConflict(
            f"{len(names)} file(s) changed on both sides: {', '.join(names[:10])}",
            next_step="run the plan again, which begins with your files as they are; or undo your changes to them",
            missing=tuple(names),
        )
    if merged.code:
        raise GitFailed(["merge-tree"], merged.code, merged.stderr)
    return fields[0].decode()


def to_work_tree(
    project: Project, store: Store, prepared: PreparedApply, scratch: Path, then: Callable[[], None] = lambda: None
) -> None:
    """Change the user's files from `now` to `result`, then call `then`; undo everything if either fails."""
    if prepared.now == prepared.result:
        then()
        return
    _refuse_hidden(project, store, prepared)
    index = scratch / _INDEX
    target = store.git(work_tree=project.root, index=index)
    names = tree_diff.changed_names(store.git(), prepared.now, prepared.result)
    with ApplyBackup(project.root, scratch / SAVED, names, prepared.result) as saved:
        try:
            target.run("read-tree", prepared.now)
            target.attempt("update-index", "-q", "--refresh")
            # It must die with us: otherwise it could go on changing files during the next apply.
            target._replace(tied=True).run("read-tree", "-m", "-u", prepared.now, prepared.result)
            _refuse_unwritten(project, store, prepared, names, scratch)
            then()
        except BaseException as fault:
            saved.put_back()
            if isinstance(fault, GitFailed):
                raise ApplyConflict(
                    f"git could not change the files, and nothing was changed: {fault.stderr}",
                    next_step="fix the problem that git reports, then apply again",
                ) from fault
            raise
        finally:
            _drop_index(scratch)


def _drop_index(scratch: Path) -> None:
    for name in (_INDEX, f"{_INDEX}.lock"):
        (scratch / name).unlink(missing_ok=True)


def undo_killed(project: Project, store: Store, scratch: Path) -> bool:
    """Undo an apply that was killed; return True if there was one."""
    _drop_index(scratch)
    return recover(project.root, scratch / SAVED, store.git(work_tree=project.root))


def _refuse_unwritten(
    project: Project, store: Store, prepared: PreparedApply, names: list[bytes], scratch: Path
) -> None:
    """Raise APPLY_CONFLICT if a file was not changed: git only warns if it cannot remove one."""
    now = take_snapshot(project, store, scratch).tree
    differing = set(tree_diff.changed_names(store.git(), now, prepared.result))
    wrong = [files.display(name) for name in names if name in differing]
    if wrong:
        raise ApplyConflict(
            f"{len(wrong)} file(s) could not be changed, so nothing was: {', '.join(wrong[:10])}",
            next_step="make them and their folders writable, then apply again",
            missing=tuple(wrong),
        )


def _refuse_hidden(project: Project, store: Store, prepared: PreparedApply) -> None:
    """Raise APPLY_CONFLICT for ignored files that git would overwrite silently: no snapshot contains them."""
    between = (prepared.now, prepared.result)
    added = tree_diff.changed_names(store.git(), *between, "--diff-filter=A")
    removed = set(tree_diff.changed_names(store.git(), *between, "--diff-filter=D"))
    root = os.fsencode(project.root)
    hidden = [files.display(path) for name in added for path in _in_the_way(root, name, removed)]
    if hidden:
        raise ApplyConflict(
            f"ignored file(s) exist where the patch adds a file: {', '.join(hidden[:10])}",
            next_step="move them away and apply again",
            missing=tuple(hidden),
        )


def _in_the_way(root: bytes, name: bytes, removed: set[bytes]) -> Iterator[bytes]:
    """Yield the files at `name`, above it or below it that the patch does not remove itself."""
    parts = name.split(b"/")
    for depth in range(1, len(parts) + 1):
        place = b"/".join(parts[:depth])
        full = root + b"/" + place
        if os.path.islink(full) or os.path.isfile(full):  # noqa: PTH113, PTH114 - bytes names
            if place not in removed:
                yield place
            return
    for folder in tree_walk.walk(Path(os.fsdecode(root + b"/" + name)), passing=(OSError,)):
        files_in = (entry for entry in folder.entries if not entry.is_dir(follow_symlinks=False))
        inside = (name + b"/" + os.fsencode(folder.within(entry.name)) for entry in files_in)
        yield from (path for path in inside if path not in removed)
