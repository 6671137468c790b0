"""Decides whether the runs show that a fix removes a fault, or that a feature is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from reflectloop.terms import Decision, Track
from reflectloop.verification import new_names, verdict
from reflectloop.verification.compare import NO_ANSWER
from reflectloop.verification.result import FINDING_KINDS, RED, ChangedFile, DetectedCheck, VerificationResult
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.verification.verdict import CheckComparison, PatchTests, PlanCheckResult, VerdictReason

TRIES = 2  # repetitions of a test before its outcome counts
MOST_FLAKES = 50  # more tests than this do not fail by chance
_ARGUMENT = "unexpected keyword argument"
Again = Callable[[str, DetectedCheck, str, Sequence[str]], VerificationResult]


def died(result: VerificationResult) -> bool:
    """Return True if a run crashed or hung before it could report every test."""
    return result.type in ("crashed", "timeout")


class JudgedTrees(NamedTuple):
    """The trees of a verification: base and the sealed change, each also with the patch's tests."""

    base: str
    sealed: str
    base_with_tests: str
    with_tests: str


@dataclass
class ChangeProof:
    """Finds out what a change shows, from the runs of one verification. `again` repeats tests on a tree."""

    again: Again
    builder: TreeBuilder
    trees: JudgedTrees
    changes: Sequence[ChangedFile]
    checks: Sequence[CheckComparison]
    patch_tests: Sequence[PatchTests]
    named: Sequence[PlanCheckResult]
    notes: set[str]
    by_author: bool = False  # True if the author of the change named the checks, with the change
    is_repeated: Callable[[DetectedCheck], bool] = lambda _: False  # whether another run repeats the green tests anyway
    _only_new: dict[str, str] = field(default_factory=dict)  # by test or check, the new name that it failed for

    # A fix -----------------------------------------------------------------------------------------------------

    def reasons(
        self, track: Track | None, criteria: Mapping[str, str | None], unproven: AbstractSet[str] = frozenset()
    ) -> list[VerdictReason]:
        """Return what is missing to show what the track requires. `unproven` are tests that do not reach the change."""
        if track is Track.FIX:
            return self._of_fix(unproven)
        return self._of_feature(criteria) if track is Track.FEATURE else []

    def _of_fix(self, unproven: AbstractSet[str]) -> list[VerdictReason]:
        """Require that something failed on base for another reason than a missing new name, and passes now."""
        if not self.proven and self._only_new:
            return [self._shows_new_names()]
        if self.proven and self.still_red:
            self.notes.add(self._still_red_text())
        if self.proven and self.by_author and self.still_red and self.proven == self._named:
            why = f"{verdict.shown(self.proven)} passes now, but {self._still_red_text()}"
            return [VerdictReason(Decision.ASK, f"{why}: are they about another fault?", "still-red")]
        return verdict.of_fix(self.proven, unproven)

    @cached_property
    def proven(self) -> list[str]:
        """Checks and tests that failed on base for a reason and pass now, each time."""
        if self._named and not self.still_red:
            return self._named
        return self._turned_green() or self._named or self._own_tests()

    @cached_property
    def _named(self) -> list[str]:
        return [check.name for check in self.named if check.held and check.red_on_base and not self._is_novel(check)]

    @cached_property
    def still_red(self) -> tuple[str, ...]:
        """Tests of the project that fail on base and on the change."""
        tests = [item for item in self.checks if item.check.kind == "test" and not item.left_out]
        return tuple(sorted({name for item in tests for name in item.comparison.pre_existing}))

    def _still_red_text(self) -> str:
        count = len(self.still_red)
        return f"{count} test{'s' if count > 1 else ''} red on base {'are' if count > 1 else 'is'} still red: " + (
            verdict.shown(self.still_red)
        )

    def _shows_new_names(self) -> VerdictReason:
        names = verdict.shown(sorted(set(self._only_new.values())))
        why = f"what shows the fix failed on base only because {names} did not exist there"
        text = f"{why}: it shows that something new exists, not that a fault is gone; use --track feature for that"
        if self.still_red:
            return VerdictReason(Decision.RETRY, f"{text}; {self._still_red_text()}")
        return VerdictReason(Decision.ASK, text, "fix-shows-new-name")

    def _turned_green(self) -> list[str]:
        """Return the project's own tests that failed on base and pass now in every repetition."""
        out: list[str] = []
        for item in self.checks:
            if item.check.kind not in FINDING_KINDS and item.comparison.fixed and not item.left_out:
                out += self._each_time(item, self.trees.base, self.trees.sealed, item.comparison.fixed)
        return out

    def _own_tests(self) -> list[str]:
        """Return the patch's tests that failed on base for more than a missing new name, and pass now."""
        by_name = {item.check.name: item for item in self.checks}
        for names in ("red_then_green", "corrected"):  # a finding asks a person about a corrected expectation
            for tests in self.patch_tests:
                judged = by_name[tests.check]
                novel = self._novel_tests(judged, tests, getattr(tests, names))
                shown = [name for name in getattr(tests, names) if name not in novel]
                self._only_new |= novel
                if proven := self._each_time(judged, self.trees.base_with_tests, self.trees.with_tests, shown):
                    return proven
        return []

    def _novel_tests(self, judged: CheckComparison, tests: PatchTests, names: Sequence[str]) -> dict[str, str]:
        """Return the tests that show only that something new exists, each with its name.

        The message says so; if the sources are Python, a run on base with the new definitions alone decides. Where
        other tests stay red, that run looks at every test.
        """
        by_message = {name: missing for name in names if (missing := self._missing_name(tests, name))}
        doubtful = list(names) if self.still_red else list(by_message)
        files = new_names.only_additions(self.changes) if doubtful and judged.sealed.tests else None
        if not files:
            return by_message
        tree = self.builder.with_contents(self.trees.base_with_tests, files)
        result = self.again(tree, judged.check, "tests of the patch, on base with its new names alone", doubtful)
        if result.type in NO_ANSWER or not any(name in result.tests for name in doubtful):
            return by_message
        added = verdict.shown(new_names.added_definitions(self.changes))
        return {name: by_message.get(name, added) for name in doubtful if result.tests.get(name) == "passed"}

    def _is_novel(self, check: PlanCheckResult) -> bool:
        if not self.still_red or check.missing not in self.added:
            return False
        self._only_new[check.name] = check.missing
        return True

    @cached_property
    def added(self) -> frozenset[str]:
        return new_names.added_names(self.changes)

    def _missing_name(self, tests: PatchTests, name: str) -> str:
        """Return the new name for whose absence a test failed on base, by its message; empty if it failed otherwise."""
        errors = [detail.error for detail in tests.on_base.details if detail.test == name]
        missing = new_names.missing_name(errors[0]) if errors else None
        if missing is None or missing not in self.added or (_ARGUMENT in errors[0] and not self.still_red):
            return ""
        return missing

    def _each_time(self, judged: CheckComparison, red: str, green: str, names: Sequence[str]) -> list[str]:
        """Return the tests that fail on one tree and pass on the other again; a flaky test proves nothing."""
        if not names or not judged.sealed.tests or judged.base is None or not judged.base.tests:
            return list(names)  # a build, or tests without names: both sides were run completely
        remaining = list(names)[:MOST_FLAKES]
        again = self.again(red, judged.check, "red on base, once more", remaining)
        red_now = (*RED, *((None,) if died(again) else ()))
        remaining = [name for name in remaining if again.tests.get(name) in red_now]
        if not remaining:
            return []
        if self.is_repeated(judged.check):
            return remaining
        again = self.again(green, judged.check, "green on base + patch, once more", remaining)
        return [name for name in remaining if again.tests.get(name) == "passed"]

    # A feature -------------------------------------------------------------------------------------------------

    def _of_feature(self, criteria: Mapping[str, str | None]) -> list[VerdictReason]:
        """Require that a criterion, or a test of the patch, fails without the feature."""
        wanted = [check for check in criteria.values() if check is not None]
        if self._is_shown() or any(self._was_red(check) for check in wanted):
            return []
        if wanted:
            text = f"on base every acceptance criterion is met already ({verdict.shown(wanted)})"
            return [
                VerdictReason(
                    Decision.RETRY, f"{text}, so nothing shows the feature: name a check or add a test that fails there"
                )
            ]
        if not new_names.changes_code(self.changes):
            text = "the change consists of comments or prose, so it adds no feature"
            return [VerdictReason(Decision.ASK, text, "feature-without-code")]
        self.notes.add("nothing shows the feature: no test or check fails on base and passes now")
        return []

    def _is_shown(self) -> bool:
        counted = (item for item in self.checks if item.check.kind not in FINDING_KINDS and not item.left_out)
        return any(item.comparison.fixed for item in counted) or any(map(_shows_something, self.patch_tests))

    def _was_red(self, name: str) -> bool:
        """Return True if a criterion's check or test did not pass on base."""
        on_base = dict(self._on_base())
        return not on_base.get(name, False)

    def _on_base(self) -> Iterator[tuple[str, bool]]:
        for item in self.checks:
            if item.base is not None and not item.left_out:
                yield item.check.name, item.base.ok
                yield from verdict.tests_passed(item.base).items()
        for tests in self.patch_tests:
            yield from verdict.tests_passed(tests.on_base).items()
        yield from ((check.name, not check.failed_on_base) for check in self.named)


def _shows_something(tests: PatchTests) -> bool:
    """Return True if a test of the patch fails on base, or cannot even start there, and passes now."""
    cannot_start = tests.on_base.type in NO_ANSWER and not tests.on_base.ok and tests.on_patch.ok
    return bool(tests.red_then_green or tests.corrected or cannot_start)
