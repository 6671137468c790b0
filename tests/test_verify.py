"""Sealed verification through the program: what is proven passes, what only looks so does not."""

from __future__ import annotations

import json
import py_compile
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from support import Answer, Repo, reflectloop

pytestmark = pytest.mark.usefixtures("without_probing")

SOURCE = """
def add(a, b):
    return a - b


def mul(a, b):
    return a * b
"""
TESTS = """
import pytest
from calc import add, mul


@pytest.mark.parametrize("a, b, c", [(1, 2, 3), (0, 0, 0)], ids=["one and two", "zero/zero"])
def test_add(a, b, c):
    assert add(a, b) == c


def test_mul():
    assert mul(2, 3) == 6
"""
SETTINGS = """
[project]
name = "calc"
version = "0.1"

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
addopts = "-p no:xdist -p no:xdist.looponfail -p no:hypothesispytest -p no:anyio"
"""  # without the plugins of our own tests, whose import is most of what a run of pytest costs


class Calc(Repo):
    """A small project whose `add` is broken, and its own test says so."""

    def verify(self, *words: str, code: int | None = None) -> dict[str, Any]:
        found = self.say(*words, "--json")
        assert code is None or found.code == code, (found.code, found.stdout, found.stderr)
        data: dict[str, Any] = found.json["data"] or {}
        return {**data, "code": found.code, "envelope": found.envelope}

    def say(self, *words: str) -> Answer:
        return reflectloop(self.path, "verify", *words)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.path / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def fix(self) -> None:
        self.edit("calc.py", "a - b", "a + b")


@pytest.fixture
def calc(repo: Repo) -> Iterator[Calc]:
    made = Calc(repo.path)
    made.git("rm", "-q", "-r", "src")
    made.write("calc.py", SOURCE)
    made.write("tests/test_calc.py", TESTS)
    made.write("pyproject.toml", SETTINGS)
    made.write(".gitignore", "__pycache__\n")
    made.commit("a bug")
    yield made
    assert not made.workspaces()


def texts(found: dict[str, Any]) -> str:
    return "\n".join(f"{reason['decision']} {reason['text']}" for reason in found["reasons"])


def test_a_true_fix_passes_at_the_highest_level(calc: Calc) -> None:
    calc.fix()
    before = calc.state()
    found = calc.verify("--track", "fix", code=0)
    assert (found["decision"], found["level"]) == ("PASS", "L3")
    assert found["comparison"]["fixed"] == ["tests/test_calc.py::test_add[one and two]"]
    assert found["envelope"]["evidence_level"] == "L3"
    assert calc.state() == before


def test_a_change_that_fixes_nothing_is_no_fix(calc: Calc) -> None:
    calc.edit("calc.py", "return a * b", "return b * a")
    assert calc.verify(code=0)["decision"] == "PASS"  # not worse than base
    found = calc.verify("--track", "fix", code=32)
    assert found["decision"] == "RETRY"
    assert "nothing that failed on base passes now" in texts(found)
    assert found["comparison"]["pre_existing"] == ["tests/test_calc.py::test_add[one and two]"]


def test_a_change_that_breaks_a_passing_test_is_refused_by_its_name(calc: Calc) -> None:
    calc.edit("calc.py", "return a * b", "return a ** b")
    found = calc.verify(code=32)
    assert found["comparison"]["newly_failing"] == ["tests/test_calc.py::test_mul"]
    assert "test_mul" in texts(found)


def test_a_refusal_begins_with_what_fails_and_shows_its_message(calc: Calc) -> None:
    calc.edit("calc.py", "return a * b", "return a ** b")
    calc.edit("tests/test_calc.py", "@pytest.mark.param", "@pytest.mark.skip(reason='later')\n@pytest.mark.param")
    shown = calc.say().stderr
    lines = shown[shown.index("REFUSED") :].splitlines()
    assert lines[:2] == ["REFUSED", "  pytest: newly failing: tests/test_calc.py::test_mul"]
    assert lines[3].endswith("(skip-added)")
    assert lines[4] == "  tests/test_calc.py::test_mul: assert 8 == 6 (tests/test_calc.py:12)"
    assert Path(lines[5].removeprefix("  log: ")).is_file()


def test_an_edited_test_does_not_judge_the_change(calc: Calc) -> None:
    calc.edit("tests/test_calc.py", "assert add(a, b) == c", "assert True")
    found = calc.verify("--track", "fix")
    assert found["code"] == 33
    assert found["restored"] == ["tests/test_calc.py"]
    assert any(one["path"] == "tests/test_calc.py" and one["line"] for one in found["findings"])
    assert found["comparison"]["fixed"] == []


def test_a_regression_test_in_an_existing_file_comes_with_its_fix(calc: Calc) -> None:
    calc.edit("tests/test_calc.py", "(1, 2, 3), (0, 0, 0)", "(0, 0, 0)")
    calc.edit("tests/test_calc.py", '"one and two", ', "")
    calc.commit("no test sees the bug")
    calc.fix()
    calc.write(
        "tests/test_calc.py",
        (calc.path / "tests/test_calc.py").read_text() + "\n\ndef test_more():\n    assert add(1, 2) == 3\n",
    )
    found = calc.verify("--track", "fix", code=0)
    assert found["own_tests"][0]["red_then_green"] == ["tests/test_calc.py::test_more"]


def test_a_new_test_that_is_green_on_base_shows_no_fix_and_does_no_harm(calc: Calc) -> None:
    calc.write("tests/test_new.py", "from calc import mul\n\n\ndef test_zero():\n    assert mul(0, 5) == 0\n")
    assert calc.verify(code=0)["own_tests"][0]["on_patch"]["ok"]
    calc.verify("--track", "fix", code=32)


def test_a_new_test_that_fails_is_not_let_through(calc: Calc) -> None:
    calc.write("tests/test_new.py", "from calc import mul\n\n\ndef test_zero():\n    assert mul(0, 5) == 1\n")
    found = calc.verify(code=32)
    assert "tests/test_new.py::test_zero" in texts(found)


def test_configuration_that_hides_the_failing_test_is_taken_from_base(calc: Calc) -> None:
    calc.edit("pyproject.toml", 'addopts = "', 'addopts = "-k mul ')
    found = calc.verify("--track", "fix")
    assert found["code"] in (32, 33)
    assert found["restored"] == ["pyproject.toml"]


def test_an_unrelated_change_of_the_same_file_is_not(calc: Calc) -> None:
    calc.fix()
    calc.edit("pyproject.toml", 'version = "0.1"', 'version = "0.2"')
    assert calc.verify("--track", "fix", code=0)["restored"] == []


def test_settings_from_init_and_committed_lessons_are_no_reason_to_refuse(calc: Calc) -> None:
    assert calc.run("init").code == 0
    calc.fix()
    calc.verify(code=0)
    calc.write(".gitignore", "__pycache__\n")
    calc.run("lessons", "add", "--kind", "constraint", "never edit generated files")
    calc.commit("settings, a fix and a lesson")
    calc.edit("calc.py", "return a * b", "return b * a")
    calc.verify(code=0)
    calc.verify("--base", "HEAD~1", code=0)
    calc.git("checkout", "-q", "-b", "topic")
    calc.run("lessons", "add", "--kind", "failfix", "no six", "--signature", "5e1f0a", "--command", "make six")
    calc.commit("a lesson that runs something")
    calc.git("checkout", "-q", "main")
    found = calc.verify("--branch", "topic", code=33)
    assert [finding["rule"] for finding in found["findings"] if finding["grade"] != "note"] == ["lesson"]
    assert "make six" in texts(found)


def test_a_patch_file_is_judged_without_the_working_tree(calc: Calc) -> None:
    calc.fix()
    patch = calc.path.parent / "fix.patch"
    patch.write_text(calc.git("diff"))
    calc.git("checkout", "-q", ".")
    calc.edit("calc.py", "return a * b", "return 0")  # what lies about is not the patch
    calc.verify("--patch", str(patch), "--track", "fix", code=0)


def test_a_branch_is_judged_from_where_it_left(calc: Calc) -> None:
    calc.git("checkout", "-q", "-b", "topic")
    calc.fix()
    calc.commit("the fix")
    calc.git("checkout", "-q", "main")
    calc.write("calc.py", (calc.path / "calc.py").read_text().replace("return a * b", "return b * a"))
    calc.commit("meanwhile")
    found = calc.verify("--branch", "topic", "--track", "fix", code=0)
    assert found["comparison"]["fixed"]


@pytest.mark.probing
def test_the_second_verification_of_the_same_change_runs_only_the_tests_in_other_surroundings(calc: Calc) -> None:
    calc.fix()
    first = calc.say("--track", "fix")
    assert "pytest on base + patch, sealed" in first.stderr
    second = calc.say("--track", "fix", "--fresh")
    assert second.code == 0
    [running] = [line for line in second.stderr.splitlines() if line.startswith("·")]
    assert re.match(r"· 1 of about \d: pytest tests of the patch, in other surroundings", running)
    (calc.path / "reflectloop.toml").write_text('[run]\nenv_allow = ["SOMETHING"]\n')
    assert "pytest on base" in calc.say("--track", "fix").stderr  # other surroundings, other outcomes


def test_a_test_that_is_red_only_now_and_then_is_a_flake_and_no_evidence(calc: Calc) -> None:
    place = calc.path.parent / "temp" / "seen"
    calc.weaken()
    text = f"""
    import os
    import pathlib


    def test_now_and_then():
        seen = pathlib.Path({str(place)!r})
        count = int(seen.read_text()) if seen.exists() else 0
        seen.write_text(str(count + 1))
        assert count != 1
    """
    calc.write("tests/test_flaky.py", textwrap.dedent(text))
    calc.commit("a flake")
    calc.fix()
    found = calc.verify("--track", "fix", code=0)
    assert found["comparison"]["flaky"] == ["tests/test_flaky.py::test_now_and_then"]
    assert found["comparison"]["newly_failing"] == []


def test_a_test_that_the_change_alone_makes_unstable_is_a_regression(calc: Calc) -> None:
    place = calc.path.parent / "temp" / "seen"
    calc.weaken()
    calc.commit("settings")
    calc.fix()
    text = f"""
    def mul(a, b):
        seen = pathlib.Path({str(place)!r})
        count = int(seen.read_text()) if seen.exists() else 0
        seen.write_text(str(count + 1))
        return a * b + (count % 4 == 0)
    """
    calc.edit("calc.py", "def mul(a, b):\n    return a * b\n", "")
    source = (calc.path / "calc.py").read_text()
    calc.write("calc.py", f"import pathlib\n\n\n{source}\n{textwrap.dedent(text)}")
    found = calc.verify("--track", "fix", code=32)
    assert found["comparison"]["newly_failing"] == ["tests/test_calc.py::test_mul"]
    assert found["comparison"]["flaky"] == []


def test_a_test_that_repairs_itself_by_what_it_leaves_behind_stays_red(calc: Calc) -> None:
    calc.write(
        "tests/test_cache.py",
        "import pathlib\n\n\ndef test_cached():\n    seen = pathlib.Path('.seen')\n    there = seen.exists()\n"
        "    seen.touch()\n    assert there or __import__('calc').mul(1, 1) == 1\n",
    )
    calc.commit("leaves a file")
    calc.edit("calc.py", "return a * b", "return a * b + 1")
    found = calc.verify(code=32)
    assert "tests/test_cache.py::test_cached" in found["comparison"]["newly_failing"]


def test_nothing_collected_is_no_pass(calc: Calc) -> None:
    calc.git("rm", "-q", "-r", "tests")
    calc.write("tests/test_none.py", "x = 1\n")
    calc.commit("no tests")
    calc.edit("calc.py", "a - b", "a + b")
    found = calc.verify(code=53)
    assert found["checks"][-1]["sealed"]["type"] == "no_tests"


def test_a_project_without_checks_is_unknown_and_that_is_no_pass(repo: Repo) -> None:
    repo.write("src/app.py", "print('changed')\n")
    done = repo.run("verify", "--json")
    assert done.code == 53
    assert "no check of this project is known" in done.envelope["message"]
    assert repo.run("verify", "--track", "fix").code == 53  # no proof is missing if nothing can give one


def test_a_runner_that_is_left_in_the_middle_is_no_pass(calc: Calc) -> None:
    calc.edit("calc.py", "def mul", "import os\nos._exit(0)\n\n\ndef mul")
    found = calc.verify()
    assert found["code"] in (32, 33)
    assert found["checks"][-1]["sealed"]["type"] == "crashed"


def test_a_check_past_its_time_is_a_timeout(calc: Calc) -> None:
    calc.write("reflectloop.toml", "[verify]\ntimeout_s = 2\n")
    calc.commit("settings")
    calc.edit("calc.py", "return a * b", "import time\n    time.sleep(60)\n    return a * b")
    found = calc.verify(code=None)  # 53 where even the base takes longer, on a machine that does much else
    assert found["checks"][-1]["sealed"]["type"] == "timeout"
    assert found["outcome"] in ("REFUSED", "NOT JUDGED")


def test_settings_name_the_checks_instead(calc: Calc) -> None:
    calc.write(
        "reflectloop.toml",
        '[verify]\nchecks = [{name = "mul", run = ["python3", "-c", "import calc; assert calc.mul(2, 3) == 6"], kind = "custom"}]\n',
    )
    calc.commit("settings")
    calc.fix()
    found = calc.verify(code=0)
    assert [one["name"] for one in found["checks"]] == ["mul"]
    calc.edit("calc.py", "return a * b", "return 0")
    calc.verify(code=32)


def test_dependencies_are_set_up_once_for_each_lock_file(calc: Calc) -> None:
    calc.write("requirements.txt", "one\n")
    calc.write(
        "reflectloop.toml",
        '[verify]\nsetup = [["sh", "-c", "mkdir -p deps && cp requirements.txt deps/installed && date +%N > deps/when"]]\n',
    )
    calc.write(".gitignore", "__pycache__\ndeps\n")
    calc.write(
        "tests/test_deps.py",
        "import pathlib\n\n\ndef test_installed():\n    assert pathlib.Path('deps/installed').read_text() == "
        "pathlib.Path('requirements.txt').read_text()\n",
    )
    calc.commit("dependencies")
    calc.fix()
    first = calc.say("--track", "fix")
    assert (first.code, first.stderr.count("· setup")) == (0, 1)
    calc.write("requirements.txt", "two\n")
    second = calc.say("--track", "fix")
    assert (second.code, second.stderr.count("· setup")) == (0, 1), second.stderr
    assert not (calc.path / "deps").exists()


def test_a_changed_lock_file_without_a_set_up_asks(calc: Calc) -> None:
    calc.fix()
    calc.write("requirements.txt", "six==1.16.0\n")
    found = calc.verify("--track", "fix", code=33)
    assert found["decision"] == "ASK"
    assert "requirements.txt" in texts(found)


def test_a_verdict_is_written_for_other_tools(calc: Calc, tmp_path: Path) -> None:
    calc.edit("calc.py", "return a * b", "return a ** b")
    calc.say("--junit", str(tmp_path / "v.xml"), "--sarif", str(tmp_path / "v.sarif"))
    names = [
        case.get("name") for case in ET.parse(tmp_path / "v.xml").iter("testcase") if case.find("failure") is not None
    ]
    assert "tests/test_calc.py::test_mul" in names
    results = json.loads((tmp_path / "v.sarif").read_text())["runs"][0]["results"]
    assert any("test_calc.py" in json.dumps(one) for one in results)


def test_a_receipt_is_checked_offline(calc: Calc) -> None:
    calc.fix()
    run_id = calc.verify("--track", "fix", code=0)["envelope"]["run_id"]
    good = calc.run("receipt", "verify", run_id)
    assert good.code == 0
    assert "base and patch make the tree that was judged" in good.stdout
    patch = calc.path / ".reflectloop" / "verifications" / run_id / "changes.patch"
    patch.write_bytes(patch.read_bytes().replace(b"a + b", b"a * b"))
    bad = calc.run("receipt", "verify", run_id)
    assert bad.code == 12
    assert "changes.patch is not the file that was written" in bad.stderr
    shown = calc.run("receipt", "show", run_id).stdout
    assert "PASS, evidence L3 (run by the engine on a sealed copy)" in shown
    assert "  L2: run by the engine, L3: run by the engine on a sealed copy\n" in shown


def test_protected_files_are_listed_with_the_reason(calc: Calc) -> None:
    shown = calc.run("protected").stdout
    assert "tests/test_calc.py" in shown
    assert "\ncalc.py" not in shown


# Bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "is empty"),
        (b"this is no patch\n", "does not apply"),
        (
            b"diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-nothing like it\n+x\n",
            "does not apply",
        ),
        (
            b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",
            "does not apply",
        ),
        (b"--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+x\n", "absolute path"),
        (
            b"diff --git a/.git/config b/.git/config\nnew file mode 100644\n--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+x\n",
            "does not apply",
        ),
        (
            b"diff --git a/.reflectloop/x b/.reflectloop/x\nnew file mode 100644\n--- /dev/null\n+++ b/.reflectloop/x\n@@ -0,0 +1 @@\n+x\n",
            "belongs to the engine",
        ),
    ],
)
def test_a_patch_that_cannot_be_used_is_refused_and_leaves_nothing(
    calc: Calc, tmp_path: Path, text: bytes, says: str
) -> None:
    (tmp_path / "bad.patch").write_bytes(text)
    before = calc.state()
    done = calc.say("--patch", str(tmp_path / "bad.patch"))
    assert done.code == 12, done.stderr
    assert says in done.stderr
    assert calc.state() == before
    assert not list((calc.path / ".reflectloop" / "verifications").glob("*"))
    assert not list((calc.path / ".reflectloop" / "tmp").glob("*"))


def test_a_patch_with_foreign_line_endings_is_refused_and_one_with_a_binary_file_is_taken(
    calc: Calc, tmp_path: Path
) -> None:
    calc.fix()
    whole = calc.git("diff").encode()
    calc.write("data.bin", bytes(range(256)) * 40)
    calc.git("add", "-N", "data.bin")
    (tmp_path / "binary.patch").write_text(calc.git("diff", "--binary"))
    calc.git("rm", "-q", "-f", "data.bin")
    calc.git("checkout", "-q", ".")
    (tmp_path / "crlf.patch").write_bytes(whole.replace(b"\n", b"\r\n"))
    assert calc.say("--patch", str(tmp_path / "crlf.patch")).code == 12
    calc.verify("--patch", str(tmp_path / "binary.patch"), "--track", "fix", code=0)


def test_revisions_checks_and_sides_that_are_not_there_are_named(calc: Calc) -> None:
    calc.fix()
    assert "there is no commit 'nowhere'" in calc.say("--base", "nowhere").stderr
    assert "there is no commit '--all'" in calc.say("--base", "--all").stderr
    assert "next: git branch --all" in calc.say("--branch", "nowhere").stderr
    assert "next: reflectloop verify --patch FILE" in calc.say("--patch", "nowhere").stderr
    assert "there is no check 'nose'" in calc.say("--check", "nose").stderr
    assert calc.say("--worktree", "--branch", "main").code == 2
    calc.git("checkout", "-q", ".")
    assert calc.say().code == 14


def test_a_secret_in_the_patch_stops_everything(calc: Calc) -> None:
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    calc.edit("calc.py", "return a * b", f"return a * b  # {token}")
    done = calc.say()
    assert done.code == 99
    assert token not in done.stdout + done.stderr
    found = [
        path
        for path in (calc.path / ".reflectloop").rglob("*")
        if path.is_file() and token.encode() in path.read_bytes()
    ]
    assert found == []


def test_a_suite_that_deletes_its_folder_starts_daemons_and_floods_is_judged_all_the_same(calc: Calc) -> None:
    calc.write(
        "tests/test_wild.py",
        "import os, shutil, subprocess\n\n\ndef test_wild():\n    subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "    os.write(1, b'x' * 30_000_000)\n    shutil.rmtree(os.getcwd(), ignore_errors=True)\n",
    )
    calc.commit("wild")
    calc.fix()
    found = calc.verify("--track", "fix")
    assert found["code"] in (0, 32)
    assert found["checks"][-1]["sealed"]["type"] in ("passed", "crashed", "test_failure")


def test_a_check_that_needs_a_server_has_one_on_a_loopback_of_its_own(calc: Calc) -> None:
    ask = "import urllib.request as r; assert b'calc.py' in r.urlopen('http://127.0.0.1:8123/').read()"
    service = (
        '{run = ["python3", "-m", "http.server", "8123", "--bind", "127.0.0.1"], ready_url = "http://127.0.0.1:8123/"}'
    )
    calc.write(
        "reflectloop.toml",
        f'[verify]\nchecks = [{{name = "page", run = ["python3", "-c", "{ask}"], kind = "custom", service = {service}}}]\n',
    )
    calc.commit("settings")
    calc.fix()
    calc.verify(code=0)
    calc.edit("reflectloop.toml", '"-m", "http.server"', '"-c", "import sys; sys.exit(\'no server today\')", "--"')
    calc.commit("a server that does not come up")
    calc.edit("calc.py", "a + b", "b + a")
    found = calc.verify(code=53)
    log = Path(found["checks"][0]["sealed"]["log_path"]).read_text()
    assert "did not answer" in log
    assert "no server today" in log


# The right code is tested ---------------------------------------------------------------------------------------


def test_compiled_files_and_build_output_that_lie_about_judge_nothing(calc: Calc, tmp_path: Path) -> None:
    """A stale or forged `.pyc` would be imported instead of its source, were it taken along."""
    right = tmp_path / "calc.py"
    right.write_text(SOURCE.replace("a - b", "a + b"))
    tag = sys.implementation.cache_tag
    (calc.path / "__pycache__").mkdir()
    forged = calc.path / "__pycache__" / f"calc.{tag}.pyc"
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(right), cfile=str(forged), doraise=True, invalidation_mode=mode)
    calc.write(".gitignore", "nothing\n")
    calc.commit("nothing is ignored, and the forged file is part of it")
    calc.git("rm", "-q", "-r", "--cached", "__pycache__")
    calc.git("commit", "-q", "-m", "not any more")
    calc.write("build/lib/calc.py", right.read_text())
    calc.edit("calc.py", "return a * b", "return b * a")
    found = calc.verify("--track", "fix")
    assert found["code"] in (32, 33)
    assert found["comparison"]["fixed"] == []
    assert any(path.endswith(".pyc") for path in found["restored"])


def test_what_the_working_tree_ignores_is_not_there_when_it_counts(calc: Calc) -> None:
    calc.write(".gitignore", "__pycache__\nlocal.py\n")
    calc.write("tests/test_local.py", "def test_local():\n    import local\n    assert local\n")
    calc.commit("needs a file that nobody has")
    calc.write("local.py", "")
    calc.fix()
    found = calc.verify("--track", "fix", code=0)
    assert found["comparison"]["pre_existing"] == ["tests/test_local.py::test_local"]


def test_outcomes_that_came_with_a_project_are_not_believed(calc: Calc) -> None:
    """Whoever writes a repository could otherwise say how its checks came out."""
    calc.edit("calc.py", "return a * b", "return b * a")
    calc.verify(code=0)
    kept = list((calc.path / ".reflectloop" / "cache" / "verify").glob("*.json"))
    assert kept
    (calc.path / ".reflectloop" / "owner.json").write_text("{}")
    assert "pytest on base" in calc.say().stderr


def test_a_new_file_of_settings_that_hides_those_of_base_is_asked_about(calc: Calc) -> None:
    calc.fix()
    calc.write("setup.cfg", "[mypy]\nstrict = true\n")
    calc.commit("mended")
    calc.write("mypy.ini", "[mypy]\npretty = true\n")
    found = calc.verify(code=33)
    assert [reason["rule"] for reason in found["reasons"]] == ["config-added"]
