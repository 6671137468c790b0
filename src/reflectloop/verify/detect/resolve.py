"""Which executable a check is run with: what the project carries, then the caller's environment, then the PATH."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from reflectloop.verify.detect import vite
from reflectloop.verify.result import Detected

_ENVIRONMENTS = (".venv", "venv")
_MODULES = "node_modules"
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_PYTHON_TOOLS = frozenset(["pytest", "ruff", "flake8", "mypy", "pyright", "tox", "nox"])
_BY_MODULE = _PYTHON_TOOLS - {"pyright"}


def resolve(
    check: Detected, root: Path, env: Mapping[str, str], carried: Sequence[str | Path] | None = None
) -> Detected:
    """The check with the words that really start it; left as it is where nothing is found, to be seen missing.

    `carried` are the project's paths that the command will see; by default all that `beside` names.
    """
    lead, command = _parted(check.command)
    if not command:
        return check
    seen = beside([check], root) if carried is None else carried
    places = _Places(root, check.cwd, env, frozenset(root / path for path in seen))
    words = (*lead, *_program(command[0], places), *command[1:])
    if check.tool == "vitest":
        words = _given(words, vite.loader(root / check.cwd, places.modules()))
    return check._replace(command=words)


def _given(words: tuple[str, ...], options: tuple[str, ...]) -> tuple[str, ...]:
    joint = ("--",) if options and words[0] == "npm" and "--" not in words else ()
    return (*words, *joint, *options)


def _program(name: str, places: _Places) -> tuple[str, ...]:
    if name == "python":
        return (places.python(),)
    if name in _PYTHON_TOOLS:
        return places.python_tool(name)
    return (name if "/" in name else places.carried_tool(name) or name,)


def beside(checks: Iterable[Detected], root: Path) -> tuple[str, ...]:
    """The folders of installed tools and dependencies that these checks would look into, from the project's top."""
    folders = dict.fromkeys(folder for check in checks for folder in _upwards(root, check.cwd))
    names = [folder / name for folder in folders for name in (*_ENVIRONMENTS, _MODULES)]
    return tuple(str(path.relative_to(root)) for path in names if path.is_dir())


def _upwards(root: Path, cwd: str) -> Iterator[Path]:
    """From the check's folder to the top of the project."""
    folder = root / cwd
    while folder != root and root in folder.parents:
        yield folder
        folder = folder.parent
    yield root


def _parted(command: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`env A=b` stays before what is looked for."""
    at = 0
    if command[:1] == ("env",):
        at = next((place for place, word in enumerate(command) if place and not _ASSIGNED.match(word)), len(command))
    return command[:at], command[at:]


class _Places:
    def __init__(self, root: Path, cwd: str, env: Mapping[str, str], carried: frozenset[Path]) -> None:
        self._root, self._cwd, self._env, self._carried = root, root / cwd, env, carried
        self._upwards = tuple(_upwards(root, cwd))

    def python(self) -> str:
        for folder in self._environments():
            if _runs(folder / "bin" / "python"):
                return self._said(folder / "bin" / "python")
        return next((name for name in ("python3", "python") if self._on_path(name)), "python3")

    def python_tool(self, name: str) -> tuple[str, ...]:
        """Within one environment the executable, else the module: another's would not see the project's needs."""
        for folder in self._environments():
            if _runs(folder / "bin" / name):
                return (self._said(folder / "bin" / name),)
            if any(folder.glob(f"lib/python*/site-packages/{name}/__main__.py")):
                return (self._said(folder / "bin" / "python"), "-m", name)
        own = next(self._environments(), None)
        if own and own.is_relative_to(self._root) and name in _BY_MODULE:
            return (self._said(own / "bin" / "python"), "-m", name)  # the machine's would not see what it installed
        if self._on_path(name) or name not in _BY_MODULE:
            return (name,)
        return (self.python(), "-m", name)

    def carried_tool(self, name: str) -> str | None:
        """What npm and composer install beside the project."""
        places = [folder / ".bin" for folder in self.modules()]
        places += [folder / "vendor" / "bin" for folder in self._upwards]
        return next((self._said(place / name) for place in places if _runs(place / name)), None)

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

    def _said(self, path: Path) -> str:
        """Relative to the check's folder if in the project: the workspace may lie elsewhere."""
        return os.path.relpath(path, self._cwd) if path.is_relative_to(self._root) else str(path)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
