"""The files that judge a change stay as they are while checks run, or the change is refused by their name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from boxes import full, needs_landlock, without_bubblewrap
from reflectloop.verification import seal
from support import Answer, Repo

TEST = "import unittest\n\nimport calc\n\n\nclass Add(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n"
WRITE = "from pathlib import Path\n\n\ndef attempt(path, text):\n    try:\n        Path(path).write_text(text)\n    except OSError:\n        return False\n    return True\n\n\n"
ADD = "def add(a, b):\n    return a + b\n"


@pytest.fixture
def calc(repo: Repo) -> Repo:
    repo.git("rm", "-q", "-r", "src")
    repo.write("calc.py", WRITE + ADD)
    repo.write("tests/test_calc.py", TEST)
    repo.write("tests/data.txt", "1\n")
    repo.write(
        "reflectloop.toml",
        '[[verify.checks]]\nname = "unit"\nkind = "test"\n'
        f'run = ["{sys.executable}", "-m", "unittest", "discover", "-v", "-s", "tests", "-t", "."]\n',
    )
    repo.write("tests/__init__.py", "")
    repo.commit("a calculator")
    return repo


def verified(repo: Repo, extra: str, *, env: dict[str, str] | None = None) -> Answer:
    repo.write("calc.py", f"{WRITE}{extra}\n\n{ADD}")
    done = repo.run("verify", env=env)
    return done._replace(stdout=done.stdout + done.stderr)


@full
def test_a_test_file_cannot_be_written_while_the_checks_run(calc: Repo) -> None:
    done = verified(calc, "assert not attempt('tests/test_calc.py', '')")
    assert (done.code, "changed-while-checked" in done.stdout) == (0, False), done.stdout


@full
def test_a_compiled_test_cannot_be_forged(calc: Repo) -> None:
    done = verified(calc, "assert not attempt('tests/__pycache__/test_calc.cpython-311.pyc', '')")
    assert done.code == 0, done.stdout


@needs_landlock
def test_without_mounts_a_changed_test_file_is_named(calc: Repo, tmp_path: Path) -> None:
    extra = f"assert attempt('tests/test_calc.py', {TEST!r} + '#')"
    done = verified(calc, extra, env=without_bubblewrap(tmp_path))
    assert done.code == 33
    assert "REFUSED" in done.stdout
    assert "tests/test_calc.py: unit changes it while it runs" in done.stdout


@needs_landlock
def test_a_test_file_that_is_put_back_was_written_all_the_same(calc: Repo, tmp_path: Path) -> None:
    extra = f"assert attempt('tests/test_calc.py', '') and attempt('tests/test_calc.py', {TEST!r})"
    done = verified(calc, extra, env=without_bubblewrap(tmp_path))
    assert (done.code, "tests/test_calc.py: unit changes it" in done.stdout) == (33, True), done.stdout


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ("Path('tests').rename('aside'); Path('aside').rename('tests')", "tests/: "),
        ("attempt('tests/conftest.py', ''); Path('tests/conftest.py').unlink()", "tests/conftest.py: "),
        ("attempt('pytest.ini', '[pytest]')", "pytest.ini: "),
    ],
)
def test_what_is_moved_or_made_meanwhile_is_named(calc: Repo, extra: str, named: str) -> None:
    done = verified(calc, extra)
    assert (done.code, f"{named}unit changes it while it runs" in done.stdout) == (33, True), done.stdout


def test_data_that_is_put_back_is_no_finding(calc: Repo) -> None:
    done = verified(calc, "assert attempt('tests/data.txt', '2') and attempt('tests/data.txt', '1\\n')")
    assert done.code == 0, done.stdout


def test_data_that_differs_afterwards_is_put_to_a_person(calc: Repo) -> None:
    done = verified(calc, "assert attempt('tests/data.txt', '2')")
    assert (done.code, "REVIEW" in done.stdout, "tests/data.txt" in done.stdout) == (33, True, True), done.stdout


def test_what_the_run_of_base_changes_too_may_be_changed(calc: Repo) -> None:
    changing = (
        TEST
        + "\n    def test_itself(self):\n        self.assertTrue(calc.attempt(__file__, open(__file__).read() + '#'))\n"
    )
    calc.write("tests/test_calc.py", changing)
    calc.commit("a test that writes its own file")
    for _ in range(2):  # the second time, the run of base is remembered
        done = verified(calc, "# a comment")
        assert (done.code, "changed-while-checked" in done.stdout) == (0, False), done.stdout


def test_a_change_of_protected_files_alone_is_judged_by_the_run_of_base(calc: Repo) -> None:
    calc.write(".editorconfig", "root = true\n")
    done = calc.run("verify")
    assert (done.code, "evidence L3" in done.stdout + done.stderr) == (0, True), done.stdout + done.stderr


def test_a_freed_file_does_not_judge() -> None:
    files = seal.JudgingFiles(protect=("oracle/*",), lifted=("tests/test_new.py",))
    paths = ["tests/test_a.py", "tests/test_new.py", "oracle/a.py", "tests/data.json", "pkg/a.py", "conftest.py"]
    assert [files.kind_of(path) for path in paths] == ["test", None, "test", "data", None, "hook"]
