"""A change that was proven is not proven again, as long as nothing that decides about it changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reflectloop.engine.gating import remembered
from reflectloop.trust import signing
from reflectloop.verification.result import DetectedCheck
from reflectloop.workspace.folders import open_project_dirs
from support import Repo, reflectloop

pytestmark = pytest.mark.usefixtures("without_probing")
CHECK = '[[verify.checks]]\nname = "sums"\nkind = "custom"\nrun = ["python3", "check.py"]\n'
RULE = """rules:
  - id: own.deploy
    verdict: confirm
    reason: a person deploys
    program: [deploy]
    match: ["deploy now"]
    not_match: ["make"]
"""


class Sums(Repo):
    def verify(self, *words: str) -> dict[str, Any]:
        answer: dict[str, Any] = reflectloop(self.path, "verify", *words, "--json").json
        return answer

    def ran(self) -> list[Path]:
        return sorted((self.path / ".reflectloop" / "verifications").iterdir())


@pytest.fixture
def sums(repo: Repo) -> Sums:
    made = Sums(repo.path)
    made.write("check.py", "import sums\nassert sums.add(1, 2) == 3\n")
    made.write("sums.py", "def add(a, b):\n    return a + b\n")
    made.write("reflectloop.toml", CHECK)
    made.commit("sums")
    made.write("sums.py", "def add(a, b):\n    return b + a\n")
    return made


def test_the_same_change_is_answered_by_its_receipt_and_fresh_runs_it_again(sums: Sums) -> None:
    first = sums.verify()
    again = sums.verify()

    assert first["envelope"]["status"] == again["envelope"]["status"] == "OK"
    assert again["envelope"]["run_id"] == first["envelope"]["run_id"]
    assert again["data"] == first["data"]
    assert len(sums.ran()) == 1

    said = reflectloop(sums.path, "verify").stderr
    assert "PASS: proven before, and nothing changed since" in said
    assert "--fresh runs everything again" in said

    assert sums.verify("--fresh")["envelope"]["run_id"] != first["envelope"]["run_id"]
    assert len(sums.ran()) == 2


def test_it_runs_again_if_anything_that_decides_is_different(sums: Sums) -> None:
    sums.verify()
    sums.verify("--track", "refactor")
    assert len(sums.ran()) == 2

    sums.git("commit", "-q", "--allow-empty", "-m", "nothing")
    sums.verify()
    assert len(sums.ran()) == 3


def test_it_runs_again_if_a_rule_of_the_project_is_added(sums: Sums) -> None:
    sums.verify()
    sums.write(".reflectloop/rules/own.yaml", RULE)
    sums.verify()
    assert len(sums.ran()) == 2


@pytest.mark.parametrize("name", ["receipt.json", "verdict.json"])
def test_an_edited_proof_is_no_answer(sums: Sums, name: str) -> None:
    sums.verify()
    file = sums.ran()[0] / name
    file.write_text(file.read_text().replace('"finished": "2', '"finished": "1').replace("sums", "sams"))

    sums.verify()

    assert len(sums.ran()) == 2


def test_a_refused_change_runs_again(sums: Sums) -> None:
    sums.write("sums.py", "def add(a, b):\n    return a - b\n")

    assert sums.verify()["data"]["outcome"] == sums.verify()["data"]["outcome"] == "REFUSED"
    assert len(sums.ran()) == 2


def test_detected_checks_are_remembered_by_the_tree_and_believed_only_if_they_are_signed(sums: Sums) -> None:
    sums.git("rm", "-q", "--cached", "reflectloop.toml")
    (sums.path / "reflectloop.toml").unlink()
    sums.write("test_sums.py", "import unittest, sums\n\nclass Sums(unittest.TestCase):\n    def test_it(self):\n")
    with (sums.path / "test_sums.py").open("a") as file:
        file.write("        self.assertEqual(sums.add(1, 2), 3)\n")
    sums.commit("tests")
    sums.write("sums.py", "def add(a, b):\n    return b - -a\n")
    first = sums.verify()["data"]["checks"]
    (kept,) = (sums.path / ".reflectloop" / "cache" / "checks").iterdir()
    content, before = kept.read_text(), kept.stat().st_mtime_ns

    sums.write("sums.py", "def add(a, b):\n    return a - b\n")
    answer = sums.verify()["data"]
    assert [answer["outcome"], kept.stat().st_mtime_ns] == ["REFUSED", before]
    assert [check["name"] for check in answer["checks"]] == [check["name"] for check in first]

    kept.write_text(content.replace('"checks": [[', '"checks": [], "others": [['))
    assert sums.verify("--fresh")["data"]["outcome"] == "REFUSED"
    assert kept.read_text() == content


def test_without_a_key_no_detected_checks_are_written(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "key", lambda: None)
    folders = open_project_dirs(repo.path)
    folders.ensure_owned()
    check = DetectedCheck("unittest", "test", "unittest", ("python", "-m", "unittest"))
    assert remembered.checks(folders, "a" * 40, lambda: [check]) == [check]
    assert not (folders.own / "cache" / "checks").exists()
