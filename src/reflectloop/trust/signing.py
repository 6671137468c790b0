"""The user's key, outside every project, that signs journals, receipts and remembered results.

Who can write a project's folder can compute any hash in it; without the key nobody can compute a signature.
"""

from __future__ import annotations

import hmac
import os
import secrets as random_bytes
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from reflectloop.errors import NotTrusted
from reflectloop.trust import private_file

_BYTES = 32
_ID = 16  # hex digits of the name of a key
Sign = Callable[[bytes], str]


class SigningKey(NamedTuple):
    """A key with its public name, by which a receipt says who signed it."""

    id: str
    secret: bytes

    def sign(self, purpose: str, content: bytes) -> str:
        """Return the signature of a content; one made for another purpose does not fit."""
        return hmac.digest(self.secret, purpose.encode() + b"\0" + content, "sha256").hex()

    def signer(self, purpose: str) -> Sign:
        return lambda content: self.sign(purpose, content)


_keys: dict[Path, SigningKey] = {}  # by their file: each is read once


def path() -> Path:
    return private_file.state_folder() / "signing.key"


def key() -> SigningKey | None:
    """Return the user's key, which is made on first use; None if the user's state folder cannot be written.

    Raise NotTrusted if another user could have written or read the file.
    """
    place = path()
    if place not in _keys:
        try:
            if not os.path.lexists(place):
                _make(place)
        except OSError:
            return None
        _keys[place] = _parse(private_file.read(place, None, _refusal) or b"")
    return _keys[place]


def lies_in(root: Path) -> bool:
    """Return True if the key is inside a project: whoever writes there may know it."""
    return path().resolve().is_relative_to(root.resolve())


def matches(signature: object, expected: str) -> bool:
    return isinstance(signature, str) and hmac.compare_digest(signature.encode(), expected.encode())


def _make(place: Path) -> None:
    """Write a new key, unless another process was faster: the first one stays."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = place.with_name(f".{place.name}.{os.getpid()}.{random_bytes.token_hex(4)}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(random_bytes.token_hex(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(part, place)
    finally:
        part.unlink(missing_ok=True)


def _parse(raw: bytes) -> SigningKey:
    try:
        secret = bytes.fromhex(raw.decode().strip())
    except ValueError:
        secret = b""
    if len(secret) != _BYTES:
        raise _refusal("it is no key")
    return SigningKey(sha256(b"id\0" + secret).hexdigest()[:_ID], secret)


def _refusal(why: str) -> NotTrusted:
    return NotTrusted(
        f"the key {path()} is not accepted: {why}",
        next_step=f"check it, then remove it ({path()}); what it signed must be verified again",
    )
