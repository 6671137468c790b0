"""The difference between two trees, as an exact patch and as a list of files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from reflectloop import secrets
from reflectloop.errors import SecretLeak
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


def write(git: Git, base: str, end: str, target: Path) -> None:
    """The same into a file, in bounded memory; SECRET_LEAK, and no file, when a line it adds holds a secret."""
    part = target.with_name(f".{target.name}.part")
    added = AddedLines()
    try:
        with files.room_for("the patch", target.parent), part.open("wb") as file:

            def take(chunk: bytes) -> None:
                added.feed(chunk)
                file.write(chunk)

            if base != end:
                git.stream(take, "diff-tree", "-r", "-p", *_EXACT, base, end)
                added.finish()
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def refuse_leaks(git: Git, base: str, end: str) -> None:
    """Look through a patch again: the rules may have grown since it was made."""
    added = AddedLines()
    if base != end:
        git.stream(added.feed, "diff-tree", "-r", "-p", *_EXACT, base, end)
        added.finish()


class AddedLines:
    """The lines a patch adds, looked through as they come; removed ones may hold a secret that is being taken out."""

    def __init__(self) -> None:
        self._scanner = secrets.current().scanner()
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._look(lines)

    def finish(self) -> None:
        self._look([self._rest])
        self._scanner.finish()
        self._refuse()

    def _look(self, lines: list[bytes]) -> None:
        said = (line if line.startswith((b"+", b"rename to ", b"diff --git ")) else b"" for line in lines)
        self._scanner.feed(b"".join(line + b"\n" for line in said))
        self._refuse()

    def _refuse(self) -> None:
        for leak in self._scanner.findings:
            if leak.grade == "certain":
                raise SecretLeak(
                    f"{leak.rule} in what the patch adds (line {leak.line}, fingerprint {leak.fingerprint})",
                    next_step="take the secret out of what the steps write, and change it: it was exposed",
                )


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
