"""Trees put together from other trees, in the store, without a checkout."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import InvalidInput
from reflectloop.verify.result import Change
from reflectloop.workspace.project import KEPT_OUT
from reflectloop.workspace.store import Store
from reflectloop.world import files
from reflectloop.world.git import Git

_ABSENT = "000000"
_LINK_TO_REPOSITORY = "160000"
_READ_WHOLE = 4 << 20  # of a file; what is larger is no source and no test anybody wrote by hand
_ABSOLUTE = re.compile(
    rb"^(?:--- /(?!dev/null).*\n\+\+\+ |--- .*\n\+\+\+ /(?!dev/null))", re.MULTILINE
)  # git would strip the slash
_TOO_LARGE = b"\0"  # stands for such content: no reader takes it for text


class Entry(NamedTuple):
    mode: str
    blob: str


@dataclass(frozen=True)
class Trees:
    """`objects` takes what is new; `scratch` holds indexes for as long as one tree is being made."""

    store: Store
    scratch: Path
    objects: Path
    _listed: dict[str, dict[str, Entry]] = field(default_factory=dict, repr=False)

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

    def listing(self, tree: str) -> Mapping[str, Entry]:
        """Every file of a tree; a tree never changes, so it is asked for once."""
        if tree not in self._listed:
            lines = self.git.run("ls-tree", "-r", "-z", tree).split(b"\0")[:-1]
            self._listed[tree] = dict(map(_entry, lines))
        return self._listed[tree]

    def read(self, tree: str, path: str) -> bytes | None:
        """A file's content; None where there is none, or it is no plain file."""
        found = self.listing(tree).get(path)
        if found is None or found.mode == _LINK_TO_REPOSITORY:
            return None
        return self.contents([found.blob])[found.blob]

    def contents(self, blobs: Sequence[str]) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(blobs))
        if not wanted:
            return {}
        asked = "".join(f"{blob}\n" for blob in wanted).encode()
        sizes = self.git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked).decode().splitlines()
        small = [line.split()[0] for line in sizes if int(line.split()[1]) <= _READ_WHOLE]
        out = dict.fromkeys(wanted, _TOO_LARGE)
        raw = self.git.run("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in small).encode())
        at = 0
        while at < len(raw):
            end = raw.index(b"\n", at)
            name, _, size = raw[at:end].decode().split()
            out[name] = raw[end + 1 : end + 1 + int(size)]
            at = end + int(size) + 2
        return out

    def changes(self, base: str, head: str) -> list[Change]:
        """Every file that differs, with both contents."""
        rows = list(_rows(self.git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", base, head)))
        plain = [entry for _, *sides in rows for entry in sides if entry.mode not in (_ABSENT, _LINK_TO_REPOSITORY)]
        held = self.contents([entry.blob for entry in plain])

        def content(entry: Entry) -> bytes | None:
            return None if entry.mode == _ABSENT else held.get(entry.blob, entry.blob.encode())

        return [Change(path, content(old), content(new), old.mode, new.mode) for path, old, new in rows]

    def laid_over(self, tree: str, source: str, paths: Sequence[str]) -> str:
        """`tree` with each of `paths` as it is in `source`, which may be: not there."""
        if not paths:
            return tree
        known = self.listing(source)
        nothing = Entry("0", "0" * (64 if self.store.object_format == "sha256" else 40))
        lines = [(known.get(path, nothing), path) for path in paths]
        lines.sort(key=lambda line: line[0] is not nothing)  # what goes makes room for what comes
        told = b"".join(f"{entry.mode} {entry.blob}\t".encode() + os.fsencode(path) + b"\0" for entry, path in lines)
        with self._index() as git:
            git.run("read-tree", tree)
            git.run("update-index", "--replace", "-z", "--index-info", stdin=told)
            return git.line("write-tree")

    def patched(self, base: str, patch: Path) -> str:
        """`base` with a patch file applied; git itself refuses paths that lead out."""
        if _ABSOLUTE.search(patch.read_bytes()):
            raise InvalidInput(f"{patch} names an absolute path", next_step="make the patch anew with `git diff`")
        with self._index() as git:
            git.run("read-tree", base)
            done = git.attempt("apply", "--cached", "--whitespace=nowarn", "--binary", os.fspath(patch.resolve()))
            if done.code:
                said = done.stderr.decode("utf-8", "replace").strip().splitlines()
                raise InvalidInput(
                    f"{patch} does not apply to the base: {'; '.join(said[:3]).removeprefix('error: ')}",
                    next_step="make the patch anew with `git diff --binary BASE`, or name its base with --base REV",
                )
            return git.line("write-tree")

    def refuse_kept_out(self, base: str, head: str) -> None:
        """A patch has no business in what is ours."""
        names = self.git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, head, "--", *KEPT_OUT)
        if names:
            shown = ", ".join(files.display(name) for name in names.split(b"\0")[:3] if name)
            raise InvalidInput(f"the patch changes what belongs to the engine: {shown}", next_step="leave it out")


def _rows(raw: bytes) -> Iterator[tuple[str, Entry, Entry]]:
    fields = iter(raw.split(b"\0"))
    for entry in fields:
        if entry:
            before, after, old, new, _ = entry.decode().removeprefix(":").split()
            yield os.fsdecode(next(fields)), Entry(before, old), Entry(after, new)


def _entry(line: bytes) -> tuple[str, Entry]:
    head, name = line.split(b"\t", 1)
    mode, _, blob = head.decode().split()
    return os.fsdecode(name), Entry(mode, blob)
