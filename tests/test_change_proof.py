"""A fix shows that a fault is gone, not that something new exists; a feature fails its own criterion on base."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gate_builders import FULL_CONTRACT
from reflectloop.verification import new_names
from reflectloop.verification.result import ChangedFile
from support import Repo

pytestmark = pytest.mark.usefixtures("without_probing")

BROKEN = "def last(items, size):\n    return len(items) // size\n\n\ndef first(items):\n    return items[1]\n"
HEAD = "import unittest\n\nimport pager\n\n\nclass {name}(unittest.TestCase):\n"
TEST = HEAD.format(name="Last") + "    def test_odd(self):\n        self.assertEqual(pager.last([1, 2, 3], 2), 2)\n"
HELPER = "\n\ndef helper(value):\n    return value\n"


def own_test(line: str) -> str:
    return HEAD.format(name="Own") + f"    def test_own(self):\n        {line}\n"


@pytest.fixture
def pager(repo: Repo) -> Repo:
    """A project with a red test, and a fault that no test shows."""
    repo.git("rm", "-q", "-r", "src")
    repo.write("pager.py", BROKEN)
    repo.write("test_pager.py", TEST)
    repo.write(".gitignore", "__pycache__/\n")
    repo.commit("two bugs")
    return repo


def verify(repo: Repo, track: str, code: int) -> dict[str, Any]:
    done = repo.run("verify", "--track", track, "--json")
    assert done.code == code, done.stdout
    found: dict[str, Any] = done.json["data"] | {"warnings": done.envelope["warnings"]}
    return found


@pytest.mark.parametrize(
    "line",
    [
        "self.assertEqual(pager.helper(1), 1)",
        "self.assertTrue(hasattr(pager, 'helper'))",
        "self.assertEqual(getattr(pager, 'helper', lambda value: 0)(1), 1)",
    ],
)
def test_a_helper_with_a_test_is_no_fix_while_the_red_test_stays_red(pager: Repo, line: str) -> None:
    pager.write("pager.py", BROKEN + HELPER)
    pager.write("test_own.py", own_test(line))
    reasons = verify(pager, "fix", 32)["reasons"]
    assert "helper did not exist there" in reasons[0]["text"]
    assert "--track feature" in reasons[0]["text"]
    assert "1 test red on base is still red" in reasons[0]["text"]
    assert verify(pager, "feature", 0)["decision"] == "PASS"


def test_a_fix_of_another_fault_passes_and_says_what_is_still_red(pager: Repo) -> None:
    pager.write("pager.py", BROKEN.replace("items[1]", "_at(items)") + "\n\ndef _at(items):\n    return items[0]\n")
    pager.write("test_own.py", own_test("self.assertEqual(pager.first(['a']), 'a')"))
    verdict = verify(pager, "fix", 0)
    assert any("1 test red on base is still red: " in warning for warning in verdict["warnings"])


def test_a_fix_whose_test_needs_a_new_name_is_asked_about_where_nothing_else_is_red(pager: Repo) -> None:
    pager.write("pager.py", BROKEN.replace("len(items)", "(len(items) + 1)"))
    pager.commit("mended")
    pager.write("pager.py", BROKEN.replace("len(items)", "(len(items) + 1)") + HELPER)
    pager.write("test_own.py", own_test("self.assertEqual(pager.helper(1), 1)"))
    verdict = verify(pager, "fix", 33)
    assert verdict["outcome"] == "REVIEW"
    assert [reason["rule"] for reason in verdict["reasons"]] == ["fix-shows-new-name"]


def test_a_fix_whose_test_names_a_new_exception_is_proven(pager: Repo) -> None:
    """The name alone does not make the test pass: the fix must also raise it."""
    mended = BROKEN.replace("len(items)", "(len(items) + 1)")
    pager.write("pager.py", mended)
    pager.commit("mended")
    error = "\n\nclass Empty(Exception):\n    pass\n"
    pager.write("pager.py", mended.replace("    return items[1]", "    raise Empty") + error)
    pager.write("test_own.py", own_test("self.assertRaises(pager.Empty, pager.first, [])"))
    assert verify(pager, "fix", 0)["decision"] == "PASS"


def gate(repo: Repo, code: int, **contract: Any) -> dict[str, Any]:
    path = repo.path.parent / "contract.json"
    names = sorted(repo.git("status", "--porcelain", "-uall").split()[1::2])
    fields = {**FULL_CONTRACT, "files_changed": names, "may_change": names, **contract}
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))
    done = repo.run("gate", "--contract", str(path), "--json")
    assert done.code == code, done.stdout
    found: dict[str, Any] = done.json["data"]
    return found


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (["python3", "-c", "import pager; pager.helper(1)"], 32, "helper did not exist there"),
        (["grep", "-q", "helper", "pager.py"], 33, "1 test red on base is still red"),
    ],
)
def test_a_reproduction_that_asks_for_a_new_name_proves_no_fix(
    pager: Repo, command: list[str], code: int, words: str
) -> None:
    pager.write("pager.py", BROKEN + HELPER)
    data = gate(pager, code, track="fix", reproduction={"run": command}, acceptance=None)
    assert any(words in reason["text"] for stage in data["gates"] for reason in stage["reasons"])


def test_a_criterion_that_is_met_on_base_shows_no_feature(pager: Repo) -> None:
    pager.write("pager.py", BROKEN.replace("len(items)", "(len(items) + 1)"))
    pager.commit("mended")
    pager.write("pager.py", (pager.path / "pager.py").read_text() + "# more\n")
    test = "test_pager.Last.test_odd"
    criteria = [{"id": "A-1", "text": "it pages", "check": test}]
    data = gate(pager, 32, track="feature", acceptance=criteria)
    assert any("met already" in reason["text"] for stage in data["gates"] for reason in stage["reasons"])
    verdict = verify(pager, "feature", 33)
    assert [reason["rule"] for reason in verdict["reasons"]] == ["feature-without-code"]
    pager.write("pager.py", (pager.path / "pager.py").read_text() + HELPER)
    assert any("nothing shows the feature" in warning for warning in verify(pager, "feature", 0)["warnings"])
    pager.write("test_own.py", own_test("self.assertEqual(pager.helper(1), 1)"))
    criteria = [{"id": "A-1", "text": "it helps", "check": "test_own.Own.test_own"}]
    assert gate(pager, 0, track="feature", acceptance=criteria)["decision"] == "PASS"


# Names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("AttributeError: module 'pager' has no attribute 'helper'", "helper"),
        ("ImportError: cannot import name 'helper' from 'pager' (/x/pager.py)", "helper"),
        ("ModuleNotFoundError: No module named 'pager.extra'", "extra"),
        ("NameError: name 'helper' is not defined", "helper"),
        ("TypeError: last() got an unexpected keyword argument 'start'", "start"),
        ("TypeError: pager.helper is not a function", "helper"),
        ("NoMethodError: undefined method `helper' for Pager:Module", "helper"),
        ("AttributeError: 'NoneType' object has no attribute 'helper'", None),
        ("AssertionError: 1 != 2", None),
        ("AssertionError: NameError: name 'helper' is not defined", None),
        ("KeyError: 'helper'", None),
        ("TypeError: unsupported operand type(s) for +: 'int' and 'str'", None),
    ],
)
def test_a_failure_names_what_is_missing(error: str, name: str | None) -> None:
    assert new_names.missing_name(error) == name


def test_a_name_that_base_uses_is_not_new() -> None:
    before = b"class A:\n    def run(self):\n        return self.stop()\n"
    after = (
        before + b"\n    def stop(self):\n        return 1\n\n    def pause(self, long=False):\n        self.mark = 1\n"
    )
    changes = [ChangedFile("a.py", before, after), ChangedFile("lib/new.js", None, b"function more() {}\n")]
    assert new_names.added_names(changes) == {"pause", "long", "mark", "more", "new", "lib"}
    assert new_names.added_names([ChangedFile("tests/test_a.py", None, b"def helper(): pass\n")]) == frozenset()


def test_new_definitions_are_laid_over_base_without_other_edits() -> None:
    before = b'"""Doc."""\nimport os\n\nclass A:\n    def run(self):\n        return 1\n'
    after = (
        b'"""Doc."""\nimport os\nimport re\n\nLIMIT = 3\n\nclass A:\n    def run(self):\n        return other(2)\n'
        b"    def __eq__(self, other):\n        return True\n    def pause(self):\n        return re\n\n"
        b"def other(value):\n    return value\n"
    )
    files = new_names.only_additions([ChangedFile("a.py", before, after)])
    assert files is not None
    text = files["a.py"].decode()
    assert "return 1" in text
    assert "__eq__" not in text
    assert all(part in text for part in ("import re", "LIMIT = 3", "def pause", "Doc."))
    assert new_names.only_additions([ChangedFile("a.py", before, before.replace(b"1", b"2"))]) is None
