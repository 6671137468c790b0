"""One self-contained folder of a project; files that cannot be read count as empty."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from reflectloop.verification.detect.tree import ProjectFiles
from reflectloop.verification.result import DetectedCheck, Kind

_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


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
