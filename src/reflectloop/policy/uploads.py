"""Find private data that is sent to another machine: keys, credentials, the environment, a home. Pure."""

from __future__ import annotations

import re

from reflectloop.policy import options, output, path_classes, secret_keepers
from reflectloop.policy.simple_command import ShellWord, SimpleCommand
from reflectloop.system import patterns

_LOOPBACK = patterns.lazy(r"(?:https?://)?(?:localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0)?(?::\d+)?(?:/|$)")


def is_loopback(address: str) -> bool:
    """Return True if an address is on this machine."""
    return _LOOPBACK.match(address) is not None


_UPLOADS = frozenset("-T --upload-file --post-file --body-file -F --form -d --data --data-binary --data-raw".split())


# A header that normally contains a secret.
_LOGS_IN = patterns.lazy(
    r"(?i)(?:-H)?(?:(?:proxy-)?authorization|x-[\w-]*(?:token|key)|private-token|api-key)\s*:|[^:/\s]+:\$"
)
_SSH_FILES = frozenset("-i -F -o -P -J -S -c -l".split())  # options of ssh with a value that is read, not sent


def _takes_secrets(command: SimpleCommand) -> bool:
    """Return True if the command is meant to get a secret: a login, a secret store, `openssl` without a server."""
    if command.program == "openssl":
        return "s_client" not in command.texts
    local = [word.text for word in command.words[1:] if re.match(r"https?://|localhost|127\.", word.text)]
    if command.program in ("curl", "wget", "http", "xh") and local and all(is_loopback(address) for address in local):
        return True
    return command.program in ("gh", "glab") and bool({"login", "secret", "variable"} & set(command.texts[1:3]))


def sends_private(command: SimpleCommand) -> bool:
    """Return True if keys, credentials or the environment are sent, as an argument, a file or the input."""
    if command.program in ("scp", "sftp"):
        command = command._replace(words=(command.words[0], *options.split(command.words[1:], _SSH_FILES).rest))
    return not _takes_secrets(command) and (
        _reads_private(command)
        or _names_private(command)
        or secret_keepers.sends_secret_elsewhere(command)
        or _uploads_private(command)
    )


def _reads_private(command: SimpleCommand) -> bool:
    """Return True if the input from other commands is private."""
    made_by = {name for word in command.words for name in word.made_by} | set(
        command.feed.made_by if command.feed else ()
    )
    if made_by & {"env", "printenv", "set", "export"} or (command.feed is not None and command.feed.private):
        return True
    return any(secret_keepers.MARK in word.made_by and not _LOGS_IN.match(word.text) for word in command.words[1:])


def _names_private(command: SimpleCommand) -> bool:
    """Return True if an argument, or a line for an ftp client, names a private file."""
    parts = [part for word in command.words[1:] for part in re.split(r"[@=]", word.text)]
    parts = [part for part in parts if "/" in part or part.startswith(".")]
    parts += (
        (command.feed.text or "").split() if command.feed and command.program in ("sftp", "ftp", "lftp", "tftp") else []
    )
    return any(path_classes.path_class(ShellWord(part), command.folder) == "private" for part in parts)


def _uploads_private(command: SimpleCommand) -> bool:
    """Return True if an option sends a private file, or an address contains encoded output."""
    names = [
        re.sub(r"^[^@<]*[@<]", "", value)
        for name, value in options.split(command.words[1:], _UPLOADS).values
        if name in _UPLOADS
    ]
    if command.program in ("http", "https", "xh", "xhs"):
        names += [
            word.text.partition("@")[2] for word in command.words[1:] if "@" in word.text and "://" not in word.text
        ]
    addresses = any(
        word.text.startswith(("http://", "https://"))
        and set(word.made_by) & {"base64", "xxd", "od", "hexdump", "history"}
        for word in command.words[1:]
    )
    if command.program in ("gh", "glab") and any(output.is_private(word, command.folder) for word in command.words[1:]):
        return True
    return (
        addresses
        or any(output.is_private(ShellWord(name), command.folder) for name in names)
        or _prints_private(command)
    )


def _prints_private(command: SimpleCommand) -> bool:
    """Return True for `--post-data="$(cat .env)"`: the substitution is unknown, but the source names the file."""
    return (
        re.search(
            r"\$\(\s*(?:cat|base64|<)\s*\S*(?:\.env|\.pem|id_\w+|credentials|/etc/passwd|/etc/shadow)\b", command.source
        )
        is not None
    )


def sends_home(command: SimpleCommand) -> bool:
    """Return True if a whole home, or keys, are copied to another machine."""
    rest = options.split(command.words[1:], frozenset("-e --rsh -i -P -F -o --exclude --profile".split())).rest
    if not rest or not re.match(r"(?:[\w.@-]+:|s3://|gs://|\w+://)", rest[-1].text):
        return False
    return any(
        path_classes.path_class(word, command.folder) in ("home", "private", "machine")
        or output.is_private(word, command.folder)
        for word in rest[:-1]
    )
