"""The files of a project for detection: all of them, one self-contained folder, its package.json; read-only."""

from __future__ import annotations

import configparser
import json
import os
import re
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.system import beneath, tree_walk
from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck, Kind

# Folders that tools create; they contain no files of the project.
NOT_OURS = frozenset(
    [
        ".git",
        ".hg",
        ".svn",
        ".reflectloop",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        ".eggs",
        "__pycache__",
        "site-packages",
        "node_modules",
        "bower_components",
        "vendor",
        "third_party",
        ".gradle",
        ".next",
        "target",
    ]
)
_LAST = "\U0010ffff"
_LARGEST = 1 << 20  # bytes; a larger file is not a manifest


class ProjectFiles:
    """Paths relative to the top of the project, and a reader for their content."""

    def __init__(self, paths: Iterable[str], read: Callable[[str], bytes | None]) -> None:
        self.paths = tuple(sorted(path for path in paths if NOT_OURS.isdisjoint(path.split("/")[:-1])))
        self.read = read
        self._known = frozenset(self.paths)

    def __contains__(self, path: str) -> bool:
        return path in self._known

    def under(self, prefix: str) -> tuple[str, ...]:
        """Return the paths that begin with the prefix, by binary search."""
        start = bisect_left(self.paths, prefix)
        end = bisect_left(self.paths, prefix + _LAST, start)
        return self.paths[start:end]

    @classmethod
    def of_folder(cls, top: Path) -> ProjectFiles:
        return cls(_files(top), lambda path: _content(top, path))


def _files(top: Path) -> Iterable[str]:
    for folder in tree_walk.walk(top, passing=(OSError,)):
        folder.entries = [entry for entry in folder.entries if entry.name not in NOT_OURS]
        for entry in folder.entries:
            if not entry.is_dir(follow_symlinks=False):
                yield os.fsencode(folder.within(entry.name)).decode("utf-8", "replace")


def _content(top: Path, path: str) -> bytes | None:
    """Return a manifest's content; None where it is no regular file of the size of one."""
    try:
        with tree_walk.open_folder(top) as folder:
            return beneath.read(folder, path, _LARGEST)
    except OSError:
        return None


_COMMENTS = lazy(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = lazy(r",(\s*[}\]])")


class ProjectPart:
    """A folder of a project, read leniently."""

    def __init__(self, tree: ProjectFiles, folder: str = ".", top: ProjectPart | None = None) -> None:
        self._tree, self.folder, self.top = tree, folder, top or self
        self._prefix = "" if folder == "." else f"{folder}/"

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Paths relative to this folder."""
        cut = len(self._prefix)
        return tuple(path[cut:] for path in self._tree.under(self._prefix))

    def first(self, names: Iterable[str]) -> str | None:
        return next((name for name in names if self._prefix + name in self._tree), None)

    def matching(self, pattern: str) -> Iterator[str]:
        search = re.compile(pattern).search
        return (path for path in self.paths if search(path))

    def has_folder(self, name: str) -> bool:
        return bool(self._tree.under(f"{self._prefix}{name}/"))

    def text(self, name: str) -> str:
        content = self._tree.read(self._prefix + name) if self._prefix + name in self._tree else None
        return (content or b"").decode("utf-8", "replace")

    def toml(self, name: str) -> dict[str, Any]:
        try:
            return tomllib.loads(self.text(name))
        except (ValueError, RecursionError):
            return {}

    def json(self, name: str) -> dict[str, Any]:
        """Parse a JSON file, allowing comments and trailing commas as tsconfig.json does."""
        text = _COMMENTS.sub(lambda match: match[1] or "", self.text(name))
        try:
            document = json.loads(_TRAILING_COMMA.sub(r"\1", text))
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}

    def ini(self, name: str) -> Mapping[str, Mapping[str, str]]:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(self.text(name))
        except configparser.Error:
            return {}
        return {name: dict(parser[name]) for name in parser}

    def check(self, name: str, kind: Kind, tool: str, command: Iterable[str], reason: str) -> DetectedCheck:
        named = name if self.folder == "." else f"{self.folder}:{name}"
        return DetectedCheck(named, kind, tool, tuple(command), self.folder, reason)


def at(value: Any, *keys: str) -> Any:  # noqa: ANN401 - any value of a manifest
    """Return the value under nested keys, or None if one of them is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def table(document: Any, *keys: str) -> dict[str, Any]:  # noqa: ANN401
    """Return the table under nested keys, or an empty one."""
    value = at(document, *keys)
    return value if isinstance(value, dict) else {}


def listed(document: Any, *keys: str) -> list[Any]:  # noqa: ANN401
    """Return the list under nested keys, or an empty one."""
    value = at(document, *keys)
    return value if isinstance(value, list) else []


class PackageScripts(NamedTuple):
    """A package.json with its scripts, package manager and dependencies."""

    manifest: Mapping[str, Any]
    scripts: Mapping[str, str]
    manager: str
    needs: frozenset[str]
