"""Split JavaScript and TypeScript into tokens, without comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z)|\A#![^\n]*)"
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?)"
    r"|(?P<name>[#@]?[A-Za-z_$\u0080-\uffff](?:[\w$\u0080-\uffff]|\\u[0-9a-fA-F]{4})*)"
    r"|(?P<number>\.?\d[\w.]*)|(?P<template>`)"
    r"|(?P<punct>\?\.(?!\d)|=>|\.\.\.|[!=]==?|\*\*=?|&&=?|\|\|=?|\?\?=?|[-+*%&|^<>]=|<<|>>>?|\+\+|--|.)",
    re.DOTALL,
)
_REGEX = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*")
_BEFORE_REGEX = frozenset(("return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do"))
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|(.))", re.DOTALL)
_MOST = 400_000  # tokens of one file


class JsToken(NamedTuple):
    """One token: a name, string, regex, number or punct, and its line."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> list[JsToken]:
    """Return the tokens of a source; strings without their quotes, and joined where they are added to each other."""
    return _joined(list(_tokens(text, 1)))


def _tokens(text: str, line: int) -> Iterator[JsToken]:
    at, count, last = 0, 0, None
    while at < len(text) and count < _MOST:
        if text[at] == "/" and _may_be_regex(last) and (match := _REGEX.match(text, at)):
            last = JsToken("regex", match[0], line)
            yield last
        elif (match := _TOKEN.match(text, at)) is None:
            return
        elif match.lastgroup == "template":
            end, parts = _template(text, at + 1, line)
            last = JsToken("string", "", line)
            yield from parts
            line += text.count("\n", at, end)
            at = end
            continue
        elif match.lastgroup not in ("space", "comment"):
            kind = match.lastgroup or "punct"
            value = _unescaped(match[0][1:-1]) if kind == "string" else match[0]
            last = JsToken(kind, _unescaped(value) if kind == "name" else value, line)
            yield last
        count += 1
        line += match[0].count("\n")
        at = match.end()


def _may_be_regex(last: JsToken | None) -> bool:
    """Return True where a slash begins a regular expression and is no division."""
    if last is None:
        return True
    if last.kind == "name":
        return last.text in _BEFORE_REGEX
    return last.kind == "punct" and last.text not in (")", "]", "}")


def _template(text: str, at: int, line: int) -> tuple[int, list[JsToken]]:
    """Return where a template ends, and its tokens: the text in strings, and the code inside it."""
    parts: list[JsToken] = []
    start = at
    while at < len(text) and text[at] != "`":
        if text[at] == "\\":
            at += 2
        elif text.startswith("${", at):
            parts.append(JsToken("string", _unescaped(text[start:at]), line))
            end = _closing(text, at + 2)
            parts += [JsToken("punct", "+", line), JsToken("punct", "(", line)]
            parts += list(_tokens(text[at + 2 : end], line))
            parts += [JsToken("punct", ")", line), JsToken("punct", "+", line)]
            at = start = end + 1
        else:
            at += 1
    parts.append(JsToken("string", _unescaped(text[start:at]), line))
    return min(at + 1, len(text)), parts


def _closing(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            if depth == 0:
                return at
            depth -= 1
        elif text[at] == "`":
            at, _ = _template(text, at + 1, 1)
            continue
        at += 1
    return at


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        return chr(min(int(code, 16), 0x10FFFF)) if code else match[4]

    return _ESCAPE.sub(value, text)


def _joined(parts: list[JsToken]) -> list[JsToken]:
    """Join strings that are added to each other."""
    out: list[JsToken] = []
    for token in parts:
        plus = len(out) > 1 and out[-1].text == "+" and out[-1].kind == "punct"
        if token.kind == "string" and plus and out[-2].kind == "string":
            out[-2:] = [JsToken("string", out[-2].text + token.text, out[-2].line)]
        else:
            out.append(token)
    return out
