"""Turn the results of all runs into one decision, with reasons for a reviewer; pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from reflectloop import secrets, terms
from reflectloop.system.patterns import lazy
from reflectloop.terms import Decision, OutcomeWord, Track, join_first
from reflectloop.verification.compare import NO_ANSWER, Comparison
from reflectloop.verification.evidence import Level
from reflectloop.verification.result import (
    FINDING_KINDS,
    RED,
    DetectedCheck,
    TamperFinding,
    VerificationResult,
)

_MOST_NAMES = 5  # names listed in a reason
_NO_NETWORK = lazy(
    r"(?i)network is unreachable|temporary failure in name resolution|name or service not known|"
    r"nodename nor servname|getaddrinfo (?:failed|ENOTFOUND|EAI_AGAIN)|no address associated with hostname|"
    r"dial tcp: lookup |could not resolve host|\bENETUNREACH\b"
)


class VerdictReason(NamedTuple):
    """A decision and its explanation. A person may approve a reason that has a rule; nobody can approve another."""

    decision: Decision
    text: str
    rule: str = ""
    finding: str = ""  # the id by which a person approves it; it is bound to base and change
    unjudged: bool = False  # no check could judge: there is none, or it gave no result on base either
    details: tuple[str, ...] = ()  # more lines for a reviewer, such as the old and the new text


class ApprovedReason(NamedTuple):
    """A reason that a person approved, and who that was and why."""

    reason: VerdictReason
    approval: str


class CheckComparison(NamedTuple):
    """One check, before and after."""

    check: DetectedCheck
    base: VerificationResult | None  # None if the check could not judge the base
    sealed: VerificationResult
    comparison: Comparison
    left_out: str = ""  # why the check does not count
    explained: frozenset[str] = frozenset()  # tests and issues of which a finding of its own says why
    answered_by: VerificationResult | None = None  # the new version of the tests, if the old one cannot run


class PatchTests(NamedTuple):
    """The new version of the patch's tests, run on base's sources and on the patch's."""

    check: str
    on_base: VerificationResult
    on_patch: VerificationResult
    red_then_green: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    corrected: tuple[str, ...] = ()  # turned from red to green too, but their old version fails on the change
    own_settings: tuple[str, ...] = ()  # pass only with the settings that the change brings


class PlanCheckResult(NamedTuple):
    """A check that the plan names, run sealed."""

    name: str
    held: bool
    reason: str
    red_on_base: bool | None = None  # None if not required
    edited: tuple[str, ...] = ()  # existing tests without whose new version it does not pass
    failed_on_base: bool = False  # whether or not that was required
    missing: str = ""  # the name of which its failure on base says that it does not exist


class StrengthReport(NamedTuple):
    """The small faults in the changed lines that the tests of the change notice, of those that were tried."""

    noticed: int
    total: int
    unnoticed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.noticed} of {self.total} mutants noticed"


class Provisional(NamedTuple):
    """The part of the tests that a provisional verdict rests on."""

    files: tuple[str, ...]  # the test files that ran; empty if every test did
    unknown: str = ""  # why it is not known which tests depend on the change

    @property
    def text(self) -> str:
        if not self.files:
            why = self.unknown or "the test runner cannot be told which files to run"
            return f"provisional: every test ran, since {why}; the verdict needs all checks and probing"
        return f"provisional: only test files that import what changed ran ({len(self.files)}); the verdict needs all"


class Verdict(NamedTuple):
    """The decision about a change, with its evidence."""

    decision: Decision
    level: Level
    track: Track | None
    reasons: tuple[VerdictReason, ...]
    findings: tuple[TamperFinding, ...]
    checks: tuple[CheckComparison, ...]
    own: tuple[PatchTests, ...]
    named: tuple[PlanCheckResult, ...]
    comparison: Comparison
    base_tree: str
    tree: str
    sealed_tree: str
    restored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    approved: tuple[ApprovedReason, ...] = ()
    strength: StrengthReport | None = None  # if it was asked for
    switched_off: tuple[str, ...] = ()  # parts that the settings leave out
    provisional: Provisional | None = None  # if only the tests that depend on the change ran

    @property
    def outcome(self) -> OutcomeWord:
        return terms.outcome_of(self.reasons)


def finding_id(base_tree: str, tree: str, rule: str, text: str) -> str:
    """Return the id of one finding on one change: another base, change, rule or text has another id."""
    shown = secrets.current_detector().redact(terms.one_line(text))  # as it is stored, so that a reader can check it
    return hashlib.sha256(json.dumps([base_tree, tree, rule, shown]).encode()).hexdigest()[:10]


def identified(reasons: Iterable[VerdictReason], base_tree: str, tree: str) -> list[VerdictReason]:
    """Give an id to every reason that a person may approve."""
    return [
        reason._replace(finding=finding_id(base_tree, tree, reason.rule, reason.text)) if reason.rule else reason
        for reason in reasons
    ]


def split_approved(
    reasons: Iterable[VerdictReason], approvals: Mapping[str, str]
) -> tuple[list[VerdictReason], list[ApprovedReason]]:
    """Separate the reasons that still stand from those that a person approved."""
    standing, approved = [], []
    for reason in reasons:
        if reason.finding and reason.finding in approvals:
            approved.append(ApprovedReason(reason, approvals[reason.finding]))
        else:
            standing.append(reason)
    return standing, approved


def of_findings(findings: Iterable[TamperFinding], lifted: Iterable[str]) -> list[VerdictReason]:
    """Return REDO for each weakening, or ASK if a person confirmed that the file may change; ASK for each suspect."""
    free = set(lifted)
    out = []
    for finding in findings:
        place = f"{finding.path}:{finding.line}" if finding.line else finding.path
        if finding.grade == "weakening":
            out.append(
                VerdictReason(
                    Decision.ASK if finding.path in free else Decision.REDO,
                    f"{place}: {finding.what} ({finding.rule})",
                    finding.rule,
                    details=finding.details,
                )
            )
        elif finding.grade == "suspect" and finding.path not in free:
            text = f"{place}: {finding.what} ({finding.rule})"
            out.append(VerdictReason(Decision.ASK, text, finding.rule, details=finding.details))
    return out


def of_checks(checks: Sequence[CheckComparison], track: Track | None) -> list[VerdictReason]:
    counted = [judged for judged in checks if not judged.left_out]
    out = [reason for judged in counted for reason in _of_check(judged, track)]
    if not counted:
        out.append(
            VerdictReason(
                Decision.RETRY,
                "no check of this project is known, so nothing was proven; name one: reflectloop detect",
                unjudged=True,
            )
        )
    elif not any(judged.check.kind not in FINDING_KINDS for judged in counted):
        out.append(
            VerdictReason(Decision.RETRY, "only linters ran: no test and no build of this project", unjudged=True)
        )
    return out


def of_red_suite(checks: Sequence[CheckComparison], all_patch_tests: Iterable[PatchTests]) -> list[VerdictReason]:
    """Return why nothing was proven if tests ran and none of them passes: not on base, not on the change."""
    counted = [judged for judged in checks if not judged.left_out and judged.check.kind not in FINDING_KINDS]
    red = [judged for judged in counted if judged.check.kind == "test" and judged.sealed.tests]
    judging = any(judged.sealed.ok or any(map(some_pass, filter(None, judged[1:3]))) for judged in counted)
    if not red or judging or any(some_pass(tests.on_patch) for tests in all_patch_tests):
        return []
    first = next((detail for detail in red[0].sealed.details if detail.error), None)
    example = f"; the first one: {terms.one_line(f'{first.test}: {first.error}')}" if first else ""
    text = f"{red[0].check.name}: no test passes, neither on base nor on the change, so nothing was proven{example}"
    return [VerdictReason(Decision.RETRY, text, unjudged=True)]


def _of_check(judged: CheckComparison, track: Track | None) -> list[VerdictReason]:
    name, change, now = judged.check.name, judged.comparison, judged.sealed
    if judged.base is not None and _is_tampered(judged.base):
        return [VerdictReason(Decision.RETRY, f"{name}: on base, {judged.base.summary}", unjudged=True)]
    if _is_tampered(now):
        return [VerdictReason(Decision.REDO, f"{name}: {now.summary}")]
    out = []
    for what, names, rule in (
        ("newly failing", change.newly_failing, ""),
        ("no longer run", change.vanished, "tests-gone"),
        ("newly skipped", change.now_skipped, "tests-skipped"),
    ):
        if names:
            out.append(VerdictReason(Decision.RETRY, f"{name}: {what}: {shown(names)}", rule))
    if not out and not now.ok and not _as_bad_before(judged) and not _is_explained(judged):
        text = f"{name}: {now.summary} ({now.type}){_hint(judged)}"
        out.append(VerdictReason(Decision.RETRY, text, unjudged=no_result_at_all(judged)))
    if track is Track.REFACTOR and change.fixed and not out and judged.check.kind not in FINDING_KINDS:
        out.append(
            VerdictReason(
                Decision.RETRY,
                f"{name}: a refactoring must not change outcomes, but these changed: {shown(change.fixed)}",
            )
        )
    return out


def _is_explained(judged: CheckComparison) -> bool:
    """Return True if findings say why this check fails, for each of its failures."""
    if not judged.explained:
        return False
    if judged.answered_by is not None or judged.check.kind in FINDING_KINDS:
        return True
    red = {name for name, outcome in judged.sealed.tests.items() if outcome in RED}
    return red <= {*judged.explained, *judged.comparison.pre_existing, *judged.comparison.flaky}


def no_result_at_all(judged: CheckComparison) -> bool:
    """Return True if the check gave no result on base either: then the tool is at fault, or its environment."""
    base, now = judged.base, judged.sealed
    if _is_tampered(base):
        return True
    if base is None or base.type not in NO_ANSWER or now.type not in NO_ANSWER or _is_tampered(now):
        return False
    return not some_pass(base) and not some_pass(now)


def cannot_judge(checks: Sequence[CheckComparison], named: Sequence[PlanCheckResult]) -> bool:
    """Return True if there is no check, or one of them gave no result on base either: then nothing shows a fault."""
    return any(map(is_unjudged, checks)) or not (named or any(not judged.left_out for judged in checks))


def is_unjudged(judged: CheckComparison) -> bool:
    """Return True for a check that counts and gave no result on either side."""
    return not judged.left_out and no_result_at_all(judged)


def _is_tampered(result: VerificationResult | None) -> bool:
    return result is not None and result.type == "tampered"


def some_pass(result: VerificationResult) -> bool:
    return any(outcome in ("passed", "xpassed") for outcome in result.tests.values())


def _hint(judged: CheckComparison) -> str:
    if judged.base is None or judged.base.type != judged.sealed.type or judged.sealed.type != "collection_error":
        return ""
    return (
        "; on base too: the workspace has no files that git ignores, so list those that tests import in "
        "[workspace] carry_copy, or create them in [verify] setup"
    )


def _as_bad_before(judged: CheckComparison) -> bool:
    """Return True if the same failures exist on base, so that they are not the fault of this change."""
    base, now = judged.base, judged.sealed
    if base is None or base.ok:
        return False
    if some_pass(base) and some_pass(
        now
    ):  # no test got worse; the check may end badly for one other reason, the same as before
        return now.type not in NO_ANSWER or (
            now.type == base.type != "timeout" and now.exit_code == base.exit_code and now.exit_code is not None
        )
    if now.type in NO_ANSWER:
        return False
    if judged.check.kind in FINDING_KINDS:
        return bool(base.details)
    return _counts_no_worse(base, now)


def _counts_no_worse(base: VerificationResult, now: VerificationResult) -> bool:
    """Compare the numbers if tests have no names; without any failure count, nothing is known."""
    known = now.counts.failed + now.counts.errors > 0
    worse = now.counts.failed + now.counts.errors > base.counts.failed + base.counts.errors
    return known and not worse and now.counts.passed >= base.counts.passed


def of_own(all_patch_tests: Iterable[PatchTests]) -> list[VerdictReason]:
    out = []
    for patch_tests in all_patch_tests:
        if patch_tests.failing:
            names, offline = shown(patch_tests.failing), _need_network(patch_tests)
            why = "need a network, which no check has, so they could not be judged" if offline else "fail"
            text = f"{patch_tests.check}: tests of the patch {why}: {names}"
            out.append(VerdictReason(Decision.RETRY, text, unjudged=offline))
        elif patch_tests.own_settings:
            names = shown(patch_tests.own_settings)
            text = f"{patch_tests.check}: tests of the patch pass only with the settings that it brings: {names}"
            out.append(VerdictReason(Decision.ASK, text, "passes-with-own-settings"))
        elif not patch_tests.on_patch.ok and not patch_tests.on_patch.tests:
            out.append(
                VerdictReason(
                    Decision.RETRY, f"{patch_tests.check}: tests of the patch: {patch_tests.on_patch.summary}"
                )
            )
    return out


def _need_network(patch_tests: PatchTests) -> bool:
    """Return True if every failing test ended with the error of a machine without a network."""
    errors = {item.test: f"{item.error}\n{item.context or ''}" for item in patch_tests.on_patch.details}
    return all(_NO_NETWORK.search(errors.get(name, "")) for name in patch_tests.failing)


def of_named(named: Iterable[PlanCheckResult], asked: Collection[str] = ()) -> list[VerdictReason]:
    """Return what stands against a plan's checks; `asked` are files about whose edits a person is asked anyway."""
    out = []
    for check in named:
        if not check.held:
            out.append(VerdictReason(Decision.RETRY, f"check {check.name}: {check.reason}"))
        elif check.red_on_base is False:
            out.append(VerdictReason(Decision.RETRY, f"check {check.name} must fail on base, but already passes there"))
        elif not {*check.edited} <= {*asked}:
            why = f"check {check.name} passes only with the change's version of {shown(check.edited)}"
            text = f"{why}, not with the previous version"
            out.append(VerdictReason(Decision.ASK, text, "check-needs-edited-tests"))
    return out


def of_fix(proven: Iterable[str], unproven: AbstractSet[str] = frozenset()) -> list[VerdictReason]:
    """Require of a fix that something failed before and passes now, and that it depends on the change."""
    names = list(proven)
    if any(name not in unproven for name in names):
        return []
    if names:
        text = f"no test that was red reaches the changed code: {shown(sorted(names))}"
        return [VerdictReason(Decision.RETRY, f"{text} passes although every changed function fails")]
    return [VerdictReason(Decision.RETRY, "nothing that failed on base passes now, so the fix is not proven")]


def of_criteria(
    criteria: Mapping[str, str | None], track: Track | None, passed: Mapping[str, bool]
) -> list[VerdictReason]:
    """Return a reason for each acceptance criterion of a plan that is not met; `passed` has checks and tests."""
    out = []
    for text, check in criteria.items():
        if check is None and track is Track.FEATURE:
            unshown = f"acceptance {text!r} names no check, so nothing shows that it is met"
            out.append(VerdictReason(Decision.RETRY, unshown))
        elif check is not None and not passed.get(check):
            why = "did not pass" if check in passed else f"is not known; known: {shown(list(passed))}"
            out.append(VerdictReason(Decision.RETRY, f"acceptance {text!r} is not met: check {check} {why}"))
    return out


def held(
    checks: Iterable[CheckComparison], all_patch_tests: Iterable[PatchTests], named: Iterable[PlanCheckResult]
) -> dict[str, bool]:
    """Return every check and test by name, and whether it passed."""
    out: dict[str, bool] = {}
    for item in checks:
        if not item.left_out:
            out |= tests_passed(item.sealed) | {item.check.name: item.sealed.ok}
    for patch_tests in all_patch_tests:
        out |= tests_passed(patch_tests.on_patch)
    return out | {item.name: item.held for item in named}


def not_green(checks: Iterable[CheckComparison]) -> frozenset[str]:
    """Return the tests that ran on base and whose old version does not pass on the change."""
    return frozenset(
        name
        for judged in checks
        if judged.base is not None and not judged.left_out
        for name, before in judged.base.tests.items()
        if before not in ("skipped", "xfailed") and judged.sealed.tests.get(name) not in ("passed", "xpassed")
    )


def skipped_before(judged: CheckComparison) -> Iterator[str]:
    before = judged.base.tests if judged.base else {}
    return (name for name, outcome in judged.sealed.tests.items() if outcome == before.get(name) == "skipped")


def tests_passed(result: VerificationResult) -> dict[str, bool]:
    """Return every test in all spellings of its name, and whether it passed."""
    return {spelling: outcome == "passed" for name, outcome in result.tests.items() for spelling in spellings(name)}


def spellings(test: str) -> tuple[str, ...]:
    """Return a test's name as printed and as people write it: `test_a (pkg.Case.test_a)` is `pkg.Case.test_a`."""
    inner = test.partition(" (")[2]
    return (test, inner[:-1]) if inner.endswith(")") else (test,)


def gravest(reasons: Iterable[VerdictReason]) -> Decision:
    return terms.gravest(reason.decision for reason in reasons)


def shown(names: Sequence[str]) -> str:
    """Join names for a message, listing only the first few."""
    return join_first(names, _MOST_NAMES)
