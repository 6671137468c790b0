"""A simple command as the policy sees it: words without quotes, and what is known about its input."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

SHELLS = frozenset("sh bash dash zsh ksh mksh ash fish rbash csh tcsh pdksh yash oksh osh xonsh nu".split())
# Characters of one command; on text that is not shell, the parser takes quadratic time.
LONGEST = 50_000
FRESH = "$TMPDIR/mktemp"  # the assumed output of `mktemp`
UNKNOWN = "$(…)"  # the output of a substitution, known only at run time


class ShellWord(NamedTuple):
    text: str
    known: bool = True  # False if part of it is known only at run time
    made_by: tuple[str, ...] = ()  # the programs in its substitutions
    content: str | None = None  # the content of the file with this name, if known
    glob: bool = False  # it is a file name pattern


class Redirect(NamedTuple):
    operator: str
    target: ShellWord


class Feed(NamedTuple):
    """The standard input of a command."""

    text: str | None  # None if known only at run time
    made_by: tuple[str, ...] = ()
    private: bool = False  # True if it contains keys, credentials, the environment or a whole home


class File(NamedTuple):
    """The content of a file that an earlier part of the same line wrote."""

    text: str | None = None  # its text, if known
    made_by: tuple[str, ...] = ()  # otherwise the programs that wrote it
    program: str = ""  # or the program that it copies or links to


@lru_cache(maxsize=1024)
def _program(text: str) -> str:
    """Return the name of the program that a word calls, without its folder."""
    return posixpath.basename(text).removesuffix(".exe")


class SimpleCommand(NamedTuple):
    words: tuple[ShellWord, ...]
    redirects: tuple[Redirect, ...] = ()
    feed: Feed | None = None
    source: str = ""
    folder: str = ""  # target of an earlier `cd` of the line; empty for the starting folder
    through: tuple[str, ...] = ()
    sets: tuple[tuple[str, ShellWord], ...] = ()  # variables that are set for it, or for the rest of the line
    env: tuple[tuple[str, str], ...] = ()  # variables that an inner shell knows
    files: Mapping[str, File] = {}

    @property
    def program(self) -> str:
        return _program(self.words[0].text) if self.words else ""

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words]

    def inside(self, words: tuple[ShellWord, ...], *, feed: Feed | None = None) -> SimpleCommand:
        """Return the command that this one starts with `words`."""
        source = " ".join(word.text for word in words)
        through = (*self.through, self.program)
        return SimpleCommand(words, (), feed or self.feed, source, self.folder, through, env=self.env, files=self.files)

    def path(self, text: str) -> str:
        """Return a normalized path, relative to the folder of this command."""
        return posixpath.normpath(posixpath.join(self.folder, text))


def of_argv(argv: tuple[str, ...]) -> SimpleCommand:
    """Return the command of an argv; undecodable bytes are escaped, because patterns match only text."""
    words = [word if word.isascii() else word.encode("utf-8", "backslashreplace").decode() for word in argv]
    return SimpleCommand(tuple(ShellWord(word) for word in words), source=" ".join(words))


class ShellScript(NamedTuple):
    """Text that a shell will run."""

    text: str
    through: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()
    folder: str = ""
    guess: bool = False  # True if it may not be shell text; a syntax error is then ignored


class Code(NamedTuple):
    """Text that an interpreter will run."""

    language: str
    text: str
    through: tuple[str, ...]
    folder: str = ""


class Opaque(NamedTuple):
    """Something that will be run and cannot be known in advance."""

    rule: str
    source: str
    through: tuple[str, ...]


Inner = SimpleCommand | ShellScript | Code | Opaque
