"""Compare the outcomes of a check before and after a change, test by test; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reflectloop.verification import reports
from reflectloop.verification.result import FINDING_KINDS, RED, Outcome, VerificationResult

# Results of these types say nothing about single tests: the check itself did not finish.
NO_ANSWER = frozenset(
    (
        *("no_tests", "tool_missing", "timeout", "crashed", "unknown_project", "collection_error", "build_failure"),
        "tampered",
    )
)
_GREEN = frozenset(("passed", "xpassed"))
_NOT_RUN = frozenset(("skipped", "xfailed"))


class Comparison(NamedTuple):
    """Sorted test ids, or descriptions of issues if a check has no tests."""

    fixed: tuple[str, ...] = ()
    newly_failing: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    now_skipped: tuple[str, ...] = ()
    pre_existing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()

    @property
    def worse(self) -> bool:
        return bool(self.newly_failing or self.vanished or self.now_skipped)

    @property
    def same(self) -> bool:
        """True if every test on base has the same outcome."""
        return not (self.worse or self.fixed)

    def joined(self, other: Comparison) -> Comparison:
        return Comparison(*(tuple(sorted({*mine, *theirs})) for mine, theirs in zip(self, other, strict=True)))

    def dropping(self, names: Iterable[str]) -> Comparison:
        """Leave these tests out, since a finding of its own says what became of them."""
        dropped = set(names)
        return Comparison(*(tuple(name for name in group if name not in dropped) for group in self))

    def without(self, flaky: Iterable[str]) -> Comparison:
        """Report these tests as flaky instead; a flaky test proves nothing, neither good nor bad."""
        names = set(flaky)
        remaining = {field: tuple(name for name in getattr(self, field) if name not in names) for field in self._fields}
        return Comparison(**{**remaining, "flaky": tuple(sorted({*self.flaky, *names}))})


def compare(base: VerificationResult, now: VerificationResult) -> Comparison:
    """Compare by test if both sides name their tests, by issue if they name issues, otherwise by the outcome alone."""
    unanswered = base.type in NO_ANSWER or now.type in NO_ANSWER
    if base.kind in FINDING_KINDS:
        return _by_outcome(base, now) if unanswered else _by_issue(base, now)
    if not unanswered and _names_failures_only(base) and (_names_failures_only(now) or not now.tests):
        return _by_failure(base, now)
    # A check may end badly for another reason than its tests, such as low coverage: its tests still say what broke.
    if base.tests and now.tests:
        return by_test(base.tests, now.tests)
    if unanswered:
        return _by_outcome(base, now)
    return by_test(base.tests, now.tests) if base.tests or now.tests else _by_outcome(base, now)


def _names_failures_only(result: VerificationResult) -> bool:
    """Return True if the report names only failed tests, as text output of runners does."""
    return (
        result.counts.passed > 0
        and bool(result.tests)
        and not any(outcome in _GREEN for outcome in result.tests.values())
    )


def _by_failure(base: VerificationResult, now: VerificationResult) -> Comparison:
    """Compare named failures; one that is no longer named is fixed if at least as many tests ran."""
    before, after = ({name for name, outcome in result.tests.items() if outcome in RED} for result in (base, now))
    fewer = _ran(base) - _ran(now)
    return Comparison(
        fixed=tuple(sorted(before - after)) if fewer <= 0 else (),
        newly_failing=tuple(sorted(after - before)),
        vanished=(f"{fewer} tests",) if fewer > 0 else (),
        pre_existing=tuple(sorted(before & after)),
    )


def _ran(result: VerificationResult) -> int:
    return result.counts.passed + result.counts.failed + result.counts.errors


def by_test(base: Mapping[str, Outcome], now: Mapping[str, Outcome]) -> Comparison:
    """Compare the outcomes of two runs by test id."""

    def changed(before: frozenset[str], after: frozenset[str]) -> tuple[str, ...]:
        return tuple(sorted(name for name in base if base[name] in before and now.get(name) in after))

    missing = [name for name in base if name not in now and base[name] not in _NOT_RUN]
    new_red = [name for name in now if name not in base and now[name] in RED]
    return Comparison(
        fixed=changed(RED, _GREEN),
        newly_failing=tuple(sorted({*changed(_GREEN | _NOT_RUN, RED), *new_red})),
        vanished=tuple(sorted(missing)),
        now_skipped=changed(_GREEN | RED, _NOT_RUN),  # skipping a failing test does not fix it
        pre_existing=changed(RED, RED),
        added=tuple(sorted(name for name in now if name not in base)),
    )


def _by_issue(base: VerificationResult, now: VerificationResult) -> Comparison:
    """Compare issues by file, rule and text, ignoring their line, so that existing issues do not count."""
    before, after = _issues(base), _issues(now)
    return Comparison(
        fixed=_beyond(before, after),
        newly_failing=_beyond(after, before),
        pre_existing=tuple(sorted(issue for key, issues in after.items() for issue in issues[: len(before[key])])),
    )


def _issues(result: VerificationResult) -> defaultdict[str, list[str]]:
    """Return the issues that fail a check as people read them, under what makes each the same after a change."""
    issues: defaultdict[str, list[str]] = defaultdict(list)
    for item in reports.failing_issues(result):
        issues[reports.issue_key(item)].append(reports.issue_shown(item))
    return issues


def _beyond(some: defaultdict[str, list[str]], others: defaultdict[str, list[str]]) -> tuple[str, ...]:
    return tuple(sorted(issue for key, issues in some.items() for issue in issues[len(others[key]) :]))


def _by_outcome(base: VerificationResult, now: VerificationResult) -> Comparison:
    """Compare results without named tests by their outcome and their counts.

    Tests that fail now are new failures if base gave no result: nothing shows that they failed before.
    """
    name = now.summary if not now.ok else base.summary
    lost = base.counts.passed - now.counts.passed if now.ok and base.ok else 0
    failing = tuple(sorted(name for name, outcome in now.tests.items() if outcome in RED))
    if failing and base.type in NO_ANSWER:
        return Comparison(newly_failing=failing)
    return Comparison(
        fixed=(name,) if now.ok and not base.ok else (),
        newly_failing=(name,) if base.ok and not now.ok else (),
        pre_existing=(name,) if not base.ok and not now.ok else (),
        vanished=(f"{lost} of {base.counts.passed} passed tests",) if lost > 0 else (),
    )
