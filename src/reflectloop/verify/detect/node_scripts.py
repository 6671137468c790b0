"""What the scripts of a package.json come to: one check each, or several where a script is a plain row of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from reflectloop.verify.detect.part import Part, at
from reflectloop.verify.result import Detected, Kind
from reflectloop.verify.runners import TOOLS
from reflectloop.verify.runners.scripts import named
from reflectloop.verify.runners.words import Call, call, split

_SCRIPTS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("build", ("build",)),
    ("lint", ("lint", "eslint")),
    ("type", ("typecheck", "type-check", "check-types", "check:types", "types:check", "tsc")),
    ("test", ("test", "test:ci", "test:run", "test:unit", "tests")),
)
_EMPTY = re.compile(r"no test specified|^\s*(echo\b[^&|;]*|true|exit 0|:)?\s*$")
_WATCHES = re.compile(r"--watch(All)?\b(?!=false)|\bvitest (watch|dev)\b")
# Tools without a reader of their own, known well enough to say what kind of check they are.
_LINTERS = frozenset(["xo", "standard", "biome", "oxlint", "prettier", "stylelint", "knip", "publint", "attw"])
_TYPE_CHECKERS = frozenset(["tsd", "dtslint", "expect-type"])
_MENDS = frozenset(["--fix", "--write", "--apply"])  # a check looks; it does not mend
_NEEDS_SHELL = ("node-test", "tsc")  # do not unfold `*` themselves
_DEPTH = 4


class Packed(NamedTuple):
    manifest: Mapping[str, Any]
    scripts: Mapping[str, str]
    manager: str
    needs: frozenset[str]


def scripted(part: Part, packed: Packed) -> Iterator[Detected]:
    seen: set[tuple[str, ...]] = set()
    for kind, names in _SCRIPTS:
        name = next((name for name in names if _usable(packed.scripts.get(name, ""))), None)
        for check in _of_script(part, packed, name, kind) if name else ():
            if check.command not in seen:
                seen.add(check.command)
                yield check


def _usable(line: str) -> bool:
    return not _EMPTY.search(line) and not _WATCHES.search(line)


def _of_script(part: Part, packed: Packed, name: str, kind: Kind) -> list[Detected]:
    row = _row(part, packed, name, kind, _DEPTH)
    return row or [_whole(part, packed, name, kind)]


def _row(part: Part, packed: Packed, name: str, kind: Kind | None, depth: int) -> list[Detected]:
    """The checks a script is made of, its hooks included; none where any of it is not understood."""
    before, after = (packed.scripts.get(f"{when}{name}", "") for when in ("pre", "post"))
    plain = call(packed.scripts.get(name, ""))
    if plain and not (before or after or _MENDS & {*plain.arguments}):
        return [_plain(part, packed, name, plain, kind)]
    first = _pieces(part, packed, before, f"the script pre{name}", None, depth) if before else []
    own = _pieces(part, packed, packed.scripts.get(name, ""), f"the script {name}", kind, depth)
    if (before and not first) or not own:
        return [_plain(part, packed, name, plain, kind)] if plain else []
    # What follows the tests and is not understood is an audit or an upload, no check.
    return [*first, *own, *_pieces(part, packed, after, f"the script post{name}", None, depth)]


def _pieces(part: Part, packed: Packed, line: str, source: str, kind: Kind | None, depth: int) -> list[Detected]:
    found = [_piece(part, packed, one.strip(), source, kind, depth) for one in line.split("&&")] if depth else [[]]
    return [check for checks in found for check in checks] if all(found) else []


def _piece(part: Part, packed: Packed, line: str, source: str, kind: Kind | None, depth: int) -> list[Detected]:
    words = split(line) or ()
    script = named(words)
    if script:
        usable = script in packed.scripts and "--" not in words
        return _row(part, packed, script, kind, depth - 1) if usable else []
    found = call(words)
    other = _other(words)
    reason = f"package.json: {source} runs {line}"
    if found and not (found.tool in _NEEDS_SHELL and "*" in line):
        return [part.check(found.tool, _kind(part, found, kind), found.tool, _looking(found.bare), reason)]
    return [part.check(words[0], other, "npm", _looking(words), reason)] if other else []


def _looking(words: tuple[str, ...]) -> tuple[str, ...]:
    if "prettier" in words[:1]:  # without either it prints what it would write
        return tuple("--check" if word in _MENDS else word for word in words)
    return tuple(word for word in words if word not in _MENDS)


def _other(words: tuple[str, ...]) -> Kind | None:
    program = words[0] if words else ""
    return "lint" if program in _LINTERS else "type" if program in _TYPE_CHECKERS else None


def _kind(part: Part, found: Call, asked: Kind | None) -> Kind:
    """A tsc that writes what it makes is a build."""
    if found.tool != "tsc" or asked == "type" or "--noEmit" in found.arguments:
        return TOOLS[found.tool].kind
    words = found.arguments
    project = next((after for word, after in pairwise(words) if word in ("-p", "--project")), "tsconfig.json")
    return "type" if at(part.json(project), "compilerOptions", "noEmit") else "build"


def _plain(part: Part, packed: Packed, name: str, found: Call, asked: Kind | None) -> Detected:
    reason = f"package.json: the script {name} is {packed.scripts[name]}"
    return part.check(found.tool, _kind(part, found, asked), found.tool, _run(packed, name), reason)


def _whole(part: Part, packed: Packed, name: str, kind: Kind) -> Detected:
    words = split(packed.scripts[name]) or ()
    known = words[0] if _other(words) else f"{packed.manager}-{name}"
    return part.check(known, kind, "npm", _run(packed, name), f"package.json has the script {name}")


def _run(packed: Packed, name: str) -> tuple[str, ...]:
    return ("npm", "test") if (packed.manager, name) == ("npm", "test") else (packed.manager, "run", name)
