"""Extracts the commands, paths and addresses that a permission request of the Agent Client Protocol carries.

The kind that an agent states for its request is a claim and is never used to tell what the request does.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from acp.schema import ToolCallUpdate

_COMMANDS = frozenset(("command", "commands", "cmd", "commandline", "shellcommand", "shell", "bash", "script", "argv"))
_ARGUMENTS = frozenset(("args", "arguments"))
_PATHS = frozenset(("path", "paths", "file", "files", "filepath", "filename", "absolutepath", "abspath", "uri"))
_PATHS |= frozenset(("dir", "directory", "dirpath", "cwd", "workdir", "workingdirectory", "notebookpath"))
_PATHS |= frozenset(("oldpath", "newpath", "source", "destination", "src", "dst", "target", "from", "to"))
_DEEPEST = 6
_FILE = "file://"

Command = str | tuple[str, ...]


class Request(NamedTuple):
    """The commands, paths and addresses of a permission request."""

    commands: tuple[Command, ...]
    paths: tuple[str, ...]
    addresses: tuple[str, ...]


def read_request(call: ToolCallUpdate) -> Request:
    """Return what a request names, in whichever field the agent put it."""
    raw = call.raw_input
    if isinstance(raw, (str, list)):
        raw = {"command": raw}
    commands = tuple(_commands(raw, _DEEPEST))
    named = [place.path for place in call.locations or []]
    named += [path for item in call.content or [] if isinstance(path := getattr(item, "path", None), str)]
    named += _strings(raw, _PATHS, _DEEPEST)
    paths = [path.removeprefix(_FILE) for path in named if "://" not in path.removeprefix(_FILE)]
    addresses = [*_strings(raw, frozenset(("url", "urls", "uri", "address")), _DEEPEST)]
    return Request(commands, tuple(dict.fromkeys(paths)), tuple(address for address in addresses if "://" in address))


def _commands(value: Any, depth: int) -> Iterator[Command]:  # noqa: ANN401 - any JSON value
    if depth and isinstance(value, list):
        for item in value:
            yield from _commands(item, depth - 1)
    if not depth or not isinstance(value, dict):
        return
    arguments = [word for name, item in value.items() if _plain(name) in _ARGUMENTS for word in _words(item)]
    for name, item in value.items():
        if _plain(name) not in _COMMANDS:
            yield from _commands(item, depth - 1)
        elif isinstance(item, str) and item.strip():
            yield f"{item} {shlex.join(arguments)}" if arguments else item
        elif argv := _words(item):
            yield (*argv, *arguments)
            if _plain(name) == "commands":  # a list of command lines, or the arguments of one command
                yield from argv


def _words(value: Any) -> list[str]:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, list) and all(isinstance(word, str) for word in value) else []


def _strings(value: Any, names: frozenset[str], depth: int, *, named: bool = False) -> Iterator[str]:  # noqa: ANN401
    """Yield every string under one of these keys."""
    if isinstance(value, str):
        if named and value:
            yield value
    elif depth and isinstance(value, list):
        for item in value:
            yield from _strings(item, names, depth - 1, named=named)
    elif depth and isinstance(value, dict):
        for name, item in value.items():
            yield from _strings(item, names, depth - 1, named=_plain(name) in names)


def _plain(name: str) -> str:
    return str(name).replace("_", "").replace("-", "").lower()
