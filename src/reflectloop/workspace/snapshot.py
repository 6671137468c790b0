"""Takes the user's tree as it stands, dirty or clean, into the engine's store; touches nothing of the user's."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import SandboxCreateFailed
from reflectloop.workspace.project import KEPT_OUT, Project
from reflectloop.workspace.record import record
from reflectloop.workspace.store import Store
from reflectloop.world import files, git
from reflectloop.world.git import Git, GitFailed
from reflectloop.world.shield import raise_shield

_FILTERED = re.compile(rb"\bfilter\b")
_GITLINK = b"\x00\x00\xe0\x00"  # mode 160000 as it stands in an index file


class Snapshot(NamedTuple):
    tree: str
    commit: str  # the user's HEAD when the tree is clean, else a commit of ours on top of it
    dirty: bool
    warnings: tuple[str, ...]


def take(project: Project, store: Store, scratch: Path) -> Snapshot:
    """Snapshot by a temporary index; `scratch` is a folder of ours."""
    index = scratch / "snapshot.index"
    shield = raise_shield(project.folder)
    try:
        source = _seed_index(project, store.git(work_tree=project.root, index=index, shield=shield), index)
        _drop_kept_out(source)
        _drop_filtered(project, source)
        recorded = record(source)
        links = _submodules(source, index)
    finally:
        index.unlink(missing_ok=True)
        if shield:
            shield.close()
    head_tree = project.git().line("rev-parse", f"{project.head}^{{tree}}")
    dirty = recorded.tree != head_tree
    commit = (
        store.commit(recorded.tree, project.head, message="Snapshot of the working tree") if dirty else project.head
    )
    warnings = [f"{name} is a git repository of its own and is left out" for name in recorded.nested]
    warnings += [f"submodule {name} is taken as a pointer; its folder is empty in the workspace" for name in links]
    return Snapshot(recorded.tree, commit, dirty, tuple(warnings))


def _seed_index(project: Project, source: Git, index: Path) -> Git:
    try:
        if project.index.exists():
            # The user's own index knows what is unchanged; without it every file would be hashed.
            # With its times: git distrusts entries that are as young as the index itself, and must go on doing so.
            with files.room_for("a temporary index", index.parent):
                shutil.copy2(project.index, index)
        else:
            source.run("read-tree", project.head)
    except GitFailed as fault:
        raise SandboxCreateFailed(f"git cannot read the repository: {fault.said}", next_step="git fsck") from fault
    return source


def _drop_kept_out(source: Git) -> None:
    tracked = source.run("ls-files", "-z", "--cached", "--", *KEPT_OUT)
    if tracked:
        source.run("update-index", "-z", "--force-remove", "--stdin", stdin=tracked)


def _drop_filtered(project: Project, source: Git) -> None:
    """Forget what the index knows of filtered files (LFS and kin), so that their real content is taken."""
    attributes = git.paths(source.run("ls-files", "-z", "--cached", "--", ":(glob)**/.gitattributes"))
    if not any(_mentions_filter(project.root / os.fsdecode(name)) for name in attributes):
        return
    tracked = source.run("ls-files", "-z", "--cached")
    fields = source.run("check-attr", "-z", "--stdin", "filter", stdin=tracked).split(b"\0")
    triples = zip(fields[0::3], fields[1::3], fields[2::3], strict=False)
    filtered = [name for name, _, value in triples if value not in (b"unspecified", b"unset")]
    present = [name for name in filtered if os.path.lexists(os.fsencode(project.root) + b"/" + name)]
    if present:
        source.run("update-index", "-z", "--force-remove", "--stdin", stdin=b"\0".join(present) + b"\0")


def _mentions_filter(path: Path) -> bool:
    try:
        return bool(_FILTERED.search(path.read_bytes()))
    except OSError:
        return False


def _submodules(source: Git, index: Path) -> list[str]:
    if _GITLINK not in index.read_bytes():
        return []
    staged = git.paths(source.run("ls-files", "-z", "--stage"))
    return [files.display(line.split(b"\t", 1)[1]) for line in staged if line.startswith(b"160000 ")]
