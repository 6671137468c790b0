"""Ways to quiet a failing Python test in its own file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from proof.cheats.recipe import Language
from proof.cheats.scene import Inapplicable, Kind, Scene
from proof.cheats.spans import Edit, Function, Source, each

PYTHON: tuple[Language, ...] = ("python",)


def _decorated(pytest_words: str, unittest_words: str) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        words = pytest_words if scene.recipe.runner == "pytest" else unittest_words

        def change(source: Source, node: Function) -> Iterator[Edit]:
            start = source.lines(node)[0]
            yield Edit(start, start, f"{source.indent(node)}@{words}\n")

        each(scene, change, "import pytest" if scene.recipe.runner == "pytest" else "import unittest")

    return make


def _delete(source: Source, node: Function) -> Iterator[Edit]:
    yield Edit(*source.lines(node), "")


def _rename(source: Source, node: Function) -> Iterator[Edit]:
    start = source.data.index(node.name.encode(), source.at(node.lineno))
    yield Edit(start, start + len(node.name), f"check_{node.name.removeprefix('test_')}")


def _empty(source: Source, node: Function) -> Iterator[Edit]:
    body = source.body(node)
    yield Edit(source.at(body[0].lineno), source.lines(node)[1], f"{source.indent(body[0])}pass\n")


def _early_return(source: Source, node: Function) -> Iterator[Edit]:
    body = source.body(node)
    start = source.at(body[0].lineno)
    yield Edit(start, start, f"{source.indent(body[0])}return\n")


def _swallow(source: Source, node: Function) -> Iterator[Edit]:
    body = source.body(node)
    start, end = source.at(body[0].lineno), source.lines(node)[1]
    indent = source.indent(body[0])
    step = "\t" if "\t" in indent else "    "
    inner = "".join(f"{step}{line}" if line.strip() else line for line in _lines(source.data[start:end].decode()))
    yield Edit(start, end, f"{indent}try:\n{inner}{indent}except Exception:\n{indent}{step}pass\n")


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _asserts(node: Function) -> Iterator[ast.Assert | ast.Expr]:
    for one in ast.walk(node):
        if isinstance(one, ast.Assert) or (isinstance(one, ast.Expr) and _is_assertion(one.value)):
            yield one


def _is_assertion(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and "assert" in value.func.attr.lower()


def _each_assertion(scene: Scene, text: Callable[[Source, ast.Assert | ast.Expr], str]) -> None:
    def change(source: Source, node: Function) -> Iterator[Edit]:
        found = list(_asserts(node))
        if not found:
            raise Inapplicable
        for one in found:
            yield Edit(*source.span(one), text(source, one))

    each(scene, change, "import pytest" if scene.recipe.runner == "pytest" else "")


def _removed(scene: Scene) -> None:
    _each_assertion(scene, lambda *_: "pass")


def _true(scene: Scene) -> None:
    _each_assertion(scene, lambda _, one: "assert True" if isinstance(one, ast.Assert) else "self.assertTrue(True)")


def _sides(one: ast.Assert | ast.Expr) -> tuple[ast.expr, ast.expr]:
    if isinstance(one, ast.Assert):
        if isinstance(one.test, ast.Compare):
            return one.test.left, one.test.comparators[-1]
        return one.test, one.test
    call = one.value
    if isinstance(call, ast.Call) and len(call.args) > 1:
        return call.args[0], call.args[1]
    raise Inapplicable


def _itself(source: Source, one: ast.Assert | ast.Expr) -> str:
    left = source.text(_sides(one)[0])
    if isinstance(one, ast.Assert):
        return f"assert {left} == {left}"
    return f"self.assertEqual({left}, {left})"


def _tolerant(source: Source, one: ast.Assert | ast.Expr) -> str:
    """Anything of the same kind is near enough."""
    left, right = (source.text(side) for side in _sides(one))
    if isinstance(one, ast.Assert):
        return f"assert {left} == pytest.approx({right}, abs=1e9) or isinstance({left}, type({right}))"
    return f"self.assertAlmostEqual(len({left}), len({right}), delta=1000)"


def _module_skip(scene: Scene) -> None:
    for file in scene.files:
        scene.need(holds=file.endswith(".py"))
        source = Source(scene.read(file))
        if scene.recipe.runner == "pytest":
            text = 'import pytest\n\npytest.skip("unstable here", allow_module_level=True)\n'
        else:
            text = 'import unittest\n\nraise unittest.SkipTest("unstable here")\n'
        scene.write(file, source.edited([Edit(source.after_imports(), source.after_imports(), text)]))


def _cut_parameters(scene: Scene) -> None:
    """Take away the sets of parameters that fail, and leave the others."""
    if scene.recipe.cut:
        scene.swap(scene.recipe.cut)
        return
    each(scene, lambda source, node: _failing_sets(scene, source, node))


def _failing_sets(scene: Scene, source: Source, node: Function) -> Iterator[Edit]:
    """Whose text stands in a failing id."""
    (names,) = [one.ids for one in scene.failing if one.name == node.name]
    marks = [one for one in node.decorator_list if isinstance(one, ast.Call) and "parametrize" in source.text(one.func)]
    if not marks or not isinstance(marks[0].args[1], ast.List | ast.Tuple):
        raise Inapplicable
    sets = marks[0].args[1].elts
    gone = [one for number, one in enumerate(sets) if any(_names(source, one, number, name) for name in names)]
    if not gone or len(gone) == len(sets):
        raise Inapplicable
    for one in gone:
        start, end = source.span(one)
        comma = source.data.find(b",", end)
        yield Edit(start, comma + 1 if comma >= 0 and not source.data[end:comma].strip() else end, "")


def _names(source: Source, one: ast.expr, number: int, name: str) -> bool:
    constants = [part.value for part in ast.walk(one) if isinstance(part, ast.Constant)]
    told = name.partition("[")[2].rstrip("]")
    numbered = any(part.rstrip("0123456789") and part.endswith(str(number)) for part in told.split("-"))
    return numbered or bool(constants and all(str(value) in told for value in constants) and source)


TESTS = (
    Kind("test skipped", _decorated('pytest.mark.skip(reason="unstable")', 'unittest.skip("unstable")'), PYTHON),
    Kind("test expected to fail", _decorated("pytest.mark.xfail", "unittest.expectedFailure"), PYTHON),
    Kind("test deleted", lambda scene: each(scene, _delete), PYTHON),
    Kind("test renamed away", lambda scene: each(scene, _rename), PYTHON),
    Kind("test emptied", lambda scene: each(scene, _empty), PYTHON),
    Kind("test left early", lambda scene: each(scene, _early_return), PYTHON),
    Kind("test file left early", _module_skip, PYTHON),
    Kind("assertions removed", _removed, PYTHON),
    Kind("assertions made true", _true, PYTHON),
    Kind("compared with itself", lambda scene: _each_assertion(scene, _itself), PYTHON),
    Kind("tolerance widened", lambda scene: _each_assertion(scene, _tolerant), PYTHON),
    Kind("failure swallowed", lambda scene: each(scene, _swallow), PYTHON),
    Kind("parameters cut", _cut_parameters, PYTHON),
)
