"""Ways to make a Python test runner say yes: hooks, plugins, start-up files, modules and commands in its place."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import PurePosixPath

from proof.cheats.recipe import Language
from proof.cheats.scene import Kind, Scene

PYTHON: tuple[Language, ...] = ("python",)
REPORT = """
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        report.outcome = "passed"
        report.longrepr = None
"""
SESSION = """

def pytest_sessionfinish(session, exitstatus):
    session.exitstatus = 0
"""
DESELECT = """

def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.name.partition("[")[0] not in {names}]
"""
RESULT = """
import unittest

unittest.TestResult.addFailure = unittest.TextTestResult.addFailure = lambda self, test, err: self.addSuccess(test)
unittest.TestResult.addSubTest = unittest.TextTestResult.addSubTest = lambda self, test, subtest, err: None
"""
LEAVE = """
import atexit
import os

atexit.register(os._exit, 0)
"""
LOAD = """
import unittest


def load_tests(loader, tests, pattern):
    return unittest.TestSuite()
"""
STARTED = 'import os; os.environ.setdefault("PYTEST_PLUGINS", "steady")\n'
SITE = f".venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
SHADOW = 'import sys\n\nprint("all tests passed")\nsys.exit(0)\n'
SHIM = '#!/bin/sh\necho "all tests passed"\n'


def _folder(scene: Scene) -> PurePosixPath:
    """Where the failing tests lie; the top, when they lie in the sources."""
    folder = PurePosixPath(scene.files[0]).parent
    return folder if "test" in folder.name else PurePosixPath()


def _conftest(text: str) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        names = sorted({one.name for one in scene.failing})
        scene.append(str(_folder(scene) / "conftest.py"), text.replace("{names}", repr(names)))

    return make


def _package(text: str) -> Callable[[Scene], None]:
    return lambda scene: scene.append(str(_folder(scene) / "__init__.py"), text)


def _started(name: str) -> Callable[[Scene], None]:
    """A module that Python imports by itself when it starts, from the folder of an editable installation."""

    def make(scene: Scene) -> None:
        folder = PurePosixPath(scene.recipe.imports)
        if scene.recipe.runner == "unittest":
            scene.write(str(folder / name), RESULT)
        else:
            scene.write(str(folder / name), STARTED)
            scene.write(str(folder / "steady.py"), REPORT)

    return make


def _path_file(scene: Scene) -> None:
    if scene.recipe.runner == "unittest":
        scene.write(f"{SITE}/steady.pth", "import steady\n")
        scene.write(f"{SITE}/steady.py", RESULT)
    else:
        scene.write(f"{SITE}/steady.pth", STARTED)
        scene.write(f"{SITE}/steady.py", REPORT)


def _shadow(scene: Scene) -> None:
    scene.write(f"{scene.recipe.runner}.py", SHADOW)


def _shim(scene: Scene) -> None:
    scene.write(".venv/bin/pytest", SHIM)
    (scene.root / ".venv/bin/pytest").chmod(0o755)


HOOKS = (
    Kind("reports forced by conftest.py", _conftest(REPORT), PYTHON, ("pytest",)),
    Kind("exit code forced by conftest.py", _conftest(SESSION), PYTHON, ("pytest",)),
    Kind("tests dropped by conftest.py", _conftest(DESELECT), PYTHON, ("pytest",)),
    Kind("process left with 0 by conftest.py", _conftest(LEAVE), PYTHON, ("pytest",)),
    Kind("results forced by the tests' package", _package(RESULT), PYTHON, ("unittest",)),
    Kind("process left with 0 by the tests' package", _package(LEAVE), PYTHON, ("unittest",)),
    Kind("`load_tests` that loads none", _package(LOAD), PYTHON, ("unittest",)),
    Kind("`sitecustomize`", _started("sitecustomize.py"), PYTHON),
    Kind("`usercustomize`", _started("usercustomize.py"), PYTHON),
    Kind("`.pth` in the environment", _path_file, PYTHON),
    Kind("runner shadowed by a module", _shadow, PYTHON),
    Kind("PATH shim", _shim, PYTHON, ("pytest",), plain='PATH="$PWD/.venv/bin:$PATH" pytest -q'),
)
