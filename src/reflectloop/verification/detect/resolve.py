"""Find the executable for a check: in the project, then in the caller's environment, then on PATH."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools.registry import runnable, tools

_ENVIRONMENTS = (".venv", "venv")
_MODULES = "node_modules"
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")


def resolve(
    check: DetectedCheck, root: Path, env: Mapping[str, str], carried: Sequence[str | Path] | None = None
) -> DetectedCheck:
    """Return the check with the command that really starts it, or unchanged if no executable is found.

    `carried` are the project's paths that the command will see; by default all that `beside` returns.
    """
    lead, command = _split_env(check.command)
    if not command:
        return check
    visible = beside([check], root) if carried is None else carried
    places = _Places(root, check.cwd, env, frozenset(root / path for path in visible))
    argv = (*lead, *_program(command[0], places), *command[1:])
    tool = runnable(check.tool)
    if tool and tool.run and tool.run.local_options:
        argv = _with_options(argv, tool.run.local_options(root / check.cwd, places.modules()))
    return check._replace(command=argv)


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
    names = [folder / name for folder in folders for name in (*_ENVIRONMENTS, _MODULES)]
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


class _Places:
    def __init__(self, root: Path, cwd: str, env: Mapping[str, str], carried: frozenset[Path]) -> None:
        self._root, self._cwd, self._env, self._carried = root, root / cwd, env, carried
        self._upwards = tuple(_upwards(root, cwd))

    def python(self) -> str:
        for folder in self._environments():
            if _runs(folder / "bin" / "python"):
                return self._display(folder / "bin" / "python")
        return next((name for name in ("python3", "python") if self._on_path(name)), "python3")

    def python_tool(self, name: str) -> tuple[str, ...]:
        """Return the environment's executable, or else its module; another environment lacks the dependencies."""
        for folder in self._environments():
            if _runs(folder / "bin" / name):
                return (self._display(folder / "bin" / name),)
            if any(folder.glob(f"lib/python*/site-packages/{name}/__main__.py")):
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
        places = [folder / ".bin" for folder in self.modules()]
        places += [folder / "vendor" / "bin" for folder in self._upwards]
        return next((self._display(place / name) for place in places if _runs(place / name)), None)

    def modules(self) -> list[Path]:
        return [folder / _MODULES for folder in self._upwards if folder / _MODULES in self._carried]

    def _environments(self) -> Iterator[Path]:
        for folder in self._upwards:
            for path in (folder / name for name in _ENVIRONMENTS):
                if path in self._carried and (path / "pyvenv.cfg").is_file():
                    yield path
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            if self._env.get(variable):
                yield Path(self._env[variable])

    def _on_path(self, name: str) -> bool:
        return shutil.which(name, path=self._env.get("PATH", os.defpath)) is not None

    def _display(self, path: Path) -> str:
        """Return a path in the project relative to the check's folder, since the workspace may be elsewhere."""
        return os.path.relpath(path, self._cwd) if path.is_relative_to(self._root) else str(path)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
