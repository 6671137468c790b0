"""A project is the folder that holds `.git`; a repository that leads somewhere else is refused before anything is read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from reflectloop.commands import scan
from reflectloop.errors import UnsupportedRepository
from reflectloop.workspace import git_answers, project
from support import Repo

CODE = 16


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def committed(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "notes").write_text("private\n")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "first")
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(UnsupportedRepository) as fault:
        project.locate(folder)
    return fault.value.message


def test_settings_of_a_repository_do_not_choose_the_working_tree(repo: Repo, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "key").write_text("the user's key\n")
    git(repo.path, "config", "core.worktree", os.path.relpath(private, repo.path / ".git"))
    answer = repo.run("run", "--json", repo.steps("cat key || true"))
    assert (answer.code, answer.envelope["error_code"]) == (CODE, "UNSUPPORTED_REPOSITORY"), answer.stdout
    assert "name " in answer.envelope["message"]
    assert "core.worktree" in answer.envelope["next"]
    assert sorted(path.name for path in private.iterdir()) == ["key"]


def test_a_folder_of_a_clone_that_looks_like_a_repository_is_a_folder_of_the_clone(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    embedded = repo.path / "sub"
    git(repo.path, "init", "-q", "--bare", "sub")
    git(embedded, "--git-dir", ".", "config", "core.bare", "false")
    git(embedded, "--git-dir", ".", "config", "core.worktree", "../../private")
    assert project.locate(embedded) == repo.path


def test_a_git_file_that_names_another_projects_repository_is_refused(tmp_path: Path) -> None:
    other = committed(tmp_path / "other")
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / ".git").write_text(f"gitdir: {other}/.git\n")
    assert "is not this working tree's" in refused(strange)
    (strange / ".git").unlink()
    (strange / ".git").symlink_to(other / ".git")
    assert "is a link" in refused(strange)


@pytest.mark.parametrize("name", ["objects", "refs"])
def test_a_repository_whose_folders_are_links_is_refused(repo: Repo, tmp_path: Path, name: str) -> None:
    other = committed(tmp_path / "other")
    (repo.path / ".git" / name).rename(tmp_path / "away")
    (repo.path / ".git" / name).symlink_to(other / ".git" / name)
    assert "is a link" in refused(repo.path)


def test_a_repository_that_shares_another_ones_history_by_name_is_refused(repo: Repo, tmp_path: Path) -> None:
    other = committed(tmp_path / "other")
    (repo.path / ".git" / "commondir").write_text(f"{other}/.git\n")
    assert "takes its history from" in refused(repo.path)


def test_linked_worktrees_submodules_and_subfolders_are_projects(repo: Repo, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    git(repo.path, "worktree", "add", "-q", str(tree), "-b", "other")
    assert project.locate(tree) == tree
    part = committed(tmp_path / "part")
    git(repo.path, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part), "part")
    assert project.locate(repo.path / "part") == repo.path / "part"
    (repo.path / "deep" / "er").mkdir(parents=True)
    assert project.locate(repo.path / "deep" / "er") == repo.path


@pytest.mark.parametrize("name", ["HEAD", "config", "index", "packed-refs", "info/exclude", "refs/heads/main"])
def test_a_pipe_in_a_repository_is_reported_and_does_not_block(repo: Repo, name: str) -> None:
    git(repo.path, "branch", "-M", "main")
    place = repo.path / ".git" / name
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place)
    answer = repo.run("status", "--json")
    assert (answer.code, answer.envelope["error_code"]) == (CODE, "UNSUPPORTED_REPOSITORY"), answer.stdout
    assert "is a pipe" in answer.envelope["message"]


def test_settings_that_include_a_pipe_time_out(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    git(repo.path, "config", "include.path", str(tmp_path / "pipe"))
    monkeypatch.setattr(git_answers, "ANSWER_S", 0.5)
    with pytest.raises(UnsupportedRepository, match="git does not answer"):
        git_answers.ask(repo.path, "rev-parse", "--show-toplevel", seconds=git_answers.ANSWER_S)


@pytest.mark.parametrize("key", ["core.excludesFile", "core.attributesFile"])
def test_a_pipe_that_settings_name_for_patterns_is_not_opened_by_scan(repo: Repo, tmp_path: Path, key: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    git(repo.path, "config", key, str(tmp_path / "pipe"))
    answer = repo.run("scan", "--json", ".")
    assert (answer.code, answer.envelope["error_code"]) == (CODE, "UNSUPPORTED_REPOSITORY"), answer.stdout
    git(repo.path, "config", key, os.devnull)
    assert repo.run("scan", ".").code == 0


def test_scan_names_a_pipe_in_the_place_of_ignore_rules(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(repo.path / ".gitignore")
    monkeypatch.setattr(scan, "_PATIENCE_S", 0.3)
    with pytest.raises(UnsupportedRepository, match=r"wait forever for '\.gitignore'"):
        scan.tree(scan.read_settings(repo.path), [repo.path])


def test_a_repository_that_git_rejects_is_not_a_plain_folder(repo: Repo) -> None:
    (repo.path / ".git" / "HEAD").write_text("ref: ../../elsewhere\n")
    assert "git cannot read" in refused(repo.path)


def test_scan_reports_an_unreadable_index(repo: Repo) -> None:
    (repo.path / ".git" / "index").write_bytes(b"noise")
    answer = repo.run("scan", "--json", ".")
    assert (answer.code, answer.envelope["error_code"]) == (CODE, "UNSUPPORTED_REPOSITORY"), answer.stdout
    assert answer.envelope["next"] == "git fsck"
