"""Read a test file in any known language into named blocks with their assertions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected import guard, inline_tests
from reflectloop.verification.protected.inline_tests import RustText
from reflectloop.verification.tampering.added import JAVASCRIPT, REGEX, code, ending
from reflectloop.verification.tools.record import TestSyntax
from reflectloop.verification.tools.registry import tools


class Language(NamedTuple):
    """The compiled patterns of one language."""

    test: re.Pattern[str]
    skip: re.Pattern[str]
    check: re.Pattern[str]
    weak: re.Pattern[str]
    strong: re.Pattern[str]
    tags: re.Pattern[str]
    braces: bool
    calls: bool


_RETURNS = r"^\s*(?:if\s*\(\s*(?:1|true|!0)\s*\)\s*\{?\s*)?return\b[^\n]*$"  # in any case
_TAUTOLOGIES = (
    r"expect\((true|1|'[^']*')\)\.to(?:Be|Equal|BeTruthy)\((?:true|1|\1)?\)|assert(?:\.ok|\.true)?!?\((?:true|1)\)|"
    r"assert(?:True|_eq!|Equals|\.equal|\.strictEqual|Equal|Same)\((?:true|([\w.()]+),\2)\)|expect\((true)\)\.to(?:eq|be)\(?true|"
    r"(?:assert|require)\.(?:True\(t,true|Equal\(t,([\w.]+),\4)\)|\$this->assertTrue\(true\)|"
    r"\b(?:CHECK|REQUIRE|EXPECT_TRUE|ASSERT_TRUE|TEST_ASSERT(?:_TRUE)?)\((?:true|1)\)|"
    r"\b(?:EXPECT_EQ|ASSERT_EQ|TEST_ASSERT_EQUAL\w*|CHECK_EQ)\((?P<same>[\w.()]+),(?P=same)\)|"
    r"\b(?:[a-z]{0,2}t\d?|tap)\.(?:(?:ok|true|truthy|assert)\((?:true|1)[,)]|"
    r"(?:is|equals?|same|deepEquals?|strictEquals?)\((?P<context>[\w.()]+),(?P=context)\))|"
    # One value compared with itself: Catch2, doctest, assert() of C, assert! of Rust.
    r"\b(?:CHECK|REQUIRE|EXPECT_TRUE|ASSERT_TRUE|TEST_ASSERT(?:_TRUE)?|assert!?)\((?P<self>[\w.():>-]+)===?(?P=self)\)"
)
TAUTOLOGY = lazy(_TAUTOLOGIES)


@cache
def _by_ending() -> dict[str, TestSyntax]:
    known = [tool.tampering.syntax for tool in tools() if tool.tampering.syntax]
    return {ending: syntax for syntax in known for ending in syntax.endings}


def is_known(ending: str) -> bool:
    return ending in _by_ending()


@cache
def language(ending: str) -> Language:
    """Return the patterns of a language that is known."""
    syntax = _by_ending()[ending]
    texts = (syntax.test, syntax.skip, syntax.check, syntax.weak, syntax.strong, syntax.tags)
    test, skip, check, weak, strong, tags = (re.compile(text, re.MULTILINE) for text in texts)
    return Language(test, skip, check, weak, strong, tags, syntax.braces, syntax.calls)


_LITERAL = lazy(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`')
_LITERAL_OR_REGEX = lazy(f"{_LITERAL.pattern}|{REGEX}")
_BRACKET = lazy(r"[()\[\]{}]")
_PARTNERS = {")": "(", "]": "[", "}": "{"}


def brackets_match(path: str, data: bytes) -> bool:
    """Return True if every bracket outside of texts and comments has its partner."""
    literals = _LITERAL_OR_REGEX if ending(path) in JAVASCRIPT else _LITERAL
    is_open: list[str] = []
    for bracket in _BRACKET.findall(literals.sub("", code(path, data))):
        if bracket not in _PARTNERS:
            is_open.append(bracket)
        elif not is_open or is_open.pop() != _PARTNERS[bracket]:
            return False
    return not is_open


_CHAINED = lazy(r"\s*\.\s*\w+\s*(?=[.(])")
_ATTRIBUTE = lazy(r"^\s*(?:@\w|#\[|\[\w).*$")
_CLOSES = {"(": ")", "[": "]", "{": "}"}


class TextAssertion(NamedTuple):
    """An assertion or skip, and its line."""

    text: str  # without white space, with uniform quotes
    line: int
    shown: str = ""  # as it is written, on one line
    is_row: bool = False  # a line of a longer call or table


class TestBlock(NamedTuple):
    """One test, or in C any function."""

    path: str
    name: str
    line: int
    checks: tuple[TextAssertion, ...]
    skips: tuple[TextAssertion, ...]
    body: str
    returns: bool  # returns before its first assertion
    branches: int
    catches: int
    rows: int  # lines that look like an entry of a table
    is_test: bool = True  # False for code and data that tests use


class TestFileReading(NamedTuple):
    """The tests of one file."""

    blocks: dict[str, TestBlock]
    skips: tuple[TextAssertion, ...]  # outside every block


def known(path: str) -> bool:
    return is_known(ending(path))


@lru_cache(maxsize=256)
def read(path: str, data: bytes | None) -> TestFileReading:
    syntax = language(ending(path))
    rust = inline_tests.texts((data or b"").decode(errors="replace")) if ending(path) == "rs" else None
    text = rust.text if rust else code(path, data)
    pattern = _LITERAL_OR_REGEX if ending(path) in JAVASCRIPT else _LITERAL
    plain = rust.plain if rust else pattern.sub(_blanked, text)
    blocks: dict[str, TestBlock] = {}
    covered: list[tuple[int, int]] = []
    for start, end, head, name in _spans(text, plain, syntax):
        blocks[_unique(name, blocks)] = _block(path, name, text, plain, (start, end, head), syntax)
        covered.append((start, end))
    if rust:
        blocks |= _made_by_macros(path, rust, syntax)
    outside = [skip for skip in syntax.skip.finditer(plain) if not any(a <= skip.start() < b for a, b in covered)]
    if rust and not _is_among_tests(path):
        all_items = inline_tests.items(rust)
        outside = [skip for skip in outside if inline_tests.concerns_tests(rust, all_items, skip.start())]
    return TestFileReading(blocks, tuple(_skip(text, plain, 0, skip) for skip in outside))


def _is_among_tests(path: str) -> bool:
    """Return True for a test file and for a module of one, which lies in a folder of tests."""
    protection = guard(path)
    return protection is not None and protection.kind in ("test", "fixture")


def _skip(text: str, plain: str, start: int, match: re.Match[str]) -> TextAssertion:
    """Return a skip as it is written; `start` is where the searched part of the text begins."""
    return assertion(text[start + match.start() : start + match.end()], _line(plain, start + match.start()))


def _made_by_macros(path: str, rust: RustText, syntax: Language) -> dict[str, TestBlock]:
    """Return what the patterns of tests do not see in Rust: tests made by macros, and what tests are made with.

    All calls of one macro are one block, and each call, or each row of a longer one, is an assertion.
    """
    blocks: dict[str, TestBlock] = {}
    for item in inline_tests.items(rust, all_tests=_is_among_tests(path)):
        source = rust.text[item.head : item.end]
        line = _line(rust.plain, item.head)
        test_function = item.kind == "function" and "test" in rust.plain[item.start : item.head]
        if not item.is_test or item.kind == "other" or test_function:
            continue
        if item.kind in {"macro", "function"}:
            name = f"macro {item.name}" if item.kind == "macro" else f"function {item.name}"
            span = (item.start, item.end, item.head)
            blocks[_unique(name, blocks)] = _block(path, name, rust.text, rust.plain, span, syntax)._replace(
                is_test=False
            )
            continue
        name = f"{item.name}!" if item.kind == "call" else item.name
        known = blocks.get(name) or TestBlock(path, name, line, (), (), "", False, 0, 0, 0, item.kind == "call")
        checks = (*known.checks, *_rows(source, line))
        blocks[name] = known._replace(checks=checks, body=known.body + _squeezed(source))
    return blocks


def _rows(source: str, line: int) -> Iterator[TextAssertion]:
    """Yield a call or value as one assertion, or one for each of its lines."""
    lines = source.strip().splitlines()
    if len(lines) == 1:
        yield assertion(source, line)
        return
    for number, row in enumerate(lines):
        if re.search(r"\w", row):
            yield assertion(row.strip().rstrip(","), line + number)._replace(is_row=True)


def _blanked(literal: re.Match[str]) -> str:
    """Return a literal of the same length and number of lines, with blank content."""
    return "'" + re.sub(r"[^\n]", " ", literal[0][1:-1]) + "'"


def _unique(name: str, blocks: dict[str, TestBlock]) -> str:
    if name not in blocks:
        return name
    number = sum(1 for key in blocks if key.partition("\0")[0] == name)
    return f"{name}\0{number}"


def _spans(text: str, plain: str, language: Language) -> Iterator[tuple[int, int, int, str]]:
    last = 0
    for match in language.test.finditer(text):
        if match.start() < last:
            continue
        names = [value for key, value in match.groupdict().items() if key != "quote" and value is not None]
        start = _with_attributes(text, match.start())
        last = _after(text, plain, match, language)
        yield start, last, match.end(), names[0] if names else match[0]


def _after(text: str, plain: str, match: re.Match[str], language: Language) -> int:
    """Return the end of a test: of its call, its braces or its indented block."""
    if language.calls:
        end = _closing(plain, plain.rfind("(", match.start(), match.start("quote")))
        if plain[end - 1 : end] == ")":
            return end
    return _end(plain, match.end(), language) if language.braces else _dedent(text, match.start())


def _with_attributes(text: str, start: int) -> int:
    """Return the start of a test, including the attributes and annotations above it."""
    begin = text.rfind("\n", 0, start) + 1
    while begin > 0:
        above = text.rfind("\n", 0, begin - 1) + 1
        if not _ATTRIBUTE.match(text[above : begin - 1]):
            break
        begin = above
    return begin


def _end(plain: str, start: int, language: Language) -> int:
    """Return the position after the brace that closes the first one after the header."""
    opening = plain.find("{", start)
    if opening < 0:
        return min(len(plain), (plain.find("\n", start) + 1) or len(plain))
    following = language.test.search(plain, start)
    arrow = plain.find(";", start)
    if following and following.start() < opening and 0 <= arrow < opening:
        return arrow + 1
    return _closing(plain, opening)


def _closing(plain: str, opening: int) -> int:
    """Return the position after the bracket that closes the one at `opening`."""
    sign, closes = plain[opening], _CLOSES[plain[opening]]
    depth = 0
    for bracket in re.compile(re.escape(sign) + "|" + re.escape(closes)).finditer(plain, opening):
        depth += 1 if bracket[0] == sign else -1
        if depth == 0:
            return bracket.end()
    return len(plain)


def _dedent(text: str, start: int) -> int:
    """Return the position after the first line indented no more than the header."""
    begin = text.rfind("\n", 0, start + 1) + 1
    head = text[begin : begin + 200].lstrip("\n")
    indent = len(head) - len(head.lstrip())
    at = text.find("\n", start + 1)
    while 0 <= at < len(text):
        following = text.find("\n", at + 1)
        row = text[at + 1 : following if following >= 0 else len(text)]
        if row.strip() and len(row) - len(row.lstrip()) <= indent:
            return at + 1 + len(row)
        at = following
    return len(text)


def _block(path: str, name: str, text: str, plain: str, span: tuple[int, int, int], language: Language) -> TestBlock:
    start, end, head = span
    inner, source = plain[start:end], text[start:end]
    checks = tuple(_checks(source, inner, _line(plain, start), language))
    skips = tuple(_skip(text, plain, start, match) for match in language.skip.finditer(inner))
    tags = tuple(_skip(text, plain, start, match) for match in language.tags.finditer(source[: head - start]))
    first = language.check.search(inner)
    early = re.search(_RETURNS, inner[: first.start()] if first else "", re.MULTILINE)
    return TestBlock(
        path=path,
        name=name,
        line=_line(plain, start),
        checks=checks,
        skips=skips + tags,
        body=_squeezed(_body(source, head - start, language)),
        returns=early is not None and _top_level(inner, early.start()),
        branches=len(re.findall(r"\bif\b|\bunless\b", inner)),
        rows=len(re.findall(r"^\s*[\[{(][^\n]*[\]})],?[ \t]*$", inner, re.MULTILINE)),
        catches=len(re.findall(r"\bcatch\b|\brescue\b|\brecover\(\)|catch_unwind", inner)),
    )


def _body(source: str, head: int, language: Language) -> str:
    if language.calls:
        return source[head:]
    return source[source.find("{") :] if language.braces and "{" in source else source.partition("\n")[2]


def _top_level(inner: str, at: int) -> bool:
    return inner[:at].count("{") - inner[:at].count("}") <= 1


def _checks(source: str, inner: str, line: int, language: Language) -> Iterator[TextAssertion]:
    last = 0
    for match in language.check.finditer(inner):
        if match.start() < last:
            continue
        last = match.end()
        if match[0].rstrip().endswith("("):
            last = _chain(inner, match.end() - 1)
        yield assertion(source[match.start() : last], line + inner[: match.start()].count("\n"))


def assertion(source: str, line: int) -> TextAssertion:
    return TextAssertion(_squeezed(source), line, " ".join(source.split()))


# Assertions whose arguments from a position on are only shown if they fail, by what is called.
_MESSAGE_FROM = tuple(
    (lazy(pattern), position)
    for pattern, position in (
        (r"\b(?:debug_)?assert_(?:eq|ne)!$", 2),
        (r"\b(?:debug_)?assert!$", 1),
        (r"^TEST_\w+_MESSAGE$", -1),
        (r"\b(?:assert|require)\.(?:True|False|Nil|NotNil|NoError|Error|Empty|NotEmpty|Zero|NotZero)f?$", 2),
        (r"\b(?:assert|require)\.[A-Z]\w*$", 3),
        (r"\.(?:ok|notOk|true|false|truthy|falsy|assert|error|ifError|isTrue|isFalse|isNull|exists)$|^assert$", 1),
        (
            r"\.(?:equals?|notEqual|(?:not)?[dD]eep\w*|(?:notS|s)trictEqual|same|notSame|is|not|like|match|throws)$",
            2,
        ),
    )
)
_FAILS = lazy(r"\.(?:Error|Fatal)f?\s*\(.*$", re.DOTALL)  # all that Go gives to it is a message
_TEXT = ("'", '"', "`")


def without_message(check: TextAssertion, ending: str) -> str:
    """Return an assertion without the message that it shows if it fails."""
    if ending == "go" and check.shown.startswith("if "):
        return _FAILS.sub("", check.text)
    called, opening, _ = check.shown.partition("(")
    position = next((position for pattern, position in _MESSAGE_FROM if pattern.search(called.rstrip())), None)
    if not opening or position is None or not check.shown.rstrip().endswith(")"):
        return check.text
    plain = _LITERAL.sub(_blanked, check.shown)
    arguments = list(_arguments(check.shown, plain, plain.index("(")))
    message = arguments[position:]
    is_message = message and all(word.startswith(_TEXT) for word in message[:1])
    return _squeezed(f"{called}({','.join(arguments[:position])})") if is_message else check.text


def _arguments(text: str, plain: str, opening: int) -> Iterator[str]:
    """Yield the arguments of the call whose bracket opens there."""
    depth, start = 0, opening + 1
    for sign in re.compile(r"[()\[\]{},]").finditer(plain, opening):
        if sign[0] == ",":
            if depth == 1:
                yield text[start : sign.start()].strip()
                start = sign.end()
            continue
        depth += 1 if sign[0] in _CLOSES else -1
        if depth == 0:
            yield text[start : sign.start()].strip()
            return


_WIDEST = 100  # characters of a quotation
_BEFORE = 40  # of them before the first difference


def became(old: str, new: str) -> str:
    """Quote two versions of a text around their first difference."""
    at = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
    start = max(0, at - _BEFORE) if max(len(old), len(new)) > _WIDEST else 0
    quotes = [
        f"{'…' if start else ''}{text[start:][:_WIDEST]}{'…' if len(text) > start + _WIDEST else ''}"
        for text in (old, new)
    ]
    return f"`{quotes[0]}` became `{quotes[1]}`"


def _chain(inner: str, opening: int) -> int:
    """Return the position after the closing bracket and every `.matcher(...)` that follows it."""
    end = _closing(inner, opening)
    while chained := _CHAINED.match(inner, end):
        end = chained.end()
        end = _closing(inner, end) if inner[end : end + 1] == "(" else end
    return end


# Normalises what formatters change, applied in this order to text without white space.
_SPELLINGS = (
    (lazy(r"""["`]"""), "'"),
    (lazy(r"\\'"), "'"),
    (lazy(r",(?=[)\]}])"), ""),
    (lazy(r"\((\w+)\)=>"), r"\1=>"),
    (lazy(r"(?<=[{,])'([A-Za-z_]\w*)':"), r"\1:"),
    (lazy(r"(?<![\w.)\]])\.(?=\d)"), "0."),
)
_BROKEN = lazy(r'"[ \t]*\n\s*"')
_HEX = lazy(r"\b0[xX][0-9a-fA-F]+")


def _squeezed(text: str) -> str:
    plain = re.sub(r"\s+", "", _BROKEN.sub("", text))
    for pattern, spelled in _SPELLINGS:
        plain = pattern.sub(spelled, plain)
    return _HEX.sub(lambda match: match[0].lower(), plain)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
