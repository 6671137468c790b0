"""unittest, doctest, and Django's runner of tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path, PurePosixPath

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools import record
from reflectloop.verification.tools.hints import of_tool
from reflectloop.verification.tools.project import ProjectPart
from reflectloop.verification.tools.python import ENDINGS, LOOKED_AT, TEST_FILE
from reflectloop.verification.tools.record import Hint
from reflectloop.verification.tools.selectors import wanted


def _find(part: ProjectPart, project_hints: list[Hint]) -> DetectedCheck | None:
    runs = of_tool(project_hints, "unittest")
    if runs:
        command = ("python", "-m", "unittest", *runs.call.arguments)
        return part.check("unittest", "test", "unittest", command, f"{runs.source} runs unittest")
    tests = list(part.matching(TEST_FILE))
    case = next((path for path in islice(tests, LOOKED_AT) if _is_case(part.text(path))), None)
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


def _find_django(part: ProjectPart, project_hints: list[Hint]) -> DetectedCheck | None:  # noqa: ARG001
    tests = list(part.matching(TEST_FILE))
    if tests and "django" in part.text("manage.py"):
        return part.check("django", "test", "django", ("python", "manage.py", "test"), "manage.py belongs to Django")
    return None


def _select(tests: Sequence[str]) -> tuple[str, ...]:
    """Select by pattern, since the names depend on the folder discovery starts in."""
    out: list[str] = []
    for test in tests:
        part = wanted(test)
        name = part.name or ""
        if part.file:
            stem = PurePosixPath(part.file).stem
            name = f"*{stem}.{name.replace('::', '.') or '*'}"
        out += ["-k", name]
    return tuple(out)


def _select_django(tests: Sequence[str]) -> tuple[str, ...]:
    return tuple(_dotted(test) for test in tests)


def _dotted(test: str) -> str:
    part = wanted(test)
    module = ".".join(PurePosixPath(part.file).with_suffix("").parts) if part.file else ""
    return ".".join(word for word in (module, (part.name or "").replace("::", ".")) if word)


TOOLS = (
    record.Tool(
        name="unittest",
        kind="test",
        precedence=20,
        call=record.Call(modules=("unittest",)),
        run=record.Run(
            format="junit",
            place="file",
            arguments=("-v",),
            stand_in=Path(__file__).with_name("unittest_report.py"),
            valued=frozenset(record.words("-s -t -p -k --start-directory --pattern")),
        ),
        select=record.Selector(_select, replaces=False),
        endings=ENDINGS,
        detect=record.PythonTool(find=_find),
        output=record.Output(
            kinds=(("test", "unittest"),),
            text=record.TextFormat(
                "unittest",
                ("Ran ",),
                r"^Ran \d+ tests? in [\d.]+s\n+(?:OK|FAILED|NO TESTS RAN)(?: \(.*\))?$",
                folded=(
                    r"^(\w+ \([\w.]+\))\n(?!\w+ \([\w.]+\)).+ \.\.\. (ok|skipped|expected failure)\b",
                    r"\1 ... \2",
                ),
                cases=(
                    (r"^(?P<test>\w+ \([\w.]+\)) \.\.\. ok$", "passed"),
                    (r"^(?P<test>\w+ \([\w.]+\)) \.\.\. skipped\b", "skipped"),
                    (r"^(?P<test>\w+ \([\w.]+\)) \.\.\. expected failure$", "xfailed"),
                    (r"^FAIL: (?P<test>.+)$", "failed"),
                    (r"^ERROR: (?P<test>.+)$", "error"),
                ),
                block=r"^(?:FAIL|ERROR): (?P<test>.+)$",
                ends=r"^={20,}$|^Ran \d+ tests?",
                unloaded=r"unittest\.loader\._FailedTest|^ImportError: Failed to import test module: .*$",
            ),
            none_collected=5,  # since Python 3.12
        ),
        files=record.Files(
            runner="unittest.cfg",
            modules="unittest unittest2 mock testtools zope twisted",
            executables="unittest",
            pyproject="unittest",
            commands="unittest",
        ),
        tampering=record.Tampering(imports=("unittest",)),
    ),
    record.Tool(
        name="doctest",
        kind="test",
        output=record.Output(
            kinds=(("test", "doctest"),),
            text=record.TextFormat(
                "doctest",
                ("***Test Failed***", "Failed example:", "Test passed."),
                r"^\*\*\*Test Failed\*\*\* \d+ failures?.*$|^\d+ passed(?: and \d+ failed)?\.$|^\d+ passed\.$",
                block=r'^File "[^"]+", line \d+, in (?P<test>.+)$',
                ends=r"^\*{20,}$",
            ),
        ),
        files=record.Files(modules="doctest"),
        tampering=record.Tampering(imports=("doctest",)),
    ),
    record.Tool(
        name="django",
        kind="test",
        precedence=30,
        call=record.Call(python_scripts=("manage.py test",)),
        run=record.Run(
            arguments=("--verbosity=2", "--noinput"), valued=frozenset(record.words("-v -k -p -t --settings --tag"))
        ),
        select=record.Selector(_select_django),
        endings=ENDINGS,
        detect=record.PythonTool(find=_find_django),
        files=record.Files(pyproject="django-stubs"),
    ),
)
