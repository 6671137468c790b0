"""What a change did to the outcomes of a check, test by test; pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reflectloop.verify.result import Detail, Outcome, VerificationResult

# A result of these types says nothing of single tests: the check itself did not come to an end.
NO_ANSWER = frozenset(
    ("no_tests", "tool_missing", "timeout", "crashed", "unknown_project", "collection_error", "build_failure")
)
_RED = frozenset(("failed", "error"))
_GREEN = frozenset(("passed", "xpassed"))
_ASIDE = frozenset(("skipped", "xfailed"))
_PLACES = re.compile(r"\b(?:line |at )?\d+(?::\d+)?\b")


class Comparison(NamedTuple):
    """Test ids, or issues in words where a check has no tests; each tuple sorted."""

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
        """Whether every test there was came out as before."""
        return not (self.worse or self.fixed)

    def joined(self, other: Comparison) -> Comparison:
        return Comparison(*(tuple(sorted({*one, *two})) for one, two in zip(self, other, strict=True)))

    def without(self, flaky: Iterable[str]) -> Comparison:
        """A flake is reported as such; it proves nothing, neither good nor bad."""
        names = set(flaky)
        kept = {field: tuple(one for one in getattr(self, field) if one not in names) for field in self._fields}
        return Comparison(**{**kept, "flaky": tuple(sorted({*self.flaky, *names}))})


def compare(base: VerificationResult, now: VerificationResult) -> Comparison:
    """By test where both sides name their tests, by issue where they name issues, else by the outcome alone."""
    if base.type in NO_ANSWER or now.type in NO_ANSWER:
        return _whole(base, now)
    if base.kind in ("lint", "type"):
        return _by_issue(base.details, now.details)
    if _names_failures_only(base) and (_names_failures_only(now) or not now.tests):
        return _by_failure(base, now)
    if base.tests or now.tests:
        return by_test(base.tests, now.tests)
    return _whole(base, now)


def _names_failures_only(result: VerificationResult) -> bool:
    """As a runner's words do: those that passed are a number."""
    return result.counts.passed > 0 and bool(result.tests) and not any(one in _GREEN for one in result.tests.values())


def _by_failure(base: VerificationResult, now: VerificationResult) -> Comparison:
    """What is not named as red any more is mended, if no fewer tests ran than before."""
    before, after = ({name for name, came in one.tests.items() if came in _RED} for one in (base, now))
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
    def those(before: frozenset[str], after: frozenset[str]) -> tuple[str, ...]:
        return tuple(sorted(name for name in base if base[name] in before and now.get(name) in after))

    gone = [name for name in base if name not in now and base[name] not in _ASIDE]
    new_red = [name for name in now if name not in base and now[name] in _RED]
    return Comparison(
        fixed=those(_RED, _GREEN),
        newly_failing=tuple(sorted({*those(_GREEN | _ASIDE, _RED), *new_red})),
        vanished=tuple(sorted(gone)),
        now_skipped=those(_GREEN | _RED, _ASIDE),  # a red one that is put aside is not mended either
        pre_existing=those(_RED, _RED),
        added=tuple(sorted(name for name in now if name not in base)),
    )


def _by_issue(base: Iterable[Detail], now: Iterable[Detail]) -> Comparison:
    """Old debt is not this change's: an issue counts by file, rule and text, wherever in the file it stands."""
    before, after = Counter(map(_issue, base)), Counter(map(_issue, now))
    return Comparison(
        fixed=tuple(sorted((before - after).elements())),
        newly_failing=tuple(sorted((after - before).elements())),
        pre_existing=tuple(sorted((before & after).elements())),
    )


def _issue(detail: Detail) -> str:
    return f"{detail.file or '?'}: {detail.rule or ''} {_PLACES.sub('N', detail.error)}".strip()


def _whole(base: VerificationResult, now: VerificationResult) -> Comparison:
    """A check that names nothing: it was good and is bad, or the other way round; counts may tell more."""
    name = now.summary if not now.ok else base.summary
    lost = base.counts.passed - now.counts.passed if now.ok and base.ok else 0
    return Comparison(
        fixed=(name,) if now.ok and not base.ok else (),
        newly_failing=(name,) if base.ok and not now.ok else (),
        pre_existing=(name,) if not base.ok and not now.ok else (),
        vanished=(f"{lost} of {base.counts.passed} passed tests",) if lost > 0 else (),
    )
