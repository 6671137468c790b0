"""The difference between two trees, as an exact patch and as a list of files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from reflectloop.world import files
from reflectloop.world.git import Git

_EXACT = (
    "--binary",
    "--full-index",
    "--find-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
_WORDS = {"A": "added", "D": "deleted", "M": "modified", "T": "type changed", "R": "renamed"}


class Touched(NamedTuple):
    path: str
    change: str
    source: str | None = None  # what it was renamed from

    def __str__(self) -> str:
        return f"{self.source} → {self.path}" if self.source else self.path


def between(git: Git, base: str, end: str) -> bytes:
    """A patch that `git apply` turns `base` into `end` with, byte for byte."""
    return b"" if base == end else git.run("diff-tree", "-r", "-p", *_EXACT, base, end)


def binaries(git: Git, base: str, end: str) -> Iterator[bytes]:
    """The new content of binary files: a patch shows them encoded, where nothing can be read."""
    counts = git.run("diff-tree", "-r", "-z", "--numstat", "--no-renames", "--diff-filter=AMT", base, end)
    for line in counts.split(b"\0"):
        if line.startswith(b"-\t-\t"):
            name = os.fsdecode(line.split(b"\t", 2)[2])
            yield git.run("cat-file", "blob", f"{end}:{name}")


def touched(git: Git, base: str, end: str) -> tuple[Touched, ...]:
    if base == end:
        return ()
    fields = git.run("diff-tree", "-r", "-z", "--name-status", "--find-renames", base, end).split(b"\0")
    out: list[Touched] = []
    position = 0
    while position < len(fields) - 1:
        letter = fields[position][:1].decode()
        if letter == "R":
            old, new = fields[position + 1 : position + 3]
            out.append(Touched(files.display(new), "renamed", files.display(old)))
            position += 3
        else:
            out.append(Touched(files.display(fields[position + 1]), _WORDS.get(letter, letter)))
            position += 2
    return tuple(out)


def apply_to(git: Git, patch: bytes, base: str) -> str:
    """The tree that `patch` makes of `base`, computed in `git`'s index; GitFailed when it does not fit."""
    git.run("read-tree", base)
    if patch:
        git.run("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch)
    return git.line("write-tree")
