"""Lays a snapshot out as a workspace: the files, a throwaway `.git`, a HOME and a TMPDIR of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reflectloop.config import WorkspaceConfig
from reflectloop.errors import InvalidInput, InvalidPlan, SandboxCreateFailed, SandboxEscape
from reflectloop.system import beneath, clock, files, tree_walk
from reflectloop.system.git import Git, GitFailed
from reflectloop.system.write_guard import WriteGuard, raise_shield
from reflectloop.workspace import patch, secret_guard, traps, workspace_registry
from reflectloop.workspace.project import Project
from reflectloop.workspace.record_tree import RecordedTree, Unrecordable, changed_since, mark, record
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store, content_settings, copy_if_there, write_git_dir

_HOME_GITCONFIG = """\
[user]
	name = reflectloop
	email = reflectloop@localhost
[init]
	defaultBranch = main
[advice]
	detachedHead = false
"""


OBJECTS_INSIDE = Path("/run/reflectloop/objects")  # for commands that see the workspace at the project's path


class TreeNow(NamedTuple):
    tree: str
    changed: bool
    nested: tuple[str, ...]
    refused: tuple[str, ...] = ()  # names that git takes for its own


@dataclass
class Workspace:
    """A checked-out copy. `record` is how the engine learns what was done in it."""

    name: str
    folder: Path  # holds repo, home and tmp
    engine_dir: Path  # the engine's side: index and quarantined objects, under .reflectloop
    store: Store
    base_tree: str
    tree: str
    mark_ns: int
    borrowed: tuple[Path, ...] = ()  # object folders the workspace's own .git reads from
    shield: WriteGuard | None = None
    copied: tuple[str, ...] = ()  # ignored folders laid into it
    carried: Mapping[Path, Path] = field(default_factory=dict)  # to be seen read-only in it: where, and from where
    installed: frozenset[Path] = frozenset()  # those of `carried` that a set-up made in a box
    root: Path = Path("/")  # the project's
    mounted: bool = False  # whether commands see it at the project's own path
    identity: tuple[int, ...] = ()  # of the folders as they were laid out
    shared_objects: Path | None = None  # another workspace's quarantine, where several serve one run
    largest: int = WorkspaceConfig().largest_change_mb * 10**6  # bytes of a file that is taken into a patch
    largest_total: int = WorkspaceConfig().largest_total_mb * 10**6  # bytes of all that a step changed
    record_s: int = WorkspaceConfig().record_s  # that recording may take

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def read_only(self) -> list[tuple[Path, Path]]:
        """What commands may see and not change: borrowed objects in place, carried folders inside the workspace."""
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

    def git(self) -> Git:
        """Return git for trees and the index: it stands in the store, and so opens no file that a command left."""
        plain = self.store.git(index=self.engine_dir / "index", objects=self.quarantine, shield=self.shield)
        return dataclasses.replace(plain, cwd=self.store.path)

    def git_on_files(self, since_ns: int | None = None) -> Git:
        """Return git for the files too; Unrecordable where a command left what would hold git up (`traps.refuse`)."""
        traps.refuse(self.repo, since_ns)
        return dataclasses.replace(self.git(), work_tree=self.repo, cwd=None, until=clock.monotonic() + self.record_s)

    def git_for_merges(self) -> Git:
        """Return git that merges by the attributes among the files, or by none where those would hold it up."""
        try:
            return self.git_on_files()
        except Unrecordable:
            return self.git()

    def close(self) -> None:
        """Let go of what the engine holds open; the files stay."""
        if self.shield:
            self.shield.close()
            self.shield = None

    def record(self, *, thorough: bool = False) -> TreeNow:
        """The tree as it is now. Skips the work when nothing was touched, unless asked to be thorough."""
        self.refuse_swapped()
        try:
            secret_guard.refuse_messages(self.repo, self.mark_ns)
            if not thorough and not changed_since(self.repo, self.mark_ns):
                return TreeNow(self.tree, changed=False, nested=())
        except OSError as fault:
            raise Unrecordable([], f"it left the workspace unreadable: {fault.strerror}") from fault
        source, now = self.git_on_files(self.mark_ns), mark(self.folder)
        try:
            recorded: RecordedTree = record(source, self.store.leave_out, self._inspect)
        except TimeoutError as fault:
            raise Unrecordable(
                [],
                f"recording what it left took more than {self.record_s} s, the last of it for {fault}"
                " ([workspace] record_s); ignored files do not count",
            ) from fault
        changed, self.tree, self.mark_ns = recorded.tree != self.tree, recorded.tree, now
        return TreeNow(recorded.tree, changed, recorded.nested, recorded.refused)

    def _inspect(self, source: Git, names: list[bytes]) -> None:
        """Before anything is stored: a large file would cost as much disk, and its patch a multiple in memory."""
        with tree_walk.opened(self.repo) as top:
            sizes = {name: _size(name, top) for name in names}
        large = {name: size for name, size in sizes.items() if size > self.largest}
        if large:
            known = _sizes_in(source, self.tree)  # a renamed file is no new content
            new = {name: size for name, size in large.items() if size not in known or not _is_known(source, name)}
            patch.raise_if_large({files.display(name): size for name, size in new.items()}, self.largest)
        self._refuse_much(source, sizes)
        secret_guard.refuse(source, names)

    def _refuse_much(self, source: Git, sizes: Mapping[bytes, int]) -> None:
        """Many files below the limit of each would keep the engine at work for hours; holes count, git reads them."""
        if sum(sizes.values()) <= self.largest_total:
            return
        known = _sizes_in(source, self.tree)  # what was only moved is no new content
        new = {name: size for name, size in sizes.items() if size not in known}
        total = sum(new.values())
        if total > self.largest_total:
            largest = sorted(new, key=lambda name: new[name], reverse=True)[:5]
            shown = ", ".join(f"{files.display(name)} ({new[name] / 1e6:.0f} MB)" for name in largest)
            raise Unrecordable(
                [files.display(name) for name in largest],
                f"too much for a patch: {total / 1e6:.0f} MB in {len(new)} file(s), {shown} among them; the limit is"
                f" {self.largest_total / 1e6:.0f} MB ([workspace] largest_total_mb), and ignored files do not count",
            )

    def refuse_swapped(self) -> None:
        """A command may have put a link or another folder where the workspace was: we would work in there."""
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
        """Make the files those of `tree`, whatever a command left: changed, new, ignored or nested."""
        try:
            self.refuse_swapped()
        except Unrecordable as fault:
            raise SandboxCreateFailed(f"the workspace cannot be used again: {fault}") from fault
        kept = [word for path in self.copied for word in ("-e", f"/{path}")]
        try:
            self.repo.chmod(stat.S_IRWXU)  # a command may have shut it
            traps.remove_special(self.repo)
            self._writer().run("clean", "-ffdxq", *kept)
            self._lay(tree)
        except (GitFailed, OSError):  # folders too deep for git, say, or a time that ran out
            self._lay_anew(tree)

    def _writer(self) -> Git:
        """Not through the shield: the files lie outside it. No object is written by what this is for."""
        plain = self.store.git(work_tree=self.repo, index=self.engine_dir / "index", objects=self.quarantine)
        return dataclasses.replace(plain, until=clock.monotonic() + self.record_s)

    def _lay(self, tree: str) -> None:
        self._writer().run("read-tree", "-u", "--reset", tree)
        self.tree, self.mark_ns = tree, mark(self.folder)

    def _lay_anew(self, tree: str) -> None:
        try:
            _empty(self.repo, [Path(".git"), *map(Path, self.copied)])
            self._lay(tree)
        except (GitFailed, OSError) as fault:
            raise SandboxCreateFailed(f"the workspace cannot be used again: {fault}") from fault

    def step_back(self, tree: str) -> None:
        """Take recorded changes back; what is ignored, such as build output of earlier steps, stays."""
        self.refuse_swapped()
        try:
            traps.refuse(self.repo)
            self._lay(tree)
        except (GitFailed, TimeoutError, Unrecordable):
            self.reset_to(tree)

    def resolve(self, cwd: str) -> Path:
        """The real folder behind a step's cwd; outside the workspace is an escape."""
        try:
            self.refuse_swapped()
        except Unrecordable:
            return self.repo / cwd  # which is not there; the step says so
        root = self.repo.resolve()
        try:
            target = (root / cwd).resolve()
        except (OSError, RuntimeError) as fault:
            why = "its links lead in a circle" if isinstance(fault, RuntimeError) else fault.strerror
            raise InvalidPlan(f"path {cwd[:80]!r} cannot be resolved: {why}", next_step="correct the plan") from fault
        if target != root and root not in target.parents:
            raise SandboxEscape(f"path {cwd!r} leads out of the workspace", next_step="correct the plan")
        return target


def _empty(folder: Path, kept: list[Path]) -> None:
    """Delete all that lies in a folder but what is kept, named from there."""
    for path in list(folder.iterdir()):
        below = [keep.relative_to(path.name) for keep in kept if keep.parts[0] == path.name]
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
    """Of all files of a tree: reading gigabytes to compare them is spared where no file is as large."""
    words = source.run("ls-tree", "-r", "--format=%(objectsize)", tree).split()
    return {int(size) for size in words if size.isdigit()}


def _is_known(source: Git, name: bytes) -> bool:
    found = source.line("hash-object", "--no-filters", "--", os.fsdecode(name))
    return source.attempt("cat-file", "-e", found).code == 0


def sandbox_root(project: Project, wanted: Path | None) -> Path:
    """Where workspaces live: outside the project, entered by nobody else."""
    root = wanted or Path(tempfile.gettempdir()) / "reflectloop"
    if wanted is None and root.exists() and root.lstat().st_uid != os.geteuid():
        root = root.with_name(f"reflectloop-{os.geteuid()}")
    files.make_private(root)
    real = root.resolve()
    if project.root == real or project.root in real.parents:
        raise SandboxCreateFailed(
            f"the workspace folder {real} lies inside the project",
            next_step="reflectloop run --sandbox-root DIR",
        )
    return real


def create(
    project: Project,
    store: Store,
    snapshot: Snapshot,
    *,
    name: str,
    root: Path,
    shared_objects: Path | None = None,
    carry: WorkspaceConfig | None = None,
    mounted: bool = False,
    bound: bool = False,
    fresh: bool = False,
) -> Workspace:
    """A workspace with the files of `snapshot`: one kept warm is taken over, else a new one is laid out.

    `mounted`: commands will see it at the project's own path; `bound`: and what is carried lies in it by a mount;
    `fresh`: nothing that a command ever worked in may serve.
    """
    folder = root / name
    warm = None if fresh else workspace_registry.take_warm(project.folder, name, folder)
    engine_dir = warm.engine_dir if warm else workspace_registry.enter(project.folder, name, folder)
    space = Workspace(name, folder, engine_dir, store, snapshot.tree, snapshot.tree, 0)
    # Git in there finds what its index names, also where that is not in the store yet.
    space.borrowed = (*_borrowed(project, store), *([shared_objects] if shared_objects and fresh else []))
    space.shared_objects, space.root, space.mounted = shared_objects, project.root, mounted
    wanted = carry or WorkspaceConfig()
    space.largest, space.largest_total = wanted.largest_change_mb * 10**6, wanted.largest_total_mb * 10**6
    space.record_s = wanted.record_s
    with files.room_for("the workspace", root):
        try:
            if not (warm and _take_over(space, warm.mark_ns, project.folder)):
                _lay_out(space, snapshot.tree)
            _lay_git(project, store, snapshot, space)
        except GitFailed as fault:
            raise SandboxCreateFailed(f"the checkout failed: {fault.stderr}", next_step="git fsck") from fault
        (space.home / ".gitconfig").write_text(_HOME_GITCONFIG)
        _carry(project, space, carry or WorkspaceConfig(), bound=bound)
    space.tmp.chmod(0o1777)  # as programs expect it; nobody else can enter the folder above
    space.shield = raise_shield(project.folder)
    space.mark_ns = mark(folder)
    return space


def reopen(
    project: Project, store: Store, entry: workspace_registry.WorkspaceEntry, settings: WorkspaceConfig
) -> Workspace:
    """A workspace that was kept, to be looked at as it is."""
    space = Workspace(entry.name, entry.folder, entry.engine_dir, store, "", "", 0, root=project.root, mounted=True)
    space.borrowed = _borrowed(project, store)
    names = [Path(name.strip("/")) for name in settings.carry if carriable(project, name)]
    space.carried = {name: project.root / name for name in names}
    return space


def _borrowed(project: Project, store: Store) -> tuple[Path, ...]:
    return (project.objects, store.objects) if project.objects else (store.objects,)


def _carry(project: Project, space: Workspace, wanted: WorkspaceConfig, *, bound: bool) -> None:
    """Ignored folders that commands need: seen read-only where there is a mount namespace, else copied."""
    copied = [name.strip("/") for name in wanted.carry_copy if carriable(project, name)]
    there = [name.strip("/") for name in wanted.carry if carriable(project, name)]
    if not wanted.names_carried:  # a guess of ours gives way to what the project itself brings
        there = [name for name in there if name not in copied and not os.path.lexists(space.repo / name)]
    space.carried = {Path(name): project.root / name for name in there} if bound else {}
    _copy_in(space, {Path(name): (project.root / name).resolve() for name in (*copied, *(() if bound else there))})


def carry_also(space: Workspace, own: Mapping[Path, Path], installed: Mapping[Path, Path], *, bound: bool) -> None:
    """Lay more into it that is no part of the project: of the user's own, and what a set-up made in a box.

    Links that a set-up left are copied as links, and mean what they mean in the box; a mount would follow them.
    """
    links = {path: source for path, source in installed.items() if source.is_symlink()}
    if bound:
        mounted = {path: source for path, source in installed.items() if path not in links}
        space.carried = {**space.carried, **own, **mounted}
        space.installed = frozenset(mounted)
    _copy_in(space, links if bound else {**{path: source.resolve() for path, source in own.items()}, **installed})


def _copy_in(space: Workspace, sources: Mapping[Path, Path]) -> None:
    for path, source in sources.items():
        try:
            with tree_walk.opened(source.parent) as top, tree_walk.opened(space.repo) as target:
                beneath.copy(top, source.name, target, os.fspath(path))
        except beneath.NotPlain as fault:
            raise SandboxCreateFailed(
                f"{path} cannot be laid into the workspace: {fault.filename} {fault.strerror}",
                next_step="look at what stands there in the project",
            ) from fault
    space.copied = (*space.copied, *map(os.fspath, sources))


def carriable(project: Project, name: str) -> bool:
    """Whether the project has such a folder to carry; one that leads out of it, or to its records, is refused."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or path.parts[:1] in ((".git",), (".reflectloop",)):
        raise InvalidInput(
            f"[workspace] carry: {name!r} is not a folder inside the project", next_step="reflectloop config"
        )
    real = (project.root / path).resolve()
    if not real.is_relative_to(project.root.resolve()):
        raise InvalidInput(f"[workspace] carry: {name!r} leads out of the project", next_step="reflectloop config")
    if real.relative_to(project.root.resolve()).parts[:1] in ((".git",), (".reflectloop",)):
        raise InvalidInput(f"[workspace] carry: {name!r} leads to {real}", next_step=f"look at {name} and remove it")
    return real.is_dir()


def _lay_out(space: Workspace, tree: str) -> None:
    for part in (space.folder, space.repo, space.home, space.tmp, space.engine_dir / "objects"):
        part.mkdir(mode=0o700)
    space.identity = workspace_registry.identity(space.folder)
    # Nothing new comes of a checkout; what it reads may lie in a quarantine.
    checkout = space.store.git(work_tree=space.repo, index=space.engine_dir / "index", objects=space.shared_objects)
    checkout.run("read-tree", "-u", "--reset", tree)


def _take_over(space: Workspace, mark_ns: int, own: Path) -> bool:
    """Make a warm workspace serve again. One that is damaged is put away, as if there had been none."""
    try:
        space.identity = workspace_registry.identity(space.folder)
        _vouch_for(space, mark_ns)
        _clear_warm(space)
        space.reset_to(space.tree)
    except (GitFailed, SandboxCreateFailed, OSError):
        damaged = workspace_registry.find(own, space.name)
        if damaged:
            workspace_registry.remove(damaged)
        workspace_registry.enter(own, space.name, space.folder)
        return False
    return True


def _vouch_for(space: Workspace, mark_ns: int) -> None:
    """Spare git from reading files again that are as young as its index, where nothing was touched since.

    git keeps whole seconds and so distrusts a whole checkout made within one; the kernel's change times are finer.
    """
    if mark_ns and not changed_since(space.repo, mark_ns):
        os.utime(space.engine_dir / "index")


def _clear_warm(space: Workspace) -> None:
    """What an earlier run left beside the files goes; the files themselves are compared by git."""
    for part in (space.home, space.tmp, space.engine_dir / "objects", space.repo / ".git"):
        if part.is_symlink() or part.exists():
            files.remove_tree(part)
    for part in (space.home, space.tmp, space.engine_dir / "objects"):
        part.mkdir(mode=0o700)
    _plain_modes(space.repo)


def _plain_modes(repo: Path) -> None:
    """Modes that git does not keep are not to pass from one run to the next."""
    mask = os.umask(0)
    os.umask(mask)
    repo.chmod(0o700)
    for folder in tree_walk.walk(repo):
        _refuse_inherited(folder)
        for entry in folder.entries:
            mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
            plain = (0o777 if entry.is_dir(follow_symlinks=False) or mode & 0o100 else 0o666) & ~mask
            if mode != plain and not entry.is_symlink():
                os.chmod(entry.name, plain, dir_fd=folder.fd)


def _refuse_inherited(folder: tree_walk.Folder) -> None:
    """Refuse a folder with an ACL for what is made in it: such a workspace is put away, and not repaired."""
    with contextlib.suppress(OSError):
        if "system.posix_acl_default" not in os.listxattr(folder.fd):
            return
        raise SandboxCreateFailed(f"a command left an access list on {folder.name}")


def _lay_git(project: Project, store: Store, snapshot: Snapshot, space: Workspace) -> None:
    """A repository for tools, tests and agents. The host never reads it, and it reaches no ref of the user's."""
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
        settings=content_settings(project),
    )
    if project.mode == "git" and project.shallow:
        _lay_refs(project, snapshot, target)
        copy_if_there(project.shallow, target / "shallow")
    else:
        (target / "refs" / "heads" / "main").write_text(snapshot.commit + "\n")
    shutil.copy2(space.engine_dir / "index", target / "index")


def _lay_refs(project: Project, snapshot: Snapshot, target: Path) -> None:
    template = "%(objectname) %(refname)%(if)%(*objectname)%(then)%0a^%(*objectname)%(end)"
    tags = project.git().run("for-each-ref", f"--format={template}", "refs/tags")
    branch = f"{snapshot.commit} {project.branch}\n".encode() if project.branch else b""
    (target / "packed-refs").write_bytes(b"# pack-refs with: peeled fully-peeled sorted \n" + branch + tags)
