"""Recognise the tool a command runs, ignoring wrappers such as `uv run`, and the tool behind `npm test`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.tools.record import ASSIGNED, RunnerCall
from reflectloop.verification.tools.registry import tools

_Named = tuple[tuple[str, ...], str]  # the words of a name, and the tool


class _Wrapper(NamedTuple):
    valued: frozenset[str] = frozenset()  # options whose value is the next argument
    positional: int = 0


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
_PYTHON = lazy(r"python(\d(\.\d+)?)?$")
_NODE_VALUED = frozenset(["-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"])
_PYTHON_VALUED = frozenset(["-W", "-X"])
PACKAGE_MANAGERS = ("npm", "pnpm", "yarn", "bun")
_RUN = ("run", "run-script")
_SHORT = {"t": "test", "tst": "test"}
# Subcommands of package managers, which are not names of scripts.
_SUBCOMMANDS = frozenset(
    [
        *("add", "install", "i", "ci", "remove", "update", "up", "link", "outdated", "audit", "why"),
        *("exec", "dlx", "x", "init", "list", "pack", "publish"),
    ]
)
_SHELL = lazy(r"[;&|<>`$()\n]")


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
    while at < len(argv) and ASSIGNED.match(argv[at]):
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
    shift = 0
    if named[0] in _with_toolchain() and named[1:2] and named[1].startswith("+"):
        named = (named[0], *named[2:])
        shift = 1
    for program, tool in _programs():
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
    return _named_call(argv, at, begins, _python_scripts())


def _module_call(argv: tuple[str, ...], at: int, begins: int) -> RunnerCall | None:
    return _named_call(argv, at + 1, begins, _modules())


def _named_call(argv: tuple[str, ...], at: int, begins: int, known: Iterable[_Named]) -> RunnerCall | None:
    """Return the call if one of the known names is at this place."""
    for name, tool in known:
        end = at + len(name)
        if argv[at:end] == name:
            return RunnerCall(tool, argv[:end], argv[end:], begins)
    return None


def _node_call(argv: tuple[str, ...], at: int) -> RunnerCall | None:
    end = _skip_options(argv, at + 1, _NODE_VALUED)
    for option, tool in _node_options():
        if option in argv[at:end]:
            return RunnerCall(tool, argv[: at + 1], argv[at + 1 :], at)
    script = PurePosixPath(argv[end]).name if end < len(argv) else ""
    # `node --inspect node_modules/.bin/jest` and the like.
    known = dict(_programs()).get((script.removesuffix(".js"),))
    return RunnerCall(known, argv[: end + 1], argv[end + 1 :], at) if known else None


# What the records say ----------------------------------------------------------------------------------------


def _longest_first(names: Iterable[tuple[str, str]]) -> tuple[_Named, ...]:
    """Return the names as words with their tools; if one begins with another, the longer one comes first."""
    return tuple(sorted(((tuple(name.split()), tool) for name, tool in names), key=lambda named: -len(named[0])))


@cache
def _programs() -> tuple[_Named, ...]:
    return _longest_first((program, tool.name) for tool in tools() for program in tool.call.programs)


@cache
def _modules() -> tuple[_Named, ...]:
    return _longest_first((module, tool.name) for tool in tools() for module in tool.call.modules)


@cache
def _python_scripts() -> tuple[_Named, ...]:
    return _longest_first((script, tool.name) for tool in tools() for script in tool.call.python_scripts)


@cache
def _node_options() -> tuple[tuple[str, str], ...]:
    return tuple((option, tool.name) for tool in tools() for option in tool.call.node_options)


@cache
def _with_toolchain() -> frozenset[str]:
    return frozenset(program.split()[0] for tool in tools() if tool.call.toolchain for program in tool.call.programs)


# Scripts of package.json -------------------------------------------------------------------------------------


def script_name(argv: Sequence[str]) -> str | None:
    """Return the script that a package manager's command line runs, or None."""
    if not argv:
        return None
    program, rest = PurePosixPath(argv[0]).name, [word for word in argv[1:] if not word.startswith("-")]
    if program not in PACKAGE_MANAGERS or not rest:
        return None
    if rest[0] in _RUN:
        return rest[1] if len(rest) > 1 else None
    if program == "npm":
        first = _SHORT.get(rest[0], rest[0])
        return first if first in ("test", "start") else None
    # `bun test` is bun's own runner, whatever the script says.
    return None if rest[0] in _SUBCOMMANDS or (program == "bun" and rest[0] == "test") else rest[0]


def is_script(command: Sequence[str]) -> bool:
    """Return True if a package manager runs the tool through a script."""
    return bool(command) and PurePosixPath(command[0]).name in PACKAGE_MANAGERS and call(command) is None


def recognise(command: Sequence[str] | str, scripts: Mapping[str, str] | None = None) -> str | None:
    """Return the tool a command runs; "npm" for a script that does more than call one tool."""
    argv = split(command) if isinstance(command, str) else tuple(command)
    script = script_name(argv or ())
    if script is None:
        tool_call = call(command)
        return tool_call.tool if tool_call else None
    script_call = call((scripts or {}).get(script, ""))
    return script_call.tool if script_call else "npm"
