"""What a step leaves for the engine to read costs bounded time and disk, and is named where it is left out."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from boxes import without_bubblewrap
from reflectloop.errors import Locked, SandboxCreateFailed
from reflectloop.state import lock
from reflectloop.system import bubblewrap, landlock, overlay, write_guard
from reflectloop.system.git import Git
from reflectloop.system.write_guard import WriteGuard, start_write_guard
from reflectloop.workspace import traps
from reflectloop.workspace.record_tree import Unrecordable
from support import PROGRAM, Repo

ACL = """
import os, struct


def entry(tag, mode):
    return struct.pack("<HHI", tag, mode, 0xFFFFFFFF)


os.setxattr(".", "system.posix_acl_default", struct.pack("<I", 2) + entry(1, 4) + entry(4, 0) + entry(0x20, 0))
"""
needs_landlock = pytest.mark.skipif(landlock.refusal() is not None, reason="this kernel has no Landlock")


def limit(repo: Repo, text: str) -> None:
    repo.write("reflectloop.toml", f"[workspace]\n{text}\n")
    repo.commit("limits")


@needs_landlock
@pytest.mark.parametrize("name", [".gitignore", "deep/.gitattributes", "nested/.git/HEAD"])
def test_a_pipe_where_git_reads_does_not_block_an_engine_without_bubblewrap(
    repo: Repo, tmp_path: Path, name: str
) -> None:
    folder = os.path.dirname(name) or "."
    left = f"rm -f {name}; mkdir -p {folder}; mkfifo {name}"
    answer = repo.run("run", "--json", repo.steps(left), env=without_bubblewrap(tmp_path))
    assert answer.envelope["error_code"] == "STEP_FAILED", answer.stdout
    assert name in answer.envelope["message"]


def test_a_pipe_of_the_users_where_git_reads_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    os.mkfifo(tmp_path / "part" / ".gitignore")
    os.mkfifo(tmp_path / "other")
    with pytest.raises(Unrecordable, match=r"part/\.gitignore"):
        traps.refuse_traps(tmp_path)
    (tmp_path / "part" / ".gitignore").unlink()
    traps.refuse_traps(tmp_path)


def test_files_that_are_too_large_together_fail_the_step_by_name(repo: Repo) -> None:
    limit(repo, "largest_total_mb = 10")
    answer = repo.run("run", "--json", repo.steps("for i in 1 2 3; do truncate -s 4M hole$i; done"))
    assert answer.envelope["error_code"] == "STEP_FAILED"
    assert "13 MB in 3 file(s)" in answer.envelope["message"]
    assert "largest_total_mb" in answer.envelope["message"]
    assert repo.run("run", "--new", repo.steps("for i in 1 2; do truncate -s 4M hole$i; done")).code == 0


def test_moved_files_do_not_count_as_too_large(repo: Repo) -> None:
    repo.write("large.bin", bytes(3 << 20))
    limit(repo, "largest_total_mb = 1")
    assert repo.run("run", repo.steps("mv large.bin moved.bin")).code == 0


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_rules_that_git_would_try_for_hours_fail_the_step_by_name(repo: Repo, name: str) -> None:
    lines = f"seq -f '*a%g*b* text' 20002 > part/{name}"
    answer = repo.run("run", "--json", repo.steps(f"mkdir part; {lines}"))
    assert answer.envelope["error_code"] == "STEP_FAILED"
    assert f"part/{name}" in answer.envelope["message"]


def test_large_rule_files_of_the_user_are_allowed(repo: Repo) -> None:
    repo.write(".gitignore", "".join(f"/a{number}\n" for number in range(20002)))
    repo.commit("many rules")
    assert repo.run("run", repo.steps("echo x > y")).code == 0


@pytest.mark.parametrize("shielded", [True, False])
def test_a_git_call_ends_when_its_time_is_over(repo: Repo, shielded: bool) -> None:
    os.mkfifo(repo.path / ".gitattributes")
    own = repo.path / ".reflectloop"
    own.mkdir()
    shield = start_write_guard(own) if shielded else None
    try:
        git = Git(git_dir=repo.path / ".git", work_tree=repo.path, shield=shield, until=time.monotonic() + 0.5)
        with pytest.raises(TimeoutError, match="git"):
            git.run("check-attr", "text", "README.md")
    finally:
        if shield:
            shield.close()


def test_git_keeps_freed_memory_and_writes_trees_without_compression(repo: Repo, tmp_path: Path) -> None:
    git = Git(git_dir=repo.path / ".git", index_file=tmp_path / "index")
    seen = dict(line.partition("=")[::2] for line in git.line("-c", "alias.env=!env", "env").splitlines())
    assert {"MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"} <= seen.keys()
    git.run("update-index", "--add", "--cacheinfo", f"100644,{git.line('rev-parse', 'HEAD:README.md')},other")
    tree = git.line("write-tree")
    written = (repo.path / ".git" / "objects" / tree[:2] / tree[2:]).read_bytes()
    assert b"100644 other\0" in written


def test_recording_past_its_time_limit_fails_the_step_with_the_operation(repo: Repo) -> None:
    limit(repo, "record_s = 1")
    answer = repo.run("run", "--json", repo.steps("yes 'password = one two three' | head -c 150M > long.txt || true"))
    assert answer.envelope["error_code"] == "STEP_FAILED"
    assert "took more than 1 s" in answer.envelope["message"]
    assert "record_s" in answer.envelope["message"]


def test_a_secret_behind_a_hole_is_found(repo: Repo) -> None:
    token = "gh" + "p_" + "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2"
    repo.write("make.sh", f"truncate -s 5M hole; printf '\\n%s%s\\n' {token[:9]} {token[9:]} >> hole\n")
    repo.commit("a script")
    assert repo.run("run", repo.steps("sh make.sh")).code == 99


@pytest.mark.parametrize("name", [".GIT/config", "git~1/f", ".git /f"])
def test_files_that_no_patch_can_contain_are_reported(repo: Repo, name: str) -> None:
    left = f"mkdir -p '{os.path.dirname(name)}'; echo x > '{name}'; echo y > kept"
    answer = repo.run("run", "--json", repo.steps(left))
    assert answer.code == 0
    assert [text for text in answer.envelope["warnings"] if text.startswith(name)] == [
        f"{name} has a name that git keeps for itself, and is left out of the patch"
    ]


def test_an_access_list_left_on_a_workspace_does_not_reach_the_next_run(repo: Repo) -> None:
    repo.write("acl.py", ACL)
    repo.write("seen.py", "import os\nprint(os.listxattr('.'))\n")
    repo.commit("scripts")
    first = repo.run("run", repo.steps("python3 acl.py; echo x > one"))
    if "not supported" in first.stdout + first.stderr:
        pytest.skip("the file system has no access lists")
    assert first.code == 0
    answer = repo.run("run", "--new", "--json", repo.steps("python3 seen.py"))
    assert answer.code == 0, answer.stdout
    (log,) = (repo.latest() / "logs").glob("*.log")
    assert "posix_acl" not in log.read_text()


def test_a_file_system_without_locks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(_: int, __: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(Locked, match="no locks available"), lock.hold_lock(tmp_path, "test"):
        pass


def test_attributes_that_point_to_a_pipe_do_not_block_a_run(repo: Repo) -> None:
    os.mkfifo(repo.path.parent / "pipe")
    (repo.path / ".gitattributes").symlink_to("../pipe")
    repo.commit("a link")
    assert repo.run("run", repo.steps("echo x > y")).code == 0


def drop(repo: Repo, name: str) -> None:
    """Take an object out of the repository, as a broken disk does."""
    found = repo.git("rev-parse", name).strip()
    (repo.path / ".git" / "objects" / found[:2] / found[2:]).unlink()


@pytest.mark.parametrize(("name", "code"), [("HEAD^{tree}", 20), ("v1", 20), ("HEAD", 16)])
def test_a_repository_with_a_missing_object_is_refused_with_the_next_command(repo: Repo, name: str, code: int) -> None:
    repo.git("tag", "-a", "v1", "-m", "one")
    repo.git("tag", "-a", "v2", "v1", "-m", "two")
    drop(repo, name)
    answer = repo.run("run", "--json", repo.steps("true"))
    assert answer.code == code, answer.stdout
    assert answer.envelope["next"] == "git fsck"


@pytest.fixture
def powerless() -> list[str]:
    """What to put before a command for which modes count, as they do for everybody but root."""
    wrapper = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if wrapper and subprocess.run([*wrapper, "true"], check=False).returncode:
        pytest.skip("root may do everything, and this machine does not let it give that up (setpriv)")
    return wrapper


def run_by(wrapper: list[str], repo: Repo, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*wrapper, *PROGRAM, *words], cwd=repo.path, capture_output=True, text=True, check=False)


def test_a_step_that_makes_the_workspace_unreadable_fails(repo: Repo, powerless: list[str]) -> None:
    done = run_by(powerless, repo, "run", "--json", repo.steps("chmod 000 ."))
    assert done.returncode == 30, done.stdout + done.stderr
    assert "left the workspace unreadable" in done.stdout


def test_apply_reports_that_our_folder_is_not_writable(repo: Repo, powerless: list[str]) -> None:
    assert run_by(powerless, repo, "run", repo.steps("echo x > y")).returncode == 0
    own = repo.path / ".reflectloop"
    own.chmod(0o555)
    try:
        done = run_by(powerless, repo, "apply", "--yes")
    finally:
        own.chmod(0o755)
    assert done.returncode == 52, done.stderr
    assert ".reflectloop" in done.stderr


@pytest.mark.parametrize("damaged", ["index", "tree"])
@pytest.mark.parametrize("command", ["run", "verify"])
def test_a_damaged_repository_is_refused_with_the_command_to_inspect_it(repo: Repo, damaged: str, command: str) -> None:
    plan = [repo.steps("echo x > n")] if command == "run" else []
    if damaged == "index":
        (repo.path / ".git" / "index").write_bytes(bytes(range(256)) * 4)
    else:
        drop(repo, "HEAD^{tree}")
    answer = repo.run(command, "--json", *plan)
    assert (answer.code, answer.envelope["next"]) == (20, "git fsck"), answer.stdout
    assert "git cannot read the repository" in answer.envelope["message"]


def test_the_write_guard_answers_after_the_thread_that_first_used_it_has_ended(repo: Repo) -> None:
    own = repo.path / ".reflectloop"
    own.mkdir()
    guard = start_write_guard(own)
    if guard is None:
        pytest.skip("no bubblewrap")
    assert not list(own.iterdir())  # nothing is started before the first call
    with guard:
        git = Git(git_dir=repo.path / ".git", shield=guard)
        answers: list[str] = []
        thread = threading.Thread(target=lambda: answers.append(git.line("rev-parse", "HEAD")))
        thread.start()
        thread.join()
        assert answers == [git.line("rev-parse", "HEAD")]


def test_no_answer_of_the_guarded_shell_is_taken_for_another_however_slowly_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "is_used", lambda: True)
    monkeypatch.setattr(write_guard, "_PATIENCE_S", 0.01)  # a start takes several times as long
    slow = ["sh", "-c", 'sleep 0.3; exec "$@"', "sh"]
    monkeypatch.setattr(bubblewrap, "read_only_but", lambda _: slow)
    with WriteGuard(tmp_path) as guard:
        codes = [guard.capture([word], cwd=None, env={}, stdin=b"").code for word in ("false", "true", "false")]
    assert codes == [1, 0, 1]


def test_a_guarded_shell_that_does_not_start_is_an_error_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "is_used", lambda: True)
    monkeypatch.setattr(bubblewrap, "read_only_but", lambda _: ["false"])
    with WriteGuard(tmp_path) as guard:
        for _ in range(2):
            with pytest.raises(SandboxCreateFailed, match="did not start"):
                guard.capture(["true"], cwd=None, env={}, stdin=b"")
