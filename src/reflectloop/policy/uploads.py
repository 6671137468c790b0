"""Finds what is sent to another machine and should not be: keys, credentials, the environment, a home. Pure."""

from __future__ import annotations

import re

from reflectloop.policy import options, output, path_classes, secret_keepers
from reflectloop.policy.simple_command import ShellWord, SimpleCommand

_LOOPBACK = re.compile(r"(?:https?://)?(?:localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0)?(?::\d+)?(?:/|$)")


def is_loopback(address: str) -> bool:
    """Say whether an address is on this machine."""
    return _LOOPBACK.match(address) is not None


_UPLOADS = frozenset("-T --upload-file --post-file --body-file -F --form -d --data --data-binary --data-raw".split())


# A header that is there for a secret.
_LOGS_IN = re.compile(
    r"(?i)(?:-H)?(?:(?:proxy-)?authorization|x-[\w-]*(?:token|key)|private-token|api-key)\s*:|[^:/\s]+:\$"
)
_SSH_FILES = frozenset("-i -F -o -P -J -S -c -l".split())  # options of ssh whose value is read, not sent


def _takes_secrets(one: SimpleCommand) -> bool:
    """Whether a secret is what a command is for: a login, a store of secrets, `openssl` without a server."""
    if one.program == "openssl":
        return "s_client" not in one.texts
    local = [word.text for word in one.words[1:] if re.match(r"https?://|localhost|127\.", word.text)]
    if one.program in ("curl", "wget", "http", "xh") and local and all(is_loopback(address) for address in local):
        return True
    return one.program in ("gh", "glab") and bool({"login", "secret", "variable"} & set(one.texts[1:3]))


def of_private(one: SimpleCommand) -> bool:
    """Whether keys, credentials or the environment are sent: as an argument, a file, or the input."""
    if one.program in ("scp", "sftp"):
        one = one._replace(words=(one.words[0], *options.split(one.words[1:], _SSH_FILES).rest))
    return not _takes_secrets(one) and (
        _reads_private(one) or _names_private(one) or secret_keepers.goes_astray(one) or _uploads_private(one)
    )


def _reads_private(one: SimpleCommand) -> bool:
    """Whether what other commands print for this one is private."""
    made_by = {name for word in one.words for name in word.made_by} | set(one.feed.made_by if one.feed else ())
    if made_by & {"env", "printenv", "set", "export"} or (one.feed is not None and one.feed.private):
        return True
    return any(secret_keepers.MARK in word.made_by and not _LOGS_IN.match(word.text) for word in one.words[1:])


def _names_private(one: SimpleCommand) -> bool:
    """Whether a word, or a line for a client of ftp, names a private file."""
    parts = [part for word in one.words[1:] for part in re.split(r"[@=]", word.text)]
    parts = [part for part in parts if "/" in part or part.startswith(".")]
    parts += (one.feed.text or "").split() if one.feed and one.program in ("sftp", "ftp", "lftp", "tftp") else []
    return any(path_classes.of(ShellWord(part), one.folder) == "private" for part in parts)


def _uploads_private(one: SimpleCommand) -> bool:
    """Whether an option sends a private file, or an address carries what was encoded."""
    sent = [
        re.sub(r"^[^@<]*[@<]", "", value)
        for name, value in options.split(one.words[1:], _UPLOADS).values
        if name in _UPLOADS
    ]
    addresses = any(
        word.text.startswith(("http://", "https://"))
        and set(word.made_by) & {"base64", "xxd", "od", "hexdump", "history"}
        for word in one.words[1:]
    )
    if one.program in ("gh", "glab") and any(output.is_private(word, one.folder) for word in one.words[1:]):
        return True
    return addresses or any(output.is_private(ShellWord(name), one.folder) for name in sent) or _prints_private(one)


def _prints_private(one: SimpleCommand) -> bool:
    """`--post-data="$(cat .env)"`: the words that a substitution puts there are not known, the source tells."""
    return (
        re.search(
            r"\$\(\s*(?:cat|base64|<)\s*\S*(?:\.env|\.pem|id_\w+|credentials|/etc/passwd|/etc/shadow)\b", one.source
        )
        is not None
    )


def of_home(one: SimpleCommand) -> bool:
    """Whether a whole home, or keys, go to another machine."""
    rest = options.split(one.words[1:], frozenset("-e --rsh -i -P -F -o --exclude --profile".split())).rest
    if not rest or not re.match(r"(?:[\w.@-]+:|s3://|gs://|\w+://)", rest[-1].text):
        return False
    return any(
        path_classes.of(word, one.folder) in ("home", "private", "machine") or output.is_private(word, one.folder)
        for word in rest[:-1]
    )
