"""Compare the examples in docstrings, which doctest runs."""

from __future__ import annotations

import ast
import doctest
from collections import Counter
from collections.abc import Iterator, Sequence

from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.result import ChangedFile, TamperFinding

_PARSER = doctest.DocTestParser()
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Example = tuple[str, str]


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    for change in changes:
        if (
            change.before is None
            or change.after is None
            or not change.path.endswith(".py")
            or b">>>" not in change.before
        ):
            continue
        old, new = _examples(change.before), _examples(change.after)
        everywhere = Counter(example for _, examples in new.values() for example in examples)
        for name, (line, examples) in old.items():
            yield from _lost(change.path, name, new.get(name, (line, [])), examples, everywhere)


def _lost(
    path: str, name: str, now: tuple[int, list[Example]], old: Sequence[Example], everywhere: Counter[Example]
) -> Iterator[TamperFinding]:
    line, new = now
    for source, want in old:
        if everywhere[source, want] or not want:
            continue
        changed = next((example for example in new if example[0] == source), None)
        if changed:
            message = f"the example `{source[:60]}` of {name} now expects `{changed[1][:40]}` instead of `{want[:40]}`"
            yield TamperFinding("doctest-changed", path, line, message, "suspect")
        else:
            yield TamperFinding(
                "doctest-removed", path, line, f"the example `{source[:60]}` of {name} was removed", "suspect"
            )


def all_examples(data: bytes | None) -> list[Example]:
    """Return every docstring example of a file, as pairs of source and expected output."""
    return (
        [example for _, examples in _examples(data).values() for example in examples] if data and b">>>" in data else []
    )


def _examples(data: bytes) -> dict[str, tuple[int, list[Example]]]:
    module = parsed(data)
    examples: dict[str, tuple[int, list[Example]]] = {}
    for node in ast.walk(module) if module else ():
        text = ast.get_docstring(node) if isinstance(node, _DOCUMENTED) else None
        if text and ">>>" in text:
            name = getattr(node, "name", "the module")
            line, known = examples.get(name, (getattr(node, "lineno", 1), []))
            examples[name] = (line, [*known, *_parsed(text)])
    return examples


def _parsed(text: str) -> list[Example]:
    try:
        return [
            (_spelled(example.source) + _mark(example), example.want.strip()) for example in _PARSER.get_examples(text)
        ]
    except ValueError:
        return []


def _mark(example: doctest.Example) -> str:
    """Return a suffix for a skipped example, so that it differs from one that runs."""
    return "  # skipped" if example.options.get(doctest.SKIP) else ""


def _spelled(source: str) -> str:
    """Return the source as Python would write it, whatever its quotes and white space."""
    module = parsed(source.encode(errors="replace"))
    return ast.unparse(module) if module else source.strip()
