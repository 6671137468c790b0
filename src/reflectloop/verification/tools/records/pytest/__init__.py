"""pytest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.json_values import dicts, table, text_of
from reflectloop.verification.tools.project import ProjectPart, at
from reflectloop.verification.tools.python import ENDINGS, LOOKED_AT, TEST_FILE
from reflectloop.verification.tools.record import Hint
from reflectloop.verification.tools.selectors import unchanged

_LOOKS_LIKE_IT = lazy(r"^\s*(import pytest|from pytest )|^(async )?def test_|^class Test\w*(\(\))?:", re.MULTILINE)
_NEEDS = r"^(requirements|reqs?)[^/]*(/[^/]+)?\.(txt|in)$|^(Pipfile|setup\.py|setup\.cfg|pyproject\.toml|tox\.ini)$"
_REQUIRED = lazy(r"""^[\s"'\[]*pytest(\[[\w,]+\])?\s*([<>=~!;"',\]#].*)?$|["'\s]pytest["'<>=~]""", re.MULTILINE)
# Options that select tests; others (coverage, verbosity, workers) are not needed.
_SELECTING = record.words("-m -k -c --ignore --deselect --doctest-glob --import-mode --pyargs --doctest-modules")
_WITHOUT_VALUE = ("--pyargs", "--doctest-modules")


class _Sign(NamedTuple):
    """A reason to use pytest, and the configured test paths."""

    reason: str
    testpaths: tuple[str, ...] = ()


class _Choice(NamedTuple):
    """The selecting arguments of a command, and the paths it names."""

    arguments: tuple[str, ...]
    named: tuple[str, ...]  # files and folders


def _find(part: ProjectPart, project_hints: list[Hint]) -> DetectedCheck | None:
    tests = list(part.matching(TEST_FILE))
    runs = next(
        (hint for hint in project_hints if hint.call.tool == "pytest" and not _is_minor(part, hint, tests)), None
    )
    sign = _configured(part) or _ran(runs) or _needed(part, tests) or _written(part, tests)
    if sign is None:
        return None
    arguments = () if sign.testpaths or runs is None else _selection(part, runs).arguments
    return part.check("pytest", "test", "pytest", (*_called(project_hints), *arguments), sign.reason)


def _covers(part: ProjectPart, folder: str) -> bool:
    """Return True if this part's tests include those of a folder below it."""
    sign = _configured(part)
    if sign is None or next(part.matching(TEST_FILE), None) is None:
        return False
    below = PurePosixPath(folder).relative_to(part.folder)
    return not sign.testpaths or any(_reaches(path, below) for path in sign.testpaths)


def _reaches(testpath: str, below: PurePosixPath) -> bool:
    parts = PurePosixPath(testpath).parts
    return all(fnmatch(name, pattern) for name, pattern in zip(below.parts, parts, strict=False))


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
    name = next((path for path in part.matching(_NEEDS) if _REQUIRED.search(part.text(path))), None)
    return _Sign(f"{name} requires pytest") if name else None


def _written(part: ProjectPart, tests: list[str]) -> _Sign | None:
    """Return a sign if most test files look like pytest; suites of test cases may have some plain functions."""
    texts = {path: part.text(path) for path in islice(tests, LOOKED_AT)}
    cases = [path for path, text in texts.items() if "TestCase" in text]
    plain = [path for path, text in texts.items() if path not in cases and _LOOKS_LIKE_IT.search(text)]
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


def _json(root: Mapping[str, Any]) -> Iterator[record.TestEntry]:
    for collector in dicts(root.get("collectors")):
        if collector.get("outcome") == "failed":
            name = text_of(collector.get("nodeid"))
            yield record.TestEntry("error", id=name, text=text_of(collector.get("longrepr")), unloaded=True)
    for test in dicts(root.get("tests")):
        phases = [table(test.get(when)) for when in ("call", "setup", "teardown")]
        broken = next((phase for phase in phases if phase.get("outcome") == "failed"), {})
        yield record.TestEntry(
            text_of(test.get("outcome")), id=text_of(test.get("nodeid")), text=text_of(broken.get("longrepr"))
        )


def _read_text(text: str, lines: list[str]) -> Any:  # noqa: ANN401
    from reflectloop.verification.tools.records.pytest import report  # noqa: PLC0415 - a parser is loaded when a log is read

    return report.read(text, lines)


def _passed_in_log(log: str) -> frozenset[str]:
    from reflectloop.verification.tools.records.pytest import report  # noqa: PLC0415

    return report.passed(log)


def _read_events(events: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    from reflectloop.verification.tools.records.pytest import report  # noqa: PLC0415

    return report.read_events(events)


_MODULES = (
    "pytest _pytest pluggy iniconfig exceptiongroup xdist execnet pytest_cov pytest_asyncio pytest_mock pytest_timeout "
    "pytest_xdist _hypothesis_pytestplugin hypothesis anyio trio syrupy freezegun responses py attr attrs packaging "
    "pygments colorama tomli importlib_metadata"
)

TOOLS = (
    record.Tool(
        name="pytest",
        kind="test",
        precedence=140,
        call=record.Call(
            programs=("pytest", "py.test"), modules=("pytest",), python_program="pytest", python_module=True
        ),
        run=record.Run(
            format="junit",
            place="file",
            arguments=(
                "--junitxml={report}",
                "-o",
                "junit_family=xunit1",  # the only family that contains the file name
                "-o",
                "junit_logging=no",
                "-ocache_dir={kept}",  # not `-p no:cacheprovider`: `--ff` in addopts and plugins need the cache
                "--maxfail=0",  # every test gets an outcome, even if the project stops early
                "--color=no",
                "--continue-on-collection-errors",  # one file that cannot be loaded hides no other result
                "-rfEsxXp",  # the report calls a test skipped if a part of it is: the log says which passed
            ),
            refused_beside={"no:cacheprovider": "-ocache_dir={kept}"},  # strict configuration has no such setting then
            valued=frozenset(
                record.words("-k -m -c -p -o -n -W -r --rootdir --confcutdir --ignore --deselect --cov --maxfail --tb")
            ),
        ),
        select=record.Selector(unchanged),
        endings=ENDINGS,
        detect=record.PythonTool(find=_find, covers=_covers, manifests=("pytest.ini",)),
        output=record.Output(
            kinds=(("test", "pytest"),),
            read_text=_read_text,
            json=(record.JsonFormat(frozenset({"tests", "exitcode"}), _json),),
            events=(record.EventFormat(lambda event: "$report_type" in event, _read_events),),
            junit_names=("pytest",),
            dotted_junit_ids=True,
            none_collected=5,
            passed_in_log=_passed_in_log,
        ),
        files=record.Files(
            runner="pytest.ini .pytest.ini pytest.toml .pytest.toml",
            hooks="conftest.py",
            snapshots="*.ambr",
            artefact_folders=".pytest_cache .hypothesis",
            tests="test_*.py *_test.py tests.py test.py",
            modules=_MODULES,
            executables="pytest py.test",
            pyproject="pytest pytest-*",
            pyproject_nested="ini_options",
            ini_sections=r"(?:tool:)?pytest",
            commands=r"pytest|py\.test",
            script_names="pytest",
            parts=(record.PartReader(r"\.?pytest\.toml", "toml"), record.PartReader(r"\.?pytest\.ini", "ini")),
        ),
        tampering=record.Tampering(
            settings=(
                record.SettingRule(r"(?:.*\.)?addopts", "options"),
                record.SettingRule(r"(?:.*\.)?filterwarnings", "filters"),
                record.SettingRule(r"(?:.*\.)?norecursedirs", "excluding"),
                record.SettingRule(r"(?:.*\.)?pythonpath", "import_paths"),
                record.SettingRule(
                    r"(?:.*\.)?(?:testpaths|python_files|python_classes|python_functions)", "including_all"
                ),
                record.SettingRule(r"(?:.*\.)?(?:xfail_strict|empty_parameter_set_mark)", "strict_when_true"),
                record.SettingRule(
                    r"(?:pytest|tool:pytest)\.(?:markers|minversion|log_\w+|junit_\w+|console_output_style|"
                    r"required_plugins|cache_dir|asyncio_\w+|anyio_mode|timeout\w*|usefixtures_help|"
                    r"faulthandler_timeout|faulthandler_exit_on_timeout|doctest_\w+|python_paths|verbosity_\w+|"
                    r"tmp_path_\w+|env_files|strict_\w+|django_\w+|DJANGO_\w+|mypy_\w+|xvfb_\w+|qt_\w+|"
                    r"consider_namespace_packages|disable_test_id_escaping_\w+|truncation_limit_\w+|"
                    r"assertion_text_diff_style|tmp_path_retention_\w+)",
                    "harmless",
                ),
            ),
            narrows=(
                *("-k", "-m", r"--ignore\S*", r"--deselect\S*", "-x", "--exitfirst", r"--maxfail\S*", "-p", "--co"),
                *("--collect-only", "--lf", r"--last-failed\S*", "--ff", "--nf", "--sw", r"--stepwise\S*", "-c"),
                *(r"--rootdir\S*", r"--confcutdir\S*", r"--override-ini\S*", "-o", "--noconftest", "--runxfail"),
                *(r"--no-cov\S*", "--disable-warnings", "--disable-pytest-warnings"),
                *(r"-W\S*", r"--pythonwarnings\S*", "--pyargs"),
            ),
            stricter=(
                *(r"-r[a-zA-Z]*", r"--tb\S*", r"--durations\S*", "--cov", r"--cov=\S*", r"--cov-report\S*"),
                r"--cov-fail-under\S*",
                *("--cov-branch", r"--cov-config\S*", r"--cov-context\S*", r"--doctest-\S*", "--showlocals", "-l"),
                *("-s", "-n", r"-n\S+", r"--numprocesses\S*", r"--dist\S*", r"--junit\S*", r"--benchmark-\S*"),
                *(r"--randomly\S*", r"-p no:cacheprovider", r"--capture\S*", r"--pdbcls\S*", r"--hypothesis-\S*"),
                *("--instafail", r"--html\S*", r"--xdoctest\S*", r"--asyncio-mode\S*", "--no-header", "--no-summary"),
                r"--import-mode\S*",
                r"-o (?:junit|log|console|cache)\w*=\S*",
            ),
            valued_flags=record.words(
                "-k -m -p -c -o -W -n -r --ignore --deselect --maxfail --cov --cov-report --cov-config "
                "--cov-fail-under --tb --junitxml --junit-xml --durations --basetemp --timeout --rootdir"
            ),
            source_signs=(
                record.SourceSign(
                    r"PYTEST_(?:CURRENT_TEST|VERSION|XDIST_\w+|ADDOPTS|RUN_CONFIG)", "asks whether pytest runs it"
                ),
            ),
            imports=("pytest", "_pytest", "hypothesis"),
        ),
    ),
)
