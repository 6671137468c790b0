"""Find out, by repeated runs on base and patch, which newly failing tests are flaky and which are regressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reflectloop.verification.change_proof import MOST_FLAKES, TRIES, Again
from reflectloop.verification.result import RED, DetectedCheck

_REPETITIONS, _MOST_REPETITIONS = 4, 20  # of a test that comes and goes, on the patch and on base: one that fails
# in one run of five is green twenty times in one case of 87


class FlakyTests(NamedTuple):
    """Repeat tests on two trees."""

    again: Again
    base: str
    tree: str

    def among(self, check: DetectedCheck, failing: Sequence[str]) -> list[str]:
        """Return tests that pass when repeated: alone first, then, since order may matter, in full runs."""
        suspects = list(failing)
        if len(suspects) > MOST_FLAKES:
            return []
        for _ in range(TRIES):
            alone = self.again(self.tree, check, "newly failing tests again", suspects)
            if all(alone.tests.get(name, "failed") in RED for name in suspects):
                continue
            return self._not_made_flaky(check, suspects)
        for _ in range(TRIES):  # a test that fails on base too, now and then, was flaky before the change
            on_base = self.again(self.base, check, "newly failing tests on base again", suspects)
            if flaky := [name for name in suspects if on_base.tests.get(name) in RED]:
                return flaky
        return []

    def _not_made_flaky(self, check: DetectedCheck, suspects: Sequence[str]) -> list[str]:
        """Return the tests that pass in a full run, too, and failed once only, or that come and go on base too.

        One that is unstable with the change alone, however often it is repeated on base, is a regression.
        """
        failing, unstable = {*suspects}, set[str]()
        for _ in range(TRIES):
            full_run = self.again(self.tree, check, "once more, whole", ())
            failing = {name for name in failing if full_run.tests.get(name, "failed") in RED}
            unstable |= failing
            if not failing:
                break
        names = [name for name in suspects if name not in failing]
        unstable |= self._red_at_times(self.tree, check, names, _REPETITIONS)
        before = self._red_at_times(self.base, check, sorted(unstable & {*names}), _MOST_REPETITIONS)
        return [name for name in names if name not in unstable or name in before]

    def _red_at_times(self, tree: str, check: DetectedCheck, names: Sequence[str], most: int) -> set[str]:
        """Return which of these tests fail in one of so many runs."""
        red: set[str] = set()
        for _ in range(most):
            if len(red) == len(names):
                break
            again = self.again(tree, check, "unstable tests, repeated", names)
            red |= {name for name in names if again.tests.get(name) in RED}
        return red
