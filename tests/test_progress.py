"""The progress that a person sees: which run of how many, tests done of all, time passed of the expected."""

from __future__ import annotations

import io
import json
import signal
import sys
from pathlib import Path

import click
import pytest
from rich.console import Console

from gate_builders import FULL_CONTRACT
from reflectloop.cli import verifying
from reflectloop.cli.main import cli
from reflectloop.cli.progress import NEXT_RUN, Terminal
from reflectloop.engine.gating.verify_command import VerifyRequest, verify
from reflectloop.engine.run.request import NullObserver
from reflectloop.errors import NothingToDo
from reflectloop.verification.progress import RunningCheck, TestCounter, Times
from reflectloop.verification.result import TamperFinding
from support import Repo, start, wait_until

pytestmark = pytest.mark.usefixtures("without_probing")

TESTS = "import unittest\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n\n    def test_b(self):\n        pass\n"


@pytest.mark.parametrize(
    ("output", "done", "total"),
    [
        ("tests/test_a.py ....F..                                                [ 43%]\n..sx", 11, None),
        ("................\n", 16, None),
        ("collected 82 items\n\ntest.py ..", 2, 82),
        ("collected 9 items / 2 deselected / 7 selected\n\ntest.py ..", 2, 7),
        ("1..4\nok 1\n", 1, 4),
        ("tests/test_a.py::test_one PASSED      [ 50%]\ntests/test_a.py::test_two FAILED   [100%]\n", 2, None),
        ("TAP version 13\nok 1 - a\nnot ok 2 - b\n    ok 1 - inner\n", 3, None),
        ("\n  a thing\n    ✔ works (3ms)\n    ✓ also\n    1) does not\n", 3, None),
        ("test a::b ... ok\ntest a::c ... FAILED\ntest a::d ... ignored\n", 3, None),
        (" 7/19 Test  #7: misc_tests ...........   Passed    0.01 sec\n", 7, 19),
        ("=== RUN   TestA\n--- PASS: TestA (0.00s)\n", 1, None),
        ('{"Time":"x","Action":"pass","Package":"p","Test":"TestA"}\n', 1, None),
        ("[ RUN      ] S.a\n[       OK ] S.a (0 ms)\n", 1, None),
        ("test_a (t.T.test_a) ... ok\ntest_b (t.T.test_b) ... FAIL\n", 2, None),
        ("...............................................................  63 / 120 ( 52%)\n", 63, 120),
        ("\x1b[32m.\x1b[0m\x1b[31mF\x1b[0m\x1b[32m.\x1b[0m", 3, None),
        ("All checks passed!\nFuss\nError: x\n12 files left unchanged\n", 0, None),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_tests_are_counted_as_they_are_printed(output: str, done: int, total: int | None, size: int) -> None:
    counter, data = TestCounter(), output.encode()
    for place in range(0, len(data), size):
        counter.feed(data[place : place + size])
    assert (counter.done, counter.total) == (done, total)


def test_a_status_line_says_all_that_is_known() -> None:
    run = RunningCheck(2, 5, "pytest", "on base + patch", 8_000, 82)
    assert run.status(0.2) == "2 of about 5: pytest on base + patch, 0 s of about 8 s"
    run.counter.feed(b".....")
    assert run.status(3) == "2 of about 5: pytest on base + patch, 5 of 82 tests, 3 s of about 8 s"
    run.counter.feed(b"." * 100)
    assert "82 of 82 tests" in run.status(3)
    first = RunningCheck(7, 5, "pytest", "on base + patch", counter=run.counter)
    assert first.status(125) == "7 of about 7: pytest on base + patch, 105 tests, 2 min 5 s"


def test_times_of_runs_are_stored_and_a_damaged_file_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "times.json"
    Times(path).add("pytest", (), 900, 3)
    Times(path).add("pytest", ("a", "b"), 20, 2)
    assert Times(path).last("pytest") == (900, 3)
    assert Times(path).last("pytest", ("b", "a")) == (20, 2)
    assert Times(path).last("ruff") is None
    for number in range(500):
        Times(path).add(f"check {number}", (), 1, 1)
    assert Times(path).last("pytest") is None
    path.write_text('{"x": [1]}')
    assert Times(path).last("x") is None


class Recorder(NullObserver):
    """Records what an observer is told."""

    def __init__(self) -> None:
        self.started: list[RunningCheck] = []
        self.ended: list[tuple[str, str, bool]] = []

    def check_started(self, run: RunningCheck) -> None:
        self.started.append(run)

    def check_ended(self, run: RunningCheck, summary: str, duration_ms: int, *, ok: bool) -> None:
        assert duration_ms >= 0
        self.ended.append((run.title, summary, ok))


@pytest.mark.probing
def test_runs_are_numbered_and_the_second_time_it_is_known_how_long_they_take(repo: Repo) -> None:
    repo.weaken()
    repo.write("test_app.py", TESTS)
    repo.commit("tests")
    repo.write("src/app.py", "print('hi')\n")
    first = Recorder()
    verify(VerifyRequest(repo.path), first)
    assert first.ended == [
        ("1 of about 2: unittest on base", "2 passed", True),
        ("2 of about 2: unittest on base + patch, sealed", "2 passed", True),
        ("3 of about 3: unittest tests of the patch, in other surroundings", "2 passed", True),
    ]
    assert first.started[0].tests is None
    assert first.started[1].tests == 2  # as many as on base
    repo.write("src/app.py", "print('hey')\n")
    second = Recorder()
    verify(VerifyRequest(repo.path), second)
    assert second.started[0].title == "1 of about 1: unittest on base + patch, sealed"  # base is known
    assert second.started[0].expected_ms is not None


def test_a_terminal_is_never_without_a_line_and_shows_time_and_tests() -> None:
    now = [100.0]
    file = io.StringIO()
    shown = Terminal(Console(file=file, force_terminal=True, width=100), lambda: now[0])
    now[0] += 3
    assert shown.status() == "preparing, 3 s"
    run = RunningCheck(1, 2, "pytest", "on base", 8_000, 4)
    shown.check_started(run)
    run.counter.feed(b"tests/test_a.py ..")
    shown.output("pytest", b"tests/test_a.py ..\n")
    now[0] += 2
    assert shown.status() == "1 of about 2: pytest on base, 2 of 4 tests, 2 s of about 8 s"
    shown.console.print(shown.render())
    assert "2 of 4 tests" in file.getvalue()
    shown.check_ended(run, "pytest: 4 passed", 5_000, ok=True)  # the name once, though some summaries begin with it
    now[0] += 1
    assert shown.status() == f"{NEXT_RUN}, 1 s"
    assert "pytest on base: 4 passed" in file.getvalue()


class TerminalText(io.StringIO):
    """Text that was written to a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("argv", "shown"), [(["run"], True), (["run", "--json"], False), (["status"], False)])
def test_a_large_command_shows_a_word_while_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], shown: bool
) -> None:
    text = TerminalText()
    monkeypatch.setattr(sys, "stderr", text)
    monkeypatch.setattr(sys, "argv", ["reflectloop", *argv])
    monkeypatch.setenv("TERM", "xterm")
    assert cli.get_command(click.Context(cli), argv[0]) is not None
    assert text.getvalue() == ("starting\r\x1b[K" if shown else "")


def test_without_a_terminal_each_run_has_a_line_when_it_begins_and_when_it_ends(repo: Repo) -> None:
    repo.weaken()
    repo.write("test_app.py", TESTS)
    repo.commit("tests")
    repo.write("src/app.py", "print('hi')\n")
    done = repo.run("verify")
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == "· 1 of about 2: unittest on base"
    assert lines[1].startswith("✓ unittest on base: 2 passed  ")
    assert lines[2].startswith("· 2 of about 2: unittest on base + patch, sealed (about ")
    repo.write("src/app.py", "print('hey')\n")
    assert repo.run("verify", "--json").stderr == ""
    steps = [{"id": "P-1", "commands": ["echo 'print(1)' > src/app.py"]}]
    path = repo.plan(json.dumps({"plan": {"title": "T", "track": "refactor", "steps": steps}}))
    assert "unittest on base + patch, sealed: 2 passed" in repo.run("run", path).stderr


def test_a_run_that_is_resumed_counts_the_steps_that_were_done_before(repo: Repo) -> None:
    gate = repo.gate()
    steps = [
        {"id": "one", "commands": ["true"]},
        {"id": "two", "commands": [gate.wait], "depends_on": ["one"]},
        {"id": "three", "commands": ["true"], "depends_on": ["two"]},
    ]
    path = repo.plan(json.dumps({"plan": {"title": "T", "track": "direct", "steps": steps}}))
    interrupt_in_step(repo, path, "two")
    gate.open()
    done = repo.run("resume")
    assert done.code == 0, done.stderr
    assert "3 step(s), 1 done before" in done.stderr
    assert "[2/3] two" in done.stderr
    assert "[3/3] three" in done.stderr


def interrupt_in_step(repo: Repo, path: Path, step: str) -> None:
    """Start a run, and interrupt it when the step has begun."""
    engine = start(repo.path, "run", str(path))
    journals = repo.path / ".reflectloop" / "tasks"

    def has_begun() -> bool:
        lines = [line for file in journals.glob("*/journal.jsonl") for line in file.read_text().splitlines()]
        return any('"step_started"' in line and f'"{step}"' in line for line in lines)

    assert wait_until(has_begun)
    engine.send_signal(signal.SIGINT)
    engine.wait()


def test_a_verification_is_listed_shown_and_its_logs_are_printed(repo: Repo) -> None:
    repo.weaken()
    settings = (repo.path / "reflectloop.toml").read_text()
    checks = '[{name = "unit", run = ["sh", "-c", "echo starting; python3 -m no_such_runner"], kind = "test"}]'
    repo.write("reflectloop.toml", f"{settings}[verify]\nchecks = {checks}\n")
    repo.commit("a check whose tool is missing")
    repo.write("src/app.py", "print('hi')\n")
    done = repo.run("verify", "--json")
    run_id = done.envelope["run_id"]
    [fault] = done.json["data"]["faults"]
    assert fault["check"] == "unit"
    assert "no_such_runner" in fault["cause"] + fault["summary"]
    assert fault["last_lines"][0] == "starting"
    told = repo.run("verify").stderr
    assert "(about " not in told  # how soon a tool is found to be missing says nothing of how long tests take
    assert "unit: likely cause: " in told
    assert "| starting" in told
    assert f"  log: {repo.path}/.reflectloop/verifications/" in told
    again = repo.run("verify", "--json").envelope["run_id"]  # it uses the results of the first one
    assert "starting" in repo.run("log", again, "unit").stdout
    assert f"{run_id}  verify  NOT JUDGED" in repo.run("status", "--all").stdout
    shown = repo.run("show", run_id).stdout
    assert f"{run_id}: verify: NOT JUDGED" in shown
    assert "unit: likely cause: " in shown
    assert "starting" in repo.run("log", run_id, "unit").stdout
    assert "verify: NOT JUDGED" in repo.run("show").stdout  # nothing else has run here
    assert repo.run("log", run_id, "other").code == NothingToDo.exit_code
    assert "is a verification" in repo.run("apply", run_id).stderr
    assert f"logs: {repo.path}" in repo.run("receipt", "show", run_id).stdout
    contract = {**FULL_CONTRACT, "track": "feature", "files_changed": ["src/app.py"], "may_change": ["src"]}
    path = repo.path.parent / "contract.json"
    path.write_text(json.dumps(contract))
    gated = repo.run("gate", "--contract", str(path)).stderr
    assert "unit: likely cause: " in gated
    assert "  gate  " in repo.run("status", "--all").stdout
    [page] = (repo.path / ".reflectloop" / "verifications").glob("*/gates.md")
    assert "## Checks without a result" in page.read_text()
    steps = [{"id": "P-1", "commands": ["echo 'print(1)' > src/app.py"]}]
    plan = repo.plan(json.dumps({"plan": {"title": "T", "track": "refactor", "steps": steps}}))
    assert "warning: unit: likely cause: " in repo.run("run", plan).stderr


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_interrupted_verification_says_so_and_is_listed(repo: Repo, form: tuple[str, ...]) -> None:
    gate = repo.gate()
    settings = (repo.path / "reflectloop.toml").read_text()
    command = f"touch {gate.path}.begun; {gate.wait}"
    repo.write(
        "reflectloop.toml", f'{settings}[verify]\nchecks = [{{name = "unit", run = ["sh", "-c", "{command}"]}}]\n'
    )
    repo.commit("a check that waits")
    repo.write("src/app.py", "print('hi')\n")
    engine = start(repo.path, "verify", *form)
    assert wait_until(Path(f"{gate.path}.begun").exists)
    engine.send_signal(signal.SIGINT)
    done = engine.ended()
    assert done.code == 130
    if form:
        assert json.loads(done.stdout)["envelope"]["error_code"] == "INTERRUPTED"
    else:
        assert b"INTERRUPTED: stopped by ^C or a signal\nnext: run the same command again\n" in done.stderr
    assert "verify  not finished" in repo.run("status", "--all").stdout


def test_an_interrupted_check_makes_no_other_check_of_the_same_tree_run_again(repo: Repo) -> None:
    gate = repo.gate()
    settings = (repo.path / "reflectloop.toml").read_text()
    runs = {"quick": "true", "slow": f"touch {gate.path}.begun; {gate.wait}"}
    checks = [f'{{name = "{name}", kind = "custom", run = ["sh", "-c", "{text}"]}}' for name, text in runs.items()]
    repo.write("reflectloop.toml", f"{settings}[verify]\nchecks = [{', '.join(checks)}]\n")
    repo.commit("a check that waits after another one")
    repo.write("src/app.py", "print('hi')\n")
    engine = start(repo.path, "verify", "--fresh")
    assert wait_until(Path(f"{gate.path}.begun").exists)
    engine.send_signal(signal.SIGINT)
    stopped = engine.ended()
    assert (stopped.code, "✓ quick on base: " in stopped.stderr.decode()) == (130, True)
    gate.open()
    again = repo.run("verify", "--fresh")
    assert again.code == 0
    assert "quick on base:" not in again.stderr
    assert "✓ slow on base: " in again.stderr


def test_an_interrupted_verification_does_not_repeat_the_runs_that_ended(repo: Repo) -> None:
    gate = repo.gate()
    settings = (repo.path / "reflectloop.toml").read_text()
    command = f"if grep -q hi src/app.py; then touch {gate.path}.begun; {gate.wait}; fi"
    check = f'{{name = "unit", kind = "custom", run = ["sh", "-c", "{command}"]}}'
    repo.write("reflectloop.toml", f"{settings}[verify]\nchecks = [{check}]\n")
    repo.commit("a check that waits on the change")
    repo.write("src/app.py", "print('hi')\n")
    engine = start(repo.path, "verify")
    assert wait_until(Path(f"{gate.path}.begun").exists)
    engine.send_signal(signal.SIGINT)
    stopped = engine.ended()
    assert (stopped.code, "✓ unit on base: " in stopped.stderr.decode()) == (130, True)
    gate.open()
    again = repo.run("verify")
    assert again.code == 0
    assert again.stderr.splitlines()[0].startswith("· 1 of about 1: unit on base + patch, sealed")


def test_the_same_note_on_many_files_is_one_line() -> None:
    own = [TamperFinding("own-settings", f"{number}.md", 1, "changes settings", "suspect") for number in range(70)]
    other = TamperFinding("protected", "tox.ini", None, "was left out", "note")
    lines = [click.unstyle(line) for line in verifying._notes([*own, other])]
    assert lines == [
        "  suspect 0.md:1 and 69 more: changes settings (own-settings)",
        "  note tox.ini: was left out (protected)",
    ]
