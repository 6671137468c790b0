"""Repositories and disks as they come: an answer with a code and a next command, nothing lost, nothing left behind."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reflectloop.errors import NoSpace
from reflectloop.system.git import GitFailed, room_left
from support import PROGRAM, Answer, Repo, reflectloop

ROOT = os.geteuid() == 0


def ran_well(repo: Repo, *commands: str) -> Answer:
    before = repo.state()
    answer = repo.run("run", repo.steps(*commands))
    assert answer.code == 0, answer.stderr
    assert repo.state() == before
    return answer


def log(repo: Repo) -> str:
    return (repo.latest() / "logs" / "P-1.1.log").read_text()


def test_names_with_line_breaks_and_bytes_that_are_no_text_travel_both_ways(repo: Repo) -> None:
    odd = [b"line\nbreak", b"not-utf8-\xff\xfe", b"tab\there", b' quote"s ', b"-dash", b"back\\slash", "größe".encode()]
    for name in odd:
        (Path(os.fsdecode(os.fsencode(repo.path) + b"/" + name))).write_bytes(b"old\n")
    repo.commit("odd names")
    for name in odd[:3]:
        (Path(os.fsdecode(os.fsencode(repo.path) + b"/" + name))).write_bytes(b"dirty\n")
    ran_well(repo, 'for f in *; do [ -f "$f" ] && echo new >> "./$f"; done; cp ./-dash $\'copy\\n\\xff\'')
    assert repo.run("diff", "--stat").code == 0
    shown = repo.run("diff", "--stat", "--json").json["data"]["touched_files"]
    assert "not-utf8-\\xff\\xfe" in [entry["path"] for entry in shown]
    assert repo.run("apply", "--yes").code == 0
    assert Path(os.fsdecode(os.fsencode(repo.path) + b"/not-utf8-\xff\xfe")).read_bytes() == b"dirty\nnew\n"
    assert Path(os.fsdecode(os.fsencode(repo.path) + b"/copy\n\xff")).read_bytes() == b"old\nnew\n"


def with_submodule(repo: Repo, tmp_path: Path) -> None:
    lib = Repo(tmp_path / "lib")
    lib.path.mkdir()
    lib.git("init", "-q")
    lib.write("f", "x\n")
    lib.commit("lib")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(lib.path), "vendored")
    repo.commit("submodule")


def test_a_change_inside_a_submodule_is_named_with_the_command_that_judges_it(repo: Repo, tmp_path: Path) -> None:
    with_submodule(repo, tmp_path)
    assert "there is no change to verify" in repo.run("verify").stderr
    (repo.path / "vendored" / "f").write_text("y\n")
    answer = repo.run("verify")
    assert answer.code == 14
    assert "only files in the submodule vendored are changed" in answer.stderr
    assert "next: reflectloop verify --project vendored" in answer.stderr


def test_a_submodule_is_taken_as_a_pointer_and_said_so(repo: Repo, tmp_path: Path) -> None:
    with_submodule(repo, tmp_path)
    answer = ran_well(repo, "echo x > a; ls -A vendored")
    assert "submodule vendored" in answer.stderr
    patch = (repo.latest() / "changes.patch").read_text()
    assert "vendored" not in patch
    assert repo.run("apply", "--yes").code == 0
    assert repo.git("status", "--porcelain").split() == ["??", "a"]


def test_a_repository_inside_the_repository_is_left_out_and_said_so(repo: Repo) -> None:
    inner = Repo(repo.path / "inner")
    inner.path.mkdir()
    inner.git("init", "-q")
    answer = ran_well(repo, "ls -A")
    assert "inner is a git repository of its own" in answer.stderr
    inner.write("f", "x\n")
    inner.commit("one")
    answer = ran_well(repo, "ls -A; echo x > a")
    assert "inner" not in log(repo).split()
    assert repo.run("apply", "--yes").code == 0
    assert (inner.path / "f").exists()


def test_a_linked_worktree_is_a_project_like_any_other(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = Repo(tmp_path / "side")
    side.write("src/app.py", "dirty\n")
    answer = side.run("run", side.steps("cat src/app.py; git branch --show-current; echo x > a"))
    assert answer.code == 0, answer.stderr
    assert log(side) == "dirty\nside\n"
    assert side.run("apply", "--yes", "--commit").code == 0
    assert side.git("status", "--porcelain").splitlines() == [" M src/app.py"]
    assert repo.git("log", "--oneline", "side", "--", "a")


def test_a_shallow_clone_works(repo: Repo, tmp_path: Path) -> None:
    for number in range(3):
        repo.write("n", str(number))
        repo.commit(str(number))
    repo.git("clone", "-q", "--depth", "1", f"file://{repo.path}", str(tmp_path / "shallow"))
    shallow = Repo(tmp_path / "shallow")
    answer = shallow.run("run", shallow.steps("git log --oneline | wc -l; git fsck; echo x > a"))
    assert answer.code == 0, answer.stderr
    assert log(shallow).split()[0] == "1"
    assert shallow.run("apply", "--yes").code == 0


def test_a_split_index_a_conflict_and_an_intent_to_add_are_read_right(repo: Repo) -> None:
    repo.git("update-index", "--split-index")
    repo.write("later.txt", "later\n")
    repo.git("add", "-N", "later.txt")
    ran_well(repo, "cat later.txt src/app.py")
    assert log(repo) == "later\nprint('hello')\n"


def test_an_unfinished_merge_is_taken_as_it_stands(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "other")
    repo.write("src/app.py", "theirs\n")
    repo.commit("theirs")
    repo.git("checkout", "-q", "main")
    repo.write("src/app.py", "ours\n")
    repo.commit("ours")
    with pytest.raises(subprocess.CalledProcessError):
        repo.git("merge", "-q", "other")
    ran_well(repo, "cat src/app.py")
    assert "<<<<<<<" in log(repo)


def test_a_sha256_repository_works(repo: Repo, tmp_path: Path) -> None:
    other = Repo(tmp_path / "sha256")
    repo.git("init", "-q", "--object-format=sha256", "-b", "main", str(other.path))
    other.write("a", "a\n")
    other.commit("one")
    answer = other.run("run", other.steps("git log --oneline; echo b > b"))
    assert answer.code == 0, answer.stderr
    assert other.run("apply", "--yes").code == 0


@pytest.mark.parametrize("named", [None, "~/rules", "%(prefix)/no-such-rules", ""])
def test_what_git_ignores_anywhere_stays_at_home(repo: Repo, named: str | None) -> None:
    """In the tree, in .git/info/exclude and in the user's own ignore file."""
    config = Path(os.environ["HOME"]) / ".config" / "git"
    config.mkdir(parents=True)
    (config / "ignore").write_text("*.wide\n" if named is None else "*.kept\n")
    if named is not None:
        (Path(os.environ["HOME"]) / "rules").write_text("*.wide\n")
        repo.git("config", "core.excludesFile", named)
    (repo.path / ".git" / "info" / "exclude").write_text("*.local\n")
    repo.write(".gitignore", "*.tree\n")
    for name in ("a.wide", "a.local", "a.tree", "a.kept"):
        repo.write(name, "x\n")
    ran_well(repo, "ls")
    seen = [name for name in log(repo).split() if name.startswith("a.")]
    assert seen == (["a.kept"] if named in (None, "~/rules") else ["a.kept", "a.wide"])


@pytest.mark.parametrize(
    "form", ["--index-version=2", "--index-version=3", "--index-version=4", "--split-index", "--no-split-index"]
)
def test_our_own_and_the_agents_folders_never_enter_a_workspace_even_when_tracked(repo: Repo, form: str) -> None:
    """However the index has their names: version 4 shares beginnings, a split one has them in another file."""
    for name in (".claude/state/x", ".claude/private/key", ".claude/settings.json"):
        repo.write(name, "x\n")
    repo.commit("agent files")
    repo.git("update-index", form)
    ran_well(repo, "find .claude -type f; mkdir -p .claude/state; echo y > .claude/state/y; echo z > z")
    assert log(repo) == ".claude/settings.json\n"
    assert ".claude" not in (repo.latest() / "changes.patch").read_text()
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / ".claude/private/key").exists()


def test_filtered_files_are_taken_as_they_stand(repo: Repo) -> None:
    """A large-file store keeps pointers in git; tests need the content."""
    repo.git("config", "filter.ptr.clean", "sed s/.*/pointer/")
    repo.git("config", "filter.ptr.smudge", "sed s/.*/content/")
    repo.write(".gitattributes", "*.big filter=ptr\n")
    repo.write("model.big", "content\n")
    repo.commit("large")
    assert repo.git("show", "HEAD:model.big") == "pointer\n"
    ran_well(repo, "cat model.big; echo x > a")
    assert log(repo) == "content\n"
    assert "model.big" not in (repo.latest() / "changes.patch").read_text()


def test_line_endings_by_attribute_come_and_go_unharmed(repo: Repo) -> None:
    repo.write(".gitattributes", "*.bat text eol=crlf\n")
    repo.write("run.bat", "one\r\ntwo\r\n")
    repo.commit("windows")
    ran_well(repo, "cat run.bat | od -c | head -1; printf 'three\\r\\n' >> run.bat")
    assert "\\r" in log(repo)
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / "run.bat").read_bytes() == b"one\r\ntwo\r\nthree\r\n"


def test_an_empty_directory_and_a_deep_one_are_no_trouble(repo: Repo) -> None:
    deep = "/".join(["d" * 50] * 20)
    ran_well(repo, f"mkdir -p empty {deep} && echo x > {deep}/f")
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / deep / "f").exists()


@pytest.mark.parametrize("place", ["not-a-repository", "project/.git", "missing"])
def test_a_place_that_is_no_project_is_refused_with_what_to_do(repo: Repo, place: str) -> None:
    (repo.path.parent / "not-a-repository").mkdir()
    answer = repo.run("run", "--json", "--mode", "git", "--project", repo.path.parent / place)
    assert answer.code in (12, 16)
    assert answer.envelope["next"]


PLANS = {
    "empty": b"",
    "comment only": b"# nothing\n",
    "binary": bytes(range(256)) * 10,
    "large": b"plan: [" + b"x, " * 17_000_000,
    "a list": b"- a\n- b\n",
    "a number": b"42",
    "deep": b"plan: " + b"[" * 50_000,
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_is_none_is_refused(name: str, repo: Repo) -> None:
    path = repo.path.parent / "plan.yaml"
    path.write_bytes(PLANS[name])
    answer = repo.run("run", "--json", path)
    assert answer.code == 11
    assert answer.envelope["faults"]
    assert repo.workspaces() == []


def test_a_secret_in_the_plan_is_shown_nowhere(repo: Repo) -> None:
    key = "tvly-" + "A1b2C3d4E5f6G7h8"
    plan = repo.plan(
        f"plan:\n  title: T\n  steps:\n    - {{id: a, commands: ['curl -H key:{key}'], cwd: '{key}/../..'}}\n"
    )
    answer = repo.run("run", "--json", plan)
    assert answer.code == 99
    assert answer.envelope["faults"][0]["line"] == 4
    everything = (
        answer.stdout
        + answer.stderr
        + "".join(path.read_text() for path in (repo.path / ".reflectloop").rglob("*") if path.is_file())
    )
    assert key not in everything


@contextmanager
def mounted(path: Path, *options: str) -> Iterator[Path]:
    path.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, str(path)], check=True, capture_output=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


needs_root = pytest.mark.skipif(not ROOT, reason="mounting a small or read-only file system takes root")


@needs_root
def test_a_disk_that_fills_while_the_workspace_is_made(repo: Repo, tmp_path: Path) -> None:
    repo.write("large.bin", random.Random(1).randbytes(3_000_000))
    repo.commit("large")
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as small:
        answer = repo.run("run", "--json", "--sandbox-root", small / "r", repo.steps("true"))
        assert answer.code == 52
        assert answer.envelope["next"]
        assert not list((small / "r").glob("RLOP-*"))
    assert repo.run("run", repo.steps("true")).code == 0


@needs_root
def test_a_disk_that_fills_while_a_step_runs_is_the_steps_failure(repo: Repo, tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=2m", "tmpfs") as small:
        answer = repo.run("run", "--json", "--sandbox-root", small / "r", repo.steps("head -c 5000000 /dev/zero > big"))
        assert answer.code == 30
        assert repo.run("gc", "--all").code == 0


@needs_root
def test_a_project_on_a_full_disk_answers_with_no_space_and_recovers(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=4m", "tmpfs") as small:
        repo = Repo(small / "project")
        repo.path.mkdir()
        repo.git("init", "-q")
        repo.write("a", "a\n")
        repo.commit("one")
        assert repo.run("run", repo.steps("true")).code == 0
        (repo.path / ".git" / "info" / "exclude").write_text("filler\n")
        free = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize
        repo.write("filler", b"x" * free)
        answer = repo.run("run", "--json", repo.steps("echo x > b"))
        assert answer.code == 52, answer.stdout
        assert answer.envelope["error_code"] == "NO_SPACE"
        (repo.path / "filler").unlink()
        assert repo.run("run", repo.steps("echo x > b")).code == 0
        assert repo.run("apply", "--yes").code == 0


@needs_root
def test_a_read_only_project_is_refused_before_anything_runs(repo: Repo) -> None:
    with mounted(repo.path, "--bind", str(repo.path)):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(repo.path)], check=True)
        answer = repo.run("run", "--json", repo.steps("touch /tmp/never"))
        assert answer.code == 52
        assert "read-only" in answer.envelope["message"]
        assert repo.run("status").code == 0
    assert repo.workspaces() == []


@needs_root
def test_unreadable_files_are_named_to_an_ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Root reads everything, so this one is played as nobody."""
    stage = Path("/var/tmp") / f"reflectloop-test-{os.getpid()}"
    stage.mkdir()
    try:
        repo = Repo(stage / "project")
        repo.path.mkdir()
        repo.git("init", "-q")
        repo.write("a", "a\n")
        repo.write("folder/b", "b\n")
        repo.commit("one")
        plan = repo.steps("true")
        subprocess.run(["chown", "-R", "nobody", str(stage)], check=True)
        (repo.path / "a").chmod(0)
        answer = _as_nobody(repo.path, stage, "run", "--json", str(plan))
        if answer is None:
            pytest.skip("an ordinary user cannot start this Python")
        (repo.path / "a").chmod(0o644)
        (repo.path / "a").write_text("dirty\n")
        (repo.path / "folder").chmod(0)
        hidden = _as_nobody(repo.path, stage, "run", "--json", str(plan))
        assert hidden is not None
        assert hidden.code == 20
        assert "folder/" in hidden.envelope["message"]
        (repo.path / "folder").chmod(0o755)
        fine = _as_nobody(repo.path, stage, "run", "--json", str(plan))
        assert fine is not None
        assert fine.code == 0, fine.stdout
    finally:
        subprocess.run(["rm", "-rf", str(stage)], check=True)
    del tmp_path_factory


def _as_nobody(cwd: Path, stage: Path, *words: str) -> Answer | None:
    env = {"PATH": os.environ["PATH"], "HOME": str(stage), "TMPDIR": str(stage)}
    probe = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *PROGRAM, "--version"],
        cwd=cwd,
        env=env,
        capture_output=True,
        check=False,
    )
    if probe.returncode:
        return None
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *PROGRAM, *words],
        cwd=cwd,
        env=env,
        capture_output=True,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_sandbox_root_inside_the_project_is_refused(repo: Repo) -> None:
    answer = repo.run("run", "--json", "--sandbox-root", repo.path / "inside", repo.steps("true"))
    assert answer.code == 20
    assert "inside the project" in answer.envelope["message"]


def test_a_temp_folder_of_somebody_elses_is_not_used(repo: Repo, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (Path(os.environ["TMPDIR"]) / "reflectloop").symlink_to(target)
    answer = repo.run("run", "--json", repo.steps("true"))
    assert answer.code == 52
    assert list(target.iterdir()) == []


def test_settings_with_faults_are_refused_with_the_line(repo: Repo) -> None:
    repo.write("reflectloop.toml", "[run]\ngrace_s = 1\n\n[workspase]\nkeep_failed = 1\n")
    answer = repo.run("config", "--json")
    assert answer.code == 12
    assert answer.envelope["faults"][0]["line"] == 4
    assert "did you mean 'workspace'" in answer.envelope["faults"][0]["message"]
    repo.write("reflectloop.toml", "[run\n")
    assert repo.run("config").code == 12


def test_git_variables_of_the_caller_do_not_lead_astray(repo: Repo, tmp_path: Path) -> None:
    """A hook runs with GIT_DIR and GIT_INDEX_FILE set."""
    other = Repo(tmp_path / "other")
    repo.git("init", "-q", str(other.path))
    env = {"GIT_DIR": str(other.path / ".git"), "GIT_INDEX_FILE": str(tmp_path / "x"), "GIT_WORK_TREE": str(tmp_path)}
    answer = reflectloop(repo.path, "run", str(repo.steps("cat src/app.py")), env=env)
    assert answer.code == 0, answer.stderr
    assert not (tmp_path / "x").exists()


@needs_root
def test_a_full_disk_is_told_as_such_though_git_says_nothing_of_it(tmp_path: Path) -> None:
    said = GitFailed(["write-tree"], 128, b"")
    small = mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=32k", "tmpfs")
    with small as disk, pytest.raises(NoSpace, match="the disk is full"), room_left(disk):
        raise said
    with pytest.raises(GitFailed), room_left(tmp_path):
        raise said
