"""Trees that are laid out once and shared, read-only, by all workspaces of a project.

A workspace mounts an empty folder over one of them, so it costs as much as what is changed in it. A layer is built
under another name and renamed when it is complete; who uses one holds its lock, and the least recently used go first.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from reflectloop.config import WorkspaceConfig
from reflectloop.errors import NoSpace, SandboxCreateFailed
from reflectloop.system import beneath, clock, files, git, overlay, tree_walk
from reflectloop.system.git import Git, GitFailed
from reflectloop.system.undo import on_failure
from reflectloop.workspace import workspace_registry
from reflectloop.workspace.layer_removal import HOME, RECORD, REMOVED, last_used, remember_root, remove_unused
from reflectloop.workspace.project import Project
from reflectloop.workspace.record_tree import changed_since, time_mark
from reflectloop.workspace.store import Store
from reflectloop.workspace.tree_diff import ABSENT, TreeChange, tree_changes

_NOTE = "where-the-files-are.txt"  # in an empty mount point
_PART = ".part-"
_CHECKED = "checked"  # in a layer; its time: the last comparison by git
_TRIED = 3  # recent layers that are compared with a tree
_FEW_CHANGES = 300  # written over a layer rather than laid out with everything else
_SHARE = 50  # or one file in so many
_RECHECK_S = 3600
_MANY_FILES = 20_000
_SPARE = 2  # a layer is made if the disk has room for so many
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STATUS = Path("/proc/self/status")
_SECOND_NS = 10**9
_AT_ONCE = 200  # names in one call of git


class Layer:
    """A tree that is laid out, locked against removal until it is closed."""

    def __init__(self, folder: Path, lock: int, record: dict[str, object]) -> None:
        self.folder, self._lock = folder, lock
        self.tree, self.made_ns = str(record["tree"]), int(str(record["made_ns"]))
        self.count, self.size = int(str(record["files"])), int(str(record["bytes"]))
        self._identity = record["identity"]

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def index(self) -> Path:
        return self.folder / "index"

    @property
    def is_closed(self) -> bool:
        return self._lock < 0

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def attach_again(self) -> Layer | None:
        """Return the same layer with a lock of its own; None if nobody may use it any more."""
        again = _attach(self.folder)
        if again is not None and again.made_ns != self.made_ns:
            again.close()
            return None
        return again

    def is_whole(self, store: Store, *, thorough: bool) -> bool:
        """Return True if the files are those of the tree; they are compared by git now and then, or if `thorough`."""
        try:
            if _identity(self.files) != self._identity:
                return False
            if not thorough and self._was_checked():
                return True
            reader = store.git(work_tree=self.files, index=self.index)
            if any(self.is_damaged(name) for name in self._differing(reader)):
                return False
            files.write_atomic(self.folder / _CHECKED, _boot())
        except (OSError, GitFailed, NoSpace):
            return False
        return True

    def _differing(self, reader: Git) -> list[bytes]:
        """Return the names that git finds changed, missing or new; in a large tree it looks for new ones beside."""
        known, new = ("ls-files", "-z", "--modified", "--deleted"), "--others"
        if self.count < _MANY_FILES:
            return git.paths(reader.run(*known, new))
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - few projects are so large

        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(reader.run, *known[:2], new)
            return git.paths(reader.run(*known)) + git.paths(beside.result())

    def _was_checked(self) -> bool:
        """Return True if git has compared the files in the last hour, and since the machine was started."""
        checked = self.folder / _CHECKED
        age_s = clock.now().timestamp() - checked.stat().st_mtime
        return 0 <= age_s < _RECHECK_S and checked.read_text() == _boot()

    def is_damaged(self, name: bytes) -> bool:
        """Return True if a file of the layer was changed, added or removed after it was laid out.

        git calls a file changed as well if its attributes would convert it.
        """
        try:
            return (self.files / os.fsdecode(name)).lstat().st_ctime_ns > self.made_ns
        except OSError:
            return True

    def has(self, name: bytes) -> bool:
        """Return True if the layer has a file or a link of this name."""
        try:
            return not stat.S_ISDIR((self.files / os.fsdecode(name)).lstat().st_mode)
        except OSError:
            return False

    def lost(self, reader: Git, names: Sequence[bytes]) -> list[bytes]:
        """Return those of the names that the layer's tree has, and its files do not."""
        unknown = [os.fsdecode(name) for name in names if not self.has(name)]
        out: list[bytes] = []
        for start in range(0, len(unknown), _AT_ONCE):
            part = unknown[start : start + _AT_ONCE]
            out += git.paths(reader.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", self.tree, "--", *part))
        return out

    def mark_used(self) -> None:
        """Note the use, and that the index is older than no file: git reads files again that are as young as it."""
        os.utime(self.folder / RECORD)
        now_ns, index_ns = ((self.folder / name).stat().st_mtime_ns for name in (RECORD, "index"))
        if index_ns // _SECOND_NS <= self.made_ns // _SECOND_NS < now_ns // _SECOND_NS:
            os.utime(self.index)

    def discard(self) -> None:
        """Let nobody use the layer any more; it is removed when nobody does."""
        (self.folder / RECORD).unlink(missing_ok=True)


class ComparedLayers(Protocol):
    """The layers that one verification has compared with their trees."""

    def was_compared(self, layer: Layer) -> bool: ...
    def note(self, layer: Layer) -> bool:
        """Note that a workspace will stand on a layer; return False if none may."""
        ...


class LayerWithChanges(NamedTuple):
    """A layer, and where the wanted tree differs from it."""

    layer: Layer
    changes: tuple[TreeChange, ...]


class PartialFolder:
    """A folder beside the layers that is removed when nobody holds its lock."""

    def __init__(self, home: Path) -> None:
        self.path = home / f"{_PART}{uuid.uuid4().hex}"
        self.path.mkdir(mode=0o700)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def release(self) -> None:
        os.close(self._lock)

    def remove(self) -> None:
        self.release()
        workspace_registry.delete_in_background(self.path)


class ThinLayer(PartialFolder):
    """The files by which a tree differs from a layer, as the kernel stores them, and the index of the tree."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._made_ns, self._index_status = 0, (0, 0, 0)

    @property
    def upper(self) -> Path:
        return self.path / "upper"

    @property
    def index(self) -> Path:
        return self.path / "index"

    def note_made(self) -> None:
        """Note that all files are laid out."""
        self._made_ns, self._index_status = time_mark(self.path), self._status_of_index()

    def is_whole(self) -> bool:
        """Return True if nothing was changed, added or removed since the files were laid out."""
        try:
            same = self._status_of_index() == self._index_status
            return same and not changed_since(self.upper, self._made_ns + 1)
        except OSError:
            return False

    def _status_of_index(self) -> tuple[int, int, int]:
        status = self.index.stat()  # its change time is also that of the last link to it
        return status.st_ino, status.st_size, status.st_mtime_ns


def allow(settings: WorkspaceConfig) -> bool:
    """Let this process mount workspaces if it can; its threads can only if this was called before they started."""
    return settings.overlay != "off" and overlay.enter() is None


def open_layer(
    project: Project,
    store: Store,
    tree: str,
    *,
    root: Path,
    reader: Git,
    settings: WorkspaceConfig,
    fresh: ComparedLayers | None = None,
) -> LayerWithChanges | None:
    """Return a layer with `tree` or one near to it, laid out now if there is none; None if there can be none.

    `reader` finds the objects of the tree. For a fresh workspace it is one that was compared in this verification.
    """
    if not allow(settings):
        return None
    home = _home(project, root)
    try:
        near = _find(home, store, tree, reader, fresh)
        if near is None:
            remember_root(project, root)
            layer = _lay_out(home, store, tree, reader)
            near = LayerWithChanges(layer, ()) if layer else None
            remove_unused(project.folder, project.root, settings.layers_mb * 10**6)
        if near:
            near.layer.mark_used()
            if fresh and not fresh.note(near.layer):
                near.layer.close()
                return None
    except (OSError, NoSpace, GitFailed):
        return None  # a workspace without a layer reports what is wrong, or works
    return near


def _home(project: Project, root: Path) -> Path:
    return root / f"{HOME}{hashlib.sha256(os.fsencode(project.root)).hexdigest()[:12]}"


def _key(store: Store, tree: str) -> str:
    """Return the name of the layer of a tree; git's settings and the mask for modes decide how its files are."""
    lines = _STATUS.read_bytes().splitlines()  # to ask by os.umask would change it for a moment
    mask = next((line for line in lines if line.startswith(b"Umask:")), b"")
    how = hashlib.sha256((store.path / "config").read_bytes() + mask).hexdigest()[:8]
    return f"{tree}-{how}"


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _identity(folder: Path) -> list[int]:
    status = folder.lstat()
    return [status.st_ino, stat.S_IFMT(status.st_mode)]


# Finding -----------------------------------------------------------------------------------------------------------


def _find(home: Path, store: Store, tree: str, reader: Git, fresh: ComparedLayers | None) -> LayerWithChanges | None:
    exact = _key(store, tree)
    like = f"*{exact.removeprefix(tree)}"
    recent = sorted(home.glob(like), key=last_used, reverse=True)[:_TRIED]
    for folder in dict.fromkeys([home / exact, *recent]):
        layer = _attach(folder)
        if layer is None:
            continue
        changes = None
        with contextlib.suppress(GitFailed):  # the tree of the layer is no longer known
            changes = tree_changes(reader, layer.tree, tree)
        if changes is not None and _can_be_laid_over(changes, layer):
            if layer.is_whole(store, thorough=fresh is not None and not fresh.was_compared(layer)):
                return LayerWithChanges(layer, changes)
            layer.discard()
        layer.close()
    return None


def _can_be_laid_over(changes: Sequence[TreeChange], layer: Layer) -> bool:
    """Return True if the changes are few, and decide only how the changed files themselves are written."""
    return len(changes) <= max(_FEW_CHANGES, layer.count // _SHARE) and not _sets_attributes(changes)


def _sets_attributes(changes: Sequence[TreeChange]) -> bool:
    """Return True if the changes may decide by which attributes git writes files: line ends, encodings, filters."""
    return any(change.name.rpartition(b"/")[2] == b".gitattributes" for change in changes)


def _attach(folder: Path) -> Layer | None:
    """Lock a layer against removal; return None if it is not there, or not complete."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        record = json.loads((folder / RECORD).read_bytes())
        if os.path.samestat(os.fstat(lock), folder.lstat()):  # not renamed away meanwhile
            return Layer(folder, lock, record)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    os.close(lock)
    return None


# Laying out --------------------------------------------------------------------------------------------------------


def _lay_out(home: Path, store: Store, tree: str, reader: Git) -> Layer | None:
    """Lay out a tree; None if the disk has not enough room for it, or git cannot."""
    sizes = reader.run("ls-tree", "-r", "--format=%(objectsize)", tree).split()
    size = sum(int(number) for number in sizes if number.isdigit())
    home.mkdir(mode=0o700, exist_ok=True)
    if shutil.disk_usage(home).free < _SPARE * size:
        return None
    folder, target = PartialFolder(home), home / _key(store, tree)
    with on_failure(folder.remove):
        record = _fill(folder.path, store, tree, reader, len(sizes), size)
        files.write_atomic(folder.path / _CHECKED, _boot())
        files.write_atomic(folder.path / RECORD, json.dumps(record))
        _put(folder.path, target)
    folder.release()
    return _attach(target)


def _fill(part: Path, store: Store, tree: str, reader: Git, count: int, size: int) -> dict[str, object]:
    (part / "files").mkdir(mode=0o755)
    writer = store.git(work_tree=part / "files", index=part / "index", objects=reader.objects)
    writer.run("read-tree", "-u", "--reset", tree)
    (part / "files" / ".git").mkdir()
    os.link(part / "index", part / "files" / ".git" / "index")
    same = _identity(part / "files")
    return {"tree": tree, "made_ns": time_mark(part), "files": count, "bytes": size, "identity": same}


def _put(part: Path, target: Path) -> None:
    """Give a layer its name; if somebody else was faster, theirs stays, unless nobody may use it any more."""
    with contextlib.suppress(OSError):
        part.rename(target)
        return
    if not (target / RECORD).exists():
        target.rename(target.with_name(f"{REMOVED}{uuid.uuid4().hex}"))
        part.rename(target)
    else:
        workspace_registry.delete_in_background(part)


# Mounting ----------------------------------------------------------------------------------------------------------


class MountedLayer:
    """A layer as a workspace sees it: below a folder with all that was changed in this workspace."""

    def __init__(self, folder: Path, engine_dir: Path, near: LayerWithChanges, thin: ThinLayer | None = None) -> None:
        self.layer, self._repo, self._engine_dir = near.layer, folder / "repo", engine_dir
        self._thin = thin
        self._number = 0
        self.changes = near.changes
        self._touched = {change.name for change in near.changes}  # where the index may differ from the layer

    def has_index(self, tree: str) -> bool:
        """Return True if the files below the changes include the index of this tree."""
        return self._thin is not None or self.layer.tree == tree

    @property
    def upper(self) -> Path:
        """Return the folder with the changes."""
        return self._repo.with_name(f"changes-{self._number}") / "upper"

    def mount(self, keep: Sequence[str] = ()) -> None:
        """Mount the layer below a new folder, in which the paths to keep are all that is left of the changes.

        The index is then that of the layer.
        """
        old = self.upper.parent
        before = None
        if self._number:
            with overlay.alone():
                before = overlay.detach(self._repo)
            self._thin = None
        self._number += 1
        for path in (self.upper.parent, self.upper, self.upper.with_name("work")):
            path.mkdir(mode=0o700)
        if self._number == 1:
            self._write_note()
        if keep:
            _move(keep, old / "upper", self.upper)
        stand = {"home": os.fspath(self.layer.folder.parent), "key": self.layer.folder.name, "number": self._number}
        files.write_atomic(self._engine_dir / workspace_registry.ON_LAYER, json.dumps(stand))
        try:
            self._mount()
        except OSError:
            for path in (self._repo / _NOTE, self._engine_dir / workspace_registry.ON_LAYER):
                path.unlink(missing_ok=True)
            raise
        (self._engine_dir / "index").unlink(missing_ok=True)
        if self._number > 1:
            self._touched = set()
            workspace_registry.delete_in_background(old, before)

    def _write_note(self) -> None:
        """Tell a person who looks at the mount point, where all others see an empty folder."""
        (self._repo / _NOTE).write_text(
            "Only the processes of the run see the files of this workspace.\n"
            f"While it runs: /proc/{os.getpid()}/root{self._repo}\n"
            f"After a failure: reflectloop shell {self._engine_dir.name}\n"
        )

    def remount(self, number: int) -> None:
        """Mount the layer below the folder of an earlier mount."""
        self._number = number
        files.remove_tree(self.upper.with_name("work"))  # the kernel refuses one of an earlier mount
        self.upper.with_name("work").mkdir(mode=0o700)
        self._mount()

    def _mount(self) -> None:
        lower = [self._thin.upper, self.layer.files] if self._thin else [self.layer.files]
        overlay.mount(lower, self.upper, self.upper.with_name("work"), self._repo)
        try:
            apart = self._repo.lstat().st_dev != (self._repo / ".git").lstat().st_dev
        except FileNotFoundError:
            apart = False  # a command removed it, from a workspace that was looked at when it was created
        if apart:
            overlay.unmount(self._repo)
            raise OSError(errno.EXDEV, "the layers are on disks that cannot be shown as one")

    def provide_index(self) -> None:
        """Make the workspace's index that of the layer, unless it has one: most steps need none."""
        index = self._engine_dir / "index"
        if index.exists() or self.layer.is_closed:
            return
        source = self._thin.index if self._thin else self.layer.index
        try:
            os.link(source, index)  # git replaces an index and never writes into one
        except FileExistsError:
            pass  # somebody was faster, and may have changed it since
        except OSError:  # the layer is on another disk
            part = index.with_name(f"index.part-{uuid.uuid4().hex}")
            shutil.copy2(source, part)
            try:
                os.link(part, index)
                part.unlink()
            except FileExistsError:
                part.unlink()
            except OSError:  # this disk has no hard links
                part.replace(index)

    def changed_names(self) -> list[bytes]:
        """Return all paths at which the files may differ from those of the layer or of the index."""
        self._touched.update(overlay.changed_names(self.layer.files, self.upper))
        return sorted(self._touched)

    def refuse_damage(self, reader: Git, elsewhere: list[bytes], missing: list[bytes]) -> None:
        """Raise SandboxCreateFailed if the layer is not as it was laid out: no command can change it.

        Its files are looked at where the workspace has changes, and where git calls files changed that are not.
        """
        damaged = [name for name in elsewhere if self.layer.is_damaged(name)]
        damaged += [name for name in self._touched if self.layer.has(name) and self.layer.is_damaged(name)]
        damaged += self.layer.lost(reader, missing)
        if damaged:
            self.layer.discard()
            raise SandboxCreateFailed(
                f"something outside of the run changed {', '.join(map(files.display, damaged[:5]))} in"
                f" {self.layer.files}, which its commands read",
                next_step="start again: these files are then laid out again",
                missing=tuple(map(files.display, damaged[:20])),
            )

    def note_index(self, names: Collection[bytes]) -> None:
        """Note where the index was made to differ from the layer."""
        self._touched.update(names)


def lay_changes(writer: Git, repo: Path, old: str, new: str, changes: Sequence[TreeChange]) -> None:
    """Turn the files and the index of the tree `old` into those of `new`; only changed paths are read or written."""
    if _sets_attributes(changes):
        # git writes the changed files by the attributes of the new tree, as in the reset of a copy. It leaves the
        # others as they are, so a new workspace stands on no layer with other attributes.
        writer.run("read-tree", "-m", "-u", old, new)
        return
    lines = (b"%s %s\t%s\0" % (change.mode, change.blob, change.name) for change in changes)
    writer.run("update-index", "-z", "--index-info", stdin=b"".join(lines))
    with tree_walk.open_folder(repo) as top:
        for change in changes:
            if change.mode == ABSENT:
                _delete(top, os.fsdecode(change.name).split("/"))
    written = b"".join(change.name + b"\0" for change in changes if change.mode != ABSENT)
    writer.run("checkout-index", "-u", "-f", "-q", "-z", "--stdin", stdin=written)


def _delete(top: int, parts: Sequence[str]) -> None:
    """Delete a file, or the folder of a submodule, and the folders that are empty then; follow no link."""
    for depth in range(len(parts), 0, -1):
        try:
            with beneath.open_folder(top, parts[: depth - 1]) as folder:
                status = os.lstat(parts[depth - 1], dir_fd=folder)
                (os.rmdir if stat.S_ISDIR(status.st_mode) else os.unlink)(parts[depth - 1], dir_fd=folder)
        except OSError:  # it is not there, holds something else, or is behind a link
            return


def _move(paths: Sequence[str], source: Path, target: Path) -> None:
    with tree_walk.open_folder(source) as here, tree_walk.open_folder(target) as there:
        for path in paths:
            with contextlib.suppress(FileNotFoundError, beneath.NotPlain):  # a command removed or replaced it
                beneath.move(here, there, path)


def reopen(store: Store, entry: workspace_registry.WorkspaceEntry) -> None:
    """Mount a workspace again as it was left, if it stands on a layer; raise SandboxCreateFailed if it cannot be."""
    try:
        stand = json.loads((entry.engine_dir / workspace_registry.ON_LAYER).read_bytes())
        home, key, number = Path(stand["home"]), str(stand["key"]), int(stand["number"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise SandboxCreateFailed(f"the record of {entry.name} cannot be read: {fault}") from fault
    refusal = overlay.enter()
    try:
        tree = key.partition("-")[0]
        layer = None if refusal else _attach(home / key) or _lay_out(home, store, tree, store.git())
        if layer is None:
            raise SandboxCreateFailed(f"the workspace of {entry.name} cannot be mounted: {refusal or 'no room'}")
        space = MountedLayer(entry.folder, entry.engine_dir, LayerWithChanges(layer, ()))
        space.remount(number)
        space.provide_index()
    except (OSError, GitFailed) as fault:
        raise SandboxCreateFailed(f"the workspace of {entry.name} cannot be mounted: {fault}") from fault
