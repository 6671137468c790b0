"""Compare the examples in documentation: of docstrings, which doctest runs, and of Rust sources, which cargo runs."""

from __future__ import annotations

import ast
import doctest
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import is_test
from reflectloop.verification.protected.fixtures import parsed
from reflectloop.verification.result import ChangedFile, TamperFinding
from reflectloop.verification.tampering.added import stood
from reflectloop.verification.tampering.python.verdict import short, side_by_side
from reflectloop.verification.tampering.text.reading import TextAssertion, assertion, became, language

_MOST = 3  # examples described in one finding
_UNICODE = lazy(r"\bu(?=['\"])")  # `u'a'` and `'a'` are the same value
_PARSER = doctest.DocTestParser()
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Example = tuple[str, str]


def look(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    """Report the examples of each docstring that expect something else or are gone, in one finding."""
    for change in changes:
        read = _examples if change.path.endswith(".py") else _text_examples if is_test(change.path) else None
        if read is None or change.before is None or change.after is None or b">>>" not in change.before:
            continue
        old, new = read(change.before), read(change.after)
        everywhere = Counter(example for _, examples in new.values() for example in examples)
        for name, (line, examples) in old.items():
            now_line, now = new.get(name, (line, []))
            lost = list(_lost(now, examples, everywhere))
            if lost:
                rule = "doctest-changed" if any(changed for _, changed in lost) else "doctest-removed"
                texts = [text for text, _ in lost]
                more = f"; and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
                what = f"{name}: {'; '.join(texts[:_MOST])}{more}"
                yield TamperFinding(rule, change.path, now_line, what, "suspect")
    yield from _look_at_rust(changes)


def _lost(new: Sequence[Example], old: Sequence[Example], everywhere: Counter[Example]) -> Iterator[tuple[str, bool]]:
    """Yield a description of each example that changed (True) or is gone (False)."""
    for source, want in old:
        if everywhere[source, want] or not want:
            continue
        changed = next((example for example in new if example[0] == source), None)
        if changed:
            yield f"the example `{short(source)}` now expects {side_by_side(want, changed[1])}", True
        else:
            yield f"the example `{short(source)}` was removed", False


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


def _text_examples(data: bytes) -> dict[str, tuple[int, list[Example]]]:
    """Return the examples of a text file that a runner runs, such as a README."""
    return {"the text": (1, _parsed(data.decode("utf-8", "replace")))}


def _parsed(text: str) -> list[Example]:
    try:
        return [
            (_spelled(example.source) + _mark(example), _UNICODE.sub("", example.want.strip()))
            for example in _PARSER.get_examples(text)
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


# Rust ----------------------------------------------------------------------------------------------------------------

_COMMENT = lazy(r"^\s*(?://[/!]|\*(?!/)|/\*[*!])(?P<text>.*)$")
_FENCE = lazy(r"^\s*(?P<fence>`{3,}|~{3,})(?P<words>[^`]*)$")
_NOT_RUN = frozenset({"ignore", "no_run", "compile_fail", "text", "plain", "txt"})
_RUST_WORD = lazy(r"rust|should_panic|no_run|ignore(?:-[\w-]+)?|compile_fail|edition\d+|test_harness|E\d{4}|")
_IDLE = lazy(r"\s*(?://|(?:#\s+)?(?:use|extern crate)\s)")  # lines that decide no outcome
_ALIKE = 0.5


class RustExample(NamedTuple):
    """One block of code in a documentation comment."""

    line: int  # of its first line of code
    rows: tuple[TextAssertion, ...]
    runs: bool

    @property
    def text(self) -> str:
        return "\n".join(row.text for row in self.rows)


def _look_at_rust(changes: Sequence[ChangedFile]) -> Iterator[TamperFinding]:
    sources = [
        change for change in changes if change.path.endswith(".rs") and change.before and b"```" in change.before
    ]
    read = {
        change.path: (list(_rust_examples(change.before)), list(_rust_examples(change.after))) for change in sources
    }
    for change in changes:
        if change.path.endswith(".rs") and change.path not in read:
            read[change.path] = ([], list(_rust_examples(change.after)))
    everywhere = Counter(example.text for _, new in read.values() for example in new if example.runs)
    fresh = {path: list(_new_examples(old, new)) for path, (old, new) in read.items()}
    for change in sources:
        for example in read[change.path][0]:
            if not _taken(everywhere, example.text):
                yield from _compare(change, example, fresh)


def _new_examples(old: Sequence[RustExample], new: Sequence[RustExample]) -> Iterator[RustExample]:
    unchanged = {example.text for example in old if example.runs}
    return (example for example in new if example.text not in unchanged or not example.runs)


def _taken(counted: Counter[str], text: str) -> bool:
    counted[text] -= 1
    return counted[text] >= 0


def _compare(change: ChangedFile, old: RustExample, fresh: Mapping[str, list[RustExample]]) -> Iterator[TamperFinding]:
    """Report what an example checks no longer; one that only had to compile may change."""
    check = language("rs").check
    if not old.runs or not any(check.search(row.shown) for row in old.rows):
        return
    places = [change.path, *fresh] if change.after is None else [change.path]  # a file may have another name now
    alike = [(_likeness(old, new), path, new) for path in places for new in fresh.get(path, ())]
    likeness, path, new = max(alike, key=lambda candidate: candidate[0], default=(0.0, "", None))
    if new is None or likeness < _ALIKE:
        first = next(row for row in old.rows if check.search(row.shown))
        at = stood(change.before, change.after, old.line)
        message = f"the example with `{first.shown[:80]}` was removed"
        yield TamperFinding("doctest-removed", change.path, at, message, "suspect")
        return
    fresh[path].remove(new)
    if not new.runs:
        yield TamperFinding("skip-added", path, new.line, f"the example `{new.rows[0].shown[:60]}` is not run")
    known, now = [row.text for row in old.rows], [row.text for row in new.rows]
    edits = SequenceMatcher(None, known, now, autojunk=False).get_opcodes()
    findings = [
        finding
        for tag, start, end, first_new, end_new in edits
        if tag in {"replace", "delete"}
        for finding in _report_rows(path, old.rows[start:end], new.rows[first_new:end_new], new.line)
    ]
    if findings:
        worst = next((finding for finding in findings if check.search(finding.what)), findings[0])
        more = f"; {len(findings) - 1} more of its lines changed" if len(findings) > 1 else ""
        yield worst._replace(what=worst.what + more)


def _likeness(first: RustExample, second: RustExample) -> float:
    return SequenceMatcher(None, first.text, second.text, autojunk=False).ratio()


def _report_rows(
    path: str, old: Sequence[TextAssertion], new: Sequence[TextAssertion], line: int
) -> Iterator[TamperFinding]:
    check = language("rs").check
    for at, row in enumerate(old):
        if at < len(new):
            message = f"the example {became(row.shown, new[at].shown)}"
            yield TamperFinding("doctest-changed", path, new[at].line, message, "suspect")
        elif check.search(row.shown):
            message = f"the example `{row.shown[:80]}` was removed"
            yield TamperFinding("doctest-removed", path, new[-1].line if new else line, message, "suspect")


def _rust_examples(data: bytes | None) -> Iterator[RustExample]:
    rows: list[TextAssertion] = []
    fence, runs, first = "", False, 0
    for number, source in enumerate((data or b"").decode(errors="replace").splitlines(), 1):
        documented = _COMMENT.match(source)
        if documented is None:
            fence = ""
            continue
        text = documented["text"]
        mark = _FENCE.match(text)
        if mark and not fence:
            words = [word.strip() for word in re.split(r"[,\s{}]+", mark["words"].strip())]
            is_rust = all(_RUST_WORD.fullmatch(word) for word in words) or not _NOT_RUN.isdisjoint(words)
            fence, rows, first = mark["fence"][:3], [], number + 1
            runs = is_rust and _NOT_RUN.isdisjoint(words) and not any(word.startswith("ignore") for word in words)
        elif mark and text.strip().startswith(fence):
            fence = ""
            if rows:
                yield RustExample(first, tuple(rows), runs)
        elif fence and text.strip() and not _IDLE.match(text):
            rows.append(assertion(text.strip(), number))
