"""After a failure: nothing is run again for nothing, a limit is a limit, and what stopped is lifted by a person only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from support import PROGRAM, Answer, Repo, start, wait_until

KEY = "sk-" + "z9y8x7w6v5u4t3s2"


def code(answer: Answer) -> str:
    return str(answer.envelope["error_code"] or "OK")


def test_the_same_plan_on_the_same_tree_is_not_run_again(repo: Repo) -> None:
    plan = repo.steps("false")
    assert code(repo.run("run", "--json", plan)) == "STEP_FAILED"
    answer = repo.run("run", "--json", plan)
    assert code(answer) == "LATCHED"
    failed = repo.latest().name
    assert answer.envelope["message"].startswith(
        f"nothing changed since {failed} failed with STEP_FAILED at step P-1: "
    )
    assert answer.envelope["message"].count("step P-1") == 1
    assert "retry --reason" in answer.envelope["next"]
    assert answer.json["data"]["steps"] == []


def test_a_changed_plan_runs(repo: Repo) -> None:
    assert code(repo.run("run", "--json", repo.steps("false"))) == "STEP_FAILED"
    assert code(repo.run("run", "--json", repo.steps("true"))) == "OK"


def test_a_cosmetic_edit_is_not_a_change(repo: Repo) -> None:
    plan = repo.steps("false")
    assert code(repo.run("run", "--json", plan)) == "STEP_FAILED"
    plan.write_text("# a remark\n" + plan.read_text().replace('"title": "Test"', '"title":   "Other words"'))
    assert code(repo.run("run", "--json", plan)) == "LATCHED"


def test_a_changed_tree_runs_and_the_change_is_journalled(repo: Repo) -> None:
    plan = repo.steps("test -f mended")
    assert code(repo.run("run", "--json", plan)) == "STEP_FAILED"
    repo.write("mended", "")
    assert code(repo.run("run", "--json", plan)) == "OK"
    (journal,) = (repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    cleared = [json.loads(line) for line in journal.read_text().splitlines() if '"latch_cleared"' in line]
    assert [event["how"] for event in cleared] == ["tree_changed"]


def test_retry_needs_a_reason_and_runs(repo: Repo, tmp_path: Path) -> None:
    repo.weaken()
    plan = repo.steps(f"test -f {tmp_path}/service-is-up")
    assert code(repo.run("run", "--json", plan)) == "STEP_FAILED"
    assert repo.run("retry").code == 2
    assert repo.run("retry", "--reason", " ").code == 2
    (tmp_path / "service-is-up").touch()
    answer = repo.run("retry", "--json", "--reason", "the service is up")
    assert code(answer) == "OK"
    (journal,) = (repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    assert '"reason":"the service is up"' in journal.read_text()
    assert repo.run("retry", "--reason", "again").code == 14


def test_the_third_failed_run_locks_the_project(repo: Repo) -> None:
    assert code(repo.run("run", "--json", repo.steps("exit 1"))) == "STEP_FAILED"
    assert code(repo.run("run", "--json", repo.steps("exit 2"))) == "STEP_FAILED"
    answer = repo.run("run", "--json", repo.steps("exit 3"))
    assert answer.code == 42
    assert code(answer) == "MAX_RETRIES"
    assert answer.envelope["message"].count("STEP_FAILED") == 3
    card = yaml.safe_load((repo.latest() / "blocker.yaml").read_text())
    assert [attempt["error_code"] for attempt in card["attempts"]] == ["STEP_FAILED", "STEP_FAILED", "MAX_RETRIES"]
    assert card["commands"]["unlock"] == "reflectloop unlock --reason TEXT"

    latch = json.loads((repo.path / ".reflectloop" / "latch.json").read_text())
    fields = {
        "id",
        "grade",
        "reason",
        "error_code",
        "run_id",
        "step_id",
        "plan_hash",
        "base_tree",
        "created_at",
        "pid",
        "host",
    }
    assert set(latch) == fields
    assert latch["grade"] == "stop"
    assert code(repo.run("run", "--json", repo.steps("true"))) == "LATCHED"
    assert code(repo.run("retry", "--json", "--reason", "no")) == "LATCHED"
    assert (
        code(
            repo.run(
                "run",
                "--json",
                "--new",
                repo.plan("plan: {title: x, steps: [{id: a, commands: ['true']}]}", "other.yaml"),
            )
        )
        == "LATCHED"
    )
    assert repo.run("unlock").code == 2
    assert repo.run("unlock", "--reason", "a person looked").code == 0
    assert code(repo.run("run", "--json", repo.steps("exit 4"))) == "STEP_FAILED"
    assert code(repo.run("run", "--json", repo.steps("true"))) == "OK"
    assert repo.run("unlock", "--reason", "again").code == 14


def test_a_locked_project_is_reported_and_unlocking_names_the_plan(repo: Repo) -> None:
    plan = repo.steps("false")
    assert repo.run("status", "--json").json["data"]["stop"] is None
    assert repo.run("run", "--max-retries", "0", plan).code == 42
    seen = repo.run("status")
    assert (
        f"! stopped by MAX_RETRIES: 1 runs of this task have failed. {repo.latest().name}: STEP_FAILED" in seen.stdout
    )
    assert "next: reflectloop unlock --reason TEXT" in seen.stdout
    assert f"next: reflectloop run {plan}" in repo.run("unlock", "--reason", "mended").stdout
    assert "! stopped" not in repo.run("status").stdout


def test_success_closes_the_task_and_its_count(repo: Repo) -> None:
    for number in (1, 2):
        repo.run("run", repo.steps(f"exit {number}"))
    assert code(repo.run("run", "--json", repo.steps("true"))) == "OK"
    for number in (3, 4):
        assert code(repo.run("run", "--json", repo.steps(f"exit {number}"))) == "STEP_FAILED"


def test_max_retries_zero_stops_at_the_first_failure(repo: Repo) -> None:
    assert repo.run("run", "--max-retries", "0", repo.steps("false")).code == 42


def test_the_plans_own_limit_counts(repo: Repo) -> None:
    plan = repo.plan("plan: {title: T, limits: {runs: 1}, steps: [{id: a, commands: ['false']}]}")
    assert repo.run("run", plan).code == 42


def test_a_leak_stops_the_project_until_a_person_unlocks(repo: Repo) -> None:
    assert repo.run("run", repo.steps(f"K={KEY[:5]}; echo key = ${{K}}{KEY[5:]}")).code == 99
    assert code(repo.run("run", "--json", repo.steps("true"))) == "LATCHED"
    assert KEY not in (repo.path / ".reflectloop" / "latch.json").read_text()
    unlocked = repo.run("unlock", "--reason", "revoked")
    assert unlocked.code == 0
    assert "next: take the secret out of what the task writes, then: reflectloop run " in unlocked.stdout
    assert repo.run("run", repo.steps("true")).code == 0


def test_an_escape_found_in_the_workspace_stops_an_escape_in_the_text_does_not(repo: Repo) -> None:
    assert repo.run("run", repo.steps("true", cwd="..")).code == 98
    assert repo.run("run", repo.steps("true")).code == 0
    (repo.path / "way").symlink_to("/tmp")
    assert repo.run("run", repo.steps("true", cwd="way")).code == 98
    assert code(repo.run("run", "--json", repo.steps("true"))) == "LATCHED"


@pytest.mark.parametrize("garbage", ["", "{", "[]", '{"id": 1}', "\udcff"])
def test_an_unreadable_latch_still_locks_the_project(repo: Repo, garbage: str) -> None:
    (repo.path / ".reflectloop").mkdir()
    (repo.path / ".reflectloop" / "latch.json").write_bytes(garbage.encode("utf-8", "surrogateescape"))
    assert code(repo.run("run", "--json", repo.steps("true"))) == "LATCHED"
    assert repo.run("unlock", "--reason", "looked at it").code == 0
    assert repo.run("run", repo.steps("true")).code == 0


def test_faults_of_the_machine_or_the_user_do_not_latch(repo: Repo) -> None:
    repo.weaken()
    plan = repo.steps("true")
    assert repo.run("run", "--isolation", "full", plan).code == 20
    assert repo.run("run", plan).code == 0


def test_a_hanging_prompt_is_ended_by_the_watchdog(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.steps("printf 'Continue? [y/N] '; sleep 3600", idle_s=1))
    assert answer.code == 40
    assert (repo.latest() / "logs" / "P-1.1.log").read_text() == "Continue? [y/N] "
    assert "seems to wait for input" in answer.envelope["message"]


@pytest.mark.parametrize(
    "command",
    [
        "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done",
        "for i in 1 2 3 4 5 6; do echo $i >> quietly; sleep 0.5; done",
        "python3 -c 'import time\nwhile time.process_time() < 2.5: pass'",
    ],
    ids=["prints", "writes", "computes"],
)
def test_an_active_command_is_not_mistaken_for_a_prompt(repo: Repo, command: str) -> None:
    assert repo.run("run", repo.steps(command, idle_s=2)).code == 0


def test_route_reports_the_need_and_the_command(repo: Repo) -> None:
    answer = repo.run("route")
    assert (answer.code, "nothing has run here yet" in answer.stderr) == (14, True)
    repo.run("run", repo.steps("no-such-command-here"))
    told = repo.run("route", "--json").json["data"]
    assert (told["route"], told["thinking"]) == ("research", "/thingking_web")
    assert told["command"] == "command -v no-such-command-here"
    assert told["then"] == "reflectloop retry --reason TEXT"
    repo.run("run", repo.steps("echo 'AssertionError: expected 1'; exit 1"))
    told = repo.run("route", "--json").json["data"]
    assert (told["route"], told["needs"], told["class"]) == ("replan", "REPLAN", "3.3.2")
    assert told["command"] == f"reflectloop reflect {told['run_id']}"
    repo.run("run", repo.steps("exit 9"))
    told = repo.run("route", "--json").json["data"]
    assert told["route"] == "unlock"
    assert told["command"] == "reflectloop unlock --reason TEXT"


def test_shell_opens_where_the_failure_happened(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo evidence > left; false")).code == 30
    (Path(os.environ["HOME"]) / "diary").write_text("mine")
    assert "not in your files" in repo.run("shell", env={"SHELL": "true"}).stderr
    answer = repo.run("shell", "latest", "sh", "-c", "cat left; pwd; cat ~/diary")
    assert answer.code == 1, answer.stderr
    assert answer.stdout == f"evidence\n{repo.path}\n"
    assert repo.run("run", repo.steps("true")).code == 0
    assert repo.run("shell").code == 14


@pytest.mark.parametrize(
    "words",
    [
        ["RUN", "--"],
        ["--"],
        ["latest", "--"],
        ["RUN", "--project", ".", "--"],
        ["RUN"],
    ],
)
def test_a_command_for_the_shell_may_follow_two_dashes(repo: Repo, words: list[str]) -> None:
    assert repo.run("run", repo.steps("echo evidence > left; false")).code == 30
    run_id = repo.latest().name
    named = [run_id if word == "RUN" else word for word in words]
    answer = repo.run("shell", *named, "sh", "-c", "cat left -- ; exit 3")
    assert (answer.code, answer.stdout) == (3, "evidence\n"), answer.stderr


def test_a_running_run_is_reported_with_its_step(repo: Repo) -> None:
    engine = start(repo.path, "run", str(repo.steps("true", "echo begun; sleep 60")))
    try:
        assert wait_until(lambda: list((repo.path / ".reflectloop").glob("runs/*/logs/P-2.1.log")))
        (folder,) = (repo.path / ".reflectloop" / "runs").iterdir()
        place = f"{os.environ['TMPDIR']}/reflectloop/{folder.name}/repo"
        for words in (["show"], ["show", "--json"], ["shell"], ["diff"]):
            answer = repo.run(*words, folder.name)
            assert answer.code == 14
            said = f"{folder.name} is still running in {place}, 1 of 2 step(s) done, now P-2"
            assert said in answer.stdout + answer.stderr, words
        answer = repo.run("status")
        assert f"running in {place}" in answer.stdout
        assert f"next: reflectloop log {folder.name}" in answer.stdout
        assert wait_until(lambda: repo.run("log", folder.name, "P-2").stdout == "begun\n")
    finally:
        engine.send_signal(signal.SIGTERM)
        engine.wait()
    assert "INTERRUPTED" in repo.run("show", folder.name).stdout


def test_wait_reports_the_owner_of_the_lock_and_waits(repo: Repo, tmp_path: Path) -> None:
    repo.weaken()
    engine = start(repo.path, "run", str(repo.steps(f"until test -e {tmp_path}/go; do sleep 0.1; done")))
    assert wait_until(lambda: list((repo.path / ".reflectloop").glob("runs/*/logs/*.log")))
    other = repo.plan("plan: {title: b, steps: [{id: a, commands: ['true']}]}", "b.yaml")
    assert repo.run("run", other).code == 50
    words = [*PROGRAM, "run", "--wait", str(other)]
    with subprocess.Popen(words, cwd=repo.path, stderr=subprocess.PIPE) as waiting:
        assert waiting.stderr is not None
        told = waiting.stderr.readline().decode()
        (tmp_path / "go").touch()
        waiting.stderr.read()
    assert told.startswith(f"waiting: another engine works here: pid {engine.pid} ")
    assert waiting.returncode == 0
    assert engine.wait() == 0
