"""Cut a file into function-sized chunks with the names they define. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tree_sitter import Node

from reflectloop.context import grammars
from reflectloop.context.grammars import Grammar

WINDOW = 60  # lines of a chunk where there are no definitions
_LARGE = 40  # lines of a statement that is searched for functions inside
_LONGEST = 400  # lines of a definition that stays in one piece
_DEPTH = 12
_MOST = 4000  # chunks of a file
_FUNCTION_VALUES = frozenset(
    ("arrow_function", "function_expression", "function", "generator_function", "class", "lambda")
)
_NAME_FIELDS = ("name", "declarator", "left", "key", "type", "property")
_STATEMENTS = frozenset(("lexical_declaration", "variable_declaration", "expression_statement"))
_COMMENTS = ("//", "#", "/*", "*", "--", "@")
_SHORT_HEAD = 3  # lines of the head of a class that stay with its first method
_BARE = " \t\r\n{}()[];,"
_LONGEST_NAME = 120  # bytes
_ASSIGNERS = frozenset(
    ("variable_declarator", "assignment_expression", "pair", "public_field_definition", "assignment")
)


class Chunk(NamedTuple):
    """A range of lines, both ends included and counted from 1, and the names that it defines."""

    start: int
    end: int
    names: tuple[str, ...]
    owner: str = ""  # the class or type around it


class _Definition(NamedTuple):
    start: int
    end: int  # of the whole definition
    name: str
    is_container: bool
    owner: str = ""


def split(text: str, grammar: Grammar | None) -> list[Chunk]:
    """Return the chunks of a text, which cover all its lines that are not blank."""
    lines = text.split("\n")
    definitions = sorted(_definitions(text, grammar)) if grammar else []
    chunks = (chunk for chunk in _cover(definitions, lines) if any(map(_has_words, lines[chunk.start - 1 : chunk.end])))
    return list(islice(chunks, _MOST))


def _has_words(line: str) -> bool:
    return line.strip(_BARE) != ""


def _definitions(text: str, grammar: Grammar) -> Iterator[_Definition]:
    parser = grammars.parser_for(grammar)
    if parser is None:
        return _by_pattern(text, grammar)
    return _by_tree(parser.parse(text.encode("utf-8", "replace")).root_node, grammar)


def _by_pattern(text: str, grammar: Grammar) -> Iterator[_Definition]:
    """Find definitions by their first lines; each ends where the next begins."""
    breaks = [at for at, char in enumerate(text) if char == "\n"]
    starts = [
        (bisect_right(breaks, match.start(1)) + 1, match[1])
        for match in grammars.pattern_of(grammar.definition).finditer(text)
    ]
    lasts = [*(line - 1 for line, _ in starts[1:]), len(breaks) + 1][: len(starts)]
    for (line, name), last in zip(starts, lasts, strict=True):
        yield _Definition(line, max(line, min(last, line + _LONGEST)), name, is_container=False)


def _by_tree(node: Node, grammar: Grammar, depth: int = 0, owner: str = "") -> Iterator[_Definition]:
    if depth > _DEPTH:
        return
    for child in node.named_children:
        inner = _unwrapped(child)
        start, end = child.start_point[0] + 1, child.end_point[0] + 1
        kind = inner.type
        if kind in grammar.containers:
            name = _name(inner)
            if name:
                yield _Definition(start, end, name, is_container=True, owner=owner)
            yield from _by_tree(inner, grammar, depth + 1, name or owner)
        elif kind in grammar.functions or (kind in _ASSIGNERS and _has_function(inner)):
            is_long = end - start > _LONGEST
            if name := _name(inner):
                yield _Definition(start, end, name, is_container=is_long, owner=owner)
            if is_long:
                yield from _by_tree(inner, grammar, depth + 1, owner)
        elif end - start > _LARGE or kind in _STATEMENTS:
            yield from _by_tree(inner, grammar, depth + 1, owner)


def _unwrapped(node: Node) -> Node:
    """Return the definition inside decorators, exports and templates."""
    while node.type in grammars.WRAPPERS and node.named_children:
        node = node.child_by_field_name("definition") or node.named_children[-1]
    return node


def _has_function(node: Node) -> bool:
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    return value is not None and value.type in _FUNCTION_VALUES


def _name(node: Node) -> str:
    """Return the name that a node defines, or ""."""
    for _ in range(_DEPTH):
        field = next(filter(None, map(node.child_by_field_name, _NAME_FIELDS)), None)
        if field is None:
            break
        node = field
    if node.named_children:
        specs = [child for child in node.named_children if child.type in ("type_spec", "type_alias")]
        return _name(specs[0]) if specs else ""
    raw = node.text or b""
    name = raw.decode("utf-8", "replace") if len(raw) < _LONGEST_NAME else ""
    return name if name.strip(_BARE) else ""


def _cover(definitions: list[_Definition], lines: list[str]) -> Iterator[Chunk]:
    """Yield chunks for all lines: each definition, the head of each container, and what lies between."""
    line = 1
    heads: list[str] = []  # containers whose heads lie before the next definition
    for definition in definitions:
        start = definition.start
        if start < line and not definition.is_container:
            continue  # inside a definition that was taken
        start = _with_comment(lines, line, start)
        if definition.is_container or start - line > _SHORT_HEAD or not heads:
            yield from _windows(line, start - 1, heads)
            line, heads = max(line, start), []
        if definition.is_container:
            heads.append(definition.name)
            continue
        yield Chunk(line, definition.end, (*heads, definition.name), definition.owner)
        heads, line = [], definition.end + 1
    yield from _windows(line, len(lines), heads)


def _with_comment(lines: list[str], least: int, start: int) -> int:
    """Return the line where the comment above a definition begins."""
    while start > least and lines[start - 2].lstrip().startswith(_COMMENTS):
        start -= 1
    return start


def _windows(start: int, end: int, names: list[str]) -> Iterator[Chunk]:
    for at in range(start, end + 1, WINDOW):
        yield Chunk(at, min(end, at + WINDOW - 1), tuple(names) if at == start else ())


def imports_of(text: str, grammar: Grammar | None) -> list[str]:
    """Return what a file imports, as it is written: modules, files, and `module:name` for names out of modules."""
    if grammar is None:
        return []
    out: dict[str, None] = {}
    for match in grammars.pattern_of(grammar.imports).finditer(text):
        if grammar.name != "python":
            out.update(dict.fromkeys(group for group in match.groups() if group))
        elif match[1]:
            names = [word.split()[0] for word in match[2].strip("()\\ \n").split(",") if word.split()]
            out.update(dict.fromkeys(f"{match[1]}:{name}" for name in names if name.isidentifier()) or {match[1]: None})
        else:
            out.update(dict.fromkeys(word.split()[0] for word in match[3].split(",") if word.split()))
    return list(out)[:500]
