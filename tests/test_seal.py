"""A run's last word is the sealed verification: what its plan asks for is proven, or there is no patch to apply."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from reflectloop.plan.model import Check
from reflectloop.verification import checks
from support import Answer, Repo

pytestmark = pytest.mark.usefixtures("without_probing")

BROKEN = "def last(items, size):\n    return len(items) // size\n"
TEST = "import unittest\n\nfrom pager import last\n\n\nclass Last(unittest.TestCase):\n    def test_{name}(self):\n        self.assertEqual(last({items}, 2), {pages})\n"
FIX = "sed -i 's|len(items) // size|-(-len(items) // size)|' pager.py"


@pytest.fixture
def pager(repo: Repo) -> Repo:
    repo.git("rm", "-q", "-r", "src")
    repo.write("pager.py", BROKEN)
    repo.write("test_even.py", TEST.format(name="even", items=[1, 2], pages=1))
    repo.write("test_odd.py", TEST.format(name="odd", items=[1, 2, 3], pages=2))
    repo.commit("a pager")
    return repo


def run(repo: Repo, command: str, *, code: int, **plan: Any) -> Answer:
    steps = [{"id": "work", "commands": [command]}]
    path = repo.plan(json.dumps({"plan": {"title": "Test", "steps": steps, **plan}}))
    done = repo.run("run", path, "--new")
    assert done.code == code, done.stderr
    return done


def events(repo: Repo) -> list[dict[str, Any]]:
    [journal] = (repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    return [json.loads(line) for line in journal.read_text().splitlines()]


def test_a_fix_is_proven_by_the_projects_own_tests_though_the_plan_names_none(pager: Repo) -> None:
    run(pager, FIX, code=0, track="fix")
    assert [one["kind"] for one in events(pager)][-3:] == ["judged", "gate_decided", "run_finished"]
    receipt = json.loads((pager.latest() / "receipt.json").read_text())
    assert (receipt["decision"], receipt["level"]) == ("PASS", "L3")
    assert pager.run("receipt", "verify").code == 0
    assert yaml.safe_load((pager.latest() / "envelope.yaml").read_text())["envelope"]["evidence_level"] == "L3"


def test_a_fix_that_fixes_nothing_leaves_no_patch_to_apply(pager: Repo) -> None:
    run(pager, "echo '# a comment' >> pager.py", code=32, track="fix")
    assert pager.run("apply", "--yes").code != 0
    assert "nothing that failed on base" in (pager.latest() / "blocker.yaml").read_text()


def test_a_step_that_skips_the_failing_test_is_caught_at_the_end(pager: Repo) -> None:
    run(pager, "sed -i 's|def test_odd|def odd|' test_odd.py", code=33, track="fix")
    assert "test_odd.py" in (pager.latest() / "blocker.yaml").read_text()


def test_a_reproduction_must_be_red_on_base(pager: Repo) -> None:
    words = [sys.executable, "-m", "unittest", "-q", "test_odd"]
    good = {"repro": {"run": words, "red_on_base": True}}
    run(pager, FIX, code=0, track="fix", checks=good)
    words = [sys.executable, "-m", "unittest", "-q", "test_even"]
    bad = {"repro": {"run": words, "red_on_base": True}}
    done = run(pager, FIX, code=32, track="fix", checks=bad)
    assert "already passes there" in done.stderr


def test_a_reproduction_that_cannot_be_loaded_on_base_proves_nothing(pager: Repo) -> None:
    pager.write("test_new.py", "import unittest\n\nimport extra\n")
    pager.commit("a test of what is not there yet")
    words = [sys.executable, "-m", "unittest", "-q", "test_new"]
    command = f"touch extra.py; echo 'class T(unittest.TestCase):\n    def test_x(self): pass' >> test_new.py; {FIX}"
    checks = {"repro": {"run": words, "red_on_base": True, "kind": "test"}}
    done = run(pager, command, code=32, track="fix", checks=checks)
    assert "gave no verdict there" in done.stderr


@pytest.mark.parametrize(
    ("log", "code", "kind", "no_verdict"),
    [
        ("E   ModuleNotFoundError: No module named 'humanize'\nERROR tests/test_a.py\n!! Interrupted: 1 error during collection !!\n= 1 error in 0.1s =\n", 2, "custom", True),
        ("/usr/bin/python3: No module named pytest\n", 1, "custom", True),
        ("sh: 1: pytest: not found\n", 127, "custom", True),
        ("collected 0 items\n\n===== no tests ran in 0.01s =====\n", 5, "test", True),
        ("Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nModuleNotFoundError: No module named 'x'\n", 1, "test", True),
        ("./add.go:5:9: undefined: foo\nFAIL\texample.com/add [build failed]\n", 1, "test", True),
        ("", 137, "test", True),
        ("Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nModuleNotFoundError: No module named 'planned'\n", 1, "custom", False),
        ("FAILED tests/test_a.py::test_a - assert 1 == 2\n= 1 failed, 3 passed in 0.1s =\n", 1, "test", False),
        ("FAILED tests/test_a.py::test_a - ImportError: late\n= 1 failed in 0.1s =\n", 1, "test", False),
        ("expected 3, got 2\n", 1, "test", False),
        ("", 1, "test", False),
    ],
)  # fmt: skip
def test_a_failure_that_says_nothing_about_the_code_is_not_red(
    tmp_path: Path, log: str, code: int, kind: Any, no_verdict: bool
) -> None:
    path = tmp_path / "log"
    path.write_text(log)
    assert bool(checks.why_no_verdict(Check(run="x", kind=kind), code, path)) is no_verdict


def test_an_expected_failure_is_not_met_by_a_test_that_cannot_be_loaded(pager: Repo) -> None:
    pager.write("test_new.py", "import missing_module\n")
    pager.commit("a test that cannot be loaded")
    check = {"run": [sys.executable, "-m", "unittest", "-q", "test_new"], "expect": "fail"}
    steps = [{"id": "red", "commands": ["true"], "verify": [check]}]
    plan = pager.plan(json.dumps({"plan": {"title": "Test", "track": "direct", "steps": steps}}))
    done = pager.run("run", plan)
    assert done.code == 32
    assert "gave no verdict" in done.stderr
    assert "No module named 'missing_module'" in done.stderr


def test_a_test_that_the_plan_writes_is_red_on_base_and_green_on_the_patch(pager: Repo) -> None:
    pager.git("rm", "-q", "test_odd.py")
    pager.commit("nobody tests it")
    text = TEST.format(name="odd", items=[1, 2, 3], pages=2)
    write = f"cat > test_more.py <<'E'\n{text}E\n{FIX}"
    words = [sys.executable, "-m", "unittest", "-q", "test_more"]
    run(pager, write, code=0, track="fix", checks={"repro": {"run": words, "red_on_base": True}})


def test_a_criterion_without_a_check_that_holds_is_not_met(pager: Repo) -> None:
    criteria = [{"id": "AC-1", "text": "the last page is shown", "check": "odd"}]
    checks = {"odd": {"run": [sys.executable, "-m", "unittest", "-q", "test_odd"]}}
    feature = {"track": "feature", "checks": checks, "may_change": ["**"]}
    run(pager, FIX, code=0, acceptance=criteria, **feature)
    done = run(pager, FIX, code=32, acceptance=[{"id": "AC-2", "text": "is quick"}], **feature)
    assert "AC-2 is quick" in done.stderr


def test_a_direct_plan_that_names_nothing_is_not_judged_again(pager: Repo) -> None:
    run(pager, "echo x > new.txt", code=0, track="direct")
    assert "judged" not in [one["kind"] for one in events(pager)]
    assert json.loads((pager.latest() / "receipt.json").read_text())["level"] == "L2"


def test_a_direct_plan_that_asks_for_the_tests_gets_them(pager: Repo) -> None:
    run(pager, "echo 'def last(items, size): return 1' > pager.py", code=0, track="direct")
    pager.run("gc")
    done = run(
        pager,
        "echo 'def last(items, size): return 7' > pager.py",
        code=32,
        track="direct",
        verification={"mode": "test"},
    )
    assert "test_even" in done.stderr


def test_a_check_that_passed_only_in_the_steps_workspace_is_not_enough(pager: Repo) -> None:
    """What a step leaves outside the change, such as a file that git ignores, is not there when it counts."""
    pager.write(".gitignore", "made\n")
    pager.commit("ignores a file")
    steps = [{"id": "work", "commands": ["touch made; echo x > seen"], "verify": ["there"]}]
    plan = {"title": "Test", "track": "direct", "checks": {"there": {"run": ["test", "-e", "made"]}}, "steps": steps}
    done = pager.run("run", pager.plan(json.dumps({"plan": plan})))
    assert done.code == 32
    assert "check there" in done.stderr


def test_a_protected_file_that_the_plan_frees_is_judged_in_its_new_version(pager: Repo) -> None:
    text = (
        TEST.format(name="odd", items=[1, 2, 3], pages=2)
        + "\n    def test_none(self):\n        self.assertEqual(last([], 2), 0)\n"
    )
    command = f"cat > test_odd.py <<'E'\n{text}E\n{FIX}"
    run(pager, command, code=0, track="fix", may_change_protected=["test_odd.py"])


def test_the_evidence_says_what_the_steps_showed_and_what_was_sealed(pager: Repo) -> None:
    run(pager, FIX, code=0, track="fix")
    lines = [json.loads(line) for line in (pager.latest() / "evidence.jsonl").read_text().splitlines()]
    assert lines[0]["claim"] == "step work: its commands exited 0"
    assert lines[0]["command"] == [FIX]
    assert {line["level"] for line in lines} == {"L2", "L3"}
    assert all(line["plan_hash"] and line["isolation"] for line in lines)
    plan = pager.latest() / "plan.yaml"
    plan.write_bytes(plan.read_bytes() + b" ")
    assert pager.run("receipt", "verify").code == 12


def test_no_workspace_of_a_verification_is_left(pager: Repo) -> None:
    run(pager, FIX, code=0, track="fix")
    assert pager.workspaces() == []
    assert not list(Path(pager.path / ".reflectloop" / "tmp").glob("*.index"))


def test_a_direct_plan_that_empties_a_test_is_thrown_away_though_it_names_no_check(repo: Repo) -> None:
    repo.write("tests/test_app.py", "def test_app():\n    assert 1 + 1 == 2\n")
    repo.commit("a test")
    answer = repo.run("run", repo.steps("printf 'def test_app():\\n    pass\\n' > tests/test_app.py"), "--json")
    assert answer.envelope["error_code"] == "GATE_REJECTED"
    assert "tests/test_app.py" in answer.envelope["message"]
    honest = repo.steps("printf '\\n\\ndef test_more():\\n    assert 2 + 2 == 4\\n' >> tests/test_app.py")
    assert repo.run("run", honest, "--new").code == 0


SCRIPT = "from pager import last\n\nassert last([1, 2, 3], 2) == 2\n"


def test_a_check_that_holds_by_an_edited_test_is_put_to_a_person(pager: Repo) -> None:
    pager.write("test_script.py", SCRIPT)
    pager.commit("a test that is a script")
    named = {"track": "direct", "checks": {"script": {"run": [sys.executable, "test_script.py"]}}}
    run(pager, "sed -i /assert/d test_script.py", code=33, **named)
    said = yaml.safe_load((pager.latest() / "blocker.yaml").read_text())["envelope"]["message"]
    assert "passes only with the change's version of test_script.py" in said


def test_a_test_that_grows_with_an_honest_change_is_no_cause_to_ask(pager: Repo) -> None:
    pager.write("test_script.py", SCRIPT)
    pager.commit("a test that is a script")
    named = {"track": "direct", "checks": {"script": {"run": [sys.executable, "test_script.py"]}}}
    run(pager, f"{FIX}; echo 'assert last([], 2) == 0' >> test_script.py", code=0, **named)


def test_a_check_that_holds_by_its_own_edited_script_is_put_to_a_person(pager: Repo) -> None:
    pager.write("judge.py", SCRIPT)
    pager.commit("a script of its own that judges")
    cheat = "echo 'raise SystemExit(0)' > judge.py; echo '# better' >> pager.py"
    for words in ([sys.executable, "judge.py"], [sys.executable, "-m", "judge"], f"{sys.executable} -c 'import judge'"):
        run(pager, cheat, code=33, track="direct", checks={"judged": {"run": words}})
    run(pager, FIX, code=0, track="direct", checks={"judged": {"run": [sys.executable, "judge.py"]}})


def test_a_program_that_is_the_only_thing_changed_is_what_is_judged(pager: Repo) -> None:
    pager.write("job.py", "raise SystemExit(1)\n")
    pager.commit("a program that fails")
    run(
        pager,
        "echo > job.py; echo pass >> job.py",
        code=0,
        track="direct",
        checks={"runs": {"run": [sys.executable, "job.py"]}},
    )


def test_a_file_that_a_check_only_reads_does_not_judge(pager: Repo) -> None:
    pager.write("other.py", "A = 1\n")
    pager.commit("another source")
    read = {"track": "direct", "checks": {"there": {"run": "grep -q 'A = 2' other.py"}}}
    run(pager, "sed -i s/1/2/ other.py; echo '# more' >> pager.py", code=0, **read)


def test_a_fix_can_be_proven_by_a_check_without_tests(pager: Repo) -> None:
    pager.write("script.py", SCRIPT)
    pager.git("rm", "-q", "test_odd.py", "test_even.py")
    pager.commit("no tests")
    named = {"track": "fix", "checks": {"script": {"run": [sys.executable, "script.py"]}}}
    run(pager, FIX, code=0, **named)
    run(pager, "echo '# nothing' >> pager.py", code=32, **named)
