"""A set-up runs base's manifests; one that the change makes for itself is put to a person by name."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reflectloop.engine.run.request import NullObserver
from reflectloop.system import files
from reflectloop.verification import protected, setup, setup_code
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.strands import Strands
from support import Repo
from test_environment import TEST, Package

SETUP = (
    "from setuptools import setup\n\nversion = '1.0'\nsetup(name='pkg', version=version, install_requires=['a>=1'])\n"
)
# Installs the package, as far as a test needs: what it writes starts with the interpreter or not.
INSTALL = "import glob\n\n[site] = glob.glob('.venv/lib/python3*/site-packages')\nopen(f'{{site}}/{name}', 'w').write({text!r})\n"
SETTINGS = '[verify]\nsetup = [["python3", "-m", "venv", "--without-pip", ".venv"], ["python3", "setup.py"]]\n'


@pytest.mark.parametrize(
    ("path", "before", "after", "differs"),
    [
        ("setup.py", SETUP, SETUP.replace("1.0", "1.1").replace("a>=1", "a>=2"), False),
        ("setup.py", SETUP, f"# a comment\n{SETUP}", False),
        ("setup.py", SETUP, f"{SETUP}open('x.pth', 'w')\n", True),
        ("setup.py", SETUP, SETUP.replace("name='pkg'", "name='pkg', cmdclass={'install': X}"), True),
        ("setup.py", SETUP, SETUP.replace("'1.0'", "open('x').read()"), True),
        ("setup.py", SETUP, "def (", True),
        ("setup.cfg", "[metadata]\nversion = 1\n[options]\npackages = a\n", "[metadata]\nversion = 2\n", False),
        ("setup.cfg", "", "[options.entry_points]\nconsole_scripts =\n    tool = pkg:main\n", False),
        (
            "setup.cfg",
            "[options.entry_points]\nconsole_scripts =\n    a = pkg:a\n",
            "[options.entry_points]\nconsole_scripts =\n    b = pkg:b\n",
            False,
        ),
        ("setup.cfg", "", "[options.entry_points]\npytest11 =\n    x = pkg.x\n", True),
        ("pyproject.toml", "[project]\nversion = '1'\n", "[project]\nversion = '2'\n[tool.ruff]\nx = 1\n", False),
        ("pyproject.toml", "", "[project.scripts]\ntool = 'pkg:main'\n", False),
        ("pyproject.toml", "", "[build-system]\nbuild-backend = 'own'\nbackend-path = ['.']\n", True),
        ("pyproject.toml", "", "[project.entry-points.pytest11]\nx = 'pkg.x'\n", True),
        ("pyproject.toml", "", "[tool.hatch.build.hooks.custom]\n", True),
        ("hatch_build.py", "x = 1\n", "x = 2\n", True),
        ("pkg/build.rs", "a", "b", True),
        ("pkg/setup_things.py", "a", "b", False),
    ],
)
def test_code_that_a_setup_runs_is_told_from_data(path: str, before: str, after: str, differs: bool) -> None:
    change = ChangedFile(path, before.encode(), after.encode())
    assert setup_code.changed_setup_code([change]) == ([path] if differs else [])


@pytest.fixture
def installed(repo: Repo) -> Package:
    package = Package(repo.path)
    package.git("rm", "-q", "-r", "src")
    package.write("pkg/__init__.py", "def f():\n    return 1\n")
    package.write("test_pkg.py", TEST)
    package.write(".gitignore", ".reflectloop/\n.venv\n")
    package.write("setup.py", INSTALL.format(name="pkg-1.0.pth", text="."))
    package.settings(SETTINGS)
    return package


def rules(package: Package, *, code: int) -> list[str]:
    return [reason["rule"] for reason in package.verify(code=code)["reasons"]]


def test_a_changed_setup_is_put_to_a_person_and_what_it_starts_is_named(installed: Package) -> None:
    installed.write("setup.py", INSTALL.format(name="cheat.pth", text="import os"))
    assert rules(installed, code=33) == ["set-up-changed", "starts-with-the-interpreter"]


def test_a_change_of_the_source_alone_uses_the_installation_of_base(installed: Package) -> None:
    installed.write("pkg/__init__.py", "def f():\n    return 2 - 1\n")
    assert rules(installed, code=0) == []
    assert len([*(installed.path / ".reflectloop" / "cache" / "setup").glob("*/made.json")]) == 1


def test_an_editable_install_of_another_version_starts_nothing_new(tmp_path: Path) -> None:
    made = []
    for side, version in (("base", "1.0"), ("patch", "1.1")):
        site = tmp_path / side / ".venv" / "lib" / "python3.11" / "site-packages"
        site.mkdir(parents=True)
        (site / f"__editable__.pkg-{version}.pth").write_text("/project/src\n")
        made.append(setup_code.start_files({Path(".venv"): tmp_path / side / ".venv"}))
    assert made[0] == made[1] != set()
    (site / "sitecustomize").mkdir()
    (site / "sitecustomize" / "__init__.py").write_text("import os\n")
    more = setup_code.start_files({Path(".venv"): tmp_path / "patch" / ".venv"})
    assert [name for name, _ in more - made[0]] == ["sitecustomize/__init__.py"]


@pytest.mark.parametrize(
    "path", ["src/sitecustomize/__init__.py", "usercustomize.cpython-311-x86_64-linux-gnu.so", "a/sitecustomize.pyc"]
)
def test_a_module_that_starts_with_the_interpreter_is_protected_in_any_form(path: str) -> None:
    assert protected.runs_at_start(path)
    protection = protected.guard(path)
    assert protection is not None
    assert protection.kind == "hook"
    assert not protected.runs_at_start("docs/sitecustomize/index.md")


def test_runs_side_by_side_install_the_same_set_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []
    begun = threading.Event()

    @contextlib.contextmanager
    def opened(tree: str, *_: Any, **__: Any) -> Iterator[str]:
        installed.append(tree)
        yield tree

    def install(*_: Any) -> None:
        with ground.strands.aside():  # as while a command runs
            begun.wait(0.2)

    def store(_box: str, place: Path) -> None:
        (place / "files").mkdir(parents=True)
        files.write_atomic(place / "made.json", json.dumps([]))

    ground: Any = SimpleNamespace(
        settings=SimpleNamespace(verify=SimpleNamespace(setup=(("make",),))),
        open=opened,
        strands=Strands(width=2),
        trees=SimpleNamespace(store=None),
        layers=SimpleNamespace(refuse_damage=lambda _store: None),
    )
    monkeypatch.setattr(setup, "key", lambda *_, **__: "key")
    monkeypatch.setattr(setup, "_install", install)
    monkeypatch.setattr(setup, "_store", store)

    def make() -> Any:
        return setup.made(ground, "tree", "base", tmp_path, tmp_path, NullObserver())

    assert (ground.strands.beside(make, make), installed) == (({}, {}), ["base"])
