"""`--strength`: small faults in the changed lines, and whether the tests that show the change notice them."""

from __future__ import annotations

import pytest

from reflectloop.verification import strength
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.verdict import StrengthReport
from support import Repo

pytestmark = pytest.mark.usefixtures("without_probing")

BEFORE = b'"""Doc."""\n\n\ndef last(items, size):\n    return len(items) // size\n'
AFTER = (
    b'"""Doc."""\n\n\ndef last(items, size):\n    """Texts are no code."""\n    if size > 0:\n        check(size)\n'
    b"    count = -(-len(items) // size)\n    return count\n"
)


def test_mutants_are_made_of_changed_lines_only_and_always_the_same() -> None:
    made = strength.mutants([ChangedFile("pager.py", BEFORE, AFTER)])
    assert [(mutant.line, mutant.what) for mutant in made] == [
        (6, "comparison changed"),
        (6, "condition negated"),
        (6, "constant changed"),
        (7, "statement dropped"),
        (8, "statement dropped"),
        (8, "operator changed"),
        (9, "result dropped"),
    ]
    assert b"if (size >= 0):" in made[0].content
    assert b"if not (size > 0):" in made[1].content
    assert b"        pass\n" in made[3].content
    assert b"return None\n" in made[6].content
    assert all(mutant.content.startswith(b'"""Doc."""') for mutant in made)
    assert strength.mutants([ChangedFile("pager.py", BEFORE, AFTER)]) == made
    assert len(strength.mutants([ChangedFile("pager.py", BEFORE, AFTER)], most=3)) == 3


def test_tests_and_files_that_cannot_be_parsed_have_no_mutants() -> None:
    for path, text in (("tests/test_a.py", b"x = 1\n"), ("a.py", b"def (\n"), ("a.js", b"x = 1\n"), ("b.py", b"\0")):
        assert strength.mutants([ChangedFile(path, None, text)]) == []


def test_too_few_noticed_mutants_are_refused_with_those_that_went_unnoticed() -> None:
    report = StrengthReport(1, 4, ("a.py:1: constant changed",))
    assert strength.reasons(report, 25) == []
    [reason] = strength.reasons(report, 26)
    assert reason.text == "1 of 4 mutants noticed, and at least 26 % are required (--strength-min)"
    assert reason.details == ("a.py:1: constant changed",)
    assert strength.reasons(StrengthReport(0, 0), 100) == []


def test_a_weak_test_of_a_fix_is_told_from_a_strong_one(repo: Repo) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("pager.py", "def last(items, size):\n    return len(items) // size\n")
    repo.write(".gitignore", "__pycache__/\n")
    test = "import unittest\n\nimport pager\n\n\nclass Own(unittest.TestCase):\n    def test_own(self):\n        {}\n"
    repo.write("test_even.py", test.format("self.assertEqual(pager.last([1, 2], 2), 1)"))
    repo.commit("a bug")
    repo.write("pager.py", "def last(items, size):\n    return -(-len(items) // size) + 0\n")
    repo.write("test_own.py", test.format("self.assertNotEqual(pager.last([1, 2, 3], 2), 1)"))
    answer = repo.run("verify", "--track", "fix", "--strength-min", "90", "--json")
    assert answer.code == 32, answer.stdout
    weak = answer.json["data"]["strength"]
    assert weak["noticed"] < weak["total"]
    assert "pager.py:2: " in weak["unnoticed"][0]
    repo.write("test_own.py", test.format("self.assertEqual(pager.last([1, 2, 3], 2), 2)"))
    answer = repo.run("verify", "--track", "fix", "--strength")
    assert answer.code == 0, answer.stderr
    assert "mutants noticed" in answer.stderr
