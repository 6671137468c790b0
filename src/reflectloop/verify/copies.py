"""Finds modules of the project that an environment holds as copies: tests would import those, and never the change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_ROOTS = ("src", "lib", "python")
_DEEPEST = 3  # folders of a package's name
_NOT_THE_PROJECTS = frozenset(("tests", "test", "testing", "docs", "doc", "examples", "benchmarks", "scripts", "tools"))
_NO_MODULES = frozenset(("setup", "conftest", "noxfile", "tasks", "manage", "versioneer"))


class Copy(NamedTuple):
    folder: str  # of the project, in which the module lies
    module: str
    site: Path  # where the copy lies


def found(paths: Iterable[str], sites: Sequence[Path]) -> list[Copy]:
    """One for each folder of modules, the first that was found."""
    known: dict[str, Copy] = {}
    for folder, inside in _modules(paths):
        if folder not in known:
            site = next((site for site in sites if (site / inside).is_file()), None)
            if site:
                known[folder] = Copy(folder, inside.removesuffix("/__init__.py").removesuffix(".py"), site)
    return list(known.values())


def _modules(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Every module that could be imported from the top: the folder it lies in, and its file from there."""
    for path in paths:
        parts = PurePosixPath(path).parts
        folder = parts[0] if parts[0] in _ROOTS else "."
        inside = parts[1:] if folder != "." else parts
        if not inside or inside[0] in _NOT_THE_PROJECTS or len(inside) > _DEEPEST + 1:
            continue
        package = inside[-1] == "__init__.py" and len(inside) > 1
        alone = len(inside) == 1 and inside[0].endswith(".py") and inside[0][:-3] not in _NO_MODULES
        if package or alone:
            yield folder, "/".join(inside)
