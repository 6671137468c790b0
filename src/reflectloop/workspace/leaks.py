"""Looks at what changed before it is stored: a secret that was not there before never becomes an object on disk."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from reflectloop import secrets
from reflectloop.errors import InvalidInput, SecretLeak
from reflectloop.secrets import Finding
from reflectloop.world import files
from reflectloop.world.git import Git

_CHUNK = 1 << 20
_LONGEST = 8 << 20  # of a message or a reflog


def refuse(source: Git, names: list[bytes]) -> None:
    """Raise SECRET_LEAK when a changed file holds a certain secret that its recorded version does not."""
    root = os.fsencode(source.work_tree or "")
    for name in names:
        _refuse(secrets.current().scan(name), "the name of a file")
        found = _certain(_scan_file(root + b"/" + name))
        if found:
            known = {old.fingerprint for old in secrets.current().scan(secrets.narrow(_recorded(source, name)))}
            _refuse(
                [one for one in found if one.fingerprint not in known], secrets.current().redact(files.display(name))
            )


def refuse_messages(repo: Path, since_ns: int) -> None:
    """What commands told the workspace's own git to say: messages and reflogs, read as the plain files they are."""
    for path in _messages(repo / ".git"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:  # noqa: PTH123
                status = os.fstat(descriptor)
                if stat.S_ISREG(status.st_mode) and status.st_ctime_ns >= since_ns:
                    _refuse(secrets.current().scan(file.read(_LONGEST)), f"what git was told ({path.name})")


def _messages(folder: Path) -> Iterator[Path]:
    yield from (folder / name for name in ("COMMIT_EDITMSG", "MERGE_MSG", "TAG_EDITMSG", "config", "packed-refs"))
    for where, _, names in os.walk(folder / "logs"):
        yield from (Path(where, name) for name in names)


def refuse_words(text: str, what: str) -> None:
    """What a person writes on the command line is kept in journals and commits."""
    for one in secrets.current().scan(text.encode("utf-8", "surrogateescape")):
        raise InvalidInput(
            f"{what} holds what looks like a secret ({one.rule}, fingerprint {one.fingerprint}); it would be kept",
            next_step="say it without the secret",
        )


def _refuse(found: list[Finding], where: str) -> None:
    for leak in _certain(found):
        raise SecretLeak(
            f"{leak.rule} in {where}, line {leak.line} (fingerprint {leak.fingerprint})",
            next_step="take the secret out of what the steps write, and change it: it was exposed",
        )


def _certain(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.grade == "certain"]


def _scan_file(path: bytes) -> list[Finding]:
    if os.path.islink(path):  # noqa: PTH114 - bytes names
        return secrets.current().scan(os.readlink(path))  # noqa: PTH115
    if not os.path.isfile(path):  # noqa: PTH113
        return []
    scanner = secrets.current().scanner()
    with open(path, "rb") as file:  # noqa: PTH123
        while chunk := file.read(_CHUNK):
            scanner.feed(secrets.narrow(chunk))
    scanner.finish()
    return scanner.findings


def _recorded(source: Git, name: bytes) -> bytes:
    return source.attempt("cat-file", "blob", f":{os.fsdecode(name)}").stdout
