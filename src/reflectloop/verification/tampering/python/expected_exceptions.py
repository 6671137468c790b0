"""Compare the exceptions two tests expect."""

from __future__ import annotations

import ast
import builtins

from reflectloop.verification.tampering.python.verdict import TamperVerdict, short


def raises(old: ast.expr, new: ast.expr) -> TamperVerdict | None:
    """Return what an expected exception lost, or None."""
    if not (isinstance(old, ast.Call) and isinstance(new, ast.Call)):
        return None
    message = f"`{short(ast.unparse(old))}` became `{short(ast.unparse(new))}`"
    before, after = _kinds(old), _kinds(new)
    if wider := [name for name in after if name not in before and _wider(name, before)]:
        return TamperVerdict("raises-wider", f"{message}: {wider[0]} is wider")
    if (old_match := _match(old)) is not None and old_match != _match(new):
        return _message(old_match, _match(new), message)
    other = before and before != after and not set(after) < set(before)
    return TamperVerdict("raises-changed", message, "suspect") if other else None


def _message(old: str, new: str | None, message: str) -> TamperVerdict:
    if new is None or new in {"'.*'", "''"}:
        return TamperVerdict("raises-wider", f"{message}: any message is accepted")
    if new.strip("'") in old:
        return TamperVerdict("raises-wider", f"{message}: a shorter message is accepted")
    return TamperVerdict("expected-changed", message, "suspect")


def _kinds(call: ast.Call) -> tuple[str, ...]:
    if not call.args:
        return ()
    first = call.args[0]
    return tuple(ast.unparse(kind) for kind in (first.elts if isinstance(first, ast.Tuple) else [first]))


def _match(call: ast.Call) -> str | None:
    return next((ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "match"), None)


def _wider(name: str, before: tuple[str, ...]) -> bool:
    if name in {"Exception", "BaseException", "Warning"}:
        return True
    new = getattr(builtins, name, None)
    olds = [getattr(builtins, kind, None) for kind in before]
    return isinstance(new, type) and any(isinstance(old, type) and issubclass(old, new) for old in olds)
