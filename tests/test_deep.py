"""Folders deeper than a path can name or a stack can hold: what a command makes, the engine can walk and remove."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reflectloop.system import files, write_guard
from reflectloop.workspace import record_tree, traps, workspace_registry
from support import Repo, wait_until

KEY = "sk-" + "q1w2e3r4t5y6u7i8o9p0"
DIG = (
    """python3 -c 'import os, sys\nfor top in sys.argv[1:]:\n os.makedirs(top, exist_ok=True); os.chdir(top)\n"""
    """ for _ in range(1400): os.mkdir("ddd"); os.chdir("ddd")\n open("end", "w").close()' """
)
EVERYWHERE = DIG + '"$PWD/build" "$HOME/build" /tmp/build'


@pytest.fixture(autouse=True)
def _cleared(tmp_path: Path) -> Iterator[None]:
    """pytest's own clean-up cannot go as deep."""
    yield
    subprocess.run(["rm", "-rf", *map(str, tmp_path.iterdir())], check=True)


@pytest.fixture
def ignoring(repo: Repo) -> Repo:
    repo.write(".gitignore", "build/\n")
    repo.commit("ignore what is built")
    return repo


def dig(top: Path, depth: int, name: str = "d") -> None:
    fd = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.write(end := os.open("end", os.O_WRONLY, dir_fd=fd), b"x" * 5000)
    os.close(end)
    os.close(fd)


def everything_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith("layers-")] if folder.exists() else []


def temp() -> Path:
    return Path(os.environ["TMPDIR"]) / "reflectloop"


def test_a_leak_behind_deep_folders_is_still_a_leak_and_leaves_nothing(ignoring: Repo) -> None:
    answer = ignoring.run("run", "--json", ignoring.steps(f"{EVERYWHERE}; echo key = {KEY} | tee build/kept"))
    assert answer.code == 99, answer.stderr
    assert answer.envelope["error_code"] == "SECRET_LEAK"
    assert answer.envelope["warnings"] == []
    assert everything_in(temp()) == []
    assert everything_in(ignoring.path / ".reflectloop" / "workspaces") == []


def test_deep_folders_of_one_run_do_not_trouble_the_next(ignoring: Repo) -> None:
    assert ignoring.run("run", ignoring.steps(EVERYWHERE)).code == 0
    assert ignoring.run("status").code == 0
    honest = ignoring.run("run", "--json", ignoring.steps("test ! -e build && touch a"))
    assert honest.code == 0, honest.stdout
    assert honest.envelope["warnings"] == []


def test_deep_folders_are_counted_and_cleared_away(ignoring: Repo) -> None:
    assert ignoring.run("run", ignoring.steps(f"{EVERYWHERE}; false")).code == 30
    assert ignoring.run("status").code == 0
    assert ignoring.run("gc").code == 0
    assert ignoring.run("gc", "--all").code == 0
    assert wait_until(lambda: everything_in(temp()) == [], timeout_s=60)


def test_deep_folders_that_would_be_recorded_are_the_fault_of_the_step(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.steps(DIG + '"$PWD/src/build"'))
    assert answer.code == 30, answer.stdout
    assert "cannot record" in answer.envelope["message"]
    assert repo.run("run", repo.steps("touch a")).code == 0


def test_deep_folders_of_one_step_do_not_trouble_the_next_batch(ignoring: Repo) -> None:
    plan = ignoring.plan(
        """
        plan:
          title: T
          track: direct
          jobs: 2
          steps:
            - {id: a, commands: ["sh dig"]}
            - {id: b, commands: ["test ! -e build && touch b"], depends_on: [a]}
        """
    )
    ignoring.write("dig", EVERYWHERE)
    ignoring.commit("a shovel")
    answer = ignoring.run("run", "--json", plan)
    assert answer.code == 0, answer.stdout
    assert answer.envelope["warnings"] == []


def test_deep_folders_in_place_of_a_file_do_not_stop_the_step_after_a_failed_one(ignoring: Repo) -> None:
    ignoring.write("dig", f"rm README.md; {DIG} README.md; echo README.md >> .git/info/exclude; false")
    ignoring.commit("a shovel")
    answer = ignoring.run("run", "--json", "--keep-going", ignoring.steps("sh dig", "cat README.md"))
    assert answer.code == 30, answer.stdout
    assert "P-1" in answer.envelope["message"]
    assert answer.json["envelope"]["error_code"] == "STEP_FAILED"


def test_a_secret_in_a_file_that_only_git_can_name_is_found_before_it_is_stored(repo: Repo) -> None:
    """From the top of the workspace its path is short enough; from the root of the machine it is not."""
    hide = f"""python3 -c 'import os\nfor _ in range(15): os.mkdir("n" * 250); os.chdir("n" * 250)\nos.mkdir("m" * 240); os.chdir("m" * 240)\nopen("f" * 80, "w").write("key = {KEY[:5]}" + "{KEY[5:]}")'"""
    answer = repo.run("run", "--json", repo.steps(hide, "true"))
    assert answer.code == 99, answer.stdout
    assert [path.name for path in (repo.latest() / "logs").iterdir()] == ["P-1.1.log"]  # not only in the patch, later
    assert everything_in(temp()) == []


def test_deep_reflogs_do_not_stop_a_run(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.steps(DIG + '"$PWD/.git/logs"'))
    assert answer.code == 0, answer.stdout


@pytest.mark.parametrize(("depth", "name"), [(3_000, "d"), (300, "n" * 250)])
def test_every_walk_goes_to_the_bottom_and_holds_few_descriptors(tmp_path: Path, depth: int, name: str) -> None:
    top = tmp_path / "top"
    top.mkdir()
    before = record_tree.time_mark(tmp_path)
    dig(top, depth, name)
    held = len(os.listdir("/proc/self/fd"))
    assert record_tree.changed_since(top, before)
    assert not record_tree.changed_since(top, before + 10**15)
    assert files.size_of(top) >= 5000
    traps.reset_modes(top)
    assert write_guard._stuck_on(top) is None
    files.remove_tree(top)
    assert not top.exists()
    assert len(os.listdir("/proc/self/fd")) == held


def test_removal_follows_no_link_and_opens_what_is_shut(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    top = tmp_path / "top"
    (top / "shut" / "inner").mkdir(parents=True)
    (top / "shut" / "inner" / "file").touch()
    (top / "link").symlink_to(precious)
    (top / "shut" / "link").symlink_to(precious / "file")
    (top / "shut" / "inner").chmod(0)
    (top / "shut").chmod(0)
    top.chmod(0o500)
    files.remove_tree(top)
    assert not top.exists()
    assert (precious / "file").read_text() == "mine"
    (tmp_path / "link").symlink_to(precious)
    files.remove_tree(tmp_path / "link")
    assert (precious / "file").exists()


def test_what_cannot_be_destroyed_is_said(tmp_path: Path) -> None:
    folder = Path("/proc/self/task")
    entry = workspace_registry.WorkspaceEntry("x", folder, tmp_path / "no-desk", 0, 0, "at work")
    assert workspace_registry.destroy(entry) == [folder]
