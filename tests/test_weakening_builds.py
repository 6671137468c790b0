"""A change of builds, workflows, hooks and scripts that checks less is found."""

from __future__ import annotations

import pytest

from python_test_diff import bad, found
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tampering import look
from weakened_files import CMAKE, ESLINT, HOOKS, MATRIX, NOX, PYPROJECT, SETUP, TOX


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
        ("meson.build", "test('a', a)\ntest('b', b)\n", "test('a', a)\n"),
        ("meson.build", "test('a', a)\n", "test('a', a, should_fail : true)\n"),
        ("tests/meson.build", "test('a', a)\n", "if get_option('slow')\n  test('a', a)\nendif\n"),
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
    ("path", "before", "old", "new", "what"),
    [
        ("setup.cfg", SETUP, "src/shop/, tests", "src/shop", "mypy.files no longer includes `tests`"),
        (
            "setup.cfg",
            SETUP,
            "disallow_untyped_defs = true",
            "disallow_untyped_defs = no",
            "mypy.disallow_untyped_defs is switched off",
        ),
        ("setup.cfg", SETUP, "ignore = E501", "ignore = E501, E203", "flake8.ignore now leaves out `E203`"),
        (
            "setup.cfg",
            SETUP,
            "    error\n",
            "    error\n    ignore::UserWarning\n",
            "pytest.filterwarnings a warning is ignored: `ignore::UserWarning`",
        ),
        (
            "pyproject.toml",
            PYPROJECT,
            "fail_under = 90",
            "fail_under = 80",
            "coverage.report.fail_under is lower: `80`, and was `90`",
        ),
        (
            "pyproject.toml",
            PYPROJECT,
            "xfail_strict = true",
            "xfail_strict = true\nunheard_of = 1",
            "pytest.unheard_of was added",
        ),
        ("tox.ini", TOX, "py{38,39,310},", "py{39,310},", "no longer runs with Python 3.8"),
        (
            "tox.ini",
            TOX,
            "[testenv:lint]\ncommands = flake8 src tests\n",
            "",
            "lint: `flake8 src tests` is no longer run",
        ),
        (
            "tox.ini",
            TOX,
            "pytest {posargs}",
            "pytest -k 'not slow' {posargs}",
            "the tests: `pytest -k 'not slow' {posargs}` adds `-k not slow`",
        ),
        ("tox.ini", TOX, ",lint", "", "`lint` no longer runs by default"),
        ("noxfile.py", NOX, '"-ra"', '"--co"', "tests: `pytest --co {session_posargs}` adds `--co`"),
        (".github/workflows/ci.yml", MATRIX, '"3.9", ', "", "no longer runs with Python 3.9"),
        (".github/workflows/ci.yml", MATRIX, ", windows-latest", "", "no longer runs on Windows"),
        (
            ".github/workflows/ci.yml",
            MATRIX,
            "- run: flake8 src/shop/ tests",
            "- run: echo done",
            "`flake8 src/shop/ tests` is no longer run (line 17 before)",
        ),
        (
            ".github/workflows/ci.yml",
            MATRIX,
            "[push, pull_request]",
            "[workflow_dispatch]",
            "no longer runs on push, pull_request",
        ),
        (
            ".github/workflows/ci.yml",
            MATRIX,
            "        run: tox",
            "        if: github.actor == 'me'\n        run: tox",
            "`tox -e py` now runs only if `github.actor == 'me'`",
        ),
        (
            ".pre-commit-config.yaml",
            HOOKS,
            "exclude: ^docs/",
            "exclude: ^(docs|src)/",
            "flake8 has another `exclude`: `^(docs|src)/`",
        ),
        (".pre-commit-config.yaml", HOOKS, "id: flake8", "id: ruff", "no longer runs flake8; new: ruff"),
        (".gitattributes", "", "", "*.py filter=mine\n", "`filter=mine` starts a program"),
        ("eslint.config.mjs", ESLINT, "['error', 4]", "['error', 9]", "rules.max-params is higher: `9`, and was `4`"),
        ("eslint.config.mjs", ESLINT, "'max-params'", "'no-var': 0,\n      'max-params'", "rules.no-var is `0` now"),
        (
            "package.json",
            '{"scripts": {"test": "tape test/*.js"}}',
            "test/*.js",
            "test/a.js",
            "test: `tape test/a.js` no longer takes `test/*.js`",
        ),
        (
            "package.json",
            '{"scripts": {"unit": "tape test/*.js", "test": "npm run unit"}}',
            "test/*.js",
            "test/*.js || true",
            "test: `|| true` lets a failure of `tape test/*.js` pass",
        ),
        (
            "codecov.yml",
            "coverage:\n  status:\n    project:\n      default:\n        target: 95%\n",
            "95",
            "80",
            "coverage.status.project.default.target is `80%` now, and was `95%`",
        ),
    ],
)
def test_what_checks_less_is_one_finding_with_the_text_as_it_is(
    path: str, before: str, old: str, new: str, what: str
) -> None:
    assert old in before
    findings = [each for each in found(path, before, before.replace(old, new, 1)) if each.grade != "note"]
    assert [each.what for each in findings] == [what]


def test_a_dropped_version_is_reported_once_for_all_files() -> None:
    changes = [
        ChangedFile("tox.ini", TOX.encode(), TOX.replace("py{38,39,310},", "py{39,310},", 1).encode()),
        ChangedFile(
            ".github/workflows/ci.yml",
            MATRIX.replace('"3.9"', '"3.8", "3.9"').encode(),
            MATRIX.encode(),
        ),
    ]
    assert [each.what for each in look(changes)] == ["no longer runs with Python 3.8"]


def test_a_check_that_moves_to_another_workflow_is_left_alone() -> None:
    lint = MATRIX[MATRIX.index("  lint:") :]
    rest = MATRIX.replace(lint, "")
    changes = [
        ChangedFile(".github/workflows/ci.yml", MATRIX.encode(), rest.encode()),
        ChangedFile(".github/workflows/lint.yml", None, f"on: [push]\njobs:\n{lint}".encode()),
    ]
    assert bad(look(changes)) == []


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("", "def pytest_report_header(config):\n    return 'speedups: no'\n", []),
        ("", "def pytest_addoption(parser):\n    parser.addoption('--slow')\n", []),
        ("", "def pytest_configure(config):\n    config.addinivalue_line('markers', 'slow: is slow')\n", []),
        (
            "",
            "def pytest_configure(config):\n    config.option.keyword = 'a'\n",
            ["conftest.py defines the hook pytest_configure"],
        ),
        (
            "",
            "def pytest_report_header(config):\n    slow = config.getoption('slow')\n    return f'slow: {slow}'\n",
            [],
        ),
        (
            "",
            "def pytest_terminal_summary(terminalreporter):\n    terminalreporter.write_line('done')\n",
            [],
        ),
        (
            "",
            "def pytest_report_header(config):\n    config.option.keyword = 'a'\n    return ''\n",
            ["conftest.py defines the hook pytest_report_header"],
        ),
        (
            "",
            "def pytest_terminal_summary(terminalreporter):\n    terminalreporter.stats.clear()\n",
            ["conftest.py defines the hook pytest_terminal_summary"],
        ),
        (
            "",
            "def pytest_addoption(parser):\n    parser.addoption('--x', default=parser.parse(['-kx']))\n",
            ["conftest.py defines the hook pytest_addoption"],
        ),
        (
            "",
            "import os\n\ndef pytest_terminal_summary():\n    os._exit(0)\n",
            ["conftest.py defines the hook pytest_terminal_summary"],
        ),
        (
            "def pytest_ignore_collect(path):\n    return False\n",
            "def pytest_ignore_collect(path: object) -> bool:\n    return False\n",
            [],
        ),
        (
            "def pytest_ignore_collect(path):\n    return False\n",
            "def pytest_ignore_collect(path):\n    return True\n",
            ["conftest.py changes the hook pytest_ignore_collect"],
        ),
    ],
)
def test_hooks_that_only_report_or_declare_are_left_alone(before: str, after: str, what: list[str]) -> None:
    assert [each.what for each in found("tests/conftest.py", before, after) if each.grade != "note"] == what


def test_a_conftest_that_moves_is_left_alone() -> None:
    text = b"import sys\n\nsys.path.insert(0, 'src')\n"
    assert bad(look([ChangedFile("conftest.py", text, None), ChangedFile("tests/conftest.py", None, text)])) == []


def test_a_script_that_moves_is_compared_with_its_former_version() -> None:
    old = b"set -e\npytest\nmypy\n"
    for new, expected in ((old, []), (b"set -e\npytest\n", ["`mypy` is no longer run"])):
        changes = [ChangedFile("scripts/test.sh", old, None), ChangedFile("ci/test.sh", None, new)]
        assert [each.what for each in look(changes)] == expected


TRAVIS = "language: python\npython:\n  - '3.7'\n  - '3.8'\nmatrix:\n  allow_failures:\n    - python: nightly\nscript:\n  - flake8\n  - mypy src\n  - npm run lint\n"


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("nightly", "3.9-dev", []),
        ("nightly", "'3.8'", ["`python: 3.8` may fail"]),
        ("  - flake8\n  - mypy src\n", "  - tox -e lint,types\n", ["`flake8` became `tox -e lint,types`"]),
        (
            "npm run lint",
            "npm run lint --if-present",
            ["`--if-present` lets a failure of `npm run lint --if-present` pass"],
        ),
    ],
)
def test_other_services_are_read_too(old: str, new: str, what: list[str]) -> None:
    assert old in TRAVIS
    assert [each.what for each in found(".travis.yml", TRAVIS, TRAVIS.replace(old, new))] == what


def test_checks_that_tox_runs_now_are_not_lost() -> None:
    tox = "[testenv:lint]\ncommands =\n    flake8\n    mypy src\n"
    after = TRAVIS.replace("  - flake8\n  - mypy src\n", "  - tox -e lint\n")
    changes = [ChangedFile(".travis.yml", TRAVIS.encode(), after.encode()), ChangedFile("tox.ini", None, tox.encode())]
    assert bad(look(changes)) == []


ONE_STEP = "on: [push]\njobs:\n  t:\n    runs-on: ubuntu-latest\n    steps:\n    - run: pytest\n"


@pytest.mark.parametrize(
    "after",
    [
        ONE_STEP.replace("run: pytest", "run: '! pytest'"),
        ONE_STEP.replace("run: pytest", "run: |\n        trap 'exit 0' EXIT\n        pytest"),
        f"defaults:\n  run:\n    shell: 'true {{0}}'\n{ONE_STEP}",
    ],
)
def test_a_workflow_that_turns_a_failure_into_success_is_found(after: str) -> None:
    assert bad(look([ChangedFile(".github/workflows/ci.yml", ONE_STEP.encode(), after.encode())]))


def test_a_target_that_is_not_tested_is_asked_about_unless_its_source_is_new() -> None:
    manifest = ChangedFile("fuzz/Cargo.toml", None, b'[[bin]]\nname = "a"\npath = "targets/a.rs"\ntest = false\n')
    source = ChangedFile("fuzz/targets/a.rs", None, b"fn main() {}\n")
    assert bad(look([manifest, source])) == []
    assert bad(look([manifest]))
