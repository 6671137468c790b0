"""Find the functions whose code a patch adds or changes, and those that read what it changes; pure."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reflectloop.verification.protected.names import IMPORT_ROOTS
from reflectloop.verification.result import ChangedFile

_MOST_READERS = 400  # files of the project that are searched for readers of changed names
_ANY_NAME = frozenset(("globals", "vars", "locals", "setattr", "modules", "__dict__"))  # by which any name is bound
_HOOKS = frozenset(("__getattr__", "__getattribute__", "__init_subclass__"))  # that may answer for any name
_LOOKUPS = frozenset(("__import__", "import_module", "find_spec"))
_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class ChangedFunction(NamedTuple):
    """A function or method, by its place in the patch's version of a file."""

    path: str
    qualname: str  # as Python names it; a lambda has the name that it is assigned to
    line: int  # of its first decorator, or of `def` or `lambda`
    is_new: bool = False  # base has no function of this name
    direct: bool = True  # False if only a name that it reads changed
    base_line: int = 0  # its line on base, or 0

    @property
    def label(self) -> str:
        return f"{self.path}:{self.line} {self.qualname}"


class ChangeReport(NamedTuple):
    """The changed functions of a patch, and the sources that could not be read."""

    functions: tuple[ChangedFunction, ...] = ()
    unread: tuple[str, ...] = ()  # "path: why"
    rebound: tuple[ChangedFunction, ...] = ()  # functions of base, by their lines there, whose name may lead elsewhere


class _SourceFunction(NamedTuple):
    qualname: str
    node: _FunctionNode
    line: int
    dump: str
    names: frozenset[str]  # names and attributes that it reads, with its decorators and defaults

    @property
    def decorators(self) -> list[ast.expr]:
        return [] if isinstance(self.node, ast.Lambda) else self.node.decorator_list


class _SourceModule(NamedTuple):
    functions: dict[str, _SourceFunction]
    statements: dict[str, list[str]]  # by the names that they concern: code of the module and of class bodies


def find(changes: Sequence[ChangedFile], others: Callable[[], Mapping[str, bytes]] | None = None) -> ChangeReport:
    """Return the changed functions of the sources in `changes`; `others` gives the project's other sources."""
    functions: list[ChangedFunction] = []
    unread: list[str] = []
    changed_names: dict[str, set[str]] = {}
    rebound: list[ChangedFunction] = []
    for change in changes:
        if change.after is None or not change.path.endswith(".py"):
            continue
        now = parse(change.after)
        before = parse(change.before) if change.before is not None else ast.Module([], [])
        if isinstance(now, str):
            unread.append(f"{change.path}: {now}")
            continue
        old = _read(before if not isinstance(before, str) else ast.Module([], []))
        new = _read(now)
        names = _changed_statements(old, new)
        functions += _changed(change.path, old, new, names)
        rebound += _rebound(change.path, old, new, names)
        if names:
            changed_names[change.path] = names
    if changed_names and others is not None:
        functions += _readers_elsewhere(changed_names, others(), {function.path for function in functions})
    return ChangeReport(tuple(functions), tuple(unread), tuple(rebound))


def parse(source: bytes) -> ast.Module | str:
    """Return the syntax tree of a source, or why it cannot be read by this Python."""
    if b"\0" in source:
        return "not text, or too large"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        return f"{type(fault).__name__}: {fault}"


def places(source: bytes) -> list[tuple[str, int]]:
    """Return the names and first lines of all functions of a source; none if it cannot be read."""
    tree = parse(source)
    return [] if isinstance(tree, str) else [(item.qualname, item.line) for item in _read(tree).functions.values()]


def former_path(function: ChangedFunction, changes: Sequence[ChangedFile]) -> str:
    """Return the file that had a new function on base and has it no more, or nothing if the function was not moved."""
    for change in changes:
        if change.before is None or change.path == function.path or not change.path.endswith(".py"):
            continue
        before, after = ({name for name, _ in places(source or b"")} for source in (change.before, change.after))
        if function.qualname in before - after:
            return change.path
    return ""


def _changed(path: str, old: _SourceModule, new: _SourceModule, names: set[str]) -> Iterator[ChangedFunction]:
    gone = [function for qualname, function in old.functions.items() if qualname not in new.functions]
    for qualname, function in new.functions.items():
        known = old.functions.get(qualname)
        if known is None and not names & function.names and any(_is_renamed(item, function) for item in gone):
            continue
        if known is None or known.dump != function.dump:
            line = known.line if known else 0
            yield ChangedFunction(path, qualname, function.line, known is None, base_line=line)
        elif names & function.names:
            yield ChangedFunction(path, qualname, function.line, is_new=False, direct=False, base_line=known.line)


def _rebound(path: str, old: _SourceModule, new: _SourceModule, names: set[str]) -> Iterator[ChangedFunction]:
    """Yield functions of base whose name the patch may give to something else than a function that is defined there.

    It may be assigned, wrapped by a decorator, inherited, or made when it is asked for.
    """
    hooks = {name.rpartition(".")[0] for name in {*new.functions} - {*old.functions} if _last(name) in _HOOKS}
    for qualname, function in old.functions.items():
        if "<locals>" in qualname or "#" in qualname or _last(qualname) in _HOOKS:
            continue
        now, owner = new.functions.get(qualname), qualname.rpartition(".")[0]
        wrapped = now is None or [*map(ast.dump, now.decorators)] != [*map(ast.dump, function.decorators)]
        read = {name for decorator in function.decorators for name in _read_names(decorator)}
        if wrapped or owner in hooks or names & {_last(qualname), *owner.split("."), *_ANY_NAME, *read}:
            yield ChangedFunction(path, qualname, function.line, direct=False, base_line=function.line)


def _last(qualname: str) -> str:
    return qualname.rpartition(".")[2]


def _is_renamed(old: _SourceFunction, new: _SourceFunction) -> bool:
    """Return True if two functions of one module or class are the same but for their name."""
    (scope, _, before), (new_scope, _, after) = old.qualname.rpartition("."), new.qualname.rpartition(".")
    return scope == new_scope and old.dump.replace(f"'{before}'", f"'{after}'") == new.dump


def _readers_elsewhere(
    changed_names: Mapping[str, set[str]], others: Mapping[str, bytes], seen: set[str]
) -> Iterator[ChangedFunction]:
    """Yield functions of other files that import a changed name, or read it as an attribute of its module."""
    for path, source in list(others.items())[:_MOST_READERS]:
        if path in changed_names or path in seen or not path.endswith(".py"):
            continue
        for changed_path, names in changed_names.items():
            module = _module_word(changed_path)
            wanted = {name for name in names if name.encode() in source}
            if not wanted or module.encode() not in source:
                continue
            tree = parse(source)
            if isinstance(tree, str):
                continue
            local = _imported(tree, module, wanted)
            for qualname, function in _read(tree).functions.items():
                if local & function.names:
                    line = function.line  # this file is as on base
                    yield ChangedFunction(path, qualname, line, is_new=False, direct=False, base_line=line)


def _module_word(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    return parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else parts[-1]


def _imported(tree: ast.Module, module: str, names: set[str]) -> set[str]:
    """Return the names by which a file reads `names` of a module: imported ones, or attributes of the module."""
    out: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if (node.module or "").rpartition(".")[2] == module:
                out |= {alias.asname or alias.name for alias in node.names if alias.name in names}
            if any(alias.name == module for alias in node.names):
                out |= names
        elif isinstance(node, ast.Import) and any(module in alias.name.split(".") for alias in node.names):
            out |= names
    return out


def last_name(source: bytes, function: ChangedFunction) -> str:
    """Return the name of a function that replaces others of the same name, as one after its overloads does."""
    tree = parse(source)
    name, _, number = function.qualname.partition("#")
    if isinstance(tree, str) or not number or "<locals>" in name:
        return ""
    same = [item for item in _read(tree).functions.values() if item.qualname.partition("#")[0] == name]
    last = max(same, key=lambda item: item.line)
    decorators = [] if isinstance(last.node, ast.Lambda) else last.node.decorator_list
    plain = not any(isinstance(item, ast.Attribute) for item in decorators)  # such as `@size.setter`
    return name if plain and last.line == function.line else ""


# Reading one source ------------------------------------------------------------------------------------------------


def _read(tree: ast.Module) -> _SourceModule:
    functions: dict[str, _SourceFunction] = {}
    statements: dict[str, list[str]] = {}
    _read_body(tree.body, "", functions, statements)
    return _SourceModule(functions, statements)


def _read_body(
    body: Sequence[ast.stmt], prefix: str, functions: dict[str, _SourceFunction], statements: dict[str, list[str]]
) -> None:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _add_function(node, f"{prefix}{node.name}", functions)
        elif isinstance(node, ast.ClassDef):
            _read_body(node.body, f"{prefix}{node.name}.", functions, statements)
            outside = [*node.bases, *(keyword.value for keyword in node.keywords), *node.decorator_list]
            _add_statement({node.name}, " ".join(map(ast.dump, outside)), statements)
        elif isinstance(node, ast.If | ast.Try | ast.With) or type(node).__name__ == "TryStar":
            for inner in _inner_bodies(node):
                _read_body(inner, prefix, functions, statements)
            _add_statement(_bound(node) | _read_names(_head(node)), ast.dump(_head(node)), statements)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Lambda):
            for name in sorted(_bound(node)):
                _add_function(node.value, f"{prefix}{name}", functions)
        elif not _is_docstring(node):
            _add_statement(_bound(node) or _read_names(node), ast.dump(node), statements)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _inner_bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    yield from (getattr(node, name, []) for name in ("body", "orelse", "finalbody"))
    yield from (handler.body for handler in getattr(node, "handlers", []))


def _head(node: ast.stmt) -> ast.AST:
    """Return the part of a compound statement that belongs to none of its bodies."""
    if isinstance(node, ast.If):
        return node.test
    if isinstance(node, ast.With):
        return ast.List([item.context_expr for item in node.items], ast.Load())
    return ast.Pass()


def _add_statement(names: set[str], dump: str, statements: dict[str, list[str]]) -> None:
    for name in names:
        statements.setdefault(name, []).append(dump)


def _add_function(node: _FunctionNode, qualname: str, functions: dict[str, _SourceFunction]) -> None:
    decorators: list[ast.expr] = [] if isinstance(node, ast.Lambda) else node.decorator_list
    line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    name = qualname
    number = 1
    while name in functions:  # a property's setter, an overload, or a definition in each branch of an `if`
        number += 1
        name = f"{qualname}#{number}"
    functions[name] = _SourceFunction(name, node, line, _code_dump(node), frozenset(_read_names(node)))
    for inner in _nested(node):
        _add_function(inner, f"{qualname}.<locals>.{inner.name}", functions)


def _nested(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        elif not isinstance(child, ast.ClassDef):
            yield from _nested(child)


def _code_dump(node: _FunctionNode) -> str:
    """Return the code of a function without docstring, annotations and `pass`, which do not change what it does."""
    if isinstance(node, ast.Lambda):
        return ast.dump(node)
    body = [
        statement for statement in node.body if not isinstance(statement, ast.Pass) and not _is_docstring(statement)
    ]
    arguments = [node.args.posonlyargs, node.args.args, node.args.kwonlyargs]
    names = [[argument.arg for argument in group] for group in arguments]
    starred = [argument.arg if argument else None for argument in (node.args.vararg, node.args.kwarg)]
    defaults = [ast.dump(value) if value else None for value in (*node.args.defaults, *node.args.kw_defaults)]
    parts = [type(node).__name__, names, starred, defaults]
    return repr([*parts, [ast.dump(item) for item in (*node.decorator_list, *body)]])


def _bound(node: ast.AST) -> set[str]:
    """Return the names that a statement binds, in its own scope."""
    out: set[str] = set()
    inner = [child.target for child in ast.walk(node) if isinstance(child, ast.comprehension)]
    own = {id(child) for target in inner for child in ast.walk(target)}  # names that live in a comprehension alone
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store | ast.Del) and id(child) not in own:
            out.add(child.id)
        elif isinstance(child, ast.alias):
            out.add((child.asname or child.name).split(".")[0])
        elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store | ast.Del):
            out.add(child.attr)
            out |= {inner.id for inner in ast.walk(child) if isinstance(inner, ast.Name)}
        elif isinstance(child, ast.Subscript) and isinstance(child.ctx, ast.Store | ast.Del):
            out |= {inner.id for inner in ast.walk(child.value) if isinstance(inner, ast.Name)}
    return out


def _read_names(node: ast.AST) -> set[str]:
    names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    return names | {child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute)}


def _changed_statements(old: _SourceModule, new: _SourceModule) -> set[str]:
    return {name for name in {*old.statements, *new.statements} if old.statements.get(name) != new.statements.get(name)}


# Libraries ----------------------------------------------------------------------------------------------------------


def newly_asked_for(
    changes: Sequence[ChangedFile], others: Callable[[], Mapping[str, bytes]], roots: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the installed modules that changed sources import, or look for, and no source of base does.

    `others` gives the sources of the patch, `roots` the folders of the project from which the tests imported modules.
    The standard library and modules of the project are left out. A file deeper inside of a package is no such module.
    """
    edited = [change for change in changes if change.path.endswith(".py") and change.after is not None]
    wanted = {name for change in edited for name in _asked_for(change.after or b"")} - {*sys.stdlib_module_names}
    known = {name for change in edited if change.before for name in _asked_for(change.before)}
    if not wanted - known:
        return ()
    sources, paths = others(), {change.path for change in edited}
    known |= {name for path, source in sources.items() if path not in paths for name in _asked_for(source)}
    known |= _own_modules({*sources, *paths}, paths, roots)
    return tuple(sorted(wanted - known))


def _own_modules(paths: Iterable[str], edited: Iterable[str], roots: Iterable[str]) -> set[str]:
    """Return the names of modules and packages that lie where Python looks for them, or beside an edited script."""
    paths = {*paths}
    beside = {path.rpartition("/")[0] for path in edited}
    folders = {folder for folder in beside if f"{folder}/__init__.py" not in paths}
    folders |= {*IMPORT_ROOTS, *("" if root == "." else root for root in roots)}
    inside = ((path, f"{folder}/" if folder else "") for path in paths for folder in folders)
    return {
        path.removeprefix(top).partition("/")[0].removesuffix(".py") for path, top in inside if path.startswith(top)
    }


def _asked_for(source: bytes) -> Iterator[str]:
    tree = parse(source)
    for node in ast.walk(tree) if isinstance(tree, ast.Module) else ():
        names: Sequence[str] = ()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and _called_name(node.func) in _LOOKUPS:
            first = node.args[0] if node.args else None
            names = [first.value] if isinstance(first, ast.Constant) and isinstance(first.value, str) else ()
        yield from (top for name in names if (top := name.partition(".")[0]))


def _called_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
