"""Find hard-coded answers to a test's inputs in sources that are read as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from reflectloop.verification.protected import guard, is_test
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import added, code, ending
from reflectloop.verification.tampering.text.languages import BY_ENDING

_VALUE = r"(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\\n])*`|-?\d[\d_.]*(?:e-?\d+)?)"
_COMPARED = re.compile(
    rf"(?:===?|\beq\b|\.equals\()\s*({_VALUE})|({_VALUE})\s*(?:===?|\.equals\()|"
    rf"\bcase\s+({_VALUE})\s*:|\bstrn?cmp\([^,()]*,\s*({_VALUE})"
)
_RESULT = re.compile(rf"(?:\breturn\b|\?|=>|(?<![=!<>])=(?!=))\s*\(?\s*(?P<answer>{_VALUE})")
_VALUES = re.compile(_VALUE)
_PLAIN = frozenset(("0", "1", "-1", "2", "", "true", "false", "null"))
_NEAR = 2  # lines between a comparison and its result
_ROW = 3  # lines that an assertion may span


def look(changes: Sequence[ChangedFile], context: Mapping[str, bytes]) -> Iterator[TamperFinding]:
    sources = [
        change for change in changes if ending(change.path) in BY_ENDING and guard(change.path) is None and change.after
    ]
    answers = [(change, *place) for change in sources for place in _answers(change)]
    if not answers:
        return
    tests = [(path, data) for path, data in context.items() if is_test(path)]
    tests += [
        (change.path, data)
        for change in changes
        if is_test(change.path)
        for data in (change.before, change.after)
        if data
    ]
    rows = [row for path, data in tests if ending(path) in BY_ENDING for row in _rows(code(path, data))]
    for change, line, code_text, pair in answers:
        if any(pair <= row for row in rows):
            message = f"answers a test's own input: `{code_text[:80]}`"
            yield TamperFinding("test-input-special-cased", change.path, line, message, "suspect")


def _answers(change: ChangedFile) -> Iterator[tuple[int, str, frozenset[str]]]:
    """Yield added lines that return one literal for another: line, code, both values."""
    lines = list(added(change))
    for at, line in enumerate(lines):
        near = " ".join(other.text for other in lines[at : at + _NEAR] if other.number < line.number + _NEAR)
        for compared in _COMPARED.finditer(line.text):
            input_value = next(value for value in compared.groups() if value is not None)
            result = _RESULT.search(near, compared.end())
            pair = frozenset((_bare(input_value), _bare(result["answer"]))) if result else frozenset()
            if result and len(pair) > 1 and _bare(result["answer"]) not in _PLAIN:
                yield line.number, near, pair


def _rows(text: str) -> Iterator[frozenset[str]]:
    """Yield the values that occur together within a few lines."""
    lines = [frozenset(map(_bare, _VALUES.findall(line))) for line in text.splitlines()]
    for at in range(len(lines)):
        yield frozenset().union(*lines[at : at + _ROW])


def _bare(value: str) -> str:
    return value[1:-1] if value[0] in "'\"`" else value.replace("_", "")
