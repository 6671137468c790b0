"""Records the user's tree as it is, dirty or clean, in the engine's store; changes nothing of the user's."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import SandboxCreateFailed
from reflectloop.system import beneath, files, git, tree_walk
from reflectloop.system.git import Git, GitFailed
from reflectloop.system.patterns import lazy
from reflectloop.system.write_guard import start_write_guard
from reflectloop.terms import join_first
from reflectloop.workspace import traps
from reflectloop.workspace.project import KEPT_OUT, OWN_FOLDER, Project
from reflectloop.workspace.record_tree import Inspect, RecordedTree, Unrecordable, record_tree
from reflectloop.workspace.store import Store

_FILTERED = lazy(rb"\bfilter\b")
_NESTED = "{} is a git repository of its own and is left out"
_SHOWN = 5
_LARGEST_ATTRIBUTES = 100 << 20  # bytes; git ignores a larger one
_WHOLE_NAMES = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")  # versions of the index file
_NAMES_ELSEWHERE = (b"link\0", b"sdir\0")  # beginnings of extensions, behind the names
_GITLINK = b"\x00\x00\xe0\x00"  # mode 160000 in an index file


class Snapshot(NamedTuple):
    tree: str
    commit: str  # the user's HEAD if the tree is clean, else our commit on top of it
    warnings: tuple[str, ...]


def take_snapshot(project: Project, store: Store, scratch: Path, inspect: Inspect | None = None) -> Snapshot:
    """Take a snapshot with a temporary index in `scratch`. `inspect` is called with changes before they are stored."""
    index = scratch / f"{uuid.uuid4().hex}.index"  # of this process: others may take one at the same time
    shield = start_write_guard(project.folder)
    source = store.git(work_tree=project.root, index=index, shield=shield)
    try:
        if shield is None:  # the write guard would notice a blocked git
            traps.refuse_traps(project.root)
        if project.mode == "copy":
            return _take_copy(project, store, source, index)
        with reporting_git_damage():
            _seed_index(project, source, index)
            raw = index.read_bytes()
            if _may_name(raw, OWN_FOLDER, ".claude"):
                _drop_kept_out(source)
            if _may_name(raw, ".gitattributes"):
                _drop_filtered(project, source)
            recorded = record_tree(source, store.leave_out, inspect)
            links = _submodules(source, index)
    except Unrecordable as fault:
        rules = "[workspace] exclude in reflectloop.toml" if project.mode == "copy" else ".gitignore"
        raise SandboxCreateFailed(
            f"{fault} in {project.root}",
            next_step=f"make it readable (chmod u+rX) or list it in {rules}",
            missing=tuple(fault.names),
        ) from fault
    finally:
        index.unlink(missing_ok=True)
        if shield:
            shield.close()
    with reporting_git_damage():
        return _of_git(project, store, recorded, links)


@contextlib.contextmanager
def reporting_git_damage() -> Iterator[None]:
    """Turn a missing object or a damaged index into an error with the next command."""
    try:
        yield
    except GitFailed as fault:
        lines = fault.stderr.splitlines() or ["no reason given"]
        reason = next((line for line in lines if line.startswith("fatal: ")), lines[0])
        raise SandboxCreateFailed(f"git cannot read the repository: {reason}", next_step="git fsck") from fault


def _of_git(project: Project, store: Store, recorded: RecordedTree, links: list[str]) -> Snapshot:
    assert project.head  # noqa: S101
    head_tree = project.head_tree or project.git().line("rev-parse", f"{project.head}^{{tree}}")
    dirty = recorded.tree != head_tree
    message = "Snapshot of the working tree"
    commit = store.commit(recorded.tree, project.head, message=message) if dirty else project.head
    warnings = [_NESTED.format(name) for name in recorded.nested]
    warnings += [f"submodule {name} is taken as a pointer; its folder is empty in the workspace" for name in links]
    return Snapshot(recorded.tree, commit, tuple(warnings))


def _take_copy(project: Project, store: Store, source: Git, index: Path) -> Snapshot:
    """Record the folder by our own rules; the index is stored, so that only changes are read next time."""
    rules = hashlib.sha256((store.path / "info" / "exclude").read_bytes()).hexdigest()[:12]
    saved_index = project.folder / f"copy-{rules}.index"
    if saved_index.exists():
        with files.room_for("a temporary index", index.parent):
            shutil.copy2(saved_index, index)
    recorded = record_tree(source, store.leave_out)
    with files.room_for("an index", saved_index.parent):
        shutil.copy2(index, saved_index)
    warnings = [_NESTED.format(name) for name in recorded.nested]
    special = _special_files(project.root)
    if special:
        warnings.append(f"left out because they are not files: {join_first(special, _SHOWN)}")
    return Snapshot(recorded.tree, store.commit(recorded.tree, message="Copy of the folder"), warnings=tuple(warnings))


def _special_files(root: Path) -> list[str]:
    """Return the sockets, pipes and devices, which git ignores silently."""
    paths: list[str] = []
    # A folder that cannot be entered is excluded; otherwise recording would have failed.
    for folder in tree_walk.walk(root, passing=(PermissionError,)):
        folder.entries = [entry for entry in folder.entries if entry.name not in (".git", OWN_FOLDER)]
        paths += [files.display(folder.within(entry.name)) for entry in folder.entries if traps.is_special(entry)]
    return sorted(paths)


def _seed_index(project: Project, source: Git, index: Path) -> None:
    assert project.head  # noqa: S101
    if project.index and project.index.exists():
        # With the user's index git does not hash unchanged files. Its time is copied too: git distrusts entries that
        # are as new as the index, and must continue to.
        with files.room_for("a temporary index", index.parent):
            shutil.copy2(project.index, index)
    else:
        source.run("read-tree", project.head)


def _may_name(index: bytes, *parts: str) -> bool:
    """Return False only if none of these stands in any name of an index file; no process of git is needed for that."""
    # Version 4 shares beginnings of names; a split index has some in another file, a sparse one only folders.
    is_whole = index.startswith(_WHOLE_NAMES) and not any(sign in index for sign in _NAMES_ELSEWHERE)
    return not is_whole or any(part.encode() in index for part in parts)


def _drop_kept_out(source: Git) -> None:
    tracked = source.run("ls-files", "-z", "--cached", "--", *KEPT_OUT)
    if tracked:
        source.run("update-index", "-z", "--force-remove", "--stdin", stdin=tracked)


def _drop_filtered(project: Project, source: Git) -> None:
    """Remove filtered files (LFS and the like) from the index, so that their real content is recorded."""
    attributes = git.paths(source.run("ls-files", "-z", "--cached", "--", ":(glob)**/.gitattributes"))
    if not any(_mentions_filter(project.root, os.fsdecode(name)) for name in attributes):
        return
    tracked = source.run("ls-files", "-z", "--cached")
    fields = source.run("check-attr", "-z", "--stdin", "filter", stdin=tracked).split(b"\0")
    triples = zip(fields[0::3], fields[1::3], fields[2::3], strict=False)
    filtered = [name for name, _, value in triples if value not in (b"unspecified", b"unset")]
    present = [name for name in filtered if os.path.lexists(os.fsencode(project.root) + b"/" + name)]
    if present:
        source.run("update-index", "-z", "--force-remove", "--stdin", stdin=b"\0".join(present) + b"\0")


def _mentions_filter(root: Path, name: str) -> bool:
    """Return True if an attributes file may name filters; like git, follow no link and read no larger file."""
    try:
        with tree_walk.open_folder(root) as top:
            return bool(_FILTERED.search(beneath.read(top, name, _LARGEST_ATTRIBUTES)))
    except OSError:
        return False


def _submodules(source: Git, index: Path) -> list[str]:
    if _GITLINK not in index.read_bytes():
        return []
    staged = git.paths(source.run("ls-files", "-z", "--stage"))
    return [files.display(line.split(b"\t", 1)[1]) for line in staged if line.startswith(b"160000 ")]
