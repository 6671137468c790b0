"""What a change does to runners, builds and continuous integration is found."""

from __future__ import annotations

import pytest

from python_test_diff import bad, found
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tampering import look

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
    changes = [ChangedFile("setup.cfg", before.encode(), None), ChangedFile("pyproject.toml", b"", after.encode())]
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
