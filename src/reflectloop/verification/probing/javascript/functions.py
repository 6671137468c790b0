"""Find the functions of a JavaScript source: declarations, assigned and named expressions, methods; pure.

Functions without a name, such as callbacks and functions that are called at once, are looked into: the named functions
in them count. What is inside a named function belongs to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from reflectloop.verification.probing.javascript.tokens import SourceTokens, Token

_OBJECT_FOLLOWS = frozenset(("=", "(", "[", ",", "?", "&&", "||", "??", "return", "default", "??=", "||=", "...", "=>"))
_MODIFIERS = ("async", "static", "*", "get", "set")
_CLOSING = (")", "]", "}")
_GLOBAL_HOLDERS = ("module.exports.", "exports.", "this.", "self.", "window.", "globalThis.")
_KEYWORDS = frozenset(("if", "for", "while", "switch", "catch", "with", "function", "return"))


class SourceFunction(NamedTuple):
    """One function by the numbers of its tokens. `form` says how it is reached by other code."""

    qualname: str
    form: str  # "declaration", "expression", "property" (of an object), "method" (of a class), or why it cannot be
    first: int
    last: int
    line: int
    holder: int = -1  # of a declaration: the bracket that opens the function around it; of a method: its class

    def texts(self, source: SourceTokens) -> tuple[str, ...]:
        return tuple(token.text for token in source.tokens[self.first : self.last + 1])


class SourceClass(NamedTuple):
    """One class by the numbers of its tokens."""

    name: str
    first: int
    opening: int  # the bracket of its body
    last: int
    declared: bool


class SourceParts(NamedTuple):
    """The functions and classes of one source."""

    functions: tuple[SourceFunction, ...]
    classes: tuple[SourceClass, ...]


def read(source: SourceTokens) -> SourceParts:
    """Return the named functions of a source that are not inside another named one, and its classes."""
    return _Reader(source).read()


class _Reader:
    def __init__(self, source: SourceTokens) -> None:
        self.source, self.tokens, self.partner = source, source.tokens, source.partner
        self.kinds: dict[int, str] = {}  # by opening brace: "class", "object", "function" or "block"
        self.classes: list[SourceClass] = []
        self.functions: list[SourceFunction] = []

    def read(self) -> SourceParts:
        self._find_classes()
        end, around = -1, [-1]
        for number, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text == "{":
                self._note_brace(number)
            if token.kind == "sign" and token.text in _CLOSING and around[-1] == self.partner[number]:
                around.pop()
            if number > end:
                function = self._function_at(number, around[-1])
                if function is not None:
                    self.functions.append(function)
                    end = function.last
            if self.kinds.get(number) == "function" and number > end:
                around.append(number)
        return SourceParts(tuple(self._numbered()), tuple(self.classes))

    def _numbered(self) -> Iterator[SourceFunction]:
        """Yield the functions: of several with one name the last has it, since it is what other code gets."""
        left = Counter(item.qualname for item in self.functions)
        seen: Counter[str] = Counter()
        for item in self.functions:
            left[item.qualname] -= 1
            seen[item.qualname] += 1
            last = not left[item.qualname]
            yield item if last else item._replace(qualname=f"{item.qualname}#{seen[item.qualname]}")

    def _text(self, number: int) -> str:
        return self.tokens[number].text if 0 <= number < len(self.tokens) else ""

    def _kind(self, number: int) -> str:
        return self.tokens[number].kind if 0 <= number < len(self.tokens) else ""

    # Braces ----------------------------------------------------------------------------------------------------

    def _find_classes(self) -> None:
        for number, token in enumerate(self.tokens):
            if token.kind != "name" or token.text != "class" or self._text(number - 1) == ".":
                continue
            at = number + 1
            name = self._text(at) if self._kind(at) == "name" and self._text(at) != "extends" else ""
            while at < len(self.tokens) and self._text(at) not in ("{", ";", ":", "}"):
                at = self.partner[at] + 1 if self._text(at) in ("(", "[") else at + 1
            if self._text(at) != "{" or self._kind(at) != "sign":
                continue
            self.kinds[at] = "class"
            declared = self._begins_statement(number)
            if not name and self._text(number - 1) == "=":
                name = self._assigned(number - 1)
            self.classes.append(SourceClass(name, number, at, self.partner[at], declared))

    def _note_brace(self, number: int) -> None:
        if number in self.kinds:
            return
        before = self._text(number - 1)
        if before == "=>" or (before == ")" and self._is_function_head(self.partner[number - 1])):
            self.kinds[number] = "function"
        elif before == ":":
            opening = self._around(number)
            self.kinds[number] = "object" if self.kinds.get(opening) == "object" else "block"
        else:
            self.kinds[number] = "object" if before in _OBJECT_FOLLOWS else "block"

    def _is_function_head(self, opening: int) -> bool:
        """Return True if the parentheses that open here hold parameters."""
        at = opening - 1
        if self._kind(at) == "name" and self._text(at) == "function":
            return True
        if self._text(at) == "*" and self._text(at - 1) == "function":
            return True
        if self._kind(at) == "name" and self._text(at) not in _KEYWORDS:
            if self._text(at - 1) == "function" or (self._text(at - 1) == "*" and self._text(at - 2) == "function"):
                return True
            return self.kinds.get(self._around(at)) in ("class", "object")
        return self._kind(at) in ("string", "number") or self._text(at) == "]"

    def _around(self, number: int) -> int:
        """Return the bracket that is open before a token, or -1."""
        at = number - 1
        while at >= 0:
            if self.tokens[at].kind == "sign" and self.tokens[at].text in _CLOSING:
                at = self.partner[at]
            elif self.tokens[at].kind == "sign" and self.tokens[at].text in ("(", "[", "{"):
                return at
            at -= 1
        return -1

    # Functions -------------------------------------------------------------------------------------------------

    def _function_at(self, number: int, around: int) -> SourceFunction | None:
        """Return the named function that begins with a token."""
        token = self.tokens[number]
        if token.kind == "name" and token.text == "function" and self._text(number - 1) != ".":
            return self._of_keyword(number, around)
        if token.text == "=>" and token.kind == "sign":
            return self._of_arrow(number)
        if token.kind in ("name", "string") and self._text(number + 1) == "(":
            return self._of_method(number)
        return None

    def _of_keyword(self, number: int, around: int) -> SourceFunction | None:
        at = number + 1
        if self._text(at) == "*":
            at += 1
        own = self._text(at) if self._kind(at) == "name" else ""
        at += 1 if own else 0
        if self._text(at) != "(":
            return None
        body = self.partner[at] + 1
        if self._text(body) != "{":
            return None
        first = number - 1 if self._text(number - 1) == "async" and not self.tokens[number].lines_before else number
        last = self.partner[body]
        if own and self._begins_statement(first):
            inside = self._around(first)
            direct = inside == around
            form = "declaration" if direct else "it is declared in a block"
            return self._function(own, form, first, last, holder=around)
        before = self._text(first - 1)
        name = self._name_of_expression(first)
        called = self._text(last + 1) == "(" or (self._text(last + 1) in (")", ".") and self._is_called(last))
        if not name and (called or not own):
            return None
        if name in ("", "module.exports", "exports", "default") and own:
            name = own
        form = "expression" if before != "new" else "it is called with new"
        return self._function(name, form, first, last)

    def _is_called(self, last: int) -> bool:
        following = (self._text(last + 1), self._text(last + 2))
        return following in ((")", "("), (".", "call"), (".", "apply"))

    def _of_arrow(self, number: int) -> SourceFunction | None:
        first = self.partner[number - 1] if self._text(number - 1) == ")" else number - 1
        if self._text(first - 1) == "async":
            first -= 1
        name = self._name_of_expression(first)
        if not name:
            return None
        last = self.partner[number + 1] if self._text(number + 1) == "{" else self._expression_end(number + 1)
        return self._function(name, "expression", first, last)

    def _expression_end(self, at: int) -> int:
        """Return the last token of an expression that begins here."""
        begin = at
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.kind == "sign" and token.text in (",", ";", *_CLOSING):
                return at - 1
            if at > begin and token.lines_before and not self._goes_on(at):
                return at - 1
            at = self.partner[at] + 1 if token.kind == "sign" and token.text in ("(", "[", "{") else at + 1
        return at - 1

    def _goes_on(self, at: int) -> bool:
        """Return True if an expression goes on over the end of a line."""
        token, before = self.tokens[at], self.tokens[at - 1]
        if before.kind == "sign" and before.text not in (*_CLOSING, "++", "--"):
            return True
        if before.kind == "name" and before.text in ("typeof", "await", "new", "in", "instanceof", "void", "return"):
            return True
        if token.kind == "sign" and token.text not in ("{", "++", "--", "!", "~", "@"):
            return True
        return token.kind == "template" or token.text in ("in", "instanceof")

    def _of_method(self, number: int) -> SourceFunction | None:
        body = self.partner[number + 1] + 1
        if self._text(body) != "{" or self._text(number) in _KEYWORDS:
            return None
        inside = self._around(number)
        kind = self.kinds.get(inside)
        if kind not in ("class", "object"):
            return None
        first, words = number, []
        while self._text(first - 1) in _MODIFIERS and self._kind(first - 1) in ("name", "sign"):
            first -= 1
            words.append(self._text(first))
        if self._text(first - 1) not in ("{", "}", ",", ";") and not self.tokens[first].lines_before:
            return None
        holder = next((item for item in self.classes if item.opening == inside), None)
        prefix = (holder.name if holder else self._name_of_object(inside)) or ""
        accessor = next((f"{word} " for word in words if word in ("get", "set")), "")
        prefixed = "static " if "static" in words else accessor if holder else ""
        name = f"{prefix}.{prefixed}{self._text(number)}" if prefix else self._text(number)
        form = self._form_of_method(number, holder)
        if accessor and (not holder or "static" in words):
            form = "it is an accessor"
        return self._function(name, form, first, self.partner[body], holder=inside)

    def _form_of_method(self, number: int, holder: SourceClass | None) -> str:
        if self._kind(number) != "name" or self._text(number).startswith("#"):
            return "it is private, or has no plain name"
        if self._text(number) == "constructor":
            return "it is a constructor"
        if holder and not holder.name:
            return "its class has no name"
        return "method" if holder else "property"

    def _function(self, name: str, form: str, first: int, last: int, *, holder: int = -1) -> SourceFunction:
        for prefix in _GLOBAL_HOLDERS:
            name = name.removeprefix(prefix)
        return SourceFunction(name, form, first, last, self.source.line(first), holder)

    # Names -----------------------------------------------------------------------------------------------------

    def _begins_statement(self, number: int) -> bool:
        if number == 0:
            return True
        before = self.tokens[number - 1]
        if before.text in (";", "{", "}", "export", "default") and before.kind in ("sign", "name"):
            return self.kinds.get(number - 1) not in ("object", "class")
        ended = before.kind != "sign" or before.text in (")", "]", "++", "--")
        return self.tokens[number].lines_before and ended and before.text not in ("return", "typeof", "await", "void")

    def _name_of_expression(self, first: int) -> str:
        before = self._text(first - 1)
        if before == "=":
            return self._assigned(first - 1)
        if before == ":" and self.kinds.get(self._around(first - 1)) == "object":
            holder = self._name_of_object(self._around(first - 1))
            key = self._text(first - 2).strip("'\"")
            return f"{holder}.{key}" if holder else key
        if before == "default" and self._text(first - 2) == "export":
            return "default"
        return ""

    def _name_of_object(self, opening: int) -> str:
        if opening > 0 and self._text(opening - 1) == "=":
            name = self._assigned(opening - 1)
            return "" if name in ("module.exports", "exports") else name
        if opening > 0 and self._text(opening - 1) == ":":
            return self._name_of_expression(opening)
        return ""

    def _assigned(self, equals: int) -> str:
        """Return the name before a sign of assignment."""
        parts: list[str] = []
        at = equals - 1
        while self._kind(at) == "name":
            parts.insert(0, self._text(at))
            if self._text(at - 1) != ".":
                break
            at -= 2
        return ".".join(parts)


def outside(source: SourceTokens, parts: SourceParts) -> Iterator[list[Token]]:
    """Yield the statements of a source that belong to no named function, as lists of tokens."""
    inner = {number for item in parts.functions for number in range(item.first, item.last + 1)}
    statement: list[Token] = []
    depth = 0
    for number, token in enumerate(source.tokens):
        if depth == 0 and statement and (token.lines_before or statement[-1].text == ";"):
            yield statement
            statement = []
        if token.kind == "sign":
            depth += (token.text in ("(", "[", "{")) - (token.text in _CLOSING)
        if number not in inner:
            statement.append(token)
    if statement:
        yield statement
