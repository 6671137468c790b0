"""`apply`: exactly the run's change, or nothing at all."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from reflectloop.commands import apply_run
from support import PROGRAM, Repo, noise, start

pytestmark = pytest.mark.usefixtures("without_probing")


def test_a_change_of_the_user_in_another_file_is_kept(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo theirs >> src/app.py")).code == 0
    repo.write("README.md", "# mine\n")
    repo.write("new.txt", "mine\n")
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / "README.md").read_text() == "# mine\n"
    assert (repo.path / "new.txt").read_text() == "mine\n"
    assert (repo.path / "src/app.py").read_text() == "print('hello')\ntheirs\n"


def test_a_change_in_another_part_of_the_same_file_is_merged(repo: Repo) -> None:
    lines = [f"line {number}\n" for number in range(20)]
    repo.write("long.txt", "".join(lines))
    repo.commit("long")
    assert repo.run("run", repo.steps("sed -i '1s/.*/theirs/' long.txt")).code == 0
    repo.write("long.txt", "".join([*lines[:-1], "mine\n"]))
    repo.commit("HEAD moved")
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / "long.txt").read_text() == "".join(["theirs\n", *lines[1:-1], "mine\n"])


def test_a_conflict_changes_nothing(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo theirs > src/app.py; echo new > fresh.txt")).code == 0
    repo.write("src/app.py", "mine\n")
    before = repo.state()
    answer = repo.run("apply", "--yes")
    assert answer.code == 34
    assert "src/app.py" in answer.stderr
    assert repo.state() == before
    assert "next: run the plan again" in answer.stderr
    assert repo.run("run", repo.path.parent / "plan.yaml").code == 0
    assert repo.run("apply", "--yes").code == 0


def test_a_branch_can_be_made_once_the_changes_that_a_run_began_with_are_committed(repo: Repo) -> None:
    repo.write("src/app.py", "mine\n")
    assert repo.run("run", repo.steps("echo theirs >> src/app.py")).code == 0
    refused = repo.run("apply", "--yes", "--branch", "theirs")
    assert refused.code == 34
    assert "next: commit the changes that the run began with" in refused.stderr
    repo.commit("mine")
    assert repo.run("apply", "--yes", "--branch", "theirs").code == 0
    assert repo.git("show", "theirs:src/app.py") == "mine\ntheirs\n"


def test_an_ignored_file_in_the_way_is_not_overwritten(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo theirs > local.cfg; mkdir made; echo x > made/f")).code == 0
    repo.write(".gitignore", "local.cfg\nmade\n")
    repo.write("local.cfg", "precious\n")
    answer = repo.run("apply", "--yes")
    assert answer.code == 34
    assert "local.cfg" in answer.stderr
    assert (repo.path / "local.cfg").read_text() == "precious\n"
    (repo.path / "local.cfg").unlink()
    repo.write("made", "an ignored file where a folder should be\n")
    assert repo.run("apply", "--yes").code == 34
    assert (repo.path / "made").is_file()


def test_ignored_files_inside_a_folder_that_becomes_a_file_are_kept(repo: Repo) -> None:
    repo.write("data/kept.txt", "x\n")
    repo.write(".gitignore", "*.cache\n")
    repo.commit("data")
    assert repo.run("run", repo.steps("rm -r data; echo file > data")).code == 0
    repo.write("data/precious.cache", "mine\n")
    answer = repo.run("apply", "--yes")
    assert answer.code == 34
    assert "data/precious.cache" in answer.stderr
    assert (repo.path / "data/precious.cache").read_text() == "mine\n"
    assert (repo.path / "data/kept.txt").exists()


def test_commit_contains_only_the_change(repo: Repo) -> None:
    repo.write("README.md", "# dirty\n")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    assert repo.run("run", repo.steps("echo theirs >> src/app.py; echo n > 'new file'")).code == 0
    answer = repo.run("apply", "--yes", "--commit", "-m", "A change of ours")
    assert answer.code == 0, answer.stderr
    assert repo.git("log", "-1", "--format=%s").strip() == "A change of ours"
    assert repo.git("show", "--name-only", "--format=", "HEAD").split("\n")[:-1] == ["new file", "src/app.py"]
    assert repo.git("status", "--porcelain").splitlines() == [" M README.md", "A  staged.txt"]
    repo.git("fsck", "--strict")


def test_a_commit_needs_an_author_name(repo: Repo) -> None:
    repo.git("config", "--unset", "user.name")
    repo.git("config", "--unset", "user.email")
    repo.git("config", "user.useConfigOnly", "true")
    assert repo.run("run", repo.steps("echo x > a")).code == 0
    answer = repo.run("apply", "--yes", "--commit")
    assert answer.code == 12
    assert "git config user.name" in answer.stderr
    assert not (repo.path / "a").exists()


def test_branch_leaves_the_users_files_alone(repo: Repo) -> None:
    repo.write("README.md", "# dirty\n")
    assert repo.run("run", repo.steps("echo theirs >> src/app.py")).code == 0
    before = repo.state()
    assert repo.run("apply", "--branch", "proposal").code == 0
    after = repo.state()
    assert {key: after[key] for key in ("index", "head", "stash")} == {
        key: before[key] for key in ("index", "head", "stash")
    }
    assert repo.git("diff", "--stat", "main", "proposal", "--", "README.md") == ""
    assert "+theirs" in repo.git("diff", "main", "proposal")
    assert repo.run("apply", "--branch", "proposal").code == 12
    assert repo.run("apply", "--branch", "no..good").code == 12


def test_commit_refuses_where_staged_work_would_be_lost(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo theirs >> src/app.py")).code == 0
    repo.write("src/app.py", "print('hello')\ntheirs\n")
    repo.git("add", "src/app.py")
    before = repo.state()
    assert repo.run("apply", "--yes", "--commit").code == 34
    assert repo.state() == before


def test_only_a_run_that_passed_is_applied(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo x > a", "false")).code == 30
    answer = repo.run("apply", "--yes")
    assert answer.code == 14
    assert not (repo.path / "a").exists()


def test_applying_twice_is_refused(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo x > a")).code == 0
    assert repo.run("apply", "--yes").code == 0
    answer = repo.run("apply", "--yes")
    assert answer.code == 14
    assert "already" in answer.stderr
    assert "applied" in repo.run("status").stdout


def test_a_detached_head_runs_and_applies_but_has_no_branch_to_commit_to(repo: Repo) -> None:
    repo.git("checkout", "-q", "--detach")
    assert repo.run("run", repo.steps("git branch --show-current; echo x > a")).code == 0
    assert (repo.latest() / "logs" / "P-1.1.log").read_text() == ""
    assert repo.run("apply", "--commit", "--yes").code == 12
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / "a").read_text() == "x\n"


def test_a_full_disk_in_the_middle_puts_everything_back(tmp_path: Path) -> None:
    """A small file system of its own is the only honest way to run out of space."""
    disk = tmp_path / "small"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system takes root")
    try:
        small = Repo(disk / "project")
        small.path.mkdir()
        small.git("init", "-q", "-b", "main")
        small.write("a.txt", "a\n")
        small.write("z.txt", "z\n")
        small.commit("first")
        plan = small.steps(f"echo changed > a.txt; {noise(1, 900_000)} > m.bin; echo changed > z.txt")
        assert small.run("run", plan).code == 0
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        small.write("filler", b"x" * (free - 300_000))
        small.git("update-index", "--refresh")
        (small.path / ".git" / "info" / "exclude").write_text("filler\n")
        before = small.state()
        answer = small.run("apply", "--yes")
        assert answer.code == 52, (answer.code, answer.stderr)
        assert small.state()["index"] == before["index"]
        assert (small.path / "a.txt").read_text() == "a\n"
        assert (small.path / "z.txt").read_text() == "z\n"
        assert not (small.path / "m.bin").exists()
        (small.path / "filler").unlink()
        assert small.run("apply", "--yes").code == 0
        assert (small.path / "z.txt").read_text() == "changed\n"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # git removes a file before it writes it anew
        return None


def test_after_a_killed_apply_the_users_files_are_restored(repo: Repo) -> None:
    """Whatever instant an apply is killed at, applying again ends in the right tree and loses nothing."""
    for number in range(300):
        repo.write(f"many/{number}.txt", f"old {number}\n")
    repo.commit("many")
    assert repo.run("run", repo.steps("for f in many/*; do echo new > $f; done")).code == 0
    instants = [repo.path / ".reflectloop" / "tmp" / "apply.saved" / "manifest"]
    instants += [repo.path / f"many/{name}.txt" for name in (0, 5, 99)]  # in git's order: first, middle, last
    for instant in instants:
        untouched = content(instant)
        engine = start(repo.path, "apply", "--yes")
        while engine.poll() is None and content(instant) == untouched:
            time.sleep(0.0005)
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        answer = repo.run("apply", "--yes")
        assert answer.code in (0, 14), answer.stderr
        assert all((repo.path / f"many/{number}.txt").read_text() == "new\n" for number in range(300))
        repo.git("checkout", "--", ".")


def test_a_commit_that_cannot_be_made_changes_nothing(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo theirs >> src/app.py; echo n > new")).code == 0
    before = repo.state()
    for name in ("refs/heads/main.lock", "index.lock", "MERGE_HEAD"):
        (repo.path / ".git" / name).touch()
        answer = repo.run("apply", "--yes", "--commit")
        (repo.path / ".git" / name).unlink()
        assert answer.code == 34, (name, answer.stderr)
        after = repo.state()
        assert {key: after[key] for key in ("index", "refs", "head")} == {
            key: before[key] for key in ("index", "refs", "head")
        }
        assert (repo.path / "src/app.py").read_text() == "print('hello')\n", name
        assert not (repo.path / "new").exists()
    assert repo.run("apply", "--yes", "--commit", "-m", "café \udce9").code == 0


@pytest.mark.parametrize("name", ["refs/heads/main.lock", "index.lock"])
def test_apply_waits_for_another_git_that_ends_soon(repo: Repo, name: str) -> None:
    assert repo.run("run", repo.steps("echo n > new")).code == 0
    lock = repo.path / ".git" / name
    lock.touch()
    other = threading.Timer(0.5, lock.unlink)
    other.start()
    done = apply_run.apply(repo.path, None, commit=True, branch=None, message="New", agree=lambda _: True)
    other.join()
    assert done
    assert repo.git("log", "-1", "--format=%s").strip() == "New"
    assert repo.git("status", "--porcelain") == ""


def test_an_empty_branch_name_is_no_branch(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo n > new")).code == 0
    assert repo.run("apply", "--branch", "").code == 2
    assert repo.run("apply", "--branch", "main/x").code in (12, 34)
    assert not (repo.path / "new").exists()


def test_an_incomplete_apply_is_undone_first(repo: Repo) -> None:
    for number in range(400):
        repo.write(f"many/{number}.txt", f"old {number}\n")
    repo.commit("many")
    assert repo.run("run", repo.steps("for f in many/*; do echo new > $f; done")).code == 0
    manifest = repo.path / ".reflectloop" / "tmp" / "apply.saved" / "manifest"
    for _ in range(20):  # until it is killed half way, and not when all was done
        engine = start(repo.path, "apply", "--yes")
        while not manifest.exists() and engine.poll() is None:
            time.sleep(0.0005)
        engine.send_signal(signal.SIGKILL)
        engine.wait()
        if manifest.exists():
            break
        repo.git("checkout", "--", ".")
    assert "an apply was killed" in repo.run("status").stdout
    (repo.path / ".reflectloop" / "tmp" / "apply.index.lock").touch()
    answer = repo.run("run", repo.plan("plan: {title: b, steps: [{id: a, commands: ['cat many/7.txt']}]}", "b.yaml"))
    assert answer.code == 0
    assert "put back" in answer.stderr
    assert (repo.latest() / "logs" / "a.1.log").read_text() == "old 7\n"
    assert repo.git("status", "--porcelain") == ""
    assert repo.run("apply", "--yes").code == 14


def test_line_endings_by_setting_are_preserved(repo: Repo) -> None:
    repo.git("config", "core.autocrlf", "true")
    repo.write("dos.txt", "one\r\ntwo\r\n")
    repo.commit("dos")
    repo.git("checkout-index", "-f", "dos.txt")
    assert (repo.path / "dos.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert repo.run("run", repo.steps("printf 'three\\r\\n' >> dos.txt; od -c dos.txt | head -1")).code == 0
    assert repo.run("apply", "--yes", "--commit").code == 0
    assert (repo.path / "dos.txt").read_bytes() == b"one\r\ntwo\r\nthree\r\n"
    assert repo.git("show", "HEAD:dos.txt") == "one\ntwo\nthree\n"
    assert repo.git("status", "--porcelain") == ""


def test_diff_into_a_file_is_a_patch_git_can_apply(repo: Repo) -> None:
    repo.write("crlf.txt", "a\r\nb\r\n")
    repo.write("latin.txt", b"caf\xe9\n")
    repo.commit("odd bytes")
    assert repo.run("run", repo.steps("printf 'c\\r\\n' >> crlf.txt; printf 'th\\351\\n' >> latin.txt")).code == 0
    with (repo.path.parent / "x.patch").open("wb") as file:
        subprocess.run([*PROGRAM, "diff"], cwd=repo.path, stdout=file, check=True)
    subprocess.run(["git", "apply", "--check", str(repo.path.parent / "x.patch")], cwd=repo.path, check=True)


def test_a_base_that_git_collected_is_reported(repo: Repo) -> None:
    repo.write("src/app.py", "two\n")
    repo.commit("two")
    assert repo.run("run", repo.steps("echo x > a")).code == 0
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert repo.run("status").code == 0
    for words in (["diff"], ["apply", "--yes"]):
        answer = repo.run(*words)
        assert answer.code == 12
        assert "no longer has the tree" in answer.stderr


def test_a_file_replaced_by_a_folder_is_restored_too(repo: Repo) -> None:
    """The commit fails after the files were changed, so everything must come back."""
    repo.write("plain", "a file\n")
    repo.write("folder/inside", "in a folder\n")
    repo.commit("both")
    command = "rm plain; mkdir plain; echo x > plain/inside; rm -r folder; echo y > folder; chmod +x README.md"
    assert repo.run("run", repo.steps(command)).code == 0
    (repo.path / ".git" / "refs" / "heads" / "main.lock").touch()
    assert repo.run("apply", "--yes", "--commit").code == 34
    (repo.path / ".git" / "refs" / "heads" / "main.lock").unlink()
    assert repo.git("status", "--porcelain") == ""
    assert repo.run("apply", "--yes", "--commit").code == 0
    assert (repo.path / "plain" / "inside").read_text() == "x\n"


def test_each_step_can_be_a_separate_commit(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo one > one.txt", "true", "echo two > two.txt")).code == 0
    before = repo.state()
    assert repo.run("apply", "--yes", "--branch", "by-step", "--each-step").code == 0
    assert repo.state()["head"] == before["head"]
    said = repo.git("log", "--format=%s", "main..by-step").split()
    assert said == ["P-3", "P-1"]
    assert repo.git("show", "--name-only", "--format=", "by-step~1").split() == ["one.txt"]
    assert repo.git("show", "--name-only", "--format=", "by-step").split() == ["two.txt"]


def test_steps_that_ran_in_parallel_are_one_commit(repo: Repo) -> None:
    assert repo.run("run", "--jobs", "2", repo.steps("echo one > one.txt", "echo two > two.txt")).code == 0
    answer = repo.run("apply", "--yes", "--json", "--commit", "--each-step")
    assert answer.envelope["error_code"] == "INVALID_INPUT"
    assert "in parallel" in answer.envelope["message"]
