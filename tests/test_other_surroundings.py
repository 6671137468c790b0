"""A second run in other surroundings, and calls that only their test explains, are judged beside base."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from reflectloop.verification.probing import replays
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.inside import replayer
from reflectloop.verification.probing.javascript import programs as javascript_programs
from reflectloop.verification.probing.javascript.replays import NodeReplay
from reflectloop.verification.probing.only_under_test import OutcomeProbe
from reflectloop.verification.probing.programs import RecordedCall, Recording
from reflectloop.verification.probing.replays import Outcomes, RepeatedCall, Way, outcome_text
from reflectloop.verification.probing.second_run import SuiteOutcomes, SurroundingsProbe
from reflectloop.verification.result import DetectedCheck, Outcome, VerificationResult


def test_a_source_whose_doctests_call_is_not_replaced_by_a_stand_in() -> None:
    function = ChangedFunction("pkg/calc.py", "one", 1)
    calls = [RecordedCall(function, test, {}, {}) for test in ("pkg.calc.one", "tests.test_calc.Calc.test_one")]
    made = replays.stand_ins(calls, ["pkg/calc.py", "tests/test_calc.py"])
    assert list(made.files) == ["tests/test_calc.py"]
    assert set(made.groups) == {"pkg.calc.one", "tests.test_calc.Calc.test_one"}


@pytest.mark.parametrize(("old", "asked"), [("failed", []), ("passed", ["passes-only-here"])])
def test_a_test_whose_old_version_depends_on_the_order_too_is_not_asked_about(old: Outcome, asked: list[str]) -> None:
    outcomes: dict[str, Outcome] = {"patch": "failed", "base": "failed", "old": old}

    def run(tree: str, *_: object) -> VerificationResult:
        return VerificationResult(ok=False, type="test_failure", summary="", tests={"t": outcomes[tree]})

    check = DetectedCheck("tests", "test", "pytest", ("pytest",))
    suite = SuiteOutcomes(check, {"t": "failed"}, {"t": "passed"}, 1, ["t"], "old", {"t": "passed"})
    found = SurroundingsProbe(run, "base", "patch", suite).record([])
    assert [finding.rule for finding in found.findings] == asked


@pytest.mark.parametrize(
    ("inside_on_base", "asked"), [(2, ["only-in-the-test"]), (3, [])], ids=["as outside", "other than outside"]
)
def test_without_stand_ins_an_outcome_of_the_test_alone_is_judged_beside_base(
    inside_on_base: int, asked: list[str]
) -> None:
    function = ChangedFunction("index.js", "plural", 9, base_line=8)
    values = {"base": 2, "patch": 2}

    def recorded(value: int) -> RecordedCall:
        return RecordedCall(function, "test.js", {"value": value}, {"args": [1], "kwargs": [], "ms": 1})

    class Bare:
        def run(self, tree: str, calls: Sequence[RecordedCall], ways: Sequence[Way], **_: bool) -> dict[str, Outcomes]:
            outcome = {"value": values[tree]}
            result = RepeatedCall(outcome_text(outcome, None, ()), outcome)
            return {way.name: {(number, "raw"): result for number in range(len(calls))} for way in ways}

    probe = OutcomeProbe(
        Bare(),
        lambda *_: {},
        "base",
        "patch",
        Recording((recorded(3),), {}),
        lambda *_: Recording((recorded(inside_on_base),), {}),
    )
    probe.examine()
    assert [finding.rule for finding in probe.findings] == asked
    assert probe.left_out == {function: "gives another result in its test"}


def test_a_suite_that_the_recorder_stops_is_named_as_not_recorded() -> None:
    results: list[dict[str, Outcome]] = [{"test/a.js": "error"}, {"t": "passed"}]

    def run(*_: object) -> VerificationResult:
        return VerificationResult(ok=False, type="test_failure", summary="", tests=results.pop(0))

    suite = SuiteOutcomes(DetectedCheck("jest", "test", "jest", ("jest",)), {"t": "failed"}, {"t": "passed"}, 1, ["t"])
    found = SurroundingsProbe(run, "base", "patch", suite).record([])
    assert (found.findings, found.notes) == ((), ("jest: no call could be recorded",))


@pytest.mark.parametrize(("broken", "asked"), [(4, []), (2, ["passes-only-here"]), (0, ["passes-only-here"])])
def test_a_fixed_test_in_a_folder_that_needs_its_order_on_base_too_is_not_asked_about(
    broken: int, asked: list[str]
) -> None:
    others = [f"docs/{number}.rst::{number}" for number in range(5)]
    other_order: dict[str, Outcome] = {"docs/t.rst::t": "failed"}
    other_order |= {name: "failed" if number < broken else "passed" for number, name in enumerate(others)}

    def run(*_: object) -> VerificationResult:
        return VerificationResult(ok=False, type="test_failure", summary="", tests=other_order)

    check = DetectedCheck("tests", "test", "pytest", ("pytest",))
    as_usual: dict[str, Outcome] = dict.fromkeys(others, "passed")
    on_base: dict[str, Outcome] = {**as_usual, "docs/t.rst::t": "failed"}
    on_patch: dict[str, Outcome] = {**as_usual, "docs/t.rst::t": "passed"}
    suite = SuiteOutcomes(check, on_base, on_patch, 1, ["docs/t.rst::t"], "old", on_base)
    findings = SurroundingsProbe(run, "base", "patch", suite).record([]).findings
    assert [finding.rule for finding in findings] == asked


@pytest.mark.parametrize(("fails_on_base_at", "asked"), [(10, []), (999, ["passes-only-here"])])
def test_a_test_that_comes_and_goes_on_base_too_is_no_fault_of_the_change(
    fails_on_base_at: int, asked: list[str]
) -> None:
    runs = {"base": 0, "patch": 0}

    def run(tree: str, *_: object) -> VerificationResult:
        runs[tree] += 1
        red = runs[tree] == fails_on_base_at if tree == "base" else runs[tree] in (1, 4)
        outcome: Outcome = "failed" if red else "passed"
        return VerificationResult(ok=not red, type="test_failure", summary="", tests={"t": outcome})

    check = DetectedCheck("tests", "test", "pytest", ("pytest",))
    suite = SuiteOutcomes(check, {"t": "passed"}, {"t": "passed"}, 1, ["t"])
    findings = SurroundingsProbe(run, "base", "patch", suite).record([]).findings
    assert [finding.rule for finding in findings] == asked


def test_a_test_that_fails_twice_by_chance_is_not_taken_for_one_that_needs_its_surroundings() -> None:
    runs = {"base": 0, "patch": 0}

    def run(tree: str, *_: object) -> VerificationResult:
        runs[tree] += 1
        red = runs[tree] == 3 if tree == "base" else runs[tree] in (1, 2, 5)
        outcome: Outcome = "failed" if red else "passed"
        return VerificationResult(ok=not red, type="test_failure", summary="", tests={"t": outcome})

    check = DetectedCheck("tests", "test", "pytest", ("pytest",))
    suite = SuiteOutcomes(check, {"t": "passed"}, {"t": "passed"}, 1, ["t"])
    assert not SurroundingsProbe(run, "base", "patch", suite).record([]).findings


def test_of_several_functions_made_by_one_decorator_none_is_repeated() -> None:
    source = (
        "def noted(inner):\n    def wrapper(x):\n        return inner(x)\n    return wrapper\n\nfirst = noted(abs)\n"
    )
    module = ModuleType("calc")
    exec(source, vars(module))  # noqa: S102 - the text above
    assert replayer._unnamed(module, "wrapper", 2) is module.first
    exec("second = noted(int)", vars(module))  # noqa: S102 - the same
    assert replayer._unnamed(module, "wrapper", 2) is None


def test_of_a_large_project_only_what_is_near_the_functions_is_copied_for_a_replay() -> None:
    calls = [RecordedCall(ChangedFunction("src/pkg/calc.py", "one", 1), "t", {}, {})]
    near = ["src/pkg/calc.py", "src/pkg/deep/more.py", "setup.py"]
    assert replays.files_and_links([*near, "vendor/x.py"], calls) == ([*near, "vendor/x.py"], [])
    far = [f"vendor/{number}.py" for number in range(5000)]
    copied, linked = replays.files_and_links([*far, *near, "src/other/x.py"], calls)
    assert sorted(copied) == sorted([*near, "src/other/x.py"])
    assert linked == ["vendor"]


CALL = {"module": "m", "qualname": "one", "args": [], "kwargs": [], "first": ""}


def _runs(paths: list[str], sources: dict[str, bytes]) -> Any:
    trees = SimpleNamespace(listing=lambda _: dict.fromkeys(paths), read=lambda _, path: sources.get(path))
    return SimpleNamespace(ground=SimpleNamespace(trees=trees))


def test_of_a_very_large_package_the_file_under_test_and_what_it_imports_are_copied_first() -> None:
    calls = [RecordedCall(ChangedFunction("src/pkg/zoo/calc.py", "one", 1), "t", {}, CALL)]
    sources = {
        "src/pkg/zoo/calc.py": b"from .. import units\nimport pkg.deep.more\nimport os\n",
        "src/pkg/deep/more.py": b"from ._last import x\nfrom pkg.zoo import calc\n",
    }
    needed = ["src/pkg/__init__.py", "src/pkg/deep/_last.py", "src/pkg/units.py", *sources]
    runs = _runs([*(f"src/pkg/a{number}.py" for number in range(25_000)), *needed], sources)
    recording = Recording(tuple(calls), {})
    plan = replays.PythonReplay(runs, "base", lambda *_: None, recording).plan("tree", calls, copied=True)
    assert {*plan["files"][: len(needed)]} == {*needed}
    assert plan["files"][0] == "src/pkg/zoo/calc.py"
    assert len({*plan["files"]}) == replays.MOST_FILES


def test_of_a_very_large_package_of_javascript_the_file_under_test_is_copied() -> None:
    calls = [RecordedCall(ChangedFunction("lib/zoo.js", "one", 1), "t", {}, CALL)]
    runs = _runs([*(f"a/{number}.js" for number in range(25_000)), "lib/zoo.js", "lib/by.js", "package.json"], {})
    with_functions = NodeReplay(runs, "base", lambda *_: None, ())
    followed = SimpleNamespace(ids={("lib/zoo.js", "one"): 0}, files={}, names=dict, mark="m")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(javascript_programs, "follow", lambda *_: followed)
        plan = with_functions.plan("tree", calls, copied=True)
    assert plan["files"][:3] == ["lib/zoo.js", "lib/by.js", "package.json"]
    assert len(plan["files"]) == replays.MOST_FILES
