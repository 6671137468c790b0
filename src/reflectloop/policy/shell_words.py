"""What a shell makes of quotes, escapes and braces. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_IN_QUOTES = re.compile(r"\\([$`\"\\\n])")
_ANSI = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_NAMES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_BRACES = re.compile(r"(?<!\$)\{([^{}]*,[^{}]*)\}")
_MOST = 64  # words that one brace may become
_LONGEST = 2000  # characters of a word with braces


def plain(text: str) -> str:
    """A bare word without its backslashes."""
    return _ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text) if "\\" in text else text


def quoted(text: str) -> str:
    """The inside of double quotes."""
    return _IN_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], text) if "\\" in text else text


def ansi(text: str) -> str:
    """The inside of `$'…'`."""
    return _ANSI.sub(_ansi, text)


def _ansi(found: re.Match[str]) -> str:
    said = found[1]
    if said[0] in "xuU" and len(said) > 1:
        return _character(said[1:], 16)
    if said[0] in "01234567":
        return _character(said, 8)
    return _ANSI_NAMES.get(said, said)


def _character(digits: str, base: int) -> str:
    number = int(digits, base)
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else ""  # noqa: PLR2004


def braces(text: str) -> Iterator[str]:
    """`a{b,c}` as `ab`, `ac`."""
    if len(text) > _LONGEST:
        yield text
        return
    waiting, given = [text], 0
    while waiting and given < _MOST:
        one = waiting.pop()
        found = _BRACES.search(one)
        if found is None or len(waiting) > _MOST:
            given += 1
            yield one
        else:
            parts = found[1].split(",")[:_MOST]
            waiting += [one[: found.start()] + part + one[found.end() :] for part in reversed(parts)]
