"""Looks at what changed before it is stored: a secret that was not there before never becomes an object on disk."""

from __future__ import annotations

import os

from reflectloop import secrets
from reflectloop.errors import SecretLeak
from reflectloop.secrets import Finding
from reflectloop.world import files
from reflectloop.world.git import Git

_CHUNK = 1 << 20


def refuse(source: Git, names: list[bytes]) -> None:
    """Raise SECRET_LEAK when a changed file holds a certain secret that its recorded version does not."""
    root = os.fsencode(source.work_tree or "")
    for name in names:
        _refuse(secrets.current().scan(name), "the name of a file")
        found = _certain(_scan_file(root + b"/" + name))
        if found:
            known = {old.fingerprint for old in secrets.current().scan(_recorded(source, name))}
            _refuse(
                [one for one in found if one.fingerprint not in known], secrets.current().redact(files.display(name))
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
            scanner.feed(chunk)
    scanner.finish()
    return scanner.findings


def _recorded(source: Git, name: bytes) -> bytes:
    return source.attempt("cat-file", "blob", f":{os.fsdecode(name)}").stdout
