"""Calls that change their arguments are compared, when they are made many times over, by what they leave there too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support import Repo

pytestmark = [pytest.mark.usefixtures("without_probing"), pytest.mark.probing("replay")]

BASE = "def raised(xs):\n    xs[0] += 1\n    return xs\n"
COUNTED = """def inner(xs):
    xs[0] += 1
    return xs


calls = []


def raised(xs):
    calls.append(1)
    if len(calls) == 1:
        return [12, 1]
    return inner(xs)
"""
HONEST = """calls = []


def raised(xs):
    calls.append(1)
    xs[0] *= xs[0] + 1
    return xs
"""
TEST = """import unittest

import calc


class Calc(unittest.TestCase):
    def test_first(self):
        self.assertEqual(calc.raised([3, 1]), [12, 1])

    def test_second(self):
        self.assertEqual(calc.raised([1, 5]), [2, 5])
"""


def _verified(repo: Repo, patch: str) -> dict[str, Any]:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", BASE)
    repo.write("test_calc.py", TEST)
    repo.commit("a calculator")
    repo.write("calc.py", patch)
    answer: dict[str, Any] = json.loads(repo.run("verify", "--track", "fix", "--json").stdout)["data"]
    return answer


def test_a_counter_of_calls_is_seen_in_a_function_that_changes_its_arguments(repo: Repo) -> None:
    found = [item["what"] for item in _verified(repo, COUNTED)["findings"]]
    assert any("raised gives its result only in some of many calls" in text for text in found), found


def test_a_function_that_changes_its_arguments_alike_in_all_calls_is_let_alone(repo: Repo) -> None:
    answer = _verified(repo, HONEST)
    assert (answer["decision"], answer["findings"]) == ("PASS", [])
