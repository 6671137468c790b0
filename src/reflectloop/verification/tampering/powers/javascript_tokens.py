"""Split JavaScript and TypeScript into tokens, without comments."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z)|\A#![^\n]*)"
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?)"
    r"|(?P<name>[#@]?[A-Za-z_$\u0080-\uffff](?:[\w$\u0080-\uffff]|\\u[0-9a-fA-F]{4})*)"
    r"|(?P<number>\.?\d[\w.]*)"
    r"|(?P<punct>\?\.(?!\d)|=>|\.\.\.|[!=]==?|\*\*=?|&&=?|\|\|=?|\?\?=?|[-+*%&|^<>]=|<<|>>>?|\+\+|--|.)",
    re.DOTALL,
)
_TEMPLATE = re.compile(r"(?:\\.|\$(?!\{)|[^\\`$])*", re.DOTALL)
_REGEX = re.compile(r"/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*")
_BEFORE_REGEX = frozenset(("return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do"))
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}|(.))", re.DOTALL)
_MOST = 4_000_000  # tokens of one file


class JsToken(NamedTuple):
    """One token: a name, string, regex, number or punct, and its line."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> list[JsToken]:
    """Return the tokens of a source; strings without their quotes, and joined where they are added to each other."""
    return _joined(_Scanner(text).all())


class _Scanner:
    """Reads tokens from left to right; code inside a template is added to the texts around it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line = 1
        self.out: list[JsToken] = []
        self.open: list[int] = []  # for each template that is open: braces that are open in its code

    def all(self) -> list[JsToken]:
        at = 0
        while at < len(self.text) and len(self.out) < _MOST:
            at = self._next(at)
        return self.out

    def _next(self, at: int) -> int:
        letter = self.text[at]
        if letter == "`":
            return self._template(at + 1)
        if letter == "}" and self.open and self.open[-1] == 0:
            self.open.pop()
            self._add(")", "+")
            return self._template(at + 1)
        if letter in "{}" and self.open:
            self.open[-1] += 1 if letter == "{" else -1
        last = self.out[-1] if self.out else None
        match = _REGEX.match(self.text, at) if letter == "/" and _may_be_regex(last) else None
        if match:
            self.out.append(JsToken("regex", match[0], self.line))
        elif (match := _TOKEN.match(self.text, at)) is None:
            return len(self.text)
        elif (kind := match.lastgroup or "punct") not in ("space", "comment"):
            value = match[0][1:-1] if kind == "string" else match[0]
            self.out.append(JsToken(kind, _unescaped(value) if kind in ("string", "name") else value, self.line))
        self.line += match[0].count("\n")
        return match.end()

    def _template(self, at: int) -> int:
        """Read the text of a template up to its end or to code inside it."""
        match = _TEMPLATE.match(self.text, at)
        chunk = match[0] if match else ""
        self.out.append(JsToken("string", _unescaped(chunk), self.line))
        self.line += chunk.count("\n")
        at += len(chunk)
        if self.text.startswith("${", at):
            self.open.append(0)
            self._add("+", "(")
            return at + 2
        return at + 1

    def _add(self, *texts: str) -> None:
        self.out += [JsToken("punct", text, self.line) for text in texts]


def _may_be_regex(last: JsToken | None) -> bool:
    """Return True where a slash begins a regular expression and is no division."""
    if last is None:
        return True
    if last.kind == "name":
        return last.text in _BEFORE_REGEX
    return last.kind == "punct" and last.text not in (")", "]", "}")


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
