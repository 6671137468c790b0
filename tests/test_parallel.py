"""Steps side by side: each in a workspace of its own, merged in plan order, conflicts named."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from support import Repo, start, wait_until


def plan(repo: Repo, *steps: dict[str, Any], **more: Any) -> Path:
    return repo.plan(json.dumps({"plan": {"title": "Side by side", "track": "direct", "steps": list(steps), **more}}))


def step(name: str, *commands: str, after: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {"id": name, "commands": list(commands), "depends_on": list(after), **more}


def test_steps_of_a_batch_run_side_by_side_and_are_merged(repo: Repo) -> None:
    """Each waits for a sign of the others, so one after another would never end well."""
    repo.weaken()
    signs = repo.path.parent / "signs"
    signs.mkdir()
    meet = f"touch {signs}/$N; for i in $(seq 100); do [ $(ls {signs} | wc -l) = 3 ] && break; sleep 0.05; done; [ $(ls {signs} | wc -l) = 3 ]"
    steps = [step(name, f"N={name}; {meet}; echo {name} > {name}.txt", after=("first",)) for name in ("a", "b", "c")]
    path = plan(
        repo,
        step("first", "echo 1 > base.txt"),
        *steps,
        step("last", "cat base.txt a.txt b.txt c.txt", after=("a", "b", "c")),
    )
    answer = repo.run("run", "--json", "--jobs", "3", path)
    assert answer.code == 0, answer.stdout
    assert (repo.latest() / "logs" / "last.1.log").read_text() == "1\na\nb\nc\n"
    assert [change["path"] for change in answer.json["data"]["touched_files"]] == [
        "a.txt",
        "b.txt",
        "base.txt",
        "c.txt",
    ]
    assert repo.run("apply", "--yes").code == 0


def test_steps_side_by_side_are_merged_by_the_attributes_of_the_project(repo: Repo) -> None:
    repo.write(".gitattributes", "notes.txt merge=union\n")
    repo.write("notes.txt", "first\n")
    repo.commit("notes")
    steps = [step(name, f"echo {name} >> notes.txt") for name in ("a", "b")]
    answer = repo.run("run", "--json", "--jobs", "2", plan(repo, *steps, step("c", "cat notes.txt", after=("a", "b"))))
    assert answer.code == 0, answer.stdout
    assert (repo.latest() / "logs" / "c.1.log").read_text() == "first\na\nb\n"


def test_the_counter_counts_what_has_finished(repo: Repo) -> None:
    answer = repo.run("run", "--jobs", "3", plan(repo, *(step(name, "sleep 0.2") for name in "abc")))
    assert re.findall(r"\[\d/3\] \w", answer.stderr) == ["[1/3] a", "[2/3] b", "[3/3] c"]


def test_side_by_side_gives_the_same_tree_as_one_after_another(repo: Repo) -> None:
    repo.write("long.txt", "".join(f"{number}\n" for number in range(40)))
    repo.commit("long")
    steps = [
        step(f"s{number}", f"sed -i 's/^{number * 5}$/changed/' long.txt; echo {number} > f{number}")
        for number in range(6)
    ]
    alone = repo.run("run", "--json", "--new", plan(repo, *steps))
    together = repo.run("run", "--json", "--new", "--jobs", "4", plan(repo, *steps))
    assert (alone.code, together.code) == (0, 0)
    shown = [repo.run("diff", "--json", answer.envelope["run_id"]).json["data"]["end"] for answer in (alone, together)]
    assert shown[0] == shown[1]


def test_two_steps_that_change_the_same_lines_conflict_by_name(repo: Repo) -> None:
    path = plan(
        repo,
        step("mine", "echo mine > src/app.py"),
        step("other", "touch other"),
        step("yours", "echo yours > src/app.py"),
    )
    answer = repo.run("run", "--json", "--jobs", "3", path)
    assert answer.code == 30
    assert "step yours" in answer.envelope["message"]
    assert "step mine" in answer.envelope["message"]
    assert "src/app.py" in answer.envelope["message"]
    results = {one["id"]: one["success"] for one in answer.json["data"]["steps"]}
    assert results == {"mine": True, "other": True, "yours": False}


def test_steps_see_nothing_of_each_other_before_they_are_merged(repo: Repo) -> None:
    path = plan(repo, step("a", "echo x > made; sleep 0.5"), step("b", "sleep 0.3; test ! -e made; git log --oneline"))
    assert repo.run("run", "--jobs", "2", path).code == 0


def test_a_failure_ends_what_runs_beside_it(repo: Repo) -> None:
    gate = repo.gate()
    path = plan(
        repo,
        step("slow", f"touch {gate.path}; sleep 3600"),
        step("bad", f"{gate.wait}; exit 5"),
        step("later", "touch never", after=("slow",)),
    )
    answer = repo.run("run", "--json", "--jobs", "2", path)
    assert answer.code == 30
    assert "step bad" in answer.envelope["message"]
    codes = {one["id"]: one["error_code"] for one in answer.json["data"]["steps"]}
    assert codes == {"slow": "CANCELLED", "bad": "STEP_FAILED"}


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_keep_going_finishes_what_does_not_depend_on_the_failure(repo: Repo, jobs: str) -> None:
    steps = (
        step("bad", "exit 5"),
        step("child", "true", after=("bad",)),
        step("good", "echo x > good"),
        step("more", "cat good", after=("good",)),
    )
    answer = repo.run("run", "--json", "--keep-going", "--jobs", jobs, plan(repo, *steps))
    assert answer.code == 30
    assert {one["id"]: one["success"] for one in answer.json["data"]["steps"]} == {
        "bad": False,
        "good": True,
        "more": True,
    }


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_read_only_step_that_writes_is_refused_with_any_jobs(repo: Repo, jobs: str) -> None:
    path = plan(repo, step("look", "cat src/app.py", read_only=True), step("write", "touch x", read_only=True))
    answer = repo.run("run", "--json", "--keep-going", "--jobs", jobs, path)  # else the one may end the other
    assert answer.code == 30
    assert answer.envelope["message"] == "step write: is marked read_only, and changed x"
    assert [(one["id"], one["success"]) for one in answer.json["data"]["steps"]] == [("look", True), ("write", False)]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_continues_after_a_failure_sees_nothing_of_it_with_any_jobs(repo: Repo, jobs: str) -> None:
    repo.write(".gitignore", "out/\n")
    path = plan(
        repo,
        step("build", "echo 1 > built"),
        step("bad", "echo half > src/app.py; touch half; exit 1"),
        step("look", "touch x", read_only=True),
        step("next", "cat built; grep hello src/app.py; test ! -e half -a ! -e x", after=("build",)),
    )
    answer = repo.run("run", "--json", "--jobs", jobs, "--keep-going", path)
    assert answer.code == 30
    done = {one["id"]: one["success"] for one in answer.json["data"]["steps"]}
    assert done == {"build": True, "bad": False, "look": False, "next": True}


def test_stepping_back_from_a_failure_keeps_ignored_output(repo: Repo) -> None:
    repo.write(".gitignore", "out/\n")
    path = plan(
        repo, step("build", "mkdir out; echo 1 > out/lib"), step("bad", "touch x; false"), step("next", "cat out/lib")
    )
    answer = repo.run("run", "--json", "--keep-going", path)
    assert {one["id"]: one["success"] for one in answer.json["data"]["steps"]}["next"], answer.stdout


def test_a_leak_in_one_of_many_stops_them_all(repo: Repo) -> None:
    key = "sk-" + "m1n2b3v4c5x6z7"
    leak = f"K={key[:5]}; sleep 0.2; echo key = ${{K}}{key[5:]}"
    answer = repo.run("run", "--json", "--jobs", "2", plan(repo, step("slow", "sleep 60"), step("leak", leak)))
    assert answer.code == 99
    assert repo.workspaces() == []


def test_cancelling_by_hand_ends_every_step(repo: Repo) -> None:
    path = plan(repo, *(step(f"s{number}", "sleep 60") for number in range(3)))
    engine = start(repo.path, "run", "--json", "--jobs", "3", str(path))
    assert wait_until(lambda: len(list((repo.path / ".reflectloop").glob("runs/*/logs/*.log"))) == 3)
    engine.send_signal(signal.SIGINT)
    done = engine.ended()
    assert done.code == 130
    assert json.loads(done.stdout)["envelope"]["error_code"] == "INTERRUPTED"


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_killed_at_any_instant_gc_leaves_nothing_and_the_next_run_works(repo: Repo, jobs: str) -> None:
    """A short form; the proof kills fifty times."""
    chance = random.Random(7)
    for _ in range(4):
        path = plan(repo, *(step(f"s{number}", "echo x >> f$RANDOM; sleep 0.1") for number in range(4)))
        engine = start(repo.path, "run", "--new", "--jobs", jobs, str(path))
        time.sleep(chance.uniform(0, 0.8))
        engine.send_signal(signal.SIGKILL)
        engine.wait()
    assert repo.run("gc", "--all").code == 0
    root = Path(os.environ["TMPDIR"]) / "reflectloop"
    assert wait_until(lambda: not list(root.glob("*")) if root.exists() else True)
    repo.no_process_left()
    assert repo.run("run", repo.steps("true")).code == 0


def test_gc_while_a_run_is_active_is_refused(repo: Repo) -> None:
    gate = repo.gate()
    engine = start(repo.path, "run", str(repo.steps(f"{gate.wait}; touch made")))
    assert wait_until(lambda: list((repo.path / ".reflectloop").glob("runs/*/logs/*.log")))
    assert repo.run("gc", "--all").code == 50
    gate.open()
    assert engine.wait() == 0


@pytest.mark.parametrize(
    "garbage", [b"", b"{", b"[]", b"\xff\xff", b'{"folder": "/etc", "fate": "kept"}', b'{"folder": 3}']
)
def test_a_ledger_entry_with_garbage_harms_nothing(repo: Repo, garbage: bytes) -> None:
    assert repo.run("run", repo.steps("false")).code == 30
    (kept,) = repo.workspaces()
    record = repo.path / ".reflectloop" / "workspaces" / kept.name / "workspace.json"
    record.write_bytes(garbage)
    assert repo.run("status").code == 0
    assert repo.run("gc", "--all").code == 0
    assert Path("/etc/passwd").exists()
    assert wait_until(lambda: not kept.exists())


@pytest.mark.usefixtures("copied_workspaces")
def test_a_warm_workspace_serves_the_next_run_and_carries_nothing_over(repo: Repo) -> None:
    repo.write(".gitignore", "*.ignored\n")
    repo.commit("ignore")
    dirt = "echo x > new; echo x > a.ignored; echo x > $HOME/h; echo x > $TMPDIR/t; rm README.md; git init -q sub; git config a.b c; mkdir empty"
    assert repo.run("run", repo.steps(dirt)).code == 0
    root = Path(os.environ["TMPDIR"]) / "reflectloop"
    (warm,) = [path for path in root.iterdir() if not path.name.startswith(".")]
    inode = (warm / "repo").stat().st_ino
    repo.write("src/app.py", "other\n")
    look = (
        "git status --short; git status --short --ignored; ls -A $HOME $TMPDIR; git config a.b || echo none; cat src/app.py; ls; [ $(stat -c %i .) = "
        + str(inode)
        + " ]"
    )
    answer = repo.run("run", repo.steps(look))
    assert answer.code == 0, answer.stderr
    log = (repo.latest() / "logs" / "P-1.1.log").read_text()
    assert "none\nother\n" in log
    assert "README.md" in log
    for word in ("new", "ignored", "sub", "empty", " h", " t\n"):
        assert word not in log.replace("\n", " \n"), (word, log)


@pytest.mark.usefixtures("copied_workspaces")
@pytest.mark.parametrize("damage", ["garbage", "missing", "a folder", "torn"])
def test_a_warm_workspace_with_a_damaged_index_is_laid_out_again(repo: Repo, damage: str) -> None:
    assert repo.run("run", repo.steps("echo dirt > README.md")).code == 0
    (index,) = (repo.path / ".reflectloop" / "workspaces").glob("*/index")
    raw = index.read_bytes()
    index.unlink()
    if damage == "a folder":
        index.mkdir()
    elif damage != "missing":
        index.write_bytes(b"garbage" if damage == "garbage" else raw[: len(raw) // 2])
    answer = repo.run("run", "--json", repo.steps("cat README.md; git status --short; ls"))
    assert answer.code == 0, answer.stdout
    assert (repo.latest() / "logs" / "P-1.1.log").read_text() == "# sample\nREADME.md\nsrc\n"
    assert repo.workspaces() == []


def test_reset_restores_a_file_changed_behind_gits_back(repo: Repo) -> None:
    """Same size, old time put back: the change time still tells."""
    repo.write("data.txt", "aaaa\n")
    repo.commit("data")
    sneak = 't=$(stat -c %y data.txt); echo bbbb > data.txt; touch -d "$t" data.txt; git update-index --assume-unchanged data.txt'
    assert repo.run("run", repo.steps(sneak)).code == 0
    assert "data.txt" in repo.run("diff", "--stat").stdout
    assert repo.run("run", repo.steps("cat data.txt")).code == 0
    assert (repo.latest() / "logs" / "P-1.1.log").read_text() == "aaaa\n"


def test_modes_do_not_pass_from_one_run_to_the_next(repo: Repo) -> None:
    assert repo.run("run", repo.steps("chmod 500 src; chmod 600 README.md; chmod 555 .")).code == 0
    assert repo.run("run", repo.steps("stat -c '%a %n' src README.md src/app.py; touch src/new")).code == 0
    umask = os.umask(0)
    os.umask(umask)
    log = (repo.latest() / "logs" / "P-1.1.log").read_text().split()
    assert log == [
        f"{0o777 & ~umask:o}",
        "src",
        f"{0o666 & ~umask:o}",
        "README.md",
        f"{0o666 & ~umask:o}",
        "src/app.py",
    ]
