"""Compare a test with its former version: marks, cases, assertions, and the origin of its values."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from reflectloop.verification.tampering.python.assertion_strength import Claim, claim, compare
from reflectloop.verification.tampering.python.bypasses import in_test
from reflectloop.verification.tampering.python.checks import Assertion, last_name
from reflectloop.verification.tampering.python.flow import Skip
from reflectloop.verification.tampering.python.rows import ParameterTable, losses
from reflectloop.verification.tampering.python.suite import SuiteFunction
from reflectloop.verification.tampering.python.values import is_literal, tautology
from reflectloop.verification.tampering.python.verdict import Grade, LocatedVerdict, TamperVerdict

_ENVIRONMENT = re.compile(
    r"\b(?:version_info|platform|PYPY|IS_|HAS_|PY3|WINDOWS|os\.name|implementation)\b|is called$|sys\.|_?is_pypy"
)
_SIMILAR = 0.6
_MANY = 40


class NewFileContext(NamedTuple):
    """The assertions and tables that the new file offers a test beyond its own lines."""

    skeletons: Callable[[], frozenset[str]]  # of new assertions in functions the test calls
    tables: Sequence[ParameterTable]


def compared(
    old: SuiteFunction, new: SuiteFunction, around: NewFileContext, old_tables: Sequence[ParameterTable]
) -> Iterator[LocatedVerdict]:
    """Yield everything the new version of a test checks less or differently."""
    yield from marks_added(old.marks, new.marks, new.name)
    for line, verdict in losses(old_tables, around.tables):
        yield LocatedVerdict(line, verdict)
    yield from _decorators(old, new)
    yield from _mocks(old, new)
    if _emptied(old, new):
        yield LocatedVerdict(new.line, TamperVerdict("test-emptied", f"{new.name} no longer does anything"))
        return
    yield from in_test(old, new)
    if old.body == new.body and old.conditions == new.conditions:
        return
    if added := [condition for condition in new.conditions if condition not in old.conditions]:
        yield LocatedVerdict(
            new.line,
            TamperVerdict("assert-conditional", f"{new.name} is now defined only if `{added[0][:80]}`", _grade(added)),
        )
    yield from _demands(old, new, around)
    yield from _values(old, new)


def marks_added(old: Sequence[Skip], new: Sequence[Skip], name: str) -> Iterator[LocatedVerdict]:
    """Yield skips that are new or of another kind; the same kind under another condition is for a person to judge."""
    known = [_plain(mark.what) for mark in old]
    for mark in new:
        plain = _plain(mark.what)
        if plain in known:
            known.remove(plain)
        elif len(new) > len(old) or not _same_kind(mark.what, known):
            yield LocatedVerdict(mark.line, TamperVerdict("skip-added", f"{name}: {mark.what}"))
        else:
            yield LocatedVerdict(mark.line, TamperVerdict("skip-changed", f"{name}: {mark.what}", "suspect"))


_KNOWN_DECORATORS = re.compile(
    r"(?:pytest\.)?mark\.(?!flaky)\w+|.*\bpatch\b.*|given|example|settings|.*\.(?:given|example|settings)|(?:pytest\.)?fixture|"
    r"staticmethod|classmethod|property|.*parametrize|responses\.activate|.*freeze_time|(?:contextlib\.)?\w*contextmanager|"
    r"override|.*\.override|expand|.*\.expand|.*\b(?:skip\w*|xfail|expectedFailure)"
)


def _decorators(old: SuiteFunction, new: SuiteFunction) -> Iterator[LocatedVerdict]:
    """Yield new unknown decorators, which may retry, skip or swallow failures."""
    known = {ast.unparse(decorator).partition("(")[0] for decorator in old.node.decorator_list}
    for decorator in new.node.decorator_list:
        name = ast.unparse(decorator).partition("(")[0]
        if name not in known and not _KNOWN_DECORATORS.fullmatch(name):
            yield LocatedVerdict(
                decorator.lineno, TamperVerdict("decorator-added", f"{new.name} is now under `@{name}`", "suspect")
            )


def _plain(mark: str) -> str:
    return re.sub(r",?\s*reason=(?:'[^']*'|\"[^\"]*\")", "", mark)


def _same_kind(mark: str, known: list[str]) -> bool:
    return any(mark.partition("(")[0] == known_mark.partition("(")[0] for known_mark in known)


def _emptied(old: SuiteFunction, new: SuiteFunction) -> bool:
    return not _does_nothing(old.body) and _does_nothing(new.body)


def _does_nothing(body: str) -> bool:
    return all(
        line.strip() in {"", "pass", "...", "return", "return None", "assert True"} for line in body.splitlines()
    )


def _demands(old: SuiteFunction, new: SuiteFunction, around: NewFileContext) -> Iterator[LocatedVerdict]:
    removed, new_checks = list(old.checks), list(new.checks)
    for check in old.checks:
        same = next((candidate for candidate in new_checks if candidate.text == check.text), None)
        if same is not None:
            removed.remove(check)
            new_checks.remove(same)
            yield from _hindered(check, same)
    yield from _rewritten(removed, new_checks, around, new)


def _hindered(old: Assertion, new: Assertion) -> Iterator[LocatedVerdict]:
    """Yield new obstacles between an unchanged assertion and its failure."""
    if new.swallowed and not old.swallowed:
        message = f"a failure of `{new.text[:60]}` is swallowed by `except {new.swallowed}`"
        yield LocatedVerdict(new.line, TamperVerdict("failure-swallowed", message))
    new_conditions = [condition for condition in new.conditions if condition not in old.conditions]
    if new_conditions and len(new.conditions) > len(old.conditions):
        message = f"`{new.text[:60]}` is now checked only if `{new_conditions[0][:60]}`"
        yield LocatedVerdict(new.line, TamperVerdict("assert-conditional", message, _grade(new_conditions)))
    if len(new.loops) > len(old.loops):
        message = f"`{new.text[:60]}` is now checked only in a loop over `{new.loops[-1][:40]}`"
        yield LocatedVerdict(new.line, TamperVerdict("assert-conditional", message, "suspect"))
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
            yield f"the loop over `{old_loop[:60]}` now runs over `{new_loop[:60]}` only"


def _elements(loop: str) -> list[ast.expr] | None:
    node = ast.parse(loop, mode="eval").body
    return node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else None


def _grade(conditions: Sequence[str]) -> Grade:
    return "suspect" if all(_ENVIRONMENT.search(condition) for condition in conditions) else "weakening"


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
        verdict = compare(check, partner)
        yield from _hindered(check, partner)
        if verdict:
            yield LocatedVerdict(partner.line, verdict)
    yield from _lost(lost, waiting, new)


def _lost(lost: list[Assertion], waiting: list[Assertion], new: SuiteFunction) -> Iterator[LocatedVerdict]:
    for check in waiting:
        if tautology(check.node) and lost:
            yield LocatedVerdict(
                check.line, TamperVerdict("assert-always-true", f"`assert {check.text[:60]}` always passes")
            )
    honest = [check for check in waiting if not tautology(check.node)]
    if lost and len(honest) >= len(lost):
        message = f"{len(lost)} assertion(s) replaced, first `{lost[0].text[:80]}`"
        yield LocatedVerdict(honest[0].line, TamperVerdict("assert-replaced", message, "suspect"))
    else:
        for check in lost:
            yield LocatedVerdict(
                new.line, TamperVerdict("assert-removed", f"{new.name} no longer checks `{check.text[:80]}`")
            )


def _partner(check: Assertion, waiting: Sequence[Assertion]) -> Assertion | None:
    """Return the new assertion that most likely replaced the old one, or None."""
    scored = [(_score(check, candidate), -at, candidate) for at, candidate in enumerate(waiting[:_MANY])]
    best = max(scored, key=lambda candidate: candidate[:2], default=None)
    return best[2] if best is not None and best[0] >= _SIMILAR else None


def _score(old: Assertion, new: Assertion) -> float:
    similarity = SequenceMatcher(None, old.text, new.text, autojunk=False).ratio()
    if old.kind == new.kind == "raises":
        return 1.0 + similarity
    if old.kind == new.kind == "claim" and claim(old.node).subject == claim(new.node).subject:
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
        if is_literal(after.get(ast.unparse(after[name]), after[name])) and (
            name not in before or not is_literal(before[name])
        ):
            message = f"`{name}` is no longer computed but set to `{ast.unparse(after[name])[:40]}`"
            yield LocatedVerdict(after[name].lineno, TamperVerdict("value-written-down", message))
    yield from expected_names(claims, before, after)
    if not new.collected and _gives_value(new.node) and not _gives_value(old.node):
        message = f"{new.name} no longer computes its result but returns a literal"
        yield LocatedVerdict(new.line, TamperVerdict("value-written-down", message, "suspect"))


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
        if is_literal(old) and is_literal(new) and ast.unparse(old) != ast.unparse(new):
            message = f"the expected value `{name}` changed from `{ast.unparse(old)[:40]}` to `{ast.unparse(new)[:40]}`"
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
                line, TamperVerdict("code-mocked", f"{new.name} replaces `{target}`, which it calls, by a mock")
            )


def _patched(node: ast.AST) -> Iterator[tuple[str, int]]:
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        spelled = ast.unparse(call.func)
        constants = [str(argument.value) for argument in call.args[:2] if isinstance(argument, ast.Constant)]
        if spelled.endswith(("patch", "patch.object", "monkeypatch.setattr")) and constants:
            yield constants[-1] if "object" in spelled or len(constants) > 1 else constants[0], call.lineno
