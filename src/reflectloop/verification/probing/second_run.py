"""Run the tests of a patch once more in other surroundings, and record the calls of its functions in the same run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from reflectloop.terms import join_first
from reflectloop.verification import chance
from reflectloop.verification.probing.changed import ChangedFunction, ChangeReport
from reflectloop.verification.probing.programs import Recording, RecordingExtras
from reflectloop.verification.result import (
    RED,
    DetectedCheck,
    Grade,
    Outcome,
    TamperFinding,
    VerificationResult,
)
from reflectloop.verification.run_extras import RunExtras

(OTHER_SEED,), (OTHER_ZONE, *MORE_ZONES) = chance.hash_seeds(1), chance.time_zones(3)
OTHER_LOCALE = {"LC_ALL": "POSIX", "LANG": "POSIX"}
REVERSED = "reversed"
_SINGLE: tuple[tuple[str, Mapping[str, str], str], ...] = (
    ("the engine's hash seed", OTHER_SEED, ""),
    ("this time zone", OTHER_ZONE, ""),
    ("this locale", OTHER_LOCALE, ""),
    ("the usual order of test files", {}, REVERSED),
)
_WHOLE_BELOW_MS = 20_000  # a suite that takes longer is repeated in part
_MOST_NAMED = 5
_CONFIRMATIONS = 2
_REPEATS, _MOST_REPEATS = 4, 20  # on the patch and on base: a test that fails in one run of five is seen to fail there
_LEAST_BESIDE = 3  # tests of a folder that fail together

# Runs one check on a tree: tree, check, description, tests, extras.
RunOnce = Callable[[str, DetectedCheck, str, Sequence[str], RunExtras | None], VerificationResult]


class SuiteOutcomes(NamedTuple):
    """One test check with its outcomes in the usual surroundings, and the tests that matter most."""

    check: DetectedCheck
    on_base: Mapping[str, Outcome]
    on_patch: Mapping[str, Outcome]
    duration_ms: int
    important: Sequence[str]  # tests that turned green, and files of tests that the patch adds or changes
    old_tree: str = ""  # base with its own tests, and their outcomes
    old_tests: Mapping[str, Outcome] = {}

    @property
    def is_quick(self) -> bool:
        return self.duration_ms < _WHOLE_BELOW_MS


class SecondRun(NamedTuple):
    """The result of the second run."""

    recording: Recording
    findings: tuple[TamperFinding, ...] = ()
    notes: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()  # tests that come and go with the patch


class RecordingRun(RunExtras, Protocol):
    """A run that records calls."""

    recording: Recording


class RecordedRun(NamedTuple):
    """A run of a check with a recorder, and its result."""

    recorder: RecordingRun
    result: VerificationResult


class EarlyRuns(NamedTuple):
    """Second runs that took place beside the first ones of the same checks, by the check's name."""

    change: ChangeReport
    runs: Mapping[str, RecordedRun]


class SurroundingsProbe(NamedTuple):
    """Compares runs of one check in two surroundings."""

    run: RunOnce
    base: str
    tree: str
    suite: SuiteOutcomes
    extras: Callable[[Sequence[ChangedFunction], Mapping[str, str], str], RecordingRun] = RecordingExtras

    def run_once(self, functions: Sequence[ChangedFunction]) -> RecordedRun:
        """Run the tests with other hash seed, time zone, locale and order, and record the calls."""
        recorder = self.extras(functions, {**OTHER_SEED, **OTHER_ZONE, **OTHER_LOCALE}, REVERSED)
        return RecordedRun(recorder, self._run(self.tree, "tests of the patch, in other surroundings", recorder))

    def record(self, functions: Sequence[ChangedFunction], early: RecordedRun | None = None) -> SecondRun:
        """Judge a run in other surroundings, which `early` is if it took place already."""
        extras, second = early or self.run_once(functions)
        red = self._turned_red(second)
        ran = any(name in second.tests for name in self._passing())  # else the recorder may have stopped the suite
        if not red and (ran or not self._passing()):
            return SecondRun(extras.recording)
        plain = self._run(self.tree, "tests of the patch, in other surroundings, again", self._without_recorder())
        if not ran and plain.tests:
            red = self._turned_red(plain)
            if not red:
                return SecondRun(extras.recording, notes=(f"{self.suite.check.name}: no call could be recorded",))
        steady = self._always_red([name for name in self._turned_red(plain) if name in red])
        loose = [name for name in red if name not in steady]
        out = self._judged(extras.recording, steady) if steady or not plain.tests else SecondRun(extras.recording)
        return self._with_unsteady(out, loose) if loose and plain.tests else out

    def _run(self, tree: str, description: str, extras: RecordingRun) -> VerificationResult:
        return self.run(tree, self.suite.check, description, self._chosen(), extras)

    def _chosen(self) -> Sequence[str]:
        """Return the tests to run: all of a quick suite, otherwise the important ones with the files they are in."""
        if self.suite.is_quick or not self.suite.important:
            return ()
        return list(dict.fromkeys(name.partition("::")[0] for name in self.suite.important))

    def _without_recorder(self) -> RecordingRun:
        return self.extras((), {**OTHER_SEED, **OTHER_ZONE, **OTHER_LOCALE}, REVERSED)

    def _passing(self) -> list[str]:
        return [name for name, outcome in self.suite.on_patch.items() if outcome == "passed"]

    def _turned_red(self, second: VerificationResult) -> list[str]:
        return [name for name in self._passing() if second.tests.get(name) in RED]

    def _judged(self, recording: Recording, red: Sequence[str]) -> SecondRun:
        """Compare with base in the same surroundings: a test that is red there too depends on them by itself."""
        base = self._run(self.base, "tests on base, in other surroundings", self._without_recorder())
        if not red:
            lost = not self._turned_red(base) and bool(base.tests)
            text = "gives results only in the usual surroundings (hash seed, time zone, locale, order of test files)"
            lost_finding = (self._finding(text, "weakening", ()),) if lost else ()
            return SecondRun(recording, lost_finding, () if lost else (f"{self.suite.check.name}: no second result",))
        stable = [name for name in red if self.suite.on_base.get(name) == base.tests.get(name) == "passed"]
        fixed = [name for name in red if self.suite.on_base.get(name) not in ("passed", "xpassed")]
        before = self._dependent_before(fixed)
        fixed = [name for name in fixed if name not in before and not self._fails_with_its_folder(name, base)]
        dependent = [name for name in red if name not in stable and name not in fixed]
        graded: list[tuple[list[str], Grade]] = [(stable, "weakening"), (fixed, "suspect")]
        findings = [
            self._finding(f"passes only with {self._cause(names)}", grade, names) for names, grade in graded if names
        ]
        notes = (f"depends on its surroundings on base too: {join_first(dependent, _MOST_NAMED)}",) if dependent else ()
        return SecondRun(recording, tuple(findings), notes)

    def _dependent_before(self, names: Sequence[str]) -> list[str]:
        """Return those of these tests whose old version passes on base, and fails there in other surroundings."""
        known = [name for name in names if self.suite.old_tests.get(name) == "passed"]
        if not known or not self.suite.old_tree:
            return []
        old = self._run(self.suite.old_tree, "old tests on base, in other surroundings", self._without_recorder())
        return [name for name in known if old.tests.get(name) in RED]

    def _fails_with_its_folder(self, name: str, base: VerificationResult) -> bool:
        """Return True if most of base's own tests in the folder of this one fail on base in other surroundings too.

        A test that is red on base because of the fault cannot show by itself that it depends on them.
        """
        folder = _folder(name)
        passed = [old for old, outcome in self.suite.old_tests.items() if outcome == "passed"]
        beside = [base.tests.get(old) for old in passed if old != name and _folder(old) == folder]
        failing = sum(outcome in RED for outcome in beside)
        return failing >= _LEAST_BESIDE and failing * 2 > len(beside)

    def _always_red(self, names: list[str]) -> list[str]:
        """Return which of the tests that failed twice fail each time; the others come and go by themselves."""
        for _ in range(_CONFIRMATIONS if names else 0):
            again = self._run(self.tree, "tests of the patch, in other surroundings, again", self._without_recorder())
            names = [name for name in names if again.tests.get(name, "failed") in RED]
        return names

    def _with_unsteady(self, out: SecondRun, loose: Sequence[str]) -> SecondRun:
        """Repeat tests that failed once, on the patch, and those that fail again more often on base."""
        on_patch = self._red_at_times(self.tree, loose, _REPEATS)
        on_base = self._red_at_times(self.base, on_patch, _MOST_REPEATS)
        worse = [name for name in on_patch if name not in on_base and self.suite.on_base.get(name) == "passed"]
        text = f"comes and goes with the change; on base it passed {_MOST_REPEATS} of {_MOST_REPEATS} times"
        findings = (self._finding(text, "weakening", worse),) if worse else ()
        return out._replace(findings=(*out.findings, *findings), unsteady=tuple(on_patch))

    def _red_at_times(self, tree: str, names: Sequence[str], most: int) -> list[str]:
        red: set[str] = set()
        for _ in range(most):
            if len(red) == len(names):
                break
            extras = self._without_recorder()
            result = self.run(tree, self.suite.check, "tests that failed once, again", names, extras)
            red |= {name for name in names if result.tests.get(name) in RED}
        return [name for name in names if name in red]

    def _finding(self, text: str, grade: Grade, names: Sequence[str]) -> TamperFinding:
        path = names[0].partition("::")[0] if names else self.suite.check.name
        what = f"{join_first(names, _MOST_NAMED)} {text}" if names else f"{self.suite.check.name} {text}"
        return TamperFinding("passes-only-here", path, None, what, grade)

    def _cause(self, names: Sequence[str]) -> str:
        """Return which of the surroundings matters, by changing one at a time."""
        for cause, env, order in _SINGLE:
            alone = self._run(self.tree, f"without {cause}", self.extras((), env, order))
            if any(alone.tests.get(name) in RED for name in names):
                return cause
        return "this hash seed, time zone, locale and order together"


def _folder(test: str) -> str:
    return test.partition("::")[0].rpartition("/")[0]
