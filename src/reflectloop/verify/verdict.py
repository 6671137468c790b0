"""From what was run and seen to one decision, with reasons a reviewer would accept; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reflectloop import terms
from reflectloop.terms import Decision, Track
from reflectloop.verify.compare import NO_ANSWER, Comparison
from reflectloop.verify.evidence import Level
from reflectloop.verify.result import Detected, Finding, VerificationResult

_SHOWN = 5  # of many names, in a reason


class Reason(NamedTuple):
    decision: Decision
    text: str


class Judged(NamedTuple):
    """One check, before and after."""

    check: Detected
    base: VerificationResult | None  # None where the base could not be judged by it
    sealed: VerificationResult
    comparison: Comparison
    left_out: str = ""  # why it does not count


class Own(NamedTuple):
    """The tests that the patch itself brings: in their new version, on base's sources and on the patch's."""

    check: str
    on_base: VerificationResult
    on_patch: VerificationResult
    red_then_green: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()


class Named(NamedTuple):
    """A check that the plan names, run sealed."""

    name: str
    held: bool
    reason: str
    red_on_base: bool | None = None  # None where nobody asked
    edited: tuple[str, ...] = ()  # tests that were there before, and without whose new version it does not hold


class Verdict(NamedTuple):
    decision: Decision
    level: Level
    track: Track | None
    reasons: tuple[Reason, ...]
    findings: tuple[Finding, ...]
    checks: tuple[Judged, ...]
    own: tuple[Own, ...]
    named: tuple[Named, ...]
    comparison: Comparison
    base_tree: str
    tree: str
    sealed_tree: str
    restored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def of_findings(findings: Iterable[Finding], lifted: Iterable[str]) -> list[Reason]:
    """What weakens the judge throws the change away, unless a person confirmed that this file may change."""
    from reflectloop.verify import protected  # noqa: PLC0415 - a run that asks for no verdict has no use for it

    free = set(lifted)
    out = []
    for one in findings:
        place = f"{one.path}:{one.line}" if one.line else one.path
        if one.grade == "weakening":
            out.append(Reason(Decision.ASK if one.path in free else Decision.REDO, f"{place}: {one.what} ({one.rule})"))
        elif one.grade == "suspect" and one.path not in free:
            how = "; may_change_protected in the plan lets it stand" if protected.guard(one.path) else ""
            out.append(Reason(Decision.ASK, f"{place}: {one.what} ({one.rule}){how}"))
    return out


def of_checks(checks: Sequence[Judged], track: Track | None) -> list[Reason]:
    counted = [one for one in checks if not one.left_out]
    out = [reason for one in counted for reason in _of_check(one, track)]
    if not counted:
        out.append(Reason(Decision.RETRY, "no check of this project is known, so nothing was proven"))
    elif not any(one.check.kind in ("test", "build", "custom") for one in counted):
        out.append(Reason(Decision.RETRY, "only linters looked at it: no test and no build of this project ran"))
    return out


def _of_check(one: Judged, track: Track | None) -> list[Reason]:
    name, change, now = one.check.name, one.comparison, one.sealed
    out = []
    for what, names in (
        ("did not fail before, and fail now", change.newly_failing),
        ("were run before, and are gone", change.vanished),
        ("were not skipped before, and are now", change.now_skipped),
    ):
        if names:
            out.append(Reason(Decision.RETRY, f"{name}: {what}: {shown(names)}"))
    if not out and not now.ok and not _as_bad_before(one):
        out.append(Reason(Decision.RETRY, f"{name}: {now.summary} ({now.type}){_hint(one)}"))
    if track is Track.REFACTOR and change.fixed and not out:
        out.append(
            Reason(Decision.RETRY, f"{name}: a refactoring changes no outcome, and these did: {shown(change.fixed)}")
        )
    return out


def _hint(one: Judged) -> str:
    if one.base is None or one.base.type != one.sealed.type or one.sealed.type != "collection_error":
        return ""
    return (
        "; on base too: files that git ignores are not in the workspace, so name those that tests import in "
        "[workspace] carry_copy, or make them by [verify] setup"
    )


def _as_bad_before(one: Judged) -> bool:
    """What fails on base too is no fault of this change, where it can be told that it is the same."""
    if one.base is None or one.base.ok or one.sealed.type in NO_ANSWER:
        return False
    if one.check.kind in ("lint", "type"):
        return bool(one.base.details)
    return bool(one.sealed.tests) or _counts_no_worse(one.base, one.sealed)


def _counts_no_worse(base: VerificationResult, now: VerificationResult) -> bool:
    """Where tests have no names, numbers must do; none at all tell nothing."""
    known = now.counts.failed + now.counts.errors > 0
    worse = now.counts.failed + now.counts.errors > base.counts.failed + base.counts.errors
    return known and not worse and now.counts.passed >= base.counts.passed


def of_own(own: Iterable[Own]) -> list[Reason]:
    out = []
    for one in own:
        if one.failing:
            out.append(Reason(Decision.RETRY, f"{one.check}: tests that the patch brings fail: {shown(one.failing)}"))
        elif not one.on_patch.ok and one.on_patch.type != "no_tests" and not one.on_patch.tests:
            out.append(Reason(Decision.RETRY, f"{one.check}: tests that the patch brings: {one.on_patch.summary}"))
    return out


def of_named(named: Iterable[Named]) -> list[Reason]:
    out = []
    for one in named:
        if not one.held:
            out.append(Reason(Decision.RETRY, f"check {one.name}: {one.reason}"))
        elif one.red_on_base is False:
            out.append(Reason(Decision.RETRY, f"check {one.name} is to be red on base, and is green there already"))
        elif one.edited:
            why = f"check {one.name} holds only with the change's version of {shown(one.edited)}"
            out.append(Reason(Decision.ASK, f"{why}; with what judged it before it does not"))
    return out


def of_fix(proven: Iterable[str]) -> list[Reason]:
    """A fix shows something that was red and is green."""
    if any(True for _ in proven):
        return []
    return [Reason(Decision.RETRY, "nothing that was red on base is green now, so nothing shows that it was fixed")]


def held(checks: Iterable[Judged], own: Iterable[Own], named: Iterable[Named]) -> dict[str, bool]:
    """Every check and every test by name, and whether it was seen to hold."""
    out: dict[str, bool] = {}
    for one in checks:
        if not one.left_out:
            out |= _tests(one.sealed) | {one.check.name: one.sealed.ok}
    for mine in own:
        out |= _tests(mine.on_patch)
    return out | {one.name: one.held for one in named}


def _tests(result: VerificationResult) -> dict[str, bool]:
    return {known: came == "passed" for name, came in result.tests.items() for known in spellings(name)}


def spellings(test: str) -> tuple[str, ...]:
    """A test as its runner prints it, and as people name it: `test_a (pkg.Case.test_a)` is `pkg.Case.test_a`."""
    inner = test.partition(" (")[2]
    return (test, inner[:-1]) if inner.endswith(")") else (test,)


def gravest(reasons: Iterable[Reason]) -> Decision:
    return terms.gravest(reason.decision for reason in reasons)


def shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
