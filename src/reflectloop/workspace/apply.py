"""Puts a run's tree onto the user's: computed first, checked next, touched last, put back on failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import ApplyConflict, InvalidInput
from reflectloop.workspace import patch
from reflectloop.workspace.project import Project
from reflectloop.workspace.saved import Saved, recover
from reflectloop.workspace.snapshot import take
from reflectloop.workspace.store import Store
from reflectloop.world import files, git
from reflectloop.world.git import Git, GitFailed

_SAVED = "apply.saved"
_LISTING = ("-r", "-z", "--name-only", "--no-renames")


class Change(NamedTuple):
    """What a run did: from the tree it began with to the tree it ended with."""

    run_id: str
    base: str
    end: str


class Prepared(NamedTuple):
    now: str  # the user's tree as it stands
    result: str  # what it will be
    touched: tuple[patch.Touched, ...]


def prepare(project: Project, store: Store, change: Change, scratch: Path) -> Prepared:
    """Work out the result without touching anything; APPLY_CONFLICT when it cannot be had."""
    recover(project.root, scratch / _SAVED, store.git(work_tree=project.root))
    now = take(project, store, scratch).tree
    result = merge(store, base=change.base, ours=now, theirs=change.end)
    return Prepared(now, result, patch.touched(store.git(), now, result))


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
        names = [files.display(name) for name in fields[1:]]
        raise ApplyConflict(
            f"{len(names)} file(s) changed on both sides: {', '.join(names[:10])}",
            next_step="commit or undo those changes, or run the plan again",
            missing=tuple(names),
        )
    if merged.code:
        raise GitFailed(["merge-tree"], merged.code, merged.stderr)
    return fields[0].decode()


def to_work_tree(project: Project, store: Store, prepared: Prepared, scratch: Path) -> None:
    """Change the user's files from `now` to `result`. Their index, refs and stash stay as they are."""
    if prepared.now == prepared.result:
        return
    _refuse_hidden(project, store, prepared)
    index = scratch / "apply.index"
    target = store.git(work_tree=project.root, index=index)
    names = git.paths(store.git().run("diff-tree", *_LISTING, prepared.now, prepared.result))
    with Saved(project.root, scratch / _SAVED, names, prepared.result) as saved:
        try:
            target.run("read-tree", prepared.now)
            target.attempt("update-index", "-q", "--refresh")
            target.run("read-tree", "-m", "-u", prepared.now, prepared.result)
        except BaseException as fault:
            saved.put_back()
            if isinstance(fault, GitFailed):
                why = f"the files changed while the patch was being applied; nothing was changed: {fault.said}"
                raise ApplyConflict(why, next_step="reflectloop apply") from fault
            raise
        finally:
            index.unlink(missing_ok=True)


def _refuse_hidden(project: Project, store: Store, prepared: Prepared) -> None:
    """An ignored file in the way is not in the snapshot, and git would overwrite it without a word."""
    between = (prepared.now, prepared.result)
    added = git.paths(store.git().run("diff-tree", *_LISTING, "--diff-filter=A", *between))
    removed = set(git.paths(store.git().run("diff-tree", *_LISTING, "--diff-filter=D", *between)))
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
    for folder, _, names in os.walk(root + b"/" + name):
        inside = [os.path.relpath(folder + b"/" + one, root) for one in names]
        yield from (one for one in inside if one not in removed)


class Pending(NamedTuple):
    """A commit that has been worked out and found possible."""

    tree: str
    head_tree: str
    ref: str
    is_new: bool


def prepare_commit(project: Project, store: Store, change: Change, branch: str | None) -> Pending:
    """A commit of the run's change alone, on top of HEAD: on a new branch, or on the one checked out."""
    if project.mode != "git" or project.head is None:
        raise InvalidInput(f"{project.root} is no git repository to commit to", next_step="reflectloop apply")
    ref = _new_ref(project, branch) if branch else project.branch
    if ref is None:
        raise InvalidInput(
            "HEAD is detached: there is no branch to commit to", next_step="reflectloop apply --branch NAME"
        )
    _refuse_nameless(project)
    head_tree = project.git().line("rev-parse", f"{project.head}^{{tree}}")
    tree = merge(store, base=change.base, ours=head_tree, theirs=change.end)
    if tree == head_tree:
        raise ApplyConflict("HEAD already holds this change; there is nothing to commit")
    if not branch:
        _refuse_staged(project, store, head_tree, tree)
    return Pending(tree, head_tree, ref, is_new=bool(branch))


def commit(project: Project, store: Store, pending: Pending, *, message: str) -> str:
    """Make the commit and move the branch, if it still stands where it stood."""
    assert project.head  # noqa: S101 - a pending commit has one
    _hand_over(project, store, pending)
    user = project.git()
    made = user.run("commit-tree", pending.tree, "-p", project.head, "-F", "-", stdin=message.encode()).decode().strip()
    old = "0" * len(made) if pending.is_new else project.head
    user.run("update-ref", "-m", "reflectloop apply", pending.ref, made, old)
    if not pending.is_new:
        user.run(
            "update-index",
            "-z",
            "--index-info",
            stdin=_changed_entries(user, pending.head_tree, pending.tree),
        )
        user.attempt("update-index", "-q", "--refresh")
    return made


def _refuse_nameless(project: Project) -> None:
    if (
        project.git().attempt("var", "GIT_COMMITTER_IDENT").code
        or project.git().attempt("var", "GIT_AUTHOR_IDENT").code
    ):
        raise InvalidInput(
            "git does not know whose name to put on the commit",
            next_step="git config user.name NAME && git config user.email ADDRESS",
        )


def _new_ref(project: Project, branch: str) -> str:
    user = project.git()
    if user.attempt("check-ref-format", "--branch", branch).code:
        raise InvalidInput(f"{branch!r} is no branch name", next_step="reflectloop apply --branch NAME")
    ref = f"refs/heads/{branch}"
    if not user.attempt("show-ref", "--verify", "--quiet", ref).code:
        raise InvalidInput(f"branch {branch!r} exists", next_step="choose another name with --branch")
    return ref


def _hand_over(project: Project, store: Store, pending: Pending) -> None:
    """Copy the objects the user's repository lacks; its own are borrowed, so only new ones travel."""
    wanted = f"{pending.tree}\n^{pending.head_tree}\n".encode()
    pack = store.git().run("pack-objects", "--revs", "--stdout", "-q", "--thin", stdin=wanted)
    project.git().run("unpack-objects", "-q", stdin=pack)


def _changed_entries(user: Git, old: str, new: str) -> bytes:
    """The change between two trees as `update-index --index-info` reads it."""
    fields = user.run("diff-tree", "-r", "-z", "--no-renames", old, new).split(b"\0")
    out = []
    for head, name in zip(fields[0::2], fields[1::2], strict=False):
        _, mode, _, identity, _ = head.split(b" ")
        out.append(mode + b" " + identity + b"\t" + name + b"\0")
    return b"".join(out)


def _refuse_staged(project: Project, store: Store, head_tree: str, tree: str) -> None:
    staged = set(git.paths(project.git().run("diff-index", "--cached", *_LISTING, head_tree)))
    wanted = store.git().run("diff-tree", *_LISTING, head_tree, tree)
    both = [files.display(name) for name in git.paths(wanted) if name in staged]
    if both:
        raise ApplyConflict(
            f"staged changes stand in the way of a commit: {', '.join(both[:10])}",
            next_step="commit or unstage them, or use --branch NAME",
            missing=tuple(both),
        )
