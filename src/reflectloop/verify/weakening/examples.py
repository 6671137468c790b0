"""Looks at examples in docstrings, which doctest runs."""

from __future__ import annotations

import ast
import doctest
from collections import Counter
from collections.abc import Iterator, Sequence

from reflectloop.verify.protected.fixtures import parsed
from reflectloop.verify.result import Change, Finding

_PARSER = doctest.DocTestParser()
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Example = tuple[str, str]


def look(changes: Sequence[Change]) -> Iterator[Finding]:
    for change in changes:
        if (
            change.before is None
            or change.after is None
            or not change.path.endswith(".py")
            or b">>>" not in change.before
        ):
            continue
        old, new = _examples(change.before), _examples(change.after)
        everywhere = Counter(example for _, found in new.values() for example in found)
        for name, (line, found) in old.items():
            yield from _lost(change.path, name, new.get(name, (line, [])), found, everywhere)


def _lost(
    path: str, name: str, now: tuple[int, list[Example]], old: Sequence[Example], everywhere: Counter[Example]
) -> Iterator[Finding]:
    line, new = now
    for source, want in old:
        if everywhere[source, want] or not want:
            continue
        again = next((each for each in new if each[0] == source), None)
        if again:
            words = f"the example `{source[:60]}` of {name} now expects `{again[1][:40]}` instead of `{want[:40]}`"
            yield Finding("doctest-changed", path, line, words, "suspect")
        else:
            yield Finding("doctest-removed", path, line, f"the example `{source[:60]}` of {name} is gone", "suspect")


def all_examples(data: bytes | None) -> list[Example]:
    return [each for _, found in _examples(data).values() for each in found] if data and b">>>" in data else []


def _examples(data: bytes) -> dict[str, tuple[int, list[Example]]]:
    module = parsed(data)
    found: dict[str, tuple[int, list[Example]]] = {}
    for node in ast.walk(module) if module else ():
        text = ast.get_docstring(node) if isinstance(node, _DOCUMENTED) else None
        if text and ">>>" in text:
            name = getattr(node, "name", "the module")
            line, known = found.get(name, (getattr(node, "lineno", 1), []))
            found[name] = (line, [*known, *_parsed(text)])
    return found


def _parsed(text: str) -> list[Example]:
    try:
        return [(_spelled(each.source) + _mark(each), each.want.strip()) for each in _PARSER.get_examples(text)]
    except ValueError:
        return []


def _mark(example: doctest.Example) -> str:
    """One that is not run is another one."""
    return "  # skipped" if example.options.get(doctest.SKIP) else ""


def _spelled(source: str) -> str:
    """As Python would write it, whatever its quotes and blanks."""
    module = parsed(source.encode(errors="replace"))
    return ast.unparse(module) if module else source.strip()
