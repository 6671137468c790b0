"""The caller's own secrets: values of environment variables with secret-like names, in the forms programs print."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from reflectloop.secrets import wordlikeness
from reflectloop.secrets.matcher import AHEAD, Exact
from reflectloop.secrets.validators import is_placeholder

RULE = "environment-value"
_MIN_LENGTH = 12
_STRONG = frozenset(
    "token tokens secret secrets password passwd passphrase pwd credential credentials creds apikey jwt".split()
)
_WEAK = frozenset("key keys pass auth cookie bearer dsn".split())
_ENDINGS = ("token", "secret", "password", "passwd", "apikey")
_NOT_SECRET = frozenset(
    "public pub fingerprint id name names file path dir url uri sock socket host port user type".split()
)
_FOLDER_NAMES = (["pwd"], ["oldpwd"], ["init", "pwd"])  # names of variables that contain a working directory
_HARMLESS = re.compile(
    r"(?:[/~.]|[A-Za-z]:[\\/])[^\s:@]*(?::[/~.][^\s@]*)*\Z|https?://[^@\s]*\Z|[\d\s.,:-]*\Z|(.)\1*\Z"
)
_GPG_KEY = re.compile(
    r"(?:[0-9A-F]{40}\s*)+\Z"
)  # container images of languages contain the public key that signed them


def values(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return the values that must never be shown; the lines of a long value are separate values."""
    secrets = [
        line.strip().encode("utf-8", "surrogateescape")[:AHEAD]
        for name, value in environment.items()
        if (strength := _name_strength(name)) and not _GPG_KEY.match(value)
        for line in value.splitlines()
        if _is_secret(line.strip(), strength)
    ]
    return tuple(dict.fromkeys(secrets))


def _name_strength(name: str) -> int:
    """Return 2 for a name that means a secret, 1 for a name that may mean one, and 0 for any other."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    if not words or words[-1] in _NOT_SECRET or "public" in words or words in _FOLDER_NAMES:
        return 0
    if any(word in _STRONG or word.endswith(_ENDINGS) for word in words):
        return 2
    return int(any(word in _WEAK for word in words))


def _is_secret(value: str, strength: int) -> bool:
    raw = value.encode("utf-8", "surrogateescape")
    if len(value) < _MIN_LENGTH or _HARMLESS.match(value) or is_placeholder(raw):
        return False
    ordinary = value.isalpha() and wordlikeness.strangeness(raw) < wordlikeness.STRANGE
    like_words = ordinary or wordlikeness.wordiness(raw) >= 0.9  # noqa: PLR2004
    is_words = like_words and not any(letter.isdigit() for letter in value)
    # `AUTH_MODE=password-based-login` is not a secret; a passphrase of several words is.
    return not is_words or (strength == 2 and not value.isalpha())  # noqa: PLR2004


def forms(value: bytes) -> Iterator[Exact]:
    """Yield the value as it is, in base64 at each alignment, URL-encoded, in hex, and escaped for JSON."""
    texts = [value, *_base64(value), value.hex().encode(), value.hex().upper().encode()]
    escaped = quote(value, safe="").encode()
    texts += [escaped, re.sub(rb"%[0-9A-F]{2}", lambda match: match[0].lower(), escaped)]
    texts.append(value.replace(b"\\", b"\\\\").replace(b'"', b'\\"'))  # in JSON
    return (Exact(text, RULE) for text in dict.fromkeys(texts) if len(text) >= _MIN_LENGTH)


def _base64(value: bytes) -> Iterator[bytes]:
    for offset, skipped in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(b"\0" * offset + value).rstrip(b"=")
        text = text[skipped : -1 if (offset + len(value)) % 3 else None]
        yield text
        yield text.replace(b"+", b"-").replace(b"/", b"_")
