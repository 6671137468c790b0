"""Write the assertions of a test out in full: local names, cases, loops and helpers replaced by what they stand for.

Two tests that assert the same have the same expanded assertions, however each of them spells it.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from string import Formatter
from typing import NamedTuple

from reflectloop.verification.protected.fixtures import Function, is_fixture
from reflectloop.verification.tampering.python.checks import Assertion, Binding, demands, last_name
from reflectloop.verification.tampering.python.flow import HelperCall
from reflectloop.verification.tampering.python.rows import ParameterTable, written_out
from reflectloop.verification.tampering.python.suite import SuiteFunction

WITHIN = " within "  # before the contexts around an assertion
_SHORT = 20  # nodes of a value that stands for its name
_MOST_ROWS = 300
_MOST_TEXTS = 900  # forms of one assertion, over all rows and loops
_LARGEST = 400  # nodes of one expanded expression
_LONGEST = 1_000_000  # characters of a computed text
_DEEPEST = 3  # helpers that call helpers
_EQUALITIES = {
    "assert_equal": ast.Eq,
    "assert_equals": ast.Eq,
    "eq_": ast.Eq,
    "assert_not_equal": ast.NotEq,
    "assert_is": ast.Is,
    "assert_in": ast.In,
    "assert_not_in": ast.NotIn,
}


class Expansion(NamedTuple):
    """An assertion of a test, or of a helper it calls, written out once for each case."""

    check: Assertion
    texts: frozenset[str]
    line: int = 0  # of the call of the helper that asserts it


class _TooLarge(Exception):
    """The expression grows beyond what a person would compare."""


Choices = Mapping[int, ast.expr]  # the element of each loop, by the identity of what it runs over


class _Names(NamedTuple):
    """The values of names that no statement of the function sets."""

    arguments: Mapping[str, ast.expr]
    constants: Mapping[str, ast.expr]
    choices: Choices
    most: int = _MOST_ROWS  # forms of an assertion that loops make


_NOTHING = _Names({}, {}, {})


def expand(
    case: SuiteFunction,
    tables: Sequence[ParameterTable],
    constants: Mapping[str, ast.expr],
    helper: Callable[[str], SuiteFunction | None],
) -> list[Expansion]:
    """Return every assertion that the test reaches, written out."""
    results: dict[tuple[object, ...], Expansion] = {}
    module_names = _Names({}, constants, {})
    rows = list(islice(_rows(tables), _MOST_ROWS))
    for row in rows:
        arguments = {name: _whole(value, module_names) for name, value in row.items()}
        names = _Names(arguments, constants, {}, _MOST_TEXTS // len(rows))
        for check, texts, line in _of_function(case, names, helper, _DEEPEST):
            key = (id(check.node), line, check.conditions, check.swallowed)
            known = results.get(key)
            results[key] = Expansion(check, texts | known.texts if known else texts, line)
    return list(results.values())


def _whole(value: ast.expr, names: _Names) -> ast.expr:
    try:
        return _replace(value, None, names)
    except _TooLarge:
        return value


def imported(module: ast.Module) -> dict[str, ast.expr]:
    """Return the imported names as `module.name`, so that both ways to import one thing are the same."""
    names: dict[str, ast.expr] = {}
    for statement in module.body:
        if isinstance(statement, ast.Import):
            names |= {name.asname: _last(name.name) for name in statement.names if name.asname}
        elif isinstance(statement, ast.ImportFrom):
            home = _last(statement.module or ".")
            names |= {name.asname or name.name: ast.Attribute(home, name.name, ast.Load()) for name in statement.names}
    return names


def set_values(module: ast.Module, values: Mapping[str, ast.expr]) -> dict[str, ast.expr]:
    """Return short values that the module sets, with imported names written out."""
    names = _Names({}, imported(module), {})
    short = {name: value for name, value in values.items() if sum(1 for _ in ast.walk(value)) <= _SHORT}
    return {name: _whole(value, names) for name, value in short.items()}


def _last(module: str) -> ast.Name:
    return ast.Name(module.rpartition(".")[2] or "package", ast.Load())


def _rows(tables: Sequence[ParameterTable]) -> Iterator[dict[str, ast.expr]]:
    """Yield the arguments of each case; a table that is computed gives one case with its text."""
    choices = []
    for table in tables:
        names = [name.strip() for name in table.names.split(",") if name.strip()]
        if table.rows is None:
            symbol = _each(ast.Name(table.spelled, ast.Load()))
            choices.append([{name: _part(symbol, at, len(names)) for at, name in enumerate(names)}])
        elif len(names) == 1:
            choices.append([{names[0]: row.single} for row in table.rows])
        else:
            choices.append(
                [dict(zip(names, row.values, strict=True)) for row in table.rows if len(row.values) == len(names)]
            )
    for rows in product(*choices):
        yield {name: value for row in rows for name, value in row.items()}


def _each(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("each", ast.Load()), [node], [])


def _part(node: ast.expr, at: int, count: int) -> ast.expr:
    return node if count == 1 else ast.Subscript(node, ast.Constant(at), ast.Load())


def _of_function(
    case: SuiteFunction, names: _Names, helper: Callable[[str], SuiteFunction | None], depth: int
) -> Iterator[Expansion]:
    replaced: set[int] = set()
    for call in case.calls if depth else ():
        if (target := helper(last_name(call.node.func))) is not None and (target.checks or target.calls):
            arguments = _arguments(target.node, call, names)
            inner = _Names(arguments, names.constants, {}, names.most) if arguments is not None else None
            for expansion in _of_function(target, inner, helper, depth - 1) if inner else ():
                replaced.add(call.node.lineno)
                yield Expansion(_reached_by(call, expansion.check), expansion.texts, call.node.lineno)
    for check in case.checks:
        if check.kind == "call" and isinstance(check.node, ast.Call) and helper(last_name(check.node.func)):
            if check.line not in replaced:  # otherwise the helper's assertions stand for it
                yield Expansion(check, frozenset({check.text}))
        else:
            yield Expansion(check, frozenset(_texts(check, names)))


def _reached_by(call: HelperCall, check: Assertion) -> Assertion:
    """Return a helper's assertion with what stands around the call of the helper."""
    return check._replace(
        conditions=(*call.place.conditions, *check.conditions), swallowed=call.place.swallowed or check.swallowed
    )


def _arguments(target: Function, call: HelperCall, names: _Names) -> dict[str, ast.expr] | None:
    """Return the arguments of a helper as the caller gives them, or None if they cannot be told."""
    parameters = [argument.arg for argument in (*target.args.posonlyargs, *target.args.args)]
    if parameters[:1] in (["self"], ["cls"]):
        parameters = parameters[1:]
    defaults = target.args.defaults
    arguments = dict(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=False))
    arguments |= {
        part.arg: value for part, value in zip(target.args.kwonlyargs, target.args.kw_defaults, strict=True) if value
    }
    try:
        node = _flat(_replace(call.node, call.place.values, names))
    except _TooLarge:
        return None
    if not isinstance(node, ast.Call) or any(isinstance(part, ast.Starred) for part in node.args):
        return None
    arguments |= dict(zip(parameters, node.args, strict=False))
    arguments |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    return arguments


def _texts(check: Assertion, names: _Names) -> Iterator[str]:
    """Yield the assertion written out once for each element of the loops around it."""
    loops = _loops(check.values)
    elements = [(loop, _elements(loop.loop, loop.before, names)) for loop in loops]
    known = [(id(loop.loop), rows) for loop, rows in elements if rows]
    for chosen in islice(product(*(rows for _, rows in known)), names.most):
        choices = dict(zip((key for key, _ in known), chosen, strict=True))
        try:
            yield _text(check, names._replace(choices=choices))
        except _TooLarge:
            yield f"{check.text} #{id(check.node)}"  # like no other


def _loops(values: Binding | None) -> list[Binding]:
    """Return the loops whose names still have the value that the loop gives them, each once."""
    seen: set[str] = set()
    loops: dict[int, Binding] = {}
    while values is not None:
        if values.name not in seen and values.loop is not None:
            loops.setdefault(id(values.loop), values)
        seen.add(values.name)
        values = values.before
    return list(loops.values())


def _elements(loop: ast.expr | None, before: Binding | None, names: _Names) -> list[ast.expr] | None:
    if loop is None:
        return None
    try:
        node = _replace(loop, before, names)
    except _TooLarge:
        return None
    if isinstance(node, ast.Call) and last_name(node.func) == "items" and isinstance(node.func, ast.Attribute):
        pairs = node.func.value
        return written_out(pairs, names.constants) if isinstance(pairs, ast.Dict) else None
    return [key for key in node.keys if key] if isinstance(node, ast.Dict) else written_out(node, names.constants)


def _text(check: Assertion, names: _Names) -> str:
    node = _replace(check.node, check.values, names)
    parts = [demand.node for demand in demands(node)] if check.kind == "claim" else [node]
    text = " and ".join(sorted({_spelled(part) for part in parts}))
    raising = [_spelled(_replace(part, check.values, names)) for part in _raising(check)]
    within = [_spelled(_replace(part, check.values, names)) for part in check.within]
    text = f"{text}: {'; '.join(raising)}" if raising else text
    return f"{text}{WITHIN}{', '.join(within)}" if within else text


def _spelled(node: ast.expr) -> str:
    """Return the text of an expression in one spelling, whichever of several ways it was written in."""
    copied = _Canonical().visit(node)
    return ast.unparse(ast.fix_missing_locations(copied)) if isinstance(copied, ast.expr) else ast.unparse(node)


def _raising(check: Assertion) -> Iterator[ast.expr]:
    """Yield the expressions that must raise."""
    for statement in check.inside:
        for part in ast.walk(statement):
            if isinstance(part, ast.stmt) and isinstance(value := getattr(part, "value", None), ast.expr):
                yield value


def _replace(node: ast.expr, values: Binding | None, names: _Names) -> ast.expr:
    """Return a copy of the expression with every name replaced by its value."""
    size = [0]
    copied = _copied(node, values, names, size)
    return copied if isinstance(copied, ast.expr) else node


def _copied(node: object, values: Binding | None, names: _Names, size: list[int]) -> object:
    if isinstance(node, list):
        return [_copied(part, values, names, size) for part in node]
    if not isinstance(node, ast.AST):
        return node
    size[0] += 1
    if size[0] > _LARGEST:
        raise _TooLarge
    if isinstance(node, ast.Attribute) and f"self.{node.attr}" in names.constants and _of_self(node):
        return _copied(names.constants[f"self.{node.attr}"], None, names, size)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return _value(node, values, names, size)
    return type(node)(**{name: _copied(part, values, names, size) for name, part in ast.iter_fields(node)})


def _of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}


def prepared(module: ast.Module, case: SuiteFunction) -> dict[str, ast.expr]:
    """Return what stands ready for a test: attributes that its class or `setUp` sets, and values of fixtures."""
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    values: dict[str, ast.expr] = {}
    own = classes.get(case.name.partition(".")[0])
    bases = [classes[last_name(base)] for base in own.bases if last_name(base) in classes] if own else []
    for class_node in (*bases, *([own] if own else [])):
        for member in class_node.body:
            values |= {f"self.{name}": value for name, value in _simple_values([member])}
            if isinstance(member, Function) and member.name.lower().startswith("setup"):
                values |= {name: value for name, value in _simple_values(member.body) if name.startswith("self.")}
    for node in module.body:
        if isinstance(node, Function) and any(is_fixture(ast.unparse(part)) for part in node.decorator_list):
            last = node.body[-1]
            value = getattr(last.value, "value", None) if isinstance(last, ast.Expr) else getattr(last, "value", None)
            if isinstance(value, ast.expr) and not any(True for _ in _simple_values(node.body)):
                values[node.name] = value
    return values


def _simple_values(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for statement in body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            yield ast.unparse(statement.targets[0]), statement.value


def _value(node: ast.Name, values: Binding | None, names: _Names, size: list[int]) -> object:
    while values is not None and values.name != node.id:
        values = values.before
    if values is None:
        value = names.arguments.get(node.id) or names.constants.get(node.id)
        return _copied(value, None, _NOTHING, size) if value is not None else ast.Name(node.id, ast.Load())
    if values.loop is not None:
        chosen = names.choices.get(id(values.loop))
        if chosen is not None:
            return _copied(_taken(chosen, values.at), None, _NOTHING, size)
        return _copied(_taken(_each(values.loop), values.at), values.before, names, size)
    if values.value is None:
        return ast.Name(node.id, ast.Load())
    return _copied(values.value, values.before, names, size)


def _taken(element: ast.expr, at: int | None) -> ast.expr:
    if at is None:
        return element
    if isinstance(element, ast.Tuple | ast.List) and at < len(element.elts):
        return element.elts[at]
    return ast.Subscript(element, ast.Constant(at), ast.Load())


class _Canonical(ast.NodeTransformer):
    """Rewrites an expression into its one spelling, innermost parts first."""

    def visit_Await(self, node: ast.Await) -> ast.AST:
        self.generic_visit(node)
        return node.value

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
            return ast.Name(node.attr, ast.Load())
        if node.attr == "exception" and isinstance(node.value, ast.Call):
            node.attr = "value"  # of an expected exception: unittest and pytest name it differently
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        return folded(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return folded(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        flat = _flat(node)
        if not isinstance(flat, ast.Call):
            return flat
        name = last_name(flat.func)
        match flat:
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str() as attribute)]):
                return ast.Attribute(owner, attribute, ast.Load())
        if name in _EQUALITIES and len(flat.args) == 2:  # noqa: PLR2004 - both sides
            return _sorted_sides(ast.Compare(flat.args[0], [_EQUALITIES[name]()], [flat.args[1]]))
        if name in {"raises", "warns", "assertRaises"} and flat.args:
            flat.func = ast.Name(name.replace("assertRaises", "raises"), ast.Load())
        if name == "format" and isinstance(flat.func, ast.Attribute):
            return _formatted(flat, flat.func.value)
        flat.keywords.sort(key=lambda keyword: keyword.arg or "")
        return folded(flat)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        return _sorted_sides(node)


def _formatted(call: ast.Call, text: ast.expr) -> ast.expr:
    """Return `"{} {b!r}".format(a, b=1)` as the f-string that says the same."""
    if not isinstance(text, ast.Constant) or not isinstance(text.value, str):
        return call
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    values: list[ast.expr] = []
    try:
        for at, (before, field, spec, conversion) in enumerate(Formatter().parse(text.value)):
            values += [ast.Constant(before)] if before else []
            if field is not None:
                value = named.get(field) or call.args[int(field) if field else at]
                style = ord(conversion) if conversion else -1
                values.append(ast.FormattedValue(value, style, ast.JoinedStr([ast.Constant(spec)]) if spec else None))
    except (ValueError, IndexError, TypeError):
        return call
    return folded(ast.JoinedStr(values))


def _sorted_sides(node: ast.Compare) -> ast.Compare:
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
        return node
    sides = sorted((node.left, node.comparators[0]), key=ast.unparse)
    constant_ = [side for side in sides if isinstance(side, ast.Constant) and side.value is None]
    sign = node.ops[0]
    if constant_ and isinstance(sign, ast.Eq | ast.NotEq):
        sign = ast.Is() if isinstance(sign, ast.Eq) else ast.IsNot()
    return ast.Compare(sides[0], [sign], [sides[1]])


def _flat(node: ast.expr) -> ast.expr:
    """Return a call with `*(1, 2)` and `**{"a": 3}` written as plain arguments."""
    if not isinstance(node, ast.Call):
        return node
    args = [
        part
        for argument in node.args
        for part in (
            argument.value.elts
            if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple | ast.List)
            else [argument]
        )
    ]
    keywords = [part for keyword in node.keywords for part in _keywords(keyword)]
    return ast.Call(node.func, args, keywords)


def _keywords(keyword: ast.keyword) -> list[ast.keyword]:
    value = keyword.value
    if keyword.arg is None and isinstance(value, ast.Call) and last_name(value.func) == "dict" and not value.args:
        return value.keywords
    if keyword.arg is not None or not isinstance(value, ast.Dict):
        return [keyword]
    pairs = list(zip(value.keys, value.values, strict=True))
    if not all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key, _ in pairs):
        return [keyword]
    return [ast.keyword(str(key.value), item) for key, item in pairs if isinstance(key, ast.Constant)]


def folded(node: ast.expr) -> ast.expr:
    """Return the value of an expression that only joins, cuts or converts literals; otherwise the expression."""
    try:
        return _folded(node) or node
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, MemoryError, LookupError, RecursionError):
        return node


def _folded(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _sum(left, right)
        case ast.JoinedStr(values=values) if all(isinstance(part, ast.Constant) for part in values):
            return ast.Constant("".join(str(part.value) for part in values if isinstance(part, ast.Constant)))
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if all(part.arg for part in keywords):
            return ast.Dict([ast.Constant(part.arg) for part in keywords], [part.value for part in keywords])
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() | bytes() as text), attr=name), keywords=[]):
            return _method(text, name, node.args)
        case ast.Call(func=func, args=[argument], keywords=[]):
            return _converted(last_name(func), argument)
    return None


def _sum(left: ast.expr, right: ast.expr) -> ast.expr | None:
    if isinstance(left, ast.List) and isinstance(right, ast.List):
        return ast.List([*left.elts, *right.elts], ast.Load())
    values = [side.value for side in (left, right) if isinstance(side, ast.Constant)]
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) == 2:  # noqa: PLR2004 - both sides
        return ast.Constant("".join(texts))
    parts = [value for value in values if isinstance(value, bytes)]
    return ast.Constant(b"".join(parts)) if len(parts) == 2 else None  # noqa: PLR2004 - both sides


def _converted(name: str, argument: ast.expr) -> ast.expr | None:
    """Return `set([1, 2])` as `{1, 2}`, and a text without its common indentation."""
    if name == "dedent" and isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return ast.Constant(textwrap.dedent(argument.value))
    if not isinstance(argument, ast.List | ast.Tuple) or not argument.elts:
        return None
    if name in {"set", "frozenset"}:
        return ast.Set(argument.elts)
    if name == "list":
        return ast.List(argument.elts, ast.Load())
    return ast.Tuple(argument.elts, ast.Load()) if name == "tuple" else None


_METHODS = frozenset(("join", "strip", "lstrip", "rstrip", "encode", "decode", "splitlines", "split", "upper", "lower"))


def _method(text: str | bytes, name: str, args: Sequence[ast.expr]) -> ast.expr | None:
    """Return the result of a method of a literal text, given literal arguments."""
    values = [ast.literal_eval(argument) for argument in args] if name in _METHODS else None
    if values is None or len(text) * max(1, *(len(value) for value in values if isinstance(value, list)), 1) > _LONGEST:
        return None
    result = getattr(text, name)(*values)
    return ast.parse(repr(result), mode="eval").body
