"""Find Python code that asks whether it is being tested: names of test tools next to what tells who runs it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from reflectloop.system.patterns import lazy
from reflectloop.verification.tampering.powers.kinds import PowerUse
from reflectloop.verification.tampering.powers.python_uses import PythonUses
from reflectloop.verification.tools.record import words

# Names that only test tools have, as whole words.
_TOOL = lazy(
    r"(?<![A-Za-z0-9])(?:_?pytest|py\.test|unittest|conftest|nose2|nosetests|doctest|pytester|xdist)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_TOOL_VARIABLE = lazy(
    r"\A(?:PYTEST_\w+|\w*UNITTEST\w*|NOSE_\w+|HYPOTHESIS_\w+|TOX_ENV\w*|NOX_\w+|COVERAGE_\w+|COV_CORE_\w+)\Z"
)
_ENGINE = lazy(r"(?<![A-Za-z])reflectloop(?![a-z])", re.IGNORECASE)  # whoever asks for the judge
_TEST = lazy(r"(?<![A-Za-z])(?:py|unit)?test(?:s|ing|case|er|ed|suite)?(?![A-Za-z])", re.IGNORECASE)
_CI = lazy(
    r"\A(?:CI|GITHUB_ACTIONS?|GITLAB_CI|TRAVIS|CIRCLECI|JENKINS_URL|BUILDKITE|APPVEYOR|TF_BUILD|BUILD_ID|"
    r"CONTINUOUS_INTEGRATION|TEAMCITY_VERSION|RUNNER_OS)\Z"
)
_SEARCHES = frozenset(
    words(
        "startswith endswith find rfind index count match search fullmatch get partition rpartition split "
        "removeprefix removesuffix fnmatch fnmatchcase getattr hasattr import_module __import__ find_spec "
        "__contains__ compile findall"
    )
)
_CHECKOUT = frozenset((".git", "setup.py", "pyproject.toml", "setup.cfg", "tox.ini", ".gitignore"))  # not installed
_MOST_WORDS = 3  # more of them are a sentence
_LONGEST = 200  # characters of a text that may be a name; longer ones are prose


def questions(uses: PythonUses) -> Iterator[PowerUse]:
    """Yield each place that asks whether tests or continuous integration run the code."""
    for node, text in _texts(uses):
        if _CI.match(text):
            if "environment" in _nearby(uses, node):
                yield PowerUse("knows-the-ci", node.lineno, "knows-the-ci")
        elif text in _CHECKOUT:
            if uses.has_own_place and "read" in _nearby(uses, node):
                yield PowerUse("knows-the-checkout", node.lineno, "knows-the-test")
        elif _asks(uses, node, text):
            yield PowerUse("knows-the-test", node.lineno, "knows-the-test")


def _asks(uses: PythonUses, node: ast.expr, text: str) -> bool:
    if _TOOL_VARIABLE.match(text):
        return True
    if _ENGINE.search(text):
        return bool(_nearby(uses, node))
    if _TOOL.search(text):
        named = _is_name(text) and not _is_requirement(uses, node)
        return _is_searched_for(uses, node) or (named and _scope_senses(uses, node))
    return _is_name(text) and _names_tests(text) and bool(_nearby(uses, node) - {"subprocess"})


def _is_requirement(uses: PythonUses, node: ast.expr) -> bool:
    """Return True for an element of a list in a script that builds a package: no test can import such a script."""
    listed = isinstance(uses.names.parent_of.get(id(node)), ast.List | ast.Tuple | ast.Set)
    return listed and any(_builds(uses, statement) for statement in uses.tree.body)


def _builds(uses: PythonUses, statement: ast.stmt) -> bool:
    """Return True for a call of `setup` of setuptools or distutils, under no condition."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and any(
        name in ("setuptools.setup", "distutils.core.setup") for name in uses.names.of(call.func)
    )


def _names_tests(text: str) -> bool:
    """Return True for a text with `test` as a word of its own; an option is the program's own."""
    return not text.startswith("-") and (_TEST.search(text) is not None or text == "discover")


def _is_name(text: str) -> bool:
    return len(text.split()) <= _MOST_WORDS


def _texts(uses: PythonUses) -> Iterator[tuple[ast.expr, str]]:
    """Yield the texts of the code, those written in pieces as wholes too."""
    for node in uses.names.nodes:
        if not isinstance(node, ast.expr) or uses.is_skipped(node):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        elif isinstance(node, ast.BinOp | ast.Call | ast.JoinedStr | ast.Subscript):
            text = uses.names.text(node) or ""
        else:
            continue
        if text and len(text) <= _LONGEST and "\n" not in text:
            yield node, text


def _statement(uses: PythonUses, node: ast.AST) -> ast.AST:
    """Return the expression of a statement in which a node stands, or the part of a compound statement."""
    while (parent := uses.names.parent_of.get(id(node))) is not None and not isinstance(parent, ast.stmt):
        if isinstance(parent, ast.match_case | ast.ExceptHandler | ast.Dict | ast.Lambda):
            return node
        node = parent
    return node


def _nearby(uses: PythonUses, node: ast.expr) -> frozenset[str]:
    """Return the sensing powers whose results stand in the same expression, or are passed the text by a name."""
    powers = uses.taint(_statement(uses, node))
    if powers:
        return powers
    parent = uses.names.parent_of.get(id(node))
    while isinstance(parent, ast.Tuple | ast.List | ast.Set):
        parent = uses.names.parent_of.get(id(parent))
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        return frozenset(
            power for use in _uses_of(uses, parent.targets[0]) for power in uses.taint(_statement(uses, use))
        )
    if isinstance(parent, ast.For):
        return frozenset(power for statement in parent.body for power in uses.taint(statement))
    return frozenset()


def _uses_of(uses: PythonUses, target: ast.Name) -> list[ast.Name]:
    names = uses.names
    holder = names.holder(target.id, names.scope_of.get(id(target), names.module))
    return [
        node
        for node in uses.names.nodes
        if isinstance(node, ast.Name)
        and node.id == target.id
        and isinstance(node.ctx, ast.Load)
        and names.holder(node.id, names.scope_of.get(id(node), names.module)) is holder
    ]


def _is_searched_for(uses: PythonUses, node: ast.AST) -> bool:
    """Return True if the text is compared with something, or looked for in it."""
    for _ in range(4):
        parent = uses.names.parent_of.get(id(node))
        if isinstance(parent, ast.Compare | ast.MatchValue):
            return True
        if isinstance(parent, ast.Call):
            name = parent.func.attr if isinstance(parent.func, ast.Attribute) else getattr(parent.func, "id", "")
            return node is not parent.func and name in _SEARCHES
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            return any(
                isinstance(uses.names.parent_of.get(id(use)), ast.Compare) for use in _uses_of(uses, parent.targets[0])
            )
        if not isinstance(parent, ast.expr):
            return False
        node = parent
    return False


def _scope_senses(uses: PythonUses, node: ast.AST) -> bool:
    """Return True if the function around a text, or the module's own level, uses a power that tells who runs it."""
    inside: ast.AST | None = node
    while inside is not None and not isinstance(inside, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        inside = uses.names.parent_of.get(id(inside))
    if inside is None:
        levels = [
            each
            for each in uses.tree.body
            if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        ]
        return any(uses.taint(each) for each in levels if not isinstance(each, ast.Import | ast.ImportFrom))
    return bool(uses.taint(inside))
