"""The quick gate between batches: a contract, files that are not empty and parse, imports that resolve; pure."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from reflectloop.gates.decisions import Gate, GateReason, Ruling, make_ruling
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


def check_batch(
    changes: Sequence[ChangedFile],
    listing: Mapping[str, Any],
    *,
    has_contract: bool,
    start: str = "",
    by_tools: Sequence[SyntaxProblem] = (),
) -> Ruling:
    """Check the files that a batch changed. `listing` maps every path of the tree after the batch.

    `by_tools` are problems that compilers found.
    """
    reasons = [] if has_contract else [_reason("contract.missing", "the batch has no contract: no goal and no track")]
    problems = [problem for change in changes for problem in file_problems(change, listing)]
    reasons += [_reason("batch.broken", str(problem)) for problem in (*problems, *by_tools)]
    return make_ruling(Gate.PROOF, reasons, start)


def _reason(rule: str, text: str) -> GateReason:
    return GateReason(Decision.RETRY, rule, text, "fix it; the next batch starts when this one passes")


def file_problems(change: ChangedFile, listing: Mapping[str, Any]) -> Iterator[SyntaxProblem]:
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
        yield from _missing_imports(change, listing)


# Parsing ----------------------------------------------------------------------------------------------------------


def _toml(raw: bytes) -> None:
    tomllib.loads(raw.decode())


def _yaml(raw: bytes) -> None:
    import yaml  # noqa: PLC0415 - only if there is a YAML file

    try:
        for _ in yaml.parse(raw, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as fault:
        raise _NotYaml(str(fault), getattr(fault, "problem_mark", None)) from fault


class _NotYaml(ValueError):
    """A YAML syntax error. The library is imported on use, so callers cannot name its own exception class."""

    def __init__(self, message: str, mark: object) -> None:
        super().__init__(message)
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
_FAULTS = (SyntaxError, ValueError)  # raised by every parser here; XML and Python raise SyntaxError
_COMMENTED = frozenset(
    ("tsconfig.json", "jsconfig.json", ".eslintrc.json", "settings.json", "launch.json")
)  # JSON with comments


def _unparsed(change: ChangedFile, ending: str) -> SyntaxProblem | None:
    parse = _PARSERS.get(ending)
    name = PurePosixPath(change.path).name
    if parse is None or name in _COMMENTED or name.startswith("tsconfig.") or change.after is None:
        return None
    if change.before is not None and not _parses(parse, change.before):
        return None  # it did not parse before either: a template, or test data for a parser
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
    roots: Sequence[str]  # folders to search


def _missing_imports(change: ChangedFile, listing: Mapping[str, Any]) -> Iterator[SyntaxProblem]:
    """Yield the imports of the project's own modules that do not exist; installed packages are not known here."""
    try:
        tree = ast.parse(change.after or b"")
    except (SyntaxError, ValueError, RecursionError):
        return  # it did not parse before either
    guarded = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Try) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in guarded or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for wanted in _imports(node, change.path):
            if _is_project_module(wanted, listing) and not _exists(wanted, listing):
                yield SyntaxProblem(
                    change.path, node.lineno, f"imports {'.'.join(wanted.module)}, which is not in the project"
                )


def _imports(node: ast.Import | ast.ImportFrom, path: str) -> Iterator[_Import]:
    if isinstance(node, ast.Import):
        yield from (_Import(tuple(name.name.split(".")), _ROOTS) for name in node.names)
    elif node.module and node.level:
        folder = PurePosixPath(path).parent.parts
        base = folder[: len(folder) - node.level + 1]
        if base:
            yield _Import(tuple(node.module.split(".")), [f"{'/'.join(base)}/"])
    elif node.module:
        yield _Import(tuple(node.module.split(".")), _ROOTS)


def _is_project_module(wanted: _Import, listing: Mapping[str, Any]) -> bool:
    """Return True if the import names a submodule of a package of the project."""
    if wanted.roots is not _ROOTS:
        return True
    return len(wanted.module) > 1 and any(f"{root}{wanted.module[0]}/__init__.py" in listing for root in _ROOTS)


def _exists(wanted: _Import, listing: Mapping[str, Any]) -> bool:
    candidates = tuple(f"{root}{'/'.join(wanted.module)}" for root in wanted.roots)
    if any(f"{candidate}.py" in listing or f"{candidate}/__init__.py" in listing for candidate in candidates):
        return True
    # A namespace package, a stub or a compiled module.
    return any(
        path.startswith(
            (*(f"{candidate}/" for candidate in candidates), *(f"{candidate}." for candidate in candidates))
        )
        for path in listing
    )
