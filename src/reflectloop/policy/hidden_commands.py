"""Find hidden commands: arguments of an unknown program, and programs named by a pattern or by other output."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterator

from reflectloop.policy import scripts, wrappers
from reflectloop.policy.simple_command import SHELLS, UNKNOWN, Inner, Opaque, ShellScript, ShellWord, SimpleCommand

MARK = "(among its words)"  # a command found this way counts only if it is denied
_DESTROYERS = frozenset(
    "rm dd mkfs shred wipefs chmod chown sh bash zsh dash ksh python python3 perl ruby node sudo curl wget kill".split()
)
_HINT = re.compile(r"\b(?:rm|dd|mkfs\S*|shred|wipefs|chmod|chown|sh|bash|curl|wget|python3?|perl)\s")
# Options whose value is usually a command.
_TAKES_COMMAND = re.compile(
    r"-[cexsCX]$|--?\S*(?:cmd|command|exec|run|script|shell|before|after|hook|under|On[A-Z]|args)"
)
# Programs whose arguments are text for people, patterns or data.
_TEXT_PROGRAMS = frozenset(
    """
    echo printf grep egrep fgrep rg ag ack git gh glab hub jj curl wget http https xh jq yq logger notify-send
    say wall write mail cowsay figlet man tldr cheat apropos whatis which type whereis test [ [[ expr read tee
    cat ls claude codex gemini aider llm opencode reflectloop pytest pre-commit commitizen cz apt apt-get dnf
    yum apk brew pacman history fc let export declare typeset local readonly unset compgen docker-compose dpkg
    rpm file stat pgrep pkill killall tr cut sort uniq wc head tail diff cmp ln cp mv mkdir touch
    """.split()
)

_READ_ELSEWHERE = frozenset(
    "find gfind fd fdfind alias trap eval make gmake bmake npm pnpm yarn npx su ssh cmake".split()
)


def _is_known(program: str) -> bool:
    return (
        program in _TEXT_PROGRAMS
        or program in SHELLS
        or program in wrappers.WRAPPERS
        or program in _READ_ELSEWHERE
        or scripts.is_interpreter(program)
    )


def _option(command: SimpleCommand, at: int) -> str:
    """Return the option that an argument belongs to: its own prefix, or the word before."""
    text = command.words[at].text
    return text.partition("=")[0] if re.match(r"-[\w.:-]+=", text) else command.words[at - 1].text


# Known programs that may start anything if this word is among their arguments.
_STARTING_WORDS = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), "run"),
    "dotenv": "--",
    "hatch": "run",
    "cargo": "with",
    "composer": "exec",
    "tox": "--",
}


def inner_commands(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the arguments from the name of a destructive program on, and arguments that look like a shell line."""
    started = _STARTING_WORDS.get(command.program, "\0") in command.texts
    if len(command.words) < 2 or MARK in command.through or (_is_known(command.program) and not started):  # noqa: PLR2004 - a program and a word
        return
    through = (*command.through, command.program, MARK)
    for at, word in enumerate(command.words[1:], 1):
        if posixpath.basename(word.text).rpartition(":")[2] in _DESTROYERS and at + 1 < len(command.words):
            named = word._replace(text=word.text.rpartition(":")[2])
            yield command.inside((named, *command.words[at + 1 :]))._replace(through=through)
        elif (
            " " in word.text
            and _HINT.search(word.text)
            and (_TAKES_COMMAND.match(_option(command, at)) or (started and at > 1))
        ):
            yield ShellScript(re.sub(r"^-[\w.:-]+=", "", word.text), through, guess=True)


# Commands that print text, not the path of a program.
_READERS = frozenset(
    """
    cat head tail sed awk gawk cut tr rev printf echo grep jq read curl wget base64 base32 xxd od openssl perl strings
    tac sort paste fold nc dig zcat gunzip hexdump
    """.split()
)
_GUESSES = ("rm", "dd", "sh", "bash", "nc", "curl", "wget", "chmod", "chown", "mkfs", "shred", "kill", "mv", "python3")

_SHELL_VARIABLES = frozenset(("$SHELL", "${SHELL}", "$BASH", "${BASH}", "$0", "${0}"))


def indirect_programs(command: SimpleCommand) -> Iterator[Inner]:
    """Yield the programs that are named by a pattern, or by the output of another command."""
    if not command.words:
        return
    word = command.words[0]
    if word.text in _SHELL_VARIABLES:
        yield command.inside((ShellWord("bash"), *command.words[1:]))
    elif word.glob and re.fullmatch(r"[\w./?*\[\]^!-]*[?*\[][\w./?*\[\]^!-]*", word.text):
        yield from _globbed(command, word)
    elif (not word.known and set(word.made_by) & _READERS and re.fullmatch(r"\$\(…\)|\$\{\w+\}", word.text)) or (
        UNKNOWN in word.text and set(word.made_by) & {"curl", "wget", "base64", "xxd"}
    ):
        yield Opaque("shell.computed-program", command.source, command.through)


def _globbed(command: SimpleCommand, word: ShellWord) -> Iterator[Inner]:
    name = posixpath.basename(word.text)
    fitting = [guess for guess in _GUESSES if fnmatch.fnmatchcase(guess, name)] if len(name) < 64 else []  # noqa: PLR2004
    yield from (command.inside((ShellWord(guess), *command.words[1:])) for guess in fitting[:3])
    folder = posixpath.dirname(word.text)
    if "/" not in word.text or re.match(r"/[^/]*(?:bin|\?|\*|\[)", folder):
        yield Opaque("shell.globbed-program", command.source, command.through)
