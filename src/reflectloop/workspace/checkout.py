"""Checks a snapshot out as a workspace: the files, a disposable `.git`, a separate HOME and TMPDIR."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reflectloop.config import WorkspaceConfig
from reflectloop.errors import InvalidPlan, NoSpace, SandboxCreateFailed, SandboxEscape
from reflectloop.system import beneath, clock, files, tree_walk
from reflectloop.system.git import Git, GitFailed
from reflectloop.system.write_guard import WriteGuard, start_write_guard
from reflectloop.workspace import layers, patch, secret_guard, traps, workspace_registry
from reflectloop.workspace.carry import MODULES, CarryPlan, has_cache, link_packages, plan_carry
from reflectloop.workspace.fresh_layers import FreshLayers
from reflectloop.workspace.layers import LayerWithChanges, MountedLayer
from reflectloop.workspace.project import Project
from reflectloop.workspace.record_tree import RecordedTree, Unrecordable, Within, changed_since, record_tree, time_mark
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store, copy_if_there, pack_objects, write_git_dir
from reflectloop.workspace.tree_diff import TreeChange, tree_changes

_HOME_GITCONFIG = """\
[user]
	name = user
	email = user@localhost
[init]
	defaultBranch = main
[advice]
	detachedHead = false
"""


# Why a workspace cannot be made in a folder, however much room the disk has.
_NOT_POSSIBLE = frozenset(
    (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS)
)
OBJECTS_INSIDE = Path("/run/git/objects")  # for commands that see the workspace at the project's path


class TreeNow(NamedTuple):
    tree: str
    changed: bool
    nested: tuple[str, ...]
    refused: tuple[str, ...] = ()  # files with names that git reserves


@dataclass
class Workspace:
    """A checked-out copy of the project. `record` returns the tree of what commands did in it."""

    name: str
    folder: Path  # contains repo, home and tmp
    engine_dir: Path  # index and quarantined objects, under .reflectloop; commands cannot write there
    store: Store
    base_tree: str
    tree: str
    mark_ns: int
    borrowed: tuple[Path, ...] = ()  # object folders that the workspace's .git reads
    shield: WriteGuard | None = None
    copied: tuple[str, ...] = ()  # ignored files and folders copied into it
    carried: Mapping[Path, Path] = field(default_factory=dict)  # mounted read-only in it: target and source
    linked: tuple[Path, ...] = ()  # environments outside of the project that it reaches through a link
    notes: tuple[str, ...] = ()  # remarks about what was carried and what was not
    installed: frozenset[Path] = frozenset()  # those of `carried` that a set-up created in a sandbox
    root: Path = Path("/")  # the project's folder
    mounted: bool = False  # True if commands see it at the project's path
    identity: tuple[int, ...] = ()  # of its folders when they were created
    shared_objects: Path | None = None  # another workspace's quarantine, if several belong to one run
    largest: int = WorkspaceConfig().largest_change_mb * 10**6  # maximum bytes of a changed file
    largest_total: int = WorkspaceConfig().largest_total_mb * 10**6  # maximum bytes of all changed files
    record_s: int = WorkspaceConfig().record_s  # time limit for recording
    over: MountedLayer | None = None  # the shared layer that it is mounted over; None: it has all files itself

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def written(self) -> Path:
        """Return the folder in which every change shows: the upper layer, or else the files themselves."""
        return self.over.upper if self.over else self.repo

    @property
    def read_only(self) -> list[tuple[Path, Path]]:
        """Return the read-only mounts (source, target): borrowed objects, and carried folders inside the workspace."""
        return [(path, path) for path in self.borrowed] + [
            (source, self.repo / path) for path, source in self.carried.items()
        ]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    @property
    def quarantine(self) -> Path:
        return self.shared_objects or self.engine_dir / "objects"

    @property
    def index(self) -> Path:
        """Return the engine's index of the files, which is there from now on."""
        if self.over:
            self.over.provide_index()
        return self.engine_dir / "index"

    def git(self) -> Git:
        """Return git for trees and the index; it runs in the store, so it opens no file that a command wrote."""
        return self.store.git(index=self.index, objects=self.quarantine, shield=self.shield)

    def git_on_files(self, since_ns: int | None = None) -> Git:
        """Return git for the files; raise Unrecordable if a command left files that would block it."""
        traps.refuse_traps(self.written, since_ns)
        return self.git()._replace(work_tree=self.repo, cwd=None, until=clock.monotonic() + self.record_s)

    def git_for_merges(self) -> Git:
        """Return git that uses the workspace's attributes for merges, or none if those would block it."""
        try:
            return self.git_on_files()
        except Unrecordable:
            return self.git()

    def close(self) -> None:
        """Close the write guard and release the layer; the files stay."""
        if self.shield:
            self.shield.close()
            self.shield = None
        if self.over:
            self.over.layer.close()

    def record(self, *, thorough: bool = False) -> TreeNow:
        """Return the present tree. Skip the work if nothing was changed, unless `thorough`."""
        self.refuse_swapped()
        try:
            secret_guard.refuse_messages(self.repo, self.mark_ns)
            if not thorough and not changed_since(self.written, self.mark_ns):
                return TreeNow(self.tree, changed=False, nested=())
        except OSError as fault:
            raise Unrecordable([], f"it left the workspace unreadable: {fault.strerror}") from fault
        now = time_mark(self.folder)
        within = self._within(thorough=thorough)
        if within and not within.paths:
            return TreeNow(self.tree, changed=False, nested=())
        source = self.git_on_files(self.mark_ns)
        try:
            recorded: RecordedTree = record_tree(source, self.store.leave_out, self._inspect, within)
        except TimeoutError as fault:
            raise Unrecordable(
                [],
                f"recording its changes took more than {self.record_s} s, at last for {fault}"
                " ([workspace] record_s); ignored files do not count",
            ) from fault
        changed, self.tree, self.mark_ns = recorded.tree != self.tree, recorded.tree, now
        return TreeNow(recorded.tree, changed, recorded.nested, recorded.refused)

    def _within(self, *, thorough: bool) -> Within | None:
        """Return where changes can be if a layer lies below; with `thorough`, look at all of them again."""
        if self.over is None:
            return None
        over, reader = self.over, self.git()
        since_ns = 0 if thorough else self.mark_ns
        return Within(frozenset(over.changed_names()), since_ns, functools.partial(over.refuse_damage, reader))

    def _inspect(self, source: Git, names: list[bytes]) -> None:
        """Refuse large files and secrets before anything is stored."""
        with tree_walk.open_folder(self.repo) as top:
            sizes = {name: _size(name, top) for name in names}
        large = {name: size for name, size in sizes.items() if size > self.largest}
        if large:
            known = _sizes_in(source, self.tree)  # a renamed file is not new content
            new = {name: size for name, size in large.items() if size not in known or not _is_known(source, name)}
            patch.raise_if_large({files.display(name): size for name, size in new.items()}, self.largest)
        self._refuse_much(source, sizes)
        secret_guard.refuse_new_secrets(source, names)

    def _refuse_much(self, source: Git, sizes: Mapping[bytes, int]) -> None:
        """Raise Unrecordable if the new files are too large together; holes count, because git reads them."""
        if sum(sizes.values()) <= self.largest_total:
            return
        known = _sizes_in(source, self.tree)  # moved files are not new content
        new = {name: size for name, size in sizes.items() if size not in known}
        total = sum(new.values())
        if total > self.largest_total:
            largest = sorted(new, key=lambda name: new[name], reverse=True)[:5]
            examples = ", ".join(f"{files.display(name)} ({new[name] / 1e6:.0f} MB)" for name in largest)
            raise Unrecordable(
                [files.display(name) for name in largest],
                f"too much for a patch: {total / 1e6:.0f} MB in {len(new)} file(s), such as {examples}; the limit is"
                f" {self.largest_total / 1e6:.0f} MB ([workspace] largest_total_mb), and ignored files do not count",
            )

    def refuse_swapped(self) -> None:
        """Raise SandboxEscape if a command replaced the workspace by a link or another folder."""
        try:
            same = workspace_registry.identity(self.folder) == self.identity
        except NotADirectoryError:
            same = False
        except FileNotFoundError as fault:
            raise Unrecordable([], "it removed the workspace") from fault
        if not same:
            raise SandboxEscape(
                "a command replaced the workspace by something else", next_step="reflectloop unlock --reason TEXT"
            )

    def reset_to(self, tree: str) -> None:
        """Reset all files to `tree`, whatever a command left: changed, new, ignored or nested."""
        try:
            self.refuse_swapped()
        except Unrecordable as fault:
            raise SandboxCreateFailed(f"the workspace cannot be used again: {fault}") from fault
        if self.over:
            self._mount_again(self.over, tree)
            return
        excluded = [option for path in self.copied for option in ("-e", f"/{path}")]
        try:
            self.repo.chmod(stat.S_IRWXU)  # a command may have removed our permissions
            traps.remove_special(self.repo)
            self._writer().run("clean", "-ffdxq", *excluded)
            self._check_out(tree)
        except (GitFailed, OSError):  # for example folders too deep for git, or a timeout
            self._check_out_again(tree)

    def _mount_again(self, over: MountedLayer, tree: str) -> None:
        """Mount the layer below an empty folder; what git does not reset stays."""
        try:
            over.mount([".git", *self.copied])
            self.identity = workspace_registry.identity(self.folder)
            self.lay_changes(over, tree)
            if self.shield:
                self.shield.restart()
        except (GitFailed, OSError) as fault:
            raise SandboxCreateFailed(f"the workspace cannot be used again: {fault}") from fault
        self.tree, self.mark_ns = tree, time_mark(self.folder)

    def lay_changes(self, over: MountedLayer, tree: str, changes: Sequence[TreeChange] = ()) -> None:
        """Write the files of `tree` that the layer does not have, without looking at any other."""
        if tree == over.layer.tree:
            return
        changes = changes or self._changes_over(over, tree)
        over.note_index({change.name for change in changes})
        layers.lay_changes(self._writer(), self.repo, over.layer.tree, tree, changes)

    def _changes_over(self, over: MountedLayer, tree: str) -> Sequence[TreeChange]:
        return tree_changes(self.store.git(objects=self.quarantine), over.layer.tree, tree)

    def _writer(self) -> Git:
        """Return git without the write guard, which does not allow the workspace's files. It writes no objects."""
        plain = self.store.git(work_tree=self.repo, index=self.index, objects=self.quarantine)
        return plain._replace(until=clock.monotonic() + self.record_s)

    def _check_out(self, tree: str) -> None:
        self._writer().run("read-tree", "-u", "--reset", tree)
        if self.over:
            self.over.note_index({change.name for change in self._changes_over(self.over, tree)})
        self.tree, self.mark_ns = tree, time_mark(self.folder)

    def _check_out_again(self, tree: str) -> None:
        try:
            _empty(self.repo, [Path(".git"), *map(Path, self.copied)])
            self._check_out(tree)
        except (GitFailed, OSError) as fault:
            raise SandboxCreateFailed(f"the workspace cannot be used again: {fault}") from fault

    def step_back(self, tree: str) -> None:
        """Undo recorded changes; ignored files, such as build output of earlier steps, stay."""
        self.refuse_swapped()
        try:
            traps.refuse_traps(self.written)
            self._check_out(tree)
        except (GitFailed, TimeoutError, Unrecordable):
            self.reset_to(tree)

    @functools.cached_property
    def _real_repo(self) -> Path:
        return self.folder.resolve() / "repo"  # no link while `refuse_swapped` is content

    def resolve(self, cwd: str) -> Path:
        """Return the real folder of a step's cwd; raise SandboxEscape if it is outside the workspace."""
        try:
            self.refuse_swapped()
        except Unrecordable:
            return self.repo / cwd  # it does not exist; the step will report that
        root = self._real_repo
        try:
            target = root if cwd == "." else (root / cwd).resolve()
        except (OSError, RuntimeError) as fault:
            why = "it has a loop of links" if isinstance(fault, RuntimeError) else fault.strerror
            raise InvalidPlan(f"path {cwd[:80]!r} cannot be resolved: {why}", next_step="correct the plan") from fault
        if target != root and root not in target.parents:
            raise SandboxEscape(f"path {cwd!r} leads out of the workspace", next_step="correct the plan")
        return target


def _empty(folder: Path, keep: list[Path]) -> None:
    """Delete the content of a folder except the paths to keep."""
    for path in list(folder.iterdir()):
        below = [path_to_keep.relative_to(path.name) for path_to_keep in keep if path_to_keep.parts[0] == path.name]
        if not below or path.is_symlink():
            files.remove_tree(path)
        elif Path() not in below:
            _empty(path, below)


def _size(name: bytes, top: int) -> int:
    try:
        status = os.lstat(name, dir_fd=top)
    except OSError:
        return 0  # deleted
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def _sizes_in(source: Git, tree: str) -> set[int]:
    """Return the sizes of all files of a tree, so that only files of an equal size are compared."""
    fields = source.run("ls-tree", "-r", "--format=%(objectsize)", tree).split()
    return {int(size) for size in fields if size.isdigit()}


def _is_known(source: Git, name: bytes) -> bool:
    blob = source.line("hash-object", "--no-filters", "--", os.fsdecode(name))
    return source.attempt("cat-file", "-e", blob).code == 0


def sandbox_root(project: Project, chosen: Path | None) -> Path:
    """Return the folder for workspaces: outside the project, and nobody else can write in it.

    In a folder in which others can write, it is a folder of its own.
    """
    root = chosen or Path(tempfile.gettempdir()) / "reflectloop"
    if chosen is None and root.exists() and root.lstat().st_uid != os.geteuid():
        root = root.with_name(f"reflectloop-{os.geteuid()}")
    with _creating(root):
        files.make_private(root)
        real = root.resolve()
        if not workspace_registry.is_safe_root(real):
            real = _private_folder(real / f"build-{os.geteuid()}")
    if project.root == real or project.root in real.parents:
        raise SandboxCreateFailed(
            f"the workspace folder {real} is inside the project",
            next_step="reflectloop run --sandbox-root DIR",
        )
    return real


@contextlib.contextmanager
def _creating(root: Path) -> Iterator[None]:
    """Turn a path or a right that prevents a workspace into SANDBOX_CREATE_FAILED; a full disk stays NO_SPACE."""
    try:
        yield
    except (OSError, NoSpace) as fault:
        cause = fault if isinstance(fault, OSError) else fault.__cause__
        if not isinstance(cause, OSError) or cause.errno not in _NOT_POSSIBLE:
            raise
        raise SandboxCreateFailed(
            f"no workspace can be made in {root}: {os.strerror(cause.errno or 0).lower()}",
            next_step="reflectloop run --sandbox-root DIR, with a folder that you may write to",
        ) from fault


def plain_root(root: Path) -> Path:
    """Return the folder for workspaces whose commands must not see which program runs them.

    A folder that the user chose is used as it is.
    """
    usual = Path(tempfile.gettempdir()).resolve() / "reflectloop"
    if root not in (usual, usual.with_name(f"reflectloop-{os.geteuid()}")):
        return root
    return _private_folder(usual.with_name(f"build-{os.geteuid()}"))


def _private_folder(path: Path) -> Path:
    """Create a folder of this user that nobody else can enter, or let nobody else enter it from now on."""
    files.make_private(path)
    path.chmod(stat.S_IRWXU)
    return path


def create(
    project: Project,
    store: Store,
    snapshot: Snapshot,
    *,
    name: str,
    root: Path,
    shared_objects: Path | None = None,
    base_tree: str | None = None,
    carry: WorkspaceConfig | None = None,
    beside: Mapping[Path, Path] | None = None,
    installed: Mapping[Path, Path] | None = None,
    mounted: bool = False,
    bound: bool = False,
    fresh: FreshLayers | None = None,
) -> Workspace:
    """Create a workspace with the files of `snapshot`, from a warm one if there is any.

    `beside` are more folders of the user to carry, `installed` files that a set-up created; `mounted`: commands will
    see it at the project's path; `bound`: carried folders are mounted in it; `fresh`: do not reuse a workspace in
    which a command has run, let no name in it tell which program runs its commands, and use these layers.
    """
    folder = root / (workspace_registry.plain_name(name) if fresh else name)
    settings, made, base_tree = carry or WorkspaceConfig(), installed or {}, base_tree or snapshot.tree
    try:
        git = store.git(objects=shared_objects)
        plan = plan_carry(
            project, settings, git, snapshot.tree, base=base_tree, bound=bound, beside=beside, installed=made
        )
    except GitFailed as fault:
        raise SandboxCreateFailed(f"git cannot read the base: {fault.stderr}", next_step="git fsck") from fault
    near = layers.open_layer(
        project, store, snapshot.tree, root=fresh.root if fresh else root, reader=git, settings=settings, fresh=fresh
    )
    warm = None if fresh or near else workspace_registry.take_warm(project.folder, name, folder)
    engine_dir = warm.engine_dir if warm else workspace_registry.register(project.folder, name, folder)
    space = Workspace(name, folder, engine_dir, store, base_tree, snapshot.tree, 0)
    space.borrowed = _borrowed(project, store)
    space.shared_objects, space.root, space.mounted = shared_objects, project.root, mounted
    space.largest, space.largest_total = settings.largest_change_mb * 10**6, settings.largest_total_mb * 10**6
    space.record_s = settings.record_s
    with _creating(root), files.room_for("the workspace", root):
        try:
            if not (warm and _take_over(space, warm.mark_ns, project.folder)):
                _create_folders(space, snapshot.tree, near, fresh)
            if fresh:
                _own_objects(project, space, snapshot)
            _write_git(project, store, snapshot, space)
        except GitFailed as fault:
            raise SandboxCreateFailed(f"the checkout failed: {fault.stderr}", next_step="git fsck") from fault
        (space.home / ".gitconfig").write_text(_HOME_GITCONFIG)
        _carry(space, plan, made, bound=bound)
    space.tmp.chmod(0o1777)  # as programs expect; nobody else can enter the parent folder
    space.shield = start_write_guard(project.folder)
    space.mark_ns = time_mark(folder)
    if not space.over and not fresh:
        workspace_registry.note_created(engine_dir, folder, space.identity)
    return space


def reopen(
    project: Project, store: Store, entry: workspace_registry.WorkspaceEntry, settings: WorkspaceConfig
) -> Workspace:
    """Open a kept workspace as it is."""
    layers.reopen(store, entry)
    space = Workspace(entry.name, entry.folder, entry.engine_dir, store, "", "", 0, root=project.root, mounted=True)
    space.borrowed = _borrowed(project, store)
    git = store.git(index=entry.engine_dir / "index", objects=entry.engine_dir / "objects")
    tree = git.line("write-tree", "--missing-ok")
    plan = plan_carry(project, settings, git, tree, base=None, bound=True)
    space.carried = plan.mounted
    return space


def _borrowed(project: Project, store: Store) -> tuple[Path, ...]:
    return (project.objects, store.objects) if project.objects else (store.objects,)


def _carry(space: Workspace, plan: CarryPlan, installed: Mapping[Path, Path], *, bound: bool) -> None:
    """Provide files that are not part of the project: the user's, and those a set-up created in a sandbox.

    Links that a set-up left are copied as links, so they resolve inside the sandbox; a mount would follow them.
    """
    links = {path: source for path, source in installed.items() if source.is_symlink()}
    mounted = {path: source for path, source in installed.items() if path not in links} if bound else {}
    space.carried, space.installed = {**plan.mounted, **mounted}, frozenset(mounted)
    space.notes = plan.notes
    space.linked = tuple(source for source in plan.sources if not source.is_relative_to(space.root.resolve()))
    _copy_in(space, {**plan.copied, **(links if bound else installed)})
    for path, source in {**plan.mounted, **mounted}.items():
        if path.name == MODULES and not has_cache(source) and os.access(source, os.R_OK | os.X_OK):
            within = link_packages(space.repo, path, source)
            space.carried = {**{key: value for key, value in space.carried.items() if key != path}, within: source}
            space.installed = frozenset(within if key == path else key for key in space.installed)
            space.copied = (*space.copied, os.fspath(path))


def _copy_in(space: Workspace, sources: Mapping[Path, Path]) -> None:
    for path, source in sources.items():
        try:
            with tree_walk.open_folder(source.parent) as top, tree_walk.open_folder(space.repo) as target:
                beneath.copy(top, source.name, target, os.fspath(path))
        except beneath.NotPlain as fault:
            raise SandboxCreateFailed(
                f"{path} cannot be copied into the workspace: {fault.filename} {fault.strerror}",
                next_step="check this path in the project",
            ) from fault
    space.copied = (*space.copied, *map(os.fspath, sources))


def _create_folders(space: Workspace, tree: str, near: LayerWithChanges | None, fresh: FreshLayers | None) -> None:
    for part in (space.folder, space.repo, space.home, space.tmp, space.engine_dir / "objects"):
        part.mkdir(mode=0o700)
    if near and _mount(space, near, fresh):
        return
    space.identity = workspace_registry.identity(space.folder)
    # A checkout writes no objects; those it reads may be in a quarantine.
    checkout = space.store.git(work_tree=space.repo, index=space.engine_dir / "index", objects=space.shared_objects)
    checkout.run("read-tree", "-u", "--reset", tree)


def _mount(space: Workspace, near: LayerWithChanges, fresh: FreshLayers | None) -> bool:
    """Mount a workspace over a layer; return False if the kernel refuses it here."""
    try:
        thin = fresh.over(near.layer, space.tree, space.store, space.shared_objects) if fresh else None
        over = MountedLayer(space.folder, space.engine_dir, near, thin)
        over.mount()
    except OSError:
        near.layer.close()
        return False
    space.over, space.identity = over, workspace_registry.identity(space.folder)
    if not fresh:
        space.lay_changes(over, space.tree, over.changes)
    return True


def _take_over(space: Workspace, mark_ns: int, own_folder: Path) -> bool:
    """Reuse a warm workspace; if it is damaged, remove it and return False."""
    try:
        space.identity = workspace_registry.identity(space.folder)
        _refresh_index_time(space, mark_ns)
        _clear_warm(space)
        space.reset_to(space.tree)
    except (GitFailed, SandboxCreateFailed, OSError):
        damaged = workspace_registry.find(own_folder, space.name)
        if damaged:
            workspace_registry.remove(damaged)
        workspace_registry.register(own_folder, space.name, space.folder)
        return False
    return True


def _refresh_index_time(space: Workspace, mark_ns: int) -> None:
    """Update the index's time if no file was changed since, so that git does not read all files again.

    git compares full seconds and so distrusts a checkout made within one; the kernel's change times are finer.
    """
    if mark_ns and not changed_since(space.repo, mark_ns):
        os.utime(space.engine_dir / "index")


def _clear_warm(space: Workspace) -> None:
    """Remove what an earlier run left besides the files; git compares the files themselves."""
    (space.engine_dir / "index.lock").unlink(missing_ok=True)  # of a git that was killed
    for part in (space.home, space.tmp, space.engine_dir / "objects", space.repo / ".git"):
        if part.is_symlink() or part.exists():
            files.remove_tree(part)
    for part in (space.home, space.tmp, space.engine_dir / "objects"):
        part.mkdir(mode=0o700)
    traps.reset_modes(space.repo)


def _own_objects(project: Project, space: Workspace, snapshot: Snapshot) -> None:
    """Copy what git needs besides the user's objects; else borrow it, also what is not yet in the store."""
    git = space.store.git(objects=space.shared_objects)
    scratch = space.engine_dir / "pack"
    if pack_objects(git, project, space.repo / ".git", scratch, snapshot.tree, snapshot.commit):
        space.borrowed = (project.objects,) if project.objects else ()
    elif space.shared_objects:
        space.borrowed = (*space.borrowed, space.shared_objects)


def _write_git(project: Project, store: Store, snapshot: Snapshot, space: Workspace) -> None:
    """Write a repository for tools, tests and agents. The engine never reads it, and it has no ref of the user."""
    target = space.repo / ".git"
    head = f"ref: {project.branch}" if project.branch else snapshot.commit
    if project.mode == "copy":
        head = "ref: refs/heads/main"
    write_git_dir(
        target,
        object_format=store.object_format,
        head=head,
        alternates=[OBJECTS_INSIDE / str(number) for number in range(len(space.borrowed))]
        if space.mounted
        else list(space.borrowed),
        settings=project.content_settings,
        own=False,
    )
    if project.mode == "git" and project.shallow:
        _write_refs(project, snapshot, target)
        copy_if_there(project.shallow, target / "shallow")
    else:
        (target / "refs" / "heads" / "main").write_text(snapshot.commit + "\n")
    if space.over is None or not space.over.has_index(snapshot.tree):
        shutil.copy2(space.index, target / "index")


def _write_refs(project: Project, snapshot: Snapshot, target: Path) -> None:
    branch = f"{snapshot.commit} {project.branch}\n".encode() if project.branch else b""
    (target / "packed-refs").write_bytes(b"# pack-refs with: peeled fully-peeled sorted \n" + branch + project.tags)
