"""Find which powers a Python module uses, and where."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from reflectloop.system.patterns import lazy
from reflectloop.verification.tampering.powers import names
from reflectloop.verification.tampering.powers.kinds import SENSING, PowerUse
from reflectloop.verification.tampering.powers.scopes import (
    Function,
    ModuleNames,
    Names,
    is_own_module,
    own_nodes,
    returned,
)

_SETTERS = frozenset(("builtins.setattr", "builtins.delattr"))
_OPENERS = frozenset(("builtins.open", "io.open", "codecs.open", "os.open"))
_IMPORTERS = frozenset(("builtins.__import__", "importlib.import_module", "importlib.__import__"))
_TAKE_MODULES = frozenset(
    f"builtins.{name}" for name in ("getattr", "hasattr", "setattr", "delattr", "isinstance", "id")
)
_FORMAT_REACH = lazy(r"\{[^{}]*\.__\w+__")
_LEAVES = frozenset(("exit", "process"))
_MODULE_READERS = frozenset(("get", "pop", "setdefault", "__getitem__", "__contains__"))


class PythonUses:
    """The powers of one module. `own` are the top-level packages of its project."""

    def __init__(self, tree: ast.Module, own: frozenset[str]) -> None:
        self.names = ModuleNames(tree)
        self.tree = tree
        self.own = own - sys.stdlib_module_names - {"builtins"}
        imported = [alias.name for node in self.names.nodes if isinstance(node, ast.Import) for alias in node.names]
        self._modules = frozenset(name.partition(".")[2] for name in imported if "." in name)  # `b` of `import a.b`
        self._taints: dict[int, Names] = {}
        self._name_taints: dict[tuple[int, str], Names] = {}
        self._skipped = {id(part) for node in self.names.nodes for part in self._not_run(node)}

    @property
    def has_own_place(self) -> bool:
        """Return True if the module looks at where its own file lies."""
        return any(isinstance(node, ast.Name) and node.id == "__file__" for node in self.names.nodes)

    def all(self) -> Iterator[PowerUse]:
        """Yield every use of a power."""
        for node in self.names.nodes:
            if id(node) not in self._skipped:
                for power in self._at(node):
                    yield PowerUse(power, getattr(node, "lineno", 1))

    def is_skipped(self, node: ast.AST) -> bool:
        """Return True for annotations, docstrings and blocks that only type checkers read."""
        return id(node) in self._skipped

    # What is not looked at -------------------------------------------------------------------------------------

    def _not_run(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield annotations without calls, docstrings, and blocks for type checkers."""
        annotations: list[ast.expr | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            annotations.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            annotations.append(node.annotation)
        for annotation in annotations:
            if annotation and not any(isinstance(part, ast.Call | ast.Lambda) for part in ast.walk(annotation)):
                yield from ast.walk(annotation)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        if isinstance(node, ast.If) and self.names.of(node.test) == {"typing.TYPE_CHECKING"}:
            yield from (part for statement in node.body for part in ast.walk(statement))

    # One node --------------------------------------------------------------------------------------------------

    def _at(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from self._imported(node)
            case ast.Name(ctx=ast.Load()):
                yield from self._reference(node)
            case ast.Attribute():
                yield from self._attribute(node)
            case ast.Call():
                yield from self._call(node)
            case ast.FunctionDef(decorator_list=decorators) if any(map(self._registers, decorators)):
                yield from ("exit-handler",) if self._leaves(node) else ()
            case ast.Constant() | ast.BinOp() | ast.JoinedStr():
                yield from self._string(self.names.text(node) or "")
            case ast.Subscript(ctx=ast.Load(), value=value, slice=key):
                yield from self._looked_up(value, key)
            case ast.Assign() | ast.Delete() | ast.AugAssign() | ast.AnnAssign() | ast.For():
                for target in _targets(node):
                    yield from self._stored(target)
            case _:
                pass

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from self._named(frozenset(alias.name for alias in node.names))
        elif node.level == 0 and node.module:
            yield from self._named(frozenset(f"{node.module}.{alias.name}" for alias in node.names))
            yield from self._named(frozenset({node.module}))

    def _named(self, full: Names) -> Iterator[str]:
        for name in full:
            power = names.power_of(name) if name.partition(".")[0] not in self.own else None
            if power and name not in names.CALLED_ONLY and name != "sys.modules":
                yield power
            elif name == "sys.modules":
                yield "modules"

    def _reference(self, node: ast.expr) -> Iterator[str]:
        parent = self.names.parent_of.get(id(node))
        called = isinstance(parent, ast.Call) and parent.func is node
        for name in self.names.of(node):
            if name == "sys.modules":
                yield from self._loaded_modules(node)
                continue
            if name.startswith("sys.modules.") or (name in names.CALLED_ONLY and not called):
                continue
            if name in names.SENSITIVE and self._is_searched(node, parent):
                yield "computed-name"
            power = names.power_of(name) if name.partition(".")[0] not in self.own else None
            if power == "exit" and name == "builtins.SystemExit" and not called:
                continue
            if power and not (power == "read" and called and self._writes(name, parent)):
                yield power

    def _is_searched(self, node: ast.expr, parent: ast.AST | None) -> bool:
        """Return True where a module is searched as a whole: `dir(sys)`, `vars(sys).items()`, `sys.__dict__`."""
        whole: ast.AST | None = node
        if isinstance(parent, ast.keyword):
            return True
        if isinstance(parent, ast.Call) and node in parent.args:
            callees = self.names.of(parent.func)
            if not callees & {"builtins.vars", "builtins.dir", "inspect.getmembers"}:
                return not callees & _TAKE_MODULES and not _has_spread_name(parent, self.names)
            whole, parent = parent, self.names.parent_of.get(id(parent))
        elif not (isinstance(node, ast.Attribute) and node.attr == "__dict__"):
            return False
        if isinstance(parent, ast.Subscript) and parent.value is whole:
            return self.names.text(parent.slice) is None
        above = self.names.parent_of.get(id(parent)) if parent else None
        if isinstance(parent, ast.Attribute) and isinstance(above, ast.Call) and parent.attr in ("get", "__getitem__"):
            return not above.args or self.names.text(above.args[0]) is None
        return not isinstance(parent, ast.Assign)  # a name for it is looked at where it is used

    def _loaded_modules(self, node: ast.expr) -> Iterator[str]:
        """Yield the power of one use of `sys.modules`: the module itself by its own name is none."""
        parent = self.names.parent_of.get(id(node))
        above = self.names.parent_of.get(id(parent)) if parent else None
        key: ast.expr | None = None
        changes = False
        if isinstance(parent, ast.Subscript) and parent.value is node:
            key, changes = parent.slice, not isinstance(parent.ctx, ast.Load)
        elif isinstance(parent, ast.Compare) and len(parent.ops) == 1 and isinstance(parent.ops[0], ast.In | ast.NotIn):
            key = parent.left
        elif isinstance(parent, ast.Attribute) and parent.attr in _MODULE_READERS and isinstance(above, ast.Call):
            key, changes = (above.args[0] if above.args else None), parent.attr in ("pop", "setdefault")
        if key is None or changes:
            yield "modules"
        elif not is_own_module(key):
            yield "surroundings" if self.names.text(key) else "modules"

    def _writes(self, name: str, call: ast.AST | None) -> bool:
        return name in _OPENERS and _mode(self.names, call) != "read"

    def _attribute(self, node: ast.Attribute) -> Iterator[str]:
        if isinstance(node.ctx, ast.Load):
            yield from self._reference(node)
            if power := names.ATTRIBUTES.get(node.attr):
                yield power
            parent = self.names.parent_of.get(id(node))
            if isinstance(parent, ast.Call) and parent.func is node and (power := names.METHODS.get(node.attr)):
                yield power
            return
        if node.attr in ("__code__", "__globals__", "__closure__", "__defaults__", "__kwdefaults__"):
            yield "dynamic"
        if node.attr in ("__class__", "__bases__"):
            yield "disguise"

    def _string(self, value: str) -> Iterator[str]:
        power = names.ATTRIBUTES.get(value)
        if power and value != "__builtins__":  # which `eval` is given
            yield power
        if value.startswith(("/proc/", "/proc")) and value.strip("/").split("/")[0] == "proc":
            yield "processes"
        if _FORMAT_REACH.search(value):
            yield "objects"

    # Calls -----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Iterator[str]:
        for callee in self.names.of(node.func):
            if node.args:
                yield from self._called_with(callee, node)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if isinstance(node.func, ast.Attribute) and method in ("update", "__setitem__", "setdefault"):
            owner = node.func.value
            if _reads_dictionary(self.names, owner) and self._is_foreign(self.names.of(owner)):
                yield "patching"

    def _called_with(self, callee: str, node: ast.Call) -> Iterator[str]:
        if callee in _SETTERS or callee.endswith(".__setattr__"):
            yield from self._set_by_name(node)
        elif callee == "builtins.getattr" and len(node.args) > 1:
            yield from self._got_by_name(node.args[0], node.args[1])
        elif callee in _IMPORTERS:
            if self.names.text(node.args[0]) is None and not self._in_own_package(node):
                yield "computed-import"
        elif callee in _OPENERS:
            yield _mode(self.names, node)
        elif callee in ("atexit.register", "weakref.finalize", "signal.alarm", "signal.setitimer"):
            yield from self._handler(callee, node)

    def _got_by_name(self, owner: ast.expr, name: ast.expr) -> Iterator[str]:
        owners = self.names.of(owner)
        value = self.names.text(name)
        if value is None:
            if any(each in names.SENSITIVE for each in owners):
                yield "computed-name"
        elif power := names.ATTRIBUTES.get(value):
            yield power
        else:
            yield from self._named(frozenset(f"{each}.{value}" for each in owners))

    def _set_by_name(self, node: ast.Call) -> Iterator[str]:
        owners = self.names.of(node.args[0])
        value = self.names.text(node.args[1]) if len(node.args) > 1 else None
        if self._is_foreign(owners) and not any(f"{owner}.{value}" in names.OWN_SETTINGS for owner in owners):
            yield "patching"

    def _in_own_package(self, node: ast.Call) -> bool:
        """Return True for `import_module(f".{name}", __package__)`, which stays inside the package."""
        name = node.args[0]
        parts = name.values if isinstance(name, ast.JoinedStr) else [name.left] if isinstance(name, ast.BinOp) else []
        if not parts:
            return len(node.args) > 1 or any(keyword.arg == "package" for keyword in node.keywords)
        first = parts[0].value if isinstance(parts[0], ast.FormattedValue) else parts[0]
        if isinstance(first, ast.Name) and first.id in ("__name__", "__package__"):
            return True
        start = self.names.text(first) or ""
        return start.startswith(".") or start.partition(".")[0] in self.own

    def _handler(self, callee: str, node: ast.Call) -> Iterator[str]:
        """Yield a power if a handler that runs at the end of the process leaves it."""
        handlers = node.args if callee in ("atexit.register", "weakref.finalize") else self._signal_handlers()
        for handler in handlers:
            functions = self.names.functions_of(handler)
            if self._direct(handler) & _LEAVES or any(self._leaves(function) for function in functions):
                yield "exit-handler"
                return

    def _registers(self, decorator: ast.expr) -> bool:
        return "atexit.register" in self.names.of(decorator)

    def _signal_handlers(self) -> list[ast.expr]:
        calls = [node for node in self.names.nodes if isinstance(node, ast.Call)]
        return [node.args[1] for node in calls if len(node.args) > 1 and "signal.signal" in self.names.of(node.func)]

    def _leaves(self, function: Function) -> bool:
        for node in (
            (function.body, *ast.walk(function.body)) if isinstance(function, ast.Lambda) else own_nodes(function)
        ):
            if isinstance(node, ast.expr) and self._direct(node) & _LEAVES:
                return True
        return False

    def _direct(self, node: ast.expr) -> frozenset[str]:
        return frozenset(power for name in self.names.of(node) if (power := names.power_of(name)))

    # What is set -----------------------------------------------------------------------------------------------

    def _stored(self, target: ast.expr) -> Iterator[str]:
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                yield from self._stored(part)
        elif isinstance(target, ast.Attribute):
            owners = self.names.of(target.value)
            yield from self._set(frozenset(f"{owner}.{target.attr}" for owner in owners), self._is_foreign(owners))
        elif isinstance(target, ast.Subscript):
            owners = self.names.of(target.value)
            whole = "builtins" in owners or _reads_dictionary(self.names, target.value)
            yield from self._set(owners, whole and self._is_foreign(owners))

    def _set(self, full: Names, is_foreign: bool) -> Iterator[str]:
        """Yield the power of setting something: settings that programs set for themselves are ordinary."""
        if full & names.OWN_SETTINGS:
            yield "settings"
        elif "sys.path" in full:
            yield "import-path"
        elif any(names.power_of(each) == "hooks" for each in full):
            yield "hooks"
        elif is_foreign:
            yield "patching"

    def _is_foreign(self, owners: Names) -> bool:
        """Return True if one of these is a module, or a class of a module, that is not the project's."""
        for owner in owners:
            root, _, rest = owner.partition(".")
            if not root or root in self.own or root in ("__globals__", "operator"):
                continue
            standard = root in sys.stdlib_module_names or root in ("builtins", "pytest", "_pytest")
            if standard and names.power_of(owner) in ("environment", "arguments", "clock", "read"):
                continue  # the result of a call of it
            last = rest.rpartition(".")[2]
            if standard or not rest or last[:1].isupper() or rest in self._modules:
                return True
        return False

    def _looked_up(self, value: ast.expr, key: ast.expr) -> Iterator[str]:
        """Yield a power for a computed key into the dictionary of a sensitive module."""
        if not _reads_dictionary(self.names, value):
            return
        owners = self.names.of(value)
        name = self.names.text(key)
        if name is not None:
            yield from self._named(frozenset(f"{owner}.{name}" for owner in owners))
        elif owners & names.SENSITIVE or ("__globals__" in owners and isinstance(key, ast.Call | ast.BinOp)):
            yield "computed-name"

    # What an expression was made from --------------------------------------------------------------------------

    def taint(self, node: ast.AST) -> Names:
        """Return the sensing powers whose results an expression is made from."""
        if id(node) not in self._taints:
            self._taints[id(node)] = frozenset()  # while it is being worked out
            powers: set[str] = set()
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                powers |= self._name_taint(node)
            if isinstance(node, ast.Subscript) and self.names.of(node) == {"own-arguments"}:
                return frozenset()
            if isinstance(node, ast.Name | ast.Attribute):
                powers |= self._direct(node) | ({names.ATTRIBUTES.get(getattr(node, "attr", ""), "")} - {""})
            if isinstance(node, ast.Call):
                powers |= {
                    power for function in self.names.functions_of(node.func) for power in self._returns(function)
                }
                powers |= self._direct(node)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                powers |= {names.METHODS.get(node.func.attr, "")} - {""}
            for child in ast.iter_child_nodes(node):
                powers |= self.taint(child)
            self._taints[id(node)] = frozenset(powers & SENSING)
        return self._taints[id(node)]

    def _returns(self, function: Function) -> Names:
        return frozenset(power for value in returned(function) for power in self.taint(value))

    def _name_taint(self, node: ast.Name) -> Names:
        holder = self.names.holder(node.id, self.names.scope_of.get(id(node), self.names.module))
        if holder is None:
            return frozenset()
        key = (id(holder), node.id)
        if key not in self._name_taints:
            self._name_taints[key] = frozenset()
            values = holder.values.get(node.id, [])
            self._name_taints[key] = frozenset(power for value in values for power in self.taint(value))
        return self._name_taints[key]


def _has_spread_name(call: ast.Call, module: ModuleNames) -> bool:
    """Return True for `attrgetter("name")(module)`, which is resolved, and for calls that only show the module."""
    return any(name.startswith("operator.attrgetter:") for name in module.of(call.func)) or (
        isinstance(call.func, ast.Name) and call.func.id in ("print", "repr", "str", "type")
    )


def _targets(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return targets
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()) | ast.For(target=target):
            return [target]
        case _:
            return []


def _reads_dictionary(module: ModuleNames, node: ast.expr) -> bool:
    """Return True for `x.__dict__`, `vars(x)`, `globals()`, and a name for one of them."""
    if isinstance(node, ast.Attribute):
        return node.attr == "__dict__"
    if isinstance(node, ast.Call):
        return bool(module.of(node.func) & {"builtins.vars", "builtins.globals", "builtins.locals"})
    if isinstance(node, ast.Name):
        if node.id == "__builtins__":
            return True
        value = module.constant(node.id, node)
        return value is not None and not isinstance(value, ast.Name) and _reads_dictionary(module, value)
    return False


def _mode(module: ModuleNames, call: ast.AST | None) -> str:
    if not isinstance(call, ast.Call):
        return "read"
    given = [keyword.value for keyword in call.keywords if keyword.arg in ("mode", "flags")] or call.args[1:2]
    if not given:
        return "read"
    mode = module.text(given[0])
    if mode is None:
        flags = ast.unparse(given[0])
        return "write" if re.search(r"O_(?:WRONLY|RDWR|CREAT|APPEND|TRUNC)", flags) else "read"
    return "write" if set(mode) & set("wax+") else "read"
