"""Python's tests: pytest, unittest, Django's runner; tox and nox where nothing plainer is to be seen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from reflectloop.verify.detect import python_lint
from reflectloop.verify.detect.hints import Hint, hints, of_tool
from reflectloop.verify.detect.part import Part, at
from reflectloop.verify.result import Detected

MANIFESTS = (r"^(pyproject\.toml|setup\.py|setup\.cfg|tox\.ini|pytest\.ini|noxfile\.py)$",)
_TEST_FILE = r"(^|/)(test_[^/]*|[^/]*_tests?|tests?)\.py$"
_PYTEST_FILE = re.compile(r"^\s*(import pytest|from pytest )|^(async )?def test_|^class Test\w*(\(\))?:", re.MULTILINE)
_NEEDS = r"^(requirements|reqs?)[^/]*(/[^/]+)?\.(txt|in)$|^(Pipfile|setup\.py|setup\.cfg|pyproject\.toml|tox\.ini)$"
_NEEDS_PYTEST = re.compile(
    r"""^[\s"'\[]*pytest(\[[\w,]+\])?\s*([<>=~!;"',\]#].*)?$|["'\s]pytest["'<>=~]""", re.MULTILINE
)
_EXTENSION = re.compile(r"\b(Extension\s*\(|ext_modules\s*=|cythonize\s*\(|cffi_modules\s*=)")
_LOOKED_AT = 60  # test files read before we give up guessing
# Options that say what is run; the others (coverage, verbosity, workers) are the project's comfort.
_CHOOSING = (
    "-m",
    "-k",
    "-c",
    "--ignore",
    "--deselect",
    "--doctest-glob",
    "--import-mode",
    "--pyargs",
    "--doctest-modules",
)
_ALONE = ("--pyargs", "--doctest-modules")


class _Sign(NamedTuple):
    reason: str
    testpaths: tuple[str, ...] = ()


class _Choice(NamedTuple):
    words: tuple[str, ...]
    named: tuple[str, ...]  # files and folders


def found(part: Part) -> Iterator[Detected]:
    own = hints(part)
    yield from _build(part)
    yield from python_lint.found(part, own)
    tests = _pytest(part, own) or _django(part) or _unittest(part, own) or _environment(part)
    if tests:
        yield tests


def covers(part: Part, folder: str) -> bool:
    """Whether the tests of this part are also those of a folder below it."""
    sign = _configured(part)
    if sign is None or next(part.matching(_TEST_FILE), None) is None:
        return False
    below = PurePosixPath(folder).relative_to(part.folder)
    return not sign.testpaths or any(_reaches(path, below) for path in sign.testpaths)


def _reaches(testpath: str, below: PurePosixPath) -> bool:
    parts = PurePosixPath(testpath).parts
    return all(fnmatch(name, pattern) for name, pattern in zip(below.parts, parts, strict=False))


def _build(part: Part) -> Iterator[Detected]:
    script = part.text("setup.py")
    table = at(part.toml("pyproject.toml"), "tool", "setuptools", "ext-modules")
    if _EXTENSION.search(script) or (table and script):
        command = ("python", "setup.py", "build_ext", "--inplace")
        yield part.check("build-ext", "build", "setuptools", command, "setup.py builds extension modules")


def _pytest(part: Part, own: list[Hint]) -> Detected | None:
    tests = list(part.matching(_TEST_FILE))
    runs = next((hint for hint in own if hint.call.tool == "pytest" and not _corner(part, hint, tests)), None)
    sign = _configured(part) or _ran(runs) or _needed(part, tests) or _written(part, tests)
    if sign is None:
        return None
    arguments = () if sign.testpaths or runs is None else _choosing(part, runs).words
    return part.check("pytest", "test", "pytest", (*_called(own), *arguments), sign.reason)


def _configured(part: Part) -> _Sign | None:
    options = at(part.toml("pyproject.toml"), "tool", "pytest", "ini_options")
    native = at(part.toml("pyproject.toml"), "tool", "pytest")
    if native is not None:
        section = "[tool.pytest.ini_options]" if options is not None else "[tool.pytest]"
        return _Sign(
            f"pyproject.toml has {section}", _words(at(options if options is not None else native, "testpaths"))
        )
    for name, section in (
        ("pytest.ini", "pytest"),
        (".pytest.ini", "pytest"),
        ("tox.ini", "pytest"),
        ("setup.cfg", "tool:pytest"),
    ):
        settings = part.ini(name)
        if section in settings:
            return _Sign(f"{name} has [{section}]", _words(settings[section].get("testpaths")))
    own = part.first(("pytest.ini", "pytest.toml", "conftest.py", "tests/conftest.py", "test/conftest.py"))
    return _Sign(f"{own} is pytest's") if own else None


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(str(one) for one in value) if isinstance(value, list) else ()


def _ran(runs: Hint | None) -> _Sign | None:
    return _Sign(f"{runs.source} runs pytest") if runs else None


def _needed(part: Part, tests: list[str]) -> _Sign | None:
    """Named as a dependency; alone it says nothing, since a plugin of pytest needs it too."""
    if not tests:
        return None
    name = next((path for path in part.matching(_NEEDS) if _NEEDS_PYTEST.search(part.text(path))), None)
    return _Sign(f"{name} asks for pytest") if name else None


def _written(part: Part, tests: list[str]) -> _Sign | None:
    """By the greater part: a suite of test cases has a plain function here and there."""
    texts = {path: part.text(path) for path in islice(tests, _LOOKED_AT)}
    cases = [path for path, text in texts.items() if "TestCase" in text]
    plain = [path for path, text in texts.items() if path not in cases and _PYTEST_FILE.search(text)]
    return _Sign(f"{plain[0]} looks like pytest") if len(plain) > len(cases) else None


def _called(own: list[Hint]) -> tuple[str, ...]:
    """`python -m pytest` finds modules in the folder it starts in, `pytest` does not: as the project has it."""
    leads = [hint.call.lead for hint in own if hint.call.tool == "pytest"]
    by_module = [lead[-2:] == ("-m", "pytest") and "coverage" not in lead for lead in leads]
    return ("python", "-m", "pytest") if leads and all(by_module) else ("pytest",)


def _corner(part: Part, runs: Hint, tests: list[str]) -> bool:
    """Benchmarks, a plugin: fewer than half of the tests, run in an environment of their own."""
    named = _choosing(part, runs).named
    reached = [test for test in tests if any(test == path or test.startswith(f"{path}/") for path in named)]
    return bool(named) and 2 * len(reached) < len(tests)


def _choosing(part: Part, runs: Hint) -> _Choice:
    kept: list[str] = []
    named: list[str] = []
    words = list(runs.call.arguments)
    while words:
        word = words.pop(0)
        option = word.split("=", 1)[0]
        if option in _CHOOSING:
            kept.append(word)
            if "=" not in word and option not in _ALONE and words:
                kept.append(words.pop(0))
        elif part.first([word]) or part.has_folder(word.rstrip("/")):
            kept.append(word)
            named.append(word.rstrip("/"))
        elif word.endswith("/"):  # a folder that is not here is a corner too
            named.append(word.rstrip("/"))
    return _Choice(tuple(kept), tuple(named))


def _django(part: Part) -> Detected | None:
    tests = list(part.matching(_TEST_FILE))
    if tests and "django" in part.text("manage.py"):
        return part.check("django", "test", "django", ("python", "manage.py", "test"), "manage.py is Django's")
    return None


def _unittest(part: Part, own: list[Hint]) -> Detected | None:
    runs = of_tool(own, "unittest")
    if runs:
        command = ("python", "-m", "unittest", *runs.call.arguments)
        return part.check("unittest", "test", "unittest", command, f"{runs.source} runs unittest")
    tests = list(part.matching(_TEST_FILE))
    case = next((path for path in islice(tests, _LOOKED_AT) if _is_case(part.text(path))), None)
    if case is None:
        return None
    return part.check("unittest", "test", "unittest", _discovery(part, tests), f"{case} looks like unittest")


def _is_case(text: str) -> bool:
    return "unittest" in text and "TestCase" in text


def _discovery(part: Part, tests: list[str]) -> tuple[str, ...]:
    """Discovery starts in the folder that holds most of the tests, from above it where that is a package."""
    start, count = Counter(_start(path) for path in tests).most_common(1)[0]
    named = [path.rpartition("/")[2] for path in tests if _start(path) == start]
    usual = 2 * sum(fnmatch(name, "test*.py") for name in named) >= count
    where = () if start == "." else ("-s", start)
    packaged = bool(where and part.first([f"{start}/__init__.py"]))
    above = ("-t", str(PurePosixPath(start).parent)) if packaged else ()
    return ("python", "-m", "unittest", "discover", *where, *above, *(() if usual else ("-p", "*_test*.py")))


def _start(path: str) -> str:
    folders = PurePosixPath(path).parts[:-1]
    return "/".join(folders[: 2 if folders[:1] == ("src",) else 1]) or "."


def _environment(part: Part) -> Detected | None:
    for tool, name in (("tox", "tox.ini"), ("tox", "tox.toml"), ("nox", "noxfile.py")):
        if part.first([name]):
            return part.check(tool, "test", tool, (tool,), f"{name} is there, and nothing plainer")
    return None
