"""The caller's own secrets: values of variables with telling names, in the forms a program prints them in."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from reflectloop.secrets import language
from reflectloop.secrets.checks import is_placeholder
from reflectloop.secrets.matcher import AHEAD, Exact

RULE = "environment-value"
_LEAST = 12
_NAMES = frozenset(
    "key keys token tokens secret secrets password passwd passphrase pass pwd credential credentials creds auth "
    "apikey jwt cookie bearer dsn".split()
)
_ENDINGS = ("token", "secret", "password", "passwd", "apikey")
_NOT_SECRET = frozenset(
    "public pub fingerprint id name names file path dir url uri sock socket host port user type".split()
)
_HARMLESS = re.compile(
    r"(?:[/~.]|[A-Za-z]:[\\/])[^\s:@]*(?::[/~.][^\s@]*)*\Z|https?://[^@\s]*\Z|[\d\s.,:-]*\Z|(.)\1*\Z"
)
_GPG_KEY = re.compile(r"(?:[0-9A-F]{40}\s*)+\Z")  # images of languages carry the key that signed them


def values(environment: Mapping[str, str]) -> tuple[bytes, ...]:
    """What must never be seen; a value of several lines is looked for line by line."""
    found = [value for name, value in environment.items() if _telling(name) and not _GPG_KEY.match(value)]
    lines = (line.strip() for value in found for line in value.splitlines())
    return tuple(dict.fromkeys(line.encode("utf-8", "surrogateescape")[:AHEAD] for line in lines if _is_secret(line)))


def _telling(name: str) -> bool:
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
    if not words or words[-1] in _NOT_SECRET or "public" in words:
        return False
    return any(word in _NAMES or word.endswith(_ENDINGS) for word in words)


def _is_secret(value: str) -> bool:
    if len(value) < _LEAST or _HARMLESS.match(value) or is_placeholder(value.encode("utf-8", "surrogateescape")):
        return False
    return not value.isalpha() or language.wordiness(value.encode("utf-8", "replace")) < 1


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
