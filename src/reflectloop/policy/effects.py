"""Finds what a builtin leaves behind for the rest of the line: variables, parameters, aliases, other programs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from reflectloop.policy import options
from reflectloop.policy.scope import Scope, Values
from reflectloop.policy.simple_command import ShellWord, SimpleCommand

BLANKS = " \t\n"
_READ_TAKING = frozenset("-d -i -n -N -p -t -u -a".split())
_MAPFILE_TAKING = frozenset("-d -n -O -s -u -C -c".split())
_MOST = 64  # words that one line of input is split into


class Effect(NamedTuple):
    """A name and its values; `array` says that it is a list."""

    name: str
    values: Values
    array: bool = False


def fields(text: str, separators: str) -> list[str]:
    """Return a text split as the shell splits it."""
    if not separators:
        return [text]
    if separators == BLANKS:
        return text.split()
    parts = re.split(f"[{re.escape(separators)}]", text)
    return [part.strip() if " " in separators else part for part in parts if part]


def of(one: SimpleCommand, separators: str, scope: Scope) -> Iterator[Effect]:
    """Yield what a command sets."""
    if one.program == "read":
        yield from _read(one, separators)
    elif one.program in ("mapfile", "readarray"):
        yield from _mapfile(one)
    elif one.program == "printf":
        yield from _printf(one)
    elif one.program == "set":
        yield from _set(one)
    elif one.program == "shift":
        yield Effect("@", scope.array("@")[1:], array=True)


def _unread(name: str) -> ShellWord:
    return ShellWord(f"${{{name}}}", known=False, made_by=("read",))


def _read(one: SimpleCommand, separators: str) -> Iterator[Effect]:
    given = options.split(one.words[1:], _READ_TAKING)
    text = one.feed.text if one.feed else None
    array = given.value("-a")
    names = [array] if array else [word.text for word in given.rest] or ["REPLY"]
    if text is None:
        yield from (Effect(name, (_unread(name),), array=bool(array)) for name in names)
        return
    if array:
        yield Effect(array, tuple(ShellWord(part) for part in fields(text.split("\n")[0], separators)), array=True)
        return
    lines = [line for line in text.split("\n") if line.strip()][:16] or [""]
    for at, name in enumerate(names):
        last = at == len(names) - 1
        yield Effect(name, tuple(ShellWord(_part(line, at, separators, last=last)) for line in lines))


def _part(line: str, at: int, separators: str, *, last: bool) -> str:
    """Return the piece of a line that the variable at a position gets; the last one gets the rest."""
    if at == 0 and last:
        return line.strip()
    parts = fields(line, separators)
    return " ".join(parts[at:]) if last else "".join(parts[at : at + 1])


def _mapfile(one: SimpleCommand) -> Iterator[Effect]:
    given = options.split(one.words[1:], _MAPFILE_TAKING)
    name = given.rest[0].text if given.rest else "MAPFILE"
    text = one.feed.text if one.feed else None
    if text is None:
        yield Effect(name, (_unread(name),), array=True)
    else:
        between = given.value("-d") or "\n"
        yield Effect(name, tuple(ShellWord(line) for line in text.split(between)[:_MOST] if line), array=True)


def _printf(one: SimpleCommand) -> Iterator[Effect]:
    """`printf -v name …` puts what it prints into a variable."""
    from reflectloop.policy import output  # noqa: PLC0415 - it asks this module's neighbours in turn

    if one.texts[1:2] == ["-v"] and len(one.words) > 3:  # noqa: PLR2004
        text = output.of(one._replace(words=(one.words[0], *one.words[3:]))).text
        yield Effect(one.words[2].text, (ShellWord(text) if text is not None else _unread(one.words[2].text),))


def _set(one: SimpleCommand) -> Iterator[Effect]:
    texts = one.texts[1:]
    if "--" in texts:
        yield Effect("@", one.words[texts.index("--") + 2 :], array=True)
    elif texts and not texts[0].startswith(("-", "+")):
        yield Effect("@", one.words[1:], array=True)


def renamed(one: SimpleCommand) -> Iterator[tuple[str, tuple[ShellWord, ...]]]:
    """Yield the names that stand for other commands from here on."""
    if one.program == "alias":
        for word in one.words[1:]:
            name, equals, value = word.text.partition("=")
            if equals and name:
                yield name, (ShellWord("eval"), ShellWord(value))
    elif one.program == "hash" and one.texts[1:2] == ["-p"] and len(one.words) > 3:  # noqa: PLR2004
        yield from ((name, (ShellWord(posixpath.basename(one.texts[2])),)) for name in one.texts[3:])
