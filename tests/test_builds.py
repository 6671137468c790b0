"""A build runs in a workspace of its own: what it makes reaches the tests, but for what would judge the change."""

from __future__ import annotations

import sys

import pytest

from boxes import full
from reflectloop.verification import builds
from support import Answer, Repo

MAKE = "from pathlib import Path\n\nPath('made').mkdir(exist_ok=True)\nPath('made/number.txt').write_text('1')\nPath('table.py').write_text('number = 1\\n')\n"
TEST = """\
import unittest
from pathlib import Path

import table


class Made(unittest.TestCase):
    def test_it(self):
        self.assertEqual(Path("made/number.txt").read_text(), str(table.number))

    def test_no_more(self):
        self.assertFalse(Path("tests/conftest.py").exists())
"""


@pytest.fixture
def made(repo: Repo) -> Repo:
    repo.git("rm", "-q", "-r", "src")
    repo.write("make.py", MAKE)
    repo.write("table.py", "number = 0\n")
    repo.write("tests/__init__.py", "")
    repo.write("tests/test_made.py", TEST)
    repo.write(".gitignore", ".reflectloop/\nmade/\n")
    python = sys.executable
    repo.write(
        "reflectloop.toml",
        f'[[verify.checks]]\nname = "make"\nkind = "build"\nrun = ["{python}", "make.py"]\n'
        '[[verify.checks]]\nname = "unit"\nkind = "test"\n'
        f'run = ["{python}", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", "."]\n',
    )
    repo.commit("a project with a build")
    return repo


def verified(repo: Repo, make: str) -> Answer:
    repo.write("make.py", make)
    done = repo.run("verify", "--fresh")
    return done._replace(stdout=done.stdout + done.stderr)


def test_what_a_build_makes_reaches_the_tests(made: Repo) -> None:
    for _ in range(2):  # the second time, the run of base is remembered
        done = verified(made, f"# a comment\n{MAKE}")
        assert (done.code, "2 passed; on base: 2 passed" in done.stdout) == (0, True), done.stdout


@full
def test_what_would_judge_does_not_reach_the_tests(made: Repo) -> None:
    done = verified(
        made, f"{MAKE}Path('tests/conftest.py').write_text('')\nPath('tests/test_made.py').write_text('')\n"
    )
    assert "Read-only file system" in "".join(
        path.read_text() for path in (made.path / ".reflectloop").glob("verifications/*/logs/*.make.log")
    )
    assert "unit: 2 passed; on base: 2 passed" in done.stdout
    assert "the build made tests/conftest.py, which the tests do not get" in done.stdout
    assert "tests/conftest.py: make changes it while it runs" in done.stdout
    assert done.code == 33


@full
def test_a_source_that_only_the_build_of_the_change_swaps_is_judged_as_it_stands(made: Repo) -> None:
    made.write("other.py", "number = 2\n")
    made.write(
        "tests/test_other.py",
        TEST.replace("import table", "import other as table").replace("str(table", "str(1 * table"),
    )
    made.commit("a test that fails")
    done = verified(made, f"{MAKE}Path('other.py').write_text('number = 1\\n')\n")
    assert "1 failing before and now" in done.stdout
    assert "the build made other.py, which the tests do not get" in done.stdout


def test_what_the_build_of_base_makes_too_may_judge(made: Repo) -> None:
    text = MAKE + "Path('tests/made_helper.py').write_text('value = 1\\n')\n"
    made.write("make.py", text)
    made.write("tests/test_made.py", TEST.replace("import table\n", "import table\nfrom tests import made_helper\n"))
    made.commit("a helper that the build makes")
    for _ in range(2):
        done = verified(made, f"# a comment\n{text}")
        assert (done.code, "2 passed; on base: 2 passed" in done.stdout) == (0, True), done.stdout


@pytest.mark.parametrize(
    ("path", "judges"),
    [
        ("build/CTestTestfile.cmake", False),
        ("build/tests/test_list", False),
        ("build/lib.linux-x86_64/pkg/fast.so", False),
        ("pkg/fast.cpython-311-x86_64-linux-gnu.so", False),
        ("dist/package.json", False),
        ("tests/list.o", False),
        ("tests/helper.py", True),
        ("pkg/calc.cpython-311-x86_64-linux-gnu.so", True),
        ("pkg/calc/__init__.py", True),
        ("tests/conftest.py", True),
        ("build/conftest.py", True),
        ("pytest.ini", True),
        ("pytest.py", True),
        ("src/sitecustomize.py", True),
        (".venv/lib/python3.11/site-packages/x.pth", True),
        ("pkg/__pycache__/calc.cpython-311.pyc", True),
        ("pkg.egg-info/entry_points.txt", True),
    ],
)
def test_output_is_told_from_what_judges(path: str, judges: bool) -> None:
    folders = {".", "pkg", "tests", "src"}
    assert builds._judges(path, folders, {"pkg/calc.py"}) is judges
