"""Sealed verification: the engine runs the checks on base and on the patch, with protected files as in base."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reflectloop import secrets
from reflectloop.sandbox.sandbox import CommandResult
from reflectloop.system import clock
from reflectloop.terms import Decision, Track
from reflectloop.verification import (
    compare,
    evidence,
    intended,
    probing,
    protected,
    strength,
    test_selection,
    tools,
    verdict,
)
from reflectloop.verification.change_proof import ChangeProof, JudgedTrees, died
from reflectloop.verification.check_runner import CheckRun, CheckRunner
from reflectloop.verification.compare import Comparison
from reflectloop.verification.evidence import Level
from reflectloop.verification.evidence_chain import Chain, EvidenceRecord
from reflectloop.verification.explain import FailureExplainer
from reflectloop.verification.flaky_tests import FlakyTests
from reflectloop.verification.intended import RunEvidence
from reflectloop.verification.patch_text import look
from reflectloop.verification.plan_checks import PlanChecks
from reflectloop.verification.probing import ProbeInput, ProbeReport, SuiteOutcomes
from reflectloop.verification.result import (
    FINDING_KINDS,
    RED,
    DetectedCheck,
    TamperFinding,
    VerificationResult,
)
from reflectloop.verification.run_extras import RunExtras
from reflectloop.verification.seal import JudgingFiles
from reflectloop.verification.sealed_trees import VerificationInput, lay_out
from reflectloop.verification.setup_code import of_setup, without_setup
from reflectloop.verification.stable_ids import match_unstable_ids, renumbered
from reflectloop.verification.test_only_files import find_test_only_files
from reflectloop.verification.used_files import find_used_files
from reflectloop.verification.verdict import (
    CheckComparison,
    PatchTests,
    PlanCheckResult,
    StrengthReport,
    Verdict,
    VerdictReason,
)

_TIMES_BASE = 2  # a first look is not awaited longer than the whole suite of base took, so many times
_ALL_REMEMBERED = (
    "no check ran now: every result on the change is remembered from an earlier verification of the same tree "
    "(evidence L2); remove .reflectloop/cache/verify to run them again"
)


@dataclass
class SealedVerification:
    """One verification, from its trees to its verdict."""

    case: VerificationInput
    runs: CheckRunner
    chain: Chain
    plan_hash: str | None = None
    _attempts: dict[tuple[str, ...], int] = field(default_factory=dict)
    _ran_now: bool = False  # True if a check ran on the change in this verification
    _limits: dict[str, float] = field(default_factory=dict)  # seconds, by check, from the time that base took
    _test_ids: dict[str, frozenset[str]] = field(default_factory=dict)  # by check, those of its first run
    _early: Mapping[str, probing.EarlyRuns] = field(default_factory=dict)  # by language, second runs that took place

    def judge(self) -> Verdict:
        """Run all checks and return the verdict."""
        self.runs.judging = JudgingFiles(tuple(self.case.protect), tuple(self.case.lifted))
        self.tree = self.with_tests = ""  # not known before the run of base shows which files judge
        before = self._run(self.case.base, self.case.checks, "on base") if self.case.checks else {}
        with self._protecting_what_is_used(before):
            return self._judge(before)

    @contextmanager
    def _protecting_what_is_used(self, before: Mapping[str, CheckRun]) -> Iterator[None]:
        """Protect the files that judge because the run of base used them, whatever they are called."""
        trees, base = self.runs.ground.trees, self.case.base
        results = {name: ran.result for name, ran in before.items()}
        changes = trees.changes(base, self.case.head)
        read = functools.partial(trees.read_all, base)
        tests = find_used_files(self.case.checks, results, trees.listing(base), changes, read)
        with protected.judged_by(tests):
            data = find_test_only_files(changes, trees.listing(base), read)
        with protected.judged_by(tests, data):
            yield

    def _judge(self, before: Mapping[str, CheckRun]) -> Verdict:
        self._lay_out()
        same = [ran for ran in before.values() if ran.tree in (self.tree, self.with_tests) and not ran.remembered]
        self._ran_now |= bool(same)  # the change leaves alone all that the checks of base read
        checks = self._suite(before)
        self.findings = self._text_findings
        patch_tests = self._own_tests(checks)
        checks = self._explained(checks, patch_tests)
        asked = PlanChecks(
            self.runs,
            self.case.base,
            self.laid.base_with_tests,
            self.with_tests,
            self._write_down,
            self.laid.unedited,
            tuple(self.laid.edited),
        )
        track = self.case.track
        looks_back = track in (Track.FIX, Track.FEATURE)
        named = asked.judge(self.case.named, timed=track is Track.REFACTOR, looks_back=looks_back)
        proof = self._proof(checks, patch_tests, named)
        unmet = [reason for reason in proof.reasons(track, self.case.criteria) if reason.decision is not Decision.ASK]
        refused = bool(unmet) or any(not item.held for item in named)
        proven = proof.proven if track is Track.FIX else ()
        probe = ProbeReport() if refused else self._probe(checks, patch_tests, proven)
        self._add_probe(probe)
        strong = self._strength(checks, patch_tests, proof)
        reasons = [
            *verdict.of_findings(self.findings, self.laid.freed),
            *(verdict.of_checks(checks, self.case.track) if self.case.checks or not named else []),
            *verdict.of_own(patch_tests),
            *([] if named else verdict.of_red_suite(checks, patch_tests)),
            *verdict.of_named(named, [finding.path for finding in self.findings if finding.rule == intended.RULE]),
            *([] if verdict.cannot_judge(checks, named) else proof.reasons(track, self.case.criteria, probe.unproven)),
            *(strength.reasons(strong, self.case.strength or 0) if strong else []),
            *verdict.of_criteria(self.case.criteria, self.case.track, verdict.held(checks, patch_tests, named)),
            *self._of_dependencies(),
            *self.runs.touched.reasons(self.tree, [self.case.base, self.laid.base_with_tests]),
            *(VerdictReason(Decision.ASK, doubt, "doubt") for doubt in self.case.doubts),
        ]
        reasons = verdict.identified(reasons, self.case.base, self.case.head)
        standing, approved = verdict.split_approved(reasons, self.case.approved)
        total = Comparison()
        for judged in checks:
            total = total.joined(judged.comparison) if not judged.left_out else total
        ran = any(not judged.left_out and not verdict.is_unjudged(judged) for judged in checks)
        level: Level = "L0" if not ran and not named else "L3" if named or self._ran_now else "L2"
        if level == "L2":
            self.runs.notes.add(_ALL_REMEMBERED)
        return Verdict(
            verdict.gravest(standing),
            level,
            self.case.track,
            tuple(standing),
            tuple(self.findings),
            tuple(checks),
            tuple(patch_tests),
            tuple(named),
            total,
            self.case.base,
            self.case.head,
            self.tree,
            tuple(self.laid.restored),
            (
                *(f"{judged.check.name}: {judged.left_out}" for judged in checks if judged.left_out),
                *sorted(self.runs.notes),
                *probe.notes,
            ),
            tuple(approved),
            strong,
            self.runs.ground.settings.verify.switched_off,
        )

    # The trees -----------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.laid = lay_out(self.runs.ground.trees, self.case)
        self.tree, self.with_tests = self.laid.tree, self.laid.with_tests

    @functools.cached_property
    def _text_findings(self) -> list[TamperFinding]:
        return look(self.runs.ground, self.case, self.laid)

    # (a) No test that passed on base may fail or vanish -------------------------------------------------------

    def _suite(self, before: Mapping[str, CheckRun]) -> list[CheckComparison]:
        if not self.case.checks:
            return []
        self._limits = {name: self.runs.time_limit(ran.result) for name, ran in before.items()}
        missing = [check.name for check in self.case.checks if self._is_missing(check, before[check.name])]
        checks = [check for check in self.case.checks if check.name not in missing]
        after = self._sealed_runs(checks, before) if checks else {}
        after |= {name: before[name] for name in missing}
        self.runs.expected_runs -= len(missing)
        judged = [self._judged(check, before[check.name], after[check.name]) for check in self.case.checks]
        answered = any(item.check.kind == "test" and verdict.some_pass(item.sealed) for item in judged)
        return [self._left_out_if_useless(item) for item in judged] if answered else judged

    def _sealed_runs(self, checks: Sequence[DetectedCheck], before: Mapping[str, CheckRun]) -> dict[str, CheckRun]:
        """Run the checks on the patch and, at the same time if there are cores for it, its second run for the probe.

        The text of the patch is read meanwhile.
        """

        def run() -> dict[str, CheckRun]:
            self._look_first(checks, before)
            return self._run(self.tree, checks, "on base + patch, sealed")

        suites = [
            SuiteOutcomes(check, result.tests, {}, result.duration_ms, ())
            for check in checks
            if check.kind == "test" and (result := before[check.name].result).tests
        ]
        if not suites or not self.runs.ground.strands.has_room:
            return run()
        after, self._early = self.runs.ground.strands.beside(
            run, lambda: probing.run_early(self._probe_input(), suites), quiet=lambda: self._text_findings
        )
        return after

    def _look_first(self, checks: Sequence[DetectedCheck], before: Mapping[str, CheckRun]) -> None:
        """Run the few tests of each long suite that depend on the change, unless the whole suite is remembered.

        They are not awaited much longer than the whole suite of base took: the run of the whole suite decides.
        """
        trees, changed = self.runs.ground.trees, self.laid.changes
        for check, files in test_selection.first_look(trees, self.case.base, self.with_tests, changed, checks, before):
            if self.runs.remembers(self.tree, check, checks):
                continue
            chosen = [*self._builds(check), check]
            self.runs.expected_runs += len(chosen)
            most = min(self._limits[check.name], _TIMES_BASE * before[check.name].result.duration_ms / 1000)
            limits = {**self._limits, check.name: most}
            self._run(self.tree, chosen, test_selection.FIRST_LOOK, {check.name: files}, limits=limits)

    def _is_missing(self, check: DetectedCheck, on_base: CheckRun) -> bool:
        """Return True for a linter that is not installed, and need not be: a second run would find it missing too."""
        optional = check.kind in FINDING_KINDS and check.name not in self.case.required and not self.case.has_setup
        return optional and on_base.result.type == "tool_missing"

    def _left_out_if_useless(self, judged: CheckComparison) -> CheckComparison:
        """Leave out a build or a linter that gives no result on base either, since tests judge the change."""
        base, now = judged.base, judged.sealed
        useless = base is not None and base.type in compare.NO_ANSWER and now.type in compare.NO_ANSWER
        if judged.left_out or not useless or judged.check.name in self.case.required:
            return judged
        if judged.check.kind not in {*FINDING_KINDS, "build"}:
            return judged
        return judged._replace(left_out=f"gives no result on the base either ({now.summary}), so it judges nothing")

    def _judged(self, check: DetectedCheck, before: CheckRun, after: CheckRun) -> CheckComparison:
        missing = before.result.type == after.result.type == "tool_missing"
        if missing and check.kind in FINDING_KINDS and check.name not in self.case.required:
            why = f"{check.tool} is configured but not installed here, so it checked nothing"
            return CheckComparison(check, before.result, after.result, Comparison(), why)
        base, now = before.result, after.result
        change = compare.compare(base, now)
        if change.vanished and change.added and base.tests and now.tests:
            base, now = self._with_stable_ids(check, base, now)
            change = compare.compare(base, now)
        return CheckComparison(check, base, now, change)

    def _with_stable_ids(
        self, check: DetectedCheck, base: VerificationResult, now: VerificationResult
    ) -> tuple[VerificationResult, VerificationResult]:
        """Match test ids that hold a time or a random value, which a second run of base shows."""
        second = self._again(self.case.base, check, "on base, once more")
        ids = match_unstable_ids(base.tests, second.tests, now.tests)
        known = {name: outcome for name, outcome in base.tests.items() if name not in ids.missing}
        return (
            base.model_copy(update={"tests": {**known, **ids.extra}}),
            now.model_copy(update={"tests": ids.rename(now.tests)}),
        )

    def _explained(self, checks: list[CheckComparison], patch_tests: Sequence[PatchTests]) -> list[CheckComparison]:
        """Find out which failures the change meant and which come and go; the runs settle what the text suggests."""
        explainer = FailureExplainer(
            self._whole,
            self._again,
            self.tree,
            self.with_tests,
            self.laid.base_with_tests,
            self.case.head,
            self.laid.served,
            [
                change
                for change in self.laid.changes
                if change.path in self.laid.restored and change not in self.laid.served
            ],
            self.laid.changes,
        )
        own = {tests.check: tests for tests in patch_tests}
        not_green = verdict.not_green(checks)
        explained = [explainer.explain(judged, own.get(judged.check.name)) for judged in checks]
        added = [finding for item in explained for finding in item.findings]
        counted = [item.judged for item in explained if item.judged.check.kind == "test" and not item.judged.left_out]
        runs = RunEvidence(
            self.laid.served,
            frozenset(name for item in explained for name in item.intended),
            frozenset(name for item in explained for name in item.removed),
            not_green,
            bool(counted) and all(judged.sealed.tests or judged.sealed.ok for judged in counted),
            frozenset(name for judged in counted for name in judged.sealed.tests),
            {name: outcome for tests in patch_tests for name, outcome in tests.on_patch.tests.items()},
            frozenset(name for judged in counted for name in verdict.skipped_before(judged)),
        )
        self.findings = intended.settle(self.findings, added, runs)
        return [self._without_flaky(item.judged) for item in explained]

    def _without_flaky(self, judged: CheckComparison) -> CheckComparison:
        change = judged.comparison
        if not change.newly_failing or not judged.sealed.tests:
            return judged
        flaky = FlakyTests(self._again, self.case.base, self.tree).among(judged.check, change.newly_failing)
        return judged._replace(comparison=change.without(flaky))

    def _whole(self, tree: str, check: DetectedCheck, description: str) -> VerificationResult:
        """Run one check with the builds it needs."""
        before = [build for build in self._builds(check) if build.name != check.name]
        return self._run(tree, [*before, check], description)[check.name].result

    def _builds(self, check: DetectedCheck) -> list[DetectedCheck]:
        return [other for other in self.case.checks if other.kind == "build" and other.cwd == check.cwd]

    def _again(self, tree: str, check: DetectedCheck, description: str, only: Sequence[str] = ()) -> VerificationResult:
        """Repeat a check in its own workspace, so that files left by the first run cannot help the second."""
        builds = self._builds(check)
        chosen = {check.name: list(only)} if only and tools.selection(check, list(only)) else {}
        key = (tree, check.name, *sorted(chosen.get(check.name, ())))
        self._attempts[key] = self._attempts.get(key, 0) + 1
        result = self._run(tree, [*builds, check], description, chosen, self._attempts[key])[check.name].result
        if chosen and not died(result) and not any(name in result.tests for name in only):
            return self._again(tree, check, f"{description}, whole")  # the tool did not recognise these names
        return result

    # (b) The tests that the patch adds or changes, in their new version ---------------------------------------

    def _own_tests(self, judged: Sequence[CheckComparison]) -> list[PatchTests]:
        changed = [
            change.path
            for change in self.laid.changes
            if change.after is not None and (protected.is_test(change.path) or change.path in self.laid.inline)
        ]
        if self.with_tests == self.tree:
            return []
        out = []
        for item in judged:
            files = [path for path in changed if tools.collects(item.check, path)]
            if item.check.kind != "test" or item.left_out or verdict.no_result_at_all(item):
                continue
            if files or not changed:  # where helpers or data alone changed, any test may use them
                out.append(self._judge_patch_tests(item, files))
        return out

    def _judge_patch_tests(self, judged: CheckComparison, files: Sequence[str]) -> PatchTests:
        check = judged.check
        now, before = self.runs.ground.strands.beside(
            lambda: self._own_run(self.with_tests, check, "tests of the patch, on base + patch", files),
            lambda: self._own_run(self.laid.base_with_tests, check, "tests of the patch, on base", files),
        )
        known = judged.base.tests if judged.base else {}
        failing = [name for name, outcome in now.tests.items() if outcome in RED and known.get(name) not in RED]
        if failing:
            again = self._again(self.with_tests, check, "failing tests of the patch, once more", failing)
            failing = [name for name in failing if again.tests.get(name, "failed") in RED]
        own_settings: list[str] = []
        if (failing or (not now.ok and not now.tests)) and self.case.head != self.with_tests:
            whole = self._own_run(self.case.head, check, "tests of the patch, with the settings of the change", files)
            own_settings = [name for name in failing or [check.name] if _passes(whole, name)]
            failing = [name for name in failing if name not in own_settings]
        # A test whose old version fails on the change proves nothing with its new version, unless a person approves it.
        old = {name for name, outcome in judged.sealed.tests.items() if outcome in RED}
        green = [name for name, outcome in now.tests.items() if outcome == "passed"]
        # A run that crashes or hangs on base does not reach every test: those that never passed there are red.
        ended_early = died(before) and now.ok
        passed = {name for tests in (known, before.tests) for name, outcome in tests.items() if outcome == "passed"}
        turned = [name for name in green if (name not in passed if ended_early else before.tests.get(name) in RED)]
        return PatchTests(
            check.name,
            before,
            now,
            tuple(sorted(name for name in turned if name not in old)),
            tuple(sorted(failing)),
            tuple(sorted(name for name in turned if name in old)),
            tuple(sorted(own_settings)),
        )

    def _own_run(self, tree: str, check: DetectedCheck, description: str, files: Sequence[str]) -> VerificationResult:
        """Run the tests of these files, or the whole check if there are none or the tool finds no test in them."""
        if not files:
            return self._whole(tree, check, description)
        only = {check.name: [check.relative(path) for path in files]}
        result = self._run(tree, [*self._builds(check), check], description, only)[check.name].result
        return self._whole(tree, check, f"{description}, whole") if result.type == "no_tests" else result

    # The decision ----------------------------------------------------------------------------------------------

    def _proof(
        self, checks: Sequence[CheckComparison], patch_tests: Sequence[PatchTests], named: Sequence[PlanCheckResult]
    ) -> ChangeProof:
        second = self.runs.ground.settings.verify.second_run
        return ChangeProof(
            self._again,
            self.runs.ground.trees,
            JudgedTrees(self.case.base, self.tree, self.laid.base_with_tests, self.with_tests),
            self.laid.changes,
            checks,
            patch_tests,
            named,
            self.runs.notes,
            self.case.named_by_author,
            lambda check: second and probing.applies(check, self.laid.changes),
        )

    def _strength(
        self, checks: Sequence[CheckComparison], patch_tests: Sequence[PatchTests], proof: ChangeProof
    ) -> StrengthReport | None:
        """Measure the tests that show the change: those that turned green and those that the patch brings."""
        if self.case.strength is None:
            return None
        own = {tests.check: tests.on_patch.tests for tests in patch_tests}
        proven = set(proof.proven if self.case.track is Track.FIX else ())
        shown = {
            item.check.name: [
                name
                for name, outcome in {**item.sealed.tests, **own.get(item.check.name, {})}.items()
                if outcome == "passed"
                and (name in proven or name in item.comparison.fixed or name in own.get(item.check.name, ()))
            ]
            for item in checks
            if item.check.kind == "test" and not item.left_out
        }
        by_name = {item.check.name: item.check for item in checks}
        return strength.measure(self.laid.changes, shown, by_name, self.runs.ground.trees, self.with_tests, self._again)

    def _probe(
        self, checks: Sequence[CheckComparison], patch_tests: Sequence[PatchTests], proven: Sequence[str]
    ) -> ProbeReport:
        """Probe the changed functions, unless the tests refuse the change already."""
        counted = [item for item in checks if item.check.kind == "test" and not item.left_out and item.sealed.tests]
        if any(item.comparison.worse for item in counted) or any(tests.failing for tests in patch_tests):
            return ProbeReport()
        own = {tests.check: tests for tests in patch_tests}
        suites, proving = [], {}
        for item in counted:
            tests = own.get(item.check.name)
            old = item.base.tests if item.base else {}
            on_base = {**old, **(tests.on_base.tests if tests else {})}
            on_patch = {**item.sealed.tests, **(tests.on_patch.tests if tests else {})}
            proving[item.check.name] = [name for name in proven if on_patch.get(name) == "passed"]
            important = [*item.comparison.fixed, *(tests.on_patch.tests if tests else ())]
            duration = item.sealed.duration_ms
            suites.append(SuiteOutcomes(item.check, on_base, on_patch, duration, important, self.case.base, old))
        return probing.examine(self._probe_input(suites, proving))

    def _probe_input(
        self, suites: Sequence[SuiteOutcomes] = (), proving: Mapping[str, Sequence[str]] | None = None
    ) -> ProbeInput:
        return ProbeInput(
            self.runs,
            self._probe_run,
            self.laid.base_with_tests,
            self.with_tests,
            self.laid.changes,
            self.case.track is Track.FIX,
            self.runs.ground.settings.verify,
            self._note_replay,
            suites,
            proving or {},
            self._early,
        )

    def _add_probe(self, probe: ProbeReport) -> None:
        self.findings = [*probing.settle(self.findings, probe), *probe.findings]

    def _note_replay(self, claim: str, tree: str, done: CommandResult, log: Path) -> None:
        self._write_down(
            claim=claim,
            level="L2",
            kind="custom",
            command=(),
            exit_code=done.exit_code,
            tree=tree,
            log=self._log_name(str(log)),
            output_sha256=evidence.digest_of(log),
            isolation=self.runs.ground.wall.stamp(()),
            started=clock.stamp(clock.now()),
            duration_ms=done.duration_ms,
        )

    def _probe_run(
        self, tree: str, check: DetectedCheck, description: str, only: Sequence[str], extras: RunExtras | None
    ) -> VerificationResult:
        chosen = {check.name: list(only)} if only else {}
        return self._run(tree, [*self._builds(check), check], description, chosen, extras=extras)[check.name].result

    def _of_dependencies(self) -> list[VerdictReason]:
        if self.case.has_setup:
            carried = self.runs.carried
            return of_setup(self.laid.changes, carried.get(self.case.base) or {}, carried.get(self.tree) or {})
        reasons, note = without_setup(self.laid.changes)
        self.runs.notes |= {note} if note else set()
        return reasons

    # Evidence --------------------------------------------------------------------------------------------------

    def _run(
        self,
        tree: str,
        checks: Sequence[DetectedCheck],
        description: str,
        only: Mapping[str, Sequence[str]] | None = None,
        attempt: int = 0,
        extras: RunExtras | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> dict[str, CheckRun]:
        ran = self.runs.on(tree, checks, description, only, attempt, limits or self._limits, extras)
        for name, run in ran.items():
            known = self._test_ids.setdefault(name, frozenset(run.result.tests))
            ran[name] = run._replace(result=renumbered(run.result, known))
        for check in checks:
            self._note(check, ran[check.name], description, whole=not only)
        return ran

    def _note(self, check: DetectedCheck, ran: CheckRun, description: str, *, whole: bool) -> None:
        sealed = ran.tree == self.tree and ran.result.ok and not ran.restricted and not ran.remembered
        # A build beside a few chosen tests says nothing about the results of the whole suite.
        counts = not ran.remembered and not ran.restricted and (whole or check.kind != "build")
        self._ran_now |= counts and ran.tree in (self.tree, self.with_tests)
        source = f" (remembered from {ran.by})" if ran.remembered else ""
        self._write_down(
            claim=f"{check.name} {description}: {ran.result.summary}{source}",
            level="L3" if sealed else "L2",
            kind=check.kind,
            command=ran.result.command,
            exit_code=ran.result.exit_code,
            counts=ran.result.counts,
            tree=ran.tree,
            output_sha256=ran.output_sha256,
            log=None if ran.remembered else self._log_name(ran.result.log_path),
            remembered=ran.by if ran.remembered else None,
            isolation=ran.isolation,
            started=ran.started,
            duration_ms=ran.result.duration_ms,
        )

    def _log_name(self, path: str | None) -> str | None:
        folder = self.chain.path.parent
        return Path(path).relative_to(folder).as_posix() if path and Path(path).is_relative_to(folder) else None

    def _write_down(self, *, claim: str, **fields: Any) -> None:  # noqa: ANN401 - the fields of a record
        redacted = secrets.current_detector().redact(claim)
        self.chain.add(EvidenceRecord(claim=redacted, base_tree=self.case.base, plan_hash=self.plan_hash, **fields))


def _passes(result: VerificationResult, name: str) -> bool:
    """Return True if this test passes; a file that could not be collected before passes with all of its tests."""
    return result.tests[name] == "passed" if name in result.tests else result.ok
