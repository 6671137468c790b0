"""The difference between two trees, as an exact patch and as a list of files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from reflectloop import secrets
from reflectloop.errors import SecretLeak
from reflectloop.system import files
from reflectloop.system.git import Git
from reflectloop.workspace import suspects
from reflectloop.workspace.added_lines import AddedSecret
from reflectloop.workspace.line_splitter import LineChunk, LineSplitter
from reflectloop.workspace.record_tree import Unrecordable

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
REDACTED = "changes.redacted.patch"
_NOTHING, _GITLINK = "000000", "160000"  # modes
_GIT_APPLY_TAKES = 1023 << 20  # bytes; git refuses a longer patch
_WORDS = {"A": "added", "D": "deleted", "M": "modified", "T": "type changed", "R": "renamed"}


class TouchedFile(NamedTuple):
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


def write(git: Git, base: str, end: str, target: Path) -> list[AddedSecret]:
    """Write the patch into a file, in bounded memory; SECRET_LEAK, and no file, where a new file holds a secret.

    Returned is what may be one, and was not moved there from elsewhere. Then the exact patch is not written: beside it
    a redacted one is, for people, which does not apply.
    """
    found = new_secrets(git, base, end)
    _refuse(found)
    redacted = target.with_name(REDACTED)
    target.unlink(missing_ok=True)
    redacted.unlink(missing_ok=True)
    if found:
        with _replaced(redacted) as file:
            cleaned = RedactedPatch(lambda chunk: _put(file, chunk))
            stream(git, base, end, cleaned.feed, exact=False)
            cleaned.finish()
    else:
        with _replaced(target) as file:
            stream(git, base, end, lambda chunk: _put(file, chunk), exact=True)
    return found


def _put(file: BinaryIO, chunk: bytes) -> None:
    file.write(chunk)


@contextlib.contextmanager
def _replaced(target: Path) -> Iterator[BinaryIO]:
    """Give a file to write to, which takes the target's place when it is whole."""
    part = target.with_name(f".{target.name}.part")
    try:
        with files.room_for("the patch", target.parent), part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def new_secrets(git: Git, base: str, end: str) -> list[AddedSecret]:
    """Return what may be a secret, or is one, in files that differ, and was in none of them before."""
    return suspects.between(git, (change.side for change in _changes(git, base, end)))


def refuse_leaks(git: Git, base: str, end: str) -> None:
    """Look through a change again: the rules may have grown since it was made."""
    _refuse(new_secrets(git, base, end))


def _refuse(found: list[AddedSecret]) -> None:
    for one in found:
        if one.finding.grade == "certain":
            raise SecretLeak(
                f"{one.finding.rule} in what the patch adds: {one.path}, line {one.line}"
                f" (fingerprint {one.finding.fingerprint})",
                next_step="take the secret out of what the steps write, and change it: it was exposed",
            )


class RedactedPatch:
    """A patch as people may see it. Packed lines of binary files hold nothing readable, and must stay as they are."""

    def __init__(self, show: Callable[[bytes], None]) -> None:
        self._show = show
        self._scanner = secrets.current().scanner()
        self._pieces = LineSplitter()
        self._packed = False

    def feed(self, chunk: bytes) -> None:
        for piece in self._pieces.feed(chunk):
            self._take(piece)

    def finish(self) -> None:
        for piece in self._pieces.finish():
            self._take(piece)
        self._show(self._scanner.finish())

    def _take(self, piece: LineChunk) -> None:
        if self._packed and piece.begins and piece.text.startswith(b"diff --git "):
            self._packed = False
        if self._packed:
            self._show(piece.whole)
            return
        self._show(self._scanner.feed(piece.whole))
        if piece == (b"GIT binary patch", True, True):
            self._show(self._scanner.finish())
            self._scanner, self._packed = secrets.current().scanner(), True


def touched(git: Git, base: str, end: str) -> tuple[TouchedFile, ...]:
    return tuple(
        TouchedFile(
            files.display(change.path),
            _WORDS.get(change.letter, change.letter),
            files.display(change.source) if change.source is not None else None,
        )
        for change in _changes(git, base, end)
    )


class _Change(NamedTuple):
    letter: str
    old: str | None  # blobs whose content stands in a patch
    new: str | None
    path: bytes
    source: bytes | None

    @property
    def blobs(self) -> tuple[str, ...]:
        return tuple(blob for blob in (self.old, self.new) if blob)

    @property
    def side(self) -> suspects.Side:
        return suspects.Side(self.path, self.old, self.new, self.letter in "AR")


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
        was, now = (
            blob if mode not in (_NOTHING, _GITLINK) and old != new else None
            for mode, blob in ((before, old), (after, new))
        )
        yield _Change(letter, was, now, path, source)
