"""A simple command as the policy sees it: words without their quotes, and what is known of its input."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

SHELLS = frozenset("sh bash dash zsh ksh mksh ash fish rbash csh tcsh pdksh yash oksh osh xonsh nu".split())
# Characters of one command: where a text is no shell, the parser takes the square of its length.
LONGEST = 50_000
FRESH = "$TMPDIR/mktemp"  # what `mktemp` prints
UNKNOWN = "$(…)"  # what a substitution gives is known only when it runs


class ShellWord(NamedTuple):
    text: str
    known: bool = True  # False: a part of it is known only when it runs
    made_by: tuple[str, ...] = ()  # the programs inside its substitutions
    content: str | None = None  # what can be read under this name, where that is known
    glob: bool = False  # it is no text but a pattern of names


class Redirect(NamedTuple):
    operator: str
    target: ShellWord


class Feed(NamedTuple):
    """What a command reads on its standard input."""

    text: str | None  # None: known only when it runs
    made_by: tuple[str, ...] = ()
    private: bool = False  # keys, credentials, the environment or a whole home are in it


class File(NamedTuple):
    """What an earlier part of the same line left in a file."""

    text: str | None = None  # its text, where that is known
    made_by: tuple[str, ...] = ()  # else the programs that wrote it
    program: str = ""  # or the program that it is a copy of, or a link to


@lru_cache(maxsize=1024)
def _program(text: str) -> str:
    """Return the name of the program that a word calls, without its folder."""
    return posixpath.basename(text).removesuffix(".exe")


class SimpleCommand(NamedTuple):
    words: tuple[ShellWord, ...]
    redirects: tuple[Redirect, ...] = ()
    feed: Feed | None = None
    source: str = ""
    folder: str = ""  # where an earlier `cd` of the same line went; empty: where the line began
    through: tuple[str, ...] = ()
    sets: tuple[tuple[str, ShellWord], ...] = ()  # variables that are set for it, or for all that follows
    env: tuple[tuple[str, str], ...] = ()  # variables that a shell below it knows
    files: Mapping[str, File] = {}

    @property
    def program(self) -> str:
        return _program(self.words[0].text) if self.words else ""

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words]

    def inside(self, words: tuple[ShellWord, ...], *, feed: Feed | None = None) -> SimpleCommand:
        """The command that this one starts with `words`."""
        source = " ".join(word.text for word in words)
        through = (*self.through, self.program)
        return SimpleCommand(words, (), feed or self.feed, source, self.folder, through, env=self.env, files=self.files)

    def path(self, text: str) -> str:
        """Return a path as this command would find it, without detours."""
        return posixpath.normpath(posixpath.join(self.folder, text))


def of_argv(argv: tuple[str, ...]) -> SimpleCommand:
    """Return the command of a list of words; bytes that are no text are spelled out, since patterns know only text."""
    words = [word if word.isascii() else word.encode("utf-8", "backslashreplace").decode() for word in argv]
    return SimpleCommand(tuple(ShellWord(word) for word in words), source=" ".join(words))


class ShellScript(NamedTuple):
    """Text that a shell will run."""

    text: str
    through: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()
    folder: str = ""
    guess: bool = False  # it may be no shell text at all: what cannot be parsed means nothing


class Code(NamedTuple):
    """Text that an interpreter will run."""

    language: str
    text: str
    through: tuple[str, ...]
    folder: str = ""


class Opaque(NamedTuple):
    """Something will be run, and what it is cannot be told before."""

    rule: str
    source: str
    through: tuple[str, ...]


Inner = SimpleCommand | ShellScript | Code | Opaque
