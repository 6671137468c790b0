"""The difference between two trees, as an exact patch and as a list of files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop import secrets
from reflectloop.errors import SecretLeak
from reflectloop.workspace.added import Added, AddedLines
from reflectloop.workspace.pieces import Piece, Pieces
from reflectloop.workspace.record import Unrecordable
from reflectloop.world import files
from reflectloop.world.git import Git

_READABLE = (
    "--full-index",
    "--find-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
_EXACT = ("--binary", *_READABLE)
_NOTHING, _GITLINK = "000000", "160000"  # modes
_GIT_APPLY_TAKES = 1023 << 20  # bytes; git refuses a longer patch
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


def stream(git: Git, base: str, end: str, on_chunk: Callable[[bytes], None], *, exact: bool) -> None:
    """The same as it comes. What is not exact is for people: of a binary file it says that it differs."""
    if base != end:
        git.stream(on_chunk, "diff-tree", "-r", "-p", *(_EXACT if exact else _READABLE), base, end)


def refuse_large(git: Git, base: str, end: str, largest: int) -> None:
    """Old content counts too: a patch that deletes a file holds all of it, so that it can be undone."""
    asked = [(one.path, blob) for one in _changes(git, base, end) for blob in one.blobs]
    if asked:
        ids = "".join(f"{blob}\n" for _, blob in asked).encode()
        sizes = git.run("cat-file", "--batch-check=%(objectsize)", stdin=ids).splitlines()
        known = [(files.display(path), int(size)) for (path, _), size in zip(asked, sizes, strict=True)]
        raise_if_large(dict(sorted(known, key=lambda one: one[1])), largest)


def raise_if_large(sizes: dict[str, int], largest: int) -> None:
    large = {name: size for name, size in sizes.items() if size > largest}
    if large:
        shown = ", ".join(f"{name} ({size / 1e6:.0f} MB)" for name, size in list(large.items())[:5])
        why = f"too large for a patch: {shown}; the limit is {largest / 1e6:.0f} MB"
        raise Unrecordable(list(large), f"{why} ([workspace] largest_change_mb), and ignored files do not count")


def oversize(target: Path) -> str | None:
    """What to know about a patch that git itself would not take."""
    size = target.stat().st_size
    if size <= _GIT_APPLY_TAKES:
        return None
    return f"the patch has {size / 1e9:.1f} GB; git apply takes 1 GB at most, reflectloop apply all of it"


def write(git: Git, base: str, end: str, target: Path) -> list[Added]:
    """The same into a file, in bounded memory; SECRET_LEAK, and no file, when a line it adds holds a secret.

    Returned is what may be one, and was not moved there from elsewhere.
    """
    part = target.with_name(f".{target.name}.part")
    added = AddedLines(secrets.current())
    try:
        with files.room_for("the patch", target.parent), part.open("wb") as file:

            def take(chunk: bytes) -> None:
                added.feed(chunk)
                _refuse(added.news())
                file.write(chunk)

            stream(git, base, end, take, exact=True)
            found = added.finish()
            _refuse(found)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return [one for one in found if one.finding.fingerprint not in added.moved]


def refuse_leaks(git: Git, base: str, end: str) -> None:
    """Look through a patch again: the rules may have grown since it was made."""
    added = AddedLines(secrets.current())
    stream(git, base, end, added.feed, exact=False)
    _refuse(added.finish())


def _refuse(found: list[Added]) -> None:
    for one in found:
        if one.finding.grade == "certain":
            raise SecretLeak(
                f"{one.finding.rule} in what the patch adds: {one.path}, line {one.line}"
                f" (fingerprint {one.finding.fingerprint})",
                next_step="take the secret out of what the steps write, and change it: it was exposed",
            )


class Cleaned:
    """A patch as people may see it. Packed lines of binary files hold nothing readable, and must stay as they are."""

    def __init__(self, show: Callable[[bytes], None]) -> None:
        self._show = show
        self._scanner = secrets.current().scanner()
        self._pieces = Pieces()
        self._packed = False

    def feed(self, chunk: bytes) -> None:
        for piece in self._pieces.feed(chunk):
            self._take(piece)

    def finish(self) -> None:
        for piece in self._pieces.finish():
            self._take(piece)
        self._show(self._scanner.finish())

    def _take(self, piece: Piece) -> None:
        if self._packed and piece.begins and piece.text.startswith(b"diff --git "):
            self._packed = False
        if self._packed:
            self._show(piece.whole)
            return
        self._show(self._scanner.feed(piece.whole))
        if piece == (b"GIT binary patch", True, True):
            self._show(self._scanner.finish())
            self._scanner, self._packed = secrets.current().scanner(), True


def touched(git: Git, base: str, end: str) -> tuple[Touched, ...]:
    return tuple(
        Touched(
            files.display(change.path),
            _WORDS.get(change.letter, change.letter),
            files.display(change.source) if change.source is not None else None,
        )
        for change in _changes(git, base, end)
    )


class _Change(NamedTuple):
    letter: str
    blobs: tuple[str, ...]  # whose content stands in a patch
    path: bytes
    source: bytes | None


def _changes(git: Git, base: str, end: str) -> Iterator[_Change]:
    if base == end:
        return
    fields = iter(git.run("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--find-renames", base, end).split(b"\0"))
    for entry in fields:
        if not entry:
            return
        before, after, old, new, status = entry.decode().removeprefix(":").split()
        letter, source = status[0], None
        path = next(fields)
        if letter == "R":
            source, path = path, next(fields)
        sides = [] if old == new else [(before, old), (after, new)]
        blobs = tuple(blob for mode, blob in sides if mode not in (_NOTHING, _GITLINK))
        yield _Change(letter, blobs, path, source)
