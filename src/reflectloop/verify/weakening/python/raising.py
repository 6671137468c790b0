"""Compares what two tests let be raised."""

from __future__ import annotations

import ast
import builtins

from reflectloop.verify.weakening.python.verdict import Verdict, short


def raises(old: ast.expr, new: ast.expr) -> Verdict | None:
    if not (isinstance(old, ast.Call) and isinstance(new, ast.Call)):
        return None
    words = f"`{short(ast.unparse(old))}` became `{short(ast.unparse(new))}`"
    before, after = _kinds(old), _kinds(new)
    if wider := [name for name in after if name not in before and _wider(name, before)]:
        return Verdict("raises-wider", f"{words}: {wider[0]} is wider")
    if (was := _match(old)) is not None and was != _match(new):
        return _message(was, _match(new), words)
    other = before and before != after and not set(after) < set(before)
    return Verdict("raises-changed", words, "suspect") if other else None


def _message(was: str, now: str | None, words: str) -> Verdict:
    if now is None or now in {"'.*'", "''"}:
        return Verdict("raises-wider", f"{words}: any message will do")
    if now.strip("'") in was:
        return Verdict("raises-wider", f"{words}: a shorter message will do")
    return Verdict("expected-changed", words, "suspect")


def _kinds(call: ast.Call) -> tuple[str, ...]:
    if not call.args:
        return ()
    first = call.args[0]
    return tuple(ast.unparse(each) for each in (first.elts if isinstance(first, ast.Tuple) else [first]))


def _match(call: ast.Call) -> str | None:
    return next((ast.unparse(each.value) for each in call.keywords if each.arg == "match"), None)


def _wider(name: str, before: tuple[str, ...]) -> bool:
    if name in {"Exception", "BaseException", "Warning"}:
        return True
    new = getattr(builtins, name, None)
    olds = [getattr(builtins, each, None) for each in before]
    return isinstance(new, type) and any(isinstance(old, type) and issubclass(old, new) for old in olds)
