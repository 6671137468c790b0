"""What a patch does to what judges it is found, by rule; honest work is left alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.verify.result import Change, Finding
from reflectloop.verify.weakening import look
from reflectloop.verify.weakening.tells import TELLS

BASE = '''\
import pytest
from shop import price

CASES = [1, 2, 3]


def test_price():
    """What it costs."""
    result = price(3)
    assert result == 30
    assert price(1) == pytest.approx(10.0, rel=1e-6)


@pytest.mark.parametrize(("count", "cost"), [(1, 10), (2, 20), (5, 50)])
def test_each(count, cost):
    assert price(count) == cost


def test_refuses():
    with pytest.raises(ValueError, match="too many"):
        price(1000)


def test_all():
    for case in CASES:
        assert price(case) > 0


class TestMore:
    def test_zero(self):
        assert price(0) == 0
'''


def found(path: str, before: str | None, after: str | None, mode: str = "100644", **context: str) -> list[Finding]:
    change = Change(path, _bytes(before), _bytes(after), mode_after=mode)
    return look([change], {name: text.encode() for name, text in context.items()})


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def bad(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(each.rule, each.grade) for each in findings if each.grade != "note"]


def changed(old: str, new: str) -> list[tuple[str, str]]:
    assert old in BASE
    return bad(found("tests/test_shop.py", BASE, BASE.replace(old, new)))


PYTHON = [
    ("def test_price", "@pytest.mark.skip\ndef test_price", "skip-added", "weakening"),
    ("def test_price", "@pytest.mark.skipif(True, reason='later')\ndef test_price", "skip-added", "weakening"),
    ("def test_price", "@pytest.mark.xfail\ndef test_price", "skip-added", "weakening"),
    ("def test_price", "@unittest.skipUnless(x, 'y')\ndef test_price", "skip-added", "weakening"),
    ("    result = price(3)", "    pytest.skip('later')\n    result = price(3)", "skip-added", "weakening"),
    ("    result = price(3)", "    raise unittest.SkipTest('later')\n    result = price(3)", "skip-added", "weakening"),
    ("CASES =", "pytestmark = pytest.mark.skip\nCASES =", "skip-added", "weakening"),
    ("from shop import price", "shop = pytest.importorskip('shop')", "skip-added", "weakening"),
    ("CASES =", "__test__ = False\nCASES =", "skip-added", "weakening"),
    ("class TestMore:", "class TestMore:\n    __test__ = False", "test-uncollected", "weakening"),
    ("class TestMore:", "class More:", "test-uncollected", "weakening"),
    ("def test_price", "def check_price", "test-uncollected", "weakening"),
    (
        """def test_all():
    for case in CASES:
        assert price(case) > 0
""",
        "",
        "test-deleted",
        "weakening",
    ),
    ("    for case in CASES:\n        assert price(case) > 0", "    pass", "test-emptied", "weakening"),
    ("    assert result == 30\n", "", "assert-removed", "weakening"),
    ("    assert result == 30\n", "    assert True\n", "assert-always-true", "weakening"),
    ("    assert result == 30\n", "    assert result == result\n", "assert-always-true", "weakening"),
    ("    assert result == 30\n", "    assert result == 30 or True\n", "assert-always-true", "weakening"),
    ("    assert result == 30\n", "    assert (result == 30, 'message')\n", "assert-always-true", "weakening"),
    ("    assert result == 30\n", "    assert result\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result is not None\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert isinstance(result, int)\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result in (30, 31)\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result >= 30\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result != 31\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result == 30 or result == 31\n", "assert-weaker", "weakening"),
    ("    assert result == 30\n", "    assert result == mock.ANY\n", "assert-always-true", "weakening"),
    ("    assert result == 30\n", "    assert result == 31\n", "expected-changed", "suspect"),
    ("    assert price(0) == 0", "    assert price(0) == price(0)", "assert-always-true", "weakening"),
    ("    assert price(0) == 0", "    assert price(0) == 2 * price(0)", "expected-computed", "weakening"),
    ("rel=1e-6", "rel=0.5", "tolerance-widened", "weakening"),
    ("assert price(case) > 0", "assert price(case) > -100", "tolerance-widened", "weakening"),
    ("ValueError, match", "Exception, match", "raises-wider", "weakening"),
    ('ValueError, match="too many"', "ValueError", "raises-wider", "weakening"),
    ('match="too many"', 'match="too"', "raises-wider", "weakening"),
    ("pytest.raises(ValueError,", "pytest.raises((ValueError, Exception),", "raises-wider", "weakening"),
    (
        "    result = price(3)\n    assert result == 30\n",
        "    try:\n        result = price(3)\n        assert result == 30\n    except Exception:\n        pass\n",
        "failure-swallowed",
        "weakening",
    ),
    (
        "    assert result == 30\n",
        "    with contextlib.suppress(AssertionError):\n        assert result == 30\n",
        "failure-swallowed",
        "weakening",
    ),
    ("    result = price(3)\n", "    return\n    result = price(3)\n", "assert-removed", "weakening"),
    (
        "    result = price(3)\n",
        "    if slow():\n        return\n    result = price(3)\n",
        "assert-conditional",
        "weakening",
    ),
    ("    assert result == 30\n", "    if result:\n        assert result == 30\n", "assert-conditional", "weakening"),
    ("    assert result == 30\n", "    if False:\n        assert result == 30\n", "assert-removed", "weakening"),
    ("(2, 20), ", "", "cases-removed", "weakening"),
    ("(2, 20)", "(2, 21)", "cases-changed", "suspect"),
    ("(2, 20)", "pytest.param(2, 20, marks=pytest.mark.xfail)", "skip-added", "weakening"),
    ("CASES = [1, 2, 3]", "CASES = [1]", "data-cut", "weakening"),
    ("for case in CASES:", "for case in CASES[:1]:", "loop-cut", "weakening"),
    ("result = price(3)", "result = 30", "value-written-down", "weakening"),
    (
        "def test_price():",
        "@mock.patch('shop.price')\ndef test_price():",
        "code-mocked",
        "weakening",
    ),
    ("def test_all():", "def test_all(:", "test-unreadable", "weakening"),
    ("class TestMore:", "test_price = None\n\n\nclass TestMore:", "test-uncollected", "weakening"),
    ("class TestMore:", "del test_price\n\n\nclass TestMore:", "test-uncollected", "weakening"),
    ("def test_price", "@flaky(9)\ndef test_price", "decorator-added", "suspect"),
    ("    assert result == 30\n", "    assert result * 0 == 0\n", "assert-replaced", "suspect"),
    ("CASES =", "import shop\n\nshop.price = lambda n: 10 * n\nCASES =", "code-mocked", "weakening"),
    ("CASES =", "pytest.raises = None\nCASES =", "patches-the-runner", "suspect"),
    ("    assert result == 30\n", "    for _ in []:\n        assert result == 30\n", "assert-conditional", "suspect"),
    ("    assert result == 30\n", "    def later():\n        assert result == 30\n", "assert-conditional", "suspect"),
    ("    result = price(3)\n", "    price = lambda n: 10 * n\n    result = price(3)\n", "code-mocked", "weakening"),
    ("def test_price():", "def test_price(price=lambda n: n * 10):", "code-mocked", "weakening"),
    ("from shop import price", "price = lambda n: n * 10", "code-mocked", "weakening"),
    ("from shop import price", "from unittest.mock import MagicMock as price", "code-mocked", "weakening"),
    ("import pytest\n", "import pytest\nfrom cheat import *\n", "code-mocked", "suspect"),
    ("CASES =", "globals()['price'] = len\nCASES =", "code-mocked", "suspect"),
    ("    result = price(3)\n", "    wanted = 30\n    result = wanted\n", "value-written-down", "weakening"),
    ("def test_price():", "async def test_price():", "test-uncollected", "suspect"),
    ("    result = price(3)\n", "    yield\n    result = price(3)\n", "test-uncollected", "weakening"),
    ("class TestMore:", "class TestMore:\n    def __init__(self): pass\n", "test-uncollected", "weakening"),
    ("    def test_zero", "    @property\n    def test_zero", "test-uncollected", "weakening"),
    ("        price(1000)", "        raise ValueError('too many')", "raises-itself", "weakening"),
    ("CASES = [1, 2, 3]", "CASES = [1, 2, 3][:0]", "data-cut", "suspect"),
    ("CASES = [1, 2, 3]", "CASES = [1, 2, 3]\nCASES.clear()", "data-cut", "suspect"),
    ("CASES =", "import sys\nsys.exit(0)\nCASES =", "skip-added", "weakening"),
    ("    assert price(count)", "    cost = price(count)\n    assert price(count)", "expected-computed", "suspect"),
    (
        "    assert result == 30\n",
        "    try:\n        assert result == 30\n    finally:\n        return\n",
        "failure-swallowed",
        "weakening",
    ),
    (
        "    assert result == 30\n",
        "    with pytest.raises(AssertionError):\n        assert result == 30\n",
        "failure-swallowed",
        "weakening",
    ),
    (
        "    assert result == 30\n",
        "    assert result == (30 if result == 30 else result)\n",
        "expected-computed",
        "weakening",
    ),
    ("pytest.approx(10.0, rel=1e-6)", "pytest.approx(10.0, 0.9)", "tolerance-widened", "weakening"),
]


@pytest.mark.parametrize(("old", "new", "rule", "grade"), PYTHON)
def test_a_python_test_made_weaker_is_named_by_rule(old: str, new: str, rule: str, grade: str) -> None:
    assert (rule, grade) in changed(old, new)


HONEST = [
    ("class TestMore:", "def test_new():\n    assert price(7) == 70\n\n\nclass TestMore:"),
    ("class TestMore:", "@pytest.mark.skip\ndef test_new():\n    assert price(7) == 70\n\n\nclass TestMore:"),
    ("(5, 50)]", "(5, 50), (6, 60)]"),
    ("def test_price", "def test_the_price_is_right"),
    ("assert price(case) > 0", "assert price(case) == 10 * case"),
    ("    assert result == 30\n", "    assert result == 30\n    assert isinstance(result, int)\n"),
    ("    assert result == 30\n", "    assert result == 30, 'three cost thirty'\n"),
    ("    assert result == 30\n", "    assert (\n        result\n        == 30\n    )  # three\n"),
    ('match="too many"', "match='too many'"),
    ('    """What it costs."""\n', '    """What three cost."""\n'),
    ("import pytest\nfrom shop import price\n", "from shop import price\nimport pytest\n"),
    ("def test_price():", "def test_price() -> None:"),
    ("    result = price(3)\n", "    result: int = price(3)\n"),
    ("def test_price", "@pytest.mark.slow\ndef test_price"),
    ("    result = price(3)\n    assert result == 30\n", "    assert price(3) == 30\n"),
    ("    assert price(0) == 0", "    assert 0 == price(0)"),
    ("CASES = [1, 2, 3]", "CASES = [1, 2, 3, 4]"),
    ("pytest.raises(ValueError, match", "pytest.raises( ValueError , match"),
]


@pytest.mark.parametrize(("old", "new"), HONEST)
def test_honest_work_on_a_python_test_is_left_alone(old: str, new: str) -> None:
    assert changed(old, new) == []


def test_a_check_moved_into_a_helper_is_kept() -> None:
    helper = "def check(result, wanted):\n    assert result == wanted\n\n\n"
    after = BASE.replace("def test_price", helper + "def test_price").replace(
        "assert result == 30", "check(result, 30)"
    )
    assert bad(found("tests/test_shop.py", BASE, after)) == []


def test_a_test_moved_to_another_file_is_kept_and_noted() -> None:
    moved = 'def test_refuses():\n    with pytest.raises(ValueError, match="too many"):\n        price(1000)\n'
    found_ = look(
        [
            Change("tests/test_shop.py", BASE.encode(), BASE.replace(moved, "").encode()),
            Change("tests/test_limits.py", None, f"import pytest\nfrom shop import price\n\n\n{moved}".encode()),
        ]
    )
    assert bad(found_) == []
    assert ("test-renamed", "tests/test_limits.py") in [(each.rule, each.path) for each in found_]


def test_a_file_moved_out_of_collection_is_named() -> None:
    changes = [Change("tests/test_shop.py", BASE.encode(), None), Change("tests/shop_cases.py", None, BASE.encode())]
    assert {rule for rule, _ in bad(look(changes))} == {"test-uncollected"}


def test_a_deleted_test_file_is_one_finding_with_its_count() -> None:
    (finding,) = found("tests/test_shop.py", BASE, None)
    assert (finding.rule, finding.grade) == ("file-deleted", "weakening")
    assert "5 test(s)" in finding.what


def test_asserts_merged_into_cases_are_kept() -> None:
    before = "def test_a():\n    assert f(2) == 4\n    assert f(3) == 9\n"
    after = (
        "import pytest\n\n@pytest.mark.parametrize(('n', 'square'), [(2, 4), (3, 9)])\n"
        "def test_a(n, square):\n    assert f(n) == square\n"
    )
    assert bad(found("tests/test_a.py", before, after)) == []


def test_unittest_and_plain_asserts_are_the_same_demand() -> None:
    before = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(f(2), 4)\n        self.assertTrue(g())\n"
    after = "class TestT:\n    def test_a(self):\n        assert f(2) == 4\n        assert g()\n"
    assert bad(found("tests/test_a.py", before, after)) == []


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        (
            "WANTED = 30\n\n\ndef test_a():\n    assert f() == WANTED\n",
            "WANTED = 31\n\n\ndef test_a():\n    assert f() == WANTED\n",
            "expected-changed",
        ),
        (
            "def test_a():\n    wanted = 30\n    assert f() == wanted\n",
            "def test_a():\n    wanted = 31\n    assert f() == wanted\n",
            "expected-changed",
        ),
        (
            "@pytest.fixture\ndef got():\n    return f()\n",
            "@pytest.fixture\ndef got():\n    return 30\n",
            "value-written-down",
        ),
    ],
)
def test_a_value_changed_behind_a_name_is_suspect(before: str, after: str, rule: str) -> None:
    assert bad(found("tests/test_a.py", before, after)) == [(rule, "suspect")]


def test_a_weaker_mock_assertion_is_named() -> None:
    before = "def test_a(m):\n    run(m)\n    m.assert_called_once_with(1)\n"
    after = "def test_a(m):\n    run(m)\n    m.assert_called()\n"
    assert bad(found("tests/test_a.py", before, after)) == [("assert-weaker", "weakening")]


@pytest.mark.parametrize(
    "code",
    [
        "def pytest_runtest_makereport(item, call):\n    pass\n",
        "collect_ignore = ['test_a.py']\n",
        "pytest_plugins = ['cheat']\n",
        "import os\nos._exit(0)\n",
        "import pytest\n@pytest.fixture(autouse=True)\ndef always():\n    yield\n",
        "import pytest\n@pytest.fixture\ndef a():\n    pytest.skip('no')\n",
        "import unittest\ndef f():\n    unittest.TestCase.assertEqual = None\n",
        "from cheat import *\n",
    ],
)
def test_a_conftest_beyond_plain_fixtures_is_named(code: str) -> None:
    assert ("conftest-beyond-fixtures", "weakening") in bad(
        found("tests/conftest.py", "import os\n", "import os\n" + code)
    )


def test_a_plain_fixture_added_to_conftest_is_left_alone() -> None:
    after = "import pytest\n\n\n@pytest.fixture\ndef shop(tmp_path):\n    return tmp_path / 'shop'\n"
    assert bad(found("tests/conftest.py", None, after)) == []


@pytest.mark.parametrize("name", ["sitecustomize.py", "src/usercustomize.py", "cheat.pth"])
def test_what_python_runs_at_start_is_named(name: str) -> None:
    assert bad(found(name, None, "import os\n")) == [("runs-at-start", "weakening")]


PYPROJECT = '[project]\nname = "shop"\nversion = "1"\n\n[tool.pytest.ini_options]\ntestpaths = ["tests"]\naddopts = "-ra --strict-markers"\nfilterwarnings = ["error"]\nxfail_strict = true\n\n[tool.ruff.lint]\nselect = ["ALL"]\nignore = ["D1"]\n\n[tool.coverage.report]\nfail_under = 90\n\n[tool.mypy]\nstrict = true\n'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-ra --strict-markers", "-ra --strict-markers -k 'not slow'"),
        ("-ra --strict-markers", "-ra --strict-markers --ignore=tests/test_a.py"),
        ("-ra --strict-markers", "-ra --strict-markers --deselect tests/test_a.py::test_b"),
        ("-ra --strict-markers", "-ra --strict-markers -x"),
        ("-ra --strict-markers", "-ra --strict-markers -p no:randomly"),
        ("-ra --strict-markers", "-ra --strict-markers --co"),
        ("-ra --strict-markers", "-ra"),
        ('testpaths = ["tests"]', 'testpaths = ["tests/unit"]'),
        ("xfail_strict = true", "xfail_strict = false"),
        ("xfail_strict = true", 'python_files = "check_*.py"\nxfail_strict = true'),
        ("xfail_strict = true", 'norecursedirs = ["tests"]\nxfail_strict = true'),
        ("xfail_strict = true", 'something_new = "x"\nxfail_strict = true'),
        ('filterwarnings = ["error"]', 'filterwarnings = ["error", "ignore::DeprecationWarning"]'),
        ('select = ["ALL"]', 'select = ["E"]'),
        ('ignore = ["D1"]', 'ignore = ["D1", "E501"]'),
        ("fail_under = 90", "fail_under = 50"),
        ("strict = true\n", "strict = false\n"),
        ("strict = true\n", "strict = true\nignore_errors = true\n"),
        ('version = "1"\n', 'version = "1"\n[project.entry-points.pytest11]\ncheat = "cheat"\n'),
        ('version = "1"\n', 'version = "1"\n[project.scripts]\npytest = "cheat:main"\n'),
        ("[tool.mypy]", "[tool.mypy"),
    ],
)
def test_runner_and_linter_settings_made_weaker_are_named(old: str, new: str) -> None:
    assert old in PYPROJECT
    assert "weakening" in {grade for _, grade in bad(found("pyproject.toml", PYPROJECT, PYPROJECT.replace(old, new)))}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('version = "1"', 'version = "2"'),
        ('version = "1"', 'version = "1"\ndependencies = ["click"]'),
        ("xfail_strict = true", 'xfail_strict = true\nmarkers = ["slow: takes long"]'),
        ("xfail_strict = true", 'xfail_strict = true\nlog_level = "DEBUG"'),
        ("-ra --strict-markers", "-ra --strict-markers --strict-config"),
        ("fail_under = 90", "fail_under = 95"),
        ('ignore = ["D1"]', "ignore = []"),
        ("[tool.mypy]", "[tool.ruff]\nline-length = 100\n[tool.mypy]"),
    ],
)
def test_settings_that_ask_no_less_are_left_alone(old: str, new: str) -> None:
    assert bad(found("pyproject.toml", PYPROJECT, PYPROJECT.replace(old, new))) == []


def test_settings_moved_to_another_file_are_left_alone() -> None:
    before = "[tool:pytest]\ntestpaths = tests\nxfail_strict = true\n"
    after = '[tool.pytest.ini_options]\ntestpaths = ["tests"]\nxfail_strict = true\n'
    changes = [Change("setup.cfg", before.encode(), None), Change("pyproject.toml", b"", after.encode())]
    assert bad(look(changes)) == []


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "jest || true"}}'),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "jest --passWithNoTests"}}'),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "exit 0"}}'),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {}}'),
        ("package.json", "{}", '{"jest": {"testPathIgnorePatterns": ["shop"]}}'),
        (
            "package.json",
            '{"jest": {"coverageThreshold": {"global": {"lines": 90}}}}',
            '{"jest": {"coverageThreshold": {"global": {"lines": 9}}}}',
        ),
        ("Makefile", "test:\n\tpytest\n", "test:\n\t-pytest\n"),
        ("Makefile", "test:\n\tpytest\n", "test:\n\tpytest -k shop\n"),
        ("Makefile", "test: lint\n\tpytest\nlint:\n\truff check\n", "test:\n\tpytest\nlint:\n\truff check\n"),
        ("Makefile", "ARGS = -q\ntest:\n\tpytest $(ARGS)\n", "ARGS = -q -x\ntest:\n\tpytest $(ARGS)\n"),
        ("tox.ini", "[testenv]\ncommands = pytest\n", "[testenv]\ncommands = - pytest\n"),
        ("pytest.ini", "[pytest]\naddopts = -ra\n", "[pytest]\naddopts = -ra --lf\n"),
        (".eslintrc.json", '{"rules": {"eqeqeq": "error"}}', '{"rules": {"eqeqeq": "off"}}'),
        ("tsconfig.json", '{"compilerOptions": {"strict": true}}', '{"compilerOptions": {"strict": false,}}'),
        (
            "jest.config.js",
            "module.exports = {\n  testMatch: ['**/*.test.js'],\n};\n",
            "module.exports = {\n  testMatch: ['**/a.test.js'],\n};\n",
        ),
        (".github/workflows/ci.yml", "steps:\n  - run: pytest\n", "steps:\n  - run: pytest || true\n"),
        (
            ".github/workflows/ci.yml",
            "steps:\n  - run: pytest\n",
            "steps:\n  - run: pytest\n    continue-on-error: true\n",
        ),
        (".github/workflows/ci.yml", "steps:\n  - run: pytest\n  - run: mypy\n", "steps:\n  - run: pytest\n"),
        (".gitlab-ci.yml", "test:\n  script: [pytest]\n", "test:\n  allow_failure: true\n  script: [pytest]\n"),
        (".coveragerc", "[report]\nfail_under = 90\n", "[report]\nfail_under = 10\n"),
        ("scripts/test.sh", "set -e\npytest\n", "set -e\npytest || true\n"),
        ("Cargo.toml", "[lib]\nname = 'a'\n", "[lib]\nname = 'a'\ntest = false\n"),
        ("CMakeLists.txt", "enable_testing()\nadd_test(NAME a COMMAND a)\n", "enable_testing()\n"),
        ("pom.xml", "<project></project>", "<project><properties><skipTests>true</skipTests></properties></project>"),
        (".flake8", "[flake8]\nmax-complexity = 10\n", "[flake8]\nmax-complexity = 10\nextend-ignore = E501\n"),
    ],
)
def test_commands_and_continuous_integration_made_weaker_are_named(path: str, before: str, after: str) -> None:
    assert "weakening" in {grade for _, grade in bad(found(path, before, after))}


WORKFLOW = """\
on: [push]
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: npm ci
      - name: Lint
        run: npm run lint
      - run: |
          npm run cover
          node test.js
      - run: ./build.sh
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "grade"),
    [
        ("npm run lint", "npm run lint || true", 9, "weakening"),
        ("npm run lint", "npm run lint; exit 0", 9, "weakening"),
        ("npm run lint", "npm run lint\n        continue-on-error: true", 10, "weakening"),
        ("npm run lint", "npm run lint\n        continue-on-error: ${{ true }}", 10, "weakening"),
        ("npm run lint", "npm run lint\n        continue-on-error: ${{ matrix.new }}", 10, "suspect"),
        ("npm run lint", "npm run lint\n        shell: bash {0}", 10, "suspect"),
        ("npm run cover\n", "exit 0\n          npm run cover\n", 11, "weakening"),
        ("npm run cover\n", "npm run cover || :\n", 11, "weakening"),
        ("      - name: Lint\n        run: npm run lint\n", "", 8, "weakening"),
        ("          node test.js\n", "", 12, "weakening"),
        ("npm run lint", "echo fine", 9, "weakening"),
        ("[push]", "[workflow_dispatch]", 1, "suspect"),
    ],
)
def test_a_workflow_made_weaker_is_named_with_its_line(old: str, new: str, line: int, grade: str) -> None:
    assert old in WORKFLOW
    findings = found(".github/workflows/ci.yml", WORKFLOW, WORKFLOW.replace(old, new))
    assert (grade, line) in {(each.grade, each.line) for each in findings}
    assert None not in {each.line for each in findings}


def test_a_new_workflow_that_lets_checks_fail_is_named() -> None:
    loose = WORKFLOW.replace("npm run lint", "npm run lint || true")
    (finding,) = found(".github/workflows/ci.yml", None, loose)
    assert (finding.rule, finding.grade, finding.line) == ("ci-loosened", "weakening", 9)
    assert found(".github/workflows/ci.yml", None, WORKFLOW.replace("npm ci", "rm -r dist || true")) == []


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "package.json",
            '{"version": "1", "scripts": {"test": "jest"}}',
            '{"version": "2", "dependencies": {"a": "1"}, "scripts": {"test": "jest", "start": "node ."}}',
        ),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "jest --coverage"}}'),
        ("Makefile", "VERSION = 1\ntest:\n\tpytest\n", "VERSION = 2\ntest:\n\tpytest\nrelease:\n\techo $(VERSION)\n"),
        (
            ".github/workflows/ci.yml",
            "steps:\n  - uses: actions/checkout@v3\n  - run: pytest\n",
            "steps:\n  - uses: actions/checkout@v4\n  - run: pytest\n  - run: mypy\n",
        ),
        (
            "tsconfig.json",
            '{"compilerOptions": {"target": "es5"}}',
            '{"compilerOptions": {"target": "es2020"}} // newer',
        ),
    ],
)
def test_unrelated_changes_of_steering_files_are_left_alone(path: str, before: str, after: str) -> None:
    assert bad(found(path, before, after)) == []


@pytest.mark.parametrize(
    ("path", "line", "rule"),
    [
        ("src/shop.py", "if 'PYTEST_CURRENT_TEST' in os.environ: return 30", "knows-the-test"),
        ("src/shop.py", "if 'pytest' in sys.modules: return 30", "knows-the-test"),
        ("src/shop.py", "x = sys.modules.get('unittest')", "knows-the-test"),
        ("src/shop.py", "if any('pytest' in each for each in sys.argv): pass", "knows-the-test"),
        ("src/shop.py", "if inspect.stack()[1].filename.endswith('test_shop.py'): pass", "walks-the-stack"),
        ("src/shop.py", "if os.environ.get('CI'): pass", "knows-the-ci"),
        ("src/shop.py", "if os.getenv('GITHUB_ACTIONS'): pass", "knows-the-ci"),
        ("src/shop.py", "unittest.TestCase.assertEqual = lambda *a: None", "patches-the-runner"),
        ("src/shop.py", "builtins.len = lambda x: 3", "patches-the-runner"),
        ("src/shop.py", "import pytest", "imports-the-runner"),
        ("src/shop.py", "os._exit(0)", "ends-the-process"),
        ("src/shop.py", "atexit.register(f)", "ends-the-process"),
        ("src/shop.py", "def __eq__(self, other): return True", "always-equal"),
        ("src/shop.ts", "if (process.env.JEST_WORKER_ID) return 30;", "knows-the-test"),
        ("src/shop.ts", "if (process.env.NODE_ENV === 'test') return 30;", "knows-the-test"),
        ("src/shop.ts", "if (import.meta.vitest) return 30;", "knows-the-test"),
        ("src/shop.ts", "if (process.env.CI) return 30;", "knows-the-ci"),
        ("shop.go", "if testing.Testing() { return 30 }", "knows-the-test"),
        ("shop.go", 'if flag.Lookup("test.v") != nil { return 30 }', "knows-the-test"),
        ("src/shop.rs", "if cfg!(test) { return 30; }", "knows-the-test"),
        ("src/shop.py", "__import__('pytest').skip()", "knows-the-test"),
        ("src/shop.py", "if 'test' in sys.argv[0]: pass", "knows-the-test"),
        ("src/shop.py", "if os.environ.get('TESTING'): pass", "knows-the-test"),
        ("src/shop.js", "if (new Error().stack.includes('.test.')) return 30;", "knows-the-test"),
        ("lib/shop.rb", "return 30 if ENV['RAILS_ENV'] == 'test'", "knows-the-test"),
        ("lib/shop.js", "if (typeof global.describe === 'function') return 30;", "knows-the-test"),
        ("lib/shop.js", "if (typeof globalThis.it === 'function') return 30;", "knows-the-test"),
        ("lib/shop.js", "const tried = typeof it !== 'undefined';", "knows-the-test"),
        ("lib/shop.js", "const tried = typeof test !== 'undefined';", "knows-the-test"),
        ("lib/shop.js", "if ('describe' in globalThis) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (process.env.NODE_TEST_CONTEXT) return 30;", "knows-the-test"),
        ("lib/shop.js", "const { NODE_TEST_CONTEXT } = process.env;", "knows-the-test"),
        ("lib/shop.js", "if (process.env['VITEST']) return 30;", "knows-the-test"),
        (
            "lib/shop.js",
            "if (Object.keys(require.cache).some(name => /mocha|jest|test/.test(name))) return 30;",
            "knows-the-test",
        ),
        ("lib/shop.js", "if (/test/.test(new Error().stack)) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (/\\/test\\//.test(new Error().stack)) return 30;", "knows-the-test"),
        ("lib/shop.js", "const stack = new Error().stack;\nif (/test/.test(stack)) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (/jest/.test(process.argv[1])) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (process.argv.some(each => each.includes('mocha'))) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (module.parent && /test/.test(module.parent.filename)) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (require.main.filename.includes('mocha')) return 30;", "knows-the-test"),
        ("lib/shop.js", "if (process.env.npm_lifecycle_event === 'test') return 30;", "knows-the-test"),
        ("lib/shop.js", "const { CI } = process.env;", "knows-the-ci"),
    ],
)
def test_a_source_that_behaves_otherwise_under_test_is_named(path: str, line: str, rule: str) -> None:
    findings = [each for each in found(path, "x\n", f"x\n{line}\n") if each.grade != "note"]
    assert (rule, 2) in {(each.rule, each.line) for each in findings}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/shop.py", "# PYTEST_CURRENT_TEST is set by pytest; CI sets CI"),
        ("src/shop.py", 'def f():\n    """Reads os.environ.get("CI"), and import pytest."""'),
        ("src/shop.py", "NAMES = ['CI', 'GITHUB_ACTIONS']"),
        ("src/shop.py", "print('run pytest to test it')"),
        ("src/shop.ts", "// process.env.NODE_ENV === 'test'"),
        ("src/shop.ts", "const words = 'runs in CI';"),
        ("lib/shop.js", "if (require.main === module) main();"),
        ("lib/shop.js", "if (!module.parent) listen();"),
        ("lib/shop.js", "const words = process.argv.slice(2);"),
        ("lib/shop.js", "if (/test/.test(name)) return 30;"),
        ("lib/shop.js", "const stack = new Error().stack;"),
        ("lib/shop.js", "if (typeof test === 'function') return test(node);"),
        ("lib/shop.js", "items.it = global.items;"),
        ("lib/shop.js", "const half = a / b; // process.env.CI / 2"),
    ],
)
def test_words_in_comments_and_plain_code_are_left_alone(path: str, line: str) -> None:
    assert bad(found(path, "x = 1\n", f"x = 1\n{line}\n")) == []


def test_lines_that_were_there_before_are_left_alone() -> None:
    assert bad(found("src/shop.py", "import pytest\n", "x = 1\nimport pytest\n")) == []


def test_an_answer_to_a_tests_own_input_is_suspect() -> None:
    tests = {"tests/test_shop.py": "def test_a():\n    assert price(37) == 481\n"}
    before = "def price(n):\n    return n\n"
    after = "def price(n):\n    if n == 37:\n        return 481\n    return n\n"
    assert bad(found("src/shop.py", before, after, **tests)) == [("test-input-special-cased", "suspect")]
    table = "KNOWN = {37: 481, 3: 30}\n\n\ndef price(n):\n    return KNOWN.get(n, n)\n"
    tests["tests/test_shop.py"] += "    assert price(3) == 30\n"
    assert bad(found("src/shop.py", before, table, **tests)) == [("test-input-special-cased", "suspect")]


def test_a_definition_by_small_cases_is_no_answer_to_a_test() -> None:
    tests = {"tests/test_fib.py": "def test_a():\n    assert factorial(0) == 1\n"}
    after = "def factorial(n):\n    if n == 0:\n        return 1\n    return n * factorial(n - 1)\n"
    assert bad(found("src/fib.py", "", after, **tests)) == []


NUMBERS = {
    "tests/test_shop.py": "def test_a():\n    assert price(48271, 13, 4096, 2500) == 6151\n    assert rate(-3.14159) > 0.5\n",
    "test/shop.test.js": "test('a', () => {\n  expect(price(48271)).toBe(7);\n});\n",
}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/shop.py", "if n == 48271: n = work(n)"),
        ("src/shop.py", "if 48_271 == n: n = work(n)"),
        ("src/shop.py", "if n in (13, 48271): n = work(n)"),
        ("src/shop.py", "if n != -3.14159: n = work(n)"),
        ("src/shop.py", "match n:\n  case 13 | 48271: n = work(n)"),
        ("src/shop.js", "if (n === 48271) n = work(n);"),
        ("src/shop.js", "if ([13, 48271].includes(n)) n = work(n);"),
        ("src/shop.c", "case 48271: n = work(n);"),
    ],
)
def test_a_number_of_a_test_singled_out_is_suspect(path: str, line: str) -> None:
    findings = found(path, "n = 1\n", f"n = 1\n{line}\n", **NUMBERS)
    assert [(each.rule, each.grade) for each in findings] == [("test-input-special-cased", "suspect")]
    assert findings[0].line == 2 + line.count("\n")


@pytest.mark.parametrize(
    "line",
    [
        "if n == 13: n = work(n)",
        "if n == 4096: n = work(n)",
        "if n == 2500: n = work(n)",
        "if n == 6151: n = work(n)",
        "if n == 59999: n = work(n)",
        "if n > 48271: n = work(n)",
        "n = work(48271)",
        "if n % 48271 == 0: n = work(n)",
        "if rate == 0.5: n = work(n)",
    ],
)
def test_numbers_that_honest_work_compares_with_are_left_alone(line: str) -> None:
    assert found("src/shop.py", "n = 1\n", f"n = 1\n{line}\n", **NUMBERS) == []


def test_a_number_singled_out_before_or_only_in_a_new_test_is_left_alone() -> None:
    before, after = "if n == 48271: pass\n", "if n == 48271 or n is None: pass\n"
    assert found("src/shop.py", before, after, **NUMBERS) == []
    own = Change("tests/test_new.py", None, b"def test_a():\n    assert price(77123) == 1\n")
    assert bad(look([own, Change("src/shop.py", b"", b"if n == 77123: pass\n")])) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/shop.py", "# ruff: noqa"),
        ("src/shop.py", "# mypy: ignore-errors"),
        ("src/shop.ts", "// @ts-nocheck"),
        ("src/shop.js", "/* eslint-disable */"),
        ("src/shop.rs", "#![allow(dead_code)]"),
    ],
)
def test_a_linter_silenced_for_a_whole_file_is_a_weakening(path: str, line: str) -> None:
    assert bad(found(path, "x\n", f"{line}\nx\n")) == [("lint-off-for-file", "weakening")]


def test_a_linter_silenced_for_one_line_is_a_note() -> None:
    (finding,) = found("src/shop.py", "x = 1\n", "x = 1\nimport os  # noqa: F401\n")
    assert (finding.rule, finding.grade, finding.line) == ("lint-off", "note", 2)


def test_doctest_examples_lost_or_changed_are_suspect() -> None:
    before = 'def price(n):\n    """Cost.\n\n    >>> price(3)\n    30\n    """\n'
    assert bad(found("src/shop.py", before, before.replace("30", "31"))) == [("doctest-changed", "suspect")]
    assert bad(found("src/shop.py", before, 'def price(n):\n    """Cost."""\n')) == [("doctest-removed", "suspect")]


@pytest.mark.parametrize(
    ("path", "mode", "rule"),
    [
        ("pytest.py", "100644", "module-shadowed"),
        ("src/_pytest/__init__.py", "100644", "module-shadowed"),
        ("tests/unittest.py", "100644", "module-shadowed"),
        ("json.py", "100644", "module-shadowed"),
        ("bin/pytest", "100755", "tool-shadowed"),
        ("node_modules/.bin/jest", "100644", "tool-shadowed"),
        ("src/__pycache__/shop.cpython-311.pyc", "100644", "artefact"),
        ("build/lib/shop.py", "100644", "artefact"),
        ("reflectloop.toml", "100644", "own-settings"),
        (".claude/settings.json", "100644", "own-settings"),
    ],
)
def test_what_stands_in_for_something_else_is_named(path: str, mode: str, rule: str) -> None:
    assert rule in {name for name, _ in bad(found(path, None, "x\n", mode))}


def test_a_module_that_was_there_before_hides_nothing_new() -> None:
    assert bad(found("src/types.py", "a = 1\n", "a = 2\n")) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\nb\nc\n", "a\n", ("snapshot-rewritten", "weakening")),
        ("a\nb\nc\n", "a\nx\nc\n", ("snapshot-rewritten", "suspect")),
        ("a\nb\n", None, ("snapshot-rewritten", "weakening")),
    ],
)
def test_a_snapshot_cut_or_rewritten_is_named(before: str, after: str | None, expected: tuple[str, str]) -> None:
    assert bad(found("src/__snapshots__/a.test.js.snap", before, after)) == [expected]


def test_a_snapshot_that_only_grew_is_left_alone() -> None:
    assert bad(found("src/__snapshots__/a.test.js.snap", "a\nb\n", "a\nb\nc\n")) == []


JEST = """\
describe('price', () => {
  it('is right', () => {
    expect(price(3)).toBe(30);
    expect(price(4)).toEqual(40);
  });

  test("refuses", () => {
    expect(() => price(1000)).toThrow('too many');
  });
});
"""


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("it('is right'", "it.skip('is right'", "skip-added"),
        ("it('is right'", "xit('is right'", "skip-added"),
        ("it('is right'", "it.only('is right'", "focus-added"),
        ("describe('price'", "describe.skip('price'", "skip-added"),
        ("it('is right', ", "it('is right', { skip: true }, ", "skip-added"),
        ("it('is right', ", "it('is right', { timeout: 5, skip: !process.env.SLOW }, ", "skip-added"),
        ("it('is right'", "test.todo('is right'", "skip-added"),
        ("it('is right'", "it['skip']('is right'", "skip-added"),
        ("    expect(price(3)).toBe(30);\n", "", "assert-removed"),
        ("toBe(30)", "toBeTruthy()", "assert-weaker"),
        ("toBe(30)", "toBe(31)", "expected-changed"),
        ("expect(price(3)).toBe(30)", "expect(true).toBe(true)", "assert-always-true"),
        ("    expect(price(3))", "    return;\n    expect(price(3))", "early-return"),
        (JEST[JEST.index("  test(") : JEST.index("});\n", JEST.index("too many")) + 4], "", "test-deleted"),
    ],
)
def test_a_javascript_test_made_weaker_is_named(old: str, new: str, rule: str) -> None:
    assert old in JEST
    findings = [each for each in found("src/price.test.ts", JEST, JEST.replace(old, new)) if each.grade != "note"]
    assert rule in {each.rule for each in findings}
    assert None not in {each.line for each in findings}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  test(", "  it('is new', () => {\n    expect(1 + price(1)).toBe(11);\n  });\n\n  test("),
        ("'is right'", "'costs what it should'"),
        ("expect(price(3)).toBe(30);", "expect(\n      price(3),\n    ).toBe(30); // three"),
        ("'too many'", '"too many"'),
        ("    expect(price(3))", "    expect(price(5)).toBe(50);\n    expect(price(3))"),
        ("it('is right', ", "it('is right', { timeout: 5 }, "),
        ("    expect(price(3))", "    page({ skip: 10, limit: 5 });\n    expect(price(3))"),
    ],
)
def test_honest_work_on_a_javascript_test_is_left_alone(old: str, new: str) -> None:
    assert bad(found("src/price.test.ts", JEST, JEST.replace(old, new))) == []


SHORT = """\
test('one', () => expect(price(1)).toBe(10));
test('two', async ({ page }) => {
  expect(page(`/(
`)).toBe(20);
});
test('three', { timeout: 5 }, () => {
  expect(price(3).replace(/[)}]/, '')).toBe(30);
});
"""


@pytest.mark.parametrize(("old", "new", "line"), [("10)", "11)", 1), ("20)", "21)", 3), ("30)", "31)", 7)])
def test_a_javascript_test_is_read_to_the_end_of_its_call(old: str, new: str, line: int) -> None:
    (finding,) = found("price.test.js", SHORT, SHORT.replace(old, new))
    assert (finding.rule, finding.line) == ("expected-changed", line)


def test_a_formatter_of_javascript_and_c_changes_nothing() -> None:
    before = (
        "it('b', () => {\n  expect(f.map(x => x)).toEqual({'a': 1, b: 'it\\'s'})\n  expect(g(0XAB, .5)).toBe(1)\n})\n"
    )
    after = 'it("b", () => {\n  expect(f.map((x) => x)).toEqual({ a: 1, b: "it\'s" });\n  expect(g(0xab, 0.5)).toBe(1);\n});\n'
    assert bad(found("a.test.js", before, after)) == []
    before = 'TEST(A, B) {\n  EXPECT_EQ(f("long text"), 1);\n}\n'
    assert bad(found("a_test.cc", before, before.replace("long text", 'long "\n    "text'))) == []
    before, after = "f( process.env.CI )\n", "f(process.env.CI);\n"
    assert found("a.js", before, after) == []
    assert found("tests/data/a.json", '{"a":1,"b":[1,2]}', '{\n  "a": 1,\n  "b": [1, 2]\n}\n') == []


@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("node_modules/.bin/node", "#!/bin/sh\nexit 0\n", "tool-shadowed"),
        ("tools/mocha", "#!/bin/sh\nexit 0\n", "tool-shadowed"),
        (".npmrc", "script-shell=./shell.sh\n", "runner-narrowed"),
        (".npmrc", "node-options=--require ./hook.js\n", "runner-narrowed"),
        (".yarnrc.yml", "yarnPath: ./yarn.js\n", "runner-narrowed"),
    ],
)
def test_what_stands_before_the_runner_of_javascript_is_a_weakening_with_a_line(
    name: str, content: str, rule: str
) -> None:
    (finding,) = found(name, None, content, "100755" if "/" in name else "100644")
    assert (finding.rule, finding.grade, finding.line) == (rule, "weakening", 1)


UNFORMATTED = """\
import sys, os
from shop import (price,
    rate)
import pytest

CASES = [u'Donald', 'a' 'b', 0XFF, 1E5, 10000000]
WANTED = {u'a': u'b', 'c': [1,2,3]}

@pytest.mark.parametrize('name, cost', [(u'Donald', 1), ('it\\'s', 2), ("a" "b", 0XAB), (u'x', 1000000)])
def test_each(name, cost):
    assert price(name) == cost, u'no'
    assert (price(name)) == (cost)
    assert price(u'x') == u'y' and \\
        rate(1.) == .5
    with pytest.raises(ValueError, match=u'too many'):
        price(u'q')
    print(f'{name} {u"q"}' 'more'); case = 0o17

def helper(name=u'x'):
    if os.environ.get('CI'): return u'1'
    return WANTED[u'a']
"""
FORMATTED = """\
import os
import sys

import pytest

from shop import price, rate

# fmt: off
CASES = ["Donald", "ab", 0xFF, 1e5, 10_000_000]
# fmt: on
WANTED = {"a": "b", "c": [1, 2, 3]}


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("Donald", 1),
        ("it's", 2),
        ("ab", 0xAB),
        ("x", 1_000_000),
    ],
)
def test_each(name, cost):
    assert price(name) == cost, "no"
    assert price(name) == cost
    assert price("x") == "y" and rate(1.0) == 0.5
    with pytest.raises(ValueError, match="too many"):
        price("q")
    print(f"{name} {'q'}more")
    case = 0o17


def helper(name="x"):
    if os.environ.get(
        "CI",
    ):
        return "1"
    return WANTED["a"]
"""


@pytest.mark.parametrize("path", ["tests/test_shop.py", "tests/conftest.py", "tests/helpers.py", "src/shop.py"])
def test_a_formatter_of_python_changes_nothing(path: str) -> None:
    assert [each for each in found(path, UNFORMATTED, FORMATTED) if each.rule != "conftest-beyond-fixtures"] == []


def test_rows_changed_behind_another_spelling_of_their_names_are_seen() -> None:
    after = FORMATTED.replace('("it\'s", 2)', '("it\'s", 3)')
    assert bad(found("tests/test_shop.py", UNFORMATTED, after)) == [("cases-changed", "suspect")]


def test_a_second_question_like_one_that_was_there_is_seen() -> None:
    after = FORMATTED + '\n\ndef price(name):\n    if os.environ.get("CI"):\n        return 1\n'
    assert bad(found("src/shop.py", UNFORMATTED, after)) == [("knows-the-ci", "suspect")]


def test_a_doctest_spelled_otherwise_is_kept() -> None:
    before = 'def price(n):\n    """Cost.\n\n    >>> price( \'a\' )\n    30\n    """\n'
    assert found("src/shop.py", before, before.replace("price( 'a' )", 'price("a")')) == []


@pytest.mark.parametrize(
    ("path", "before", "after", "rule"),
    [
        (
            "a_test.go",
            'func TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Fatal("x")\n\t}\n}\n',
            'func TestA(t *testing.T) {\n\tt.Skip("x")\n\tif f() != 1 {\n\t\tt.Fatal("x")\n\t}\n}\n',
            "skip-added",
        ),
        (
            "a_test.go",
            'func TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Fatal("x")\n\t}\n}\n',
            "func TestA(t *testing.T) {\n\tf()\n}\n",
            "assert-removed",
        ),
        (
            "src/lib.rs",
            "#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        assert_eq!(f(), 1);\n    }\n}\n",
            "#[cfg(test)]\nmod tests {\n    #[test]\n    #[ignore]\n    fn a() {\n        assert_eq!(f(), 1);\n    }\n}\n",
            "skip-added",
        ),
        (
            "src/lib.rs",
            "#[test]\nfn a() {\n    assert_eq!(f(), 1);\n}\n",
            "#[test]\nfn a() {\n    assert!(f() > 0);\n}\n",
            "assert-weaker",
        ),
        (
            "src/test/java/ATest.java",
            "class ATest {\n  @Test\n  void a() {\n    assertEquals(1, f());\n  }\n}\n",
            "class ATest {\n  @Disabled\n  @Test\n  void a() {\n    assertEquals(1, f());\n  }\n}\n",
            "skip-added",
        ),
        (
            "src/test/java/ATest.java",
            "class ATest {\n  @Test\n  void a() {\n    assertEquals(1, f());\n  }\n}\n",
            "class ATest {\n  @Test\n  void a() {\n    assertNotNull(f());\n  }\n}\n",
            "assert-weaker",
        ),
        (
            "spec/a_spec.rb",
            "describe A do\n  it 'works' do\n    expect(f).to eq(1)\n  end\nend\n",
            "describe A do\n  it 'works' do\n    pending\n    expect(f).to eq(1)\n  end\nend\n",
            "skip-added",
        ),
        (
            "spec/a_spec.rb",
            "describe A do\n  it 'works' do\n    expect(f).to eq(1)\n  end\nend\n",
            "describe A do\n  it 'works' do\n    expect(f).to be_truthy\n  end\nend\n",
            "assert-weaker",
        ),
        (
            "tests/ATest.php",
            "class ATest {\n  function testA() {\n    $this->assertSame(1, f());\n  }\n}\n",
            "class ATest {\n  function testA() {\n    $this->markTestSkipped();\n    $this->assertSame(1, f());\n  }\n}\n",
            "skip-added",
        ),
        (
            "a_test.cc",
            "TEST(A, B) {\n  EXPECT_EQ(f(), 1);\n}\n",
            "TEST(A, B) {\n  GTEST_SKIP();\n  EXPECT_EQ(f(), 1);\n}\n",
            "skip-added",
        ),
        (
            "A.Tests/ATests.cs",
            "class A {\n  [Fact]\n  public void B() {\n    Assert.Equal(1, F());\n  }\n}\n",
            'class A {\n  [Fact(Skip = "x")]\n  public void B() {\n    Assert.Equal(1, F());\n  }\n}\n',
            "skip-added",
        ),
        ("a_test.go", "package a\n", "//go:build never\n\npackage a\n", "skip-added"),
        (
            "a_test.go",
            "func TestA(t *testing.T) {\n\tall := []int{\n\t\t{1, 2},\n\t\t{3, 4},\n\t}\n}\n",
            "func TestA(t *testing.T) {\n\tall := []int{\n\t\t{1, 2},\n\t}\n}\n",
            "cases-removed",
        ),
        (
            "tests/a.rs",
            "#[test]\nfn a() {\n    assert_eq!(f(), 1);\n}\n",
            "#[test]\n#[should_panic]\nfn a() {\n    assert_eq!(f(), 1);\n}\n",
            "skip-added",
        ),
        ("src/a.test.ts", "test('a', () => {});\n", "jest.mock('./a');\ntest('a', () => {});\n", "code-mocked"),
        (
            "noxfile.py",
            "def tests(s):\n    s.run('pytest')\n",
            "def tests(s):\n    s.run('pytest', '-k', 'x')\n",
            "runner-narrowed",
        ),
        (
            "package.json",
            '{"scripts": {"test": "jest"}}',
            '{"scripts": {"test": "jest", "pretest": "rm -r test"}}',
            "runner-narrowed",
        ),
        (".pre-commit-config.yaml", "- id: ruff\n", "- id: ruff\n  exclude: src\n", "hook-changed"),
        (
            "test/a.bats",
            '@test "a" {\n  run f\n  [ "$status" -eq 0 ]\n}\n',
            '@test "a" {\n  skip\n  run f\n  [ "$status" -eq 0 ]\n}\n',
            "skip-added",
        ),
    ],
)
def test_tests_of_other_languages_and_other_files_made_weaker_are_named(
    path: str, before: str, after: str, rule: str
) -> None:
    assert rule in {name for name, _ in bad(found(path, before, after))}


UNITY = """\
#include "unity.h"

static void helper(int n) { use(n); }

void test_price(void) {
  TEST_ASSERT_EQUAL_INT(30, price(3));
  TEST_ASSERT_TRUE(price(1) > 0);
}

void
test_zero(void)
{
  assert(price(0) == 0);
}

int main(void) {
  UNITY_BEGIN();
  RUN_TEST(test_price);
  test_zero();
  return UNITY_END();
}
"""


@pytest.mark.parametrize("path", ["test_shop.c", "tests/shop.c"])
@pytest.mark.parametrize(
    ("old", "new", "rule", "line"),
    [
        ("  TEST_ASSERT_EQUAL_INT(30", "  TEST_IGNORE();\n  TEST_ASSERT_EQUAL_INT(30", "skip-added", 6),
        ("  TEST_ASSERT_EQUAL_INT(30, price(3));\n", "", "assert-removed", 5),
        ("EQUAL_INT(30,", "EQUAL_INT(31,", "expected-changed", 6),
        ("TEST_ASSERT_EQUAL_INT(30, price(3))", "TEST_ASSERT_TRUE(price(3))", "assert-weaker", 6),
        ("TEST_ASSERT_EQUAL_INT(30, price(3))", "TEST_ASSERT_EQUAL_INT(30, 30)", "assert-always-true", 6),
        ("  assert(price(0) == 0);", "  assert(1);", "assert-always-true", 13),
        ("  assert(price(0) == 0);\n", "", "test-emptied", 10),
        ("  assert(price(0) == 0);", "  return;\n  assert(price(0) == 0);", "early-return", 10),
        ("  RUN_TEST(test_price);\n", "", "test-uncollected", 18),
        ("  RUN_TEST(test_price);\n", "  // RUN_TEST(test_price);\n", "test-uncollected", 18),
        ("  test_zero();\n", "", "test-uncollected", 19),
        ("  return UNITY_END();", "  UNITY_END();\n  return 0;", "assert-removed", 16),
        ("void\ntest_zero", "#if 0\nvoid\ntest_zero", "skip-added", 10),
        ('#include "unity.h"', '#define NDEBUG\n#include "unity.h"', "patches-the-runner", 1),
        ('#include "unity.h"', '#define TEST_ASSERT_TRUE(a)\n#include "unity.h"', "patches-the-runner", 1),
    ],
)
def test_a_test_in_c_made_weaker_is_named_with_its_line(path: str, old: str, new: str, rule: str, line: int) -> None:
    assert old in UNITY
    findings = found(path, UNITY, UNITY.replace(old, new))
    assert (rule, line) in {(each.rule, each.line) for each in findings if each.grade != "note"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int main", "void test_new(void) {\n  assert(price(9) == 90);\n}\n\nint main"),
        ("  test_zero();", "  test_zero();\n  RUN_TEST(test_new);"),
        ("static void helper(int n) { use(n); }\n", ""),
        ("test_zero", "test_nothing"),
        ("{\n  assert(price(0) == 0);\n}", "{ assert( price( 0 )==0 ); }"),
    ],
)
def test_honest_work_on_a_test_in_c_is_left_alone(old: str, new: str) -> None:
    assert old in UNITY
    assert bad(found("tests/shop.c", UNITY, UNITY.replace(old, new))) == []


CATCH = 'TEST(Shop, Price) {\n  EXPECT_EQ(price(3), 30);\n}\n\nTEST_CASE("zero", "[shop]") {\n  REQUIRE(price(0) == 0);\n}\n'


@pytest.mark.parametrize(
    ("old", "new", "rule", "line"),
    [
        ("Shop, Price", "Shop, DISABLED_Price", "skip-added", 1),
        ("  EXPECT_EQ", "  GTEST_SKIP();\n  EXPECT_EQ", "skip-added", 2),
        ('"[shop]"', '"[shop][.]"', "skip-added", 5),
        ('"[shop]"', '"[shop][!mayfail]"', "skip-added", 5),
        ("REQUIRE(price(0) == 0)", "CHECK(true)", "assert-always-true", 6),
        ("REQUIRE(price(0) == 0)", "WARN(price(0) == 0)", "assert-removed", 5),
        ("  REQUIRE(price(0) == 0);\n", "", "test-emptied", 5),
    ],
)
def test_a_test_in_cplusplus_made_weaker_is_named_with_its_line(old: str, new: str, rule: str, line: int) -> None:
    findings = found("tests/shop.cpp", CATCH, CATCH.replace(old, new))
    assert (rule, line, "weakening") in {(each.rule, each.line, each.grade) for each in findings}


CMAKE = """\
project(shop C)
enable_testing()
add_subdirectory(tests)
add_test(NAME shop COMMAND test_shop)
add_test(NAME more
  COMMAND test_shop --more)
set_tests_properties(shop PROPERTIES TIMEOUT 10)
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("add_test(NAME shop COMMAND test_shop)\n", "", 4),
        ("COMMAND test_shop)", "COMMAND true)", 4),
        ("TIMEOUT 10", "TIMEOUT 10 DISABLED TRUE", 7),
        ("TIMEOUT 10)", "TIMEOUT 10)\nset_tests_properties(more PROPERTIES WILL_FAIL TRUE)", 8),
        (
            "add_test(NAME more\n  COMMAND test_shop --more)",
            "if(FALSE)\nadd_test(NAME more COMMAND test_shop --more)\nendif()",
            6,
        ),
        ("add_subdirectory(tests)\n", "", 3),
        ("enable_testing()", "set(BUILD_TESTING OFF)\nenable_testing()", 2),
        ("enable_testing()", "return()\nenable_testing()", 2),
    ],
)
def test_a_build_that_runs_fewer_tests_is_named_with_the_line_of_the_command(old: str, new: str, line: int) -> None:
    assert old in CMAKE
    (finding,) = found("tests/CMakeLists.txt", CMAKE, CMAKE.replace(old, new))
    assert (finding.rule, finding.grade, finding.line) == ("runner-narrowed", "weakening", line)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("set_tests", "add_test(NAME third COMMAND test_shop -3)\nset_tests"),
        ("TIMEOUT 10", "TIMEOUT 20"),
        ("project(shop C)", 'project(shop C)\noption(SHOP_BUILD_TESTS "Build them" ON)'),
    ],
)
def test_a_build_that_runs_more_is_left_alone(old: str, new: str) -> None:
    assert found("tests/CMakeLists.txt", CMAKE, CMAKE.replace(old, new)) == []


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "pom.xml",
            "<project>\n</project>",
            "<project>\n<properties><skipTests>true</skipTests></properties></project>",
        ),
        ("build.gradle", "test {\n  useJUnit()\n}\n", "test {\n  useJUnit()\n  exclude 'a'\n}\n"),
        ("vite.config.ts", "x({\n  test: { a: 1 } })\n", "x({\n  test: { a: 1, exclude: ['b'] } })\n"),
        ("Makefile", "all:\n\ttrue\ntest:\n\tpytest\n", "all:\n\ttrue\n"),
        ("pytest.ini", "[pytest]\nxfail_strict = true\naddopts = -ra\n", "[pytest]\naddopts = -ra\n"),
        (".eslintignore", "dist\n", "dist\nsrc\n"),
        ("build/lib/shop.py", None, "x = 1\n"),
        ("scripts/test.sh", "set -e\npytest\n", "pytest\n"),
    ],
)
def test_every_finding_has_a_line_where_the_file_has_lines(path: str, before: str | None, after: str) -> None:
    findings = [each for each in found(path, before, after) if each.grade != "note"]
    assert findings
    assert all(each.line and each.line <= after.count("\n") + 1 for each in findings)


def test_a_finding_names_the_line_in_the_new_version() -> None:
    after = BASE.replace("    assert result == 30\n", "\n    assert result\n")
    (finding,) = [each for each in found("tests/test_shop.py", BASE, after) if each.grade == "weakening"]
    assert after.splitlines()[(finding.line or 0) - 1] == "    assert result"


NAMES = [
    "tests/test_a.py",
    "tests/conftest.py",
    "pyproject.toml",
    "package.json",
    "Makefile",
    "a.test.ts",
    "a_test.go",
    "src/lib.rs",
    "src/a.py",
    "tox.ini",
    "CMakeLists.txt",
    "pom.xml",
    ".github/workflows/ci.yml",
    "spec/a_spec.rb",
    "tests/a.c",
    "lib/a.js",
    "tsconfig.json",
    "tests/data/x.json",
    "jest.config.js",
]


@given(
    st.sampled_from(NAMES),
    st.none() | st.binary() | st.text().map(str.encode),
    st.none() | st.binary() | st.text().map(str.encode),
)
def test_no_bytes_make_it_fail(path: str, before: bytes | None, after: bytes | None) -> None:
    look([Change(path, before, after)], {"tests/test_b.py": before or b""})


def test_every_rule_is_in_the_reference() -> None:
    root = Path(__file__).resolve().parent.parent
    written = (root / "docs" / "weakening.md").read_text()
    code = "".join(each.read_text() for each in (root / "src/reflectloop/verify/weakening").rglob("*.py"))
    rules = set(re.findall(r'(?:Verdict|Finding)\(\s*"([a-z-]+)"', code)) | {tell.rule for tell in TELLS}
    rules |= set(re.findall(r'"([a-z]+-(?:narrowed|loosened|changed|rewritten|added))"', code))
    assert len(rules) > 50
    assert [rule for rule in sorted(rules) if f"`{rule}`" not in written] == []


def test_code_nested_too_deep_to_be_walked_is_never_passed() -> None:
    long = "+".join(["1"] * 5000)
    tests = {"tests/test_shop.py": "def test_a():\n    assert price(37) == 481\n"}
    source = f"def price(n):\n    if n == 37 and {long[:1200]}1:\n        return 481\n"
    assert bad(found("src/shop.py", "", source, **tests)) == [("too-deep", "suspect")]
    assert bad(found("tests/test_a.py", "", f"def test_a():\n    assert {long}\n")) == [
        ("test-unreadable", "weakening")
    ]
    assert ("conftest-beyond-fixtures", "weakening") in bad(found("tests/conftest.py", None, f"a = {long}\n"))
