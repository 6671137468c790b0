"""Scans changes before they are stored, so that a new secret is never written to disk as an object."""

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
_LONGEST = 8 << 20  # bytes of a message or a reflog
_MESSAGES = ("COMMIT_EDITMSG", "MERGE_MSG", "TAG_EDITMSG", "config", "packed-refs")


def refuse_new_secrets(source: Git, names: list[bytes]) -> None:
    """Raise SECRET_LEAK if a changed file contains a certain secret that its recorded version does not."""
    with tree_walk.open_folder(source.work_tree or Path()) as top:
        for name in names:
            _refuse(secrets.current_detector().scan(name), "the name of a file")
            leaks = _certain(_scan_file(source, name, top))
            if leaks:
                known = {
                    old.fingerprint for old in content.scan_content(secrets.current_detector(), _recorded(source, name))
                }
                new = [leak for leak in leaks if leak.fingerprint not in known]
                _refuse(new, secrets.current_detector().redact(files.display(name)))


def refuse_messages(repo: Path, since_ns: int) -> None:
    """Raise SECRET_LEAK for secrets in messages and reflogs of the workspace's git.

    Links there are not followed: a command may have created them.
    """
    with contextlib.ExitStack() as stack:
        try:
            top = stack.enter_context(tree_walk.open_folder(repo))
            git = stack.enter_context(beneath.open_folder(top, [".git"]))
        except (FileNotFoundError, beneath.NotPlain):
            return
        for name in _MESSAGES:
            _refuse_message(name, git, since_ns)
        try:
            logs = stack.enter_context(beneath.open_folder(git, ["logs"]))
        except (FileNotFoundError, PermissionError, beneath.NotPlain):
            return
        for folder in tree_walk.walk(logs, passing=(OSError,)):
            for entry in folder.entries:
                _refuse_message(entry.name, folder.fd, since_ns)


def _refuse_message(name: str, folder: int, since_ns: int) -> None:
    with contextlib.suppress(OSError):
        if os.lstat(name, dir_fd=folder).st_ctime_ns < since_ns:
            return  # most steps leave all of them alone
        with beneath.open_file(folder, name) as file:
            _refuse(secrets.current_detector().scan(file.read(_LONGEST)), f"git's file {name}")


def refuse_secret_text(text: str, what: str) -> None:
    """Raise InvalidInput for a secret in text from the command line, which journals and commits store."""
    for finding in secrets.current_detector().scan(text.encode("utf-8", "surrogateescape")):
        raise InvalidInput(
            f"{what} holds what looks like a secret ({finding.rule}, fingerprint {finding.fingerprint}), to be stored",
            next_step="write it without the secret",
        )


def _refuse(findings: list[SecretFinding], where: str) -> None:
    for leak in _certain(findings):
        raise SecretLeak(
            f"{leak.rule} in {where}, line {leak.line} (fingerprint {leak.fingerprint})",
            next_step="remove the secret from what the steps write and revoke it: it was exposed",
        )


def _certain(findings: list[SecretFinding]) -> list[SecretFinding]:
    return [finding for finding in findings if finding.grade == "certain"]


def _scan_file(source: Git, name: bytes, top: int) -> list[SecretFinding]:
    try:
        mode = os.lstat(name, dir_fd=top).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return []  # deleted
    if stat.S_ISLNK(mode):
        return secrets.current_detector().scan(os.readlink(name, dir_fd=top))
    if not stat.S_ISREG(mode):
        return []
    reader = content.Reader(secrets.current_detector())
    with beneath.open_file(top, os.fsdecode(name)) as file:
        for chunk in _pieces(file):
            source.time_left(f"looking for secrets in {files.display(name)}")
            reader.feed(chunk)
    return reader.finish()


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a file in chunks; a hole of any size becomes one short chunk of zeros.

    Reading the holes of a huge sparse file would take minutes.
    """
    last = 0
    for begin, end in beneath.stretches(file.fileno()):
        if begin > last:
            yield _HOLE
        last = begin
        while last < end and (chunk := os.pread(file.fileno(), min(_CHUNK, end - last), last)):
            last += len(chunk)
            yield chunk
        if last < end:  # the file was truncated meanwhile
            return


def _recorded(source: Git, name: bytes) -> bytes:
    return source.attempt("cat-file", "blob", f":{os.fsdecode(name)}").stdout
