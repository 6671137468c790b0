"""Separate the options of a command from its other arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reflectloop.policy.simple_command import ShellWord

_SHORTEST_PREFIX = 5  # `--har` is read as `--hard`


class Arguments(NamedTuple):
    flags: tuple[str, ...]  # `-rf` as `-r`, `-f` and `-rf`; `--x=y` as `--x`
    rest: tuple[ShellWord, ...]  # arguments that are not options
    before: tuple[int, ...]  # for each of `rest`, the number of preceding options that may take a value
    values: tuple[tuple[str, str], ...]  # options with their values

    def has(self, wanted: Iterable[str]) -> bool:
        return any(flag in self.flags or self._shortened(flag) for flag in wanted)

    def _shortened(self, flag: str) -> bool:
        return flag.startswith("--") and any(
            prefix.startswith("--") and len(prefix) >= _SHORTEST_PREFIX and flag.startswith(prefix)
            for prefix in self.flags
        )

    def value(self, *names: str) -> str | None:
        return next((value for name, value in self.values if name in names), None)


class _Splitter:
    def __init__(self, taking: frozenset[str]) -> None:
        self.taking = taking
        self.flags: list[str] = []
        self.rest: list[ShellWord] = []
        self.before: list[int] = []
        self.values: list[tuple[str, str]] = []
        self.bare = 0

    def long(self, text: str, following: Sequence[ShellWord]) -> int:
        name, equals, value = text.partition("=")
        self.flags.append(name)
        if equals:
            self.values.append((name, value))
        elif name in self.taking and following:
            self.values.append((name, following[0].text))
            return 1
        else:
            self.bare += 1
        return 0

    def short(self, text: str, following: Sequence[ShellWord]) -> int:
        self.flags.append(text.partition("=")[0])
        if text in self.taking and following:
            self.values.append((text, following[0].text))
            return 1
        for at, letter in enumerate(text[1:], 2):
            self.flags.append(f"-{letter}")
            if f"-{letter}" in self.taking:
                value = text[at:] or (following[0].text if following else "")
                self.values.append((f"-{letter}", value))
                return 0 if text[at:] else 1
        self.bare += 1
        return 0


def split(words: Sequence[ShellWord], taking: frozenset[str] = frozenset(), *, stop: bool = False) -> Arguments:
    """Split arguments into options and the rest.

    `taking` are the options whose value is the next word. With `stop`, options end at the first other argument.
    """
    splitter, at = _Splitter(taking), 0
    while at < len(words):
        text = words[at].text
        at += 1
        if text == "--" or (stop and not (text.startswith("-") and len(text) > 1)):
            at -= text != "--"
            splitter.rest += words[at:]
            splitter.before += [splitter.bare] * len(words[at:])
            break
        if text.startswith("--"):
            at += splitter.long(text, words[at : at + 1])
        elif text.startswith("-") and len(text) > 1:
            at += splitter.short(text, words[at : at + 1])
        else:
            splitter.rest.append(words[at - 1])
            splitter.before.append(splitter.bare)
    return Arguments(tuple(splitter.flags), tuple(splitter.rest), tuple(splitter.before), tuple(splitter.values))
