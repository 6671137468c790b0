"""Hashes the git objects of a change again: git itself does not compare an object with its name when it reads one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reflectloop.system.git import Git, GitFailed

_AT_ONCE = 32 << 20  # bytes of objects that are read by one git process
_TREE, _REPOSITORY = b"40000", b"160000"


class _Entry(NamedTuple):
    mode: bytes
    name: str  # of the object


def first_fault(git: Git, object_format: str, base: str, end: str) -> str | None:
    """Return what is wrong with the first object whose content is not that of its name; None if all fit.

    Objects that are the same in both trees are not read: the change does not contain them.
    """
    reader = _Reader(git, object_format, 20 if object_format == "sha1" else 32)
    try:
        blobs = reader.changed_blobs(base, end)
        for _ in reader.read(blobs, b"blob"):
            pass
    except _WrongObject as fault:
        return str(fault)
    except GitFailed as fault:
        return f"an object of the change cannot be read: {fault}"
    return None


class _WrongObject(Exception):
    pass


class _Reader(NamedTuple):
    git: Git
    algorithm: str
    id_bytes: int

    def changed_blobs(self, base: str, end: str) -> list[str]:
        """Return every blob that only one of the two trees has in its place, after hashing all trees on the way."""
        blobs: dict[str, None] = {}
        pairs: list[tuple[str | None, str | None]] = [(base, end)]
        while pairs:
            wanted = dict.fromkeys(name for pair in pairs for name in pair if name)
            trees = {name: self._entries(content) for name, content in self.read(wanted, b"tree")}
            deeper: list[tuple[str | None, str | None]] = []
            for old, new in pairs:
                sides = (trees.get(old or "", {}), trees.get(new or "", {}))
                for path in {*sides[0], *sides[1]}:
                    before, after = (side.get(path) for side in sides)
                    if before == after:
                        continue
                    both = [entry if entry and entry.mode == _TREE else None for entry in (before, after)]
                    if any(both):
                        deeper.append((both[0] and both[0].name, both[1] and both[1].name))
                    plain = (entry for entry in (before, after) if entry and entry.mode not in (_TREE, _REPOSITORY))
                    blobs.update(dict.fromkeys(entry.name for entry in plain))
            pairs = deeper
        return list(blobs)

    def read(self, names: Iterable[str], kind: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield each object with its content, which was compared with its name."""
        for part in self._parts(list(names)):
            raw = self.git.run("cat-file", "--batch", stdin="".join(f"{name}\n" for name in part).encode())
            at = 0
            for name in part:
                line = raw.index(b"\n", at)
                head = raw[at:line].split()
                if len(head) != 3 or head[1] != kind:  # noqa: PLR2004 - name, kind and size
                    raise _WrongObject(f"object {name} is missing or no {kind.decode()}")
                content = raw[line + 1 : line + 1 + int(head[2])]
                at = line + int(head[2]) + 2
                hashed = hashlib.new(self.algorithm, b"%s %d\0" % (kind, len(content)), usedforsecurity=False)
                hashed.update(content)
                if hashed.hexdigest() != name:
                    raise _WrongObject(f"object {name} has another content than its name says: it was replaced")
                yield name, content

    def _parts(self, names: list[str]) -> Iterator[list[str]]:
        """Yield the names in parts whose contents fit into memory together."""
        if not names:
            return
        request = "".join(f"{name}\n" for name in names).encode()
        lines = self.git.run("cat-file", "--batch-check", stdin=request).decode().splitlines()
        part: list[str] = []
        room = _AT_ONCE
        for name, line in zip(names, lines, strict=True):
            size = int(line.split()[2]) if len(line.split()) == 3 else 0  # noqa: PLR2004
            if part and size > room:
                yield part
                part, room = [], _AT_ONCE
            part.append(name)
            room -= size
        yield part

    def _entries(self, tree: bytes) -> dict[bytes, _Entry]:
        entries, at = {}, 0
        while at < len(tree):
            end = tree.index(b"\0", at)
            mode, path = tree[at:end].split(b" ", 1)
            at = end + 1 + self.id_bytes
            entries[path] = _Entry(mode, tree[end + 1 : at].hex())
        return entries
