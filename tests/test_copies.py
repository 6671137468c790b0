"""Where the project is installed as a copy, it is still the change that is judged."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from reflectloop.engine.gating.verify_command import VerifyRequest, verify
from reflectloop.engine.run.request import NullObserver
from reflectloop.verification import check_runner
from support import Repo

_MODES = py_compile.PycInvalidationMode
CHECK = '[[verify.checks]]\nname = "price"\nkind = "custom"\nrun = ["python", "-c", "import shop; assert shop.PRICE == 10"]\n'


def site_of(environment: Path) -> Path:
    (site,) = environment.glob("lib/python3*/site-packages")
    return site


@pytest.mark.parametrize("folder", ["src/", ""])
def test_a_copy_of_the_project_in_its_environment_hides_no_change(repo: Repo, folder: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", repo.path / ".venv"], check=True)
    repo.write(".gitignore", ".venv\n")
    repo.write("reflectloop.toml", CHECK)
    repo.write(f"{folder}shop/__init__.py", "PRICE = 10\n")
    repo.commit("a shop")
    copy = site_of(repo.path / ".venv") / "shop"
    copy.mkdir()
    (copy / "__init__.py").write_text("PRICE = 10\n")
    repo.write(f"{folder}shop/__init__.py", "PRICE = 9\n")

    found = verify(VerifyRequest(repo.path), NullObserver())

    assert found.error is not None
    assert found.error.code == "VERIFICATION_FAILED"
    assert any("shop is also installed in" in note for note in found.envelope.warnings)


def test_only_modules_of_the_project_count(tmp_path: Path) -> None:
    for name in ("shop", "tests", "ns/part"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "alone.py").touch()
    paths = ["src/shop/__init__.py", "src/shop/cart/__init__.py", "tests/__init__.py", "setup.py"]
    assert check_runner.installed_copies(paths, [tmp_path]) == [check_runner.Copy("src", "shop", tmp_path)]
    assert check_runner.installed_copies(["alone.py", "lib/ns/part/__init__.py"], [tmp_path]) == [
        check_runner.Copy(".", "alone", tmp_path),
        check_runner.Copy("lib", "ns/part", tmp_path),
    ]
    assert check_runner.installed_copies(["src/other/__init__.py", "docs/shop/__init__.py"], [tmp_path]) == []


def test_an_environment_that_git_does_not_ignore_is_no_part_of_the_change(repo: Repo) -> None:
    repo.write("reflectloop.toml", CHECK)
    repo.write("shop/__init__.py", "PRICE = 10\n")
    repo.commit("a shop")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", repo.path / ".venv"], check=True)
    repo.write("shop/__init__.py", "PRICE = 10  # euros\n")

    found = verify(VerifyRequest(repo.path), NullObserver())

    assert found.error is None
    assert "+++ b/.venv" not in (found.folder / "changes.patch").read_text()
    assert any(".venv/ is not ignored by git" in note for note in found.envelope.warnings)


@pytest.mark.parametrize("mode", [_MODES.TIMESTAMP, _MODES.CHECKED_HASH])  # pytest writes hashes
def test_what_python_compiled_is_no_part_of_the_change_unless_it_is_committed(
    repo: Repo, mode: py_compile.PycInvalidationMode
) -> None:
    repo.write("reflectloop.toml", CHECK)
    repo.write("shop/__init__.py", "PRICE = 10\n")
    repo.commit("a shop")
    repo.write("shop/__init__.py", "PRICE = 10  # euros\n")
    compiled = py_compile.compile(os.fspath(repo.path / "shop/__init__.py"), invalidation_mode=mode)
    assert compiled is not None

    found = verify(VerifyRequest(repo.path), NullObserver())

    assert found.error is None
    assert ".pyc" not in (found.folder / "changes.patch").read_text()
    assert any(note.startswith("shop/__pycache__/: compiled by Python") for note in found.envelope.warnings)

    base = repo.git("rev-parse", "HEAD").strip()
    repo.git("add", "-f", compiled)
    repo.commit("a shop with its compiled form")
    assert verify(VerifyRequest(repo.path, base), NullObserver()).error is not None


@pytest.mark.parametrize("name", ["x__pycache__/prices.pyc", "__pycache__/more/prices.pyc", "__pycache__/prices.pyc"])
def test_bytecode_that_needs_no_source_is_a_part_of_the_change(repo: Repo, name: str) -> None:
    repo.write("reflectloop.toml", CHECK)
    repo.write("shop/__init__.py", "PRICE = 10\n")
    repo.commit("a shop")
    (repo.path / "shop" / name).parent.mkdir(parents=True)
    py_compile.compile(os.fspath(repo.path / "shop/__init__.py"), os.fspath(repo.path / "shop" / name))

    found = verify(VerifyRequest(repo.path), NullObserver())

    assert found.error is not None
    assert f"shop/{name}" in found.error.message


def test_bytecode_that_is_loaded_without_a_look_at_its_source_is_a_part_of_the_change(repo: Repo) -> None:
    repo.write("reflectloop.toml", CHECK)
    repo.write("shop/__init__.py", "PRICE = 10\n")
    repo.commit("a shop")
    repo.write("shop/__init__.py", "PRICE = 10  # euros\n")
    py_compile.compile(os.fspath(repo.path / "shop/__init__.py"), invalidation_mode=_MODES.UNCHECKED_HASH)

    found = verify(VerifyRequest(repo.path), NullObserver())

    assert found.error is not None
    assert "shop/__pycache__/" in found.error.message
