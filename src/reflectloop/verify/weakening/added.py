"""Says which lines of code a change adds, with comments and docstrings blanked out."""

from __future__ import annotations

import ast
import copy
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from reflectloop.verify.protected.fixtures import parsed
from reflectloop.verify.result import Change

_HASH = frozenset("rb sh bash bats ex exs pl pm r jl t yml yaml toml".split())  # noqa: SIM905 - reads better as text
# A literal stands first so that a comment sign inside it is not taken for one.
_SLASHES = re.compile(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`)|//[^\n]*|/\*.*?\*/', re.DOTALL)
REGEX = r"(?:(?<=[(,=:\[!&|?{;\n])|(?<==>)|(?<=\breturn))[ \t]*/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/"
JAVASCRIPT = frozenset("js jsx ts tsx mjs cjs mts cts vue svelte".split())  # noqa: SIM905 - reads better as text
_SLASHES_OR_REGEX = re.compile(_SLASHES.pattern.replace("(", f"({REGEX}|", 1), re.DOTALL)
_HASHES = re.compile(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|(?<!\S)#[^\n]*', re.DOTALL)


class Line(NamedTuple):
    number: int
    text: str


def stood(before: bytes | None, after: bytes | None, number: int) -> int:
    """The line of the new version that stands where a line of the old one stood; 1 where nothing is left."""
    old, new = ([row.strip() for row in (data or b"").splitlines()] for data in (before, after))
    places: dict[bytes, list[int]] = {}
    for at, row in enumerate(new, 1):
        places.setdefault(row, []).append(at)
    for above in range(min(number - 1, len(old)), 0, -1):
        if (row := old[above - 1]) and row in places:
            nearest = min(places[row], key=lambda at: abs(at - above))
            return max(1, min(nearest + number - above, nearest + 1, len(new)))
    return 1


def ending(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[2].lower()


def code(path: str, data: bytes | None) -> str:
    """The text with comments blanked, line for line."""
    text = (data or b"").decode(errors="replace")
    if ending(path) in {"py", "pyi"}:
        return _python(text)
    pattern = _SLASHES_OR_REGEX if ending(path) in JAVASCRIPT else _HASHES if ending(path) in _HASH else _SLASHES
    return pattern.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)


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


def added(change: Change, *, comments: bool = False) -> Iterator[Line]:
    """Lines of the new version that the old one had not, whatever their indent."""
    before, after = (
        (data or b"").decode(errors="replace") if comments else code(change.path, data)
        for data in (change.before, change.after)
    )
    known = Counter(_alike(line) for line in before.splitlines())
    kept = frozenset() if comments or ending(change.path) != "py" else _respelled(change)
    for number, line in enumerate(after.splitlines(), 1):
        text = _alike(line)
        if known[text] > 0:
            known[text] -= 1
        elif text and number not in kept:
            yield Line(number, line.strip())


def _alike(line: str) -> str:
    """A line without what a formatter changes in it: blanks, quotes, its last sign."""
    return re.sub(r"\s+", "", line).replace('"', "'").rstrip(";,")


def _respelled(change: Change) -> frozenset[int]:
    """Lines of Python statements that were there before, however they are broken into lines and quoted."""
    old, new = parsed(change.before), parsed(change.after)
    if old is None or new is None:
        return frozenset()
    try:
        known, kept, fresh = Counter(text for _, text in _statements(old)), set[int](), set[int]()
        for lines, text in _statements(new):
            (kept if known[text] > 0 else fresh).update(lines)
            known[text] -= 1
    except RecursionError:
        return frozenset()
    return frozenset(kept - fresh)


def _statements(module: ast.Module) -> Iterator[tuple[range, str]]:
    """Every statement with its lines; of one that holds others only its head."""
    for node in ast.walk(module):
        if not isinstance(node, ast.stmt):
            continue
        first = min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)
        held = getattr(node, "body", None) or getattr(node, "cases", None)
        if held is None:
            yield range(first, (node.end_lineno or first) + 1), ast.unparse(node)
            continue
        head = copy.copy(node)
        for name, value in (("body", [ast.Pass()]), ("orelse", []), ("finalbody", []), ("cases", [])):
            if hasattr(node, name):
                setattr(head, name, value)
        below = getattr(held[0], "lineno", None) or held[0].pattern.lineno
        yield range(first, max(node.lineno, below - 1) + 1), ast.unparse(head)
