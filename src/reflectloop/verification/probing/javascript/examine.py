"""Probe a patch's JavaScript functions: record the tests' calls, repeat them in bare Node.js, try other inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from reflectloop.verification import protected
from reflectloop.verification.probing import examine as python
from reflectloop.verification.probing import programs as python_programs
from reflectloop.verification.probing.changed import ChangedFunction, ChangeReport
from reflectloop.verification.probing.examine import ProbeInput, ProbeReport
from reflectloop.verification.probing.javascript import changes, replays, tokens
from reflectloop.verification.probing.javascript.inputs import NodeNeighbourProbe
from reflectloop.verification.probing.javascript.programs import NodeRecordingExtras
from reflectloop.verification.probing.javascript.replays import NodeReplay, NodeStandInExtras
from reflectloop.verification.probing.only_under_test import OutcomeProbe
from reflectloop.verification.probing.programs import RecordedCall, Recording
from reflectloop.verification.probing.replays import Outcomes
from reflectloop.verification.probing.second_run import OTHER_LOCALE, OTHER_ZONE, SuiteOutcomes, SurroundingsProbe
from reflectloop.verification.result import ChangedFile, DetectedCheck

LANGUAGE = "javascript"
_SURROUNDINGS = {**OTHER_ZONE, **OTHER_LOCALE}
_NOT_SOURCES = (".config.js", ".config.cjs", ".config.mjs", "file.js", ".min.js")


def applies(check: DetectedCheck, listed: Sequence[ChangedFile]) -> bool:
    """Return True if a check runs tests of JavaScript and the patch changes JavaScript sources."""
    return check.tool in replays.TOOLS and any(is_source(item.path) and item.after is not None for item in listed)


def is_source(path: str) -> bool:
    """Return True for a JavaScript file of the product, not of its tests or its set-up."""
    return (
        path.endswith(changes.ENDINGS)
        and not PurePosixPath(path).name.endswith(_NOT_SOURCES)
        and "node_modules" not in PurePosixPath(path).parts
        and not protected.is_test(path)
        and not protected.guard(path)
    )


def changed_functions(case: ProbeInput) -> ChangeReport:
    """Return the JavaScript functions that a patch changes."""
    return changes.find([change for change in case.changes if is_source(change.path)])


def surroundings(case: ProbeInput, suite: SuiteOutcomes) -> SurroundingsProbe:
    """Return the probe that runs a suite in other surroundings: always the whole suite."""
    trees = case.runs.ground.trees
    tests = [path for path in trees.listing(case.tree) if protected.is_test(path)]

    def recorder(functions: Sequence[ChangedFunction], env: Mapping[str, str], _order: str = "") -> NodeRecordingExtras:
        return NodeRecordingExtras(trees, case.tree, functions, env, tests, suite.check.tool in replays.READING)

    return SurroundingsProbe(case.run, case.base, case.tree, suite._replace(important=()), recorder)


def examine(case: ProbeInput) -> ProbeReport:
    """Probe the changed JavaScript functions of a patch; an empty report if there are none, or no tests of them."""
    suites = [suite for suite in case.suites if applies(suite.check, case.changes) and python.some_pass(suite)]
    if not suites:
        return ProbeReport()
    early = case.early.get(LANGUAGE)
    change = early.change if early else changed_functions(case)
    report = python.begun(case, change, _SWITCHES)
    if case.records(change):
        for suite in suites:
            run = early.runs.get(suite.check.name) if early else None
            means = _SuiteMeans(case, suite, report.functions)
            python.record_suite(case, surroundings(case, suite), run, means.outcome_probe, report)()
        if case.settings.replay and change.functions:
            report.notes.append(python.summary(change.functions, report.probed, report.reasons, python.OUTSIDE))
        if case.settings.neighbours and report.recording.calls:
            _probe_neighbours(case, report)
    return report


_SWITCHES = ("second_run", "replay", "neighbours")


def _probe_neighbours(case: ProbeInput, report: ProbeReport) -> None:
    probe = NodeNeighbourProbe(
        case.runs, case.base, case.tree, report.recording, case.changes, case.note, is_fix=case.is_fix
    ).examine()
    if case.is_fix:
        probe.leave_out_silent()
    left_out = report.add_neighbours(probe)
    report.notes.append(python.summary(report.functions, probe.probed, left_out, python.NEAR))


class _SuiteMeans:
    """Repeats the calls of one check's tests."""

    def __init__(self, case: ProbeInput, suite: SuiteOutcomes, functions: Sequence[ChangedFunction]) -> None:
        self.case, self.suite, self.functions = case, suite, functions
        self.trees = case.runs.ground.trees
        self.reads = suite.check.tool in replays.READING

    def outcome_probe(self, recording: Recording) -> OutcomeProbe:
        case = self.case
        bare = NodeReplay(case.runs, case.base, case.note, self.functions)
        return OutcomeProbe(bare, self._stand_ins, case.base, case.tree, recording, self._record_on_base)

    def _record_on_base(self, functions: Sequence[ChangedFunction], _tests: Sequence[str]) -> Recording:
        extras = NodeRecordingExtras(self.trees, self.case.base, functions, _SURROUNDINGS, (), self.reads)
        self.case.run(self.case.base, self.suite.check, "calls of the same tests, on base", (), extras)
        return extras.recording

    def _stand_ins(self, tree: str, calls: Sequence[RecordedCall], with_hooks: bool) -> Outcomes:
        listing = self.trees.listing(tree)
        tests = [test for test in dict.fromkeys(call.test for call in calls) if test in listing]
        if not tests or not with_hooks or self.reads:
            return {}
        groups = {test: f"g{number}" for number, test in enumerate(tests)}
        modules = [test for test in tests if self._is_module(tree, test)]
        package = python_programs.random_name()
        made = replays.stand_ins(self.suite.check.tool, package, groups, modules)
        replaced = self.trees.with_contents(tree, made)
        self.case.runs.made_from[replaced] = tree
        groups |= {call.test: groups[tests[0]] for call in calls if call.test not in groups}
        extras = NodeStandInExtras(self.trees, tree, calls, self.functions, package, groups, _SURROUNDINGS)
        self.case.run(replaced, self.suite.check, "recorded calls, in stand-ins for their tests", (), extras)
        return extras.outcomes

    def _is_module(self, tree: str, path: str) -> bool:
        try:
            return path.endswith(".mjs") or changes.is_module(tokens.split(self.trees.read(tree, path) or b""))
        except tokens.Unreadable:
            return False
