"""Resolve quotes, escapes, braces and parameter expansions `${name…}` as a shell does. Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence

from reflectloop.system import patterns

_ESCAPED = patterns.lazy(r"\\(\n|.)", re.DOTALL)
_IN_QUOTES = patterns.lazy(r"\\([$`\"\\\n])")
_ANSI = patterns.lazy(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_NAMES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_BRACES = patterns.lazy(r"(?<!\$)\{([^{}]*,[^{}]*)\}")
_MOST = 64  # words that one brace expression may expand to
_LONGEST = 2000  # characters of a word with braces


def plain(text: str) -> str:
    """Return a bare word without its backslashes."""
    return _ESCAPED.sub(lambda match: "" if match[1] == "\n" else match[1], text) if "\\" in text else text


def quoted(text: str) -> str:
    """Return the inside of double quotes, unescaped."""
    return _IN_QUOTES.sub(lambda match: "" if match[1] == "\n" else match[1], text) if "\\" in text else text


def ansi(text: str) -> str:
    """Return the inside of `$'…'`, unescaped."""
    return _ANSI.sub(_ansi, text)


def _ansi(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "xuU" and len(escape) > 1:
        return _character(escape[1:], 16)
    if escape[0] in "01234567":
        return _character(escape, 8)
    return _ANSI_NAMES.get(escape, escape)


def _character(digits: str, base: int) -> str:
    number = int(digits, base)
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else ""  # noqa: PLR2004


def braces(text: str) -> Iterator[str]:
    """Yield the expansions of braces: `a{b,c}` gives `ab` and `ac`."""
    if len(text) > _LONGEST:
        yield text
        return
    waiting, count = [text], 0
    while waiting and count < _MOST:
        word = waiting.pop()
        match = _BRACES.search(word)
        if match is None or len(waiting) > _MOST:
            count += 1
            yield word
        else:
            parts = match[1].split(",")[:_MOST]
            waiting += [word[: match.start()] + part + word[match.end() :] for part in reversed(parts)]


_LONGEST_VALUE = 2000  # characters; a longer value is not computed
_ROOTED = frozenset(("HOME", "PATH", "PWD", "OLDPWD", "SHELL"))  # variables that start with a slash on every machine


def expanded(value: str, operators: Sequence[str], operands: Sequence[str]) -> str | None:
    """Return the value after one operation, or None if it cannot be computed."""
    operation = _OPERATIONS.get(operators[0])
    if operation is None or len(value) > _LONGEST_VALUE:
        return None
    return operation(value, operators, operands)


def first_character(name: str, operators: Sequence[str], operands: Sequence[str]) -> str | None:
    """Return the value of `${HOME:0:1}` and similar, which is the same on every machine; else None."""
    return "/" if name in _ROOTED and operators[:1] == [":"] and list(operands) == ["0", "1"] else None


def _substring(value: str, _: Sequence[str], operands: Sequence[str]) -> str | None:
    try:
        numbers = [int(text) for text in operands[:2]]
    except ValueError:
        return None
    if not numbers:
        return None
    rest = value[numbers[0] :]
    return rest[: numbers[1]] if len(numbers) > 1 else rest


def _replaced(value: str, operators: Sequence[str], operands: Sequence[str]) -> str | None:
    old, new = operands[0] if operands else "", operands[1] if len(operands) > 1 else ""
    if not old or any(mark in old for mark in "*?["):
        return None
    return value.replace(old, new) if operators[0] == "//" else value.replace(old, new, 1)


def _without_start(value: str, operators: Sequence[str], operands: Sequence[str]) -> str:
    pattern = operands[0] if operands else ""
    cuts = range(len(value) + 1) if operators[0] == "#" else range(len(value), -1, -1)
    return next((value[cut:] for cut in cuts if _fits(value[:cut], pattern)), value)


def _without_end(value: str, operators: Sequence[str], operands: Sequence[str]) -> str:
    pattern = operands[0] if operands else ""
    cuts = range(len(value), -1, -1) if operators[0] == "%" else range(len(value) + 1)
    return next((value[:cut] for cut in cuts if _fits(value[cut:], pattern)), value)


def _fits(text: str, pattern: str) -> bool:
    return text == pattern if not any(mark in pattern for mark in "*?[") else fnmatch.fnmatchcase(text, pattern)


def _escapes(value: str, operators: Sequence[str], _: Sequence[str]) -> str | None:
    return ansi(value) if operators[1:2] in (["E"], ["P"]) else value


_OPERATIONS: dict[str, Callable[[str, Sequence[str], Sequence[str]], str | None]] = {
    ":": _substring,
    "/": _replaced,
    "//": _replaced,
    "#": _without_start,
    "##": _without_start,
    "%": _without_end,
    "%%": _without_end,
    "^": lambda value, *_: value[:1].upper() + value[1:],
    "^^": lambda value, *_: value.upper(),
    ",": lambda value, *_: value[:1].lower() + value[1:],
    ",,": lambda value, *_: value.lower(),
    "@": _escapes,
}
