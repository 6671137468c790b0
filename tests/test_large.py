"""Large files: bounded memory of ours, a limit that is said, and nothing lost beyond it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support import PROGRAM, Repo
from test_process import peak_memory


@pytest.fixture
def limited(repo: Repo) -> Repo:
    """A project in which a change may hold files of up to 1 MB, and that has a larger one already."""
    repo.write("reflectloop.toml", "[workspace]\nlargest_change_mb = 1\n")
    repo.write("old.bin", bytes(1_500_000))
    repo.write(".gitignore", "build/\n")
    repo.commit("large")
    return repo


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("head -c 2000000 /dev/zero > new.bin", "new.bin (2 MB)"),
        ("printf x >> old.bin", "old.bin (2 MB)"),
        ("printf x > old.bin", "old.bin (2 MB)"),
        ("rm old.bin", "old.bin (2 MB)"),
        ("cp old.bin copy.bin", "copy.bin (2 MB)"),
    ],
)
def test_a_file_too_large_for_a_patch_fails_by_name_and_its_workspace_is_kept(
    limited: Repo, command: str, name: str
) -> None:
    answer = limited.run("run", "--json", limited.steps(command))
    assert answer.code == 30, answer.stdout
    assert f"too large for a patch: {name}; the limit is 1 MB" in answer.envelope["message"]
    assert "largest_change_mb" in answer.envelope["message"]
    assert len(limited.workspaces()) == 1
    assert limited.run("shell", "latest", "ls").code == 0
    objects = limited.path / ".reflectloop" / "git" / "objects"
    assert sum(path.stat().st_size for path in objects.rglob("*") if path.is_file()) < 100_000


def test_files_outside_the_patch_may_be_large(limited: Repo) -> None:
    command = "mkdir build; head -c 2000000 /dev/zero > build/out; git mv old.bin renamed.bin; chmod +x renamed.bin"
    answer = limited.run("run", "--json", limited.steps(command))
    assert answer.code == 0, answer.stdout
    assert [change["path"] for change in answer.json["data"]["touched_files"]] == ["renamed.bin"]


def test_a_large_file_that_a_check_reads_fails_the_step(limited: Repo) -> None:
    plan = limited.steps("head -c 2000000 /dev/zero > new.bin", verify=[{"file_unchanged": "README.md"}])
    answer = limited.run("run", "--json", plan)
    assert answer.code == 30, answer.stdout
    assert "too large for a patch" in answer.envelope["message"]


def test_a_large_patch_is_made_shown_and_published_in_bounded_memory(repo: Repo, tmp_path: Path) -> None:
    """The engine's own, which is 50 MB before it holds anything; git holds a file whole to put it into a patch."""
    repo.write("reflectloop.toml", "[publish]\nclaude = true\n")
    # The same noise each time: now and then the letters of some other would look like a key, and be redacted.
    noise = "import random, sys; sys.stdout.buffer.write(random.Random(2).randbytes(30_000_000))"
    plan = repo.steps(f"python3 -c '{noise}' > large.bin")
    assert 0 < peak_memory(subprocess.Popen([*PROGRAM, "run", str(plan)], cwd=repo.path)) < 85_000
    patch = repo.latest() / "changes.patch"
    published = repo.path / ".claude/state/reflectloop/runs" / repo.latest().name / "changes.patch"
    assert patch.stat().st_size == published.stat().st_size > 30_000_000
    shown = tmp_path / "shown.patch"
    with shown.open("wb") as target:
        assert 0 < peak_memory(subprocess.Popen([*PROGRAM, "diff"], cwd=repo.path, stdout=target)) < 85_000
    subprocess.run(["cmp", str(patch), str(shown)], check=True)


@pytest.mark.skipif(shutil.which("script") is None, reason="a terminal is made by script(1), which is not here")
def test_the_content_of_a_binary_file_is_not_displayed(repo: Repo) -> None:
    repo.write("old.bin", b"\0\1\2" * 999)
    repo.commit("binary")
    assert repo.run("run", repo.steps("printf x >> old.bin; echo y > new.txt")).code == 0
    seen = subprocess.run(
        ["script", "-qec", f"{' '.join(PROGRAM)} diff", "/dev/null"],
        cwd=repo.path,
        capture_output=True,
        check=True,
    ).stdout
    assert b"Binary files a/old.bin and b/old.bin differ" in seen
    assert b"+y" in seen
    assert b"GIT binary patch" in repo.run("diff").stdout.encode()
