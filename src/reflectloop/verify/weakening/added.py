"""Says which lines of code a change adds, with comments and docstrings blanked out."""

from __future__ import annotations

import ast
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
_REGEX = r"(?:(?<=[(,=:\[!&|?{;\n])|(?<==>)|(?<=\breturn))[ \t]*/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/"
_JAVASCRIPT = frozenset("js jsx ts tsx mjs cjs mts cts vue svelte".split())  # noqa: SIM905 - reads better as text
_SLASHES_OR_REGEX = re.compile(_SLASHES.pattern.replace("(", f"({_REGEX}|", 1), re.DOTALL)
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
    pattern = _SLASHES_OR_REGEX if ending(path) in _JAVASCRIPT else _HASHES if ending(path) in _HASH else _SLASHES
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
    known = Counter(line.strip() for line in before.splitlines())
    for number, line in enumerate(after.splitlines(), 1):
        text = line.strip()
        if known[text] > 0:
            known[text] -= 1
        elif text:
            yield Line(number, text)
