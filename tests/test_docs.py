"""Documents say what the program does: their examples run, their tables are complete, their files exist."""

from __future__ import annotations

import ast
import importlib.resources
import re
import tomllib
from pathlib import Path

import pytest

from reflectloop.agents.answer_models import FEWEST, MOST, PlanDesign
from reflectloop.cli.main import COMMANDS
from reflectloop.config import Config
from reflectloop.demo import unattended
from reflectloop.engine.agent_tasks import planning, task_runner
from reflectloop.engine.agent_tasks.design_merge import MOST_ROUNDS
from reflectloop.engine.agent_tasks.final_review import MOST_APPENDED
from reflectloop.engine.agent_tasks.planning import PlanRequest
from reflectloop.engine.requests.fileops_session import FileopsTarget
from reflectloop.errors import published
from reflectloop.plan import load, strict_yaml
from reflectloop.plan.model import PlanLimits
from reflectloop.reflection import requirements
from support import Repo

ROOT = Path(__file__).resolve().parent.parent


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


def test_the_readmes_plan_does_what_the_readme_says(repo: Repo) -> None:
    for item in importlib.resources.files("reflectloop.demo").joinpath("sample").iterdir():
        if item.is_file():  # not what Python compiled
            repo.write(item.name, item.read_bytes())
    repo.commit("the sample")
    (plan,) = blocks("README.md", "yaml")
    answer = repo.run("run", repo.plan(plan))
    assert answer.code == 0, answer.stderr
    for line in (
        "Round the number of pages up",
        "[1/2] red",
        "[2/2] fix",
        "PASS: 1 file(s) changed; next: reflectloop apply",
    ):
        assert line in answer.stderr
        assert line in (ROOT / "README.md").read_text()
    assert repo.run("apply", "--branch", "fix-pager").code == 0


def test_the_plan_in_the_reference_loads() -> None:
    (plan,) = blocks("docs/plan.md", "yaml")
    assert load.parse(plan.encode())[1] == []


def test_the_requirements_in_the_reference_can_be_used() -> None:
    (needs,) = blocks("docs/reflection.md", "yaml")
    assert requirements.read(strict_yaml.parse(needs.encode()), "needs.yaml").min_items == {"papers": 5}


def test_readme_names_the_two_commands_and_make_has_them() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for name in ("demo", "test"):
        assert f"make {name}" in (ROOT / "README.md").read_text()
        assert re.search(rf"^{name}:", makefile, re.MULTILINE)


@pytest.mark.parametrize("page", ["safety.md", "gates.md"])
def test_tests_named_in_a_page_exist(page: str) -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").glob("*.py"))
    for name in re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text()):
        assert f"def {name}(" in tests, name


def test_every_row_of_the_gates_matrix_names_a_test() -> None:
    rows = (ROOT / "docs" / "gates.md").read_text().split("| the protocol says |")[1].splitlines()[2:]
    assert len(rows) > 50
    assert all(re.search(r"\| `test_\w+`", row) for row in rows), [row for row in rows if "`test_" not in row]


def test_every_code_and_command_is_in_the_reference() -> None:
    codes = (ROOT / "docs" / "codes.md").read_text()
    assert all(f"| {error.code} | {error.exit_code} |" in codes for error in published())
    commands = (ROOT / "docs" / "commands.md").read_text()
    assert all(f"## {name}\n" in commands for name in COMMANDS)


def test_every_module_says_in_a_sentence_what_it_is_for() -> None:
    for path in (ROOT / "src" / "reflectloop").rglob("*.py"):
        if "sample" not in path.parts:
            assert ast.get_docstring(ast.parse(path.read_text())), path


def test_a_first_run_after_init_works(repo: Repo) -> None:
    assert repo.run("init").code == 0
    assert repo.git("status", "--porcelain").split() == ["??", ".gitignore", "??", "reflectloop.toml"]
    assert repo.run("config").code == 0
    assert repo.run("run").code == 0
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / "hello-from-reflectloop.txt").read_text().startswith("hello from ")
    before = (repo.path / "reflectloop.toml").read_text()
    again = repo.run("init", "--json")
    assert again.json["data"]["written"] == []
    assert (repo.path / "reflectloop.toml").read_text() == before


def test_init_uses_what_is_detected_and_keeps_what_is_there(repo: Repo) -> None:
    repo.write("test_app.py", "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n")
    repo.write("web/package.json", '{"scripts": {"test": "node --test"}}')
    repo.write(".gitignore", "src/_*.py\n*.log")
    repo.write("pyproject.toml", '[tool.setuptools_scm]\nversion_file = "src/_carried.py"\n')
    repo.commit("tests")
    repo.write("src/_version.py", "v = 1\n")
    repo.write("src/_carried.py", "v = 1\n")
    repo.write(".venv/pyvenv.cfg", "")
    made = repo.run("init", "--json").json["data"]
    assert made["ignored"] == ["/.reflectloop/", "/.venv/"]
    assert (repo.path / ".gitignore").read_text().startswith("src/_*.py\n*.log\n#")
    [hint] = [line for line in made["left"] if "src/_version.py" in line]
    assert "_carried.py" not in hint  # a workspace has it anyway
    plan = load.load(repo.path / ".reflectloop" / "plan.yaml").plan
    assert [check.kind for check in plan.checks.values()] == ["test", "test"]
    assert any(isinstance(check.run, str) and check.run.startswith("cd web && ") for check in plan.checks.values())
    repo.commit("settings")
    assert repo.run("lessons", "add", "--kind", "pattern", "x").code == 0
    assert repo.git("status", "--porcelain") == ""
    again = repo.run("init", "--json").json["data"]
    assert (again["written"], again["ignored"]) == ([], [])


def test_the_settings_init_writes_are_the_defaults_when_uncommented(repo: Repo) -> None:
    assert repo.run("init").code == 0
    text = (repo.path / "reflectloop.toml").read_text()
    settings = re.sub(r"^# (\w+ = .*)$", r"\1", text, flags=re.MULTILINE)
    settings = re.sub(r"^\w+ = …\n", "", settings, flags=re.MULTILINE)
    defaults = repo.run("config", "--json").json["data"]
    repo.write("reflectloop.toml", settings)
    spelled = repo.run("config", "--json").json["data"]
    assert [(one["name"], one["value"]) for one in spelled] == [(one["name"], one["value"]) for one in defaults]
    assert all(one["origin"] == "reflectloop.toml" for one in spelled if one["value"] is not None)


def test_doctor_says_what_there_is(repo: Repo) -> None:
    repo.weaken()  # test_box.py tries every level
    answer = repo.run("doctor", "--json")
    found = {one["name"]: one for one in answer.json["data"]["findings"]}
    assert {"python", "git", "bash", "bubblewrap", "repository"} <= set(found)
    assert found["git"]["state"] == "ok"
    assert answer.json["data"]["isolation"] == "workspace"
    without = repo.run("doctor", env={"PATH": "/nonexistent"})
    assert without.code == 1
    assert "apt-get install git" in without.stdout


def test_the_demo_keeps_its_promises(repo: Repo) -> None:
    answer = repo.run("demo")
    assert answer.code == 0, answer.stderr
    for line in (
        "VERIFICATION_FAILED, exit 32",
        "SECRET_LEAK, exit 99",
        "LATCHED, exit 41",
        "OK, exit 0",
        "tried: worked; it changed VERSION",
        "every outcome above was checked",
        "With agents: reflectloop demo --agent",
    ):
        assert line in answer.stdout


def test_the_demo_with_agents_keeps_its_promises(repo: Repo) -> None:
    answer = repo.run("demo", "--agent", "--json")
    assert answer.code == 0, answer.stderr
    told = answer.json["data"]
    refused = [one["text"] for one in told if one["kind"] == "failed"]
    assert len(refused) == 3
    assert "no file differs" in refused[0]
    assert "test_the_last_page_is_shown is no longer collected" in refused[1]
    assert "the review asks for another attempt" in refused[2]
    assert any("| all |" in one["text"] and "2 unknown" in one["text"] for one in told)
    assert told[-1]["text"].endswith("the project's own tests pass")
    assert not (repo.path / ".reflectloop").exists()


def test_the_story_waits_for_what_the_engine_must_say_in_its_order() -> None:
    told: list[str] = []
    ear = unattended._ExpectedLineChecker(lambda kind, _text: told.append(kind))
    ear.hear("step 3 is done: true")
    assert ear.left[0].part == "the agent said that it is done, and no file differs"
    ear.hear("step 1, attempt 1 failed: the agent said that it is done, and no file differs")
    assert ear.left[0].part == "step 1 is done"
    assert told == ["moral", "failed", "moral"]


def test_the_design_in_the_page_is_one() -> None:
    (design,) = blocks("docs/nine-steps.md", "json")
    assert len(PlanDesign.model_validate_json(design).steps) == 2


def test_the_dry_run_in_the_page_on_agents_comes_to_a_patch(repo: Repo) -> None:
    (played,) = blocks("docs/agents.md", "yaml")
    (settings,) = (text for text in blocks("docs/agents.md", "toml") if "agent.yaml" in text)
    repo.write("../agent.yaml", played)
    repo.write("reflectloop.toml", settings)
    repo.commit("a dry run")
    place = FileopsTarget(repo.path)
    assert planning.plan(place, PlanRequest("Greet"), lambda _design: True, lambda _line: None).task_id
    done = task_runner.work(place, lambda _line: None, every=True)
    assert done.error is None
    assert done.outcome
    assert [one.path for one in done.outcome.touched] == ["hello.txt"]


def test_limits_in_the_page_on_the_nine_steps_are_the_limits() -> None:
    text = (ROOT / "docs" / "nine-steps.md").read_text()
    for line in (
        f"| rounds in which two designs are merged | {MOST_ROUNDS} |",
        f"| attempts at a step | {PlanLimits().step_attempts}, and {PlanLimits().step_attempts} more after an answer |",
        f"| parts of a step | {FEWEST} to {MOST} |",
        f"| steps appended by final reviews, by gates | {MOST_APPENDED}, {MOST_APPENDED} |",
    ):
        assert line in text


@pytest.mark.parametrize(("page", "least"), [("agents.md", 3), ("nine-steps.md", 1)])
def test_the_settings_in_the_pages_on_agents_are_settings(page: str, least: int) -> None:
    found = blocks(f"docs/{page}", "toml")
    assert len(found) >= least
    for text in found:
        Config.model_validate(tomllib.loads(text))
