"""Answer quickly and provisionally: run sealed only the tests that import what changed. The answer is never PASS."""

from __future__ import annotations

from reflectloop.terms import Decision
from reflectloop.verification import test_selection, verdict
from reflectloop.verification.compare import Comparison
from reflectloop.verification.seal import JudgingFiles
from reflectloop.verification.sealed import SealedVerification
from reflectloop.verification.verdict import Provisional, Verdict, VerdictReason


class QuickVerification(SealedVerification):
    """A verification that stops at the tests which depend on the change."""

    def judge(self) -> Verdict:
        """Run the chosen tests on base and on the patch, sealed, and return a provisional verdict."""
        self.runs.judging = JudgingFiles(tuple(self.case.protect), tuple(self.case.lifted))
        self._lay_out()
        self.findings = self._text_findings
        tests = [check for check in self.case.checks if check.kind == "test"]
        trees = self.runs.ground.trees
        choice = test_selection.choose(trees, self.with_tests, self.laid.changes)
        known = trees.listing(self.case.base)
        only = {check.name: test_selection.arguments(check, choice.files, known) for check in tests}
        only = {name: files for name, files in only.items() if files}
        wanted = [*(check for check in self.case.checks if check.kind == "build"), *tests]
        own = self.with_tests != self.tree
        self.runs.expected_runs = 2 * (len(wanted) + (len(tests) if own else 0))
        before = self._run(self.case.base, wanted, "on base, the tests that depend on the change", only)
        self._limits = {name: self.runs.time_limit(ran.result) for name, ran in before.items()}
        after = self._run(self.tree, wanted, "on base + patch, the tests that depend on the change", only)
        judged = [self._judged(check, before[check.name], after[check.name]) for check in wanted]
        patch_tests = self._own_tests(judged)
        judged = self._explained(judged, patch_tests)
        provisional = Provisional(choice.files if only else (), choice.unknown)
        reasons = [
            *verdict.of_findings(self.findings, self.laid.freed),
            *verdict.of_checks(judged, self.case.track),
            *verdict.of_own(patch_tests),
            VerdictReason(Decision.RETRY, provisional.text, unjudged=True),
        ]
        standing, approved = verdict.split_approved(
            verdict.identified(reasons, self.case.base, self.case.head), self.case.approved
        )
        total = Comparison()
        for item in judged:
            total = total.joined(item.comparison) if not item.left_out else total
        return Verdict(
            verdict.gravest(standing),
            "L2",
            self.case.track,
            tuple(standing),
            tuple(self.findings),
            tuple(judged),
            tuple(patch_tests),
            (),
            total,
            self.case.base,
            self.case.head,
            self.tree,
            tuple(self.laid.restored),
            tuple(sorted(self.runs.notes)),
            tuple(approved),
            provisional=provisional,
        )
