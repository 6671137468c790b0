"""Lays a snapshot out as a workspace: the files, a throwaway `.git`, a HOME and a TMPDIR of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import SandboxCreateFailed, SandboxEscape
from reflectloop.workspace import ledger
from reflectloop.workspace.project import Project
from reflectloop.workspace.record import Recorded, changed_since, mark, record
from reflectloop.workspace.snapshot import Snapshot
from reflectloop.workspace.store import Store, copy_if_there, write_git_dir
from reflectloop.world import files
from reflectloop.world.git import Git, GitFailed
from reflectloop.world.shield import Shield, raise_shield

_HOME_GITCONFIG = """\
[user]
	name = reflectloop
	email = reflectloop@localhost
[init]
	defaultBranch = main
[advice]
	detachedHead = false
"""


class TreeNow(NamedTuple):
    tree: str
    changed: bool
    nested: tuple[str, ...]


@dataclass
class Workspace:
    """A checked-out copy. `record` is how the engine learns what was done in it."""

    run_id: str
    folder: Path  # holds repo, home and tmp
    desk: Path  # the engine's side: index and quarantined objects, under .reflectloop
    store: Store
    base_tree: str
    tree: str
    mark_ns: int
    borrowed: tuple[Path, ...] = ()  # object folders the workspace's own .git reads from
    shield: Shield | None = None

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    @property
    def quarantine(self) -> Path:
        return self.desk / "objects"

    def git(self) -> Git:
        return self.store.git(
            work_tree=self.repo, index=self.desk / "index", objects=self.quarantine, shield=self.shield
        )

    def close(self) -> None:
        """Let go of what the engine holds open; the files stay."""
        if self.shield:
            self.shield.close()
            self.shield = None

    def record(self, *, thorough: bool = False) -> TreeNow:
        """The tree as it is now. Skips the work when nothing was touched, unless asked to be thorough."""
        if not self.repo.is_dir() or self.repo.is_symlink():
            raise SandboxCreateFailed(
                f"the workspace {self.repo} was removed by a command", next_step="reflectloop log"
            )
        if not thorough and not changed_since(self.repo, self.mark_ns):
            return TreeNow(self.tree, changed=False, nested=())
        now = mark(self.folder)
        recorded: Recorded = record(self.git())
        changed, self.tree, self.mark_ns = recorded.tree != self.tree, recorded.tree, now
        return TreeNow(recorded.tree, changed, recorded.nested)

    def resolve(self, cwd: str) -> Path:
        """The real folder behind a step's cwd; outside the workspace is an escape."""
        root = self.repo.resolve()
        target = (root / cwd).resolve()
        if target != root and root not in target.parents:
            raise SandboxEscape(f"cwd {cwd!r} leads out of the workspace", next_step="correct cwd in the plan")
        return target


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


def create(project: Project, store: Store, snapshot: Snapshot, *, run_id: str, root: Path) -> Workspace:
    folder = root / run_id
    desk = ledger.enter(project, run_id, folder)
    borrowed = (project.objects, store.objects)
    space = Workspace(run_id, folder, desk, store, snapshot.tree, snapshot.tree, 0, borrowed)
    with files.room_for("the workspace", root):
        for part in (folder, space.repo, space.home, space.tmp, space.quarantine):
            part.mkdir(mode=0o700)
        try:
            # The store is written to here, not the quarantine: nothing new comes of a checkout.
            checkout = store.git(work_tree=space.repo, index=desk / "index")
            checkout.run("read-tree", "-u", "--reset", snapshot.tree)
        except GitFailed as fault:
            raise SandboxCreateFailed(f"the checkout failed: {fault.said}") from fault
        _lay_git(project, store, snapshot, space)
        (space.home / ".gitconfig").write_text(_HOME_GITCONFIG)
    space.shield = raise_shield(project.folder)
    space.mark_ns = mark(folder)
    return space


def _lay_git(project: Project, store: Store, snapshot: Snapshot, space: Workspace) -> None:
    """A repository for tools, tests and agents. The host never reads it, and it reaches no ref of the user's."""
    target = space.repo / ".git"
    head = f"ref: {project.branch}" if project.branch else snapshot.commit
    write_git_dir(target, object_format=store.object_format, head=head, alternates=list(space.borrowed))
    template = "%(objectname) %(refname)%(if)%(*objectname)%(then)%0a^%(*objectname)%(end)"
    tags = project.git().run("for-each-ref", f"--format={template}", "refs/tags")
    branch = f"{snapshot.commit} {project.branch}\n".encode() if project.branch else b""
    (target / "packed-refs").write_bytes(b"# pack-refs with: peeled fully-peeled sorted \n" + branch + tags)
    copy_if_there(project.shallow, target / "shallow")
    shutil.copy2(space.desk / "index", target / "index")
