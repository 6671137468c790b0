"""Split a JavaScript source into tokens, with the partner of each bracket; pure."""

from __future__ import annotations

import re
from typing import NamedTuple

_SKIPPED = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_STRING = re.compile(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_NUMBER = re.compile(r"0[xXbBoO][0-9a-fA-F_]+n?|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?n?")
_NAME = re.compile(r"#?[^\W\d][\w$]*|#?\$[\w$]*|#?_[\w$]*")
_SIGN = re.compile(
    r"\.\.\.|=>|===|!==|==|!=|<=|>=|\*\*=?|\+\+|--|&&=?|\|\|=?|\?\?=?|\?\.(?!\d)|<<=?|>>>?=?|[+\-*/%&|^]=|"
    r"[{}()\[\];,<>+\-*/%&|^!~?:=.@]"
)
_REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[A-Za-z]*")
_BEFORE_REGEX = frozenset(
    ("return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do", "yield", "await")
)
_CONDITIONS = ("if", "while", "for", "with")
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_LARGEST = 1 << 20


class Unreadable(Exception):
    """A source that cannot be split."""


class Token(NamedTuple):
    kind: str  # name, number, string, template, regex or sign
    text: str
    start: int
    end: int
    lines_before: bool = False  # a line ends between the token before and this one


class SourceTokens(NamedTuple):
    """The tokens of a source; `partner` leads from a bracket to its partner, by number."""

    text: str
    tokens: tuple[Token, ...]
    partner: dict[int, int]

    def line(self, number: int) -> int:
        return self.text.count("\n", 0, self.tokens[number].start) + 1


def split(source: bytes) -> SourceTokens:
    """Split a source. Raise Unreadable if it is no JavaScript that this can read."""
    if len(source) > _LARGEST or b"\0" in source:
        raise Unreadable("not text, or too large")
    try:
        text = source.decode()
    except UnicodeDecodeError as fault:
        raise Unreadable("not UTF-8") from fault
    if text.startswith("\ufeff"):
        raise Unreadable("begins with a mark of the byte order")
    return _Splitter(text).split()


class _Splitter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.partner: dict[int, int] = {}
        self.open: list[int] = []

    def split(self) -> SourceTokens:
        at = self.text.find("\n") if self.text.startswith("#!") else 0
        end = len(self.text)
        at = end if at < 0 else at
        lines = False
        while at < end:
            if skipped := _SKIPPED.match(self.text, at):
                lines = "\n" in skipped[0]
                at = skipped.end()
                continue
            token = self._token(at)._replace(lines_before=lines)
            lines = False
            self._pair(token)
            self.tokens.append(token)
            at = token.end
        if self.open:
            raise Unreadable("brackets that do not close")
        return SourceTokens(self.text, tuple(self.tokens), self.partner)

    def _token(self, at: int) -> Token:
        text = self.text
        if text[at] == "`":
            end = self._template_end(at)
            return Token("template", text[at:end], at, end)
        if text[at] == "/" and self._regex_may_follow() and (match := _REGEX.match(text, at)):
            return Token("regex", match[0], at, match.end())
        for kind, pattern in (("string", _STRING), ("number", _NUMBER), ("name", _NAME), ("sign", _SIGN)):
            if match := pattern.match(text, at):
                return Token(kind, match[0], at, match.end())
        raise Unreadable(f"the sign {text[at]!r} in line {text.count(chr(10), 0, at) + 1}")

    def _pair(self, token: Token) -> None:
        if token.kind != "sign":
            return
        if token.text in _PAIRS:
            self.open.append(len(self.tokens))
        elif token.text in _PAIRS.values():
            if not self.open or _PAIRS[self.tokens[self.open[-1]].text] != token.text:
                raise Unreadable("brackets that do not match")
            first = self.open.pop()
            self.partner[first], self.partner[len(self.tokens)] = len(self.tokens), first

    def _regex_may_follow(self) -> bool:
        if not self.tokens:
            return True
        last = self.tokens[-1]
        if last.kind == "name":
            return last.text in _BEFORE_REGEX
        if last.text == ")":
            before = self.partner[len(self.tokens) - 1] - 1
            return before >= 0 and self.tokens[before].text in _CONDITIONS
        return last.kind == "sign" and last.text not in ("]", "++", "--")

    def _template_end(self, at: int) -> int:
        """Return the end of a template, with the expressions in it."""
        text, at = self.text, at + 1
        while at < len(text):
            if text[at] == "\\":
                at += 2
            elif text[at] == "`":
                return at + 1
            elif text.startswith("${", at):
                at = self._expression_end(at + 2)
            else:
                at += 1
        raise Unreadable("a template that does not end")

    def _expression_end(self, at: int) -> int:
        depth = 0
        while at < len(self.text):
            if skipped := _SKIPPED.match(self.text, at):
                at = skipped.end()
            elif string := _STRING.match(self.text, at):
                at = string.end()
            elif self.text[at] == "`":
                at = self._template_end(at)
            elif self.text[at] == "}" and depth == 0:
                return at + 1
            else:
                depth += {"{": 1, "}": -1}.get(self.text[at], 0)
                at += 1
        raise Unreadable("a template that does not end")
