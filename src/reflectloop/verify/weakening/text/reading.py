"""Reads a file of tests in any known language into named blocks with their assertions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from reflectloop.verify.weakening.added import JAVASCRIPT, REGEX, code, ending
from reflectloop.verify.weakening.text.languages import BY_ENDING, Language

_LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`')
_LITERAL_OR_REGEX = re.compile(f"{_LITERAL.pattern}|{REGEX}")
_CHAINED = re.compile(r"\s*\.\s*\w+\s*(?=[.(])")
_ATTRIBUTE = re.compile(r"^\s*(?:@\w|#\[|\[\w).*$")
_CLOSES = {"(": ")", "[": "]", "{": "}"}


class Check(NamedTuple):
    text: str  # without white space, quotes alike
    line: int


class Block(NamedTuple):
    path: str
    name: str
    line: int
    checks: tuple[Check, ...]
    skips: tuple[Check, ...]
    body: str
    returns: bool  # leaves before its first assertion
    branches: int
    catches: int
    rows: int  # lines that look like an entry of a table


class Read(NamedTuple):
    blocks: dict[str, Block]
    skips: tuple[Check, ...]  # outside of every block


def known(path: str) -> bool:
    return ending(path) in BY_ENDING


@lru_cache(maxsize=256)
def read(path: str, data: bytes | None) -> Read:
    language = BY_ENDING[ending(path)]
    text = code(path, data)
    plain = (_LITERAL_OR_REGEX if ending(path) in JAVASCRIPT else _LITERAL).sub(_blanked, text)
    blocks: dict[str, Block] = {}
    covered: list[tuple[int, int]] = []
    for start, end, head, name in _spans(text, plain, language):
        blocks[_fresh(name, blocks)] = _block(path, name, text, plain, (start, end, head), language)
        covered.append((start, end))
    outside = [each for each in language.skip.finditer(plain) if not any(a <= each.start() < b for a, b in covered)]
    return Read(blocks, tuple(Check(_squeezed(each[0]), _line(plain, each.start())) for each in outside))


def _blanked(found: re.Match[str]) -> str:
    """A literal of the same length and lines with nothing in it."""
    return "'" + re.sub(r"[^\n]", " ", found[0][1:-1]) + "'"


def _fresh(name: str, blocks: dict[str, Block]) -> str:
    if name not in blocks:
        return name
    number = sum(1 for each in blocks if each.partition("\0")[0] == name)
    return f"{name}\0{number}"


def _spans(text: str, plain: str, language: Language) -> Iterator[tuple[int, int, int, str]]:
    last = 0
    for found in language.test.finditer(text):
        if found.start() < last:
            continue
        names = [value for key, value in found.groupdict().items() if key != "quote" and value is not None]
        start = _with_attributes(text, found.start())
        last = _after(text, plain, found, language)
        yield start, last, found.end(), names[0] if names else found[0]


def _after(text: str, plain: str, found: re.Match[str], language: Language) -> int:
    """Where a test ends: with its call, its braces or its indent."""
    if language.calls:
        end = _closing(plain, plain.rfind("(", found.start(), found.start("quote")))
        if plain[end - 1 : end] == ")":
            return end
    return _end(plain, found.end(), language) if language.braces else _dedent(text, found.start())


def _with_attributes(text: str, start: int) -> int:
    """Attributes and annotations on the lines above belong to the test."""
    begin = text.rfind("\n", 0, start) + 1
    while begin > 0:
        above = text.rfind("\n", 0, begin - 1) + 1
        if not _ATTRIBUTE.match(text[above : begin - 1]):
            break
        begin = above
    return begin


def _end(plain: str, start: int, language: Language) -> int:
    """Where the first brace after the head closes."""
    opening = plain.find("{", start)
    if opening < 0:
        return min(len(plain), (plain.find("\n", start) + 1) or len(plain))
    following = language.test.search(plain, start)
    arrow = plain.find(";", start)
    if following and following.start() < opening and 0 <= arrow < opening:
        return arrow + 1
    return _closing(plain, opening)


def _closing(plain: str, opening: int) -> int:
    """The place after the bracket that closes the one here."""
    sign, closes = plain[opening], _CLOSES[plain[opening]]
    depth = 0
    for found in re.compile(re.escape(sign) + "|" + re.escape(closes)).finditer(plain, opening):
        depth += 1 if found[0] == sign else -1
        if depth == 0:
            return found.end()
    return len(plain)


def _dedent(text: str, start: int) -> int:
    """Where a line stands as far left as the head again."""
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


def _block(path: str, name: str, text: str, plain: str, span: tuple[int, int, int], language: Language) -> Block:
    start, end, head = span
    inner, shown = plain[start:end], text[start:end]
    checks = tuple(_checks(shown, inner, _line(plain, start), language))
    skips = tuple(
        Check(_squeezed(each[0]), _line(plain, start + each.start())) for each in language.skip.finditer(inner)
    )
    tags = tuple(
        Check(_squeezed(each[0]), _line(plain, start + each.start()))
        for each in language.tags.finditer(shown[: head - start])
    )
    first = language.check.search(inner)
    early = re.search(r"^\s*return\b[^\n]*$", inner[: first.start()] if first else "", re.MULTILINE)
    return Block(
        path=path,
        name=name,
        line=_line(plain, start),
        checks=checks,
        skips=skips + tags,
        body=_squeezed(_body(shown, head - start, language)),
        returns=early is not None and _top_level(inner, early.start()),
        branches=len(re.findall(r"\bif\b|\bunless\b", inner)),
        rows=len(re.findall(r"^\s*[\[{(][^\n]*[\]})],?[ \t]*$", inner, re.MULTILINE)),
        catches=len(re.findall(r"\bcatch\b|\brescue\b|\brecover\(\)|catch_unwind", inner)),
    )


def _body(shown: str, head: int, language: Language) -> str:
    if language.calls:
        return shown[head:]
    return shown[shown.find("{") :] if language.braces and "{" in shown else shown.partition("\n")[2]


def _top_level(inner: str, at: int) -> bool:
    return inner[:at].count("{") - inner[:at].count("}") <= 1


def _checks(shown: str, inner: str, line: int, language: Language) -> Iterator[Check]:
    last = 0
    for found in language.check.finditer(inner):
        if found.start() < last:
            continue
        last = found.end()
        if found[0].rstrip().endswith("("):
            last = _chain(inner, found.end() - 1)
        yield Check(_squeezed(shown[found.start() : last]), line + inner[: found.start()].count("\n"))


def _chain(inner: str, opening: int) -> int:
    """Past the closing bracket and every `.matcher(…)` that follows it."""
    end = _closing(inner, opening)
    while chained := _CHAINED.match(inner, end):
        end = chained.end()
        end = _closing(inner, end) if inner[end : end + 1] == "(" else end
    return end


# What formatters write in one way and people in another, tried in this order on text without blanks.
_SPELLINGS = (
    (re.compile(r"""["`]"""), "'"),
    (re.compile(r"\\'"), "'"),
    (re.compile(r",(?=[)\]}])"), ""),
    (re.compile(r"\((\w+)\)=>"), r"\1=>"),
    (re.compile(r"(?<=[{,])'([A-Za-z_]\w*)':"), r"\1:"),
    (re.compile(r"(?<![\w.)\]])\.(?=\d)"), "0."),
)
_BROKEN = re.compile(r'"[ \t]*\n\s*"')
_HEX = re.compile(r"\b0[xX][0-9a-fA-F]+")


def _squeezed(text: str) -> str:
    plain = re.sub(r"\s+", "", _BROKEN.sub("", text))
    for pattern, spelled in _SPELLINGS:
        plain = pattern.sub(spelled, plain)
    return _HEX.sub(lambda found: found[0].lower(), plain)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
