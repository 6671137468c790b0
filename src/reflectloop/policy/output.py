"""What a simple command would print, where that can be told without running it."""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from collections.abc import Iterator

from reflectloop.policy import path_classes, secret_keepers, shell_words
from reflectloop.policy.simple_command import FRESH, Feed, ShellWord, SimpleCommand

_PREFIXES = frozenset(("sudo", "env", "command", "busybox", "doas"))
_HOLE = re.compile(r"%[-0-9.]*[sdiuqbcoxX]|%%")
_LONGEST = 100_000
_MOST_ROUNDS = 64  # times a format is used again
_ENVIRONMENT = frozenset(("env", "printenv", "set", "export", "declare", "history"))
# Names of files that hold keys or passwords, wherever they lie.
_KEPT_SECRET = re.compile(
    r"(?:^|/)(?:\.env(?:\.(?!example|sample|template|dist)[\w.-]+)?|[^/]*\.(?:pem|key|p12|pfx|kdbx|keystore|jks|ppk)"
    r"|credentials(?:\.\w+)?|secrets?\.\w+|terraform\.tfstate|wp-config\.php|kubeconfig|\.npmrc|\.htpasswd"
    r"|\.(?:bash|zsh)_history|passwd|shadow|master\.key|service-account[^/]*\.json)$"
)


def of(one: SimpleCommand) -> Feed:
    program = one.program
    names = (program, *(word.text for word in one.words[1:2] if program in _PREFIXES))
    made_by = (
        *(one.feed.made_by if one.feed else ()),
        *names,
        *((secret_keepers.MARK,) if secret_keepers.prints(one) else ()),
    )
    return Feed(_text(one, program), made_by, _carries(one))


def is_private(word: ShellWord, folder: str) -> bool:
    """Say whether a file holds keys, credentials or passwords."""
    return path_classes.of(word, folder) == "private" or _KEPT_SECRET.search(word.text[:4096]) is not None


def _carries(one: SimpleCommand) -> bool:
    """Say whether what a command prints has something private in it."""
    if (
        secret_keepers.prints(one)
        or (one.feed is not None and one.feed.private)
        or (one.program in _ENVIRONMENT and len(one.words) == 1)
    ):
        return True
    if one.program in ("echo", "printf"):
        return any(secret_keepers.names_secret(word.text) for word in one.words[1:] if not word.known)
    if one.program in ("pg_dump", "pg_dumpall", "mysqldump", "mariadb-dump", "mongodump"):
        return True
    if one.program in ("tar", "zip", "cpio", "bsdtar") and any(
        path_classes.of(word, one.folder) == "here" for word in one.words[1:]
    ):
        return True
    if one.program in ("tar", "zip", "cpio", "bsdtar", "find", "rsync"):
        return any(path_classes.of(word, one.folder) in ("home", "machine", "private") for word in one.words[1:])
    names = (word for word in one.words[1:] if "/" in word.text or "." in word.text)
    reads = one.program not in ("echo", "printf", "ls", "grep", "rg", "test", "[", "stat", "git")
    return reads and any(is_private(word, one.folder) for word in names)


_FIXED = {"mktemp": FRESH, "pwd": "$PWD"}


def _text(one: SimpleCommand, program: str) -> str | None:
    texts = one.texts[1:]
    known = all(word.known for word in one.words)
    if program in ("echo", "print") and known:
        return _echoed(texts)
    if program == "printf" and known:
        return _formatted(texts)
    if program == "find" and known:
        return _found(one)
    if program in _FIXED:
        return _FIXED[program]
    located = _located(program, texts) if known else None
    if located is not None:
        return located
    return _passed(program, texts, one.feed.text) if one.feed and one.feed.text is not None else None


def _found(one: SimpleCommand) -> str | None:
    """What `find` prints is named by what it looks for, where that is only what tools leave behind."""
    from reflectloop.policy import checks  # noqa: PLC0415 - it asks this module in turn

    name = checks.find_leaves(one)
    return f"./{name}" if name else None


def _located(program: str, texts: list[str]) -> str | None:
    """`which rm`, `command -v rm`, `type -p rm` say where a program lies; its name is what counts."""
    finds = program == "which" or (program in ("command", "type") and texts[:1] in (["-v"], ["-p"], ["-P"]))
    names = [posixpath.basename(text) for text in texts if not text.startswith("-")]
    return names[0] if finds and len(names) == 1 else None


def _passed(program: str, texts: list[str], feed: str) -> str | None:
    """What a command makes of its input."""
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
    """What `printf` prints: the format again and again, until no argument is left."""
    texts = texts[1:] if texts[:1] == ["--"] else texts
    if not texts:
        return ""
    form = shell_words.ansi(texts[0])
    waiting = iter(texts[1:])
    printed = [_filled(form, waiting)]
    left = list(waiting)
    while left and _HOLE.search(form) and len(printed) < _MOST_ROUNDS:
        waiting = iter(left)
        printed.append(_filled(form, waiting))
        left = list(waiting)
    return "".join(printed)[:_LONGEST]


def _filled(form: str, waiting: Iterator[str]) -> str:
    def fill(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        value = next(waiting, "")
        if found[0].endswith("b"):
            return shell_words.ansi(value)
        if found[0][-1] in "oxX":
            return _based(found[0], value)
        return value[:1] if found[0].endswith("c") else value

    return _HOLE.sub(fill, form)


def _based(form: str, value: str) -> str:
    """Return a number as `%o` or `%x` prints it; what is no number is printed as 0."""
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
