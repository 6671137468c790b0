"""A sealed check cannot tell which program runs it, and a leftover of one is found all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from boxes import full, needs_landlock, without_bubblewrap
from reflectloop.sandbox import environment
from reflectloop.system import process
from reflectloop.trust import person
from reflectloop.workspace import workspace_registry
from support import Repo

# Prints all that a process can learn about who started it, without the paths of this checkout and of the test.
LOOK = """\
import os, subprocess, sys
from pathlib import Path

def read(path):
    try:
        return Path(path).read_bytes().replace(b"\\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""

seen = [f"{name}={value}" for name, value in os.environ.items()]
seen += [*sys.orig_argv, os.getcwd(), os.uname().nodename, read("/proc/self/mountinfo"), read("/proc/self/cgroup")]
pid = os.getpid()
while pid > 0:
    seen += [read(f"/proc/{pid}/{name}") for name in ("cmdline", "environ", "comm")]
    stat = read(f"/proc/{pid}/stat")
    pid = int(stat.rpartition(")")[2].split()[1]) if stat and %(parents)s else 0
seen += os.listdir(os.environ["HOME"]) + os.listdir(os.environ["TMPDIR"])
for command in (["git", "config", "--list"], ["git", "log", "-1"], ["git", "status", "--short"]):
    seen.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
seen += [str(path) for path in Path(".git").rglob("*")] + [read(".git/objects/info/alternates")]
for text in seen:
    for known in %(known)r:
        text = text.replace(known, "")
    for mark in ("reflectloop", "rlop-"):
        if mark in text.lower():
            sys.exit(f"{mark} in {text}")
print("nothing seen")
"""


def _project(repo: Repo, *, strongest: str, parents: bool = True) -> None:
    checkout = Path(__file__).resolve().parent.parent
    known = [os.fspath(path) for path in (checkout, Path(os.environ["TMPDIR"]).parent, Path(sys.prefix))]
    repo.write("look.py", LOOK % {"known": known, "parents": parents})
    repo.write(
        "reflectloop.toml",
        f'[box]\nstrongest = "{strongest}"\n[[verify.checks]]\nname = "look"\nkind = "custom"\n'
        f'run = ["{sys.executable}", "look.py"]\n',
    )
    repo.commit("a check that looks around")
    repo.write("new.txt", "a change\n")


def _log(repo: Repo) -> str:
    logs = (repo.path / ".reflectloop" / "verifications").glob("*/logs/verify.*.look.log")
    return "".join(path.read_text() for path in sorted(logs))


@full
@pytest.mark.parametrize("level", ["full", "workspace"])
def test_a_sealed_check_sees_no_mark_of_the_engine(repo: Repo, level: str) -> None:
    _project(repo, strongest=level)
    done = repo.run("verify")
    assert (done.code, _log(repo)) == (0, "nothing seen\n" * 2), done.stdout + done.stderr


@full
@pytest.mark.parametrize("runner", ["pytest", "unittest"])
def test_a_sealed_test_sees_no_mark_of_the_engine(repo: Repo, runner: str) -> None:
    _project(repo, strongest="full")
    repo.write(
        "test_look.py",
        "import runpy, unittest\n\n\nclass Look(unittest.TestCase):\n    def test_look(self):\n"
        "        runpy.run_path('look.py')\n",
    )
    repo.write(
        "reflectloop.toml",
        f'[[verify.checks]]\nname = "look"\nkind = "test"\nrun = ["{sys.executable}", "-m", "{runner}", "-v"]\n',
    )
    repo.commit("a test that looks around")
    repo.write("newer.txt", "a change\n")
    done = repo.run("verify")
    assert (done.code, "look: 1 passed; on base: 1 passed" in done.stdout + done.stderr) == (0, True)


@needs_landlock
def test_a_sealed_check_without_namespaces_sees_no_mark_of_its_own(repo: Repo, tmp_path: Path) -> None:
    """It shares the list of processes with the machine, so it can see that the engine is its parent."""
    _project(repo, strongest="fs", parents=False)
    done = repo.run("verify", env=without_bubblewrap(tmp_path))
    assert (done.code, _log(repo)) == (0, "nothing seen\n" * 2), done.stdout + done.stderr


def test_a_process_without_a_mark_is_found_by_its_temp_folder(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "w" / "tmp")})
    try:
        assert environment.kill_leftovers("RLOP-20260101-abcdef.100", tmp_path / "other") == 0
        assert environment.kill_leftovers("RLOP-20260101-abcdef.100", tmp_path / "w") == 1
        assert child.wait() == -9
    finally:
        child.kill()
        child.wait()


def test_a_command_in_a_workspace_cannot_approve(tmp_path: Path) -> None:
    temp = tmp_path / "w" / "tmp"
    assert person.agent_sign({"TMPDIR": str(temp)}) is None
    for name in ("tmp", "repo", "home"):
        (tmp_path / "w" / name).mkdir(parents=True)
    assert person.agent_sign({"TMPDIR": str(temp)}) == "TMPDIR in a workspace"


def test_a_workspace_with_a_plain_name_is_found_by_its_run(tmp_path: Path) -> None:
    name = "RLOP-20260101-abcdef.100"
    records, root = tmp_path / "records", tmp_path / "root"
    root.mkdir(mode=0o700)
    folder = root / workspace_registry.plain_name(name)
    assert "RLOP" not in folder.name
    folder.mkdir()
    workspace_registry.register(records, name, folder)
    assert [entry.folder for entry in workspace_registry.entries(records)] == [folder]
    (records / "verifications" / "RLOP-20260101-abcdef").mkdir(parents=True)
    assert workspace_registry.unregistered_folders(records, root) == []
    (records / "workspaces" / name / "workspace.json").unlink()
    (records / "workspaces" / name).rmdir()
    assert workspace_registry.unregistered_folders(records, root) == [folder]
    assert process.find_by_marker(environment.temp_mark(folder)) == []
