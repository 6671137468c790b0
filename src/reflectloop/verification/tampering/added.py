"""Find the lines of code a change adds, ignoring comments and docstrings."""

from __future__ import annotations

import ast
import copy
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.result import ChangedFile

_HASH = frozenset("rb sh bash bats ex exs pl pm r jl t yml yaml toml".split())  # noqa: SIM905 - reads better as text
# String literals come first, so that a comment sign inside one does not start a comment.
_SLASHES = lazy(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`)|//[^\n]*|/\*.*?\*/', re.DOTALL)
REGEX = r"(?:(?<=[(,=:\[!&|?{;\n])|(?<==>)|(?<=\breturn))[ \t]*/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/"
JAVASCRIPT = frozenset("js jsx ts tsx mjs cjs mts cts vue svelte".split())  # noqa: SIM905 - reads better as text
_SLASHES_OR_REGEX = lazy(_SLASHES.pattern.replace("(", f"({REGEX}|", 1), re.DOTALL)
_HASHES = lazy(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|(?<!\S)#[^\n]*', re.DOTALL)


class AddedLine(NamedTuple):
    """A line of a file with its number."""

    number: int
    text: str


def stood(before: bytes | None, after: bytes | None, number: int) -> int:
    """Return the line of the new version at the position of a removed old line, or 1."""
    old, new = ([row.strip() for row in (data or b"").splitlines()] for data in (before, after))
    positions: dict[bytes, list[int]] = {}
    for at, row in enumerate(new, 1):
        positions.setdefault(row, []).append(at)
    for above in range(min(number - 1, len(old)), 0, -1):
        if (row := old[above - 1]) and row in positions:
            nearest = min(positions[row], key=lambda at: abs(at - above))
            return max(1, min(nearest + number - above, nearest + 1, len(new)))
    return 1


def ending(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[2].lower()


@lru_cache(maxsize=64)
def code(path: str, data: bytes | None) -> str:
    """Return the text with comments blanked out, keeping the line numbers."""
    text = (data or b"").decode(errors="replace")
    if ending(path) in {"py", "pyi"}:
        return _python(text)
    pattern = _SLASHES_OR_REGEX if ending(path) in JAVASCRIPT else _HASHES if ending(path) in _HASH else _SLASHES
    return pattern.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)


def _python(text: str) -> str:
    rows = text.splitlines()
    for first, start, last, end in (*_comments(text), *_docstrings(text)):
        for at in range(first, min(last, len(rows)) + 1):
            left = rows[at - 1][:start] if at == first else ""
            right = rows[at - 1][end:] if at == last else ""
            rows[at - 1] = left + right
    return "\n".join(rows)


def _comments(text: str) -> Iterator[tuple[int, int, int, int]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.start[1], token.end[0], token.end[1]
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


def _docstrings(text: str) -> Iterator[tuple[int, int, int, int]]:
    module = parsed(text.encode(errors="replace"))
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, 0, node.end_lineno or node.lineno, 1 << 30


def added(change: ChangedFile, *, comments: bool = False) -> tuple[AddedLine, ...]:
    """Return the lines of the new version that the old one lacks, ignoring indentation."""
    return _added(change, comments)


@lru_cache(maxsize=64)
def _added(change: ChangedFile, comments: bool) -> tuple[AddedLine, ...]:
    return tuple(_lines_added(change, comments))


def _lines_added(change: ChangedFile, comments: bool) -> Iterator[AddedLine]:
    before, after = (
        (data or b"").decode(errors="replace") if comments else code(change.path, data)
        for data in (change.before, change.after)
    )
    known = Counter(_normalized(line) for line in before.splitlines())
    reformatted = frozenset() if comments or ending(change.path) != "py" else _reformatted_lines(change)
    for number, line in enumerate(after.splitlines(), 1):
        text = _normalized(line)
        if known[text] > 0:
            known[text] -= 1
        elif text and number not in reformatted:
            yield AddedLine(number, line.strip())


def _normalized(line: str) -> str:
    """Return a line without what a formatter changes: white space, quotes, a final comma or semicolon."""
    return re.sub(r"\s+", "", line).replace('"', "'").rstrip(";,")


@lru_cache(maxsize=64)
def _reformatted_lines(change: ChangedFile) -> frozenset[int]:
    """Return the lines of Python statements that existed before, whatever their line breaks and quotes."""
    old, new = parsed(change.before), parsed(change.after)
    if old is None or new is None:
        return frozenset()
    try:
        known, unchanged, fresh = Counter(text for _, text in _statements(old)), set[int](), set[int]()
        for lines, text in _statements(new):
            (unchanged if known[text] > 0 else fresh).update(lines)
            known[text] -= 1
    except RecursionError:
        return frozenset()
    return frozenset(unchanged - fresh)


def _statements(module: ast.Module) -> Iterator[tuple[range, str]]:
    """Yield every statement with its lines; for a compound statement only its header."""
    for node in ast.walk(module):
        if not isinstance(node, ast.stmt):
            continue
        first = min((decorator.lineno for decorator in getattr(node, "decorator_list", ())), default=node.lineno)
        inner = getattr(node, "body", None) or getattr(node, "cases", None)
        if inner is None:
            yield range(first, (node.end_lineno or first) + 1), ast.unparse(node)
            continue
        head = copy.copy(node)
        for name, value in (("body", [ast.Pass()]), ("orelse", []), ("finalbody", []), ("cases", [])):
            if hasattr(node, name):
                setattr(head, name, value)
        below = getattr(inner[0], "lineno", None) or inner[0].pattern.lineno
        yield range(first, max(node.lineno, below - 1) + 1), ast.unparse(head)
