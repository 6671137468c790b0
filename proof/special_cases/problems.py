"""Read programs with a known bug and their tests, from folders that the user brings."""

from __future__ import annotations

import ast
import copy
import json
import random
import signal
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

_MOST_TESTS = 8
_LARGEST = 1500  # characters of one test's input
_CALL_S = 2


class Case(NamedTuple):
    """One test: the arguments and the right answer."""

    args: tuple[Any, ...]
    answer: object


class Problem(NamedTuple):
    """A function with a bug, its fix, and tests of which some fail on the bug."""

    name: str
    function: str
    base: str
    honest: str
    cases: tuple[Case, ...]
    failing: tuple[int, ...]  # numbers of the cases that fail on base


def quixbugs(folder: Path) -> Iterator[Problem]:
    """Yield the programs whose tests are rows of JSON."""
    for path in sorted((folder / "json_testcases").glob("*.json")):
        name = path.stem
        base, honest = (
            (folder / part / f"{name}.py").read_text() for part in ("python_programs", "correct_python_programs")
        )
        rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        inputs = [tuple(row[0]) if isinstance(row[0], list) else (row[0],) for row in rows]
        yield from _problem(name, name, base, honest, inputs)


def leetcode(file: Path, most: int | None = None) -> Iterator[Problem]:
    """Yield problems with a canonical solution, into which a bug is put that some of the tests notice."""
    made = 0
    for line in file.read_text().splitlines():
        row = json.loads(line)
        name = row["func_name"].rpartition(".")[2]
        honest = _unwrapped(row["canonical_solution"], name)
        if honest is None or (most is not None and made >= most):
            continue
        honest = row["setup_code"] + "\n\n" + honest
        inputs = [given for text in row["gt_answer"] if (given := _arguments(text, honest, name)) is not None]
        for base in _mutants(honest, name, str(row["id"])):
            problem = next(_problem(f"{name} {row['id']}", name, base, honest, inputs), None)
            if problem is not None:
                made += 1
                yield problem
                break


def _problem(name: str, function: str, base: str, honest: str, inputs: list[tuple[Any, ...]]) -> Iterator[Problem]:
    """Yield the problem if some tests fail on base and all have an answer."""
    inputs = [given for given in inputs if len(repr(given)) <= _LARGEST]
    right, wrong = loaded(honest, function), loaded(base, function)
    cases: list[Case] = []
    failing: list[int] = []
    for given in inputs:
        answer = called(right, given)
        if answer is not None and len(cases) < 3 * _MOST_TESTS:
            cases.append(Case(given, answer))
            if not same(called(wrong, given), answer):
                failing.append(len(cases) - 1)
    chosen = sorted((failing[:4] + [at for at in range(len(cases)) if at not in failing[:4]])[:_MOST_TESTS])
    if len(cases) > _MOST_TESTS:
        cases, failing = [cases[at] for at in chosen], [chosen.index(at) for at in failing if at in chosen]
    if failing and cases:
        yield Problem(name, function, base, honest, tuple(cases), tuple(failing))


def loaded(source: str, name: str) -> Callable[..., object]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "program", "exec"), names)  # noqa: S102 - programs of the collection
    function: Callable[..., object] = names[name]
    return function


def called(function: Callable[..., object], given: tuple[Any, ...]) -> object:
    """Return the answer, a list for a generator, or None if there is none in time."""

    def late(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(_CALL_S)
    try:
        value: Any = function(*copy.deepcopy(given))
        return list(value) if hasattr(value, "__next__") else value
    except BaseException:  # noqa: BLE001 - any fault of a wrong program
        return None
    finally:
        signal.alarm(0)


def same(first: object, second: object) -> bool:
    return type(first) is type(second) and repr(first) == repr(second)


def _unwrapped(source: str, name: str) -> str | None:
    """Return the method of the class Solution as a function, or None if it needs its class."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Solution" and len(node.body) == 1:
            method = node.body[0]
            if isinstance(method, ast.FunctionDef) and method.name == name and not method.decorator_list:
                method.args.args = method.args.args[1:]
                rest = [other for other in tree.body if other is not node]
                text = "\n\n".join(ast.unparse(other) for other in [*rest, method])
                return None if "self" in text or "Solution" in text else textwrap.dedent(text) + "\n"
    return None


def _arguments(text: str, honest: str, name: str) -> tuple[Any, ...] | None:
    """Return the arguments of an assertion if they are literals."""
    try:
        statement = ast.parse(text).body[0]
        call = statement.test.left  # type: ignore[attr-defined]
        values = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        plain = [ast.literal_eval(value) for value in call.args]
    except (ValueError, AttributeError, SyntaxError):
        return None
    function = next(node for node in ast.parse(honest).body if isinstance(node, ast.FunctionDef) and node.name == name)
    names = [argument.arg for argument in function.args.args]
    try:
        return (*plain, *(values[name] for name in names[len(plain) :]))
    except KeyError:
        return None


class _Bug(ast.NodeTransformer):
    """Changes one operator or number, the one with a given number."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.count = wanted, -1

    def _hit(self) -> bool:
        self.count += 1
        return self.count == self.wanted

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        other = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq}
        swap = other.get(type(node.ops[0]))
        if swap and self._hit():
            node.ops[0] = swap()
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        swap = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult}.get(type(node.op))
        if swap and self._hit():
            node.op = swap()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and self._hit():
            return ast.Constant(node.value + 1)
        return node


def _mutants(source: str, name: str, seed: str) -> Iterator[str]:
    """Yield versions of a module with one bug each, in an order drawn from the seed."""
    tree = ast.parse(source)
    place = next(at for at, node in enumerate(tree.body) if isinstance(node, ast.FunctionDef) and node.name == name)
    counter = _Bug(-2)
    counter.visit(copy.deepcopy(tree.body[place]))
    order = list(range(counter.count + 1))
    random.Random(seed).shuffle(order)
    for wanted in order[:12]:
        mutant = copy.deepcopy(tree)
        mutant.body[place] = _Bug(wanted).visit(mutant.body[place])
        yield ast.unparse(ast.fix_missing_locations(mutant)) + "\n"
