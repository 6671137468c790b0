"""Which tool a command runs, seen through the words that only lead to it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple


class Call(NamedTuple):
    """A plain call of one tool: nothing before it but words that lead to it, nothing after it but its own."""

    tool: str
    lead: tuple[str, ...]
    arguments: tuple[str, ...]
    begins: int  # where in `lead` the tool itself stands

    @property
    def bare(self) -> tuple[str, ...]:
        """Without what leads to it but the variables it is given: no coverage, no package manager."""
        given = tuple(word for word in self.lead[: self.begins] if _ASSIGNED.match(word))
        own = (*self.lead[self.begins :], *self.arguments)
        return ("env", *given, *own) if given else own


class _Wrapper(NamedTuple):
    valued: frozenset[str] = frozenset()  # options whose value is the next word
    positional: int = 0


# Longest first where one begins with another.
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
    """The words of a line that a shell would do nothing else with; None where it would."""
    try:
        return None if _SHELL.search(line) else tuple(shlex.split(line))
    except ValueError:
        return None


def call(command: Sequence[str] | str) -> Call | None:
    words = split(command) if isinstance(command, str) else tuple(command)
    if words and PurePosixPath(words[0]).name in ("sh", "bash") and len(words) == 3 and words[1] == "-c":  # noqa: PLR2004
        words = split(words[2])
    return _call(words, 0) if words else None


def _call(words: tuple[str, ...], at: int) -> Call | None:
    while at < len(words) and _ASSIGNED.match(words[at]):
        at += 1
    if at >= len(words):
        return None
    named = (PurePosixPath(words[at]).name, *words[at + 1 :])
    if _PYTHON.match(named[0]):
        return _of_python(words, at)
    if named[0] == "coverage" and named[1:2] == ("run",) and "-m" in named:
        return _of_module(words, words.index("-m", at), at)
    if named[0] in ("node", "tsx"):
        return _of_node(words, at)
    for lead, wrapper in _WRAPPERS.items():
        if named[: len(lead)] == lead:
            return _call(words, _past(words, at + len(lead), wrapper))
    return _of_program(words, at, named)


def _past(words: tuple[str, ...], at: int, wrapper: _Wrapper) -> int:
    at = _past_options(words, at, wrapper.valued)
    return at + wrapper.positional


def _past_options(words: tuple[str, ...], at: int, valued: frozenset[str]) -> int:
    while at < len(words) and (words[at].startswith("-") and words[at] != "-m"):
        at += 2 if words[at] in valued else 1
    return at


def _of_program(words: tuple[str, ...], at: int, named: tuple[str, ...]) -> Call | None:
    if named[0] == "cargo" and named[1:2] and named[1].startswith("+"):
        named = (named[0], *named[2:])
        shift = 1
    else:
        shift = 0
    for program, tool in _PROGRAMS.items():
        if named[: len(program)] == program:
            end = at + shift + len(program)
            return Call(tool, words[:end], words[end:], at)
    return None


def _of_python(words: tuple[str, ...], at: int) -> Call | None:
    begins, at = at, _past_options(words, at + 1, _PYTHON_VALUED)
    if at < len(words) and words[at] == "-m":
        if words[at + 1 : at + 2] == ("coverage",):
            return _of_module(words, words.index("-m", at + 2), begins) if "-m" in words[at + 2 :] else None
        return _of_module(words, at, begins)
    if words[at : at + 2] == ("manage.py", "test"):
        return Call("django", words[: at + 2], words[at + 2 :], begins)
    return None


def _of_module(words: tuple[str, ...], at: int, begins: int) -> Call | None:
    name = words[at + 1] if at + 1 < len(words) else ""
    if name not in _MODULES:
        return None
    end = at + (3 if words[at + 1 : at + 3] == ("ruff", "check") else 2)
    return Call(_MODULES[name], words[:end], words[end:], begins)


def _of_node(words: tuple[str, ...], at: int) -> Call | None:
    end = _past_options(words, at + 1, _NODE_VALUED)
    if any(word == "--test" for word in words[at:end]):
        return Call("node-test", words[: at + 1], words[at + 1 :], at)
    script = PurePosixPath(words[end]).name if end < len(words) else ""
    # `node --inspect node_modules/.bin/jest` and the like.
    known = _PROGRAMS.get((script.removesuffix(".js"),))
    return Call(known, words[: end + 1], words[end + 1 :], at) if known else None
