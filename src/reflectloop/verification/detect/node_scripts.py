"""Convert the scripts of a package.json to checks: one each, or several for a plain sequence of commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from reflectloop.verification.detect.part import ProjectPart, at
from reflectloop.verification.result import DetectedCheck, Kind
from reflectloop.verification.runners import TOOLS
from reflectloop.verification.runners.command_recognition import RunnerCall, call, split
from reflectloop.verification.runners.scripts import named

_SCRIPTS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("build", ("build",)),
    ("lint", ("lint", "eslint")),
    ("type", ("typecheck", "type-check", "check-types", "check:types", "types:check", "tsc")),
    ("test", ("test", "test:ci", "test:run", "test:unit", "tests")),
)
_EMPTY = re.compile(r"no test specified|^\s*(echo\b[^&|;]*|true|exit 0|:)?\s*$")
_WATCHES = re.compile(r"--watch(All)?\b(?!=false)|\bvitest (watch|dev)\b")
# Tools without a report reader whose kind of check is known.
_LINTERS = frozenset(["xo", "standard", "biome", "oxlint", "prettier", "stylelint", "knip", "publint", "attw"])
_TYPE_CHECKERS = frozenset(["tsd", "dtslint", "expect-type"])
_FIX_FLAGS = frozenset(["--fix", "--write", "--apply"])  # a check must not change files
_NEEDS_SHELL = ("node-test", "tsc")  # do not expand `*` themselves
_DEPTH = 4


class PackageScripts(NamedTuple):
    """A package.json with its scripts, package manager and dependencies."""

    manifest: Mapping[str, Any]
    scripts: Mapping[str, str]
    manager: str
    needs: frozenset[str]


def scripted(part: ProjectPart, packed: PackageScripts) -> Iterator[DetectedCheck]:
    commands: set[tuple[str, ...]] = set()
    for kind, names in _SCRIPTS:
        name = next((name for name in names if _usable(packed.scripts.get(name, ""))), None)
        for check in _of_script(part, packed, name, kind) if name else ():
            if check.command not in commands:
                commands.add(check.command)
                yield check


def _usable(line: str) -> bool:
    return not _EMPTY.search(line) and not _WATCHES.search(line)


def _of_script(part: ProjectPart, packed: PackageScripts, name: str, kind: Kind) -> list[DetectedCheck]:
    row = _row(part, packed, name, kind, _DEPTH)
    return row or [_opaque(part, packed, name, kind)]


def _row(part: ProjectPart, packed: PackageScripts, name: str, kind: Kind | None, depth: int) -> list[DetectedCheck]:
    """Return the checks a script consists of, with its hooks, or none if a part is not understood."""
    before, after = (packed.scripts.get(f"{when}{name}", "") for when in ("pre", "post"))
    plain = call(packed.scripts.get(name, ""))
    if plain and not (before or after or _FIX_FLAGS & {*plain.arguments}):
        return [_plain(part, packed, name, plain, kind)]
    first = _pieces(part, packed, before, f"the script pre{name}", None, depth) if before else []
    main = _pieces(part, packed, packed.scripts.get(name, ""), f"the script {name}", kind, depth)
    if (before and not first) or not main:
        return [_plain(part, packed, name, plain, kind)] if plain else []
    # A command after the tests that is not understood is an audit or an upload, not a check.
    return [*first, *main, *_pieces(part, packed, after, f"the script post{name}", None, depth)]


def _pieces(
    part: ProjectPart, packed: PackageScripts, line: str, source: str, kind: Kind | None, depth: int
) -> list[DetectedCheck]:
    groups = [_piece(part, packed, piece.strip(), source, kind, depth) for piece in line.split("&&")] if depth else [[]]
    return [check for checks in groups for check in checks] if all(groups) else []


def _piece(
    part: ProjectPart, packed: PackageScripts, line: str, source: str, kind: Kind | None, depth: int
) -> list[DetectedCheck]:
    argv = split(line) or ()
    script = named(argv)
    if script:
        usable = script in packed.scripts and "--" not in argv
        return _row(part, packed, script, kind, depth - 1) if usable else []
    tool_call = call(argv)
    other = _other(argv)
    reason = f"package.json: {source} runs {line}"
    if tool_call and not (tool_call.tool in _NEEDS_SHELL and "*" in line):
        return [
            part.check(tool_call.tool, _kind(part, tool_call, kind), tool_call.tool, _read_only(tool_call.bare), reason)
        ]
    return [part.check(argv[0], other, "npm", _read_only(argv), reason)] if other else []


def _read_only(argv: tuple[str, ...]) -> tuple[str, ...]:
    if "prettier" in argv[:1]:  # without a flag it prints the formatted file
        return tuple("--check" if argument in _FIX_FLAGS else argument for argument in argv)
    return tuple(argument for argument in argv if argument not in _FIX_FLAGS)


def _other(argv: tuple[str, ...]) -> Kind | None:
    program = argv[0] if argv else ""
    return "lint" if program in _LINTERS else "type" if program in _TYPE_CHECKERS else None


def _kind(part: ProjectPart, tool_call: RunnerCall, asked: Kind | None) -> Kind:
    """Return the kind of a call; a tsc that writes its output is a build."""
    if tool_call.tool != "tsc" or asked == "type" or "--noEmit" in tool_call.arguments:
        return TOOLS[tool_call.tool].kind
    arguments = tool_call.arguments
    project = next((after for word, after in pairwise(arguments) if word in ("-p", "--project")), "tsconfig.json")
    return "type" if at(part.json(project), "compilerOptions", "noEmit") else "build"


def _plain(
    part: ProjectPart, packed: PackageScripts, name: str, tool_call: RunnerCall, asked: Kind | None
) -> DetectedCheck:
    reason = f"package.json: the script {name} is {packed.scripts[name]}"
    return part.check(tool_call.tool, _kind(part, tool_call, asked), tool_call.tool, _run(packed, name), reason)


def _opaque(part: ProjectPart, packed: PackageScripts, name: str, kind: Kind) -> DetectedCheck:
    argv = split(packed.scripts[name]) or ()
    known = argv[0] if _other(argv) else f"{packed.manager}-{name}"
    return part.check(known, kind, "npm", _run(packed, name), f"package.json has the script {name}")


def _run(packed: PackageScripts, name: str) -> tuple[str, ...]:
    return ("npm", "test") if (packed.manager, name) == ("npm", "test") else (packed.manager, "run", name)
