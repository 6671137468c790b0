"""Predict the output of a simple command, where that is possible without running it."""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from collections.abc import Iterator

from reflectloop.policy import path_classes, secret_keepers, shell_words
from reflectloop.policy.simple_command import FRESH, Feed, ShellWord, SimpleCommand
from reflectloop.system import patterns

_PREFIXES = frozenset(("sudo", "env", "command", "busybox", "doas"))
_FORMAT_FIELD = patterns.lazy(r"%[-0-9.]*[sdiuqbcoxX]|%%")
_LONGEST = 100_000
_MAX_REPEATS = 64  # repetitions of a printf format
_ENVIRONMENT = frozenset(("env", "printenv", "set", "export", "declare", "history"))
# Names of files that contain keys or passwords, in any folder.
_SECRET_FILE = patterns.lazy(
    r"(?:^|/)(?:\.env(?:\.(?!example|sample|template|dist)[\w.-]+)?|[^/]*\.(?:pem|key|p12|pfx|kdbx|keystore|jks|ppk)"
    r"|credentials(?:\.\w+)?|secrets?\.\w+|terraform\.tfstate|wp-config\.php|kubeconfig|\.npmrc|\.htpasswd"
    r"|\.(?:bash|zsh)_history|passwd|shadow|master\.key|service-account[^/]*\.json)$"
)


def output_of(command: SimpleCommand) -> Feed:
    program = command.program
    names = (program, *(word.text for word in command.words[1:2] if program in _PREFIXES))
    made_by = (
        *(command.feed.made_by if command.feed else ()),
        *names,
        *((secret_keepers.MARK,) if secret_keepers.prints_secret(command) else ()),
        *_found_everywhere(command),
    )
    return Feed(_text(command, program), made_by, _is_output_private(command))


def _found_everywhere(command: SimpleCommand) -> tuple[str, ...]:
    """Return a mark if a command prints the names of files of a whole machine or home folder."""
    from reflectloop.policy import checks  # noqa: PLC0415 - avoids an import cycle

    return (checks.WHOLE,) if command.program in _LISTERS and checks.whole_starts(command) else ()


def is_private(word: ShellWord, folder: str) -> bool:
    """Return True if a file contains keys, credentials or passwords."""
    return path_classes.path_class(word, folder) == "private" or _SECRET_FILE.search(word.text[:4096]) is not None


def _is_output_private(command: SimpleCommand) -> bool:
    """Return True if the output of a command contains something private."""
    if (
        secret_keepers.prints_secret(command)
        or (command.feed is not None and command.feed.private)
        or (command.program in _ENVIRONMENT and len(command.words) == 1)
    ):
        return True
    if command.program in ("echo", "printf"):
        return any(secret_keepers.names_secret(word.text) for word in command.words[1:] if not word.known)
    if command.program in ("pg_dump", "pg_dumpall", "mysqldump", "mariadb-dump", "mongodump"):
        return True
    if command.program in ("tar", "zip", "cpio", "bsdtar") and any(
        path_classes.path_class(word, command.folder) == "here" for word in command.words[1:]
    ):
        return True
    if command.program in ("tar", "zip", "cpio", "bsdtar", "find", "rsync"):
        return any(
            path_classes.path_class(word, command.folder) in ("home", "machine", "private")
            for word in command.words[1:]
        )
    names = (word for word in command.words[1:] if "/" in word.text or "." in word.text)
    reads = command.program not in ("echo", "printf", "ls", "grep", "rg", "test", "[", "stat", "git")
    return reads and any(is_private(word, command.folder) for word in names)


_LISTERS = frozenset("find gfind fd fdfind ls rg du tree".split())
_FIXED = {"mktemp": FRESH, "pwd": "$PWD"}


def _text(command: SimpleCommand, program: str) -> str | None:
    texts = command.texts[1:]
    known = all(word.known for word in command.words)
    if program in ("echo", "print") and known:
        return _echoed(texts)
    if program == "printf" and known:
        return _formatted(texts)
    if program == "find" and known:
        return _find_output(command)
    if program in _FIXED:
        return _FIXED[program]
    located = _located(program, texts) if known else None
    if located is not None:
        return located
    return _filtered(program, texts, command.feed.text) if command.feed and command.feed.text is not None else None


def _find_output(command: SimpleCommand) -> str | None:
    """Return the output of `find` if it matches only the name of files that tools make; else None."""
    from reflectloop.policy import checks  # noqa: PLC0415 - avoids an import cycle

    name = checks.find_leaves(command)
    return f"./{name}" if name else None


def _located(program: str, texts: list[str]) -> str | None:
    """Return the program name that `which rm`, `command -v rm` or `type -p rm` print; the folder does not matter."""
    finds = program == "which" or (program in ("command", "type") and texts[:1] in (["-v"], ["-p"], ["-P"]))
    names = [posixpath.basename(text) for text in texts if not text.startswith("-")]
    return names[0] if finds and len(names) == 1 else None


def _filtered(program: str, texts: list[str], feed: str) -> str | None:
    """Return the output of a command that copies or decodes its input; None for any other."""
    if program == "tee" or (program == "cat" and all(text.startswith("-") for text in texts)):
        return feed
    if program in ("base64", "base32") and any(re.fullmatch(r"-[a-z]*[dD]|--decode", text) for text in texts):
        return _decoded(feed)
    return feed[::-1] if program == "rev" else None


def _echoed(texts: list[str]) -> str:
    options = [text for text in texts if re.fullmatch(r"-[neEr]+", text)]
    text = " ".join(text for text in texts if text not in options)[:_LONGEST]
    return shell_words.ansi(text) if any("e" in option for option in options) else text


def _formatted(texts: list[str]) -> str:
    """Return the output of `printf`, which repeats the format until no argument is left."""
    texts = texts[1:] if texts[:1] == ["--"] else texts
    if not texts:
        return ""
    form = shell_words.ansi(texts[0])
    waiting = iter(texts[1:])
    printed = [_filled(form, waiting)]
    left = list(waiting)
    while left and _FORMAT_FIELD.search(form) and len(printed) < _MAX_REPEATS:
        waiting = iter(left)
        printed.append(_filled(form, waiting))
        left = list(waiting)
    return "".join(printed)[:_LONGEST]


def _filled(form: str, waiting: Iterator[str]) -> str:
    def fill(field: re.Match[str]) -> str:
        if field[0] == "%%":
            return "%"
        value = next(waiting, "")
        if field[0].endswith("b"):
            return shell_words.ansi(value)
        if field[0][-1] in "oxX":
            return _based(field[0], value)
        return value[:1] if field[0].endswith("c") else value

    return _FORMAT_FIELD.sub(fill, form)


def _based(form: str, value: str) -> str:
    """Return a number as `%o` or `%x` prints it; anything else is printed as 0."""
    digits = value.strip()[:20]
    number = ord(digits[1]) if digits[:1] in ("'", '"') and len(digits) > 1 else int(digits) if digits.isdigit() else 0
    width = re.fullmatch(r"%(0?)(\d{0,2})[oxX]", form)
    text = format(number, form[-1])
    if width is None or not width[2]:
        return text
    return text.rjust(int(width[2]), "0" if width[1] else " ")


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(text.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
