"""Recognise the tool a command runs, ignoring wrappers such as `uv run`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple


class RunnerCall(NamedTuple):
    """A plain call of one tool: wrappers before it, its arguments after it, and nothing else."""

    tool: str
    lead: tuple[str, ...]
    arguments: tuple[str, ...]
    begins: int  # index in `lead` of the tool

    @property
    def bare(self) -> tuple[str, ...]:
        """The call without its wrappers (coverage, package manager), but with the variables set for it."""
        variables = tuple(word for word in self.lead[: self.begins] if _ASSIGNED.match(word))
        argv = (*self.lead[self.begins :], *self.arguments)
        return ("env", *variables, *argv) if variables else argv


class _Wrapper(NamedTuple):
    valued: frozenset[str] = frozenset()  # options whose value is the next argument
    positional: int = 0


# If one entry is a prefix of another, the longer one comes first.
_PROGRAMS: dict[tuple[str, ...], str] = {
    ("pytest",): "pytest",
    ("py.test",): "pytest",
    ("tox",): "tox",
    ("nox",): "nox",
    ("ruff", "check"): "ruff",
    ("flake8",): "flake8",
    ("mypy",): "mypy",
    ("pyright",): "pyright",
    ("basedpyright",): "pyright",
    ("jest",): "jest",
    ("vitest", "run"): "vitest",
    ("vitest",): "vitest",
    ("mocha",): "mocha",
    ("_mocha",): "mocha",
    ("ts-mocha",): "mocha",
    ("react-scripts", "test"): "jest",
    ("craco", "test"): "jest",
    ("bun", "test"): "bun-test",
    ("ava",): "ava",
    ("tap",): "tap",
    ("tape",): "tape",
    ("eslint",): "eslint",
    ("tsc",): "tsc",
    ("vue-tsc",): "tsc",
    ("go", "test"): "go-test",
    ("go", "vet"): "go-vet",
    ("go", "build"): "go-build",
    ("cargo", "test"): "cargo-test",
    ("cargo", "t"): "cargo-test",
    ("cargo", "nextest", "run"): "nextest",
    ("cargo", "clippy"): "clippy",
    ("cargo", "build"): "cargo-build",
    ("cargo", "check"): "cargo-build",
    ("mvn",): "maven",
    ("mvnw",): "maven",
    ("gradle",): "gradle",
    ("gradlew",): "gradle",
    ("cmake",): "cmake",
    ("ctest",): "ctest",
    ("make",): "make",
    ("dotnet", "test"): "dotnet-test",
    ("dotnet", "build"): "dotnet-build",
    ("rspec",): "rspec",
    ("rake",): "rake",
    ("rubocop",): "rubocop",
    ("phpunit",): "phpunit",
    ("bats",): "bats",
}
_MODULES = {"pytest": "pytest", "unittest": "unittest", "ruff": "ruff", "flake8": "flake8", "mypy": "mypy"}
_MODULES |= {"tox": "tox", "nox": "nox", "pyright": "pyright"}

_PYTHON_ENVIRONMENT = _Wrapper(
    frozenset(["--with", "--group", "--extra", "-p", "--python", "--package", "--directory"])
)
_WRAPPERS: dict[tuple[str, ...], _Wrapper] = {
    ("env",): _Wrapper(frozenset(["-u"])),
    ("cross-env",): _Wrapper(),
    ("uv", "run"): _PYTHON_ENVIRONMENT,
    ("poetry", "run"): _PYTHON_ENVIRONMENT,
    ("pdm", "run"): _PYTHON_ENVIRONMENT,
    ("rye", "run"): _PYTHON_ENVIRONMENT,
    ("hatch", "run"): _PYTHON_ENVIRONMENT,
    ("pipenv", "run"): _PYTHON_ENVIRONMENT,
    ("npx",): _Wrapper(frozenset(["-p", "--package"])),
    ("bunx",): _Wrapper(),
    ("npm", "exec"): _Wrapper(frozenset(["-p", "--package"])),
    ("pnpm", "exec"): _Wrapper(),
    ("yarn", "exec"): _Wrapper(),
    ("yarn", "run"): _Wrapper(),
    ("bundle", "exec"): _Wrapper(),
    ("timeout",): _Wrapper(frozenset(["-s", "-k"]), positional=1),
    ("time",): _Wrapper(),
    ("nice",): _Wrapper(frozenset(["-n"])),
    ("xvfb-run",): _Wrapper(frozenset(["-s", "-n"])),
    ("c8",): _Wrapper(frozenset(["-r", "--reporter", "-n", "--include", "-x", "--exclude", "--temp-directory"])),
    ("nyc",): _Wrapper(frozenset(["-r", "--reporter", "-n", "--include", "-x", "--exclude", "--temp-dir"])),
}
_PYTHON = re.compile(r"python(\d(\.\d+)?)?$")
_NODE_VALUED = frozenset(["-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"])
_PYTHON_VALUED = frozenset(["-W", "-X"])
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_SHELL = re.compile(r"[;&|<>`$()\n]")


def split(line: str) -> tuple[str, ...] | None:
    """Split a line into arguments, or return None if a shell would do more than that with it."""
    try:
        return None if _SHELL.search(line) else tuple(shlex.split(line))
    except ValueError:
        return None


def call(command: Sequence[str] | str) -> RunnerCall | None:
    """Return the tool call of a command, or None if it is not a plain call of a known tool."""
    argv = split(command) if isinstance(command, str) else tuple(command)
    if argv and PurePosixPath(argv[0]).name in ("sh", "bash") and len(argv) == 3 and argv[1] == "-c":  # noqa: PLR2004
        argv = split(argv[2])
    return _call(argv, 0) if argv else None


def _call(argv: tuple[str, ...], at: int) -> RunnerCall | None:
    while at < len(argv) and _ASSIGNED.match(argv[at]):
        at += 1
    if at >= len(argv):
        return None
    named = (PurePosixPath(argv[at]).name, *argv[at + 1 :])
    if _PYTHON.match(named[0]):
        return _python_call(argv, at)
    if named[0] == "coverage" and named[1:2] == ("run",) and "-m" in named:
        return _module_call(argv, argv.index("-m", at), at)
    if named[0] in ("node", "tsx"):
        return _node_call(argv, at)
    for lead, wrapper in _WRAPPERS.items():
        if named[: len(lead)] == lead:
            return _call(argv, _skip_wrapper(argv, at + len(lead), wrapper))
    return _program_call(argv, at, named)


def _skip_wrapper(argv: tuple[str, ...], at: int, wrapper: _Wrapper) -> int:
    at = _skip_options(argv, at, wrapper.valued)
    return at + wrapper.positional


def _skip_options(argv: tuple[str, ...], at: int, valued: frozenset[str]) -> int:
    while at < len(argv) and (argv[at].startswith("-") and argv[at] != "-m"):
        at += 2 if argv[at] in valued else 1
    return at


def _program_call(argv: tuple[str, ...], at: int, named: tuple[str, ...]) -> RunnerCall | None:
    if named[0] == "cargo" and named[1:2] and named[1].startswith("+"):
        named = (named[0], *named[2:])
        shift = 1
    else:
        shift = 0
    for program, tool in _PROGRAMS.items():
        if named[: len(program)] == program:
            end = at + shift + len(program)
            return RunnerCall(tool, argv[:end], argv[end:], at)
    return None


def _python_call(argv: tuple[str, ...], at: int) -> RunnerCall | None:
    begins, at = at, _skip_options(argv, at + 1, _PYTHON_VALUED)
    if at < len(argv) and argv[at] == "-m":
        if argv[at + 1 : at + 2] == ("coverage",):
            return _module_call(argv, argv.index("-m", at + 2), begins) if "-m" in argv[at + 2 :] else None
        return _module_call(argv, at, begins)
    if argv[at : at + 2] == ("manage.py", "test"):
        return RunnerCall("django", argv[: at + 2], argv[at + 2 :], begins)
    return None


def _module_call(argv: tuple[str, ...], at: int, begins: int) -> RunnerCall | None:
    name = argv[at + 1] if at + 1 < len(argv) else ""
    if name not in _MODULES:
        return None
    end = at + (3 if argv[at + 1 : at + 3] == ("ruff", "check") else 2)
    return RunnerCall(_MODULES[name], argv[:end], argv[end:], begins)


def _node_call(argv: tuple[str, ...], at: int) -> RunnerCall | None:
    end = _skip_options(argv, at + 1, _NODE_VALUED)
    if any(word == "--test" for word in argv[at:end]):
        return RunnerCall("node-test", argv[: at + 1], argv[at + 1 :], at)
    script = PurePosixPath(argv[end]).name if end < len(argv) else ""
    # `node --inspect node_modules/.bin/jest` and the like.
    known = _PROGRAMS.get((script.removesuffix(".js"),))
    return RunnerCall(known, argv[: end + 1], argv[end + 1 :], at) if known else None
