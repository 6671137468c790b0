"""Read the rows of data a test runs over, and report removed ones."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from reflectloop.verification.protected.fixtures import Function
from reflectloop.verification.tampering.python.checks import last_name
from reflectloop.verification.tampering.python.verdict import TamperVerdict, listed, short, side_by_side

_LISTS = ast.List | ast.Tuple | ast.Set
_MARKS = ("skip", "xfail")
_MOST = 100  # new rows among which the one in place of a removed row is looked for


class ParameterRow(NamedTuple):
    """One row of test data."""

    text: str
    line: int
    skipped: bool
    values: tuple[ast.expr, ...]
    single: ast.expr  # the row as the value of one name


class ParameterTable(NamedTuple):
    """One parametrisation: its names, its rows if they are literals, and its source text."""

    names: str
    rows: tuple[ParameterRow, ...] | None
    spelled: str
    line: int

    def distinct(self, used: Container[str]) -> int:
        """Return the number of rows that differ in the parameters that are used."""
        names = [name.strip() for name in self.names.split(",")]
        return len(
            {
                tuple(ast.unparse(value) for name, value in zip(names, row.values, strict=False) if name in used)
                if len(names) == len(row.values)
                else (row.text,)
                for row in self.rows or ()
            }
        )


@lru_cache(maxsize=256)
def constants(module: ast.Module) -> dict[str, ast.expr]:
    """Return the values of module and class level names, as far as they are literals."""
    values: dict[str, ast.expr] = {}
    for statement in ast.walk(module):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            values.setdefault(statement.targets[0].id, statement.value)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            values.setdefault(statement.target.id, statement.value)
    return values


def tables(node: Function, known: Mapping[str, ast.expr]) -> list[ParameterTable]:
    """Return the parametrisations of a test."""
    results = []
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue  # a mark without rows
        name = last_name(decorator.func)
        if name == "parametrize" and len(decorator.args) > 1:
            results.append(_table(_names(decorator.args[0]), decorator.args[1], known))
        elif name in {"expand", "data", "ddt"} and decorator.args:
            results.append(_table(name, decorator.args[0] if name == "expand" else ast.List(decorator.args), known))
    examples = [
        decorator
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and last_name(decorator.func) == "example"
    ]
    if examples:
        results.append(
            ParameterTable("example", tuple(_row(decorator) for decorator in examples), "example", examples[0].lineno)
        )
    return results


def _names(node: ast.expr) -> str:
    """Return the parameter names; `"a,b"` and `("a", "b")` are the same."""
    parts = node.elts if isinstance(node, _LISTS) else [node]
    if not all(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts):
        return ast.unparse(node)
    names = (name for part in parts if isinstance(part, ast.Constant) for name in str(part.value).split(","))
    return ", ".join(name.strip() for name in names)


def _table(names: str, rows: ast.expr, known: Mapping[str, ast.expr]) -> ParameterTable:
    written = written_out(rows, known)
    line = getattr(rows, "lineno", 1)
    return ParameterTable(
        names, None if written is None else tuple(_row(row) for row in written), ast.unparse(rows), line
    )


def written_out(node: ast.expr, known: Mapping[str, ast.expr], depth: int = 4) -> list[ast.expr] | None:
    """Return the elements of a list, through names and `+`; None if they are computed."""
    if depth == 0:
        return None
    if isinstance(node, _LISTS):
        spread = [
            written_out(element.value, known, depth - 1) if isinstance(element, ast.Starred) else [element]
            for element in node.elts
        ]
        return None if None in spread else [element for part in spread if part is not None for element in part]
    if isinstance(node, ast.Name) and node.id in known:
        return written_out(known[node.id], known, depth - 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = (written_out(side, known, depth - 1) for side in (node.left, node.right))
        return None if left is None or right is None else [*left, *right]
    if isinstance(node, ast.Dict):
        return [ast.Tuple([key, value], ast.Load()) for key, value in zip(node.keys, node.values, strict=True) if key]
    return None


def _row(node: ast.expr) -> ParameterRow:
    values, skipped = [node], False
    if isinstance(node, ast.Call) and last_name(node.func) in {"param", "example"}:
        values = [*node.args, *(part.value for part in node.keywords if part.arg not in {"id", "marks", "reason"})]
        marks = "".join(ast.unparse(part.value) for part in node.keywords if part.arg == "marks")
        skipped = any(mark in marks for mark in _MARKS)
    elif isinstance(node, ast.Tuple | ast.List):
        values = node.elts
    text = ", ".join(ast.unparse(part) for part in values)
    single = values[0] if isinstance(node, ast.Call) and len(values) == 1 else node
    return ParameterRow(text, getattr(node, "lineno", 1), skipped, tuple(values), single)


class Loss(NamedTuple):
    """Something a test no longer checks, and its line."""

    line: int
    verdict: TamperVerdict


def losses(old: Sequence[ParameterTable], new: Sequence[ParameterTable]) -> Iterator[Loss]:
    """Yield the rows a test no longer runs over."""
    after = {table.names: table for table in new}
    for table in old:
        if (now := after.get(table.names)) is not None:
            yield from _lost(table, now)
        elif table.rows and len(table.rows) > sum(len(other.rows or ()) for other in new) and not _computed(new):
            names = listed([f"`{short(row.text)}`" for row in table.rows])
            yield Loss(table.line, TamperVerdict("cases-removed", f"it no longer runs over {names}"))


def _computed(tables_: Sequence[ParameterTable]) -> bool:
    return any(table.rows is None for table in tables_)


def _lost(old: ParameterTable, new: ParameterTable) -> Iterator[Loss]:
    if old.rows is None or new.rows is None:
        if old.spelled != new.spelled and ("[" in new.spelled or new.rows is not None):
            message = f"cases {side_by_side(old.spelled, new.spelled)}"
            yield Loss(new.line, TamperVerdict("cases-changed", message, "suspect"))
        return
    before, now = ({row.text: row for row in table.rows} for table in (old, new) if table.rows is not None)
    removed, new_rows = [text for text in before if text not in now], [text for text in now if text not in before]
    missing = len(removed) - len(new_rows)
    if missing > 0:
        names = listed([f"`{short(text)}`" for text in removed])
        what = f"{missing} case(s) removed: {names}" if not new_rows else f"{missing} case(s) fewer; gone are {names}"
        yield Loss(new.line, TamperVerdict("cases-removed", what))
    elif removed:
        first = difflib.get_close_matches(removed[0], new_rows[:_MOST], n=1, cutoff=0.0)[0]
        what = f"{len(removed)} case(s) changed: {side_by_side(removed[0], first)}"
        yield Loss(now[first].line, TamperVerdict("cases-changed", what, "suspect"))
    skipped = {row.text for row in old.rows if row.skipped}
    for row in new.rows:
        if row.skipped and row.text not in skipped and row.text in before:
            yield Loss(
                row.line, TamperVerdict("skip-added", f"the case `{short(row.text)}` is skipped or expected to fail")
            )
