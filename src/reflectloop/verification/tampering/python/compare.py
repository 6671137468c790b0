"""Compare a test with its former version: marks, cases, assertions, and the origin of its values."""

from __future__ import annotations

import ast
import builtins
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import Grade
from reflectloop.verification.tampering.python.assertion_strength import (
    Claim,
    claim,
    compare,
    grade_of_replaced,
    same_sides,
)
from reflectloop.verification.tampering.python.bypasses import in_test
from reflectloop.verification.tampering.python.checks import Assertion, last_name
from reflectloop.verification.tampering.python.expanded import WITHIN, folded
from reflectloop.verification.tampering.python.flow import Skip
from reflectloop.verification.tampering.python.pairing import Ledger
from reflectloop.verification.tampering.python.rows import ParameterTable, losses
from reflectloop.verification.tampering.python.suite import SuiteFunction
from reflectloop.verification.tampering.python.values import (
    holds_here,
    is_literal,
    is_written,
    same_platforms,
    same_values,
    tautology,
)
from reflectloop.verification.tampering.python.verdict import LocatedVerdict, TamperVerdict, short, side_by_side

_ENVIRONMENT = lazy(
    r"\b(?:version_info|platform|PYPY|IS_|HAS_|PY3|WINDOWS|os\.name|implementation)\b|is called$|sys\.|_?is_pypy"
)
_COUNTED = lazy(r"range\((?:[1-9]\d*|0, [1-9]\d*)\)")  # a loop that runs at least once
_NO_CODE = frozenset({"", "format", "join", "encode", "decode", "dedent", "replace", "strip"})  # methods of texts
_SIMILAR = 0.6
_MANY = 40


class NewFileContext(NamedTuple):
    """The assertions and tables that the new file offers a test beyond its own lines."""

    skeletons: Callable[[], frozenset[str]]  # of new assertions in functions the test calls
    tables: Sequence[ParameterTable]
    ledger: Ledger


def compared(
    old: SuiteFunction, new: SuiteFunction, around: NewFileContext, old_tables: Sequence[ParameterTable]
) -> Iterator[LocatedVerdict]:
    """Yield everything the new version of a test checks less or differently."""
    if old.collected and any(mark.unconditional for mark in old.marks):
        return  # nothing was checked
    yield from marks_added(old.marks, new.marks)
    yield from _rows(old, new, around, old_tables)
    if old.body == new.body and old.conditions == new.conditions and _signature(old) == _signature(new):
        return
    yield from _decorators(old, new)
    yield from _mocks(old, new)
    if _emptied(old, new):
        yield LocatedVerdict(new.line, TamperVerdict("test-emptied", "it no longer does anything"))
        return
    yield from in_test(old, new)
    if old.body == new.body and old.conditions == new.conditions:
        return
    if added := [condition for condition in new.conditions if condition not in old.conditions]:
        yield LocatedVerdict(
            new.line,
            TamperVerdict("assert-conditional", f"it is now defined only if `{short(added[0])}`", _grade(added)),
        )
    yield from _demands(old, new, around)
    yield from _values(old, new)


def _rows(
    old: SuiteFunction, new: SuiteFunction, around: NewFileContext, old_tables: Sequence[ParameterTable]
) -> Iterator[LocatedVerdict]:
    """Yield cases the test no longer runs over, unless each of them is still asserted in another form."""
    results = list(losses(old_tables, around.tables))
    used = _names_used(old)
    cases = math.prod(table.distinct(used) for table in old_tables)
    parameters = used & {name.strip() for table in old_tables for name in table.names.split(",")}
    moved = bool(results and cases) and around.ledger.has_all(old, new, cases, parameters)
    for line, verdict in results:
        if not (moved and verdict.rule.startswith("cases-")):
            yield LocatedVerdict(line, verdict)


def _names_used(case: SuiteFunction) -> set[str]:
    """Return the names that a test reads, other than in the messages of its assertions."""
    messages = {
        id(part)
        for node in ast.walk(case.node)
        if isinstance(node, ast.Assert) and node.msg
        for part in ast.walk(node.msg)
    }
    return {node.id for node in ast.walk(case.node) if isinstance(node, ast.Name) and id(node) not in messages}


def _signature(case: SuiteFunction) -> tuple[str, ...]:
    """Return the parts of a function that its body lacks: its kind, its arguments and its decorators."""
    decorators = map(ast.unparse, case.node.decorator_list)
    return (type(case.node).__name__, ast.unparse(case.node.args), str(case.collected), *decorators)


def marks_added(old: Sequence[Skip], new: Sequence[Skip]) -> Iterator[LocatedVerdict]:
    """Yield skips that are new, or have another condition, which is for a person to judge."""
    known = list(old)
    fresh = []
    for mark in new:
        same = next((other for other in known if _same_skip(other, mark)), None)
        if same is not None:
            known.remove(same)
        elif not any(other.kind == mark.kind and not other.conditions for other in known):
            fresh.append(mark)
    for mark in fresh:
        here = holds_here(mark.conditions)
        grade: Grade = "suspect" if here is False else "weakening"
        former = next((other for other in known if other.kind == mark.kind and other.conditions), None)
        if former is not None and mark.conditions and here is not True:
            known.remove(former)
            yield LocatedVerdict(
                mark.line, TamperVerdict("skip-changed", side_by_side(_told(former), _told(mark)), grade)
            )
        else:
            yield LocatedVerdict(mark.line, TamperVerdict("skip-added", f"`{short(_told(mark))}`", grade))


def _same_skip(old: Skip, new: Skip) -> bool:
    """Return True if both skip on the same condition, or on the same name whose value may be computed again."""
    spelled = old.what == new.what and new.what.startswith(("@", "pytestmark"))
    platforms = old.kind == new.kind and same_platforms(old.conditions, new.conditions)
    computed = spelled and bool(new.conditions) and holds_here(new.conditions) is not True
    parts = _parts(old.conditions)
    narrower = old.kind == new.kind and bool(parts) and parts <= _parts(new.conditions)
    return old.meaning == new.meaning or platforms or computed or narrower


def _parts(conditions: Sequence[str]) -> set[str]:
    """Return the conditions that must all hold, each `and` taken apart."""
    out = set[str]()
    for condition in conditions:
        try:
            node = ast.parse(condition, mode="eval").body
        except (SyntaxError, ValueError):
            return {condition}
        values = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
        out |= {ast.unparse(value) for value in values}
    return out


def _told(mark: Skip) -> str:
    """Return a skip with the condition under which it is reached, if its text does not say it."""
    shown = [condition for condition in mark.conditions if not mark.what.startswith(("@", "pytestmark"))]
    return f"{mark.what} if {' and '.join(shown)}" if shown else mark.what


_KNOWN_DECORATORS = lazy(
    r"(?:pytest\.)?mark\.(?!flaky)\w+|.*\bpatch\b.*|given|example|settings|.*\.(?:given|example|settings)|(?:pytest\.)?fixture|"
    r"staticmethod|classmethod|property|.*parametrize|responses\.activate|.*freeze_time|(?:contextlib\.)?\w*contextmanager|"
    r"override|.*\.override|expand|.*\.expand|.*\b(?:skip\w*|xfail|expectedFailure)"
)


def _decorators(old: SuiteFunction, new: SuiteFunction) -> Iterator[LocatedVerdict]:
    """Yield new unknown decorators, which may retry, skip or swallow failures."""
    known = {decorator.partition("(")[0] for decorator in old.decorators}
    skips = {mark.line for mark in new.marks}
    for decorator, meaning in zip(new.node.decorator_list, new.decorators, strict=True):
        name = meaning.partition("(")[0]
        if name not in known and decorator.lineno not in skips and not _KNOWN_DECORATORS.fullmatch(name):
            what = f"it is now under `@{short(ast.unparse(decorator))}`"
            yield LocatedVerdict(decorator.lineno, TamperVerdict("decorator-added", what, "suspect"))


def _emptied(old: SuiteFunction, new: SuiteFunction) -> bool:
    return not _does_nothing(old.body) and _does_nothing(new.body)


def _does_nothing(body: str) -> bool:
    return all(
        line.strip() in {"", "pass", "...", "return", "return None", "assert True"} for line in body.splitlines()
    )


def _demands(old: SuiteFunction, new: SuiteFunction, around: NewFileContext) -> Iterator[LocatedVerdict]:
    ledger = around.ledger
    removed, new_checks, loosely = list(old.checks), list(new.checks), set[int]()
    counts = [Counter(check.text for check in case.checks) for case in (old, new)]
    for exactly in (True, False):
        for check in list(removed):
            # Where one of several equal texts is gone, what they are about tells which.
            ambiguous = counts[0][check.text] > counts[1][check.text]
            same = next(
                (
                    candidate
                    for candidate in new_checks
                    if candidate.text == check.text
                    and (not (exactly and ambiguous) or ledger.texts(old, check) <= ledger.new_texts(new, candidate))
                ),
                None,
            )
            if same is not None:
                removed.remove(check)
                new_checks.remove(same)
                loosely |= set() if exactly else {id(same.node)}
                yield from _hindered(check, same)
    for check in list(removed):
        standing = ledger.standing(old, check, new)
        if standing is not None and id(standing.node) not in loosely:
            removed.remove(check)
            new_checks = [candidate for candidate in new_checks if candidate.node is not standing.node]
            yield from _hindered(check, standing._replace(loops=check.loops))  # the loops are written out
    lost = [check for check in removed if not _moved(check, old, new, new_checks, ledger)]
    yield from _rewritten(lost, new_checks, around, new)


def _moved(
    check: Assertion, old: SuiteFunction, new: SuiteFunction, new_checks: Sequence[Assertion], ledger: Ledger
) -> bool:
    """Return True if another test makes this assertion now, and this one asserts nothing else of the same thing."""
    wanted = ledger.texts(old, check)
    fresh = {id(candidate.node) for candidate in new_checks}
    stays = {_looked_at(text) for part in ledger.of_new(new) if id(part.check.node) in fresh for text in part.texts}
    return stays.isdisjoint(map(_looked_at, wanted)) and ledger.take(check, wanted)


@lru_cache(maxsize=4096)
def _looked_at(text: str) -> str:
    asserted, _, context = text.partition(WITHIN)
    try:
        return f"{claim(ast.parse(asserted, mode='eval').body).subject}{context}"
    except (SyntaxError, ValueError):
        return text  # of an expected exception, with what raises it


def _hindered(old: Assertion, new: Assertion) -> Iterator[LocatedVerdict]:
    """Yield new obstacles between an unchanged assertion and its failure."""
    if new.swallowed and not old.swallowed:
        message = f"a failure of `{short(new.text)}` is swallowed by `except {new.swallowed}`"
        yield LocatedVerdict(new.line, TamperVerdict("failure-swallowed", message))
    new_conditions = [condition for condition in new.conditions if condition not in old.conditions]
    if new_conditions and len(new.conditions) > len(old.conditions):
        message = f"`{short(new.text)}` is now checked only if `{short(new_conditions[0])}`"
        yield LocatedVerdict(new.line, TamperVerdict("assert-conditional", message, _grade(new_conditions)))
    if len(new.loops) > len(old.loops) and not _elements(new.loops[-1]):  # a written list with elements is run through
        message = f"`{short(new.text)}` is now checked only in a loop over `{short(new.loops[-1])}`"
        grade: Grade = "suspect" if _COUNTED.fullmatch(new.loops[-1]) else "weakening"
        yield LocatedVerdict(new.line, TamperVerdict("assert-conditional", message, grade))
    elif new.loops != old.loops:
        yield from (
            LocatedVerdict(new.line, TamperVerdict("loop-cut", message)) for message in _cut_loops(old.loops, new.loops)
        )


def _cut_loops(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for old_loop, new_loop in zip(old, new, strict=False):
        before, after = _elements(old_loop), _elements(new_loop)
        if old_loop != new_loop and (
            new_loop.partition("[")[0] == old_loop or (before and after is not None and len(after) < len(before))
        ):
            yield f"the loop {side_by_side(old_loop, new_loop)} is shorter"


def _elements(loop: str) -> list[ast.expr] | None:
    node = ast.parse(loop, mode="eval").body
    return node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else None


def _grade(conditions: Sequence[str]) -> Grade:
    """Return a weakening unless the conditions hold here, or only ask about the platform or the version."""
    asks = [condition for condition in conditions if holds_here([condition]) is not True]
    return "suspect" if all(_ENVIRONMENT.search(condition) for condition in asks) else "weakening"


def _rewritten(
    removed: list[Assertion], new_checks: list[Assertion], around: NewFileContext, new: SuiteFunction
) -> Iterator[LocatedVerdict]:
    lost: list[Assertion] = []
    waiting = list(new_checks)
    for check in [candidate for candidate in removed if not _elsewhere(candidate, around, new)][:_MANY]:
        partner = _partner(check, waiting)
        if partner is None:
            lost.append(check)
            continue
        waiting.remove(partner)
        verdict = compare(check, partner) or _other_code(check, partner, new)
        yield from _hindered(check, partner)
        if verdict:
            yield LocatedVerdict(partner.line, verdict)
    yield from _lost(lost, waiting, new)


def _other_code(old: Assertion, new: Assertion, test: SuiteFunction) -> TamperVerdict | None:
    """Report an assertion about a function that the test no longer calls, though it expects the same."""
    subjects = [_subject(check) for check in (old, new)]
    if subjects[0] == subjects[1]:
        return None
    before, after = (
        {last_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for tree in (ast.parse(subjects[0]), test.node)
    )
    if {name for name in before - after if name not in _NO_CODE and not hasattr(builtins, name)}:
        return TamperVerdict("assert-replaced", side_by_side(old.text, new.text), "suspect")
    return None


def _subject(check: Assertion) -> str:
    """Return the part of an assertion that is looked at, without the part that is expected."""
    if check.kind == "claim":
        return claim(check.node).subject
    return ast.unparse(check.node.args[0]) if isinstance(check.node, ast.Call) and check.node.args else check.text


def _lost(lost: list[Assertion], waiting: list[Assertion], new: SuiteFunction) -> Iterator[LocatedVerdict]:
    for check in waiting:
        if tautology(check.node) and lost:
            yield LocatedVerdict(
                check.line, TamperVerdict("assert-always-true", f"`assert {short(check.text)}` always passes")
            )
    honest = [check for check in waiting if not tautology(check.node)]
    if lost and len(honest) >= len(lost):
        number = f"{len(lost)} assertions replaced, first " if len(lost) > 1 else ""
        message = f"{number}{side_by_side(lost[0].text, honest[0].text)}"
        grade = grade_of_replaced(lost[0], honest[0])
        yield LocatedVerdict(honest[0].line, TamperVerdict("assert-replaced", message, grade))
    else:
        for check in lost:
            yield LocatedVerdict(
                new.line, TamperVerdict("assert-removed", f"`{short(_quoted(check))}` is no longer checked")
            )


def _quoted(check: Assertion) -> str:
    """Return an assertion, with the code that must raise where it expects an exception."""
    return ": ".join([check.text, *(ast.unparse(statement) for statement in check.inside[:1])])


def _partner(check: Assertion, waiting: Sequence[Assertion]) -> Assertion | None:
    """Return the new assertion that most likely replaced the old one, or None."""
    scored = [(_score(check, candidate), -at, candidate) for at, candidate in enumerate(waiting[:_MANY])]
    best = max(scored, key=lambda candidate: candidate[:2], default=None)
    return best[2] if best is not None and best[0] >= _SIMILAR else None


def _score(old: Assertion, new: Assertion) -> float:
    similarity = SequenceMatcher(None, old.text, new.text, autojunk=False).ratio()
    if old.kind == new.kind == "raises":
        return 1.0 + similarity
    if old.kind == new.kind == "claim" and (
        claim(old.node).subject == claim(new.node).subject or same_sides(old.node, new.node)
    ):
        return 2.0 + similarity
    return similarity


@lru_cache(maxsize=4096)
def skeleton(text: str) -> str:
    """Return an assertion with every name and value blanked, which survives a move into a function."""
    copied = ast.parse(text, mode="eval")
    for node in ast.walk(copied):
        if isinstance(node, ast.Name):
            node.id = "_"
    return re.sub(
        r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|\b\d[\d.e+-]*\b|\b(?:True|False|None)\b", "_", ast.unparse(copied)
    )


def _elsewhere(check: Assertion, around: NewFileContext, new: SuiteFunction) -> bool:
    """Return True if the assertion moved to a function the test calls, or to a row of its cases."""
    if _handed_on(check, new) and skeleton(check.text) in around.skeletons():
        return True
    rows = {row.text for table in around.tables for row in table.rows or ()}
    values = [ast.unparse(node) for node in ast.walk(check.node) if isinstance(node, ast.Constant)]
    known = {skeleton(other.text) for other in new.checks}
    return bool(values) and skeleton(check.text) in known and any(all(value in row for value in values) for row in rows)


def _handed_on(check: Assertion, new: SuiteFunction) -> bool:
    """Return True if one line of the test still names everything the assertion was about."""
    parts = [node for node in ast.walk(check.node) if isinstance(node, ast.Name | ast.Constant)]
    names = {ast.unparse(node) for node in parts}
    return any(all(name in line for name in names) for line in new.body.splitlines() if "(" in line)


def _values(old: SuiteFunction, new: SuiteFunction) -> Iterator[LocatedVerdict]:
    """Yield values under test that used to be computed and are now literals."""
    before, after = _assigned(old.node), _assigned(new.node)
    claims = [claim(check.node) for check in new.checks if check.kind == "claim"]
    subjects = {item.subject for item in claims if _written(item.expected, after)}
    for name in sorted(subjects & after.keys()):
        written = is_literal(after.get(ast.unparse(after[name]), after[name]))
        if written and (name not in before or not is_literal(before[name])) and not _keeps_claims(name, old, new):
            message = f"`{name}` is no longer computed but set to `{short(ast.unparse(after[name]))}`"
            yield LocatedVerdict(after[name].lineno, TamperVerdict("value-written-down", message))
    yield from expected_names(claims, before, after)
    if not new.collected and _gives_value(new.node) and not _gives_value(old.node):
        message = "it no longer computes its result but returns a literal"
        yield LocatedVerdict(new.line, TamperVerdict("value-written-down", message, "suspect"))


def _keeps_claims(name: str, old: SuiteFunction, new: SuiteFunction) -> bool:
    """Return True if each claim about a name is still made about the value that it had; the test only got longer."""
    first, last = (Counter(_claims_about(name, function)) for function in (old, new))
    return bool(first) and first <= last


def _claims_about(name: str, function: SuiteFunction) -> Iterator[tuple[str, str]]:
    """Yield the claims about a name, each with the value that was last given to it before."""
    given = [item for item in ast.walk(function.node) if isinstance(item, ast.Assign) and len(item.targets) == 1]
    for check in function.checks:
        if check.kind == "claim" and claim(check.node).subject == name:
            above = [item for item in given if ast.unparse(item.targets[0]) == name and item.lineno < check.node.lineno]
            value = max(above, key=lambda item: item.lineno, default=None)
            yield ast.unparse(check.node), ast.unparse(value.value) if value else ""


def _gives_value(node: ast.AST) -> bool:
    results = [part.value for part in ast.walk(node) if isinstance(part, ast.Return | ast.Yield) and part.value]
    return bool(results) and all(is_literal(result) for result in results)


def expected_names(
    claims: Sequence[Claim], before: Mapping[str, ast.expr], after: Mapping[str, ast.expr]
) -> Iterator[LocatedVerdict]:
    """Yield names of expected values whose literal changed."""
    names = {ast.unparse(item.expected) for item in claims if item.expected is not None}
    names |= {item.subject for item in claims if item.expected is not None}
    for name in sorted(names & before.keys() & after.keys()):
        old, new = before[name], after[name]
        if is_written(old) and is_written(new) and not same_values(folded(old), folded(new)):
            message = (
                f"`{name}`, which is expected, is another value: {side_by_side(ast.unparse(old), ast.unparse(new))}"
            )
            yield LocatedVerdict(new.lineno, TamperVerdict("expected-changed", message, "suspect"))


def _written(expected: ast.expr | None, assigned: Mapping[str, ast.expr]) -> bool:
    """Return True if the expected value is a literal, directly or through a name."""
    return expected is None or is_literal(expected) or is_literal(assigned.get(ast.unparse(expected)))


def _assigned(node: ast.AST) -> Mapping[str, ast.expr]:
    values: dict[str, ast.expr] = {}
    for part in ast.walk(node):
        if isinstance(part, ast.Assign) and len(part.targets) == 1:
            values[ast.unparse(part.targets[0])] = part.value
    return values


def _mocks(old: SuiteFunction, new: SuiteFunction) -> Iterator[LocatedVerdict]:
    """Yield new mocks of what the test itself calls."""
    known = {target for target, _ in _patched(old.node)}
    calls = {last_name(part.func) for part in ast.walk(new.node) if isinstance(part, ast.Call)}
    for target, line in _patched(new.node):
        if target not in known and target.rpartition(".")[2] in calls:
            yield LocatedVerdict(
                line, TamperVerdict("code-mocked", f"it replaces `{target}`, which it calls, by a mock")
            )


def _patched(node: ast.AST) -> Iterator[tuple[str, int]]:
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        spelled = ast.unparse(call.func)
        constants = [str(argument.value) for argument in call.args[:2] if isinstance(argument, ast.Constant)]
        if spelled.endswith(("patch", "patch.object", "monkeypatch.setattr")) and constants:
            yield constants[-1] if "object" in spelled or len(constants) > 1 else constants[0], call.lineno
