"""`run`, as a user sees it: what comes out, and what stays as it was."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from reflectloop.sandbox import isolation
from support import PROGRAM, Repo

SCHEMAS = Path(__file__).resolve().parent.parent / "schemas"


def test_a_dirty_tree_runs_and_nothing_of_the_users_changes(repo: Repo) -> None:
    repo.git("branch", "other")
    repo.write("src/app.py", "stashed\n")
    repo.git("stash")
    repo.write("src/app.py", "print('dirty')\n")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("untracked.txt", "untracked\n")
    before = repo.state()
    answer = repo.run("run", repo.steps("cat src/app.py staged.txt untracked.txt", "echo more >> src/app.py"))
    assert answer.code == 0, answer.stderr
    assert (repo.latest() / "logs" / "P-1.1.log").read_text() == "print('dirty')\nstaged\nuntracked\n"
    assert "+more" in (repo.latest() / "changes.patch").read_text()
    assert repo.state() == before


def test_a_change_as_young_as_the_index_is_seen(repo: Repo) -> None:
    """Same size, same clock tick: only the content tells. git re-reads such files, and so must a copy of its index."""
    for number in range(5):
        repo.write("src/app.py", f"print('{number:05}')\n")
        repo.commit("even")
        repo.write("src/app.py", f"print('{number + 50000:05}')\n")
        assert repo.run("run", repo.steps("cat src/app.py")).code == 0
        assert (repo.latest() / "logs" / "P-1.1.log").read_text() == f"print('{number + 50000:05}')\n"


ODD_CHANGES = (
    "printf '\\000\\001\\377binary' > 'new file.bin'",
    "rm gone.txt",
    "chmod +x src/app.py",
    "ln -s src/app.py 'a link'",
    "git mv long.txt 'größer und neu.txt'",
    "printf 'x' > $'line\\nbreak'",
    "mkdir -p deep/er && mv README.md deep/er/",
    "rm -r folder && echo now a file > folder",
    "rm plain && mkdir plain && echo now a folder > plain/inside",
    "printf 'no newline at end' > ends.txt; printf 'crlf\\r\\n' > crlf.txt",
)


def _odd_repo(repo: Repo) -> None:
    repo.write("gone.txt", "going\n")
    repo.write("long.txt", "".join(f"line {number}\n" for number in range(50)))
    repo.write("folder/file", "in a folder\n")
    repo.write("plain", "plain\n")
    repo.commit("more")
    repo.write("src/app.py", "print('dirty')\n")
    repo.write("ünträcked name.txt", "untracked\n")


def _tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with the part of its mode that git keeps, and its content."""
    found = {}
    for root, folders, names in os.walk(os.fsencode(folder)):
        folders[:] = [name for name in folders if name not in (b".git", b".reflectloop")]
        links = [name for name in folders if os.path.islink(os.path.join(root, name))]
        for name in names + links:
            path = os.path.join(root, name)
            status = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(status.st_mode) else Path(os.fsdecode(path)).read_bytes()
            kind = stat.S_IFMT(status.st_mode) | (status.st_mode & 0o100)
            found[os.fsdecode(os.path.relpath(path, os.fsencode(folder)))] = (kind, content)
    return found


@pytest.mark.usefixtures("copied_workspaces")
def test_the_patch_fits_the_base_and_apply_yields_the_workspaces_tree(repo: Repo) -> None:
    _odd_repo(repo)
    keep = repo.steps(*ODD_CHANGES, "false")
    assert repo.run("run", keep).code == 30
    (workspace,) = repo.workspaces()
    wanted = _tree(workspace / "repo")

    assert repo.run("run", repo.steps(*ODD_CHANGES)).code == 0
    patch = repo.latest() / "changes.patch"
    subprocess.run(["git", "apply", "--check", str(patch)], cwd=repo.path, check=True)

    answer = repo.run("apply", "--yes")
    assert answer.code == 0, answer.stderr
    assert _tree(repo.path) == wanted


def test_git_apply_of_the_patch_gives_the_same_tree_as_apply(repo: Repo, tmp_path: Path) -> None:
    _odd_repo(repo)
    assert repo.run("run", repo.steps(*ODD_CHANGES)).code == 0
    by_hand = tmp_path / "by-hand"
    subprocess.run(["cp", "-a", str(repo.path), str(by_hand)], check=True)
    subprocess.run(["git", "apply", str(repo.latest() / "changes.patch")], cwd=by_hand, check=True)
    assert repo.run("apply", "--yes").code == 0
    assert _tree(repo.path) == _tree(by_hand)


def test_json_prints_exactly_one_document_and_it_fits_the_schema(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.steps("echo noise; echo more >&2"))
    assert answer.code == 0
    jsonschema.validate(answer.envelope, json.loads((SCHEMAS / "envelope.json").read_text()))
    assert answer.envelope["status"] == "OK"
    assert answer.envelope["isolation"] == isolation.supported_levels()[0].level
    assert answer.stderr == ""


def test_events_are_the_journal_itself(repo: Repo) -> None:
    answer = repo.run("run", "--events", repo.steps("true"))
    told = [json.loads(line) for line in answer.stdout.splitlines()]
    (journal,) = (repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    written = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [event["kind"] for event in told] == [
        "task_opened",
        "run_started",
        "step_started",
        "step_finished",
        "run_finished",
    ]
    assert told == [{key: value for key, value in event.items() if key not in ("v", "mac", "crc")} for event in written]


def test_artifacts_are_all_there_and_say_the_same(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo x > new.txt")).code == 0
    folder = repo.latest()
    names = sorted(path.name for path in folder.iterdir())
    assert names == [
        "changes.patch",
        "envelope.yaml",
        "evidence.jsonl",
        "junit.xml",
        "logs",
        "plan.yaml",
        "receipt.json",
        "result.yaml",
        "results.sarif",
        "summary.md",
    ]
    result = yaml.safe_load((folder / "result.yaml").read_text())
    assert next(iter(result)) == "envelope"
    assert result["result"] == "SUCCESS"
    assert result["outputs"]["touched_files"] == ["new.txt"]
    assert result["steps"][0]["log_path"] == "logs/P-1.1.log"
    for name in result["envelope"]["artifacts_written"]:
        assert (repo.path / name).exists()


def test_a_failed_step_stops_the_run_and_leaves_a_blocker(repo: Repo) -> None:
    plan = repo.steps("true", "echo broken >&2; exit 3", "touch never")
    answer = repo.run("run", "--json", plan)
    assert answer.code == 30
    assert answer.envelope["error_code"] == "STEP_FAILED"
    assert [step["exit_code"] for step in answer.json["data"]["steps"]] == [0, 3]
    blocker = yaml.safe_load((repo.latest() / "blocker.yaml").read_text())
    assert blocker["steps_completed"] == 1
    assert blocker["steps_total"] == 3
    assert "broken" in blocker["evidence"]
    printed = repo.run("log")
    assert printed.stdout == "== P-1.1.log: true\n== P-2.1.log: echo broken >&2; exit 3\nbroken\n"
    assert printed.stderr == "(no output)\n"
    again = repo.run("retry", "--json", "--reason", "test")
    assert yaml.safe_load((repo.latest() / "blocker.yaml").read_text())["blocker_id"] == blocker["blocker_id"]
    assert again.code == 30


def test_argv_commands_are_not_read_by_a_shell(repo: Repo) -> None:
    assert repo.run("run", repo.steps(["printf", "%s", "$HOME; echo `id`"])).code == 0
    assert (repo.latest() / "logs" / "P-1.1.log").read_text() == "$HOME; echo `id`"


def test_a_failure_in_the_middle_of_a_shell_line_is_a_failure(repo: Repo) -> None:
    assert repo.run("run", repo.steps("false | cat")).code == 30
    assert repo.run("run", repo.steps("false\ntrue")).code == 30


def test_commands_see_an_environment_of_their_own(repo: Repo) -> None:
    plan = repo.steps(
        "ls -A $HOME $TMPDIR; echo private=${PRIVATE_THING:-none} $A; read x || echo closed", env={"A": "b"}
    )
    (Path(os.environ["HOME"]) / "diary").write_text("mine")
    assert repo.run("run", plan, env={"PRIVATE_THING": "mine"}).code == 0
    log = (repo.latest() / "logs" / "P-1.1.log").read_text()
    assert "private=none b\n" in log
    assert "closed" in log
    assert "diary" not in log


def test_steps_wait_for_what_they_depend_on(repo: Repo) -> None:
    plan = repo.plan(
        """
        plan:
          title: Order
          steps:
            - {id: last, commands: [cat made], depends_on: [first]}
            - {id: first, commands: [echo yes > made]}
        """
    )
    answer = repo.run("run", "--json", plan)
    assert answer.code == 0
    assert [step["id"] for step in answer.json["data"]["steps"]] == ["first", "last"]


def test_dry_run_shows_everything_and_runs_nothing(repo: Repo) -> None:
    answer = repo.run("run", "--dry-run", repo.steps("touch never"))
    assert answer.code == 0
    assert "$ touch never" in answer.stdout
    assert not (repo.path / ".reflectloop").exists()


def test_a_preview_says_what_each_check_looks_at(repo: Repo) -> None:
    verify = ["Exit code 0", "Output contains 'x'", {"file_exists": "README.md"}, {"run": "true"}]
    shown = repo.run("run", "--dry-run", repo.steps("echo x", verify=verify)).stdout
    assert [line.strip() for line in shown.splitlines() if "check P-1" in line] == [
        "check P-1.1: the step's commands exit 0",
        "check P-1.2: the step prints 'x'",
        "check P-1.3: README.md exists",
        "check P-1.4: true",
    ]


def test_a_track_that_was_assumed_is_written_down_and_not_nagged_about(repo: Repo) -> None:
    plan = repo.plan("plan: {title: T, steps: [{id: a, commands: ['true']}]}")
    assert "track" not in repo.run("run", plan).stderr
    answer = repo.run("run", "--json", "--new", plan)
    assert answer.envelope["warnings"] == ["the plan names no track; direct is assumed"]
    assert "direct is assumed" in repo.run("plan", "check", plan).stdout


def test_output_that_is_too_much_keeps_head_and_tail_and_says_so(repo: Repo) -> None:
    repo.write("reflectloop.toml", "[run]\nlog_cap_mb = 1\n")
    plan = repo.steps("echo the very first; head -c 5000000 /dev/zero | tr '\\0' x; echo the very last")
    assert repo.run("run", plan).code == 0
    log = (repo.latest() / "logs" / "P-1.1.log").read_bytes()
    assert len(log) < 1.1 * (1 << 20)
    assert log.startswith(b"the very first")
    assert log.endswith(b"the very last\n")
    assert b"bytes cut here" in log


def test_the_workspace_has_the_history_tags_and_branch_that_tools_expect(repo: Repo) -> None:
    repo.git("tag", "-a", "v1.2.3", "-m", "one")
    repo.write("src/app.py", "dirty\n")
    plan = repo.steps("git describe --tags; git branch --show-current; git status --short; git log --oneline")
    assert repo.run("run", plan).code == 0
    log = (repo.latest() / "logs" / "P-1.1.log").read_text().splitlines()
    assert log[0].startswith("v1.2.3-1-g")
    assert log[1] == "main"
    assert [line.split(" ", 1)[1] for line in log[2:]] == ["Snapshot of the working tree", "first"]


def test_what_a_workspace_does_with_git_does_not_reach_the_user(repo: Repo) -> None:
    repo.git("branch", "precious")
    before = repo.state()
    plan = repo.steps(
        "git config user.name evil; git branch -D precious || true; git checkout -q -b mine; "
        "git commit -q --allow-empty -m x; git tag t; git stash list; git gc -q --prune=now"
    )
    assert repo.run("run", plan).code == 0
    assert repo.state() == before


@pytest.mark.usefixtures("copied_workspaces")
def test_a_workspace_is_gone_after_success_and_kept_after_failure(repo: Repo) -> None:
    assert repo.run("run", repo.steps("true")).code == 0
    assert repo.workspaces() == []
    assert repo.run("run", repo.steps("touch evidence; false")).code == 30
    (kept,) = repo.workspaces()
    assert (kept / "repo" / "evidence").exists()
    assert repo.run("gc", "--all").code == 0
    assert repo.workspaces() == []


def test_only_the_last_few_failed_workspaces_are_kept(repo: Repo) -> None:
    for _ in range(5):
        assert repo.run("run", "--new", repo.steps("false")).code == 30
    assert len(repo.workspaces()) == 3


def test_a_run_goes_on_when_nobody_reads_its_messages(repo: Repo) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    plan = repo.steps("echo a > a.txt")
    words = [*PROGRAM, "run", str(plan)]
    done = subprocess.run(words, cwd=repo.path, stderr=writing, stdout=subprocess.DEVNULL, check=False)
    os.close(writing)
    assert done.returncode == 0
    assert repo.run("status", "--json").json["data"]["runs"][0]["status"] == "ok"
