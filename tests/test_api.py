"""The public Python interface, on a real small repository."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import re
from pathlib import Path

import pytest

from reflectloop import api
from reflectloop.errors import InvalidPlan, Latched, MissingPlan, NothingToDo, StepFailed, VerificationFailed
from support import Repo

TESTS = (
    "import unittest, calc\nclass T(unittest.TestCase):\n    def test_add(self): self.assertEqual(calc.add(1, 2), 3)\n"
)
PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"
BROKEN = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"


@pytest.fixture
def calc(repo: Repo) -> Repo:
    """A project with one function and a test that fails."""
    repo.write("calc.py", BROKEN)
    repo.write("test_calc.py", TESTS)
    settings = '[verify]\nchecks = [{name = "tests", run = ["python3", "-m", "unittest", "-q"], kind = "test"}]\n'
    repo.write("reflectloop.toml", settings)
    repo.commit("a broken calculator")
    return repo


def plan(command: str, **more: object) -> api.Plan:
    step = {"id": "fix", "commands": [command], **more}
    return api.Plan.model_validate({"title": "Fix add", "track": "direct", "steps": [step]})


def test_a_plan_built_in_python_is_run_and_its_change_applied(calc: Repo, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    result = api.run(
        plan("sed -i 's/a - b/a + b/' calc.py"),
        project=calc.path,
        on_event=lambda entry: seen.append(type(entry.event).__name__),
    )
    assert result.ok, result.error
    assert [(step.id, step.ok) for step in result.steps] == [("fix", True)]
    assert result.touched == ("calc.py",)
    assert result.patch is not None
    assert "+    return a + b" in result.patch.read_text()
    assert "StepFinished" in seen
    assert (calc.path / "calc.py").read_text() == BROKEN

    state = api.status(calc.path)
    assert state.next_command == f"reflectloop apply {result.run_id}"
    assert [(run.run_id, run.state, run.steps_done) for run in state.runs] == [(result.run_id, "ok", 1)]

    applied = api.apply(project=calc.path)
    assert [file.path for file in applied.touched] == ["calc.py"]
    assert (calc.path / "calc.py").read_text() == FIXED
    assert api.status(calc.path).runs[0].applied
    with pytest.raises(NothingToDo):
        api.apply(project=calc.path)
    printed = capfd.readouterr()
    assert printed.out == printed.err == ""


def test_a_failed_step_is_a_result_and_the_same_run_again_raises(calc: Repo) -> None:
    failing = plan("echo no; exit 3")
    result = api.run(failing, project=calc.path)
    assert not result.ok
    assert isinstance(result.error, StepFailed)
    assert (result.steps[0].exit_code, result.steps[0].error_code) == (3, "STEP_FAILED")
    assert result.patch is None
    assert result.blocker is not None
    assert result.blocker.exists()
    with pytest.raises(Latched):
        api.run(failing, project=calc.path)
    again = api.run(failing, project=calc.path, retry_reason="to see whether it still fails")
    assert isinstance(again.error, StepFailed)


def test_a_plan_file_with_faults_raises_with_their_lines(calc: Repo) -> None:
    path = calc.plan("plan:\n  title: x\n  stpes: []\n")
    with pytest.raises(InvalidPlan) as caught:
        api.load_plan(path)
    assert any("stpes" in fault.path and fault.line == 3 for fault in caught.value.faults)
    with pytest.raises(MissingPlan):
        api.run(calc.path / "none.yaml", project=calc.path)


def test_a_plan_survives_the_way_through_its_file(calc: Repo) -> None:
    path = calc.plan(
        """
        plan:
          title: Fix add
          checks: {tests: {run: [python3, -m, unittest, -q]}}
          steps:
            - {id: red, commands: ["true"], verify: [{check: tests, expect: fail}]}
            - {id: fix, commands: ["sed -i 's/a - b/a + b/' calc.py"], verify: [tests], depends_on: [red]}
        """
    )
    loaded = api.load_plan(path)
    result = api.run(loaded, project=calc.path)
    assert result.ok, result.error
    (written,) = (calc.path / ".reflectloop" / "plans").iterdir()
    assert api.load_plan(written).model_dump() == loaded.model_dump()


def test_a_change_is_verified_and_gated(calc: Repo) -> None:
    calc.write("calc.py", FIXED)
    proven = api.verify(project=calc.path, track=api.Track.FIX)
    assert proven.ok, proven.reasons
    assert proven.decision is api.Decision.PASS
    assert proven.receipt.exists()
    assert proven.data["decision"] == "PASS"

    calc.write("calc.py", "def add(a, b):\n    return None\n")
    refused = api.verify(project=calc.path, track=api.Track.FIX)
    assert not refused.ok
    assert isinstance(refused.error, VerificationFailed)
    assert refused.reasons

    contract = calc.path.parent / "contract.json"
    contract.write_text(
        json.dumps({"goal": "add() adds", "track": "fix", "acceptance": [{"id": "A-1", "text": "1+2=3"}]})
    )
    gated = api.gate(contract, project=calc.path)
    assert not gated.ok
    assert gated.reasons
    assert (gated.folder / "gates.md").exists()


def test_secrets_are_found_in_files_and_staged_lines(calc: Repo) -> None:
    assert api.scan(project=calc.path).clean
    token = "AKIA" + "QYLPMN5HFIQR7XYA"
    calc.write("leak.py", f'KEY = "{token}"\n')
    report = api.scan(calc.path / "leak.py", project=calc.path)
    assert [(finding.line, finding.grade) for finding in report.findings] == [(1, "certain")]
    assert token not in repr(report)
    assert api.scan(project=calc.path, staged=True).clean
    calc.git("add", "leak.py")
    assert not api.scan(project=calc.path, staged=True).clean


def test_results_cannot_be_changed(calc: Repo) -> None:
    state = api.status(calc.path)
    assert state.task_id is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.next_command = "x"  # type: ignore[misc]


def test_the_example_of_the_page_does_its_work(repo: Repo, capsys: pytest.CaptureFixture[str]) -> None:
    for item in importlib.resources.files("reflectloop.demo").joinpath("sample").iterdir():
        if item.is_file():  # not what Python compiled
            repo.write(item.name, item.read_bytes())
    repo.commit("the sample")
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(example.replace('project="."', f"project={str(repo.path)!r}"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out.startswith("('pager.py',) RLOP-")


def test_everything_that_the_page_names_exists() -> None:
    page = PAGE.read_text()
    for name in api.__all__:
        assert hasattr(api, name)
        assert f"`{name}" in page, name
