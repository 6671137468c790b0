"""Commits a run's change alone on top of the user's HEAD: writes the commit first, moves the branch last."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import ApplyConflict, InvalidInput
from reflectloop.system import files, git
from reflectloop.system.git import Git, GitFailed
from reflectloop.workspace import tree_diff
from reflectloop.workspace.apply import RunChange, merge
from reflectloop.workspace.project import Project
from reflectloop.workspace.store import Store

_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")


class PendingCommit(NamedTuple):
    """A commit in the user's repository that no ref names yet."""

    commit: str
    tree: str
    head_tree: str
    ref: str
    is_new: bool


class CommitPart(NamedTuple):
    """The tree and the message of a commit to write."""

    tree: str
    message: str


def prepare(
    project: Project, store: Store, change: RunChange, parts: Sequence[CommitPart], *, branch: str | None
) -> PendingCommit:
    """Check everything and write the objects; without a ref they change nothing.

    The last of `parts` is the complete change; the parts before it become separate commits below it.
    """
    if project.mode != "git" or project.head is None:
        raise InvalidInput(
            f"{project.root} is not a git repository, so there is nothing to commit to", next_step="reflectloop apply"
        )
    ref = project.branch if branch is None else _new_ref(project, branch)
    if ref is None:
        raise InvalidInput(
            "HEAD is detached: there is no branch to commit to", next_step="reflectloop apply --branch NAME"
        )
    _refuse_nameless(project)
    head_tree = project.git().line("rev-parse", f"{project.head}^{{tree}}")
    try:
        merged = [
            part._replace(tree=merge(store, base=change.base, ours=head_tree, theirs=part.tree)) for part in parts
        ]
    except ApplyConflict as conflict:  # HEAD may lack what was not committed when the run began
        step = "commit the changes that the run began with, or apply without --commit and --branch"
        raise ApplyConflict(
            conflict.message, next_step=f"{step}; or run the plan again", missing=conflict.missing
        ) from conflict
    tree = merged[-1].tree
    if tree == head_tree:
        raise ApplyConflict("HEAD already holds this change; there is nothing to commit")
    if branch is None:
        _refuse_unfinished(project)
        _refuse_staged(project, store, head_tree, tree)
    try:
        made = _write(project, store, merged, head_tree)
    except GitFailed as fault:
        raise ApplyConflict(f"git could not make the commit: {fault.stderr}", next_step="git fsck") from fault
    return PendingCommit(made, tree, head_tree, ref, is_new=branch is not None)


def write_on(project: Project, store: Store, change: RunChange, parts: Sequence[CommitPart], parent: str) -> str:
    """Write commits on top of any commit whose tree is the change's base; no ref names them yet."""
    _refuse_nameless(project)
    return _write(project, store, parts, change.base, parent)


def _write(
    project: Project, store: Store, parts: Sequence[CommitPart], head_tree: str, parent: str | None = None
) -> str:
    """Write one commit on top of the other, without one for a part that changes nothing."""
    # The store borrows the user's objects, so only new ones are copied.
    revisions = "".join(f"{part.tree}\n" for part in parts) + f"^{head_tree}\n"
    pack = store.git().run("pack-objects", "--revs", "--stdout", "-q", "--thin", stdin=revisions.encode())
    user = project.git()
    user.run("unpack-objects", "-q", stdin=pack)
    below, last = parent or str(project.head), head_tree
    for part in parts:
        if part.tree != last:
            text = part.message.encode("utf-8", "surrogateescape").replace(b"\0", b"")
            below = user.run("commit-tree", part.tree, "-p", below, "-F", "-", stdin=text).decode().strip()
        last = part.tree
    return below


def publish(project: Project, pending: PendingCommit) -> None:
    """Move the branch, unless it has moved meanwhile, and update the index; both or neither."""
    user = project.git()
    old = "0" * len(pending.commit) if pending.is_new else str(project.head)
    index = None if pending.is_new else project.index
    before = index.read_bytes() if index and index.exists() else None
    try:
        if index:
            entries = _changed_entries(user, pending.head_tree, pending.tree)
            user.run("update-index", "-z", "--index-info", stdin=entries)
        user.run("update-ref", "-m", "reflectloop apply", pending.ref, pending.commit, old)
    except GitFailed as fault:
        if index and before is not None and index.read_bytes() != before:
            files.write_atomic(index, before)
        raise ApplyConflict(
            f"git could not move {pending.ref}; nothing was changed: {fault.stderr}", next_step="git status"
        ) from fault
    if index:
        with contextlib.suppress(GitFailed):
            _refresh(user)


def _refresh(user: Git) -> None:
    """Refresh the index without running filters that the repository's config names.

    Filtered files are not refreshed; the user's next `git status` reads them.
    """
    answer = user.attempt(
        "config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.(clean|smudge|process|required)$"
    )
    names = dict.fromkeys(answer.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1])
    if any("=" in name for name in names):
        return  # a name with "=" could not be told from its value
    off = [option for name in names for option in ("-c", f"{name}=" + ("false" if name.endswith(".required") else ""))]
    user.attempt(*off, "update-index", "-q", "--refresh")


def _refuse_nameless(project: Project) -> None:
    identities = ("GIT_COMMITTER_IDENT", "GIT_AUTHOR_IDENT")
    if any(project.git().attempt("var", name).code for name in identities):
        raise InvalidInput(
            "git does not know whose name to put on the commit",
            next_step="git config user.name NAME && git config user.email ADDRESS",
        )


def _new_ref(project: Project, branch: str) -> str:
    user = project.git()
    if user.attempt("check-ref-format", "--branch", branch).code:
        raise InvalidInput(f"{branch!r} is not a branch name", next_step="reflectloop apply --branch NAME")
    ref = f"refs/heads/{branch}"
    if not user.attempt("show-ref", "--verify", "--quiet", ref).code:
        raise InvalidInput(f"branch {branch!r} exists", next_step="choose another name with --branch")
    return ref


def _refuse_unfinished(project: Project) -> None:
    for name in _UNFINISHED:
        if Path(project.git().line("rev-parse", "--path-format=absolute", "--git-path", name)).exists():
            raise ApplyConflict(
                f"a merge, rebase or pick is under way ({name})", next_step="finish it, or use --branch NAME"
            )
    locked = project.index.with_name("index.lock") if project.index else None
    if locked and locked.exists():
        raise ApplyConflict(f"another git works here: {locked} exists", next_step="wait for it, or use --branch NAME")


def _changed_entries(user: Git, old: str, new: str) -> bytes:
    """Return the change between two trees in the format of `update-index --index-info`."""
    changes = tree_diff.compare(user, old, new)
    return b"".join(b"%s %s\t%s\0" % (change.mode, change.blob, change.name) for change in changes)


def _refuse_staged(project: Project, store: Store, head_tree: str, tree: str) -> None:
    listing = ("-z", "--name-only", "--no-renames", tree_diff.SUBMODULES)
    staged = set(git.paths(project.git().run("diff-index", "--cached", *listing, head_tree)))
    changed = tree_diff.changed_names(store.git(), head_tree, tree)
    both = [files.display(name) for name in changed if name in staged]
    if both:
        raise ApplyConflict(
            f"staged changes prevent a commit: {', '.join(both[:10])}",
            next_step="commit or unstage them, or use --branch NAME",
            missing=tuple(both),
        )
