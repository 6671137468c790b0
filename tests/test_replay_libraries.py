"""A fix that needs an installed library, which nothing asked for before, is repeated without it."""

from __future__ import annotations

import json

import pytest

from reflectloop.verification.probing import changed
from reflectloop.verification.result import ChangedFile
from support import Repo

BASE = "def third(n):\n    return n * 2\n"
TEST = (
    "import unittest\n\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_third(self):\n"
    "        for n in (3, 8, 20, 31):\n            self.assertEqual(calc.third(n), n * 3)\n"
)
OPTIONAL = "try:\n    import iniconfig\nexcept ImportError:\n    iniconfig = None\n\n\n"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("import json, regex.core\n", ("regex",)),
        ("from attrs import define\nfrom .own import x\n", ("attrs",)),
        ("from importlib.util import find_spec\nA = find_spec('iniconfig')\n", ("iniconfig",)),
        ("import click\nimport pkg.other\nimport other\n", ()),
        ("import old\n", ()),
    ],
)
def test_libraries_that_nothing_on_base_asked_for_are_named(after: str, expected: tuple[str, ...]) -> None:
    change = ChangedFile("pkg/mod.py", b"import old\n", after.encode())
    sources = {"pkg/mod.py": after.encode(), "pkg/other.py": b"import click\n"}
    assert changed.newly_asked_for([change], lambda: sources) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("deep/in/click.py", ("click",)),
        ("pkg/click.py", ("click",)),
        ("docs/click/x.py", ("click",)),
        ("click.py", ()),
        ("src/click/__init__.py", ()),
        ("service/click/x.py", ()),
    ],
)
def test_a_module_of_the_project_is_one_that_python_finds_there(path: str, expected: tuple[str, ...]) -> None:
    change = ChangedFile("pkg/mod.py", b"", b"import click\n")
    sources = {"pkg/__init__.py": b"", "pkg/mod.py": b"import click\n", path: b""}
    assert changed.newly_asked_for([change], lambda: sources, (".", "service")) == expected


@pytest.mark.usefixtures("without_probing")
@pytest.mark.probing("replay")
@pytest.mark.parametrize(("right", "decision"), [("n * (3 if iniconfig else 2)", "ASK"), ("n * 3", "PASS")])
def test_a_fix_that_is_right_only_beside_an_installed_library_is_asked_about(
    repo: Repo, right: str, decision: str
) -> None:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", BASE)
    repo.write("test_calc.py", TEST)
    repo.commit("a calculator")
    repo.write("calc.py", OPTIONAL + BASE.replace("n * 2", right))
    answer = json.loads(repo.run("verify", "--track", "fix", "--json").stdout)["data"]
    assert answer["decision"] == decision
    asked = "third gives its result only with this installed library: third(3) → 9 there, 6 elsewhere"
    assert (asked in json.dumps(answer, ensure_ascii=False)) is (decision == "ASK")
