"""Looks through the content of every file that differs between two trees, whatever its form, for new secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from reflectloop import secrets
from reflectloop.secrets import SecretFinding, content
from reflectloop.system import files
from reflectloop.system.git import Git
from reflectloop.workspace.added_lines import AddedSecret

_TOGETHER = 64  # blobs that one call of git reads
_ROOM = 64 << 20  # bytes of blobs that are held at once


class Side(NamedTuple):
    """A file that differs: its name, what it was and what it is; an id is missing where there is no content."""

    path: bytes
    old: str | None
    new: str | None
    is_named_anew: bool


def between(git: Git, sides: Iterable[Side]) -> list[AddedSecret]:
    """Return what the new files hold that their old ones do not; what moves from one file to another is not new."""
    sides = list(sides)
    after = _scan(git, [side.new for side in sides if side.new])
    found = _names(sides)
    if not any(after.values()):
        return found
    before = _scan(git, [side.old for side in sides if side.old])
    moved: set[str] = set()
    for side in sides:
        moved |= _marks(before.get(side.old or "")) - _marks(after.get(side.new or ""))
    for side in sides:
        known = _marks(before.get(side.old or ""))
        for finding in after.get(side.new or "", []):
            gone = finding.grade == "likely" and finding.fingerprint in moved
            if finding.fingerprint not in known and not gone:
                found.append(AddedSecret(_shown(side.path), finding, None, finding.line))
    return found


def _names(sides: list[Side]) -> list[AddedSecret]:
    detector = secrets.current()
    named = [side.path for side in sides if side.is_named_anew]
    return [AddedSecret(_shown(name), finding, None, 0) for name in named for finding in detector.scan(name)]


def _shown(path: bytes) -> str:
    return secrets.current().redact(files.display(path))


def _marks(findings: Iterable[SecretFinding] | None) -> set[str]:
    return {finding.fingerprint for finding in findings or ()}


def _scan(git: Git, blobs: Iterable[str]) -> dict[str, list[SecretFinding]]:
    """Return the findings of each blob; large ones are read on their own, as they come."""
    wanted = list(dict.fromkeys(blobs))
    sizes = _sizes(git, wanted)
    found: dict[str, list[SecretFinding]] = {}
    for group in _groups(sizes):
        if len(group) == 1:
            reader = content.Reader(secrets.current())
            git.stream(reader.feed, "cat-file", "blob", group[0])
            found[group[0]] = reader.finish()
        else:
            answer = git.run("cat-file", "--batch", stdin=_lines(group))
            for blob, data in _split(answer, group, sizes):
                found[blob] = content.scan(secrets.current(), data)
    return found


def _sizes(git: Git, blobs: list[str]) -> dict[str, int]:
    if not blobs:
        return {}
    answer = git.run("cat-file", "--batch-check=%(objectsize)", stdin=_lines(blobs))
    return dict(zip(blobs, map(int, answer.splitlines()), strict=True))


def _lines(blobs: Iterable[str]) -> bytes:
    return "".join(f"{blob}\n" for blob in blobs).encode()


def _groups(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Yield blobs in groups that are small enough to be read at once."""
    group: list[str] = []
    held = 0
    for blob, size in sizes.items():
        if group and (held + size > _ROOM or len(group) >= _TOGETHER):
            yield group
            group, held = [], 0
        group.append(blob)
        held += size
    if group:
        yield group


def _split(answer: bytes, blobs: list[str], sizes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """Yield each blob of an answer of `cat-file --batch`: a line about it, its content, a newline."""
    place = 0
    for blob in blobs:
        begin = answer.index(b"\n", place) + 1
        end = begin + sizes[blob]
        yield blob, answer[begin:end]
        place = end + 1
