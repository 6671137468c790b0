"""Commands that no request may hold, told from their words; the command policy and the box see to all the rest."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import dropwhile, pairwise

_ENDS = frozenset((";", "&&", "||", "|", "&", "(", ")", "{", "}", "|&", ";;", "\n", "then", "do", "else", "!"))
_BEFORE = frozenset(("sudo", "doas", "env", "nohup", "time", "exec", "command", "builtin", "nice", "ionice", "setsid"))
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash"))
_DEADLY = frozenset(("shutdown", "reboot", "halt", "poweroff", "mkfs", "wipefs"))
_HOMES = frozenset(("~", "$HOME", "${HOME}"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BOMB = re.compile(r"(\S+)\s*\(\)\s*\{\s*\1\s*\|\s*\1\s*&\s*\}\s*;\s*\1")
_DISK = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper/)")
_INNER = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_DEEPEST = 5  # shells started by shells


def refusal(command: str | Sequence[str], depth: int = 0) -> str | None:
    """Why a command is refused: it would destroy the machine or the home of whoever runs it."""
    if depth > _DEEPEST:
        return "starts too many shells within shells"
    if not isinstance(command, str):
        return _of_words(list(command), depth)
    if _BOMB.search(command):
        return "starts processes without end"
    texts = [command, *(first or second for first, second in _INNER.findall(command))]
    return next((why for text in texts for words in _commands(text) if (why := _of_words(words, depth))), None)


def _commands(text: str) -> Iterator[list[str]]:
    """Each simple command of a shell line, as words."""
    words: list[str] = []
    for word in _words(text.replace("\\\n", " ").replace("\n", " ; ")):
        if word in _ENDS or set(word) <= set(";&|()"):
            yield words
            words = []
        else:
            words.append(word)
    yield words


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote without its partner, as in the text of a here document
        return re.findall(r"[;&|()]+|[^\s;&|()'\"]+", text)


def _of_words(words: list[str], depth: int) -> str | None:
    words = _without_prefix(words)
    if not words:
        return None
    name, rest = posixpath.basename(words[0]), words[1:]
    if name in _SHELLS or name == "eval":
        return _of_script(name, rest, depth)
    if name == "xargs":
        return _of_words(list(dropwhile(lambda word: word.startswith("-") or word.isdigit(), rest)), depth)
    if name in _DEADLY or name.startswith("mkfs."):
        return f"'{name}' acts on the machine, not on the workspace"
    if any(_DISK.search(word) for word in _written(name, rest)):
        return "writes to a disk itself"
    return _of_removal(name, rest)


def _without_prefix(words: list[str]) -> list[str]:
    while words and (posixpath.basename(words[0]) in _BEFORE or _ASSIGNMENT.match(words[0])):
        words = words[1:]
        while words and words[0].startswith("-"):
            words = words[1:]
    return words


def _of_script(name: str, rest: list[str], depth: int) -> str | None:
    if name == "eval":
        return refusal(" ".join(rest), depth + 1)
    flags = [number for number, word in enumerate(rest) if re.fullmatch(r"-[a-z]*c", word)]
    after = rest[flags[0] + 1 :] if flags else []
    return refusal(after[0], depth + 1) if after else None


def _written(name: str, rest: list[str]) -> Iterator[str]:
    yield from (after for before, after in pairwise(rest) if before in (">", ">>", ">|"))
    if name == "dd":
        yield from (word for word in rest if word.startswith("of="))


def _of_removal(name: str, rest: list[str]) -> str | None:
    flags = "".join(word.lstrip("-") for word in rest if re.fullmatch(r"-[A-Za-z]+", word))
    recursive = bool(set("rR") & set(flags)) or "--recursive" in rest
    places = [word for word in rest if not word.startswith("-")]
    if name == "find":
        recursive = bool({"-delete", "-exec", "-execdir"} & set(rest))
        places = places[:1]
    if recursive and name in ("rm", "chmod", "chown", "chgrp", "find", "shred"):
        whole = next((place for place in places if _is_whole(place)), None)
        return f"'{name}' on all of {whole}" if whole is not None else None
    return None


def _is_whole(place: str) -> bool:
    """The root, a folder right below it, or a home, however it is written."""
    bare = place.rstrip("*").rstrip("/") or "/"
    if bare in _HOMES:
        return True
    path = posixpath.normpath(bare)
    return path.startswith("/") and path != "/tmp" and len([part for part in path.split("/") if part]) <= 1  # noqa: S108
