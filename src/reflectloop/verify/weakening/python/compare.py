"""Compares a test with what it was: marks, cases, demands, and where its values come from."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from reflectloop.verify.weakening.python.checks import Check, last_name
from reflectloop.verify.weakening.python.flow import Skip
from reflectloop.verify.weakening.python.rows import Table, losses
from reflectloop.verify.weakening.python.strength import Claim, claim, compare
from reflectloop.verify.weakening.python.suite import Case
from reflectloop.verify.weakening.python.tricks import in_test
from reflectloop.verify.weakening.python.values import is_literal, tautology
from reflectloop.verify.weakening.python.verdict import Grade, Said, Verdict

_ENVIRONMENT = re.compile(
    r"\b(?:version_info|platform|PYPY|IS_|HAS_|PY3|WINDOWS|os\.name|implementation)\b|is called$|sys\.|_?is_pypy"
)
_SIMILAR = 0.6
_MANY = 40


class Surroundings(NamedTuple):
    """What the new file offers a test besides its own lines."""

    skeletons: Callable[[], frozenset[str]]  # of demands newly made by functions the test calls
    tables: Sequence[Table]


def compared(old: Case, new: Case, around: Surroundings, old_tables: Sequence[Table]) -> Iterator[Said]:
    yield from marks_added(old.marks, new.marks, new.name)
    for line, verdict in losses(old_tables, around.tables):
        yield Said(line, verdict)
    yield from _decorators(old, new)
    yield from _mocks(old, new)
    if _emptied(old, new):
        yield Said(new.line, Verdict("test-emptied", f"{new.name} no longer does anything"))
        return
    yield from in_test(old, new)
    if old.body == new.body and old.conditions == new.conditions:
        return
    if added := [each for each in new.conditions if each not in old.conditions]:
        yield Said(
            new.line,
            Verdict("assert-conditional", f"{new.name} is now defined only if `{added[0][:80]}`", _grade(added)),
        )
    yield from _demands(old, new, around)
    yield from _values(old, new)


def marks_added(old: Sequence[Skip], new: Sequence[Skip], name: str) -> Iterator[Said]:
    """One more skip than before, or one of another kind; the same under another condition is for a person to see."""
    known = [_plain(each.what) for each in old]
    for mark in new:
        plain = _plain(mark.what)
        if plain in known:
            known.remove(plain)
        elif len(new) > len(old) or not _relative(mark.what, known):
            yield Said(mark.line, Verdict("skip-added", f"{name}: {mark.what}"))
        else:
            yield Said(mark.line, Verdict("skip-changed", f"{name}: {mark.what}", "suspect"))


_KNOWN_DECORATORS = re.compile(
    r"(?:pytest\.)?mark\.(?!flaky)\w+|.*\bpatch\b.*|given|example|settings|.*\.(?:given|example|settings)|(?:pytest\.)?fixture|"
    r"staticmethod|classmethod|property|.*parametrize|responses\.activate|.*freeze_time|(?:contextlib\.)?\w*contextmanager|"
    r"override|.*\.override|expand|.*\.expand|.*\b(?:skip\w*|xfail|expectedFailure)"
)


def _decorators(old: Case, new: Case) -> Iterator[Said]:
    """One that is new and not known may retry, skip or swallow."""
    known = {ast.unparse(each).partition("(")[0] for each in old.node.decorator_list}
    for decorator in new.node.decorator_list:
        name = ast.unparse(decorator).partition("(")[0]
        if name not in known and not _KNOWN_DECORATORS.fullmatch(name):
            yield Said(decorator.lineno, Verdict("decorator-added", f"{new.name} is now under `@{name}`", "suspect"))


def _plain(mark: str) -> str:
    return re.sub(r",?\s*reason=(?:'[^']*'|\"[^\"]*\")", "", mark)


def _relative(mark: str, known: list[str]) -> bool:
    return any(mark.partition("(")[0] == each.partition("(")[0] for each in known)


def _emptied(old: Case, new: Case) -> bool:
    return not _does_nothing(old.body) and _does_nothing(new.body)


def _does_nothing(body: str) -> bool:
    return all(
        line.strip() in {"", "pass", "...", "return", "return None", "assert True"} for line in body.splitlines()
    )


def _demands(old: Case, new: Case, around: Surroundings) -> Iterator[Said]:
    gone, come = list(old.checks), list(new.checks)
    for check in old.checks:
        same = next((each for each in come if each.text == check.text), None)
        if same is not None:
            gone.remove(check)
            come.remove(same)
            yield from _standing(check, same)
    yield from _rewritten(gone, come, around, new)


def _standing(old: Check, new: Check) -> Iterator[Said]:
    """The same demand, but something now stands between it and failure."""
    if new.swallowed and not old.swallowed:
        words = f"a failure of `{new.text[:60]}` is swallowed by `except {new.swallowed}`"
        yield Said(new.line, Verdict("failure-swallowed", words))
    added = [each for each in new.conditions if each not in old.conditions]
    if added and len(new.conditions) > len(old.conditions):
        words = f"`{new.text[:60]}` is now demanded only if `{added[0][:60]}`"
        yield Said(new.line, Verdict("assert-conditional", words, _grade(added)))
    if len(new.loops) > len(old.loops):
        words = f"`{new.text[:60]}` is now demanded only in a loop over `{new.loops[-1][:40]}`"
        yield Said(new.line, Verdict("assert-conditional", words, "suspect"))
    elif new.loops != old.loops:
        yield from (Said(new.line, Verdict("loop-cut", words)) for words in _cut_loops(old.loops, new.loops))


def _cut_loops(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for was, now in zip(old, new, strict=False):
        before, after = _elements(was), _elements(now)
        if was != now and (now.partition("[")[0] == was or (before and after is not None and len(after) < len(before))):
            yield f"the loop over `{was[:60]}` now runs over `{now[:60]}` only"


def _elements(loop: str) -> list[ast.expr] | None:
    node = ast.parse(loop, mode="eval").body
    return node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else None


def _grade(conditions: Sequence[str]) -> Grade:
    return "suspect" if all(_ENVIRONMENT.search(each) for each in conditions) else "weakening"


def _rewritten(gone: list[Check], come: list[Check], around: Surroundings, new: Case) -> Iterator[Said]:
    lost: list[Check] = []
    waiting = list(come)
    for check in [each for each in gone if not _elsewhere(each, around, new)][:_MANY]:
        partner = _partner(check, waiting)
        if partner is None:
            lost.append(check)
            continue
        waiting.remove(partner)
        verdict = compare(check, partner)
        yield from _standing(check, partner)
        if verdict:
            yield Said(partner.line, verdict)
    yield from _lost(lost, waiting, new)


def _lost(lost: list[Check], waiting: list[Check], new: Case) -> Iterator[Said]:
    for check in waiting:
        if tautology(check.node) and lost:
            yield Said(check.line, Verdict("assert-always-true", f"`assert {check.text[:60]}` always holds"))
    honest = [each for each in waiting if not tautology(each.node)]
    if lost and len(honest) >= len(lost):
        words = f"{len(lost)} assertion(s) replaced, first `{lost[0].text[:80]}`"
        yield Said(honest[0].line, Verdict("assert-replaced", words, "suspect"))
    else:
        for check in lost:
            yield Said(new.line, Verdict("assert-removed", f"{new.name} no longer demands `{check.text[:80]}`"))


def _partner(check: Check, waiting: Sequence[Check]) -> Check | None:
    """The new demand that most likely took the old one's place."""
    scored = [(_score(check, each), -at, each) for at, each in enumerate(waiting[:_MANY])]
    best = max(scored, key=lambda each: each[:2], default=None)
    return best[2] if best is not None and best[0] >= _SIMILAR else None


def _score(old: Check, new: Check) -> float:
    alike = SequenceMatcher(None, old.text, new.text, autojunk=False).ratio()
    if old.kind == new.kind == "raises":
        return 1.0 + alike
    if old.kind == new.kind == "claim" and claim(old.node).subject == claim(new.node).subject:
        return 2.0 + alike
    return alike


@lru_cache(maxsize=4096)
def skeleton(text: str) -> str:
    """An assertion with every name and value blanked: what stays when it is moved into a function."""
    copied = ast.parse(text, mode="eval")
    for each in ast.walk(copied):
        if isinstance(each, ast.Name):
            each.id = "_"
    return re.sub(
        r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|\b\d[\d.e+-]*\b|\b(?:True|False|None)\b", "_", ast.unparse(copied)
    )


def _elsewhere(check: Check, around: Surroundings, new: Case) -> bool:
    """Whether the demand lives on in a function the test calls, or in a row of its cases."""
    if _handed_on(check, new) and skeleton(check.text) in around.skeletons():
        return True
    rows = {row.text for table in around.tables for row in table.rows or ()}
    values = [ast.unparse(each) for each in ast.walk(check.node) if isinstance(each, ast.Constant)]
    known = {skeleton(each.text) for each in new.checks}
    return bool(values) and skeleton(check.text) in known and any(all(value in row for value in values) for row in rows)


def _handed_on(check: Check, new: Case) -> bool:
    """Whether one line of the test still names all that the demand was about."""
    parts = [each for each in ast.walk(check.node) if isinstance(each, ast.Name | ast.Constant)]
    words = {ast.unparse(each) for each in parts}
    return any(all(word in line for word in words) for line in new.body.splitlines() if "(" in line)


def _values(old: Case, new: Case) -> Iterator[Said]:
    """What is looked at used to be computed, and is written down now."""
    before, after = _assigned(old.node), _assigned(new.node)
    claims = [claim(each.node) for each in new.checks if each.kind == "claim"]
    looked_at = {each.subject for each in claims if _written(each.expected, after)}
    for name in sorted(looked_at & after.keys()):
        if is_literal(after.get(ast.unparse(after[name]), after[name])) and (
            name not in before or not is_literal(before[name])
        ):
            words = f"`{name}` is no longer computed but written down as `{ast.unparse(after[name])[:40]}`"
            yield Said(after[name].lineno, Verdict("value-written-down", words))
    yield from expected_names(claims, before, after)
    if not new.collected and _gives_value(new.node) and not _gives_value(old.node):
        words = f"{new.name} no longer computes what it gives but has it written down"
        yield Said(new.line, Verdict("value-written-down", words, "suspect"))


def _gives_value(node: ast.AST) -> bool:
    given = [each.value for each in ast.walk(node) if isinstance(each, ast.Return | ast.Yield) and each.value]
    return bool(given) and all(is_literal(each) for each in given)


def expected_names(
    claims: Sequence[Claim], before: Mapping[str, ast.expr], after: Mapping[str, ast.expr]
) -> Iterator[Said]:
    """An expected value behind a name, written down otherwise than before."""
    names = {ast.unparse(each.expected) for each in claims if each.expected is not None}
    names |= {each.subject for each in claims if each.expected is not None}
    for name in sorted(names & before.keys() & after.keys()):
        old, new = before[name], after[name]
        if is_literal(old) and is_literal(new) and ast.unparse(old) != ast.unparse(new):
            words = f"the expected value `{name}` changed from `{ast.unparse(old)[:40]}` to `{ast.unparse(new)[:40]}`"
            yield Said(new.lineno, Verdict("expected-changed", words, "suspect"))


def _written(expected: ast.expr | None, assigned: Mapping[str, ast.expr]) -> bool:
    """Whether the other side is a value too, by itself or by a name."""
    return expected is None or is_literal(expected) or is_literal(assigned.get(ast.unparse(expected)))


def _assigned(node: ast.AST) -> Mapping[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Assign) and len(each.targets) == 1:
            found[ast.unparse(each.targets[0])] = each.value
    return found


def _mocks(old: Case, new: Case) -> Iterator[Said]:
    """A stand-in for the very thing the test calls."""
    known = {target for target, _ in _patched(old.node)}
    calls = {last_name(each.func) for each in ast.walk(new.node) if isinstance(each, ast.Call)}
    for target, line in _patched(new.node):
        if target not in known and target.rpartition(".")[2] in calls:
            yield Said(line, Verdict("code-mocked", f"{new.name} replaces `{target}`, which it calls, by a stand-in"))


def _patched(node: ast.AST) -> Iterator[tuple[str, int]]:
    for each in ast.walk(node):
        if not isinstance(each, ast.Call) or not each.args:
            continue
        spelled = ast.unparse(each.func)
        words = [str(part.value) for part in each.args[:2] if isinstance(part, ast.Constant)]
        if spelled.endswith(("patch", "patch.object", "monkeypatch.setattr")) and words:
            yield words[-1] if "object" in spelled or len(words) > 1 else words[0], each.lineno
