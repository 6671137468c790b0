"""A run survives its engine: killed after any event, it goes on, and what comes out is what would have come out."""

from __future__ import annotations

import itertools
import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support import Repo, start, wait_until

STEPS = 3
RECOVERY = ("run_resumed", "step_interrupted")


def plan(repo: Repo, *, jobs: int = 1) -> Path:
    chain = [
        {
            "id": f"S-{number}",
            "commands": [f"echo {number} >> done.txt; echo {number} > file-{number}.txt; echo said {number}"],
        }
        for number in range(1, STEPS + 1)
    ]
    for before, step in itertools.pairwise(chain):
        if jobs == 1:
            step["depends_on"] = [before["id"]]  # type: ignore[list-item]
        else:
            step["commands"] = [str(step["commands"][0]).split(";", 1)[1].strip()]
    body = {
        "title": "Chain",
        "track": "direct",
        "jobs": jobs,
        "steps": chain,
        "checks": {"made": {"file_exists": "file-1.txt"}},
    }
    return repo.plan(json.dumps({"plan": body}))


def killed_after(repo: Repo, path: Path, events: int, *words: str) -> int:
    """Start the program, kill it as soon as its journal has so many lines; how many it had in the end."""
    engine = start(repo.path, *words, *([str(path)] if words == ("run",) else []))
    while engine.poll() is None and lines(repo) < events:
        time.sleep(0.001)
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    return lines(repo)


def journal(repo: Repo) -> list[dict[str, Any]]:
    found = list((repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl"))
    return [json.loads(line) for path in found for line in path.read_text().splitlines()]


def lines(repo: Repo) -> int:
    found = list((repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl"))
    return sum(path.read_bytes().count(b"\n") for path in found)


def told(repo: Repo) -> list[dict[str, Any]]:
    """The journal without times, ids and what only recovery writes."""
    out: list[dict[str, Any]] = []
    for event in journal(repo):
        if event["kind"] == "step_interrupted":
            index = max(
                place
                for place, one in enumerate(out)
                if one["kind"] == "step_started" and one["step_id"] == event["step_id"]
            )
            del out[index]
        elif event["kind"] not in RECOVERY:
            out.append(
                {
                    key: value
                    for key, value in event.items()
                    if key not in ("at", "crc", "mac", "seq", "task_id", "run_id", "duration_ms", "base_commit")
                }
            )
    for event in out:
        event["checks"] = [
            {key: value for key, value in check.items() if key != "duration_ms"} for check in event.get("checks", [])
        ]
    return out


def undisturbed(repo: Repo, path: Path) -> tuple[list[dict[str, Any]], bytes, int]:
    assert repo.run("run", path).code == 0
    found = told(repo), (repo.latest() / "changes.patch").read_bytes(), lines(repo)
    forget(repo)
    return found


def forget(repo: Repo) -> None:
    """As if nothing had ever run here: also the warm workspace, which no ledger names once ours is gone."""
    assert repo.run("gc", "--all").code == 0
    subprocess.run(["rm", "-rf", str(repo.path / ".reflectloop")], check=True)


@pytest.mark.parametrize("jobs", [1, 3])
def test_killed_after_any_event_it_continues_to_the_same_end(repo: Repo, jobs: int) -> None:
    path = plan(repo, jobs=jobs)
    events, patch, count = undisturbed(repo, path)
    for number in range(1, count + 1):
        killed_after(repo, path, number, "run")
        if "run_started" not in [one["kind"] for one in journal(repo)]:
            forget(repo)
            continue
        done = repo.run("resume")
        assert done.code in (0, 14), (number, done.stderr)
        assert (repo.latest() / "changes.patch").read_bytes() == patch, number
        if jobs == 1:
            assert told(repo) == events, number
        started = [one["step_id"] for one in told(repo) if one["kind"] == "step_finished"]
        assert sorted(started) == sorted(set(started)), number
        assert (repo.latest() / "receipt.json").exists(), number
        assert repo.run("receipt", "verify").code == 0
        assert repo.workspaces() == []
        forget(repo)


def test_killed_again_and_again_it_still_comes_to_its_end(repo: Repo) -> None:
    path = plan(repo)
    events, patch, _ = undisturbed(repo, path)
    seen = killed_after(repo, path, 3, "run")
    for _ in range(3):
        seen = killed_after(repo, path, seen + 3, "resume")
    assert repo.run("resume").code in (0, 14)
    assert (repo.latest() / "changes.patch").read_bytes() == patch
    assert told(repo) == events


def test_an_attempt_that_the_engine_ended_is_not_counted(repo: Repo) -> None:
    path = repo.steps("sleep 30; true")
    for _ in range(3):
        words = ("run",) if lines(repo) == 0 else ("resume",)
        killed_after(repo, path, lines(repo) + 3, *words)
    kinds = [one["kind"] for one in journal(repo)]
    assert kinds.count("step_interrupted") == 2
    assert kinds.count("step_finished") == 0


def test_a_step_that_ends_the_engine_every_time_is_given_up(repo: Repo) -> None:
    path = repo.steps("sleep 30")
    killed_after(repo, path, 3, "run")
    for _ in range(4):
        killed_after(repo, path, lines(repo) + 3, "resume")
    done = repo.run("resume")
    assert done.code == 30
    assert "the engine died 5 times in a row" in done.stderr


def test_what_the_half_step_wrote_is_gone(repo: Repo) -> None:
    gate = repo.gate()
    path = repo.steps(f"echo half > half.txt; {gate.wait}; rm half.txt; echo whole > whole.txt")
    killed_after(repo, path, 3, "run")
    gate.open()
    assert repo.run("resume").code == 0
    patch = (repo.latest() / "changes.patch").read_text()
    assert "whole.txt" in patch
    assert "half.txt" not in patch


def test_a_resumed_run_uses_the_plan_it_began_with(repo: Repo) -> None:
    gate = repo.gate()
    path = repo.steps(f"{gate.wait}; echo old > made.txt")
    killed_after(repo, path, 3, "run")
    gate.open()
    repo.steps("echo new > made.txt")
    assert repo.run("resume").code == 0
    assert "+old" in (repo.latest() / "changes.patch").read_text()


def test_a_rule_that_came_meanwhile_holds_for_what_is_left(repo: Repo) -> None:
    gate = repo.gate()
    path = repo.steps(f"{gate.wait}; touch made.txt")
    killed_after(repo, path, 3, "run")
    gate.open()
    rule = {"id": "own.touch", "verdict": "deny", "reason": "nothing is touched here", "program": ["touch"]}
    samples = {"match": ["touch a"], "not_match": ["ls"]}
    repo.write(".reflectloop/rules/own.yaml", json.dumps({"rules": [{**rule, **samples}]}))
    answer = repo.run("resume", "--json")
    assert answer.envelope["error_code"] == "GATE_REJECTED"
    (repo.path / ".reflectloop/rules/own.yaml").unlink()
    assert repo.run("resume").code == 0


def test_other_work_meanwhile_takes_nothing_away(repo: Repo) -> None:
    path = plan(repo)
    killed_after(repo, path, 7, "run")
    task = (repo.path / ".reflectloop" / "current").read_text()
    assert (
        repo.run(
            "run", repo.plan('{"plan": {"title": "Other", "steps": [{"id": "x", "commands": ["true"]}]}}', "other.yaml")
        ).code
        == 0
    )
    (repo.path / ".reflectloop" / "current").write_text(task)
    done = repo.run("resume")
    assert done.code == 0, done.stderr
    assert "+3" in (repo.latest() / "changes.patch").read_text()


def test_where_nothing_began_there_is_nothing_to_resume(repo: Repo) -> None:
    assert repo.run("resume").code == 14
    assert repo.run("run", repo.steps("true")).code == 0
    done = repo.run("resume")
    assert done.code == 14
    assert "there is nothing to resume" in done.stderr


def test_status_names_the_command_that_continues(repo: Repo) -> None:
    killed_after(repo, repo.steps("sleep 30"), 3, "run")
    shown = repo.run("status").stdout
    assert "reflectloop resume" in shown


@pytest.mark.usefixtures("copied_workspaces")
@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_run_continues_in_the_workspace_of_the_killed_engine(repo: Repo, is_swapped: bool) -> None:
    """Files of the interrupted step are gone. A folder that stands in the workspace's place is not used."""
    path = repo.steps("echo 1 > one.txt", "stat -c %i . > inode.txt; ls > seen.txt; echo x > half.txt; sleep 0.2")
    killed_after(repo, path, 4, "run")
    assert "step_interrupted" not in [event["kind"] for event in journal(repo)]
    (space,) = (Path(os.environ["TMPDIR"]) / "reflectloop").glob("RLOP-*/repo")
    (space / "half.txt").write_text("of the interrupted step")
    if is_swapped:
        space.rename(space.with_name("other"))
        space.mkdir(mode=0o700)
    inode = space.stat().st_ino
    assert repo.run("resume").code == 0
    changes = (repo.latest() / "changes.patch").read_text()
    assert (f"+{inode}\n" in changes) is not is_swapped
    assert "+half.txt" not in changes
    assert repo.workspaces() == []


def _folders_below(top: Path, prefix: str) -> list[str]:
    """Return folders whose names begin so, also while others remove some of them."""
    return [name for _, folders, _ in os.walk(top) for name in folders if name.startswith(prefix)]


def test_workspaces_in_a_folder_that_others_can_enter_are_removed(repo: Repo, tmp_path: Path) -> None:
    for mode in (0o755, 0o777):
        root = tmp_path / f"root-{mode:o}"
        root.mkdir()
        root.chmod(mode)
        assert repo.run("run", "--new", "--sandbox-root", root, repo.steps("echo 1 > one.txt")).code == 0
        assert wait_until(lambda place=root: not _folders_below(place, ".removed"))
        assert repo.run("gc", "--all").code == 0
        assert wait_until(lambda place=root: not _folders_below(place, "RLOP-"))
        assert stat.S_IMODE(root.stat().st_mode) == mode
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in root.glob("build-*"))
