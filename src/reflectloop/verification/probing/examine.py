"""Probe a patch's functions with all means of this package, from one input to one report."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reflectloop.config import VerifyConfig
from reflectloop.sandbox.sandbox import CommandResult
from reflectloop.terms import join_first
from reflectloop.verification import protected
from reflectloop.verification.check_runner import CheckRunner
from reflectloop.verification.probing import callers, changed, replays, sabotage
from reflectloop.verification.probing.changed import ChangedFunction, ChangeReport
from reflectloop.verification.probing.only_under_test import OutcomeProbe
from reflectloop.verification.probing.programs import RecordedCall, Recording, RecordingExtras
from reflectloop.verification.probing.replays import Outcomes, PythonReplay, StandInExtras
from reflectloop.verification.probing.second_inputs import NeighbourProbe, NeighbourReport
from reflectloop.verification.probing.second_run import (
    OTHER_LOCALE,
    OTHER_SEED,
    OTHER_ZONE,
    EarlyRuns,
    RecordedRun,
    RunOnce,
    SuiteOutcomes,
    SurroundingsProbe,
)
from reflectloop.verification.result import PROBED, ChangedFile, DetectedCheck, TamperFinding

LANGUAGE = "python"
OUTSIDE, NEAR = "outside of the test runner", "on inputs near those of the tests"
_TOOLS = ("pytest", "unittest")
_NO_CODE = (".md", ".rst", ".txt", ".toml", ".cfg", ".ini", ".yml", ".yaml", ".lock")
_NOT_SOURCES = ("setup.py", "conftest.py", "noxfile.py")
_SWITCHES = ("second_run", "replay", "neighbours", "sabotage")
_MOST_OTHERS = 2000  # files that may read a changed name
_MOST_NAMED = 5
_VERSION = b"version"  # part of every name that tells which Python runs


@dataclass(frozen=True)
class ProbeInput:
    """Hold what a probe of a patch needs: trees, outcomes so far, and a way to run one check."""

    runs: CheckRunner
    run: RunOnce
    base: str  # base with the patch's version of its tests
    tree: str  # the patch with its tests
    changes: Sequence[ChangedFile]
    is_fix: bool
    settings: VerifyConfig
    note: Callable[[str, str, CommandResult, Path], None]  # writes evidence of a replay: claim, tree, result, log
    suites: Sequence[SuiteOutcomes] = ()
    proving: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by check: tests that turned green
    early: Mapping[str, EarlyRuns] = field(default_factory=dict)  # by language

    def records(self, change: ChangeReport) -> bool:
        """Return True if the tests must run a second time."""
        settings = self.settings
        return settings.second_run or bool((settings.replay or settings.neighbours) and change.functions)


@dataclass
class ProbeReport:
    """The findings, remarks for the reader, and the tests that do not depend on the change."""

    findings: list[TamperFinding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unproven: set[str] = field(default_factory=set)
    independent: set[str] = field(default_factory=set)  # those of them that pass although the changed functions fail
    functions: tuple[ChangedFunction, ...] = ()
    recording: Recording = field(default_factory=Recording)
    probed: set[ChangedFunction] = field(default_factory=set)  # outside of the test runner
    reasons: dict[ChangedFunction, str] = field(default_factory=dict)  # why others are not
    general: tuple[ChangedFunction, ...] = ()  # those whose change was seen to concern more than the tests' inputs

    def add_neighbours(self, probe: NeighbourReport) -> Mapping[ChangedFunction, str]:
        """Add what other inputs showed, and return why functions were left out."""
        known = {(finding.rule, finding.path, finding.line) for finding in self.findings}
        self.findings += [item for item in probe.findings if (item.rule, item.path, item.line) not in known]
        self.general = tuple(probe.general)
        return {**self.recording.reasons, **probe.left_out}


def changed_functions(case: ProbeInput) -> ChangeReport:
    """Return the Python functions that a patch changes."""
    sources = [change for change in case.changes if is_source(change.path)]
    return changed.find(sources, lambda: _other_sources(case))


def surroundings(case: ProbeInput, suite: SuiteOutcomes) -> SurroundingsProbe:
    """Return the probe that runs a suite in other surroundings."""
    return SurroundingsProbe(case.run, case.base, case.tree, suite)


def examine(case: ProbeInput) -> ProbeReport:
    """Probe the changed Python functions of a patch; an empty report if there are none, or no tests of Python."""
    suites = [suite for suite in case.suites if applies(suite.check, case.changes) and some_pass(suite)]
    if not suites:
        return ProbeReport()
    early = case.early.get(LANGUAGE)
    change = early.change if early else changed_functions(case)
    report = begun(case, change, _SWITCHES)
    sabotaged, others = ProbeReport(), NeighbourReport()

    def break_functions() -> None:
        _find_unproven(case, suites, change, sabotaged)

    def replay() -> None:
        for repeat in _record_suites(case, suites, early, report) if case.records(change) else ():
            repeat()

    def break_and_try_others() -> None:
        break_functions()
        _try_others(case, suites, report, others)

    before, strands = len(report.notes), case.runs.ground.strands
    if early and case.records(change) and all(suite.check.name in early.runs for suite in suites):
        repeats = _record_suites(case, suites, early, report)
        strands.beside(break_and_try_others, lambda: [repeat() for repeat in repeats])
    else:
        strands.beside(break_functions, replay)
        _try_others(case, suites, report, others)
    report.notes[before:before] = sabotaged.notes
    report.independent |= sabotaged.independent
    report.unproven |= sabotaged.unproven
    if case.records(change):
        if case.settings.replay and change.functions:
            report.notes.append(summary(change.functions, report.probed, report.reasons, OUTSIDE))
        if case.settings.neighbours and _has_calls(report):
            _add_neighbours(others, report, is_fix=case.is_fix)
        _probe_rebound(case, suites, change.rebound, report)
        _ask_about_reached(report)
    return report


def _record_suites(
    case: ProbeInput, suites: Sequence[SuiteOutcomes], early: EarlyRuns | None, report: ProbeReport
) -> list[Callable[[], None]]:
    """Record the calls of all suites, and return functions that repeat them."""
    repeats = []
    for suite in suites:
        run = early.runs.get(suite.check.name) if early else None
        repeat = functools.partial(_outcome_probe, case, suite.check)
        repeats.append(record_suite(case, surroundings(case, suite), run, repeat, report))
    return repeats


def _has_calls(report: ProbeReport) -> bool:
    return bool(report.recording.calls or report.recording.paths)


def begun(case: ProbeInput, change: ChangeReport, switches: Sequence[str]) -> ProbeReport:
    """Return a report that says what cannot be read and what is switched off."""
    unread = [f"{text}: not read, so its functions are not probed" for text in change.unread]
    off = [f"[verify] {name} is switched off" for name in switches if not getattr(case.settings, name)]
    return ProbeReport(notes=[*unread, *off], functions=change.functions)


def _ask_about_reached(report: ProbeReport) -> None:
    """Ask a person about proving tests that call the changed functions, but pass although these fail.

    They may run them in a thread, or only show that something ends.
    """
    reached = sorted(report.independent & report.recording.reached)
    if reached:
        what = f"{join_first(reached, _MOST_NAMED)} passes although every changed function that it calls fails"
        report.findings.append(
            TamperFinding("proof-without-effect", reached[0].partition("::")[0], None, what, "suspect")
        )
        report.unproven -= {*reached}


def applies(check: DetectedCheck, changes: Sequence[ChangedFile]) -> bool:
    """Return True if a check runs tests of Python and the patch changes Python sources."""
    return check.tool in _TOOLS and any(is_source(change.path) and change.after is not None for change in changes)


def some_pass(suite: SuiteOutcomes) -> bool:
    """Return True if a test of the suite passes on the patch."""
    return any(outcome == "passed" for outcome in suite.on_patch.values())


def is_source(path: str) -> bool:
    """Return True for a Python file of the product, not of its tests or its set-up."""
    return path.endswith(".py") and path.rpartition("/")[2] not in _NOT_SOURCES and not protected.guard(path)


def _other_sources(case: ProbeInput) -> dict[str, bytes]:
    trees = case.runs.ground.trees
    paths = [path for path in trees.listing(case.tree) if is_source(path)][:_MOST_OTHERS]
    contents = trees.contents([trees.listing(case.tree)[path].blob for path in paths])
    return {path: contents[trees.listing(case.tree)[path].blob] for path in paths}


def record_suite(
    case: ProbeInput,
    second: SurroundingsProbe,
    early: RecordedRun | None,
    repeat: Callable[[Recording], OutcomeProbe],
    report: ProbeReport,
) -> Callable[[], None]:
    """Run a suite's tests once more with a recorder, if it was not done.

    Return a function that repeats the calls that were recorded.
    """
    seen = second.record(report.functions, early)
    if case.settings.second_run:
        report.findings += seen.findings
    report.notes += seen.notes
    report.unproven.update(seen.unsteady)
    old, new = report.recording, seen.recording
    report.recording = old._replace(
        calls=(*old.calls, *new.calls),
        reached=old.reached | new.reached,
        python=new.python or old.python,
        path=new.path or old.path,
        reasons={**old.reasons, **new.reasons},
        paths={**old.paths, **new.paths},
    )
    report.reasons.update(new.reasons)
    report.findings += reads_of_tests(new.reads)

    def replay() -> None:
        if not case.settings.replay or not new.calls:
            return
        probe = repeat(new)
        probe.examine()
        report.findings += probe.findings
        report.probed |= probe.probed
        report.reasons.update(probe.left_out)

    return replay


def _outcome_probe(case: ProbeInput, check: DetectedCheck, recording: Recording) -> OutcomeProbe:
    return OutcomeProbe(
        PythonReplay(case.runs, case.base, case.note, recording),
        _stand_in_runner(case, check, recording),
        case.base,
        case.tree,
        recording,
        _base_recorder(case, check),
        any((item.after or b"").count(_VERSION) > (item.before or b"").count(_VERSION) for item in case.changes),
        changed.newly_asked_for(
            [item for item in case.changes if is_source(item.path)],
            functools.partial(_other_sources, case),
            recording.path,
        ),
    )


def reads_of_tests(reads: Sequence[Mapping[str, Any]]) -> list[TamperFinding]:
    """Return a finding for each changed source that read the test that ran, or git, while it ran."""
    out = {}
    for line in reads:
        path, what, at = line.get("file"), line.get("audit"), line.get("at")
        if isinstance(path, str) and isinstance(what, str) and isinstance(at, int):
            text = "starts git" if what == "git" else "reads git's files" if what == ".git" else f"reads {what}"
            text += f" while {line.get('test') or 'the tests'} runs"
            out[path, what] = TamperFinding("reads-the-tests", path, at, text)
    return [*out.values()]


def settle(findings: Sequence[TamperFinding], report: ProbeReport) -> list[TamperFinding]:
    """Turn written answers to tests' inputs into notes where every changed function of the file is general."""
    doubted = {finding.path for finding in report.findings}
    general = {item.path for item in report.general} - doubted
    general -= {item.path for item in report.functions if item not in report.general}
    return [
        item._replace(grade="note") if item.rule == "test-input-special-cased" and item.path in general else item
        for item in findings
    ]


def _try_others(case: ProbeInput, suites: Sequence[SuiteOutcomes], report: ProbeReport, probe: NeighbourReport) -> None:
    """Run base and patch on other inputs than those of the tests, if any call was recorded."""
    if not case.settings.neighbours or not _has_calls(report):
        return
    proving = frozenset(name for suite in suites for name in case.proving.get(suite.check.name, ()))
    given = case.runs, case.base, case.tree, _of_passing_tests(report.recording, suites), case.changes, case.note
    NeighbourProbe(*given, is_fix=case.is_fix, proving=proving).examine(probe)
    direct = [function for function in report.functions if function.direct]
    missing = [function for function in direct if function not in probe.probed or not probe.changed]
    for suite in suites:
        missing = [function for function in missing if function not in probe.by_caller]
        _probe_callers(case, suite, report, probe, missing)


def _of_passing_tests(recording: Recording, suites: Sequence[SuiteOutcomes]) -> Recording:
    """Leave out the calls of tests that fail on the patch too: nothing says that its answers to them are right."""
    passing = {name for suite in suites for name, outcome in suite.on_patch.items() if outcome == "passed"}
    failing = {name for suite in suites for name in suite.on_patch} - passing
    return recording._replace(calls=tuple(call for call in recording.calls if call.test not in failing))


def _add_neighbours(probe: NeighbourReport, report: ProbeReport, *, is_fix: bool) -> None:
    if is_fix:
        probe.leave_out_silent()
    left_out = report.add_neighbours(probe)
    text = summary(report.functions, probe.probed, left_out, NEAR)
    by_caller = [f"{function.qualname} by {caller}" for function, caller in probe.by_caller.items()]
    report.notes.append(f"{text}; through a caller: {', '.join(by_caller)}" if by_caller else text)


def _probe_callers(
    case: ProbeInput,
    suite: SuiteOutcomes,
    report: ProbeReport,
    probe: NeighbourReport,
    missing: Sequence[ChangedFunction],
) -> None:
    """Probe functions whose own calls tell nothing by the calls of the functions through which tests reach them."""
    tests = case.proving.get(suite.check.name, ())
    trees = case.runs.ground.trees
    listing = trees.listing(case.tree)
    chosen = callers.choose(
        missing,
        report.recording.paths,
        lambda path: path in listing and is_source(path),
        lambda path: trees.read(case.tree, path),
    )
    judged = {(function.path, function.line) for function in probe.probed & probe.changed}
    for item in chosen:  # a changed caller whose own answers showed the change says all that it can say
        if item.distance >= 0 and (item.function.path, item.function.line) in judged:
            probe.by_caller.setdefault(item.reaches, item.function.qualname)
    probe.probed |= {*probe.by_caller}
    chosen = [item for item in chosen if item.reaches not in probe.by_caller]
    if not chosen or not tests:
        return
    made = callers.constructors(_other_sources(case))
    functions = [*dict.fromkeys(item.function for item in chosen)]
    extras = RecordingExtras(functions, {**OTHER_SEED, **OTHER_ZONE, **OTHER_LOCALE}, makers=made)
    case.run(case.tree, suite.check, "calls of functions that call the changed ones", tests, extras)
    second = NeighbourProbe(
        case.runs, case.base, case.tree, extras.recording, case.changes, case.note, callers=chosen
    ).examine()
    probe.findings += second.findings
    probe.probed |= second.probed
    probe.by_caller.update(second.by_caller)


def _probe_rebound(
    case: ProbeInput, suites: Sequence[SuiteOutcomes], rebound: Sequence[ChangedFunction], report: ProbeReport
) -> None:
    """Probe functions of base whose names lead elsewhere on the patch, with the calls that tests make on base.

    There a test's call reaches the function; on the patch, what stands in its place may answer it without any.
    """
    for suite in suites if rebound and case.settings.neighbours else ():
        files = [*dict.fromkeys(name.partition("::")[0] for name in case.proving.get(suite.check.name, ()))]
        if not files:
            continue
        recording = _base_recorder(case, suite.check)(rebound, files)
        proving = frozenset(case.proving[suite.check.name])
        given = case.runs, case.base, case.tree, recording, case.changes, case.note
        probe = NeighbourProbe(*given, is_fix=case.is_fix, on_base=True, proving=proving).examine()
        known = {(finding.rule, finding.path) for finding in report.findings}  # one of a file is enough
        report.findings += [item for item in probe.findings if (item.rule, item.path) not in known]


def _stand_in_runner(
    case: ProbeInput, check: DetectedCheck, recording: Recording
) -> Callable[[str, Sequence[RecordedCall], bool], Outcomes]:
    trees = case.runs.ground.trees

    def run(tree: str, calls: Sequence[RecordedCall], with_hooks: bool) -> Outcomes:
        inner = [path.removeprefix(f"{check.cwd}/") for path in trees.listing(tree) if _below(path, check.cwd)]
        made = replays.stand_ins(calls, inner)
        if not made.files:
            return {}
        prefix = "" if check.cwd in (".", "") else f"{check.cwd}/"
        replaced = trees.with_contents(tree, {f"{prefix}{path}": text for path, text in made.files.items()})
        case.runs.made_from[replaced] = tree
        env = {**OTHER_SEED, **OTHER_ZONE, **OTHER_LOCALE}
        options = () if with_hooks else ("--noconftest",)
        path = [*dict.fromkeys([*recording.path, "."])]
        extras = StandInExtras(calls, made, path, env, options)
        case.run(replaced, check, "recorded calls, in stand-ins for their tests", replays.selected(check, made), extras)
        return extras.outcomes

    return run


def _base_recorder(
    case: ProbeInput, check: DetectedCheck
) -> Callable[[Sequence[ChangedFunction], Sequence[str]], Recording]:
    def record(functions: Sequence[ChangedFunction], tests: Sequence[str]) -> Recording:
        extras = RecordingExtras(functions, {**OTHER_SEED, **OTHER_ZONE, **OTHER_LOCALE})
        case.run(case.base, check, "calls of the same tests, on base", tests, extras)
        return extras.recording

    return record


def _below(path: str, folder: str) -> bool:
    return folder in (".", "") or path.startswith(f"{folder}/")


def _find_unproven(
    case: ProbeInput, suites: Sequence[SuiteOutcomes], change: ChangeReport, report: ProbeReport
) -> None:
    """Find tests that turned green and still pass when every changed function fails."""
    if not (case.settings.sabotage and case.is_fix and change.functions):
        return
    other_files = [item.path for item in case.changes if _is_other_product(item.path)]
    if change.unread or other_files:
        return  # the test may depend on what is no function
    trees = case.runs.ground.trees
    for suite in suites:
        tests = case.proving.get(suite.check.name, ())
        if not tests:
            continue

        def passing(sources: dict[str, bytes], names: Sequence[str], suite: SuiteOutcomes = suite) -> list[str]:
            tree = trees.with_contents(case.tree, sources)
            case.runs.made_from[tree] = case.tree
            result = case.run(tree, suite.check, "proving tests, with the changed functions failing", names, None)
            return [name for name in names if result.tests.get(name) == "passed"]

        report.independent.update(
            sabotage.independent(tests, change.functions, lambda path: trees.read(case.tree, path), passing)
        )
    report.unproven |= report.independent
    if report.independent:
        text = "proves nothing, since it passes although every changed function fails"
        report.notes.append(f"{text}: {join_first(sorted(report.independent), _MOST_NAMED)}")


def _is_other_product(path: str) -> bool:
    """Return True for a changed file that the product may read: data, templates, other languages."""
    return not path.endswith((".py", *_NO_CODE)) and not protected.is_test(path) and not protected.guard(path)


def summary(
    functions: Sequence[ChangedFunction],
    probed: set[ChangedFunction],
    reasons: Mapping[ChangedFunction, str],
    where: str,
) -> str:
    """Say how many of the changed functions were probed, and name the others."""
    missing = [function for function in functions if function not in probed]
    text = f"{PROBED}{len(functions) - len(missing)} of {len(functions)} changed functions {where}"
    if not missing:
        return text
    named = [f"{item.qualname} ({reasons.get(item, 'not called')})" for item in missing]
    return f"{text}; not probed: {join_first(named, _MOST_NAMED)}"
