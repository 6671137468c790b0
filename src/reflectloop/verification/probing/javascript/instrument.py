"""Write a JavaScript source in which the calls of some functions can be followed; pure.

The functions stay as they are: what other code reaches under their names is handed through a function of the program
that follows the calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reflectloop.verification.probing.javascript.functions import SourceClass, SourceFunction, SourceParts
from reflectloop.verification.probing.javascript.tokens import SourceTokens, Token

_FORMS = ("declaration", "expression", "property", "method")
_WIDE = 0xFFFF  # characters above it are two units of JavaScript's strings


class FollowedSource(NamedTuple):
    """The other text of a source, and where the tokens of its functions are in it."""

    text: str
    tokens: Mapping[str, tuple[int, ...]]  # by function, in units of JavaScript's strings


class _Insertion(NamedTuple):
    at: int
    order: int  # of insertions at one place
    text: str


def is_followed(function: SourceFunction) -> bool:
    """Return True if calls of a function can be followed."""
    return function.form in _FORMS


def write(source: SourceTokens, parts: SourceParts, wanted: Mapping[str, int], mark: str) -> FollowedSource:
    """Return a source in which the calls of the wanted functions go through the global function `mark`."""
    chosen = [item for item in parts.functions if item.qualname in wanted and is_followed(item)]
    insertions: list[_Insertion] = []
    for item in chosen:
        insertions += _of_function(source, item, f"globalThis.{mark}({wanted[item.qualname]},")
    insertions += _of_classes(source, parts, chosen, wanted, mark)
    insertions.sort()
    return FollowedSource(_inserted(source.text, insertions), _places(source, parts.functions, insertions))


def _of_function(source: SourceTokens, item: SourceFunction, call: str) -> list[_Insertion]:
    tokens = source.tokens
    start, end = tokens[item.first].start, tokens[item.last].end
    if item.form == "declaration":
        name = next(
            token.text
            for token in tokens[item.first : item.last]
            if token.kind == "name" and token.text not in ("async", "function")
        )
        return [_Insertion(_body_start(source, item.holder), 0, f";{name}={call}{name});")]
    if item.form == "expression":
        return [_Insertion(start, 1, f"({call}"), _Insertion(end, -1, "))")]
    if item.form == "property":
        name = next(token.text for token in tokens[item.first : item.last] if _is_own_name(token))
        return [_Insertion(start, 1, f"{name}:({call}{{"), _Insertion(end, -1, f"}}.{name}))")]
    return []


def _is_own_name(token: Token) -> bool:
    return token.kind == "name" and token.text != "async"


def _body_start(source: SourceTokens, opening: int) -> int:
    """Return where the statements of a function, or of the file, begin: behind its directives."""
    at = opening + 1
    end = source.tokens[opening].end if opening >= 0 else _after_first_line(source.text)
    while at < len(source.tokens) and source.tokens[at].kind == "string":
        following = source.tokens[at + 1] if at + 1 < len(source.tokens) else None
        if following is not None and following.text != ";" and not following.lines_before and following.text != "}":
            break
        if following is not None and following.lines_before and following.kind == "sign" and following.text in ".[(+?":
            break
        semicolon = following is not None and following.text == ";"
        end = source.tokens[at + semicolon].end
        at += 1 + semicolon
    return end


def _after_first_line(text: str) -> int:
    return (text.find("\n") + 1 or len(text)) if text.startswith("#!") else 0


def _of_classes(
    source: SourceTokens, parts: SourceParts, chosen: Sequence[SourceFunction], wanted: Mapping[str, int], mark: str
) -> list[_Insertion]:
    out = []
    for item in parts.classes:
        methods = {
            function.qualname.removeprefix(f"{item.name}."): wanted[function.qualname]
            for function in chosen
            if function.form == "method" and function.holder == item.opening
        }
        if not methods:
            continue
        out += _of_constructor(source, item, f";globalThis.{mark}.made(this,arguments);")
        call, names = f"globalThis.{mark}.methods(", f",{json.dumps(methods)})"
        start, end = source.tokens[item.first].start, source.tokens[item.last].end
        if item.declared:
            out.append(_Insertion(end, 2, f";{call}{item.name}{names};"))
        else:
            out += [_Insertion(start, 1, f"({call}"), _Insertion(end, -1, f"{names})")]
    return out


def _of_constructor(source: SourceTokens, item: SourceClass, call: str) -> list[_Insertion]:
    """Return the call that tells with which arguments an object is made, where there is an object."""
    tokens, partner = source.tokens, source.partner
    number = item.opening + 1
    while number < item.last:
        if tokens[number].text == "constructor" and tokens[number + 1].text == "(":
            body = partner[number + 1] + 1
            if not any(token.text == "extends" for token in tokens[item.first : item.opening]):
                return [_Insertion(tokens[body].end, 0, call)]
            above = next((at for at in range(body, partner[body]) if tokens[at].text == "super"), body)
            end = partner[above + 1] + 1 if tokens[above + 1].text == "(" else body
            begins = tokens[above - 1].text in ("{", "}", ";")
            return [_Insertion(tokens[end].end, 0, call)] if begins and tokens[end].text == ";" else []
        number = partner[number] + 1 if tokens[number].text in ("{", "(", "[") else number + 1
    return []


def _inserted(text: str, insertions: Sequence[_Insertion]) -> str:
    parts, before = [], 0
    for insertion in insertions:
        parts += [text[before : insertion.at], insertion.text]
        before = insertion.at
    return "".join([*parts, text[before:]])


def _places(
    source: SourceTokens, functions: Sequence[SourceFunction], insertions: Sequence[_Insertion]
) -> dict[str, tuple[int, ...]]:
    """Return where the tokens of each function are in the other text."""
    wide = [at for at, letter in enumerate(source.text) if ord(letter) > _WIDE]
    moves = [(insertion.at, len(insertion.text)) for insertion in insertions]
    moves += [(at + 1, 1) for at in wide]
    moves.sort()
    out, shift, next_move = {}, 0, 0
    starts = []
    for token in source.tokens:
        while next_move < len(moves) and moves[next_move][0] <= token.start:
            shift += moves[next_move][1]
            next_move += 1
        starts.append(token.start + shift)
    for function in functions:
        out[function.qualname] = tuple(starts[function.first : function.last + 1])
    return out
