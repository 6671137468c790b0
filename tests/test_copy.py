"""Copy mode: any folder, an exact patch, and nothing that was left out taken for deleted."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import PROGRAM, Answer, Repo


@pytest.fixture
def folder(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "plain")
    made.write("a.txt", "a\n")
    made.write("sub/b.txt", "b\n")
    made.write("node_modules/x/index.js", "x\n")
    made.write("tool.exe", "binary\n")
    made.write(".gitignore", "a.txt\n")
    return made


def test_a_folder_without_git_runs_and_applies(folder: Repo) -> None:
    plan = folder.steps(
        "find . -type f -not -path './.git/*' -not -path './node_modules/*' | sort; cat node_modules/x/index.js; "
        "! touch node_modules/x/y; echo more >> a.txt; rm sub/b.txt; printf '\\0\\1' > new.bin; ln -s a.txt link"
    )
    answer = folder.run("run", "--json", plan)
    assert answer.code == 0, answer.stdout
    assert answer.envelope["sandbox_mode"] == "copy"
    log = (folder.latest() / "logs" / "P-1.1.log").read_text()
    assert log.split()[:4] == ["./.gitignore", "./a.txt", "./sub/b.txt", "x"]
    touched = [change["path"] for change in answer.json["data"]["touched_files"]]
    assert touched == ["a.txt", "link", "new.bin", "sub/b.txt"]
    patch = folder.latest() / "changes.patch"
    subprocess.run(["git", "apply", "--check", str(patch)], cwd=folder.path, check=True)
    assert folder.run("apply", "--yes").code == 0
    assert (folder.path / "a.txt").read_text() == "a\nmore\n"
    assert not (folder.path / "sub/b.txt").exists()
    assert (folder.path / "link").is_symlink()
    assert (folder.path / "node_modules/x/index.js").exists()
    assert (folder.path / "tool.exe").exists()
    assert folder.run("apply", "--commit", "--yes").code == 12


def test_a_conflict_in_a_folder_without_git_does_not_mention_commits(folder: Repo) -> None:
    assert folder.run("run", folder.steps("echo mine > a.txt")).code == 0
    folder.write("a.txt", "yours\n")
    answer = folder.run("apply", "--json")
    assert answer.code == 34
    assert answer.envelope["next"] == (
        "run the plan again, which begins with your files as they are; or undo your changes to them"
    )
    assert (folder.path / "a.txt").read_text() == "yours\n"


def test_a_second_run_reads_only_what_changed_and_reads_it_right(folder: Repo) -> None:
    assert folder.run("run", folder.steps("cat a.txt")).code == 0
    folder.write("a.txt", "z\n")
    (folder.path / "sub/b.txt").unlink()
    folder.write("c.txt", "c\n")
    assert folder.run("run", folder.steps("cat a.txt c.txt; test ! -e sub/b.txt")).code == 0
    assert (folder.latest() / "logs" / "P-1.1.log").read_text() == "z\nc\n"


def test_copy_mode_can_be_asked_for_in_a_repository(repo: Repo) -> None:
    repo.write(".gitignore", "kept.txt\n")
    repo.write("kept.txt", "kept\n")
    before = repo.state()
    answer = repo.run("run", "--json", "--mode", "copy", repo.steps("cat kept.txt; echo x > kept.txt"))
    assert answer.code == 0, answer.stdout
    assert answer.envelope["sandbox_mode"] == "copy"
    assert repo.state() == before
    assert repo.run("apply", "--yes").code == 0
    assert (repo.path / "kept.txt").read_text() == "x\n"
    assert (
        repo.run("run", "--json", "--mode", "worktree", repo.steps("test ! -e kept.txt")).envelope["sandbox_mode"]
        == "git"
    )


def test_a_repository_without_commits_can_be_copied(tmp_path: Path) -> None:
    made = Repo(tmp_path / "fresh")
    made.path.mkdir()
    made.git("init", "-q")
    made.write("a", "a\n")
    assert made.run("run", made.steps("cat a")).code == 16
    assert made.run("run", "--mode", "copy", made.steps("cat a")).code == 0


def test_special_files_are_reported_and_left_out(folder: Repo) -> None:
    os.mkfifo(folder.path / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(folder.path)
        try:
            one.bind("sock")
        finally:
            os.chdir(here)
    (folder.path / "loop").symlink_to("loop")
    (folder.path / "up").symlink_to("..")
    answer = folder.run("run", folder.steps("ls; echo x > made"))
    assert answer.code == 0, answer.stderr
    assert "pipe, sock" in answer.stderr
    assert folder.run("apply", "--yes").code == 0
    assert (folder.path / "pipe").is_fifo()
    assert (folder.path / "loop").is_symlink()


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("device files can be made by root only, and not in every container")


def test_device_files_are_reported_and_left_out(folder: Repo) -> None:
    _device(folder.path / "null")
    _device(folder.path / "sub" / "null")
    answer = folder.run("run", "--json", folder.steps("test ! -e null; test ! -e sub/null; echo x > made"))
    assert answer.code == 0, answer.stdout
    assert "left out because they are not files: null, sub/null" in answer.envelope["warnings"]
    assert [change["path"] for change in answer.json["data"]["touched_files"]] == ["made"]
    assert folder.run("apply", "--yes").code == 0
    assert (folder.path / "null").is_char_device()
    assert (folder.path / "sub" / "null").is_char_device()


def _as_one_who_may_not_read(folder: Repo, *words: str | Path) -> Answer:
    """The program without root's right to read everything; the modes of files then hold for it as for anybody."""
    wrapper = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if wrapper and subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode:
        pytest.skip("root reads everything, and this machine does not let it give that up (setpriv)")
    done = subprocess.run(
        [*wrapper, *PROGRAM, *(str(word) for word in words)], cwd=folder.path, capture_output=True, check=False
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def closed(folder: Repo) -> Iterator[Repo]:
    """A folder with a file and a folder that nobody may read."""
    folder.write("secret.txt", "s\n").chmod(0)
    folder.write("vault/inside.txt", "i\n").parent.chmod(0)
    yield folder
    (folder.path / "vault").chmod(0o700)


def test_parts_that_cannot_be_read_are_all_named_and_nothing_is_run(closed: Repo) -> None:
    answer = _as_one_who_may_not_read(closed, "run", "--json", closed.steps("echo x > made"))
    assert answer.code == 20, answer.stdout
    assert answer.envelope["error_code"] == "SANDBOX_CREATE_FAILED"
    assert answer.envelope["missing_inputs"] == ["vault/", "secret.txt"]
    assert "'vault/' (not readable), 'secret.txt' (not readable)" in answer.envelope["message"]
    assert answer.envelope["next"] == (
        "make it readable (chmod u+rX) or list it in [workspace] exclude in reflectloop.toml"
    )
    assert not (closed.latest() / "logs" / "P-1.1.log").exists()
    assert closed.workspaces() == []


def test_parts_that_cannot_be_read_can_be_left_out_and_stay(closed: Repo) -> None:
    closed.write("reflectloop.toml", '[workspace]\nexclude = ["secret.txt", "vault/"]\n')
    answer = _as_one_who_may_not_read(closed, "run", "--json", closed.steps("ls; echo x > made"))
    assert answer.code == 0, answer.stdout
    assert [change["path"] for change in answer.json["data"]["touched_files"]] == ["made"]
    assert _as_one_who_may_not_read(closed, "apply", "--yes").code == 0
    assert (closed.path / "made").read_text() == "x\n"
    assert stat.S_IMODE((closed.path / "secret.txt").stat().st_mode) == 0
    assert stat.S_IMODE((closed.path / "vault").stat().st_mode) == 0


def test_an_unreadable_folder_that_is_always_excluded_is_ignored(folder: Repo) -> None:
    (folder.path / "node_modules").chmod(0)
    try:
        answer = _as_one_who_may_not_read(folder, "run", "--json", folder.steps("echo x > made"))
    finally:
        (folder.path / "node_modules").chmod(0o700)
    assert answer.code == 0, answer.stdout
    assert (folder.path / "node_modules/x/index.js").exists()


def test_more_can_be_left_out_by_settings(folder: Repo) -> None:
    folder.write("reflectloop.toml", '[workspace]\ncarry = []\nexclude = ["*.log", "/data/"]\n')
    folder.write("x.log", "x\n")
    folder.write("data/big", "x\n")
    assert folder.run("run", folder.steps("ls")).code == 0
    assert (folder.latest() / "logs" / "P-1.1.log").read_text().split() == ["a.txt", "reflectloop.toml", "sub"]


@pytest.mark.parametrize("place", ["/", "HOME"])
def test_a_home_or_system_folder_is_not_copied(place: str, tmp_path: Path) -> None:
    where = Path(os.environ["HOME"]) if place == "HOME" else Path(place)
    made = Repo(tmp_path / "x")
    made.path.mkdir()
    answer = made.run("run", "--json", "--project", str(where), made.steps("true"))
    assert answer.code == 16
    assert "copying all of it is refused" in answer.envelope["message"]


def test_carried_folders_can_be_read_and_not_written(repo: Repo) -> None:
    repo.write(".gitignore", "deps/\n")
    repo.write("deps/lib.txt", "lib\n")
    repo.write("cache/warm.txt", "warm\n")
    repo.write("reflectloop.toml", '[workspace]\ncarry = ["deps"]\ncarry_copy = ["cache"]\n')
    before = repo.state()
    plan = repo.steps(
        "cat deps/lib.txt cache/warm.txt; ! echo x > deps/lib.txt; echo x > cache/warm.txt; echo y > made"
    )
    for _ in range(2):
        answer = repo.run("run", "--json", "--new", plan)
        assert answer.code == 0, answer.stdout
        assert (repo.latest() / "logs" / "P-1.1.log").read_text().startswith("lib\nwarm\n")
        assert [change["path"] for change in answer.json["data"]["touched_files"]] == ["made"]
    assert repo.state() == before


@pytest.mark.parametrize("name", ["../x", "/etc", ".git"])
def test_only_folders_of_the_project_are_carried(repo: Repo, name: str) -> None:
    repo.write("reflectloop.toml", f'[workspace]\ncarry = ["{name}"]\n')
    assert repo.run("run", repo.steps("true")).code == 12
    assert repo.workspaces() == []
