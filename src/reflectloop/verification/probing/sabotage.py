"""Let every changed function fail, to see which tests depend on it: a test that still passes proves nothing of it."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from reflectloop.verification.probing.changed import ChangedFunction, parse

Kind = Literal["raise", "return"]
_RAISE = b"raise BaseException('not available')"
_RETURN = b"return object()"
_LAMBDA = {
    "raise": b"(_ for _ in ()).throw(BaseException('not available')) if True else ",
    "return": b"object() if True else ",
}


def broken(source: bytes, functions: Iterable[ChangedFunction], kind: Kind) -> bytes | None:
    """Return a source in which these functions raise, or return another object, at once; None if it cannot be made."""
    tree = parse(source)
    if isinstance(tree, str) or not _has_its_own_lines(source):
        return None
    lines = {function.line for function in functions}
    edits = [edit for node in ast.walk(tree) if (edit := _edit(node, lines, kind, source)) is not None]
    out = source
    for at, text in sorted(edits, reverse=True):
        out = out[:at] + text + out[at:]
    return out if edits and not isinstance(parse(out), str) else None


def _has_its_own_lines(source: bytes) -> bool:
    """Return False for an encoding that may write a line's end in letters: places in the code are none in the file."""
    return tokenize.detect_encoding(io.BytesIO(source).readline)[0] in ("utf-8", "utf-8-sig", "ascii", "iso-8859-1")


def _edit(node: ast.AST, lines: set[int], kind: Kind, source: bytes) -> tuple[int, bytes] | None:
    """Return where to insert what into the source."""
    if isinstance(node, ast.Lambda):
        place = (node.body.lineno, node.body.col_offset)
        return (_offset(source, *place), _LAMBDA[kind]) if node.lineno in lines else None
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    if min([node.lineno, *(item.lineno for item in node.decorator_list)]) not in lines:
        return None
    body = [item for item in node.body if not _is_text(item)]
    if not body:
        return None
    first = body[0]
    line = min([first.lineno, *(item.lineno for item in getattr(first, "decorator_list", []))])
    is_block = line > node.lineno
    column = first.col_offset
    statement = _RAISE if kind == "raise" else _statement(node)
    joint = b"\n" + _indent(source, line, column) if is_block and _starts_line(source, line, column) else b"; "
    return _offset(source, line, column), statement + joint


def _statement(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bytes:
    yields = any(isinstance(item, ast.Yield | ast.YieldFrom) for item in ast.walk(node))
    return b"return" if yields and isinstance(node, ast.AsyncFunctionDef) else _RETURN


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _offset(source: bytes, line: int, column: int) -> int:
    lines = source.splitlines(keepends=True)
    return sum(map(len, lines[: line - 1])) + column


def _indent(source: bytes, line: int, column: int) -> bytes:
    return source.splitlines()[line - 1][:column]


def _starts_line(source: bytes, line: int, column: int) -> bool:
    return not _indent(source, line, column).strip()


def independent(
    tests: Sequence[str],
    functions: Sequence[ChangedFunction],
    read: Callable[[str], bytes | None],
    passing: Callable[[dict[str, bytes], Sequence[str]], Sequence[str]],
) -> list[str]:
    """Return the tests that pass although every changed function fails, whether it raises or returns something else.

    `read` returns a source of the patch; `passing` runs tests with some sources replaced, and returns those that pass.
    """
    kinds: tuple[Kind, ...] = ("raise", "return")
    remaining = list(tests)
    for kind in kinds:
        sources: dict[str, bytes] = {}
        for path in dict.fromkeys(function.path for function in functions):
            source = read(path)
            mine = [function for function in functions if function.path == path]
            text = broken(source, mine, kind) if source is not None else None
            if text is None:
                return []  # not every function can be made to fail, so a test that passes shows nothing
            sources[path] = text
        remaining = list(passing(sources, remaining)) if sources and remaining else []
    return remaining
