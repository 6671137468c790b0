"""Parts of an installation (entries in settings, whole files, a block of text in a page): how each goes in and out."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.errors import InvalidInput
from reflectloop.hooks import json_files
from reflectloop.hooks.fragments import Fragment
from reflectloop.system import beneath
from reflectloop.trust import installed

_LARGEST = 4 << 20  # bytes of a file that is edited
Entry = dict[str, Any]  # what the ledger remembers of one file


class Piece(NamedTuple):
    """The part of an installation in one file: entries, all of its content, or a block of text."""

    path: Path
    fragments: tuple[Fragment, ...] = ()
    content: bytes | None = None
    block: str = ""
    mode: int = 0o666
    unit: str = ""  # files of one unit are written all or not at all, such as those of a skill

    def entered(self, raw: bytes | None, entry: Entry | None) -> bytes:
        """Return the file with this piece in it, instead of the one that the ledger remembers."""
        if self.content is not None:
            return self.content
        if self.block:
            return _with_block(raw, self.block, entry)
        document = json_files.parse(self.path, raw)
        for fragment in remembered_fragments(entry):
            json_files.remove(document, fragment.keys, fragment.value)
        for fragment in self.fragments:
            json_files.add(document, fragment.keys, fragment.value)
        unchanged = raw is not None and json_files.parse(self.path, raw) == document
        return raw if raw is not None and unchanged else json_files.text(document, raw)

    def is_foreign(self, raw: bytes | None, entries: Iterable[Entry]) -> bool:
        """Return True if somebody else wrote, edited or linked the whole file that this piece would replace."""
        if self.content is None:
            return False
        if self.path.is_symlink():
            return True
        if raw is None or raw == self.content:
            return False
        return all(entry["after"] != installed.digest(raw) for entry in entries)

    def faults(self, raw: bytes | None) -> list[str]:
        """Return which entries are not in the file, or that the file is not there or not this one."""
        if raw is None and not self.fragments:
            return [f"{self.path} is missing"]
        if self.content is not None:
            return [] if raw == self.content else [f"{self.path} is of another version"]
        if self.block:
            return [] if self.block.encode() in (raw or b"") else [f"{self.path}: our part is missing or edited"]
        document = json_files.parse(self.path, raw)
        return [
            f"{self.path}: {'.'.join(item.keys)} is missing or edited"
            for item in self.fragments
            if isinstance(item.value, dict) and not json_files.holds(document, item.keys, item.value)
        ]

    def remembered(self) -> Entry:
        """Return the part of the ledger's entry that says what was entered."""
        fragments = [[list(item.keys), item.value] for item in self.fragments]
        return {"fragments": fragments, **({"block": self.block} if self.block else {})}


def read(path: Path) -> bytes | None:
    """Return the content of a file, or None if there is none."""
    try:
        return beneath.read_path(path, _LARGEST)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise InvalidInput(f"{path} cannot be read: {fault.strerror or fault}", next_step=f"look at {path}") from fault


def remembered_fragments(entry: Entry | None) -> list[Fragment]:
    return [Fragment(tuple(keys), value) for keys, value in entry["fragments"]] if entry else []


def taken_out(path: Path, raw: bytes | None, entry: Entry) -> tuple[bytes | None, list[str]]:
    """Return the file without what was entered, and what somebody edited and we leave there."""
    before = decoded(entry["before"])
    if raw == before or installed.digest(raw) == entry["after"]:
        return before, []
    if entry["fragments"]:
        return _without_fragments(path, raw, entry)
    block = str(entry.get("block") or "").encode()
    if block and raw is not None and raw.count(block) == 1:
        return raw.replace(block, b"") or None, []
    return raw, [] if raw is None else [os.fspath(path)]


def _without_fragments(path: Path, raw: bytes | None, entry: Entry) -> tuple[bytes | None, list[str]]:
    document = json_files.parse(path, raw)
    left = []
    for fragment in remembered_fragments(entry):
        if not json_files.holds(document, fragment.keys, fragment.value):
            left.append(".".join(fragment.keys))
        json_files.remove(document, fragment.keys, fragment.value)
    return (json_files.text(document, raw) if document or raw is None else None), left


def _with_block(raw: bytes | None, block: str, entry: Entry | None) -> bytes:
    text = (raw or b"").decode("utf-8", "surrogateescape")
    if block in text:
        return text.encode("utf-8", "surrogateescape")
    old = str((entry or {}).get("block") or "")
    text = text.replace(old, block) if old and text.count(old) == 1 else text + block
    return text.encode("utf-8", "surrogateescape")


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
