"""Python tests: pytest, unittest, Django's runner; tox and nox if nothing simpler is detected."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

from reflectloop.verification.detect import python_lint
from reflectloop.verification.detect.hints import Hint, hints, of_tool
from reflectloop.verification.detect.part import ProjectPart, at
from reflectloop.verification.result import DetectedCheck

MANIFESTS = (r"^(pyproject\.toml|setup\.py|setup\.cfg|tox\.ini|pytest\.ini|noxfile\.py)$",)
_TEST_FILE = r"(^|/)(test_[^/]*|[^/]*_tests?|tests?)\.py$"
_PYTEST_FILE = re.compile(r"^\s*(import pytest|from pytest )|^(async )?def test_|^class Test\w*(\(\))?:", re.MULTILINE)
_NEEDS = r"^(requirements|reqs?)[^/]*(/[^/]+)?\.(txt|in)$|^(Pipfile|setup\.py|setup\.cfg|pyproject\.toml|tox\.ini)$"
_NEEDS_PYTEST = re.compile(
    r"""^[\s"'\[]*pytest(\[[\w,]+\])?\s*([<>=~!;"',\]#].*)?$|["'\s]pytest["'<>=~]""", re.MULTILINE
)
_EXTENSION = re.compile(r"\b(Extension\s*\(|ext_modules\s*=|cythonize\s*\(|cffi_modules\s*=)")
_LOOKED_AT = 60  # number of test files read
# Options that select tests; others (coverage, verbosity, workers) are not needed.
_SELECTING = (
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
_WITHOUT_VALUE = ("--pyargs", "--doctest-modules")


class _Sign(NamedTuple):
    """A reason to use pytest, and the configured test paths."""

    reason: str
    testpaths: tuple[str, ...] = ()


class _Choice(NamedTuple):
    """The selecting arguments of a command, and the paths it names."""

    arguments: tuple[str, ...]
    named: tuple[str, ...]  # files and folders


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    project_hints = hints(part)
    yield from _build(part)
    yield from python_lint.found(part, project_hints)
    tests = _pytest(part, project_hints) or _django(part) or _unittest(part, project_hints) or _environment(part)
    if tests:
        yield tests


def covers(part: ProjectPart, folder: str) -> bool:
    """Return True if this part's tests include those of a folder below it."""
    sign = _configured(part)
    if sign is None or next(part.matching(_TEST_FILE), None) is None:
        return False
    below = PurePosixPath(folder).relative_to(part.folder)
    return not sign.testpaths or any(_reaches(path, below) for path in sign.testpaths)


def _reaches(testpath: str, below: PurePosixPath) -> bool:
    parts = PurePosixPath(testpath).parts
    return all(fnmatch(name, pattern) for name, pattern in zip(below.parts, parts, strict=False))


def _build(part: ProjectPart) -> Iterator[DetectedCheck]:
    script = part.text("setup.py")
    table = at(part.toml("pyproject.toml"), "tool", "setuptools", "ext-modules")
    if _EXTENSION.search(script) or (table and script):
        command = ("python", "setup.py", "build_ext", "--inplace")
        yield part.check("build-ext", "build", "setuptools", command, "setup.py builds extension modules")


def _pytest(part: ProjectPart, project_hints: list[Hint]) -> DetectedCheck | None:
    tests = list(part.matching(_TEST_FILE))
    runs = next(
        (hint for hint in project_hints if hint.call.tool == "pytest" and not _is_minor(part, hint, tests)), None
    )
    sign = _configured(part) or _ran(runs) or _needed(part, tests) or _written(part, tests)
    if sign is None:
        return None
    arguments = () if sign.testpaths or runs is None else _selection(part, runs).arguments
    return part.check("pytest", "test", "pytest", (*_called(project_hints), *arguments), sign.reason)


def _configured(part: ProjectPart) -> _Sign | None:
    options = at(part.toml("pyproject.toml"), "tool", "pytest", "ini_options")
    native = at(part.toml("pyproject.toml"), "tool", "pytest")
    if native is not None:
        section = "[tool.pytest.ini_options]" if options is not None else "[tool.pytest]"
        return _Sign(
            f"pyproject.toml has {section}", _as_words(at(options if options is not None else native, "testpaths"))
        )
    for name, section in (
        ("pytest.ini", "pytest"),
        (".pytest.ini", "pytest"),
        ("tox.ini", "pytest"),
        ("setup.cfg", "tool:pytest"),
    ):
        settings = part.ini(name)
        if section in settings:
            return _Sign(f"{name} has [{section}]", _as_words(settings[section].get("testpaths")))
    config_file = part.first(("pytest.ini", "pytest.toml", "conftest.py", "tests/conftest.py", "test/conftest.py"))
    return _Sign(f"{config_file} belongs to pytest") if config_file else None


def _as_words(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _ran(runs: Hint | None) -> _Sign | None:
    return _Sign(f"{runs.source} runs pytest") if runs else None


def _needed(part: ProjectPart, tests: list[str]) -> _Sign | None:
    """Return a sign if pytest is a dependency and there are tests; a pytest plugin without tests needs it too."""
    if not tests:
        return None
    name = next((path for path in part.matching(_NEEDS) if _NEEDS_PYTEST.search(part.text(path))), None)
    return _Sign(f"{name} requires pytest") if name else None


def _written(part: ProjectPart, tests: list[str]) -> _Sign | None:
    """Return a sign if most test files look like pytest; suites of test cases may have some plain functions."""
    texts = {path: part.text(path) for path in islice(tests, _LOOKED_AT)}
    cases = [path for path, text in texts.items() if "TestCase" in text]
    plain = [path for path, text in texts.items() if path not in cases and _PYTEST_FILE.search(text)]
    return _Sign(f"{plain[0]} looks like pytest") if len(plain) > len(cases) else None


def _called(project_hints: list[Hint]) -> tuple[str, ...]:
    """Return `python -m pytest` if the project always uses it, since it adds the current folder to the path."""
    leads = [hint.call.lead for hint in project_hints if hint.call.tool == "pytest"]
    by_module = [lead[-2:] == ("-m", "pytest") and "coverage" not in lead for lead in leads]
    return ("python", "-m", "pytest") if leads and all(by_module) else ("pytest",)


def _is_minor(part: ProjectPart, runs: Hint, tests: list[str]) -> bool:
    """Return True if a command runs fewer than half of the tests, such as benchmarks or a plugin."""
    named = _selection(part, runs).named
    reached = [test for test in tests if any(test == path or test.startswith(f"{path}/") for path in named)]
    return bool(named) and 2 * len(reached) < len(tests)


def _selection(part: ProjectPart, runs: Hint) -> _Choice:
    selected: list[str] = []
    named: list[str] = []
    arguments = list(runs.call.arguments)
    while arguments:
        argument = arguments.pop(0)
        option = argument.split("=", 1)[0]
        if option in _SELECTING:
            selected.append(argument)
            if "=" not in argument and option not in _WITHOUT_VALUE and arguments:
                selected.append(arguments.pop(0))
        elif part.first([argument]) or part.has_folder(argument.rstrip("/")):
            selected.append(argument)
            named.append(argument.rstrip("/"))
        elif argument.endswith("/"):  # a missing folder counts as a named one
            named.append(argument.rstrip("/"))
    return _Choice(tuple(selected), tuple(named))


def _django(part: ProjectPart) -> DetectedCheck | None:
    tests = list(part.matching(_TEST_FILE))
    if tests and "django" in part.text("manage.py"):
        return part.check("django", "test", "django", ("python", "manage.py", "test"), "manage.py belongs to Django")
    return None


def _unittest(part: ProjectPart, project_hints: list[Hint]) -> DetectedCheck | None:
    runs = of_tool(project_hints, "unittest")
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


def _discovery(part: ProjectPart, tests: list[str]) -> tuple[str, ...]:
    """Return the discovery command for the folder with most tests, starting above it if it is a package."""
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


def _environment(part: ProjectPart) -> DetectedCheck | None:
    for tool, name in (("tox", "tox.ini"), ("tox", "tox.toml"), ("nox", "noxfile.py")):
        if part.first([name]):
            return part.check(tool, "test", tool, (tool,), f"{name} exists, and nothing simpler")
    return None
