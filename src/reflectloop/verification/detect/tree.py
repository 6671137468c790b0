"""The files of a project for detection, wherever they are stored; read-only."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable
from pathlib import Path

from reflectloop.system import beneath, tree_walk

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
        with tree_walk.opened(top) as folder:
            return beneath.read(folder, path, _LARGEST)
    except OSError:
        return None
