"""Find project modules that an environment contains as copies, since tests would import those instead of the change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from reflectloop.system import beneath, tree_walk

_PACKAGES = ("site-packages", "dist-packages")
_ROOTS = ("src", "lib", "python")
_DEEPEST = 3  # folders in a package's name
_NOT_THE_PROJECTS = frozenset(("tests", "test", "testing", "docs", "doc", "examples", "benchmarks", "scripts", "tools"))
_NO_MODULES = frozenset(("setup", "conftest", "noxfile", "tasks", "manage", "versioneer"))


class Copy(NamedTuple):
    """A project module of which an environment has a copy."""

    folder: str  # the project folder that contains the module
    module: str
    site: Path  # the site-packages folder that contains the copy


def found(paths: Iterable[str], sites: Sequence[Path], installed: Sequence[Path] = ()) -> list[Copy]:
    """Return one for each folder of modules, the first that was found.

    `installed` are environments that a set-up made in a box: links in them are not followed, unlike in the user's.
    """
    boxed = [site for environment in installed for site in _sites(environment)]
    known: dict[str, Copy] = {}
    for folder, module_path in _modules(paths):
        if folder not in known:
            site = next((site for site in boxed if _holds(site, module_path)), None)
            site = site or next((site for site in sites if (site / module_path).is_file()), None)
            if site:
                known[folder] = Copy(folder, module_path.removesuffix("/__init__.py").removesuffix(".py"), site)
    return list(known.values())


def _sites(environment: Path) -> Iterator[Path]:
    with tree_walk.opened(environment) as top:
        if beneath.is_folder(top, "lib"):
            names = sorted(path.name for path in (environment / "lib").iterdir() if path.name.startswith("python3"))
            inside = [f"lib/{name}/{part}" for name in names for part in _PACKAGES]
            yield from (environment / path for path in inside if beneath.is_folder(top, path))


def _holds(site: Path, path: str) -> bool:
    with tree_walk.opened(site) as top:
        return beneath.is_file(top, path)


def _modules(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield every top-level importable module: its folder, and its file relative to that folder."""
    for path in paths:
        parts = PurePosixPath(path).parts
        folder = parts[0] if parts[0] in _ROOTS else "."
        relative = parts[1:] if folder != "." else parts
        if not relative or relative[0] in _NOT_THE_PROJECTS or len(relative) > _DEEPEST + 1:
            continue
        package = relative[-1] == "__init__.py" and len(relative) > 1
        single_module = len(relative) == 1 and relative[0].endswith(".py") and relative[0][:-3] not in _NO_MODULES
        if package or single_module:
            yield folder, "/".join(relative)
