"""Tell whether a patch only adds entries to tables that base has, or only removes code; pure."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Sequence

from reflectloop.verification.probing.changed import parse

_COLLECTIONS = (ast.Dict, ast.Set, ast.List, ast.Tuple)
_LEAST = 3  # entries that a collection of base has


def only_grows(before: bytes, after: bytes) -> bool:
    """Return True if two sources differ only in entries added to collections of literals that base has."""
    first, second = parse(before), parse(after)
    if isinstance(first, str) or isinstance(second, str):
        return False
    growth = _Growth()
    return growth.same(first, second) and growth.grown


def grows_for(before: bytes | None, after: bytes | None, qualname: str) -> bool:
    """Return True if all that changed for one function are entries added to tables of base."""
    first, second = (parse(source) if source is not None else "missing" for source in (before, after))
    if isinstance(first, str) or isinstance(second, str):
        return False
    old, new = find_function(first, qualname), find_function(second, qualname)
    if old is None or new is None:
        return False
    read = {node.id for node in ast.walk(new) if isinstance(node, ast.Name)}
    known, now = assigned(first), assigned(second)
    growth = _Growth()
    changed = [name for name in read & {*now} if name not in known or ast.dump(known[name]) != ast.dump(now[name])]
    tables = all(name in known and growth.same(known[name], now[name]) for name in changed)
    return tables and growth.same(old, new) and growth.grown


_BETWEEN = frozenset((",", ":"))  # entries of a table, and keys and values
_LITERALS = frozenset((tokenize.STRING, tokenize.NUMBER))
_NO_TOKENS = frozenset((tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT))


def only_removes(before: bytes, after: bytes) -> bool:
    """Return True if the second source is the first one with parts left out, but not with shorter tables.

    Which entries a table loses can be chosen by the inputs of the tests, as can those that it gets. A statement that
    comes under a condition, or becomes part of another statement, was not left out.
    """
    first, second = parse(before), parse(after)
    if isinstance(first, str) or isinstance(second, str):
        return False
    if _reach(second.body, 0, first.body) < len(second.body):
        return False
    old, new = (
        [
            (token.string, token.type in _LITERALS or token.string in _BETWEEN)
            for token in tokenize.tokenize(io.BytesIO(source).readline)
            if token.type not in _NO_TOKENS
        ]
        for source in (before, after)
    )
    return is_part(new, old)


_Block = Sequence[ast.AST]


def _reach(new: _Block, at: int, old: _Block) -> int:
    """Return the number of the first statement, from a given one on, that is not among the statements of base.

    What stands below a condition, a loop or the like on base may stand in its place.
    """
    for statement in old:
        blocks, after = _blocks(statement), at
        if at < len(new) and _is_shortened(new[at], statement):
            present, after = _blocks(new[at]), at + 1
            for name, block in blocks.items():
                after = after if present.get(name) else _reach(new, after, block)
        inside = at
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for block in blocks.values():
                inside = _reach(new, inside, block)
        at = max(after, inside)
    return at


def _is_shortened(new: ast.AST, old: ast.AST) -> bool:
    """Return True if a statement is one of base with parts left out, where each block is a part of the same block."""
    if type(new) is not type(old):
        return False
    rest = iter(_head(old))
    if not all(token in rest for token in _head(new)):
        return False
    blocks = _blocks(old)
    return all(_reach(block, 0, blocks[name]) == len(block) for name, block in _blocks(new).items())


def _blocks(node: ast.AST) -> dict[str, _Block]:
    """Return the statements, handlers and cases of a statement by the name of the field that has them."""
    inner = ast.stmt | ast.ExceptHandler | ast.match_case
    fields = {name: value for name, value in ast.iter_fields(node) if isinstance(value, list)}
    names = ("body", "orelse", "finalbody", "handlers", "cases")
    return {name: fields[name] for name in names if all(isinstance(item, inner) for item in fields.get(name, ("",)))}


def _head(node: ast.AST) -> list[str]:
    """Return the tokens of a statement without its blocks."""
    blocks = _blocks(node)
    head = type(node)(**{name: [] if name in blocks else value for name, value in ast.iter_fields(node)})
    text = ast.unparse(ast.copy_location(head, node)).encode()
    return [token.string for token in tokenize.tokenize(io.BytesIO(text).readline) if token.type not in _NO_TOKENS]


def is_part(shorter: Iterable[tuple[str, bool]], longer: Iterable[tuple[str, bool]]) -> bool:
    """Return True if the first tokens are the second ones without some, none of which are entries of a table alone.

    With each token stands whether it may be a part of an entry.
    """
    rest = iter(longer)
    for token in shorter:
        left_out = []
        for item in rest:
            if item == token:
                break
            left_out.append(item)
        else:
            return False
        if left_out and all(is_entry for _, is_entry in left_out):
            return False
    return True


def literals(source: bytes) -> tuple[object, ...]:
    """Return the different texts and numbers that a source writes down, without its docstrings."""
    tree = parse(source)
    if isinstance(tree, str):
        return ()
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs]
    return tuple(dict.fromkeys(value for value in values if type(value) in (str, int, float)))


def find_function(tree: ast.Module, qualname: str) -> ast.AST | None:
    """Return the definition of a function or a method."""
    body: list[ast.stmt] = tree.body
    node: ast.AST | None = None
    for name in qualname.split("."):
        node = next((item for item in body if getattr(item, "name", None) == name), None)
        body = getattr(node, "body", [])
    return node


def assigned(tree: ast.Module) -> dict[str, ast.stmt]:
    """Return the module's assignments by name."""
    out: dict[str, ast.stmt] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        out |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return out


class _Growth:
    """Compares two trees, and notes whether a collection grew."""

    def __init__(self) -> None:
        self.grown = False

    def same(self, first: object, second: object) -> bool:
        if type(first) is not type(second):
            return False
        if isinstance(first, _COLLECTIONS) and self._grows(first, second):
            self.grown = True
            return True
        if isinstance(first, ast.AST):
            return all(self.same(getattr(first, name, None), getattr(second, name, None)) for name in first._fields)
        if isinstance(first, list) and isinstance(second, list):
            return len(first) == len(second) and all(map(self.same, first, second))
        return first == second

    def _grows(self, first: ast.AST, second: object) -> bool:
        old, new = _entries(first), _entries(second)
        if old is None or new is None or len(old) < _LEAST or len(new) <= len(old):
            return False
        return {*old} <= {*new} and {kind for _, kind in new} <= {kind for _, kind in old}


def _entries(node: object) -> list[tuple[str, str]] | None:
    """Return the entries of a collection with their kinds, or None if some are not literals."""
    if isinstance(node, ast.Dict):
        pairs = list(zip(node.keys, node.values, strict=True))
        if not all(key is not None and _is_literal(key) for key, _ in pairs):
            return None
        return [(f"{ast.dump(key)} {ast.dump(value)}", f"{_kind(key)} {_kind(value)}") for key, value in pairs if key]
    if isinstance(node, ast.Set | ast.List | ast.Tuple) and all(map(_is_literal, node.elts)):
        return [(ast.dump(element), _kind(element)) for element in node.elts]
    return None


def _is_literal(node: ast.AST) -> bool:
    if isinstance(node, ast.Tuple | ast.List):
        return all(map(_is_literal, node.elts))
    return isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant))


def _kind(node: ast.AST) -> str:
    return type(node.value).__name__ if isinstance(node, ast.Constant) else type(node).__name__
