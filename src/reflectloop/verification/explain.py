"""Explain why a check got worse: the change broke it, or it changed a test or a setting on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reflectloop.verification import compare, intended
from reflectloop.verification.compare import NO_ANSWER, Comparison
from reflectloop.verification.intended import IntendedChanges, NewVersionOutcomes
from reflectloop.verification.result import (
    FINDING_KINDS,
    ChangedFile,
    DetectedCheck,
    TamperFinding,
    VerificationResult,
)
from reflectloop.verification.verdict import CheckComparison, PatchTests, shown

OWN_SETTINGS = "passes-with-own-settings"
_GREEN = ("passed", "xpassed")


class ExplainedCheck(NamedTuple):
    """A comparison without the tests that a finding explains."""

    judged: CheckComparison
    findings: tuple[TamperFinding, ...] = ()
    intended: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FailureExplainer:
    """Runs a check again with what the change brings, to find out whether the change meant it.

    `with_tests` and `base_with_tests` have the new version of the tests; `head` is the change with all its settings.
    """

    run: Callable[[str, DetectedCheck, str], VerificationResult]
    repeat: Callable[[str, DetectedCheck, str, Sequence[str]], VerificationResult]
    tree: str
    with_tests: str
    base_with_tests: str
    head: str
    served: Sequence[ChangedFile]  # changed files that serve tests
    settings: Sequence[ChangedFile]  # changed files that judge the change otherwise
    patch: Sequence[ChangedFile]  # all changed files

    def explain(self, judged: CheckComparison, own: PatchTests | None) -> ExplainedCheck:
        if judged.left_out or judged.base is None:
            return ExplainedCheck(judged)
        if judged.check.kind in FINDING_KINDS:
            return self._issues(judged)
        base, now = judged.base, judged.sealed
        if base.tests and not now.tests and now.type in NO_ANSWER:
            return self._unusable(judged, base)
        if not base.tests and base.ok and not now.ok and not now.tests:
            return self._nameless(judged, base)
        if not base.tests or not now.tests:
            return ExplainedCheck(judged)
        return self._tests(judged, own)

    # Tests by name ---------------------------------------------------------------------------------------------

    def _tests(self, judged: CheckComparison, own: PatchTests | None) -> ExplainedCheck:
        change = judged.comparison
        worse = {*change.newly_failing, *change.vanished, *change.now_skipped}
        new = own.on_patch.tests if own else {}
        corrected = {name for name in change.pre_existing if new.get(name) in _GREEN}
        explained, files = IntendedChanges(), frozenset[str]()
        if self.served and (worse or corrected):
            versions = self._versions(judged.check, worse, own)
            # A red test that is corrected and passes without the change too says nothing about the change.
            corrected = {name for name in corrected if versions.on_base.get(name) not in _GREEN}
            explained = intended.classify(worse | corrected, versions)
            gone = [name for name in explained.removed if intended.owner(name, self.served)]
            files = frozenset(name for name in gone if intended.is_file(name, self.served))
            explained = explained._replace(removed=tuple(name for name in gone if name not in files))
        findings = intended.findings(explained, self.served, self.patch)
        left = worse - explained.names - files
        by_settings = self._passing_with_settings(judged.check, left)
        if by_settings:
            findings.append(self._settings_finding(judged.check, sorted(by_settings)))
        names = explained.names | files | by_settings
        remaining = judged._replace(comparison=change.dropping(names), explained=frozenset(names))
        return ExplainedCheck(remaining, tuple(findings), explained.names, frozenset(explained.removed))

    def _versions(self, check: DetectedCheck, worse: set[str], own: PatchTests | None) -> NewVersionOutcomes:
        """Return how the new version of the tests comes out; the whole check runs again if the own tests lack one."""
        if own and worse <= own.on_patch.tests.keys():
            return NewVersionOutcomes(own.on_patch.tests, own.on_base.tests)
        on_change = self.run(self.with_tests, check, "with the new tests, on base + patch").tests
        green = any(on_change.get(name) in _GREEN for name in worse)
        on_base = self.run(self.base_with_tests, check, "with the new tests, on base").tests if green else {}
        known = own.on_patch.tests if own else {}
        known_on_base = own.on_base.tests if own else {}
        return NewVersionOutcomes({**known, **on_change}, {**known_on_base, **on_base})

    def _passing_with_settings(self, check: DetectedCheck, names: set[str]) -> set[str]:
        """Return the tests that pass with every file as the change has it."""
        if not names or not self.settings or self.head == self.with_tests:
            return set()
        again = self.repeat(self.tree, check, "newly failing tests again", sorted(names))
        names = {name for name in names if again.tests.get(name) not in _GREEN}  # a flaky test shows nothing
        result = self.run(self.head, check, "with the settings of the change") if names else again
        return {name for name in names if result.tests.get(name) in _GREEN}

    def _settings_finding(self, check: DetectedCheck, names: Sequence[str]) -> TamperFinding:
        first = self.settings[0]
        line, quoted = intended.quote(first)
        paths = shown([change.path for change in self.settings])
        what = f"{check.name}: {shown(list(names))} passes only with the change's version of {paths}"
        return TamperFinding(OWN_SETTINGS, first.path, line, what, "suspect", quoted)

    # Checks without names ---------------------------------------------------------------------------------------

    def _unusable(self, judged: CheckComparison, base: VerificationResult) -> ExplainedCheck:
        """The old tests cannot even start on the change: judge by their new version, which a person must approve."""
        for files, tree, description, rule in self._new_versions():
            new = self.run(tree, judged.check, description)
            if new.tests:
                return self._answered(judged, base, new, files, rule)
        return ExplainedCheck(judged)

    def _nameless(self, judged: CheckComparison, base: VerificationResult) -> ExplainedCheck:
        """A build, or tests without names, that pass only with the change's own files: a person must approve these."""
        for files, tree, description, rule in self._new_versions():
            new = self.run(tree, judged.check, description)
            if not new.ok:
                continue
            line, quoted = intended.quote(files[0])
            paths = shown([change.path for change in files])
            what = (
                f"{judged.check.name} fails on the change ({judged.sealed.summary}); "
                f"with the new version of {paths}: {new.summary}; on base: {base.summary}"
            )
            finding = TamperFinding(rule, files[0].path, line, what, "suspect", quoted)
            explained = frozenset((judged.check.name,))
            return ExplainedCheck(
                judged._replace(comparison=Comparison(), explained=explained, answered_by=new), (finding,)
            )
        return ExplainedCheck(judged)

    def _new_versions(self) -> Iterator[tuple[Sequence[ChangedFile], str, str, str]]:
        """Yield what the change has its own version of: files, the tree with them, a description and a rule."""
        if self.served:
            yield self.served, self.with_tests, "with the new tests, on base + patch", intended.RULE
        if self.settings and self.head != self.with_tests:
            settings = sorted(self.settings, key=lambda change: change.before is None)  # an edited one tells more
            yield settings, self.head, "with the settings of the change", OWN_SETTINGS

    def _answered(
        self,
        judged: CheckComparison,
        base: VerificationResult,
        new: VerificationResult,
        files: Sequence[ChangedFile],
        rule: str,
    ) -> ExplainedCheck:
        """Judge by a run with the change's own version of some files, and ask a person about these."""
        change = compare.by_test(base.tests, new.tests)
        gone = f"; gone: {shown(change.vanished)}" if change.vanished else ""
        first = files[0]
        line, quoted = intended.quote(first)
        paths = shown([change.path for change in files])
        what = (
            f"the old tests cannot run on the change ({judged.sealed.summary}); "
            f"with the new version of {paths}: {new.summary}{gone}"
        )
        finding = TamperFinding(rule, first.path, line, what, "suspect", quoted)
        explained = frozenset(name for name in base.tests if name not in change.newly_failing)
        remaining = judged._replace(
            comparison=change._replace(vanished=()), sealed=judged.sealed, explained=explained, answered_by=new
        )
        return ExplainedCheck(remaining, (finding,), frozenset(change.vanished))

    def _issues(self, judged: CheckComparison) -> ExplainedCheck:
        """Drop new issues of a linter that the settings of the change allow; those settings are a finding already."""
        change, base = judged.comparison, judged.base
        if base is None or not change.newly_failing or not self.settings:
            return ExplainedCheck(judged)
        new = self.run(self.head, judged.check, "with the settings of the change")
        if new.type in NO_ANSWER or judged.sealed.type in NO_ANSWER:
            return ExplainedCheck(judged)
        still = compare.compare(base, new).newly_failing
        allowed = tuple(issue for issue in change.newly_failing if issue not in still)
        if not allowed:
            return ExplainedCheck(judged)
        remaining = judged._replace(
            comparison=Comparison(**{**change._asdict(), "newly_failing": still}), explained=frozenset(allowed)
        )
        return ExplainedCheck(remaining, (self._settings_finding(judged.check, allowed),))
