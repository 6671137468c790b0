"""Looks at what changed before it is stored: a secret that was not there before never becomes an object on disk."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from reflectloop import secrets
from reflectloop.errors import InvalidInput, SecretLeak
from reflectloop.secrets import SecretFinding, content
from reflectloop.system import beneath, files, tree_walk
from reflectloop.system.git import Git

_CHUNK = 1 << 20
_HOLE = bytes(64)
_MOST = 1000  # reflogs
_LONGEST = 8 << 20  # of a message or a reflog
_MESSAGES = ("COMMIT_EDITMSG", "MERGE_MSG", "TAG_EDITMSG", "config", "packed-refs")


def refuse(source: Git, names: list[bytes]) -> None:
    """Raise SECRET_LEAK when a changed file holds a certain secret that its recorded version does not."""
    with tree_walk.opened(source.work_tree or Path()) as top:
        for name in names:
            _refuse(secrets.current().scan(name), "the name of a file")
            found = _certain(_scan_file(source, name, top))
            if found:
                known = {old.fingerprint for old in content.scan(secrets.current(), _recorded(source, name))}
                new = [one for one in found if one.fingerprint not in known]
                _refuse(new, secrets.current().redact(files.display(name)))


def refuse_messages(repo: Path, since_ns: int) -> None:
    """Refuse secrets in what commands told the workspace's own git to say: messages and reflogs.

    Links in there are a command's own making and may lead anywhere: none is followed.
    """
    with contextlib.ExitStack() as held:
        try:
            top = held.enter_context(tree_walk.opened(repo))
            git = held.enter_context(beneath.open_folder(top, [".git"]))
        except (FileNotFoundError, beneath.NotPlain):
            return
        for name in _MESSAGES:
            _refuse_message(name, git, since_ns)
        try:
            logs = held.enter_context(beneath.open_folder(git, ["logs"]))
        except (FileNotFoundError, PermissionError, beneath.NotPlain):
            return
        for folder in tree_walk.walk(logs, passing=(OSError,)):
            for entry in folder.entries:
                _refuse_message(entry.name, folder.fd, since_ns)


def _refuse_message(name: str, beside: int, since_ns: int) -> None:
    with contextlib.suppress(OSError), beneath.open_file(beside, name) as file:
        if os.fstat(file.fileno()).st_ctime_ns >= since_ns:
            _refuse(secrets.current().scan(file.read(_LONGEST)), f"what git was told ({name})")


def refuse_words(text: str, what: str) -> None:
    """What a person writes on the command line is kept in journals and commits."""
    for one in secrets.current().scan(text.encode("utf-8", "surrogateescape")):
        raise InvalidInput(
            f"{what} holds what looks like a secret ({one.rule}, fingerprint {one.fingerprint}); it would be kept",
            next_step="say it without the secret",
        )


def _refuse(found: list[SecretFinding], where: str) -> None:
    for leak in _certain(found):
        raise SecretLeak(
            f"{leak.rule} in {where}, line {leak.line} (fingerprint {leak.fingerprint})",
            next_step="take the secret out of what the steps write, and change it: it was exposed",
        )


def _certain(found: list[SecretFinding]) -> list[SecretFinding]:
    return [one for one in found if one.grade == "certain"]


def _scan_file(source: Git, name: bytes, top: int) -> list[SecretFinding]:
    try:
        mode = os.lstat(name, dir_fd=top).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return []  # deleted
    if stat.S_ISLNK(mode):
        return secrets.current().scan(os.readlink(name, dir_fd=top))
    if not stat.S_ISREG(mode):
        return []
    reader = content.Reader(secrets.current())
    with beneath.open_file(top, os.fsdecode(name)) as file:
        for chunk in _pieces(file):
            source.time_left(f"looking for secrets in {files.display(name)}")
            reader.feed(chunk)
    return reader.finish()


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a file piece by piece; a hole of any size, which is nothing but zeros, is one short piece.

    Reading holes would take minutes for a file that a command made in no time.
    """
    last = 0
    for begin, end in beneath.stretches(file.fileno()):
        if begin > last:
            yield _HOLE
        last = begin
        while last < end and (chunk := os.pread(file.fileno(), min(_CHUNK, end - last), last)):
            last += len(chunk)
            yield chunk
        if last < end:  # it became shorter meanwhile
            return


def _recorded(source: Git, name: bytes) -> bytes:
    return source.attempt("cat-file", "blob", f":{os.fsdecode(name)}").stdout
