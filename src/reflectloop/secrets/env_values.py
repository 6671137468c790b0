"""The caller's own secrets: values of variables with telling names, in the forms a program prints them in."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from reflectloop.secrets import wordlikeness
from reflectloop.secrets.matcher import AHEAD, Exact
from reflectloop.secrets.validators import is_placeholder

RULE = "environment-value"
_LEAST = 12
_STRONG = frozenset(
    "token tokens secret secrets password passwd passphrase pwd credential credentials creds apikey jwt".split()
)
_WEAK = frozenset("key keys pass auth cookie bearer dsn".split())
_ENDINGS = ("token", "secret", "password", "passwd", "apikey")
_NOT_SECRET = frozenset(
    "public pub fingerprint id name names file path dir url uri sock socket host port user type".split()
)
_PLACES = (["pwd"], ["oldpwd"], ["init", "pwd"])  # where a shell or a package manager stands
_HARMLESS = re.compile(
    r"(?:[/~.]|[A-Za-z]:[\\/])[^\s:@]*(?::[/~.][^\s@]*)*\Z|https?://[^@\s]*\Z|[\d\s.,:-]*\Z|(.)\1*\Z"
)
_GPG_KEY = re.compile(r"(?:[0-9A-F]{40}\s*)+\Z")  # images of languages carry the key that signed them


def values(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """What must never be seen; a value of several lines is looked for line by line."""
    found = [
        line.strip().encode("utf-8", "surrogateescape")[:AHEAD]
        for name, value in environment.items()
        if (promise := _promise(name)) and not _GPG_KEY.match(value)
        for line in value.splitlines()
        if _is_secret(line.strip(), promise)
    ]
    return tuple(dict.fromkeys(found))


def _promise(name: str) -> int:
    """2 for a name that promises a secret, 1 for one that may hold one, 0 for any other."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    if not words or words[-1] in _NOT_SECRET or "public" in words or words in _PLACES:
        return 0
    if any(word in _STRONG or word.endswith(_ENDINGS) for word in words):
        return 2
    return int(any(word in _WEAK for word in words))


def _is_secret(value: str, promise: int) -> bool:
    raw = value.encode("utf-8", "surrogateescape")
    if len(value) < _LEAST or _HARMLESS.match(value) or is_placeholder(raw):
        return False
    ordinary = value.isalpha() and wordlikeness.strangeness(raw) < wordlikeness.STRANGE
    alike = ordinary or wordlikeness.wordiness(raw) >= 0.9  # noqa: PLR2004
    is_words = alike and not any(letter.isdigit() for letter in value)
    # `AUTH_MODE=password-based-login` is no secret; a passphrase of several words is one.
    return not is_words or (promise == 2 and not value.isalpha())  # noqa: PLR2004


def forms(value: bytes) -> Iterator[Exact]:
    """The value as it is, in base64 at each alignment, for addresses, and in hex."""
    texts = [value, *_base64(value), value.hex().encode(), value.hex().upper().encode()]
    escaped = quote(value, safe="").encode()
    texts += [escaped, re.sub(rb"%[0-9A-F]{2}", lambda found: found[0].lower(), escaped)]
    texts.append(value.replace(b"\\", b"\\\\").replace(b'"', b'\\"'))  # in JSON
    return (Exact(text, RULE) for text in dict.fromkeys(texts) if len(text) >= _LEAST)


def _base64(value: bytes) -> Iterator[bytes]:
    for offset, unsure in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(b"\0" * offset + value).rstrip(b"=")
        text = text[unsure : -1 if (offset + len(value)) % 3 else None]
        yield text
        yield text.replace(b"+", b"-").replace(b"/", b"_")
