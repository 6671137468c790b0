"""Measures how long it takes to turn fifty changed files into a patch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from bench import ours, race, repository
from bench.ground import Ground, git
from bench.race import Contestant, Spent
from bench.table import Measure, Row, Section
from reflectloop.workspace import patch
from reflectloop.workspace.checkout import Workspace

_FILES = 7_000
_CHANGED = 50
_BAR = 1.2
_EXACT = ("--binary", "--full-index")
_WHAT = f"{_CHANGED} of {_FILES:,} files changed"


def measure(ground: Ground) -> Section:
    root = ground.repository(_FILES)
    copies = ground.disk / "patches"
    rows: list[Row] = []
    for kind in ours.kinds():
        rows += _first(root, copies, 2 if ground.quick else 7, kind)
        rows += _later(root, copies, 5 if ground.quick else 25, kind)
    notes = [
        "Wall time, median of 7 rounds (first) and of 25 (later); the files get other content in every round.",
        (
            "First: in a copy made just before, as in a run with one step; git reads files again that are "
            "as young as its index. Later: in a copy that has been recorded before."
        ),
        (
            "Ours is `Workspace.record(thorough=True)` and `patch.exact_patch`: names, objects, a tree, a patch, "
            "new files included. Plain `git diff` writes no objects and does not see new files."
        ),
        "Overlay: in a workspace that is mounted over the base tree; copy: in one that has all files itself.",
        f"Everything lies on {ground.medium(ground.disk)}.",
    ]
    return Section("patch: out of a workspace", notes, rows)


def _first(root: Path, copies: Path, rounds: int, kind: ours.Kind) -> list[Row]:
    made: list[Workspace] = []
    tree = copies / "tree"

    def create() -> None:
        made.append(ours.workspace(root, copies, kind))
        _editor(made[-1].repo)()

    def add() -> None:
        _add(root, tree)
        _editor(tree)()

    contestants = [
        Contestant("ours", lambda: _out(made[-1]), before=create, after=lambda: ours.dispose(root, made.pop())),
        Contestant("git add -A; git diff --cached", lambda: _staged(tree), before=add, after=lambda: _drop(root, tree)),
        Contestant("git diff", lambda: _plain(tree), before=add, after=lambda: _drop(root, tree)),
    ]
    return _rows(f"{ours.NAMES[kind]}, {_WHAT}, first", race.run(contestants, rounds))


def _later(root: Path, copies: Path, rounds: int, kind: ours.Kind) -> list[Row]:
    space = ours.workspace(root, copies, kind)
    staged, plain = copies / "staged", copies / "plain"
    for tree in (staged, plain):
        _add(root, tree)
    # Else every `git diff` would read the young files again, which it never puts right: a poor peer.
    time.sleep(1.1)
    for tree in (staged, plain):
        git("update-index", "--force-write-index", "--refresh", cwd=tree)
    contestants = [
        Contestant("ours", lambda: _out(space), before=_editor(space.repo)),
        Contestant("git add -A; git diff --cached", lambda: _staged(staged), before=_editor(staged)),
        Contestant("git diff", lambda: _plain(plain), before=_editor(plain)),
        Contestant("stat walk", lambda: _walk(os.fspath(plain))),
    ]
    times = race.run(contestants, rounds)
    ours.dispose(root, space)
    for tree in (staged, plain):
        _drop(root, tree)
    return _rows(f"{ours.NAMES[kind]}, {_WHAT}, later", times)


def _rows(what: str, times: dict[str, Spent]) -> list[Row]:
    taken = {name: Measure(name, spent.wall_s) for name, spent in times.items()}
    own, walk = taken.pop("ours"), taken.pop("stat walk", None)
    return [Row(what, own, peer, walk, _BAR) for peer in taken.values()]


def _editor(tree: Path) -> Callable[[], None]:
    """Changes the same files of a tree to something new each time it is called."""
    names = repository.names(_FILES)
    edition = 0

    def edit() -> None:
        nonlocal edition
        edition += 1
        for number in range(0, _FILES, _FILES // _CHANGED):
            (tree / names[number]).write_bytes(repository.content(number, edition))

    return edit


def _out(space: Workspace) -> None:
    end = space.record(thorough=True).tree
    patch.exact_patch(space.git(), space.base_tree, end)


def _add(root: Path, tree: Path) -> None:
    git("worktree", "add", "--quiet", "--detach", os.fspath(tree), cwd=root)


def _drop(root: Path, tree: Path) -> None:
    git("worktree", "remove", "--force", os.fspath(tree), cwd=root)


def _staged(tree: Path) -> None:
    git("add", "--all", cwd=tree)
    git("diff", "--cached", *_EXACT, cwd=tree)


def _plain(tree: Path) -> None:
    git("diff", *_EXACT, cwd=tree)


def _walk(root: str) -> None:
    stack = [root]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
