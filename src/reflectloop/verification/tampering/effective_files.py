"""Say which file of settings takes effect: makefiles hide each other, and some linters read the nearest settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected.parts import Part
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tools.registry import tools

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # the first one that is there is read
_INCLUDED = lazy(r"(?m)^[-s]?include[ \t]+(\S+)[ \t]*$")
_IGNORED_PATHS = lazy(r"(?:^|/)\.\w+ignore$")
# Linters that read the settings nearest to a file, and the key by which these add to those above.
_NEAREST = {"ruff": "ruff.extend", "rubocop": "inherit_from", "eslint": ""}
_ADDED = frozenset({"extends", "plugins"})  # of eslint, which takes those above, too
_ESLINT_KEY = "eslintConfig."


def is_list_of_ignored_paths(path: str) -> bool:
    return _IGNORED_PATHS.search(path) is not None


def table_of(key: str) -> str:
    return re.split(r"[.\-\[]", key, maxsplit=1)[0]


def prefixed(path: str) -> bool:
    """Return True if the keys of this file begin with the name of a tool."""
    return path.rpartition("/")[2].lower() in {"pyproject.toml", "setup.cfg", "tox.ini", "package.json"}


@cache
def tools_of(path: str) -> tuple[str, ...]:
    """Return the tools that read this file alone."""
    name = path.rpartition("/")[2].lower()
    listed_names = ((tool.name, tool.files) for tool in tools())
    patterns = ((name, f"{files.runner} {files.lint} {files.mixed_lint}".split()) for name, files in listed_names)
    return tuple(tool for tool, listed in patterns if any(fnmatch(name, pattern) for pattern in listed))


def tools_set_up(path: str, part: Part) -> set[str]:
    """Return the tools that this file has settings of."""
    if not prefixed(path):
        return set(tools_of(path))
    tables = {table_of(key) for key in part}
    return {tool.name for tool in tools() if tables & {*tool.files.package_keys.split(), *tool.files.pyproject.split()}}


class ReadFiles(NamedTuple):
    """The changes and the unchanged files of base as the tools read them."""

    changes: list[ChangedFile]
    unchanged: dict[str, bytes]


def with_makefiles(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> ReadFiles:
    """Return what is read; where it is another makefile now, it is compared with the one that was read before."""
    left = ReadFiles(list(changes), dict(context))
    folders = {change.path.rpartition("/")[0] for change in changes if change.path.rpartition("/")[2] in _MAKEFILES}
    for folder in sorted(folders):
        paths = [f"{folder}/{name}" if folder else name for name in _MAKEFILES]
        own = {change.path: change for change in changes if change.path in paths}
        before = {path: own[path].before if path in own else context.get(path) for path in paths}
        after = {path: own[path].after if path in own else context.get(path) for path in paths}
        was, now = (next((path for path in paths if side[path] is not None), None) for side in (before, after))
        if was is None or now is None or was == now:
            continue
        text = _with_included(after[now] or b"", {path.rpartition("/")[2]: data for path, data in after.items()})
        left = ReadFiles(
            [*(change for change in left.changes if change.path not in own), ChangedFile(now, before[was], text)],
            {path: data for path, data in left.unchanged.items() if path not in paths},
        )
    return left


def _with_included(data: bytes, others: Mapping[str, bytes | None]) -> bytes:
    """Return a makefile in which the text of another one stands in the place of the line that includes it."""

    def text_of(match: re.Match[str]) -> str:
        included = others.get(match[1].removeprefix("./"))
        return match[0] if included is None else included.decode(errors="replace")

    return _INCLUDED.sub(text_of, data.decode(errors="replace")).encode()


def with_inherited(path: str, fresh: Part, others: Mapping[str, Part]) -> tuple[Part, Part] | None:
    """Return the settings that applied in the folder of a new file, and those that apply there now, or None.

    `others` has the settings of all files before the patch.
    """
    for tool in sorted(tools_set_up(path, fresh) & _NEAREST.keys()):
        own = _of(tool, path, fresh)
        folder = path.rpartition("/")[0]
        while folder and own:
            folder = folder.rpartition("/")[0]
            above = [
                _of(tool, other, part)
                for other, part in others.items()
                if other.rpartition("/")[0] == folder and tool in tools_set_up(other, part)
            ]
            if applied := next((part for part in above if part), None):
                plain = {key: value for key, value in own.items() if key != _NEAREST[tool] and key not in _ADDED}
                return applied, {**applied, **plain} if _adds(tool, own) else own
    return None


def _of(tool: str, path: str, part: Part) -> Part:
    if is_list_of_ignored_paths(path):
        return {}
    if tool == "eslint":
        return (
            {key.removeprefix(_ESLINT_KEY): value for key, value in part.items()}
            if not prefixed(path)
            else {key.removeprefix(_ESLINT_KEY): value for key, value in part.items() if key.startswith(_ESLINT_KEY)}
        )
    return {key: value for key, value in part.items() if not prefixed(path) or table_of(key) == tool}


def _adds(tool: str, own: Part) -> bool:
    return str(own.get("root")).lower() != "true" if tool == "eslint" else _NEAREST[tool] in own
