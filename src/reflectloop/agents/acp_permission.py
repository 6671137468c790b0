"""Finds what a permission request of the Agent Client Protocol would really do: the commands and paths it carries.

The kind that an agent gives its request is its own word, and is never taken for what the request does.
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
    """All that a request names."""

    commands: tuple[Command, ...]
    paths: tuple[str, ...]
    addresses: tuple[str, ...]


def read(call: ToolCallUpdate) -> Request:
    """Return what a request carries, wherever its agent has put it."""
    given = call.raw_input
    if isinstance(given, (str, list)):
        given = {"command": given}
    commands = tuple(_commands(given, _DEEPEST))
    named = [place.path for place in call.locations or []]
    named += [path for item in call.content or [] if isinstance(path := getattr(item, "path", None), str)]
    named += _strings(given, _PATHS, _DEEPEST)
    paths = [path.removeprefix(_FILE) for path in named if "://" not in path.removeprefix(_FILE)]
    addresses = [*_strings(given, frozenset(("url", "urls", "uri", "address")), _DEEPEST)]
    return Request(commands, tuple(dict.fromkeys(paths)), tuple(one for one in addresses if "://" in one))


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
        elif words := _words(item):
            yield (*words, *arguments)
            if _plain(name) == "commands":  # a list of lines, or the words of one
                yield from words


def _words(value: Any) -> list[str]:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, list) and all(isinstance(word, str) for word in value) else []


def _strings(value: Any, names: frozenset[str], depth: int, *, named: bool = False) -> Iterator[str]:  # noqa: ANN401
    """Yield every string that stands under one of these names."""
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
