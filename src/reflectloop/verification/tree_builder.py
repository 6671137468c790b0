"""Build git trees from other trees in the store, without a checkout."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import InvalidInput
from reflectloop.system import files
from reflectloop.system.git import Git
from reflectloop.system.patterns import lazy
from reflectloop.verification.changed_file import ChangedFile
from reflectloop.verification.protected import inline_tests
from reflectloop.workspace import tree_diff
from reflectloop.workspace.project import KEPT_OUT, SHARED_RECORDS
from reflectloop.workspace.store import Store
from reflectloop.workspace.tree_diff import TreeChange

_ABSENT = "000000"
_LINK_TO_REPOSITORY = "160000"
_KEPT, _MOST_KEPT = 64 << 10, 2000  # bytes of a blob, blobs
_READ_WHOLE = 4 << 20  # bytes; a larger file is no source or test written by hand
_ABSOLUTE = lazy(
    rb"^(?:--- /(?!dev/null).*\n\+\+\+ |--- .*\n\+\+\+ /(?!dev/null))", re.MULTILINE
)  # git would strip the slash
_TOO_LARGE = b"\0"  # replaces such content; readers treat it as binary


class TreeEntry(NamedTuple):
    """The mode and blob of a file in a tree."""

    mode: str
    blob: str


class ChangedEntry(NamedTuple):
    """A path at which two trees differ."""

    path: str
    old: TreeEntry
    new: TreeEntry

    @property
    def is_new(self) -> bool:
        return self.old.mode == _ABSENT

    @property
    def is_gone(self) -> bool:
        return self.new.mode == _ABSENT


class TreeListing(Mapping[str, TreeEntry]):
    """Every file of a tree, by path in git's order. An entry is made when it is asked for."""

    def __init__(self, lines: dict[str, str]) -> None:
        self._lines = lines  # by path, a text with the mode first and the blob last

    @classmethod
    def read(cls, raw: bytes) -> TreeListing:
        parts = (line.partition("\t") for line in os.fsdecode(raw).split("\0"))
        return cls({path: line for line, _, path in parts if path})

    def changed(self, entries: Iterable[ChangedEntry]) -> TreeListing:
        """Return the listing of a tree that differs at these paths."""
        lines, is_longer = dict(self._lines), False
        for entry in entries:
            path, _, new = entry
            if entry.is_gone:
                del lines[path]
            else:
                is_longer |= path not in lines
                lines[path] = f"{new.mode} {new.blob}"
        return TreeListing({path: lines[path] for path in sorted(lines, key=os.fsencode)} if is_longer else lines)

    def __getitem__(self, path: str) -> TreeEntry:
        mode, _, rest = self._lines[path].partition(" ")
        return TreeEntry(mode, rest.rpartition(" ")[2])

    def __contains__(self, path: object) -> bool:
        return path in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


@dataclass(frozen=True)
class TreeBuilder:
    """A builder of trees.

    `objects` receives new objects; `scratch` has an index while a tree is being built.
    """

    store: Store
    scratch: Path
    objects: Path
    _listed: dict[str, TreeListing] = field(default_factory=dict, repr=False)
    _compared: dict[tuple[str, str], list[ChangedEntry]] = field(default_factory=dict, repr=False)
    _read: dict[str, bytes] = field(default_factory=dict, repr=False)  # contents of small blobs
    _changed: dict[tuple[str, str], list[ChangedFile]] = field(default_factory=dict, repr=False)

    @contextmanager
    def _index(self) -> Iterator[Git]:
        index = self.scratch / f"{uuid.uuid4().hex}.index"
        try:
            yield self.store.git(index=index, objects=self.objects)
        finally:
            index.unlink(missing_ok=True)

    @property
    def git(self) -> Git:
        return self.store.git(objects=self.objects)

    def listing(self, tree: str) -> Mapping[str, TreeEntry]:
        """Return every file of a tree, cached, since a tree never changes."""
        if tree not in self._listed:
            near = next(iter(self._listed), None)  # all trees of a builder belong to one change
            self._listed[tree] = (
                self._listed[near].changed(self.changed_entries(near, tree))
                if near
                else TreeListing.read(self.git.run("ls-tree", "-r", "-z", tree))
            )
        return self._listed[tree]

    def changed_entries(self, base: str, head: str) -> list[ChangedEntry]:
        """Return every path at which two trees differ, cached, without a look at what they have in common."""
        if (base, head) not in self._compared:
            self._compared[base, head] = [_entry(change) for change in tree_diff.compare(self.git, base, head)]
        return self._compared[base, head]

    def read(self, tree: str, path: str) -> bytes | None:
        """Return a file's content, or None if it does not exist or is no plain file."""
        entry = self.listing(tree).get(path)
        if entry is None or entry.mode == _LINK_TO_REPOSITORY:
            return None
        return self.contents([entry.blob])[entry.blob]

    def read_all(self, tree: str, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the content of those of the paths that a tree has as files, read at once."""
        listing = self.listing(tree)
        blobs = {path: listing[path].blob for path in paths if path in listing}
        blobs = {path: blob for path, blob in blobs.items() if listing[path].mode != _LINK_TO_REPOSITORY}
        contents = self.contents(list(blobs.values()))
        return {path: contents[blob] for path, blob in blobs.items()}

    def contents(self, blobs: Sequence[str]) -> dict[str, bytes]:
        """Return the content of each blob, a placeholder for a very large one; small ones are kept."""
        wanted = dict.fromkeys(blobs)
        missing = [blob for blob in wanted if blob not in self._read]
        fresh = self._contents(missing) if missing else {}
        if len(self._read) + len(fresh) <= _MOST_KEPT:
            self._read.update({blob: data for blob, data in fresh.items() if len(data) <= _KEPT})
        return {blob: fresh[blob] if blob in fresh else self._read[blob] for blob in wanted}

    def _contents(self, blobs: Sequence[str]) -> dict[str, bytes]:
        request = "".join(f"{blob}\n" for blob in blobs).encode()
        sizes = (
            self.git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=request).decode().splitlines()
        )
        small = [line.split()[0] for line in sizes if int(line.split()[1]) <= _READ_WHOLE]
        out = dict.fromkeys(blobs, _TOO_LARGE)
        raw = self.git.run("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in small).encode())
        at = 0
        while at < len(raw):
            end = raw.index(b"\n", at)
            name, _, size = raw[at:end].decode().split()
            out[name] = raw[end + 1 : end + 1 + int(size)]
            at = end + int(size) + 2
        return out

    def changes(self, base: str, head: str) -> list[ChangedFile]:
        """Return every file that differs, with both contents, cached, since trees never change."""
        if (base, head) not in self._changed:
            self._changed[base, head] = self._changes(base, head)
        return list(self._changed[base, head])

    def _changes(self, base: str, head: str) -> list[ChangedFile]:
        rows = self.changed_entries(base, head)
        plain = [entry for _, *sides in rows for entry in sides if entry.mode not in (_ABSENT, _LINK_TO_REPOSITORY)]
        contents = self.contents([entry.blob for entry in plain])

        def content(entry: TreeEntry) -> bytes | None:
            return None if entry.mode == _ABSENT else contents.get(entry.blob, entry.blob.encode())

        return [ChangedFile(path, content(old), content(new), old.mode, new.mode) for path, old, new in rows]

    def laid_over(self, tree: str, source: str, paths: Sequence[str]) -> str:
        """Return `tree` with each of `paths` as in `source`, removing those that `source` lacks."""
        if not paths:
            return tree
        known = self.listing(source)
        absent = TreeEntry("0", "0" * (64 if self.store.object_format == "sha256" else 40))
        lines = [(known.get(path, absent), path) for path in paths]
        lines.sort(key=lambda line: line[0] is not absent)  # removals first, so that they do not block additions
        return self._with_entries(tree, lines)

    def with_inline_tests(self, tree: str, source: str, paths: Sequence[str]) -> str:
        """Return `tree` in which the tests inside the sources at `paths` are those of `source`."""
        lines = []
        for path in paths:
            code, tests = self.read(tree, path), self.read(source, path)
            mixed = inline_tests.with_tests_of(tests, code) if code is not None and tests is not None else None
            if mixed is not None:
                blob = self.git.run("hash-object", "-w", "--stdin", stdin=mixed).decode().strip()
                lines.append((TreeEntry(self.listing(tree)[path].mode, blob), path))
        return self._with_entries(tree, lines) if lines else tree

    def with_contents(self, tree: str, contents: Mapping[str, bytes]) -> str:
        """Return `tree` in which these files have other contents, or exist."""
        known, lines = self.listing(tree), []
        for path, content in contents.items():
            blob = self.git.run("hash-object", "-w", "--stdin", stdin=content).decode().strip()
            lines.append((TreeEntry(known[path].mode if path in known else "100644", blob), path))
        return self._with_entries(tree, lines) if lines else tree

    def _with_entries(self, tree: str, lines: Sequence[tuple[TreeEntry, str]]) -> str:
        index_info = b"".join(
            f"{entry.mode} {entry.blob}\t".encode() + os.fsencode(path) + b"\0" for entry, path in lines
        )
        with self._index() as git:
            git.run("read-tree", tree)
            git.run("update-index", "--replace", "-z", "--index-info", stdin=index_info)
            return git.line("write-tree")

    def patched(self, base: str, patch: Path) -> str:
        """Return `base` with a patch file applied; git itself refuses paths outside the tree."""
        if _ABSOLUTE.search(patch.read_bytes()):
            raise InvalidInput(f"{patch} names an absolute path", next_step="create the patch again with `git diff`")
        with self._index() as git:
            git.run("read-tree", base)
            result = git.attempt("apply", "--cached", "--whitespace=nowarn", "--binary", os.fspath(patch.resolve()))
            if result.code:
                lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
                raise InvalidInput(
                    f"{patch} does not apply to the base: {'; '.join(lines[:3]).removeprefix('error: ')}",
                    next_step="create the patch again with `git diff --binary BASE`, or name its base with --base REV",
                )
            return git.line("write-tree")

    def kept_out(self, tree: str) -> list[str]:
        """Return the files of a tree that a snapshot of the working tree leaves out, such as committed lessons."""
        listed = os.fsdecode(self.git.run("ls-tree", "-r", "-z", "--name-only", tree, "--", *KEPT_OUT)).split("\0")
        return [path for path in listed if path.startswith(tuple(f"{folder}/" for folder in KEPT_OUT))]

    def refuse_kept_out(self, base: str, head: str) -> None:
        """Raise InvalidInput if the patch changes files of the engine; lessons and rules are reviewed like code."""
        shared = [f":(exclude){folder}" for folder in SHARED_RECORDS]
        names = tree_diff.changed_names(self.git, base, head, within=(*KEPT_OUT, *shared))
        if names:
            listed = ", ".join(files.display(name) for name in names[:3])
            raise InvalidInput(
                f"the patch changes what belongs to the engine: {listed}", next_step="remove these files from the patch"
            )


def _entry(change: TreeChange) -> ChangedEntry:
    old, new = (change.old_mode, change.old_blob), (change.mode, change.blob)
    before, after = (TreeEntry(mode.decode(), blob.decode()) for mode, blob in (old, new))
    return ChangedEntry(os.fsdecode(change.name), before, after)
