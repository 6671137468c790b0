"""The first hour with the program: links, shell completion, hooks for pre-commit, the picture of the terminal.

`FAULTS` lists what went wrong when people first tried the program on projects of their own, each with its test.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from reflectloop.cli import run as cli_run
from reflectloop.engine.run.request import RunOutcome
from reflectloop.plan import load
from reflectloop.verification.result import PROBED
from support import Repo

pytestmark = pytest.mark.usefixtures("without_probing")

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "AKIA" + "QYLPMN5HFIQR7XYA"
FAULTS = {
    "a carried folder with tracked files let the working tree judge instead of the change": (
        "test_environment.py::test_a_carried_path_that_git_tracks_is_refused_and_nothing_is_judged"
    ),
    "an ignored generated file could not be carried": (
        "test_environment.py::test_an_ignored_file_is_carried_by_its_name_and_a_missing_one_is_reported"
    ),
    "a clean report of eslint was called a crash": "test_newcomer.py::test_a_clean_eslint_has_passed",
    "committed lessons made verify refuse": (
        "test_verify.py::test_settings_from_init_and_committed_lessons_are_no_reason_to_refuse"
    ),
    "a question had no answer": (
        "test_approve.py::test_an_approved_verification_passes_and_its_receipt_says_who_and_why"
    ),
    "new tests of a CMake project were never run": "test_own_tools.py::test_the_tests_of_a_patch_in_c_are_run",
    "Rust tests made by macros, and examples, were rewritten unseen": (
        "test_own_tools.py::test_the_tests_inside_a_rust_source_judge_in_their_old_version"
    ),
    "an environment that the set-up makes was not used in a fresh clone": (
        "test_environment.py::test_an_environment_that_the_setup_makes_in_a_fresh_clone_is_used_on_both_sides"
    ),
    "kept outcomes had redacted test names, so the verdict changed from run to run": (
        "test_environment.py::test_a_kept_outcome_has_the_same_test_ids_as_a_fresh_one_and_no_secret"
    ),
    "the project's own options of a linter were dropped": (
        "test_detect.py::test_a_linter_is_run_with_the_options_of_the_project"
    ),
    "a refactoring that removed an issue of a linter was refused": (
        "test_verdict.py::test_a_refactoring_may_remove_an_issue_of_a_linter"
    ),
    "steps did not find the tools of the project's environment": (
        "test_environment.py::test_steps_find_the_projects_own_tools_first_as_sealed_runs_do"
    ),
    "a test that could not be collected was red as expected": (
        "test_seal.py::test_an_expected_failure_is_not_met_by_a_test_that_cannot_be_loaded"
    ),
    "diagnose called a failed Go build passed": "test_diagnose_command.py::test_diagnose_calls_a_failure_what_it_is",
    "the settings file that init writes made verify refuse": (
        "test_verify.py::test_settings_from_init_and_committed_lessons_are_no_reason_to_refuse"
    ),
    "the log of a failed verification could not be reached": (
        "test_progress.py::test_a_verification_is_listed_shown_and_its_logs_are_printed"
    ),
    "an intended change of behaviour read as broken code": (
        "test_intended_changes.py::test_a_changed_expectation_is_one_finding_with_both_versions"
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_the_first_trial_has_a_test(fault: str) -> None:
    name, _, test = FAULTS[fault].partition("::")
    assert f"\ndef {test}(" in (ROOT / "tests" / name).read_text()


NODE_CHECKS = """[[verify.checks]]
name = "tests"
run = ["python3", "-m", "unittest"]

[[verify.checks]]
name = "lint"
run = ["eslint", "."]
"""
ESLINT = """#!/bin/sh
for word; do case "$word" in --output-file=*) report="${word#*=}" ;; esac; done
grep -q debugger add.js && found='{"ruleId":"no-debugger","severity":2,"message":"no","line":1}'
printf '[{"filePath":"%s/add.js","messages":[%s],"errorCount":0}]' "$PWD" "$found" > "${report:-/dev/stdout}"
test -z "$found"
"""


def test_a_clean_eslint_has_passed(repo: Repo) -> None:
    repo.write("add.js", "module.exports = (a, b) => a + b;\n")
    repo.write("eslint.config.js", "module.exports = [{ rules: { semi: 'error' } }];\n")
    repo.write("package.json", '{"name": "add", "scripts": {"lint": "eslint ."}}\n')
    repo.write("test_add.py", "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_one(self): pass\n")
    repo.write("reflectloop.toml", NODE_CHECKS)
    repo.write(".gitignore", "node_modules\n")
    repo.write("node_modules/.bin/eslint", ESLINT).chmod(0o755)
    repo.commit("a package")
    repo.write("add.js", "// Sums.\nmodule.exports = (a, b) => a + b;\n")
    clean = repo.run("verify", "--json")
    assert clean.code == 0, clean.stderr
    assert [check["sealed"]["type"] for check in clean.json["data"]["checks"]] == ["passed", "passed"]
    repo.write("add.js", "debugger;\nmodule.exports = (a, b) => a + b;\n")
    found = repo.run("verify")
    assert found.code == 32
    assert "no-debugger" in found.stderr


def check_links(folder: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / "check_links.py"
    return subprocess.run([sys.executable, script, folder], capture_output=True, text=True, check=False, timeout=60)


def test_dead_links_are_found_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.md").write_text("# Some `code`, here\n\n# Twice\n\n# Twice\n")
    (tmp_path / "a.md").write_text(
        "[good](docs/b.md) [far](https://example.com/x) [twice](docs/b.md#twice-1) [code](docs/b.md#some-code-here)\n"
        "```\n[in a block](nowhere.md)\n```\n`[in code](nowhere.md)`\n"
        "[gone](docs/c.md) [no heading](docs/b.md#thrice)\n[here](#none) [out](../x.md)\n"
    )
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "messages.py").write_text('A = "see docs/b.md"\nB = "see docs/moved.md"\n')
    done = check_links(tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "a.md:6: docs/c.md: there is no such file",
        "a.md:6: docs/b.md#thrice: docs/b.md has no such heading",
        "a.md:7: #none: a.md has no such heading",
        "a.md:7: ../x.md: there is no such file",
        "src/messages.py:2: docs/moved.md: there is no such page",
    ]


def test_no_link_of_ours_is_dead() -> None:
    assert check_links(ROOT).stderr == ""


@pytest.mark.parametrize(("name", "word"), [("tutorial.md", "hash"), ("tutorial.zh.md", "哈希")])
def test_the_plan_of_the_tutorial_is_one(name: str, word: str) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", page(name), re.DOTALL)
    parsed = load.parse(text.encode())
    assert parsed[1] == []
    assert parsed.plan is not None
    assert f"{word} {parsed.plan.hash[:12]}" in page(name)


def test_the_picture_shows_what_the_program_prints(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "scripts" / "terminal_svg.py"), str(tmp_path / "new.svg")]
    subprocess.run(script, check=True, timeout=120)
    new, stored = (drawn_lines(path) for path in (tmp_path / "new.svg", ROOT / "docs" / "terminal.svg"))
    assert new == stored, "run: python scripts/terminal_svg.py"


def drawn_lines(path: Path) -> list[str]:
    """Return the text of a picture without what differs from run to run."""
    texts = re.findall(r"<text [^>]*>(.*)</text>", path.read_text())
    return [
        re.sub(r"RLOP-\d+-[0-9a-f]+|[0-9a-f]{12}|[0-9.]+ s\b|isolation \w+|refs/heads/\w+", "…", text) for text in texts
    ]


def complete(shell: str, words: str) -> list[str]:
    """Return what is offered for the last word."""
    position = len(words.split(" ")) - 1
    variables = {"_REFLECTLOOP_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    done = subprocess.run(
        [sys.executable, "-m", "reflectloop"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_completion_is_printed_for_each_shell(shell: str) -> None:
    env = {**os.environ, "_REFLECTLOOP_COMPLETE": f"{shell}_source"}
    done = subprocess.run([sys.executable, "-m", "reflectloop"], env=env, capture_output=True, text=True, check=True)
    assert f"_REFLECTLOOP_COMPLETE={shell}_complete" in done.stdout


def test_commands_subcommands_and_options_are_completed() -> None:
    assert complete("bash", "reflectloop stat") == ["plain,status"]
    assert complete("bash", "reflectloop lessons sea") == ["plain,search"]
    assert complete("bash", "reflectloop run --dry") == ["plain,--dry-run"]
    assert complete("zsh", "reflectloop pau")[:3] == ["plain", "pause", "Stop a run before its next step."]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_with_the_line_of_the_page(tmp_path: Path) -> None:
    (line,) = re.findall(
        r'^eval "\$\(_REFLECTLOOP_COMPLETE=bash_source reflectloop\)"', page("install.md"), re.MULTILINE
    )
    script = f'{line}; COMP_WORDS=(reflectloop stat); COMP_CWORD=1; _reflectloop_completion reflectloop; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["status"]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_hooks_for_pre_commit_have_the_fields_it_needs_and_are_documented() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_bytes())
    assert [hook["id"] for hook in hooks] == ["reflectloop-scan", "reflectloop-verify"]
    for hook in hooks:
        assert {"id", "name", "entry", "language"} <= hook.keys()
        assert hook["language"] == "python"
        assert hook["entry"].startswith("reflectloop ")
        assert f"id: {hook['id']}" in page("install.md")


def run_hook(repo: Repo, name: str) -> int:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_bytes())
    (entry,) = (hook["entry"] for hook in hooks if hook["id"] == name)
    return repo.run(*shlex.split(entry)[1:]).code


def test_the_hook_refuses_a_staged_secret_and_lets_other_lines_pass(repo: Repo) -> None:
    repo.write("notes.txt", "nothing to hide\n")
    repo.git("add", "notes.txt")
    assert run_hook(repo, "reflectloop-scan") == 0
    repo.write("leak.py", f'KEY = "{TOKEN}"\n')
    assert run_hook(repo, "reflectloop-scan") == 0, "it is not staged"
    repo.git("add", "leak.py")
    assert run_hook(repo, "reflectloop-scan") == 1


def test_the_hook_refuses_a_weaker_test_and_lets_a_fix_pass(repo: Repo) -> None:
    sample = ROOT / "src" / "reflectloop" / "demo" / "sample"
    for path in sample.iterdir():
        if path.is_file():
            repo.write(path.name, path.read_bytes())
    repo.commit("the sample")
    repo.write("pager.py", (sample / "pager.py").read_text().replace("// size", "// -size * -1"))
    assert run_hook(repo, "reflectloop-verify") == 0
    repo.write("test_pager.py", (sample / "test_pager.py").read_text().replace("assertEqual", "assertNotEqual"))
    assert run_hook(repo, "reflectloop-verify") == 33


def test_the_command_that_comes_first_can_be_typed_as_it_is(repo: Repo) -> None:
    assert repo.run("status").stdout.splitlines()[-1] == "next: reflectloop init"
    assert "next: reflectloop init" in repo.run("diff").stderr
    assert repo.run("init").code == 0
    assert repo.run("status").stdout.splitlines()[-1] == "next: reflectloop run"
    assert repo.run("run").code == 0


def test_what_was_probed_is_no_warning() -> None:
    warnings = [f"{PROBED}1 of 1 changed functions", "ruff: not installed"]
    outcome = SimpleNamespace(steps=(), envelope=SimpleNamespace(warnings=warnings))
    lines = list(islice(cli_run._outcome_lines(cast("RunOutcome", outcome)), len(warnings)))
    assert [str(line) for line in lines] == [warnings[0], "warning: ruff: not installed"]
