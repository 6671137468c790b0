"""Computes the difference between two trees, as an exact patch and as a list of files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from reflectloop import secrets
from reflectloop.errors import SecretLeak
from reflectloop.secrets import SecretFinding
from reflectloop.system import files
from reflectloop.system.git import Git
from reflectloop.workspace import tree_diff
from reflectloop.workspace.line_splitter import LineChunk, LineSplitter
from reflectloop.workspace.tree_diff import ABSENT, GITLINK

if TYPE_CHECKING:  # `diff` shows a patch that was scanned before
    from reflectloop.workspace.added_lines import AddedSecret

_TOGETHER = 64  # blobs that one call of git reads
_ROOM = 64 << 20  # bytes of blobs that are in memory at once


class Side(NamedTuple):
    """A file that differs: its name, its old and its new blob, or None without content."""

    path: bytes
    old: str | None
    new: str | None
    is_named_anew: bool


def added_secrets(git: Git, sides: Iterable[Side]) -> list[AddedSecret]:
    """Return the secrets in new versions that are not in the old ones; a possible secret that moved is not new."""
    from reflectloop.workspace.added_lines import AddedSecret  # noqa: PLC0415

    sides = list(sides)
    after = _scan(git, [side.new for side in sides if side.new])
    added = _names(sides)
    if not any(after.values()):
        return added
    before = _scan(git, [side.old for side in sides if side.old])
    moved: set[str] = set()
    for side in sides:
        moved |= _fingerprints(before.get(side.old or "")) - _fingerprints(after.get(side.new or ""))
    for side in sides:
        known = _fingerprints(before.get(side.old or ""))
        for finding in after.get(side.new or "", []):
            was_moved = finding.grade == "likely" and finding.fingerprint in moved
            if finding.fingerprint not in known and not was_moved:
                added.append(AddedSecret(_shown(side.path), finding, None, finding.line))
    return added


def _names(sides: list[Side]) -> list[AddedSecret]:
    from reflectloop.workspace.added_lines import AddedSecret  # noqa: PLC0415

    detector = secrets.current_detector()
    named = [side.path for side in sides if side.is_named_anew]
    return [AddedSecret(_shown(name), finding, None, 0) for name in named for finding in detector.scan(name)]


def _shown(path: bytes) -> str:
    return secrets.current_detector().redact(files.display(path))


def _fingerprints(findings: Iterable[SecretFinding] | None) -> set[str]:
    return {finding.fingerprint for finding in findings or ()}


def _scan(git: Git, blobs: Iterable[str]) -> dict[str, list[SecretFinding]]:
    """Return the findings of each blob; large blobs are streamed one by one."""
    from reflectloop.secrets import content  # noqa: PLC0415 - it reads every form of file

    unique = list(dict.fromkeys(blobs))
    sizes = _sizes(git, unique)
    findings: dict[str, list[SecretFinding]] = {}
    for group in _groups(sizes):
        if len(group) == 1:
            reader = content.Reader(secrets.current_detector())
            git.stream(reader.feed, "cat-file", "blob", group[0])
            findings[group[0]] = reader.finish()
        else:
            answer = git.run("cat-file", "--batch", stdin=_lines(group))
            for blob, data in _split(answer, group, sizes):
                findings[blob] = content.scan_content(secrets.current_detector(), data)
    return findings


def _sizes(git: Git, blobs: list[str]) -> dict[str, int]:
    if not blobs:
        return {}
    answer = git.run("cat-file", "--batch-check=%(objectsize)", stdin=_lines(blobs))
    return dict(zip(blobs, map(int, answer.splitlines()), strict=True))


def _lines(blobs: Iterable[str]) -> bytes:
    return "".join(f"{blob}\n" for blob in blobs).encode()


def _groups(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield groups of blobs that are small enough to read at once."""
    group: list[str] = []
    size_of_group = 0
    for blob, size in sizes.items():
        if group and (size_of_group + size > _ROOM or len(group) >= _TOGETHER):
            yield group
            group, size_of_group = [], 0
        group.append(blob)
        size_of_group += size
    if group:
        yield group


def _split(answer: bytes, blobs: list[str], sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """Yield each blob of the output of `cat-file --batch`: a header line, the content, a newline."""
    place = 0
    for blob in blobs:
        begin = answer.index(b"\n", place) + 1
        end = begin + sizes[blob]
        yield blob, answer[begin:end]
        place = end + 1


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
_GIT_APPLY_TAKES = 1023 << 20  # bytes; git refuses a longer patch
_WORDS = {"A": "added", "D": "deleted", "M": "modified", "T": "type changed", "R": "renamed"}


class TouchedFile(NamedTuple):
    path: str
    change: str
    source: str | None = None  # its old name, if it was renamed

    def __str__(self) -> str:
        return f"{self.source} → {self.path}" if self.source else self.path


def exact_patch(git: Git, base: str, end: str) -> bytes:
    """Return the patch with which `git apply` turns `base` into `end` exactly."""
    return b"" if base == end else tree_diff.patch(git, base, end, *_EXACT)


def stream(git: Git, base: str, end: str, on_chunk: Callable[[bytes], None], *, exact: bool) -> None:
    """Stream the patch. If not `exact`, it is for people: binary files are only named."""
    if base != end:
        tree_diff.stream_patch(git, on_chunk, base, end, *(_EXACT if exact else _READABLE))


def refuse_large(git: Git, base: str, end: str, largest: int) -> None:
    """Raise Unrecordable for large files. Old content counts too: a patch contains the files it deletes."""
    contents = [(change.path, blob) for change in _changes(git, base, end) for blob in change.blobs]
    if contents:
        ids = "".join(f"{blob}\n" for _, blob in contents).encode()
        sizes = git.run("cat-file", "--batch-check=%(objectsize)", stdin=ids).splitlines()
        known = [(files.display(path), int(size)) for (path, _), size in zip(contents, sizes, strict=True)]
        raise_if_large(dict(sorted(known, key=lambda item: item[1])), largest)


def raise_if_large(sizes: dict[str, int], largest: int) -> None:
    large = {name: size for name, size in sizes.items() if size > largest}
    if large:
        from reflectloop.workspace.record_tree import Unrecordable  # noqa: PLC0415

        examples = ", ".join(f"{name} ({size / 1e6:.0f} MB)" for name, size in list(large.items())[:5])
        why = f"too large for a patch: {examples}; the limit is {largest / 1e6:.0f} MB"
        raise Unrecordable(list(large), f"{why} ([workspace] largest_change_mb), and ignored files do not count")


def oversize(target: Path) -> str | None:
    """Return a warning about a patch that is too large for `git apply`, or None."""
    size = target.stat().st_size
    if size <= _GIT_APPLY_TAKES:
        return None
    return f"the patch has {size / 1e9:.1f} GB; git apply accepts at most 1 GB, reflectloop apply has no limit"


def write(git: Git, base: str, end: str, target: Path) -> list[AddedSecret]:
    """Write the patch to a file in bounded memory; raise SECRET_LEAK, without a file, if it adds a certain secret.

    Return the possible secrets that it adds. If there are any, only a redacted patch is written, for people, which
    cannot be applied.
    """
    possible_secrets = new_secrets(git, base, end)
    _refuse(possible_secrets)
    redacted = target.with_name(REDACTED)
    target.unlink(missing_ok=True)
    redacted.unlink(missing_ok=True)
    if possible_secrets:
        with _replaced(redacted) as file:
            cleaned = RedactedPatch(lambda chunk: _put(file, chunk))
            stream(git, base, end, cleaned.feed, exact=False)
            cleaned.finish()
    else:
        with _replaced(target) as file:
            stream(git, base, end, lambda chunk: _put(file, chunk), exact=True)
    return possible_secrets


def _put(file: BinaryIO, chunk: bytes) -> None:
    file.write(chunk)


@contextlib.contextmanager
def _replaced(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces the target when it is complete."""
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
    """Return the certain and possible secrets in changed files that were in none of them before."""
    return added_secrets(git, (change.side for change in _changes(git, base, end)))


def refuse_leaks(git: Git, base: str, end: str) -> None:
    """Scan a change again and raise SecretLeak: the rules may be newer than the change."""
    _refuse(new_secrets(git, base, end))


def _refuse(added: list[AddedSecret]) -> None:
    for secret in added:
        if secret.finding.grade == "certain":
            raise SecretLeak(
                f"{secret.finding.rule} added by the patch: {secret.path}, line {secret.line}"
                f" (fingerprint {secret.finding.fingerprint})",
                next_step="remove the secret from what the steps write and revoke it: it was exposed",
            )


class RedactedPatch:
    """Redacts a streamed patch for people. Encoded lines of binary files are passed on unchanged."""

    def __init__(self, show: Callable[[bytes], None]) -> None:
        self._show = show
        self._scanner = secrets.current_detector().scanner()
        self._splitter = LineSplitter()
        self._binary = False

    def feed(self, chunk: bytes) -> None:
        for piece in self._splitter.feed(chunk):
            self._take(piece)

    def finish(self) -> None:
        for piece in self._splitter.finish():
            self._take(piece)
        self._show(self._scanner.finish())

    def _take(self, piece: LineChunk) -> None:
        if self._binary and piece.begins and piece.text.startswith(b"diff --git "):
            self._binary = False
        if self._binary:
            self._show(piece.whole)
            return
        self._show(self._scanner.feed(piece.whole))
        if piece == (b"GIT binary patch", True, True):
            self._show(self._scanner.finish())
            self._scanner, self._binary = secrets.current_detector().scanner(), True


def touched_files(git: Git, base: str, end: str) -> tuple[TouchedFile, ...]:
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
    old: str | None  # blobs whose content is in the patch
    new: str | None
    path: bytes
    source: bytes | None

    @property
    def blobs(self) -> tuple[str, ...]:
        return tuple(blob for blob in (self.old, self.new) if blob)

    @property
    def side(self) -> Side:
        return Side(self.path, self.old, self.new, self.letter in "AR")


def _changes(git: Git, base: str, end: str) -> Iterator[_Change]:
    for change in tree_diff.compare(git, base, end, "--find-renames"):
        was, now = (
            blob.decode() if mode not in (ABSENT, GITLINK) and change.old_blob != change.blob else None
            for mode, blob in ((change.old_mode, change.old_blob), (change.mode, change.blob))
        )
        yield _Change(change.letter, was, now, change.name, change.source)
