"""Find the tests inside a Rust source by its structure: test modules, test functions, and macros that define tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.changed_file import ChangedFile
from reflectloop.verification.protected.paths import is_test

_TOKEN = lazy(
    r"//[^\n]*|/\*.*?\*/|b?r(?P<marks>#*)\".*?\"(?P=marks)|b?\"(?:\\.|[^\"\\])*\"|"
    r"b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\\n])'",
    re.DOTALL,
)
_ATTRIBUTE = lazy(r"#!?\s*\[")
_TEST_ATTRIBUTE = lazy(
    r"#\s*\[\s*(?:cfg\s*\((?!\s*not\b)[^\]]*\btest\b|(?:\w+\s*::\s*)*(?:test|rstest|test_case|quickcheck|wasm_bindgen_test)\b)"
)
_VISIBLE = r"(?:pub(?:\s*\([^)]*\))?\s+)?"
_DEFINED = lazy(r"macro_rules!\s*(?P<name>\w+)\s*(?=[({\[])")
_CALLED = lazy(r"(?:\w+\s*::\s*)*(?P<name>\w+)!\s*(?=[({\[])")
_MODULE = lazy(_VISIBLE + r"mod\s+(?P<name>\w+)\s*(?=\{)")
_VALUE = lazy(_VISIBLE + r"(?:const|static)\s+(?:mut\s+)?(?P<name>\w+)\s*:")
_FUNCTION = lazy(_VISIBLE + r"(?:default\s+|const\s+|async\s+|unsafe\s+|extern\s+(?:'[^']*'\s+)?)*fn\s+(?P<name>\w+)")
_BRACKET = lazy(r"[()\[\]{}]|;")
_CLOSING = frozenset(")]}")
_KNOWN_MACROS = frozenset({"quickcheck", "proptest"})

Kind = Literal["macro", "call", "value", "function", "other"]


class RustItem(NamedTuple):
    """One item of a Rust source, without the items inside it."""

    kind: Kind
    name: str
    start: int  # of its attributes
    head: int  # after its attributes
    end: int
    is_test: bool  # compiled for tests only, or defines tests
    depth: int  # number of modules around it


class RustText(NamedTuple):
    """A Rust source in two forms of the same length: without comments, and with blank literals as well."""

    text: str
    plain: str


def texts(source: str) -> RustText:
    """Blank the comments and literals of a source, keeping every position and line."""
    text = _TOKEN.sub(lambda token: _blank(token[0]) if token[0][0] == "/" else token[0], source)
    plain = _TOKEN.sub(lambda token: _blank(token[0]) if token[0][0] == "/" else _hollow(token[0]), source)
    return RustText(text, plain)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _hollow(literal: str) -> str:
    return "'" + _blank(literal[1:-1]) + "'"


def items(rust: RustText, *, all_tests: bool = False) -> list[RustItem]:
    """Return the items in order, those inside modules included; `all_tests` for a file that is a test as a whole."""
    everything = list(_items(rust.plain, 0, len(rust.plain), in_tests=all_tests, depth=0))
    makers = {item.name for item in everything if item.kind == "macro" and item.is_test} | _KNOWN_MACROS
    return [item._replace(is_test=True) if item.kind == "call" and item.name in makers else item for item in everything]


def _items(plain: str, at: int, end: int, *, in_tests: bool, depth: int) -> Iterator[RustItem]:
    while (start := _skip_space(plain, at, end)) < end:
        head = _after_attributes(plain, start, end)
        is_test = in_tests or _TEST_ATTRIBUTE.search(plain, start, head) is not None
        module = _MODULE.match(plain, head, end)
        if module:
            at = closing(plain, module.end(), end)
            yield RustItem("other", module["name"], start, head, at, is_test, depth)
            yield from _items(plain, module.end() + 1, at - 1, in_tests=is_test, depth=depth + 1)
            continue
        item = _item(plain, start, head, end)
        at = max(item.end, start + 1)
        published = "macro_export" in plain[start:head]  # a macro for others is code under test
        defines = item.kind == "macro" and "#[test]" in plain[head:at] and not published
        yield item._replace(is_test=is_test or defines, depth=depth)


def _item(plain: str, start: int, head: int, end: int) -> RustItem:
    kinds: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("macro", _DEFINED),
        ("call", _CALLED),
        ("value", _VALUE),
        ("function", _FUNCTION),
    )
    for kind, pattern in kinds:
        match = pattern.match(plain, head, end)
        if match:
            after = closing(plain, match.end(), end) if kind in {"macro", "call"} else _after(plain, head, end, kind)
            after += 1 if plain[after : after + 1] == ";" else 0
            return RustItem(kind, match["name"], start, head, after, is_test=False, depth=0)
    return RustItem("other", "", start, head, _after(plain, head, end, "other"), is_test=False, depth=0)


def _skip_space(plain: str, at: int, end: int) -> int:
    while at < end and plain[at].isspace():
        at += 1
    return at


def _after_attributes(plain: str, at: int, end: int) -> int:
    while attribute := _ATTRIBUTE.match(plain, at, end):
        at = _skip_space(plain, closing(plain, attribute.end() - 1, end), end)
    return at


def _after(plain: str, at: int, end: int, kind: Kind) -> int:
    """Return the position after an item: after its semicolon, or after its braces where it has a body."""
    depth = 0
    for bracket in _BRACKET.finditer(plain, at, end):
        if bracket[0] == ";":
            if depth == 0:
                return bracket.end()
        elif bracket[0] in _CLOSING:
            depth -= 1
            if depth == 0 and bracket[0] == "}" and kind != "value" and not _goes_on(plain, bracket.end(), end):
                return bracket.end()
        else:
            depth += 1
    return end


def _goes_on(plain: str, at: int, end: int) -> bool:
    """Return True if a brace ends only a part of an item, such as the list of a `use`."""
    after = _skip_space(plain, at, end)
    return plain[after : after + 1] in {";", ","}


def closing(plain: str, opening: int, end: int) -> int:
    """Return the position after the bracket that closes the one at `opening`, or the end."""
    depth = 0
    for bracket in _BRACKET.finditer(plain, opening, end):
        if bracket[0] == ";":
            continue
        depth += -1 if bracket[0] in _CLOSING else 1
        if depth == 0:
            return bracket.end()
    return end


def concerns_tests(rust: RustText, all_items: Sequence[RustItem], at: int) -> bool:
    """Return True if what stands there is part of a test, or an attribute of an item that contains tests."""
    for item in all_items:
        if item.start <= at < item.head:
            return item.is_test or _TEST_ATTRIBUTE.search(rust.plain, item.head, item.end) is not None
        if item.is_test and item.kind != "other" and item.start <= at < item.end:
            return True
    return False


def has_inline_tests(change: ChangedFile) -> bool:
    """Return True if a change edits the tests inside a source that is no test file."""
    if not change.path.endswith(".rs") or change.before is None or change.after is None or is_test(change.path):
        return False
    return with_tests_of(change.before, change.after) is not None


def with_tests_of(tests: bytes, code: bytes) -> bytes | None:
    """Return one version of a Rust source with the tests of another, or None if the tests are the same.

    The items of the top level that are compiled only for tests are exchanged; they follow the code, since their order
    does not matter. So are the examples in the documentation, each with the one that is most alike.
    """
    documented = _with_examples_of(tests, code)
    pieces, own = _split(documented)
    _, wanted = _split(tests)
    if [_squeezed(part) for part in own] == [_squeezed(part) for part in wanted]:
        return documented if documented != code else None
    return ("".join(pieces).rstrip() + "\n\n" + "\n\n".join(wanted)).rstrip().encode() + b"\n"


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _split(data: bytes) -> tuple[list[str], list[str]]:
    """Return the pieces of code between tests, and the tests."""
    source = data.decode(errors="replace")
    at, code, tests = 0, [], []
    for item in items(texts(source)):
        if item.is_test and item.depth == 0:
            code.append(source[at : item.start])
            tests.append(source[item.start : item.end])
            at = item.end
    return [*code, source[at:]], tests


_DOCUMENTED = lazy(r"^\s*//[/!](?P<text>.*)$")
_FENCE = lazy(r"^\s*(?:`{3,}|~{3,})(?P<words>.*)$")
_NOT_RUN = lazy(r"\b(?:ignore\w*|no_run|compile_fail|text|console|toml|sh|bash|json)\b")
_ALIKE = 0.5


class _Example(NamedTuple):
    start: int  # line of its first row of code, from 0
    rows: tuple[str, ...]
    code: str  # without white space


def _with_examples_of(tests: bytes, code: bytes) -> bytes:
    old, lines = (data.decode(errors="replace").split("\n") for data in (tests, code))
    wanted, own = list(_examples(old)), list(_examples(lines))
    missing = [example for example in wanted if example.code not in {other.code for other in own}]
    free = [example for example in own if example.code not in {other.code for other in wanted}]
    exchanged: list[tuple[_Example, _Example]] = []
    for example in missing:
        likeness = {other: SequenceMatcher(None, example.code, other.code, autojunk=False).ratio() for other in free}
        nearest = max(likeness, key=likeness.__getitem__, default=None)
        if nearest is not None and likeness[nearest] >= _ALIKE:
            free.remove(nearest)
            exchanged.append((nearest, example))
    for place, example in sorted(exchanged, key=lambda pair: -pair[0].start):
        lines[place.start : place.start + len(place.rows)] = example.rows
    return "\n".join(lines).encode() if exchanged else code


def _examples(lines: Sequence[str]) -> Iterator[_Example]:
    """Yield the blocks of code in documentation that are run."""
    start, runs = -1, False
    for number, line in enumerate(lines):
        documented = _DOCUMENTED.match(line)
        fence = _FENCE.match(documented["text"]) if documented else None
        if documented is None:
            start = -1
        elif fence and start < 0:
            start, runs = number + 1, not _NOT_RUN.search(fence["words"])
        elif fence:
            if runs and number > start:
                yield _Example(start, tuple(lines[start:number]), _squeezed("".join(lines[start:number])))
            start = -1
