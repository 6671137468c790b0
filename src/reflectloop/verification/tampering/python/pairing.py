"""Match the tests of two versions: by name, by content, and by what they assert; recognise renamed code."""

from __future__ import annotations

import ast
import builtins
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from typing import Literal, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.tampering.python.checks import Assertion
from reflectloop.verification.tampering.python.expanded import Expansion
from reflectloop.verification.tampering.python.suite import Suite, SuiteFunction

How = Literal["same", "renamed", "merged", "uncollected", "gone"]
Expand = Callable[[SuiteFunction], Sequence[Expansion]]
_ALIKE = 0.75
_LONGEST = 6000
_MOST = 60


class TestPair(NamedTuple):
    """An old test, its replacement, and how they were matched."""

    old: SuiteFunction
    new: SuiteFunction | None
    how: How


class Ledger:
    """The expanded assertions of all changed tests, old and new, so that one that moved is found again."""

    def __init__(self, old: Expand, new: Expand, unrolled: Expand) -> None:
        self._expand = {True: old, False: new}
        self._unrolled = unrolled  # old assertions with the names of parameters, not their values
        self._expanded: dict[tuple[bool, str, str], Sequence[Expansion]] = {}
        self._pairs: Sequence[TestPair] = ()
        self._new: Sequence[SuiteFunction] = ()

    def settle(self, matched: Sequence[TestPair], new: Sequence[SuiteFunction]) -> None:
        """Tell the ledger which tests belong together; assertions of unchanged tests cannot have moved."""
        unchanged = {
            (pair.new.path, pair.new.name)
            for pair in matched
            if pair.new is not None and _written(pair.old) == _written(pair.new)
        }
        self._pairs = [pair for pair in matched if pair.new and (pair.new.path, pair.new.name) not in unchanged]
        self._new = [case for case in new if (case.path, case.name) not in unchanged]

    def of_old(self, case: SuiteFunction) -> Sequence[Expansion]:
        return self._of(case, old=True)

    def of_new(self, case: SuiteFunction) -> Sequence[Expansion]:
        return self._of(case, old=False)

    def _of(self, case: SuiteFunction, *, old: bool) -> Sequence[Expansion]:
        key = (old, case.path, case.name)
        if key not in self._expanded:
            self._expanded[key] = self._expand[old](case)
        return self._expanded[key]

    @cached_property
    def _surplus(self) -> Counter[str]:
        """The assertions of the new tests that their old versions have not."""
        known = {mark.meaning for pair in self._pairs for mark in pair.old.marks}
        running = [case for case in self._new if known.issuperset(mark.meaning for mark in case.marks)]
        surplus = Counter(text for case in running for text in self._texts(self.of_new(case)))
        for pair in self._pairs:
            if pair.new is not None:
                surplus.subtract({*self._texts(self.of_old(pair.old))} & {*self._texts(self.of_new(pair.new))})
        return surplus

    @staticmethod
    def _texts(expansions: Sequence[Expansion]) -> Iterator[str]:
        for check, texts, _ in expansions:
            if check.swallowed is None:
                yield from (_under(check, text) for text in texts)

    def standing(self, old: SuiteFunction, check: Assertion, new: SuiteFunction) -> Assertion | None:
        """Return the assertion of the new version that asserts the same, or None."""
        wanted = self.texts(old, check)
        present = {text: expansion.check for expansion in self.of_new(new) for text in expansion.texts}
        return present[min(wanted)] if wanted and wanted <= present.keys() else None

    def texts(self, old: SuiteFunction, check: Assertion) -> frozenset[str]:
        """Return the expanded forms of an assertion of an old test."""
        return frozenset(text for part in self.of_old(old) if _stands_for(part, check) for text in part.texts)

    def new_texts(self, new: SuiteFunction, check: Assertion) -> frozenset[str]:
        """Return the expanded forms of an assertion of a new test."""
        return frozenset(text for part in self.of_new(new) if _stands_for(part, check) for text in part.texts)

    def take(self, check: Assertion, wanted: frozenset[str]) -> bool:
        """Return True, and count them as used, if other tests newly assert all of these."""
        keys = {_under(check, text) for text in wanted}
        for candidate in (wanted, keys):
            if candidate and all(self._surplus[text] > 0 for text in candidate):
                self._surplus.subtract(candidate)
                return True
        return False

    def has_all(self, old: SuiteFunction, new: SuiteFunction, cases: int, parameters: set[str]) -> bool:
        """Return True if every case of an old test is asserted by the new one, or newly by others."""
        expansions = self.of_old(old)
        named = {word for part in self._unrolled(old) for text in part.texts for word in _WORD.findall(text)}
        if not parameters <= named:
            return False  # the assertions do not show what the cases differ in
        present = {text for expansion in self.of_new(new) for text in expansion.texts}
        told_apart = any(len(expansion.texts) >= cases for expansion in expansions)
        wanted = {text for expansion in expansions for text in expansion.texts}
        return told_apart and all(text in present or self._surplus[text] > 0 for text in wanted)


def _written(case: SuiteFunction) -> tuple[str, ...]:
    return (case.body, *map(ast.unparse, case.node.decorator_list), *(mark.what for mark in case.marks))


def _under(check: Assertion, text: str) -> str:
    return f"{text} if {' and '.join(check.conditions)}" if check.conditions else text


def _stands_for(part: Expansion, check: Assertion) -> bool:
    return part.check.node is check.node or (check.kind == "call" and part.line == check.line)


def pairs(
    old: Sequence[SuiteFunction],
    new: Sequence[SuiteFunction],
    uncollected: Sequence[SuiteFunction],
    ledger: Ledger,
) -> list[TestPair]:
    """Match old tests to new ones, surest methods first; a new test replaces one old test only."""
    waiting, free = list(old), {(case.path, case.name): case for case in new}
    matched: list[TestPair] = []
    for how, choose in _METHODS:
        rest = []
        for case in waiting:
            match = choose(case, free, ledger)
            if match is None:
                rest.append(case)
            else:
                del free[match.path, match.name]
                matched.append(TestPair(case, match, how))
        waiting = rest
    gone = [TestPair(case, None, "gone") for case in waiting]
    ledger.settle([*matched, *gone], new)
    return [*matched, *(_unmatched(case, new, uncollected, ledger) for case in waiting)]


Free = dict[tuple[str, str], SuiteFunction]


def _same_place(case: SuiteFunction, free: Free, _: Ledger) -> SuiteFunction | None:
    return free.get((case.path, case.name))


def _same_body(case: SuiteFunction, free: Free, _: Ledger) -> SuiteFunction | None:
    alike = [other for other in free.values() if other.body == case.body and case.body]
    last = case.name.rpartition(".")[2]
    return max(
        alike,
        key=lambda other: (other.name.rpartition(".")[2] == last, _written(other) == _written(case)),
        default=None,
    )


def _same_name(case: SuiteFunction, free: Free, _: Ledger) -> SuiteFunction | None:
    last = case.name.rpartition(".")[2]
    matches = [other for other in free.values() if other.name.rpartition(".")[2] == last]
    return matches[0] if len(matches) == 1 else None


def _same_demands(case: SuiteFunction, free: Free, ledger: Ledger) -> SuiteFunction | None:
    return _asserting(case, free.values(), ledger)


def _asserting(case: SuiteFunction, others: Iterable[SuiteFunction], ledger: Ledger) -> SuiteFunction | None:
    """Return a new test that asserts everything the old one asserts, or None."""
    wanted = {text for expansion in ledger.of_old(case) for text in expansion.texts}
    for other in others if wanted else ():
        if wanted <= {text for expansion in ledger.of_new(other) for text in expansion.texts}:
            return other
    return None


def _alike(case: SuiteFunction, free: Free, _: Ledger) -> SuiteFunction | None:
    candidates = [other for other in free.values() if other.path == case.path and other.body][:_MOST]
    scored = [(_likeness(case.body, other.body), at, other) for at, other in enumerate(candidates)]
    best = max(scored, default=None, key=lambda other: other[:2])
    return best[2] if best is not None and best[0] >= _ALIKE else None


def _likeness(first: str, second: str) -> float:
    matcher = SequenceMatcher(None, first[:_LONGEST], second[:_LONGEST], autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE else 0.0


_METHODS: tuple[tuple[How, Callable[[SuiteFunction, Free, Ledger], SuiteFunction | None]], ...] = (
    ("same", _same_place),
    ("renamed", _same_body),
    ("renamed", _same_name),
    ("renamed", _same_demands),
    ("renamed", _alike),
)


def _unmatched(
    case: SuiteFunction, new: Sequence[SuiteFunction], uncollected: Sequence[SuiteFunction], ledger: Ledger
) -> TestPair:
    for other in uncollected:
        if other.body == case.body and case.body:
            return TestPair(case, other, "uncollected")
    calls = {word for part in ledger.of_old(case) for text in part.texts for word in _CALL.findall(text)}
    candidates = [other for other in new if calls <= {*_CALL.findall(other.body)}]
    if (other_test := _asserting(case, candidates, ledger)) is not None:
        return TestPair(case, other_test, "merged")
    return TestPair(case, None, "gone")


_WORD = lazy(r"\w+")
_CALL = lazy(r"(\w+)\(")
_TOKEN = lazy(r"[A-Za-z_]\w*|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|\d[\w.]*|\S")
_IDENTIFIER = lazy(r"[A-Za-z_]\w*\Z")
# Words of the runners: another of these is another assertion, never a new name of the same code.
_RUNNER_WORD = lazy(
    r"assert|raises|warns|fail|skip|mark|approx|expect|should|ANY|match|(?:rel|abs|r|a)(?:_?tol)?|places|delta|all|any|"
    r"xfail|self|cls|pytest|unittest|mock|patch|fixture|parametrize|reason|condition|strict"
)


class Renaming(NamedTuple):
    """Names that the new tests use in place of old ones, and the tests in which they do."""

    names: Mapping[str, str]  # of the code under test
    own: Mapping[str, str]  # of helpers that the tests define themselves
    tests: tuple[SuiteFunction, ...]


def renamed(matched: Sequence[TestPair], old: Mapping[str, Suite], new: Mapping[str, Suite]) -> Renaming:
    """Return the names that were replaced by new ones everywhere, with nothing else in their lines changed."""
    replaced: dict[str, set[str]] = defaultdict(set)
    tests: dict[str, list[SuiteFunction]] = defaultdict(list)
    for pair in matched:
        if pair.new is None or _written(pair.old) == _written(pair.new) or pair.how not in {"same", "renamed"}:
            continue
        for before, after in _renamed_in(pair.old, pair.new):
            replaced[before].add(after)
            tests[before].append(pair.new)
    words_before = _words(suite.module for suite in old.values())
    words_after = _words(pair.new.node for pair in matched if pair.new)
    names: dict[str, str] = {}
    own: dict[str, str] = {}
    before_helpers, after_helpers = _defined(old.values()), _defined(new.values())
    for before, afters in replaced.items():
        after = min(afters)
        if len(afters) > 1 or after in words_before or before in words_after or _of_runner(before, after):
            continue
        if before in before_helpers and after in after_helpers:
            own[before] = after
        elif before not in before_helpers and after not in after_helpers and len(tests[before]) > 1:
            names[before] = after  # a single line is shown as it is
    unique = {(case.path, case.name): case for name in names for case in tests[name]}
    return Renaming(names, own, tuple(unique.values()))


def _renamed_in(old: SuiteFunction, new: SuiteFunction) -> Iterator[tuple[str, str]]:
    """Yield the identifiers in which two versions differ, if they differ in nothing else."""
    local = _local(old) | _local(new)
    before, after = (
        [_TOKEN.findall(line) for line in (*(mark.what for mark in case.marks), *case.body.splitlines())]
        for case in (old, new)
    )
    matcher = SequenceMatcher(None, [str(line) for line in before], [str(line) for line in after], autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag != "replace" or last - first != end - start:
            continue
        for line, new_line in zip(before[first:last], after[start:end], strict=True):
            changed = [pair for pair in zip(line, new_line, strict=False) if pair[0] != pair[1]]
            if len(line) == len(new_line) and all(_IDENTIFIER.match(word) for pair in changed for word in pair):
                yield from (pair for pair in changed if not local & {*pair})


def _local(case: SuiteFunction) -> set[str]:
    nodes = list(ast.walk(case.node))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.arg for node in nodes if isinstance(node, ast.arg)}


def _of_runner(before: str, after: str) -> bool:
    return any(hasattr(builtins, word) or _RUNNER_WORD.match(word) for word in (before, after))


def _words(trees: Iterable[ast.AST]) -> set[str]:
    return {
        word
        for tree in trees
        for node in ast.walk(tree)
        for word in (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "arg", None))
        if isinstance(word, str)
    }


def _defined(suites: Iterable[Suite]) -> set[str]:
    return {
        node.name
        for suite in suites
        for node in ast.walk(suite.module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
