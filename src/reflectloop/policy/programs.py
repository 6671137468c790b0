"""Programs that are named in a roundabout way: by a pattern, or by what another command prints."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterator

from reflectloop.policy.simple_command import UNKNOWN, Inner, Opaque, ShellWord, SimpleCommand

# Commands that print text, not the place of a program.
_READERS = frozenset(
    """
    cat head tail sed awk gawk cut tr rev printf echo grep jq read curl wget base64 base32 xxd od openssl perl strings
    tac sort paste fold nc dig zcat gunzip hexdump
    """.split()
)
_GUESSES = ("rm", "dd", "sh", "bash", "nc", "curl", "wget", "chmod", "chown", "mkfs", "shred", "kill", "mv", "python3")

_SHELL_VARIABLES = frozenset(("$SHELL", "${SHELL}", "$BASH", "${BASH}", "$0", "${0}"))


def inner(one: SimpleCommand) -> Iterator[Inner]:
    if not one.words:
        return
    word = one.words[0]
    if word.text in _SHELL_VARIABLES:
        yield one.inside((ShellWord("bash"), *one.words[1:]))
    elif word.glob and re.fullmatch(r"[\w./?*\[\]^!-]*[?*\[][\w./?*\[\]^!-]*", word.text):
        yield from _globbed(one, word)
    elif (not word.known and set(word.made_by) & _READERS and re.fullmatch(r"\$\(…\)|\$\{\w+\}", word.text)) or (
        UNKNOWN in word.text and set(word.made_by) & {"curl", "wget", "base64", "xxd"}
    ):
        yield Opaque("shell.computed-program", one.source, one.through)


def _globbed(one: SimpleCommand, word: ShellWord) -> Iterator[Inner]:
    name = posixpath.basename(word.text)
    fitting = [guess for guess in _GUESSES if fnmatch.fnmatchcase(guess, name)] if len(name) < 64 else []  # noqa: PLR2004
    yield from (one.inside((ShellWord(guess), *one.words[1:])) for guess in fitting[:3])
    folder = posixpath.dirname(word.text)
    if "/" not in word.text or re.match(r"/[^/]*(?:bin|\?|\*|\[)", folder):
        yield Opaque("shell.globbed-program", one.source, one.through)
