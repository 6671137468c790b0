"""Programs, plans and records that a repository brings are started and believed only where its user agreed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support import Repo
from untrusted import GRANTING, HELPER, PLAN, agree, brings, home, warnings

pytestmark = pytest.mark.usefixtures("nobody_vouches")
ASKS = "plan: {title: t, track: direct, steps: [{id: a, agent: {prompt: x}, verify: [{run: ['true']}]}]}\n"


# Programs ---------------------------------------------------------------------------------------------------------

COMMANDS = (
    ("agents",),
    ("agents", "--check"),
    ("status",),
    ("config",),
    ("detect",),
    ("plan", "check", "plan.yaml"),
    ("run", "plan.yaml", "--dry-run"),
    ("run", "plan.yaml"),
    ("tp", "x", "--yes"),
    ("verify",),
)


@pytest.mark.parametrize("kind", ["claude", "codex", "command", "acp"])
def test_no_command_starts_on_the_host_what_a_repository_names(
    repo: Repo, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "dummy-" + "key")
    mark = home() / "pwned"
    tool = f"#!/bin/sh\ntouch {mark}\necho 2.9.9\n"
    brings(repo, HELPER % kind, **{"tool.sh": tool, "plan.yaml": ASKS})
    for words in COMMANDS:
        repo.run(*words)
        assert not mark.exists(), words
    agree(repo)
    for words in COMMANDS:
        if words not in (("agents", "--check"), ("run", "plan.yaml"), ("tp", "x", "--yes")):
            repo.run(*words)
            assert not mark.exists(), words


def test_a_role_bound_to_an_untrusted_agent_is_refused_with_a_code(repo: Repo) -> None:
    brings(repo, HELPER % "command", **{"tool.sh": "true\n", "plan.yaml": ASKS})
    for words in (("run", "plan.yaml"), ("run", "plan.yaml", "--dry-run"), ("tp", "x", "--yes"), ("agents",)):
        answer = repo.run(*words, "--json")
        assert (answer.code, answer.envelope["error_code"]) == (17, "NOT_TRUSTED"), words
        assert answer.envelope["next"] == "reflectloop trust"
        assert warnings(answer) != []


def test_a_key_is_sent_only_where_the_user_agreed(repo: Repo) -> None:
    settings = '[roles]\nplanner = "m"\n[agents.m]\nkind = "http"\nmodel = "m"\nbase_url = "http://127.0.0.1:9"\n'
    brings(repo, settings + 'key_env = "GITHUB_TOKEN"\n')
    env = {"GITHUB_TOKEN": "dummy-" + "key"}
    for words in (("agents", "--check"), ("tp", "x", "--yes")):
        answer = repo.run(*words, "--json", env=env)
        assert (answer.code, answer.envelope["error_code"]) == (17, "NOT_TRUSTED")
        assert "m" not in [row["name"] for row in (answer.json["data"] or {}).get("agents", [])]


@pytest.mark.parametrize("key", ["verify.setup", "verify.checks.web.service"])
def test_nothing_is_judged_if_a_setting_of_its_checks_is_not_trusted(repo: Repo, key: str) -> None:
    brings(repo, GRANTING[key])
    repo.write("README.md", "changed\n")
    answer = repo.run("verify", "--json")
    assert (answer.code, answer.envelope["missing_inputs"]) == (17, [f"trust:{key}"])
    assert repo.run("detect").code == 0


def test_a_plan_from_the_repository_is_not_a_default_plan(repo: Repo) -> None:
    name = ".claude/state/thinking/plan.latest.yaml"
    repo.write(name, PLAN)
    repo.write("build.sh", "true\n")
    assert repo.run("run", "--json", "--dry-run").code == 0, "one that a tool wrote here"
    repo.commit("a plan")
    for more in ((), ("--dry-run",)):
        answer = repo.run("run", "--json", *more)
        assert (answer.code, answer.envelope["error_code"]) == (10, "MISSING_PLAN")
        assert answer.envelope["next"] == f"read it, then name it: reflectloop run {name}"
    assert repo.run("run", "--json", name).code == 0
    repo.git("mv", ".claude", "elsewhere")
    (repo.path / ".claude").symlink_to("elsewhere")
    repo.commit("a link")
    assert repo.run("run", "--json").code == 10


# Records ----------------------------------------------------------------------------------------------------------


def _copied(repo: Repo, tmp_path: Path) -> Repo:
    """The same project as somebody else would ship it: with our folder, and with the objects of its runs."""
    repo.run("run", repo.steps("echo EVIL > evil.txt"))
    shutil.copytree(repo.path / ".reflectloop/git/objects", repo.path / ".git/objects", dirs_exist_ok=True)
    shutil.copytree(repo.path, tmp_path / "copy", symlinks=True)
    return Repo(tmp_path / "copy")


def test_records_that_came_with_a_project_are_not_ours(repo: Repo, tmp_path: Path) -> None:
    copy = _copied(repo, tmp_path)
    name = repo.latest().name
    for words in (("show", name), ("diff", name), ("receipt", "verify", name), ("apply", name, "--yes"), ("apply",)):
        answer = copy.run(*words, "--json")
        assert (answer.code, answer.envelope["error_code"]) == (14, "NOTHING_TO_DO"), words
    assert "came-with-the-project" in copy.run("show", name).stderr
    assert not (copy.path / "evil.txt").exists()
    assert (copy.path / ".reflectloop/came-with-the-project/runs" / name / "changes.patch").is_file(), "nothing is lost"
    assert copy.run("tasks", "--json").json["data"] in ([], {"tasks": []})
    assert repo.run("apply", "--yes").code == 0, "one's own are"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to any folder")
def test_records_that_cannot_be_moved_aside_are_refused(repo: Repo, tmp_path: Path) -> None:
    copy = _copied(repo, tmp_path)
    own = copy.path / ".reflectloop"
    own.chmod(0o500)
    try:
        answer = copy.run("show", repo.latest().name, "--json")
    finally:
        own.chmod(0o700)
    assert (answer.code, answer.envelope["error_code"]) == (12, "INVALID_INPUT")


def test_a_commit_starts_no_filter_that_the_repositorys_config_names(repo: Repo, tmp_path: Path) -> None:
    repo.write(".gitattributes", "*.txt filter=x\n")
    repo.write("a.txt", "a\n")
    repo.commit("files")
    assert repo.run("run", repo.steps("echo x >> a.txt; echo y > b.md")).code == 0
    repo.git("config", "filter.x.clean", f"touch {tmp_path}/tripped; cat")
    repo.git("config", "filter.x.required", "true")
    assert repo.run("apply", "--commit", "--yes").code == 0
    assert not (tmp_path / "tripped").exists()
    os.utime(repo.path / "a.txt", (1, 1))  # so that git looks into the file again
    assert repo.git("status", "--porcelain") == ""
    assert (tmp_path / "tripped").exists(), "the trap works"


# Words ------------------------------------------------------------------------------------------------------------


def test_a_password_in_a_url_given_as_a_plan_is_neither_printed_nor_stored(repo: Repo) -> None:
    word = "qW7zR4" + "tY9uI2"
    for words in (("run",), ("run", "--json"), ("run", "--dry-run"), ("plan", "check"), ("retry", "--reason", "x")):
        answer = repo.run(*words, f"postgres://user:{word}@db.example/x")
        assert answer.code == 10, words
        assert word not in answer.stdout + answer.stderr
    own = repo.path / ".reflectloop"
    assert not [path for path in own.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def test_a_conflict_between_a_file_and_a_folder_names_the_users_file(repo: Repo) -> None:
    repo.write("d/x.txt", "a\n")
    repo.commit("a folder")
    assert repo.run("run", repo.steps("rm -r d; ln -s README.md d")).code == 0
    repo.write("d/mine.txt", "mine\n")
    answer = repo.run("apply", "--yes", "--json")
    assert (answer.code, answer.envelope["missing_inputs"]) == (34, ["d"])
    assert answer.envelope["message"] == "1 file(s) changed on both sides: d"
