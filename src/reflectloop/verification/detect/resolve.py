"""Find the executable for a check: in the project, then in the caller's environment, then on PATH."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from reflectloop.system import beneath, tree_walk
from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools.registry import runnable, tools
from reflectloop.workspace.carry import ENVIRONMENTS, MODULES

_PACKAGES = ("site-packages", "dist-packages")
_ASSIGNED = lazy(r"[A-Za-z_]\w*=")


def resolve(
    check: DetectedCheck,
    root: Path,
    env: Mapping[str, str],
    carried: Sequence[str | Path] | None = None,
    installed: Mapping[Path, Path] | None = None,
) -> DetectedCheck:
    """Return the check with the command that really starts it, or unchanged if no executable is found.

    `carried` are the project's paths that the command will see; by default all that `beside` returns. `installed` are
    paths that a set-up made, with the place of their files: they come before the project's own.
    """
    lead, command = _split_env(check.command)
    if not command:
        return check
    visible = beside([check], root) if carried is None else carried
    sources = {**{root / path: root / path for path in visible}, **_placed(root, installed or {})}
    places = _Places(root, check.cwd, env, sources, frozenset(_placed(root, installed or {})))
    argv = (*lead, *_program(command[0], places), *command[1:])
    tool = runnable(check.tool)
    if tool and tool.run and tool.run.local_options:
        argv = _with_options(argv, tool.run.local_options(root / check.cwd, places.modules()))
    return check._replace(command=argv)


def _placed(root: Path, installed: Mapping[Path, Path]) -> dict[Path, Path]:
    """Return the folders of a set-up by their path in the project; a link that it left is resolved in no check."""
    return {root / path: source for path, source in installed.items() if source.is_dir() and not source.is_symlink()}


def _with_options(argv: tuple[str, ...], options: tuple[str, ...]) -> tuple[str, ...]:
    joint = ("--",) if options and argv[0] == "npm" and "--" not in argv else ()
    return (*argv, *joint, *options)


def _program(name: str, places: _Places) -> tuple[str, ...]:
    if name == "python":
        return (places.python(),)
    if name in _python_tools():
        return places.python_tool(name)
    return (name if "/" in name else places.carried_tool(name) or name,)


@cache
def _python_tools() -> dict[str, bool]:
    """Return the executables that Python environments have, and whether `python -m` starts them too."""
    return {tool.call.python_program: tool.call.python_module for tool in tools() if tool.call.python_program}


def beside(checks: Iterable[DetectedCheck], root: Path) -> tuple[str, ...]:
    """Return the folders of installed tools and dependencies that these checks use, relative to the project."""
    folders = dict.fromkeys(folder for check in checks for folder in _upwards(root, check.cwd))
    names = [folder / name for folder in folders for name in (*ENVIRONMENTS, MODULES)]
    return tuple(str(path.relative_to(root)) for path in names if path.is_dir())


def _upwards(root: Path, cwd: str) -> Iterator[Path]:
    """Yield the folders from the check's folder up to the top of the project."""
    folder = root / cwd
    while folder != root and root in folder.parents:
        yield folder
        folder = folder.parent
    yield root


def _split_env(command: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a command into its `env A=b` prefix and the rest."""
    at = 0
    if command[:1] == ("env",):
        at = next(
            (place for place, argument in enumerate(command) if place and not _ASSIGNED.match(argument)), len(command)
        )
    return command[:at], command[at:]


_PYTHON_NAMED = re.compile(rb"#!\s*(/\S+/python[\d.]*)\s")
_LONGEST_LINE = 512


class _Places:
    def __init__(
        self, root: Path, cwd: str, env: Mapping[str, str], sources: Mapping[Path, Path], installed: frozenset[Path]
    ) -> None:
        self._root, self._cwd, self._env = root, root / cwd, env
        self._sources = sources  # the place of the files, by the path that commands see
        self._installed = installed  # those of a set-up: links in them are not followed
        self._upwards = tuple(_upwards(root, cwd))

    def python(self) -> str:
        for folder in self._environments():
            if self._has_program(folder, "bin/python"):
                return self._display(folder / "bin" / "python")
        return next((name for name in ("python3", "python") if self._on_path(name)), "python3")

    def python_tool(self, name: str) -> tuple[str, ...]:
        """Return the environment's executable, or else its module; another environment lacks the dependencies."""
        for folder in self._environments():
            if self._has_program(folder, f"bin/{name}") and not self._is_of_another_place(folder, name):
                return (self._display(folder / "bin" / name),)
            if self._has_module(folder, name):
                return (self._display(folder / "bin" / "python"), "-m", name)
        environment = next(self._environments(), None)
        if environment and environment.is_relative_to(self._root) and _python_tools()[name]:
            return (
                self._display(environment / "bin" / "python"),
                "-m",
                name,
            )  # the system's tool would not see its packages
        if self._on_path(name) or not _python_tools()[name]:
            return (name,)
        return (self.python(), "-m", name)

    def carried_tool(self, name: str) -> str | None:
        """Return the tool that npm or composer installed in the project, or None."""
        for folder in self._upwards:
            if folder / MODULES in self._sources and self._has_program(folder / MODULES, f".bin/{name}"):
                return self._display(folder / MODULES / ".bin" / name)
        vendored = [folder / "vendor" / "bin" / name for folder in self._upwards]
        return next((self._display(path) for path in vendored if _runs(path)), None)

    def modules(self) -> list[Path]:
        return [self._sources[path] for folder in self._upwards if (path := folder / MODULES) in self._sources]

    def _environments(self) -> Iterator[Path]:
        for folder in self._upwards:
            for path in (folder / name for name in ENVIRONMENTS):
                if path in self._sources and (self._sources[path] / "pyvenv.cfg").is_file():
                    yield path
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            if self._env.get(variable):
                yield Path(self._env[variable])

    def _has_program(self, folder: Path, name: str) -> bool:
        place = self._sources.get(folder, folder)
        if folder not in self._installed:
            return _runs(place / name)
        with tree_walk.open_folder(place) as top:  # a link is resolved in the sandbox only
            status = beneath.status(top, name)
        return status is not None and (stat.S_ISLNK(status.st_mode) or bool(status.st_mode & stat.S_IXUSR))

    def _is_of_another_place(self, folder: Path, name: str) -> bool:
        """Return True if a script of an environment names the Python of another one: it was moved or copied."""
        place = self._sources.get(folder, folder)
        if folder in self._installed:
            return False
        with (place / "bin" / name).open("rb") as script:
            named = _PYTHON_NAMED.match(script.read(_LONGEST_LINE))
        if named is None:
            return False
        own = {(path / "bin").resolve() for path in (folder, place)}
        return Path(os.fsdecode(named[1])).parent.resolve() not in own

    def _has_module(self, folder: Path, name: str) -> bool:
        place = self._sources.get(folder, folder)
        if folder in self._installed:
            return any(contains_file(site, f"{name}/__main__.py") for site in installed_sites(place))
        return any(place.glob(f"lib/python*/site-packages/{name}/__main__.py"))

    def _on_path(self, name: str) -> bool:
        return shutil.which(name, path=self._env.get("PATH", os.defpath)) is not None

    def _display(self, path: Path) -> str:
        """Return a path in the project relative to the check's folder, since the workspace may be elsewhere."""
        return os.path.relpath(path, self._cwd) if path.is_relative_to(self._root) else str(path)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def installed_sites(environment: Path) -> Iterator[Path]:
    """Yield the folders of packages in an environment that a set-up made, through no link."""
    with tree_walk.open_folder(environment) as top:
        if beneath.is_folder(top, "lib"):
            names = sorted(path.name for path in (environment / "lib").iterdir() if path.name.startswith("python3"))
            inside = [f"lib/{name}/{part}" for name in names for part in _PACKAGES]
            yield from (environment / path for path in inside if beneath.is_folder(top, path))


def contains_file(site: Path, path: str) -> bool:
    """Return True if a folder has a plain file, reached through no link."""
    with tree_walk.open_folder(site) as top:
        return beneath.is_file(top, path)
