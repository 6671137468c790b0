"""Finds a destructive command among the words of a program that nobody here knows: it may well start it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from reflectloop.policy import scripts, wrappers
from reflectloop.policy.simple_command import SHELLS, Inner, ShellScript, SimpleCommand

MARK = "(among its words)"  # what is found this way counts only where it is denied
_DESTROYERS = frozenset(
    "rm dd mkfs shred wipefs chmod chown sh bash zsh dash ksh python python3 perl ruby node sudo curl wget kill".split()
)
_HINT = re.compile(r"\b(?:rm|dd|mkfs\S*|shred|wipefs|chmod|chown|sh|bash|curl|wget|python3?|perl)\s")
# Options whose value is a command, as a rule.
_TAKES_COMMAND = re.compile(
    r"-[cexsCX]$|--?\S*(?:cmd|command|exec|run|script|shell|before|after|hook|under|On[A-Z]|args)"
)
# Programs whose words are text for people, patterns or data.
_TALKERS = frozenset(
    """
    echo printf grep egrep fgrep rg ag ack git gh glab hub jj curl wget http https xh jq yq logger notify-send
    say wall write mail cowsay figlet man tldr cheat apropos whatis which type whereis test [ [[ expr read tee
    cat ls claude codex gemini aider llm opencode reflectloop pytest pre-commit commitizen cz apt apt-get dnf
    yum apk brew pacman history fc let export declare typeset local readonly unset compgen docker-compose dpkg
    rpm file stat pgrep pkill killall tr cut sort uniq wc head tail diff cmp ln cp mv mkdir touch
    """.split()
)

_FOLLOWED = frozenset("find gfind fd fdfind alias trap eval make gmake bmake npm pnpm yarn npx su ssh cmake".split())


def _is_known(program: str) -> bool:
    return (
        program in _TALKERS
        or program in SHELLS
        or program in wrappers.WRAPPERS
        or program in _FOLLOWED
        or scripts.is_interpreter(program)
    )


def _option(one: SimpleCommand, at: int) -> str:
    """Return the option that a word belongs to: its own beginning, or the word before."""
    text = one.words[at].text
    return text.partition("=")[0] if re.match(r"-[\w.:-]+=", text) else one.words[at - 1].text


# Programs that are known by some of their words, and may start anything by these.
_STARTS_BY = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), "run"),
    "dotenv": "--",
    "hatch": "run",
    "cargo": "with",
    "composer": "exec",
    "tox": "--",
}


def inner(one: SimpleCommand) -> Iterator[Inner]:
    """Yield the rest of the words from the name of a destroyer on, and words that read like a shell line."""
    started = _STARTS_BY.get(one.program, "\0") in one.texts
    if len(one.words) < 2 or MARK in one.through or (_is_known(one.program) and not started):  # noqa: PLR2004 - a program and a word
        return
    through = (*one.through, one.program, MARK)
    for at, word in enumerate(one.words[1:], 1):
        if posixpath.basename(word.text).rpartition(":")[2] in _DESTROYERS and at + 1 < len(one.words):
            named = word._replace(text=word.text.rpartition(":")[2])
            yield one.inside((named, *one.words[at + 1 :]))._replace(through=through)
        elif (
            " " in word.text
            and _HINT.search(word.text)
            and (_TAKES_COMMAND.match(_option(one, at)) or (started and at > 1))
        ):
            yield ShellScript(re.sub(r"^-[\w.:-]+=", "", word.text), through, guess=True)
