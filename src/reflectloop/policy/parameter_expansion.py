"""What `${name…}` makes of a value: parts of it, replacements, other case. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence

from reflectloop.policy import shell_words

_LONGEST = 2000  # characters of a value that is worked on
_ROOTED = frozenset(("HOME", "PATH", "PWD", "OLDPWD", "SHELL"))  # variables that begin with a slash on every machine


def applied(value: str, operators: Sequence[str], operands: Sequence[str]) -> str | None:
    """Return the value after one operation; None where it is not worked out."""
    operation = _OPERATIONS.get(operators[0])
    if operation is None or len(value) > _LONGEST:
        return None
    return operation(value, operators, operands)


def first_character(name: str, operators: Sequence[str], operands: Sequence[str]) -> str | None:
    """Return what `${HOME:0:1}` gives on every machine."""
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
    return shell_words.ansi(value) if operators[1:2] in (["E"], ["P"]) else value


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
