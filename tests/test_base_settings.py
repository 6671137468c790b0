"""What judges a change comes from the commit at which it began, not from the work tree or from commits nobody judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reflectloop import config
from reflectloop.engine.gating import unjudged_commits
from reflectloop.trust import record
from reflectloop.trust.digests import digest
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import project
from reflectloop.workspace.folders import open_project_dirs
from reflectloop.workspace.store import open_store
from support import Repo

BROKEN = "def last(items, size):\n    return len(items) // size\n"
TEST = (
    "import unittest\n\nfrom pager import last\n\n\nclass Last(unittest.TestCase):\n"
    "    def test_odd(self):\n        self.assertEqual(last([1, 2, 3], 2), 2)\n"
)
CHEAT = '[verify]\nchecks = [{name = "ok", run = ["grep", "-q", "fixed", "pager.py"], kind = "custom"}]\n'


@pytest.fixture
def pager(repo: Repo) -> Repo:
    repo.git("rm", "-q", "-r", "src")
    repo.write("pager.py", BROKEN)
    repo.write("test_pager.py", TEST)
    repo.write(".gitignore", "__pycache__/\n")
    repo.commit("a bug")
    return repo


@pytest.fixture
def untrusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REFLECTLOOP_TRUST_PROJECT")


@pytest.mark.usefixtures("untrusted")
def test_checks_in_an_uncommitted_file_do_not_judge(pager: Repo, tmp_path: Path) -> None:
    pager.write("pager.py", BROKEN + "# fixed\n")
    patch = tmp_path / "a.patch"
    patch.write_text(pager.git("diff"))
    pager.git("checkout", "-q", ".")
    pager.write("reflectloop.toml", CHEAT)
    answer = pager.run("verify", "--track", "fix", "--patch", patch, "--json")
    assert answer.code == 32, answer.stdout
    assert [check["name"] for check in answer.json["data"]["checks"]] == ["unittest"]
    [said] = [warning for warning in answer.envelope["warnings"] if "reflectloop trust" in warning]
    assert "[verify] checks" in said
    plan = {"title": "Pages", "track": "fix", "steps": [{"id": "S", "commands": ["echo '# fixed' >> pager.py"]}]}
    answer = pager.run("run", pager.plan(json.dumps({"plan": plan})), "--json")
    assert answer.code == 32, answer.stdout
    assert said.split(" as of ")[0] in " ".join(answer.envelope["warnings"])


def settings_of(repo: Repo, base: bytes | None) -> config.JudgingSettings:
    return config.judging(repo.path, base)


@pytest.mark.usefixtures("untrusted")
def test_the_file_of_the_work_tree_counts_once_it_is_trusted_by_content(repo: Repo) -> None:
    repo.write("reflectloop.toml", CHEAT + 'protect = ["more"]\n')
    found = settings_of(repo, b"[verify]\ntimeout_s = 7\n")
    assert set(found.differing) == {"checks", "protect", "timeout_s"}
    assert (found.config.verify.checks, found.config.verify.timeout_s) == ((), 7)
    assert settings_of(repo, b"not = [toml").config.verify.checks == ()
    record.trust(repo.path, {found.grant.key: digest(found.grant, repo.path)}, "now")
    assert settings_of(repo, None).differing == ()
    assert [check.name for check in settings_of(repo, None).config.verify.checks] == ["ok"]
    repo.write("reflectloop.toml", CHEAT)  # other content than what was trusted
    assert settings_of(repo, None).config.verify.checks == ()
    assert settings_of(repo, CHEAT.encode()).differing == ()
    (repo.path / "reflectloop.toml").unlink()
    assert [check.name for check in settings_of(repo, CHEAT.encode()).config.verify.checks] == ["ok"]


def found_in(repo: Repo) -> unjudged_commits.UnjudgedCommits | None:
    home = project.open_project(repo.path)
    folders = open_project_dirs(repo.path)
    folders.ensure_owned()
    store = open_store(home, config.load(repo.path).workspace)
    head = repo.git("rev-parse", "HEAD").strip()
    return unjudged_commits.find(home.git(), TreeBuilder(store, folders.scratch, store.objects), head)


def test_commits_that_nobody_judged_are_named(pager: Repo) -> None:
    assert found_in(pager) is None
    pager.git("checkout", "-q", "-b", "topic")
    assert found_in(pager) is None
    pager.write("pager.py", BROKEN.replace("len(items)", "(len(items) + 1)"))
    pager.commit("mended")
    found: Any = found_in(pager)
    assert found.note == "judges uncommitted changes only; 1 commit since main was not judged: --base main"
    assert found.doubts == []
    pager.git("checkout", "-q", "--detach", "main")
    assert found_in(pager) is None


def test_a_test_that_an_earlier_commit_weakened_is_asked_about(pager: Repo) -> None:
    pager.git("checkout", "-q", "-b", "topic")
    pager.write("test_pager.py", TEST.replace("    def test_odd", "    @unittest.skip('later')\n    def test_odd"))
    pager.commit("weakened")
    pager.write("pager.py", BROKEN + "\n\ndef first(items):\n    return items[0]\n")
    answer = pager.run("verify", "--json")
    assert answer.code != 0
    text = json.dumps(answer.json["data"]["reasons"])
    assert "commits since main, which were not judged" in text
    assert "test_pager.py" in text
    assert any("--base main" in warning for warning in answer.envelope["warnings"])
