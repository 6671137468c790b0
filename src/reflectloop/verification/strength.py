"""The strength of the tests that show a change: how many small faults in the changed Python lines they notice."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reflectloop.terms import Decision
from reflectloop.verification import protected
from reflectloop.verification.change_proof import died
from reflectloop.verification.result import ChangedFile, DetectedCheck, VerificationResult
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.verification.verdict import StrengthReport, VerdictReason

MOST = 12  # mutants of one change
_LARGEST = 1 << 20
_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}


class Mutant(NamedTuple):
    """A changed source with one small fault."""

    path: str
    line: int
    what: str
    content: bytes

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


class _Edit(NamedTuple):
    node: ast.expr | ast.stmt
    text: str
    what: str


def mutants(changes: Sequence[ChangedFile], most: int = MOST) -> list[Mutant]:
    """Return faulty versions of the changed Python sources, spread evenly over them; the same in every run."""
    made = [mutant for change in sorted(changes) for mutant in _of_file(change)] if changes else []
    if len(made) <= most:
        return made
    return [made[number * len(made) // most] for number in range(most)]


def _of_file(change: ChangedFile) -> Iterator[Mutant]:
    after = change.after
    if after is None or not change.path.endswith(".py") or protected.guard(change.path) or len(after) > _LARGEST:
        return
    try:
        tree = ast.parse(after)
    except (SyntaxError, ValueError, RecursionError):
        return
    lines = _changed_lines(change.before or b"", after)
    edits = [edit for node in ast.walk(tree) for edit in _edits(node) if edit.node.lineno in lines]
    docstrings = _docstrings(tree)
    for edit in sorted(edits, key=lambda edit: (edit.node.lineno, edit.node.col_offset, edit.what)):
        if id(edit.node) not in docstrings:
            content = _replaced(after, edit)
            if _is_valid(content):
                yield Mutant(change.path, edit.node.lineno, edit.what, content)


def _changed_lines(before: bytes, after: bytes) -> set[int]:
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    blocks = [(start, end) for tag, _, _, start, end in matcher.get_opcodes() if tag != "equal"]
    return {number for start, end in blocks for number in range(start + 1, end + 1)}


def _docstrings(tree: ast.Module) -> set[int]:
    """Return constants and statements that are no code: docstrings and lone texts."""
    lone = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    return {id(part) for node in lone for part in (node, node.value)}


def _edits(node: ast.AST) -> Iterator[_Edit]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield _Edit(node.test, f"not ({ast.unparse(node.test)})", "condition negated")
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        other = ast.Compare(node.left, [_COMPARISONS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
        yield _Edit(node, f"({ast.unparse(other)})", "comparison changed")
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        swapped = ast.BinOp(node.left, _OPERATORS[type(node.op)](), node.right)
        yield _Edit(node, f"({ast.unparse(swapped)})", "operator changed")
    elif isinstance(node, ast.Constant):
        yield from _constant(node)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield _Edit(node, "return None", "result dropped")
    elif isinstance(node, ast.Assign | ast.AugAssign) or (isinstance(node, ast.Expr) and _calls(node)):
        yield _Edit(node, "pass", "statement dropped")


def _constant(node: ast.Constant) -> Iterator[_Edit]:
    if isinstance(node.value, bool):
        yield _Edit(node, str(not node.value), "constant changed")
    elif isinstance(node.value, int | float):
        yield _Edit(node, f"({node.value!r} + 1)", "constant changed")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _calls(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Call | ast.Await)


def _replaced(source: bytes, edit: _Edit) -> bytes:
    lines = source.splitlines(keepends=True)
    node = edit.node
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or node.lineno) - 1])) + (node.end_col_offset or 0)
    return source[:start] + edit.text.encode() + source[end:]


def _is_valid(content: bytes) -> bool:
    try:
        ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


# Running them ------------------------------------------------------------------------------------------------------

Again = Callable[[str, DetectedCheck, str, Sequence[str]], VerificationResult]


def measure(
    changes: Sequence[ChangedFile],
    tests: Mapping[str, Sequence[str]],
    checks: Mapping[str, DetectedCheck],
    builder: TreeBuilder,
    tree: str,
    again: Again,
) -> StrengthReport:
    """Run the tests that show the change, by check, on every mutant; one that all of them pass goes unnoticed."""
    survivors = []
    made = mutants(changes) if any(tests.values()) else []
    for number, mutant in enumerate(made, 1):
        faulty = builder.with_contents(tree, {mutant.path: mutant.content})
        words = f"mutant {number} of {len(made)}"
        if not any(
            _notices(again(faulty, checks[name], words, names), names) for name, names in tests.items() if names
        ):
            survivors.append(str(mutant))
    return StrengthReport(len(made) - len(survivors), len(made), tuple(survivors))


def _notices(result: VerificationResult, names: Sequence[str]) -> bool:
    return died(result) or any(result.tests.get(name) != "passed" for name in names)


def reasons(report: StrengthReport, least: int) -> list[VerdictReason]:
    """Refuse a change of which fewer mutants are noticed than the given percentage."""
    if not report.total or 100 * report.noticed >= least * report.total:
        return []
    return [
        VerdictReason(
            Decision.RETRY, f"{report}, and at least {least} % are required (--strength-min)", details=report.unnoticed
        )
    ]
