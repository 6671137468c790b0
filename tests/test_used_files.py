"""What judges is what the run of base was seen to use, whatever its name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import pytest

from reflectloop.verification import protected
from reflectloop.verification.result import ChangedFile, DetectedCheck, VerificationResult
from reflectloop.verification.test_only_files import find_test_only_files
from reflectloop.verification.used_files import find_used_files
from support import Repo
from test_verify import SETTINGS, Calc

pytestmark = pytest.mark.usefixtures("without_probing")

PYTEST = DetectedCheck("pytest", "test", "pytest", ("pytest",))


def used(
    check: DetectedCheck, tests: Iterable[str], base: Mapping[str, str], *changed: str, new: Iterable[str] = ()
) -> set[str]:
    result = VerificationResult(ok=True, type="passed", summary="", tests=dict.fromkeys(tests, "passed"))
    contents = {path: text.encode() for path, text in base.items()}
    changes = [ChangedFile(path, contents[path], b"new") for path in changed]
    changes += [ChangedFile(path, None, b"new") for path in new]
    read = lambda paths: {path: contents[path] for path in paths if path in contents}  # noqa: E731
    return {*find_used_files([check], {check.name: result}, contents, changes, read)}


def npm(script: str, tool: str = "mocha") -> tuple[DetectedCheck, str]:
    return DetectedCheck(tool, "test", tool, ("npm", "test")), json.dumps(
        {"scripts": {"test": script}, "main": "index"}
    )


def test_a_file_that_the_report_names_judges() -> None:
    base = {"checks/check_a.py": "from pkg import add", "pkg/__init__.py": "", "pkg/calc.py": ""}
    assert used(PYTEST, ["checks/check_a.py::test_a", "pkg/calc.py::pkg.calc.add"], base) == {"checks/check_a.py"}
    unittest = DetectedCheck("unittest", "test", "unittest", ("python", "-m", "unittest"))
    assert used(unittest, ["checks.check_a.Add.test_a"], base) == {"checks/check_a.py"}
    assert used(unittest, ["test_a (checks.check_a.Add)"], base) == {"checks/check_a.py"}


def test_a_text_with_examples_judges_if_they_ran() -> None:
    base = {"README.rst": ">>> 1\n1\n", "docs/use.md": "", "HISTORY.rst": ""}
    ids = ["README.rst::README.rst", "docs/use.md::use.md"]
    assert used(PYTEST, ids, base) == {"README.rst", "docs/use.md"}


def test_an_operand_of_the_test_command_judges() -> None:
    check, manifest = npm("mocha tests.js")
    base = {"package.json": manifest, "tests.js": "require('.')", "index.js": "", "cli.js": ""}
    assert used(check, ["ms should pass"], base, "tests.js") == {"tests.js"}
    assert used(check, ["tests.js::ms should pass"], base, "tests.js", "index.js") == {"tests.js"}
    check, manifest = npm("tape 'checks/*.js' && eslint .", "tape")
    base = {"package.json": manifest, "checks/a.js": "", "checks/b.js": "", "lib.js": ""}
    assert used(check, ["a"], base, "lib.js") == {"checks/a.js", "checks/b.js"}
    check, manifest = npm("node check.js", "npm")
    assert used(check, [], {"package.json": manifest, "check.js": "require('./lib')", "lib.js": ""}) == {"check.js"}


@pytest.mark.parametrize(
    ("script", "base"),
    [
        ("node index.js", {"index.js": ""}),
        ("mocha lib.js", {"lib.js": "", "index.js": "require('./lib')"}),
        ("mocha index.js", {"index.js": ""}),
    ],
)
def test_the_code_under_test_does_not_judge(script: str, base: dict[str, str]) -> None:
    check, manifest = npm(script)
    assert used(check, ["works"], {**base, "package.json": manifest}, *base) == set()


def test_a_module_with_its_own_tests_is_judged_unless_other_code_changes_too() -> None:
    base = {"tool.py": "", "other.py": ""}
    assert used(PYTEST, ["tool.py::test_a"], base, "tool.py") == set()
    assert used(PYTEST, ["tool.py::test_a"], base, "tool.py", "other.py") == {"tool.py"}
    assert used(PYTEST, ["tool.py::test_a"], {**base, "other.py": "import tool"}, "tool.py", "other.py") == set()
    assert used(PYTEST, ["tool.py::test_a"], {**base, "tool.py": "import other"}, "tool.py") == {"tool.py"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\npython_files = check_*.py test_*.py\n"),
        ("pyproject.toml", '[tool.pytest.ini_options]\npython_files = ["check_*.py"]\n'),
        ("setup.cfg", "[tool:pytest]\npython_files = check_*.py\n"),
    ],
)
def test_a_new_file_that_the_settings_of_base_collect_is_a_test(name: str, text: str) -> None:
    assert used(PYTEST, [], {name: text}, new=["a/check_b.py", "a/plain.py"]) == {"a/check_b.py"}


def test_a_used_file_is_protected_only_meanwhile() -> None:
    assert protected.guard("tests.js") is None
    with protected.judged_by(["tests.js"], ["data/a.csv"]):
        assert protected.is_test("tests.js")
        assert not protected.is_test("data/a.csv")
        assert protected.guard("data/a.csv") is not None
    assert protected.guard("tests.js") is None


TESTED = {
    "pkg/__init__.py": "",
    "pkg/words.py": "",
    "data/words.csv": "a",
    "tools/oracle.py": "",
    "tools/release.py": "",
}
USES = "from pkg import words\nfrom tools import oracle\nopen('data/words.csv')\n"


@pytest.mark.parametrize(
    ("more", "judging"),
    [
        ({"tests/test_words.py": USES}, {"data/words.csv", "tools/oracle.py"}),
        ({"tests/test_words.py": USES, "pkg/words.py": "open('data/words.csv')"}, {"tools/oracle.py"}),
        ({"tests/test_words.py": USES, "pkg/words.py": "Path('data') / name"}, {"tools/oracle.py"}),
        ({"tests/test_words.py": USES, "tools/release.py": "from tools import oracle"}, {"data/words.csv"}),
        ({"tests/test_release.py": "from tools import release, oracle"}, set()),
        ({"tests/test_words.py": USES, "data/load.py": ""}, {"tools/oracle.py"}),
        ({}, set()),
    ],
)
def test_what_only_tests_use_is_what_they_expect(more: dict[str, str], judging: set[str]) -> None:
    contents = {path: text.encode() for path, text in {**TESTED, **more}.items()}
    changes = [
        ChangedFile(path, contents[path], b"new") for path in ("data/words.csv", "tools/oracle.py", "pkg/words.py")
    ]
    read = lambda paths: {path: contents[path] for path in paths if path in contents}  # noqa: E731
    assert find_test_only_files(changes, contents, read) == judging


@pytest.fixture
def odd(repo: Repo) -> Calc:
    """A project whose tests have unusual names."""
    calc = Calc(repo.path)
    calc.git("rm", "-q", "-r", "src")
    calc.write("calc.py", "def sub(a, b):\n    return a + b\n")
    calc.write("checks/check_calc.py", "from calc import sub\n\n\ndef test_sub():\n    assert sub(3, 1) == 2\n")
    calc.write("README.rst", "Calc\n\n>>> from calc import sub\n>>> sub(5, 1)\n4\n")
    settings = SETTINGS.replace(
        'testpaths = ["tests"]', 'testpaths = ["checks", "README.rst"]\npython_files = "check_*.py"'
    )
    calc.write("pyproject.toml", settings.replace('addopts = "', 'addopts = "--doctest-glob=README.rst '))
    calc.commit("a broken calculator")
    return calc


def test_expectations_in_unusual_places_cannot_be_changed_to_what_the_code_does(odd: Calc) -> None:
    odd.write("checks/check_calc.py", "from calc import sub\n\n\ndef test_sub():\n    assert sub(3, 1) == 4\n")
    odd.write("README.rst", "Calc\n\n>>> from calc import sub\n>>> sub(5, 1)\n6\n")
    answer = odd.verify("--track", "fix")
    assert answer["code"] != 0
    assert "nothing that failed on base passes now" in json.dumps(answer)
    assert "the example `sub(5, 1)` now expects" in json.dumps(answer)


def test_a_fix_with_other_words_in_such_a_file_passes(odd: Calc) -> None:
    odd.write("calc.py", "def sub(a, b):\n    return a - b\n")
    odd.write("README.rst", "Calc, a calculator\n\n>>> from calc import sub\n>>> sub(5, 1)\n4\n")
    odd.verify("--track", "fix", code=0)


@pytest.mark.parametrize(
    ("source", "test", "judging"),
    [
        ('#include "lib.h"\n', '#include "lib.h"\n#include "check.h"\n', {"check.h"}),
        ('#include "lib.h"\n#include "check.h"\n', '#include "lib.h"\n#include "check.h"\n', set()),
        ("", '#include "lib.h"\n#include "check.h"\n', set()),  # either may be what is tested
        ('#include "lib.h"\n', '#include "lib.h"\n', set()),
    ],
)
def test_a_header_that_only_tests_include_beside_the_sources_own_judges(
    source: str, test: str, judging: set[str]
) -> None:
    contents = {"lib.c": source.encode(), "test.c": test.encode(), "lib.h": b"", "check.h": b""}
    changes = [ChangedFile(path, contents[path], b"new") for path in ("lib.c", "lib.h", "check.h")]
    read = lambda paths: {path: contents[path] for path in paths if path in contents}  # noqa: E731
    assert find_test_only_files(changes, contents, read) == judging
