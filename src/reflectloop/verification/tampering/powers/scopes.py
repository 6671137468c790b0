"""Resolve the names of a Python module to the full names that they stand for."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from reflectloop.verification.tampering.powers.constants import fold, text
from reflectloop.verification.tampering.powers.names import EQUAL_NAMES, HELD, power_of

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Names = frozenset[str]
_NONE: Names = frozenset()
_BUILTINS = frozenset(dir(builtins)) | {"exit", "quit", "__debug__", "__import__"}
_IMPORTERS = frozenset(("builtins.__import__", "importlib.import_module", "importlib.__import__"))
_PASS_ON = frozenset(("builtins.vars", "functools.partial", "copy.copy", "builtins.iter", "builtins.next"))
_MOST = 32  # names that one expression may stand for


@dataclass(eq=False)
class NameScope:
    """A module, class or function with the names that are bound in it."""

    kind: Literal["module", "class", "function"]
    parent: NameScope | None
    bound: set[str] = field(default_factory=set)
    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    imports: dict[str, set[str]] = field(default_factory=dict)
    functions: dict[str, list[Function]] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)  # declared global or nonlocal

    def bind(self, name: str, value: ast.expr | None = None) -> None:
        scope = self
        while name in scope.outer and scope.parent is not None:
            scope = scope.parent
        scope.bound.add(name)
        if value is not None:
            scope.values.setdefault(name, []).append(value)


class ModuleNames:
    """The scopes of one module, and what each name and expression in it stands for."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.module = NameScope("module", None)
        self.scope_of: dict[int, NameScope] = {}  # by node: the scope it stands in
        self.parent_of: dict[int, ast.AST] = {}
        self.nodes: list[ast.AST] = []
        self.stars: list[str] = []
        self.attributes: dict[str, list[ast.expr]] = {}  # values of attributes, by attribute name
        self._known: dict[tuple[int, str], Names] = {}
        self._resolved: dict[int, Names] = {}
        self._functions: dict[int, list[Function]] = {}
        self.methods: dict[str, list[Function]] = {}  # of all classes, by name
        self._walk(tree, self.module)

    # Scopes ----------------------------------------------------------------------------------------------------

    def _walk(self, node: ast.AST, scope: NameScope) -> None:
        pending: list[tuple[ast.AST, NameScope]] = [(node, scope)]
        while pending:
            node, scope = pending.pop()
            self.scope_of[id(node)] = scope
            self.nodes.append(node)
            inner = self._bind(node, scope)
            outside = {id(part) for part in _evaluated_outside(node)}
            for child in ast.iter_child_nodes(node):
                self.parent_of[id(child)] = node
                pending.append((child, scope if id(child) in outside else inner))

    def _bind(self, node: ast.AST, scope: NameScope) -> NameScope:
        """Bind the names that a node binds; return the scope of its children."""
        match node:
            case ast.Import(names=names):
                for alias in names:
                    name = alias.asname or alias.name.partition(".")[0]
                    scope.bind(name)
                    scope.imports.setdefault(name, set()).add(alias.name if alias.asname else name)
            case ast.ImportFrom():
                self._bind_from(node, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return self._bind_function(node, scope)
            case ast.ClassDef(name=name):
                scope.bind(name)
                scope.classes[name] = node
                return NameScope("class", scope)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                scope.outer.update(names)
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                scope.bind(name)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr() | ast.For() | ast.AsyncFor():
                self._bind_values(node, scope)
            case ast.comprehension() | ast.withitem():
                self._bind_values(node, scope)
            case _:
                pass
        return scope

    def _bind_from(self, node: ast.ImportFrom, scope: NameScope) -> None:
        source = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(source)
                continue
            name = alias.asname or alias.name
            scope.bind(name)
            scope.imports.setdefault(name, set()).add(
                f"{source}.{alias.name}" if source.strip(".") else f".{alias.name}"
            )

    def _bind_function(self, node: Function, scope: NameScope) -> NameScope:
        inner = NameScope("function", scope)
        if not isinstance(node, ast.Lambda):
            scope.bind(node.name)
            scope.functions.setdefault(node.name, []).append(node)
            if scope.kind == "class":
                self.methods.setdefault(node.name, []).append(node)
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        for argument in (*positional, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if argument is not None:
                inner.bind(argument.arg)
        defaults = arguments.defaults
        for argument, value in zip(positional[len(positional) - len(defaults) :], defaults, strict=False):
            inner.bind(argument.arg, value)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            inner.bind(argument.arg, default)
        return inner

    def _bind_values(self, node: ast.AST, scope: NameScope) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind_target(target, value, scope)
            case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                self._bind_target(target, value, scope)
            case ast.AugAssign(target=target, value=value):
                self._bind_target(target, value, scope)
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                self._bind_target(target, value, scope)
            case ast.comprehension(target=target, iter=value):
                self._bind_target(target, value, scope)
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
                self._bind_target(target, value, scope)
            case _:
                pass

    def _bind_target(self, target: ast.expr, value: ast.expr | None, scope: NameScope) -> None:
        match target:
            case ast.Name(id=name):
                scope.bind(name, value)
                if scope.kind == "class" and value is not None:
                    self.attributes.setdefault(name, []).append(value)
            case ast.Attribute(attr=name) if value is not None:
                self.attributes.setdefault(name, []).append(value)
            case ast.Starred(value=inner):
                self._bind_target(inner, value, scope)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                paired = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(parts)
                values = value.elts if paired and isinstance(value, ast.Tuple | ast.List) else [value] * len(parts)
                for part, each in zip(parts, values, strict=True):
                    self._bind_target(part, each, scope)
            case _:
                pass

    # Names -----------------------------------------------------------------------------------------------------

    def holder(self, name: str, scope: NameScope) -> NameScope | None:
        """Return the scope in which a name is found from here, or None for a name that is bound nowhere."""
        here: NameScope | None = scope
        while here is not None:
            if name in here.bound and (here.kind != "class" or here is scope):
                return here
            here = here.parent
        return None

    def of_name(self, name: str, scope: NameScope) -> Names:
        """Return the full names that a name stands for."""
        holder = self.holder(name, scope)
        if holder is None:
            return self._unbound(name)
        key = (id(holder), name)
        if key not in self._known:
            self._known[key] = _NONE  # while it is being worked out
            names = {_normal(each) for each in holder.imports.get(name, ())}
            for value in holder.values.get(name, ())[:_MOST]:
                names |= self.of(value)
            self._known[key] = frozenset(sorted(names)[:_MOST])
        return self._known[key]

    def _unbound(self, name: str) -> Names:
        if name == "__builtins__":
            return frozenset({"builtins"})
        if name == "__loader__":
            return frozenset({name})
        names = {f"{star}.{name}" for star in self.stars if power_of(f"{star}.{name}")}
        if name in _BUILTINS:
            names.add(f"builtins.{name}")
        elif name in sys.stdlib_module_names or power_of(name):  # bound by a star import, or not at all
            names.add(name)
        return frozenset(names)

    def of(self, node: ast.expr) -> Names:
        """Return the full names that an expression may stand for."""
        if id(node) not in self._resolved:
            self._resolved[id(node)] = _NONE  # while it is being worked out
            self._resolved[id(node)] = self._of(node)
        return self._resolved[id(node)]

    def _of(self, node: ast.expr) -> Names:  # noqa: PLR0911 - one for each kind of expression
        match node:
            case ast.Name(id=name):
                return self.of_name(name, self.scope_of.get(id(node), self.module))
            case ast.Attribute(value=value, attr=attr):
                return self._of_attribute(self.of(value), attr)
            case ast.Subscript(value=value, slice=key):
                return self._item(self.of(value), key)
            case ast.Call():
                return self._called(node)
            case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values):
                return self._of_values(values)
            case ast.IfExp(body=first, orelse=second):
                return self._of_values([first, second])
            case ast.Dict(values=values):
                return self._of_values(values)
            case ast.NamedExpr(value=value) | ast.Await(value=value) | ast.Starred(value=value):
                return self.of(value)
            case _:
                return _NONE

    def _of_attribute(self, owners: Names, attr: str) -> Names:
        if not owners or owners == {"__globals__"}:
            return self._of_values(self.attributes.get(attr, [])[:_MOST])
        return frozenset(self._part(owner, attr) for owner in owners)

    def _of_values(self, values: list[ast.expr]) -> Names:
        names: set[str] = set()
        for value in values:
            names |= self.of(value)
        return frozenset(sorted(names)[:_MOST])

    def _part(self, owner: str, attr: str) -> str:
        if attr == "__dict__":
            return owner
        if attr == "__self__" and owner.startswith("builtins."):
            return "builtins"
        return _normal(f"{owner}.{attr}")

    def _item(self, owners: Names, key: ast.expr) -> Names:
        name = self.text(key)
        names: set[str] = set()
        for owner in owners:
            if owner == "__globals__":
                names |= self.of_name(name, self.module) if name else {"__globals__"}
            elif owner == "sys.modules":
                names |= {_normal(name)} if name else set() if is_own_module(key) else {owner}
            elif owner == "sys.argv" and self.is_own_argument(key):
                names.add("own-arguments")
            elif name and "." not in owner:  # a module's own dictionary
                names.add(_normal(f"{owner}.{name}"))
            else:
                names.add(owner)
        return frozenset(names)

    def _called(self, node: ast.Call) -> Names:
        names: set[str] = set()
        for callee in self.of(node.func):
            names |= self._result(callee, node)
        for function in self.functions_of(node.func):
            for value in returned(function):
                names |= self.of(value)
        return frozenset(sorted(names)[:_MOST])

    def _result(self, callee: str, node: ast.Call) -> Names:
        """Return the full names of what a call of a known function gives."""
        if callee in ("builtins.globals", "builtins.locals") or (callee == "builtins.vars" and not node.args):
            return frozenset({"__globals__"})
        if not node.args:
            return self._of_method(callee, node)
        first, name = self.of(node.args[0]), self.text(node.args[0])
        if callee in _IMPORTERS:
            whole = (name or "") if callee == "importlib.import_module" else (name or "").partition(".")[0]
            return frozenset({_normal(whole)}) if whole else _NONE
        if callee in _PASS_ON:
            return first
        if callee == "operator.attrgetter" and name:
            return frozenset({f"operator.attrgetter:{name}"})
        return self._by_name(callee, node, first)

    def _by_name(self, callee: str, node: ast.Call, first: Names) -> Names:
        """Return the full names of what `getattr(x, "name")` and `attrgetter("name")(x)` give."""
        getter, _, part = callee.partition(":")
        if callee == "builtins.getattr" and len(node.args) > 1:
            part = self.text(node.args[1]) or ""
        if part and getter in ("builtins.getattr", "operator.attrgetter"):
            return frozenset(self._part(owner, part) for owner in first)
        return self._of_method(callee, node)

    def _of_method(self, callee: str, node: ast.Call) -> Names:
        if callee in ("sys.modules.get", "sys.modules.pop", "sys.modules.__getitem__") and node.args:
            return self._item(frozenset({"sys.modules"}), node.args[0])
        if callee.endswith((".get", ".values", ".items", ".copy", ".__getitem__", ".__getattribute__")):
            return self._of_getter(callee, node.args)
        return frozenset({callee}) if power_of(callee) else _NONE  # what it gives is as telling as itself

    def _of_getter(self, callee: str, arguments: list[ast.expr]) -> Names:
        owner, _, method = callee.rpartition(".")
        if method in ("get", "__getitem__", "__getattribute__") and arguments:
            return self._item(frozenset({owner}), arguments[0])
        return frozenset({owner})

    # Helpers ---------------------------------------------------------------------------------------------------

    def functions_of(self, node: ast.expr) -> list[Function]:
        """Return the functions of this module that an expression may stand for."""
        if id(node) not in self._functions:
            self._functions[id(node)] = []  # while it is being worked out
            self._functions[id(node)] = self._functions_of(node)[:_MOST]
        return self._functions[id(node)]

    def _functions_of(self, node: ast.expr) -> list[Function]:
        if isinstance(node, ast.Lambda):
            return [node]
        if isinstance(node, ast.Attribute):
            return self.methods.get(node.attr, [])
        if not isinstance(node, ast.Name):
            return []
        holder = self.holder(node.id, self.scope_of.get(id(node), self.module))
        if holder is None:
            return []
        values = [value for value in holder.values.get(node.id, ()) if isinstance(value, ast.Lambda | ast.Name)]
        return [
            *holder.functions.get(node.id, ()),
            *(function for value in values[:_MOST] for function in self.functions_of(value)),
        ]

    def is_own_argument(self, key: ast.expr) -> bool:
        """Return True for the key of `sys.argv[1]` and `sys.argv[1:]`: what the user wrote, not who started it."""
        start = key.lower if isinstance(key, ast.Slice) else key
        value = self.value(start) if start is not None else None
        return isinstance(value, int) and value > 0

    def text(self, node: ast.expr) -> str | None:
        """Return the text that an expression always has, or None."""
        return text(node, lambda name: self.constant(name, node))

    def value(self, node: ast.expr) -> str | bytes | int | None:
        return fold(node, lambda name: self.constant(name, node))

    def constant(self, name: str, near: ast.AST) -> ast.expr | None:
        """Return the only value that a name is set to, or None."""
        holder = self.holder(name, self.scope_of.get(id(near), self.module))
        values = holder.values.get(name, []) if holder else []
        return values[0] if len(values) == 1 else None


def returned(function: Function) -> Iterator[ast.expr]:
    """Yield the values that a function returns or yields."""
    if isinstance(function, ast.Lambda):
        yield function.body
        return
    for node in own_nodes(function):
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
            yield node.value


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions and classes inside it."""
    pending = list(ast.iter_child_nodes(function))
    while pending:
        node = pending.pop(0)
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))


def _evaluated_outside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a definition that are evaluated where it stands: decorators, bases, defaults, annotations."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from node.decorator_list
        if node.returns is not None:
            yield node.returns
    elif isinstance(node, ast.ClassDef):
        yield from (*node.decorator_list, *node.bases, *node.keywords)


def is_own_module(key: ast.expr) -> bool:
    """Return True for `__name__` and what is made from it."""
    return any(
        (isinstance(part, ast.Name) and part.id in ("__name__", "__package__"))
        or (isinstance(part, ast.Attribute) and part.attr == "__module__")
        for part in ast.walk(key)
    )


def _normal(name: str) -> str:
    """Return a full name without the detours through modules that hold other modules."""
    parts = name.split(".")
    for at in range(len(parts) - 1, 0, -1):
        own = at == 1 and parts[0] in ("", "importlib", "concurrent", "os", "datetime", parts[1])  # such as `time.time`
        if parts[at] in HELD and not own:
            parts = parts[at:]
            break
    parts[0] = EQUAL_NAMES.get(parts[0], parts[0])
    if parts[:2] == ["os", "sys"]:
        parts = parts[1:]
    if parts[:2] in (["io", "open"], ["_io", "open"]):
        parts = ["builtins", "open"]
    return ".".join(parts)
