"""The variables, arrays and parameters of a shell line, with undo, and what builtins change in them."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reflectloop.policy import options
from reflectloop.policy.simple_command import FRESH, ShellWord, SimpleCommand

Values = tuple[ShellWord, ...]
BLANKS = " \t\n"
_READ_TAKING = frozenset("-d -i -n -N -p -t -u -a".split())
_MAPFILE_TAKING = frozenset("-d -n -O -s -u -C -c".split())
_MOST_WORDS = 64  # words that one line of input is split into
_MOST_PASSED = 64  # variables that are passed to an inner shell


def _is_usable(value: ShellWord) -> bool:
    """Return True if a value is known, or is a fresh temp folder, whose name nobody else uses."""
    return value.known or value.text == FRESH


class Scope:
    """Names and their values. Several values of a plain name are those of a loop; `name[]` is an array."""

    def __init__(self, variables: Iterable[tuple[str, str]]) -> None:
        initial = list(variables)
        self._known: dict[str, Values] = {name: (ShellWord(value),) for name, value in initial}
        positional = [ShellWord(value) for name, value in initial if name.isdigit() and name != "0"]
        if positional:
            self._known["@[]"] = tuple(positional)
        self._changes: list[tuple[str, Values | None]] = []  # earlier values of changed names, latest last
        self._exported: set[str] = set()

    @property
    def mark(self) -> int:
        return len(self._changes)

    def undo(self, mark: int) -> None:
        """Restore the values that names had at `mark`."""
        while len(self._changes) > mark:
            name, before = self._changes.pop()
            if before is None:
                self._known.pop(name, None)
            else:
                self._known[name] = before

    def set(self, name: str, values: Values) -> None:
        self._changes.append((name, self._known.get(name)))
        self._known[name] = values

    def swap(self, name: str, values: Values) -> None:
        """Set a name temporarily; the caller restores it."""
        self._known[name] = values

    def get(self, name: str) -> Values:
        """Return the values of a variable or positional parameter."""
        values = self._known.get(name)
        if values is None and name.isdigit() and name != "0":
            values = self.array("@")[int(name) - 1 : int(name)] if len(name) < 4 else ()  # noqa: PLR2004
        return values or self.array(name)[:1]

    def array(self, name: str) -> Values:
        return self._known.get(f"{name}[]", ())

    def set_array(self, name: str, values: Values) -> None:
        self.set(f"{name}[]", values)

    def set_element(self, name: str, index: str, value: ShellWord) -> None:
        """Set one element of an array; an index that is not a number appends."""
        elements = list(self.array(name))
        if index.isdigit() and len(index) < 4 and int(index) < len(elements):  # noqa: PLR2004
            elements[int(index)] = value
        else:
            elements.append(value)
        self.set_array(name, tuple(elements))
        self.set(f"{name}[{index}]", (value,))

    def element(self, name: str, index: str) -> Values:
        if index.isdigit() and len(index) < 4:  # noqa: PLR2004
            return self.array(name)[int(index) : int(index) + 1]
        return self._known.get(f"{name}[{index}]", ())

    def export(self, name: str) -> None:
        self._exported.add(name)

    def passed(self, *, everything: bool) -> tuple[tuple[str, str], ...]:
        """Return the variables that an inner shell knows."""
        names = list(self._known) if everything else [name for name in self._exported if name in self._known]
        variables = ((name, self._known[name]) for name in names if "[" not in name)
        plain = ((name, values[0].text) for name, values in variables if len(values) == 1 and _is_usable(values[0]))
        return tuple(itertools.islice(plain, _MOST_PASSED))


class Effect(NamedTuple):
    """A name and its new values; `array` is True for a list."""

    name: str
    values: Values
    array: bool = False


def fields(text: str, separators: str) -> list[str]:
    """Split a text as the shell does."""
    if not separators:
        return [text]
    if separators == BLANKS:
        return text.split()
    parts = re.split(f"[{re.escape(separators)}]", text)
    return [part.strip() if " " in separators else part for part in parts if part]


def effects_of(command: SimpleCommand, separators: str, scope: Scope) -> Iterator[Effect]:
    """Yield the variables that a command sets."""
    if command.program == "read":
        yield from _read(command, separators)
    elif command.program in ("mapfile", "readarray"):
        yield from _mapfile(command)
    elif command.program == "printf":
        yield from _printf(command)
    elif command.program == "set":
        yield from _set(command)
    elif command.program == "shift":
        yield Effect("@", scope.array("@")[1:], array=True)


def _unread(name: str) -> ShellWord:
    return ShellWord(f"${{{name}}}", known=False, made_by=("read",))


def _read(command: SimpleCommand, separators: str) -> Iterator[Effect]:
    args = options.split(command.words[1:], _READ_TAKING)
    text = command.feed.text if command.feed else None
    array = args.value("-a")
    names = [array] if array else [word.text for word in args.rest] or ["REPLY"]
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
    """Return the part of a line that the variable at a position gets; the last variable gets the rest."""
    if at == 0 and last:
        return line.strip()
    parts = fields(line, separators)
    return " ".join(parts[at:]) if last else "".join(parts[at : at + 1])


def _mapfile(command: SimpleCommand) -> Iterator[Effect]:
    args = options.split(command.words[1:], _MAPFILE_TAKING)
    name = args.rest[0].text if args.rest else "MAPFILE"
    text = command.feed.text if command.feed else None
    if text is None:
        yield Effect(name, (_unread(name),), array=True)
    else:
        between = args.value("-d") or "\n"
        yield Effect(name, tuple(ShellWord(line) for line in text.split(between)[:_MOST_WORDS] if line), array=True)


def _printf(command: SimpleCommand) -> Iterator[Effect]:
    """Yield the effect of `printf -v name …`, which prints into a variable."""
    from reflectloop.policy import output  # noqa: PLC0415 - avoids an import cycle

    if command.texts[1:2] == ["-v"] and len(command.words) > 3:  # noqa: PLR2004
        text = output.output_of(command._replace(words=(command.words[0], *command.words[3:]))).text
        yield Effect(command.words[2].text, (ShellWord(text) if text is not None else _unread(command.words[2].text),))


def _set(command: SimpleCommand) -> Iterator[Effect]:
    texts = command.texts[1:]
    if "--" in texts:
        yield Effect("@", command.words[texts.index("--") + 2 :], array=True)
    elif texts and not texts[0].startswith(("-", "+")):
        yield Effect("@", command.words[1:], array=True)


def new_names(command: SimpleCommand) -> Iterator[tuple[str, tuple[ShellWord, ...]]]:
    """Yield the names that stand for other commands from now on."""
    if command.program == "alias":
        for word in command.words[1:]:
            name, equals, value = word.text.partition("=")
            if equals and name:
                yield name, (ShellWord("eval"), ShellWord(value))
    elif command.program == "hash" and command.texts[1:2] == ["-p"] and len(command.words) > 3:  # noqa: PLR2004
        yield from ((name, (ShellWord(posixpath.basename(command.texts[2])),)) for name in command.texts[3:])
