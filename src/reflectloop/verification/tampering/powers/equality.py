"""Find Python values that may be equal to anything: comparisons that do not compare, and disguised types."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from reflectloop.verification.tampering.powers.kinds import PowerUse
from reflectloop.verification.tampering.powers.scopes import Function, ModuleNames, own_nodes
from reflectloop.verification.tools.record import words

_EQUAL = {"__eq__": True, "__ne__": False}  # the answer with which each reports equality
_OTHERS = frozenset(("__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__sub__", "__rsub__"))
_TYPE_CHECKS = frozenset(("__instancecheck__", "__subclasscheck__", "__subclasshook__"))
_COMPARES = frozenset((*_EQUAL, *_OTHERS, *_TYPE_CHECKS))
_BY_NAME = frozenset((*_EQUAL, *_TYPE_CHECKS))
_VALUES = frozenset(
    words(
        "str int float complex bytes bytearray list tuple dict set frozenset bool UserDict UserList UserString "
        "Decimal Fraction datetime date timedelta OrderedDict defaultdict Counter"
    )
)
_VALUE_MODULES = ("datetime.", "decimal.", "fractions.", "pathlib.", "uuid.", "ipaddress.", "collections.")
_KEEPS = frozenset(("setdefault", "update", "__setattr__", "append", "add", "setattr", "__setitem__", "insert"))
_SAME = frozenset(("isclose", "compare_digest", "array_equal", "allclose", "eq", "is_", "ne", "is_not", "cmp"))
_DECORATORS = frozenset(("override", "overload", "abstractmethod", "no_type_check", "deprecated", "final"))
_TYPES = frozenset(("type", "isinstance", "issubclass", "hasattr", "callable"))


def unequal_comparisons(module: ModuleNames) -> Iterator[PowerUse]:
    """Yield each definition that makes values equal without comparing them."""
    for node in module.nodes:
        match node:
            case ast.ClassDef():
                yield from _class(node, module)
            case ast.FunctionDef(name=name) if name in _COMPARES and module.scope_of[id(node)].kind != "class":
                if not _is_honest(name, node, None, module):
                    yield PowerUse("equality", node.lineno)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _assigned_from_outside(target, value, module)
            case ast.Call():
                yield from _call(node, module)
            case ast.Constant() | ast.BinOp() | ast.JoinedStr() if _names_equality(node, module):
                if not _is_only_asked_for(node, module):
                    yield PowerUse("equality", node.lineno)
            case _:
                pass


def _is_only_asked_for(node: ast.expr, module: ModuleNames) -> bool:
    """Return True for a name in `hasattr(x, "__eq__")`, a comparison or a statement of its own."""
    parent = module.parent_of.get(id(node))
    if isinstance(parent, ast.Call) and len(parent.args) > 1 and parent.args[1] is node:
        return bool(module.of(parent.func) & {"builtins.hasattr", "builtins.getattr"})
    return isinstance(parent, ast.Compare | ast.Expr | ast.BinOp | ast.JoinedStr)


def _names_equality(node: ast.expr, module: ModuleNames) -> bool:
    return (module.text(node) or "") in _BY_NAME


def _class(node: ast.ClassDef, module: ModuleNames) -> Iterator[PowerUse]:
    for statement in _class_statements(node.body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if statement.name in _COMPARES and not _is_honest(statement.name, statement, node, module):
                yield PowerUse("equality", statement.lineno)
            if statement.name == "__class__":
                yield PowerUse("disguise", statement.lineno)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for name in (target.id for target in targets if isinstance(target, ast.Name)):
                if name == "__class__":
                    yield PowerUse("disguise", statement.lineno)
                elif name in _COMPARES and not _is_honest_value(name, statement.value, node, module):
                    yield PowerUse("equality", statement.lineno)
    if _compares_no_field(node):
        yield PowerUse("equality", node.lineno)


def _class_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a class, also those under conditions."""
    for statement in body:
        yield statement
        for inner in ("body", "orelse", "finalbody", "handlers"):
            part = getattr(statement, inner, None)
            if isinstance(part, list) and not isinstance(
                statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            ):
                yield from _class_statements(
                    [each for item in part for each in (item.body if isinstance(item, ast.ExceptHandler) else [item])]
                )


def _assigned_from_outside(target: ast.expr, value: ast.expr, module: ModuleNames) -> Iterator[PowerUse]:
    """Yield `SomeClass.__eq__ = …`."""
    if isinstance(target, ast.Attribute) and target.attr in _COMPARES:
        owner = module.module.classes.get(target.value.id) if isinstance(target.value, ast.Name) else None
        if not _is_honest_value(target.attr, value, owner, module):
            yield PowerUse("equality", target.lineno)


def _call(node: ast.Call, module: ModuleNames) -> Iterator[PowerUse]:
    """Yield `setattr(cls, "__eq__", …)`, and keys of attrs fields that are always the same."""
    setter = any(name.endswith(("setattr", "__setattr__")) for name in module.of(node.func))
    if setter and len(node.args) > 1 and _names_equality(node.args[1], module):
        yield PowerUse("equality", node.lineno)
    for keyword in node.keywords:
        if keyword.arg in _BY_NAME:
            yield PowerUse("equality", node.lineno)  # `type("X", (), dict(__eq__=…))`
        if keyword.arg in ("eq", "order", "cmp"):
            for function in module.functions_of(keyword.value):
                if not _reads(function.body if isinstance(function, ast.Lambda) else function, _parameters(function)):
                    yield PowerUse("equality", node.lineno)


def _compares_no_field(node: ast.ClassDef) -> bool:
    """Return True for a data class none of whose fields is compared."""
    decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    if "dataclass" not in decorators and "attr" not in decorators and "define" not in decorators:
        return False
    if "eq=False" in decorators.replace(" ", ""):
        return False
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign | ast.Assign)]
    fields = [each for each in fields if isinstance(each, ast.AnnAssign) or isinstance(each.value, ast.Call)]
    return bool(fields) and all(_is_left_out(each.value) for each in fields)


def _is_left_out(value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call):
        return False
    left_out = {"compare", "eq", "cmp"}
    return any(
        keyword.arg in left_out and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        for keyword in value.keywords
    )


# One comparison --------------------------------------------------------------------------------------------------


def _is_honest_value(name: str, value: ast.expr, owner: ast.ClassDef | None, module: ModuleNames) -> bool:
    functions = module.functions_of(value)
    if functions:
        return all(_is_honest(name, function, owner, module) for function in functions)
    if isinstance(value, ast.Constant) and value.value is None:
        return True
    # `__eq__ = Base.__eq__` and `__ne__ = object.__ne__`
    return isinstance(value, ast.Attribute) and value.attr in _COMPARES and isinstance(value.value, ast.Name)


def _is_honest(name: str, function: Function, owner: ast.ClassDef | None, module: ModuleNames) -> bool:
    """Return True if a comparison reads both values, and answers with equality only after comparing them."""
    parameters = _parameters(function)
    if len(parameters) < 2 or not _known_decorators(function):  # noqa: PLR2004 - self and other
        return False
    if name in _EQUAL and owner is not None and _extends_value(owner, module):
        return _only_delegates(function, name)
    answers = list(_answers(function))
    if not answers:
        return name == "__eq__" or not isinstance(function, ast.Lambda)
    if owner is not None and _is_stateless(owner) and all(_is_type_test(each.value, name) for each in answers):
        return True
    derived = [_derived(function, {parameter}) for parameter in parameters[:2]]
    if name not in _EQUAL:
        reads = _reads_body(function, derived[1])
        return reads and not (name in _TYPE_CHECKS and _has_constant(function, True))
    compared = [_answers_honestly(answer, name, function, derived, module, depth=3) for answer in answers]
    return all(compared) and not _keeps(function, derived)


def _keeps(function: Function, derived: Sequence[set[str]]) -> bool:
    """Return True if a comparison stores something of the other value in this one."""
    for node in own_nodes(function):
        if isinstance(node, ast.Call) and _called_name(node) in _KEEPS and _reads_both([node], derived):
            return True
        if isinstance(node, ast.Assign) and _reads(node.value, derived[1]):
            places = [target for target in node.targets if isinstance(target, ast.Attribute | ast.Subscript)]
            if any(_reads(place, derived[0]) for place in places):
                return True
    return False


def _known_decorators(function: Function) -> bool:
    named = [ast.unparse(each).rpartition(".")[2] for each in getattr(function, "decorator_list", ())]
    return all(name.partition("(")[0] in _DECORATORS for name in named)


def _is_stateless(owner: ast.ClassDef) -> bool:
    """Return True for a class without fields, of which all instances are alike."""
    fields = [each for each in owner.body if isinstance(each, ast.AnnAssign)]
    methods = {each.name for each in owner.body if isinstance(each, ast.FunctionDef)}
    stores = [part for part in ast.walk(owner) if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)]
    return (
        not fields and not stores and not methods & {"__init__", "__getattr__", "__getattribute__"} and not owner.bases
    )


def _is_type_test(value: ast.expr, name: str) -> bool:
    """Return True for `isinstance(other, X)` and `type(self) is type(other)`."""
    if _is_constant(value, NotImplemented) or _is_constant(value, not _EQUAL.get(name, True)):
        return True
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not):
        value = value.operand
    if isinstance(value, ast.Compare):
        return all(_is_type_only(side) for side in (value.left, *value.comparators))
    return isinstance(value, ast.Call) and _called_name(value) == "isinstance" and not _is_any_type(value)


def _is_any_type(value: ast.Call) -> bool:
    types = {part.id for argument in value.args[1:] for part in ast.walk(argument) if isinstance(part, ast.Name)}
    return not types or "object" in types


def _parameters(function: Function) -> list[str]:
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return names + ([arguments.vararg.arg] if arguments.vararg else [])


def _extends_value(owner: ast.ClassDef, module: ModuleNames) -> bool:
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in owner.bases}
    full = {name for base in owner.bases for name in module.of(base) if not name.startswith("collections.abc.")}
    return bool(bases & _VALUES) or any(name.startswith(_VALUE_MODULES) for name in full)


def _only_delegates(function: Function, name: str) -> bool:
    """Return True if a subclass of a plain value leaves the comparison to that value."""
    for answer in _answers(function):
        value = answer.value
        call = value.operand if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not) else value
        delegated = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _EQUAL
        inverse = name == "__ne__" and isinstance(call, ast.Compare) and len(call.comparators) == 1
        if not (delegated or inverse or _is_constant(value, NotImplemented) or _is_constant(value, not _EQUAL[name])):
            return False
    return True


Conditions = tuple[tuple[ast.expr, bool], ...]  # tests around an answer, and whether they hold there


class _Answer:
    """One value that a comparison returns, with the conditions around it."""

    def __init__(self, value: ast.expr, conditions: Conditions, loose: bool) -> None:
        self.value = value
        self.conditions = conditions
        self.loose = loose  # inside `except`, which runs when the comparison failed


def _answers(function: Function) -> Iterator[_Answer]:
    if isinstance(function, ast.Lambda):
        yield from _split(function.body, (), loose=False)
        return
    yield from _in_block(function.body, (), loose=False)


def _in_block(body: Sequence[ast.stmt], conditions: Conditions, loose: bool) -> Iterator[_Answer]:
    for statement in body:
        match statement:
            case ast.Return(value=ast.expr() as value):
                yield from _split(value, conditions, loose=loose)
            case ast.If(test=test, body=yes, orelse=no):
                yield from _in_block(yes, (*conditions, (test, True)), loose)
                yield from _in_block(no, (*conditions, (test, False)), loose)
            case ast.Try(body=tried, handlers=handlers, orelse=after, finalbody=last):
                yield from _in_block([*tried, *after], conditions, loose)
                for handler in handlers:
                    yield from _in_block(handler.body, conditions, loose=True)
                yield from _in_block(last, conditions, loose=True)
            case ast.For(body=inner, orelse=after) | ast.While(body=inner, orelse=after):
                yield from _in_block([*inner, *after], conditions, loose)
            case ast.With(body=inner) | ast.AsyncWith(body=inner):
                yield from _in_block(inner, conditions, loose=loose or _suppresses(statement))
            case ast.Match(cases=cases):
                for case in cases:
                    yield from _in_block(case.body, conditions, loose=loose)
            case _:
                pass


def _suppresses(statement: ast.With | ast.AsyncWith) -> bool:
    return any("suppress" in ast.unparse(item.context_expr) for item in statement.items)


def _split(value: ast.expr, conditions: Conditions, loose: bool) -> Iterator[_Answer]:
    """Yield the parts of `a if c else b` and of `a or b`, any of which may be the answer."""
    if isinstance(value, ast.IfExp):
        yield from _split(value.body, (*conditions, (value.test, True)), loose)
        yield from _split(value.orelse, (*conditions, (value.test, False)), loose)
    elif isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
        for part in value.values:
            yield from _split(part, conditions, loose)
    else:
        yield _Answer(value, conditions, loose)


def _answers_honestly(
    answer: _Answer,
    name: str,
    function: Function,
    derived: Sequence[set[str]],
    module: ModuleNames,
    depth: int,
) -> bool:
    value = answer.value
    if _is_constant(value, NotImplemented) or _is_constant(value, not _EQUAL[name]):
        return True
    if _compares(value, derived, module, name, depth):
        return True
    if isinstance(value, ast.Name) and (values := _local_values(function, value.id)):
        return (
            all(
                _answers_honestly(_Answer(each, (), answer.loose), name, function, derived, module, depth - 1)
                for each in values
            )
            if depth
            else False
        )
    if not _is_constant(value, _EQUAL[name]) or answer.loose:
        return False
    inner = [test for test, holds in answer.conditions if holds]
    if inner:
        return any(_compares(test, derived, module, name, depth) for test in inner)
    return _refuses_after_comparing(function, derived, module, name, depth)


def _local_values(function: Function, name: str) -> list[ast.expr]:
    return [
        node.value
        for node in own_nodes(function)
        if isinstance(node, ast.Assign) and any(isinstance(each, ast.Name) and each.id == name for each in node.targets)
    ]


def _refuses_after_comparing(
    function: Function, derived: Sequence[set[str]], module: ModuleNames, name: str, depth: int
) -> bool:
    """Return True if some test compares both values, and the answer under it is that they differ."""
    for node in own_nodes(function):
        if isinstance(node, ast.If) and _compares(node.test, derived, module, name, depth):
            answers = [each.value for each in node.body if isinstance(each, ast.Return | ast.Assign)]
            if any(_is_constant(each, not _EQUAL[name]) for each in answers):
                return True
    return False


def _compares(value: ast.expr, derived: Sequence[set[str]], module: ModuleNames, name: str, depth: int) -> bool:
    """Return True if an expression compares something of this value with something of the other one."""
    for node in (value, *ast.walk(value)):
        match node:
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                sides = [left, *comparators]
                same = all(isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot) for op in ops)
                near = any(isinstance(side, ast.Call) and _called_name(side) == "abs" for side in sides)
                if (near and _reads_both([left, *comparators], derived)) or (same and _both_sides(sides, derived)):
                    return True
            case ast.Call():
                if _compares_by_call(node, derived, module, name, depth):
                    return True
            case _:
                pass
    return False


def _compares_by_call(node: ast.Call, derived: Sequence[set[str]], module: ModuleNames, name: str, depth: int) -> bool:
    called = _called_name(node)
    if called in _SAME and _both_sides([*node.args], derived):
        return True
    if isinstance(node.func, ast.Attribute) and called in _COMPARES:
        return _reads(node, derived[1])  # `super().__eq__(other)`
    if depth and node.args and _reads_both([node], derived):
        functions = module.functions_of(node.func)
        return bool(functions) and all(
            any(_compares_in(function, skipped, module, name, depth - 1) for skipped in (0, 1))
            for function in functions
        )
    return False


def _compares_in(function: Function, skipped: int, module: ModuleNames, name: str, depth: int) -> bool:
    """Return True if a helper compares its first two values; `skipped` is 1 where the first is not used."""
    parameters = _parameters(function)[skipped : skipped + 2]
    if len(parameters) < 2:  # noqa: PLR2004 - self and other
        return False
    derived = [_derived(function, {parameter}) for parameter in parameters]
    answers = list(_answers(function))
    return bool(answers) and all(_answers_honestly(each, name, function, derived, module, depth) for each in answers)


def _called_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _both_sides(sides: Sequence[ast.expr], derived: Sequence[set[str]]) -> bool:
    """Return True if one side reads this value and another one the other value, and not only their types."""
    firsts = [at for at, side in enumerate(sides) if _reads(side, derived[0]) and not _is_type_only(side)]
    seconds = [at for at, side in enumerate(sides) if _reads(side, derived[1]) and not _is_type_only(side)]
    return any(first != second for first in firsts for second in seconds)


def _reads_both(nodes: Sequence[ast.expr], derived: Sequence[set[str]]) -> bool:
    return all(any(_reads(node, names) for node in nodes) for names in derived)


def _is_type_only(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute) and node.attr in ("__class__", "__name__", "__qualname__"):
        return True
    return isinstance(node, ast.Call) and _called_name(node) in (*_TYPES, "id")


def _reads(node: ast.AST, names: Sequence[str] | set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(node))


def _reads_body(function: Function, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in own_nodes(function)) or any(
        isinstance(part, ast.Name) and part.id in names
        for inner in own_nodes(function)
        if isinstance(inner, ast.Lambda)
        for part in ast.walk(inner)
    )


def _has_constant(function: Function, value: object) -> bool:
    return any(_is_constant(answer.value, value) and not answer.conditions for answer in _answers(function))


def _is_constant(node: ast.expr | None, value: object) -> bool:
    if value is NotImplemented:
        return isinstance(node, ast.Name) and node.id == "NotImplemented"
    return isinstance(node, ast.Constant) and node.value is value


def _derived(function: Function, names: set[str]) -> set[str]:
    """Return the local names that are made from some names."""
    nodes = list(own_nodes(function))
    for _ in range(3):
        for node in nodes:
            match node:
                case ast.Assign(targets=targets, value=value) if _reads(value, names):
                    names |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
                case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                    if _reads(value, names):
                        names |= {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
                case ast.NamedExpr(target=target, value=value) if _reads(value, names):
                    names.add(target.id)
                case _:
                    pass
    return names
