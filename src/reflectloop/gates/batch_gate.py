"""The quick gate between batches: a contract, files that are not empty and parse, imports that lead somewhere; pure."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from reflectloop.gates.decisions import Gate, GateReason, Ruling, settle
from reflectloop.terms import Decision
from reflectloop.verification.result import ChangedFile

_MAY_BE_EMPTY = frozenset(("__init__.py", "py.typed", "conftest.py"))
_CODE = frozenset(
    (".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".c", ".h")
)
_CODE |= frozenset((".cc", ".cpp", ".hpp", ".cs", ".rb", ".php", ".sh", ".css", ".html", ".sql"))
_ROOTS = ("", "src/", "lib/", "python/")


class SyntaxProblem(NamedTuple):
    path: str
    line: int | None
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}" if self.line else f"{self.path}: {self.what}"


def look(changes: Sequence[ChangedFile], listing: Mapping[str, Any], *, has_contract: bool, start: str = "") -> Ruling:
    """`listing` is every path of the tree that the batch came to."""
    reasons = [] if has_contract else [_reason("contract.missing", "the batch has no contract: no goal and no track")]
    reasons += [_reason("batch.broken", str(one)) for change in changes for one in faults(change, listing)]
    return settle(Gate.PROOF, reasons, start)


def _reason(rule: str, text: str) -> GateReason:
    return GateReason(Decision.RETRY, rule, text, "mend it; the next batch begins when this one holds")


def faults(change: ChangedFile, listing: Mapping[str, Any]) -> Iterator[SyntaxProblem]:
    if change.after is None or change.mode_after == "120000":
        return
    ending = PurePosixPath(change.path).suffix.lower()
    if not change.after.strip():
        if (ending in _CODE or ending in _PARSERS) and PurePosixPath(change.path).name not in _MAY_BE_EMPTY:
            yield SyntaxProblem(change.path, None, "is empty")
        return
    fault = _unparsed(change, ending)
    if fault:
        yield fault
    elif ending == ".py":
        yield from _lost_imports(change, listing)


# Parsing ----------------------------------------------------------------------------------------------------------


def _toml(raw: bytes) -> None:
    tomllib.loads(raw.decode())


def _yaml(raw: bytes) -> None:
    import yaml  # noqa: PLC0415 - only where there is one to look at

    try:
        for _ in yaml.parse(raw, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as fault:
        raise _NotYaml(str(fault), getattr(fault, "problem_mark", None)) from fault


class _NotYaml(ValueError):
    """The library is imported where it is used, so its own errors cannot be named further down."""

    def __init__(self, words: str, mark: object) -> None:
        super().__init__(words)
        self.problem_mark = mark


_PARSERS: Mapping[str, Callable[[bytes], object]] = {
    ".py": ast.parse,
    ".pyi": ast.parse,
    ".json": json.loads,
    ".toml": _toml,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".svg": ET.fromstring,
    ".xml": ET.fromstring,
}
_FAULTS = (SyntaxError, ValueError)  # of every parser here; XML's and Python's are of the first kind
_COMMENTED = frozenset(
    ("tsconfig.json", "jsconfig.json", ".eslintrc.json", "settings.json", "launch.json")
)  # JSON with comments


def _unparsed(change: ChangedFile, ending: str) -> SyntaxProblem | None:
    parse = _PARSERS.get(ending)
    name = PurePosixPath(change.path).name
    if parse is None or name in _COMMENTED or name.startswith("tsconfig.") or change.after is None:
        return None
    if change.before is not None and not _parses(parse, change.before):
        return None  # it was no better before: a template, say, or a fixture for a parser
    try:
        parse(change.after)
    except RecursionError:
        return None
    except _FAULTS as fault:
        return SyntaxProblem(change.path, _line_of(fault), f"does not parse: {str(fault).splitlines()[0]}")
    return None


def _parses(parse: Callable[[bytes], object], raw: bytes) -> bool:
    try:
        parse(raw)
    except (*_FAULTS, RecursionError):
        return False
    return True


def _line_of(fault: Exception) -> int | None:
    mark = getattr(fault, "problem_mark", None)
    return getattr(fault, "lineno", None) or (mark.line + 1 if mark else None)


# Imports ----------------------------------------------------------------------------------------------------------


class _Import(NamedTuple):
    module: tuple[str, ...]
    roots: Sequence[str]  # folders it may lie in


def _lost_imports(change: ChangedFile, listing: Mapping[str, Any]) -> Iterator[SyntaxProblem]:
    """Imports of the project's own modules that name none. What is installed is not known here."""
    try:
        tree = ast.parse(change.after or b"")
    except (SyntaxError, ValueError, RecursionError):
        return  # nor did it parse before
    guarded = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Try) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in guarded or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for wanted in _wanted(node, change.path):
            if _ours(wanted, listing) and not _there(wanted, listing):
                yield SyntaxProblem(
                    change.path, node.lineno, f"imports {'.'.join(wanted.module)}, which is not in the project"
                )


def _wanted(node: ast.Import | ast.ImportFrom, path: str) -> Iterator[_Import]:
    if isinstance(node, ast.Import):
        yield from (_Import(tuple(one.name.split(".")), _ROOTS) for one in node.names)
    elif node.module and node.level:
        folder = PurePosixPath(path).parent.parts
        base = folder[: len(folder) - node.level + 1]
        if base:
            yield _Import(tuple(node.module.split(".")), [f"{'/'.join(base)}/"])
    elif node.module:
        yield _Import(tuple(node.module.split(".")), _ROOTS)


def _ours(wanted: _Import, listing: Mapping[str, Any]) -> bool:
    """Whether its top is a package of the project; of a plain module no part can be asked for."""
    if wanted.roots is not _ROOTS:
        return True
    return len(wanted.module) > 1 and any(f"{root}{wanted.module[0]}/__init__.py" in listing for root in _ROOTS)


def _there(wanted: _Import, listing: Mapping[str, Any]) -> bool:
    known = tuple(f"{root}{'/'.join(wanted.module)}" for root in wanted.roots)
    if any(f"{one}.py" in listing or f"{one}/__init__.py" in listing for one in known):
        return True
    # A namespace without __init__, a stub, something compiled.
    return any(path.startswith((*(f"{one}/" for one in known), *(f"{one}." for one in known))) for path in listing)
