"""Looks for answers to a test's own inputs in sources that are read as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reflectloop.verify.protected import guard, is_test
from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening.added import added, code, ending
from reflectloop.verify.weakening.text.languages import BY_ENDING

_VALUE = r"(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\\n])*`|-?\d[\d_.]*(?:e-?\d+)?)"
_COMPARED = re.compile(
    rf"(?:===?|\beq\b|\.equals\()\s*({_VALUE})|({_VALUE})\s*(?:===?|\.equals\()|"
    rf"\bcase\s+({_VALUE})\s*:|\bstrn?cmp\([^,()]*,\s*({_VALUE})"
)
_GIVEN = re.compile(rf"(?:\breturn\b|\?|=>|(?<![=!<>])=(?!=))\s*\(?\s*(?P<answer>{_VALUE})")
_VALUES = re.compile(_VALUE)
_PLAIN = frozenset(("0", "1", "-1", "2", "", "true", "false", "null"))
_NEAR = 2  # lines from a comparison to what it gives
_ROW = 3  # lines that an assertion may take


def look(changes: Sequence[Change], context: Mapping[str, bytes]) -> Iterator[Finding]:
    sources = [each for each in changes if ending(each.path) in BY_ENDING and guard(each.path) is None and each.after]
    found = [(change, *place) for change in sources for place in _answers(change)]
    if not found:
        return
    tests = [(path, data) for path, data in context.items() if is_test(path)]
    tests += [(each.path, data) for each in changes if is_test(each.path) for data in (each.before, each.after) if data]
    rows = [row for path, data in tests if ending(path) in BY_ENDING for row in _rows(code(path, data))]
    for change, line, words, pair in found:
        if any(pair <= row for row in rows):
            said = f"answers a test's own input: `{words[:80]}`"
            yield Finding("test-input-special-cased", change.path, line, said, "suspect")


def _answers(change: Change) -> Iterator[tuple[int, str, frozenset[str]]]:
    """Added lines that give one written value for another: line, words, both values."""
    lines = list(added(change))
    for at, line in enumerate(lines):
        near = " ".join(each.text for each in lines[at : at + _NEAR] if each.number < line.number + _NEAR)
        for compared in _COMPARED.finditer(line.text):
            asked = next(value for value in compared.groups() if value is not None)
            given = _GIVEN.search(near, compared.end())
            pair = frozenset((_bare(asked), _bare(given["answer"]))) if given else frozenset()
            if given and len(pair) > 1 and _bare(given["answer"]) not in _PLAIN:
                yield line.number, near, pair


def _rows(text: str) -> Iterator[frozenset[str]]:
    """The values that stand together in a few lines."""
    lines = [frozenset(map(_bare, _VALUES.findall(line))) for line in text.splitlines()]
    for at in range(len(lines)):
        yield frozenset().union(*lines[at : at + _ROW])


def _bare(value: str) -> str:
    return value[1:-1] if value[0] in "'\"`" else value.replace("_", "")
