"""A change of the settings of runners and linters that checks less is found."""

from __future__ import annotations

import pytest

from python_test_diff import bad, found
from reflectloop.verification.result import ChangedFile
from reflectloop.verification.tampering import look
from weakened_files import CMAKE, ESLINT, HOOKS, MATRIX, NOX, PYPROJECT, SETUP, TOX


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
    ("path", "before", "old", "new"),
    [
        # Values that are written in another way.
        ("setup.cfg", SETUP, "disallow_untyped_defs = true", "disallow_untyped_defs = True"),
        ("setup.cfg", SETUP, "src/shop/, tests", "tests, src/shop"),
        ("setup.cfg", SETUP, "warn_no_return = true\n", ""),
        ("setup.cfg", SETUP, "    src\n", "    src\n    */site-packages\n"),
        ("pyproject.toml", PYPROJECT, '"-ra --strict-markers"', '["--strict-markers", "-ra"]'),
        ("pyproject.toml", PYPROJECT, '"-ra --strict-markers"', '"-ra"\nstrict_markers = true'),
        ("pyproject.toml", PYPROJECT, "fail_under = 90", "fail_under = 90.0"),
        # Rules that were not applied before, or are written more exactly now.
        ("setup.cfg", SETUP, "ignore = E501", "ignore = E501, D100"),
        ("pyproject.toml", PYPROJECT, 'ignore = ["D1"]', 'ignore = ["D100", "D105"]'),
        ("setup.cfg", SETUP, "select = E, F", "select = E, F, D"),
        # The first settings of a tool.
        ("setup.cfg", SETUP, "[mypy]", "[isort]\nskip = docs\n\n[pylint]\ndisable = all\n\n[mypy]"),
        ("pyproject.toml", PYPROJECT, "[tool.mypy]", '[tool.pyright]\ninclude = ["src"]\n\n[tool.mypy]'),
        # Environments of tox, expanded.
        ("tox.ini", TOX, "py{38,39,310},pypy3,lint", "lint, py38, py39, py310, py311, pypy310"),
        ("tox.ini", TOX, "{38,39,310}", "{38,39,310,311}"),
        ("tox.ini", TOX, "py{38,39,310}", "py3{8,9,10,11}"),
        ("tox.ini", TOX, "flake8 src tests", "python -m flake8 ./src/ tests docs"),
        ("tox.ini", TOX, "testenv:lint]", "testenv:style]"),
        ("noxfile.py", NOX, '"3.10"]', '"3.10", "3.11"]'),
        ("noxfile.py", NOX, '"pytest", "-ra"', 'f"python{session.python}", "-Im", "pytest", "-ra"'),
        ("noxfile.py", NOX + '    session.run("black", "--version")\n', '    session.run("black", "--version")\n', ""),
        ("noxfile.py", NOX, 'session.install("pytest")', 'session.install("pytest", "-e", ".")'),
        # Workflows.
        (".github/workflows/ci.yml", MATRIX, '"3.10", pypy3', "'3.10', '3.11', pypy-3.9"),
        (".github/workflows/ci.yml", MATRIX, "pip install tox", "pip install -U pip tox"),
        (".github/workflows/ci.yml", MATRIX, "tox -e py", "python -m tox run -e py -- -v"),
        (".github/workflows/ci.yml", MATRIX, "run: flake8 src/shop/ tests", "run: 'flake8 src/shop tests'"),
        (
            ".github/workflows/ci.yml",
            MATRIX,
            "on: [push, pull_request]",
            "on:\n  push: {branches: [main]}\n  pull_request:",
        ),
        (".github/workflows/ci.yml", MATRIX, "ubuntu-latest, windows-latest", "windows-2022, ubuntu-22.04, macos-14"),
        (
            ".github/workflows/ci.yml",
            MATRIX,
            "      - run: flake8",
            "      - run: echo done\n        continue-on-error: true\n      - run: flake8",
        ),
        # Hooks.
        (".pre-commit-config.yaml", HOOKS, "rev: 23.1.0", "rev: 24.1.0"),
        (".pre-commit-config.yaml", HOOKS, "        exclude: ^docs/\n", "      - id: mypy\n        exclude: ^tests/\n"),
        (".gitattributes", "", "", "* text=auto\n*.png binary\n*.bin filter=lfs diff=lfs merge=lfs\n"),
        # Scripts and linters of JavaScript.
        ("package.json", '{"scripts": {"test": "tape test/*.js"}}', "tape test/*.js", "tape 'test/**/*.js'"),
        (
            "package.json",
            '{"scripts": {"test": "xo && ava"}}',
            '"xo && ava"',
            '"npm run lint && npm run unit", "lint": "xo", "unit": "ava"',
        ),
        ("eslint.config.mjs", ESLINT, "eqeqeq: ['error', 'always']", '"eqeqeq": ["error", "always"], semi: "error"'),
        ("eslint.config.mjs", ESLINT, "['error', 4]", "['error', 3]"),
        ("eslint.config.mjs", ESLINT, "    rules: {", "    extends: [b],\n    rules: {\n      'no-var': 'off',"),
        (
            "package.json",
            '{"scripts": {"test": "npx c8 mocha"}}',
            "npx c8 mocha",
            "xo --max-warnings=0 && pnpm exec mocha",
        ),
        ("pyproject.toml", PYPROJECT, "-ra --strict-markers", "-ra --strict-markers --cov-fail-under=80 -W=error"),
        (
            "CMakeLists.txt",
            "enable_testing()\n",
            "enable_testing()\n",
            "enable_testing()\ntarget_link_libraries(tests m)\n",
        ),
        ("package.json", '{"ava": {"timeout": "1m"}}', '"1m"', '"2m", "concurrency": 4'),
        ("package.json", '{"scripts": {"test": "ava"}}', '"ava"', '"ava", "pretest": "npm run lint", "lint": "xo"'),
        ("package.json", '{"scripts": {"lint": "eslint **/*.js"}}', "**/*.js", "'**/*.{js,ts}'"),
        (
            ".github/workflows/ci.yml",
            MATRIX,
            "flake8 src/shop/ tests",
            "flake8 src/shop/ tests\n      - run: cargo clippy --tests",
        ),
        (
            "package.json",
            '{"scripts": {"test": "jest --forceExit"}, "jest": {"bail": true}}',
            '"jest --forceExit"}, "jest": {"bail": true}',
            '"jest"}, "jest": {}',
        ),
        ("Cargo.toml", '[[test]]\nname = "a"\nharness = true\n', "harness = true\n", ""),
        ("CMakeLists.txt", "return()\nenable_testing()\n", "return()\n", ""),
        (
            "CMakeLists.txt",
            CMAKE,
            "add_test(NAME shop COMMAND test_shop)",
            "add_test(\n  NAME shop\n  COMMAND test_shop\n)",
        ),
        ("noxfile.py", NOX, '["3.9", "3.10"]', "nox.project.python_versions(PYPROJECT)"),
        ("pyproject.toml", PYPROJECT.replace('["ALL"]', '["E", "DTZ"]'), 'ignore = ["D1"]', 'ignore = ["D", "PT"]'),
        ("Makefile", "test:\n\tgo test\n", "go test", "go test ./..."),
        (".jshintrc", '{"node": true}', "true", 'true, "mocha": true'),
        ("Makefile", "test:\n\tpytest\ninclude.zip:\n\tzip a\n", "include.zip:\n\tzip a\n", ""),
    ],
)
def test_settings_are_compared_by_meaning(path: str, before: str, old: str, new: str) -> None:
    assert old in before
    assert bad(found(path, before, before.replace(old, new, 1))) == []


@pytest.mark.parametrize(
    ("context", "after", "what"),
    [
        ({}, "[mypy]\nfiles = src\nignore_missing_imports = true\n", []),
        ({}, "[mypy]\n", []),
        ({"setup.cfg": SETUP}, "[mypy]\n", ["takes the place of the settings in setup.cfg"]),
        ({"setup.cfg": SETUP}, "[mypy]\nfiles = src\n", ["takes the place of the settings in setup.cfg"]),
    ],
)
def test_first_settings_of_a_tool_differ_from_those_that_hide_others(
    context: dict[str, str], after: str, what: list[str]
) -> None:
    settings = {path: text.encode() for path, text in context.items()}
    findings = look([ChangedFile("mypy.ini", None, after.encode())], settings)
    assert [each.what for each in findings] == what


@pytest.mark.parametrize(
    ("paths", "expected"),
    [((), "suspect"), (("tests/test_a.py",), None), (("test_b.py", "tests/test_a.py"), "suspect")],
)
def test_folders_of_tests_are_compared_with_the_tests_there_are(paths: tuple[str, ...], expected: str | None) -> None:
    before, after = b"[pytest]\n", b"[pytest]\ntestpaths = tests\n"
    findings = look([ChangedFile("pytest.ini", before, after)], dict.fromkeys(paths, b""))
    assert {each.grade for each in findings} == ({expected} if expected else set())


def test_many_rules_switched_off_are_one_finding() -> None:
    off = "".join(f"      'rule-{number}': 'off',\n" for number in range(6))
    (finding,) = found("eslint.config.mjs", ESLINT, ESLINT.replace("      eqeqeq", f"{off}      eqeqeq"))
    assert finding.what == "rules.rule-0, rules.rule-1, rules.rule-2, rules.rule-3 and 2 more is `off` now"


JEST = "module.exports = {\n  testMatch: ['**/*.test.js'],\n  verbose: true,\n};\n"
GOLANGCI = "linters:\n  enable:\n    - errcheck\n    - govet\nrun:\n  timeout: 5m\n"
MAKE = "SOURCES = src\n\ntest: lint\n\tpytest $(SOURCES)\n\nlint:\n\truff check\n"


@pytest.mark.parametrize(
    ("path", "before", "old", "new"),
    [
        ("setup.cfg", SETUP, "testpaths = tests", "testpaths = tests\naddopts = --ignore-glob=*_slow.py"),
        ("setup.cfg", SETUP, "testpaths = tests", "testpaths = tests\naddopts = tests/test_a.py"),
        ("setup.cfg", SETUP, "testpaths = tests", "testpaths = tests\npythonpath = shims"),
        ("setup.cfg", SETUP, "testpaths = tests", "testpaths = tests\nusefixtures = calm"),
        ("setup.cfg", SETUP, "testpaths = tests", "testpaths = tests\npython_functions = check_*"),
        ("setup.cfg", SETUP, "    error\n", "    default\n"),
        ("setup.cfg", SETUP, "files = src/shop/, tests\n", ""),
        ("setup.cfg", SETUP, "warn_no_return = true", "warn_no_return = false"),
        ("setup.cfg", SETUP, "warn_no_return = true", "follow_imports = skip"),
        ("setup.cfg", SETUP, "[flake8]", "[mypy-shop.*]\nignore_errors = True\n\n[flake8]"),
        ("setup.cfg", SETUP, "select = E, F", "select = E"),
        ("setup.cfg", SETUP, "select = E, F", "select = E, F\nexit-zero = true"),
        ("setup.cfg", SETUP, "select = E, F", "select = E, F\nfilename = a.py"),
        ("setup.cfg", SETUP, "src/shop/__init__.py: F401", "*: E, F"),
        (
            "pyproject.toml",
            PYPROJECT,
            'ignore = ["D1"]',
            'ignore = ["D1"]\n[tool.ruff.lint.per-file-ignores]\n"*" = ["ALL"]',
        ),
        ("pyproject.toml", PYPROJECT, 'select = ["ALL"]', 'extend-exclude = ["src"]\nselect = ["ALL"]'),
        ("pyproject.toml", PYPROJECT, "fail_under = 90", "fail_under = 90\nexclude_also = ['pragma|def ']"),
        ("tox.ini", TOX, "[testenv]\n", "[testenv]\nsetenv =\n    PYTEST_ADDOPTS = -k nothing\n"),
        ("tox.ini", TOX, "[testenv]\n", "[testenv]\nplatform = win32\n"),
        ("tox.ini", TOX, "[testenv]\n", "[testenv]\nignore_outcome = true\n"),
        ("tox.ini", TOX, "pytest {posargs}", "python -c 'pass'"),
        ("tox.ini", TOX, "pytest {posargs}", "pytest --co {posargs}"),
        ("tox.ini", TOX, "pytest {posargs}", "pytest {posargs:tests/test_a.py}"),
        ("tox.ini", TOX, "pytest {posargs}", "bash -c 'pytest; true'"),
        ("noxfile.py", NOX, "*session.posargs", "success_codes=[0, 1]"),
        ("noxfile.py", NOX, '    session.run("pytest", "-ra", *session.posargs)\n', "    pass\n"),
        ("noxfile.py", NOX, '(python=["3.9", "3.10"])', ""),
        ("Makefile", MAKE, "SOURCES = src", "SHELL = /bin/true\nSOURCES = src"),
        ("Makefile", MAKE, "SOURCES = src", ".IGNORE:\nSOURCES = src"),
        ("Makefile", MAKE, "SOURCES = src", "SOURCES = src --co"),
        ("Makefile", MAKE, "\tpytest $(SOURCES)", "\ttrue"),
        ("jest.config.js", JEST, "'**/*.test.js'", "'**/a.test.js'"),
        ("jest.config.js", JEST, "verbose: true", "setupFiles: ['./calm.js']"),
        ("jest.config.js", JEST, "verbose: true", "...require('./calm')"),
        ("jest.config.js", JEST, JEST, "module.exports = require('./calm');\n"),
        (
            "jest.config.js",
            JEST,
            JEST,
            JEST.replace("module.exports", "const c") + "c.testPathIgnorePatterns = ['a'];\n",
        ),
        ("eslint.config.mjs", ESLINT, ESLINT, "export default [];\n"),
        ("eslint.config.mjs", ESLINT, "eqeqeq: ['error'", "eqeqeq: ['warn'"),
        (
            "package.json",
            '{"scripts": {"test": "ava"}}',
            '"ava"',
            '"ava", "pretest": "npm run calm", "calm": "node calm.js"',
        ),
        ("package.json", '{"scripts": {"test": "ava"}}', '"ava"', '"ava", "pretest": "node calm.js"'),
        ("package.json", '{"jest": {}}', "{}", '{"bail": true}'),
        ("Cargo.toml", '[[test]]\nname = "a"\n', 'name = "a"\n', 'name = "a"\nharness = false\n'),
        ("pyproject.toml", PYPROJECT.replace('["ALL"]', '["E", "DTZ"]'), 'ignore = ["D1"]', 'ignore = ["DTZ005"]'),
        (
            "tests/conftest.py",
            "def tool():\n    if OLD:\n        pytest.skip()\n",
            "    if OLD:\n        pytest.skip()\n",
            "    pytest.skip()\n",
        ),
        (".golangci.yml", GOLANGCI, "    - govet\n", ""),
        (".golangci.yml", GOLANGCI, "timeout: 5m", "tests: false"),
        (".golangci.yml", GOLANGCI, "timeout: 5m", "issues-exit-code: 0"),
        (
            ".golangci.yml",
            GOLANGCI,
            "timeout: 5m",
            "timeout: 5m\nissues:\n  exclude-rules:\n    - path: shop\n      linters: [govet]",
        ),
        (".github/workflows/ci.yml", MATRIX, "[push, pull_request]", "{push: {branches: [release]}}"),
        (
            ".github/workflows/ci.yml",
            MATRIX,
            "[push, pull_request]",
            "{push: {branches: [main]}, pull_request: {paths: ['docs/**']}}",
        ),
        (".github/workflows/ci.yml", MATRIX, "  lint:\n", "  lint:\n    if: false\n"),
        (".github/workflows/ci.yml", MATRIX, "  lint:\n", "  lint:\n    continue-on-error: true\n"),
        (".github/workflows/ci.yml", MATRIX, "run: tox -e py", "run: tox -e py --notest"),
        (
            ".github/workflows/ci.yml",
            MATRIX,
            "run: tox -e py",
            "env: {PYTEST_ADDOPTS: -k nothing}\n        run: tox -e py",
        ),
        (".github/workflows/ci.yml", MATRIX, "pypy3]", "pypy3]\n        exclude: [{os: windows-latest}]"),
        (".pre-commit-config.yaml", HOOKS, "repos:", "exclude: .*\nrepos:"),
        (".pre-commit-config.yaml", HOOKS, "exclude: ^docs/", "args: [--exit-zero]"),
        (".pre-commit-config.yaml", HOOKS, "        exclude: ^docs/", "        stages: [manual]"),
    ],
)
def test_ways_to_check_less_by_configuration_are_never_silent(path: str, before: str, old: str, new: str) -> None:
    assert old in before
    assert bad(found(path, before, before.replace(old, new, 1))) != []


SESSIONS = (
    '@nox.session\ndef tests(session):\n    session.run("pytest")\n\n\n@nox.session\ndef lint(session):\n    pass\n'
)


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("pyrightconfig.json", '{"typeCheckingMode": "strict"}', '{"typeCheckingMode": "off"}'),
        ("biome.json", '{"linter": {"enabled": true}}', '{"linter": {"enabled": false}}'),
        (".rubocop.yml", "Style/X:\n  Enabled: true\n", "Style/X:\n  Enabled: false\n"),
        ("phpstan.neon", "parameters:\n  level: 8\n", "parameters:\n  level: 1\n"),
        ("Cargo.toml", '[lints.clippy]\nall = "deny"\n', '[lints.clippy]\nall = "allow"\n'),
        (".eslintrc.json", '{"rules": {"strict": "error"}}', '{"rules": {"strict": "off"}}'),
        ("ruff.toml", "line-length = 80\n", 'line-length = 80\ninclude = ["a.py"]\n'),
        ("package.json", '{"jest": {"verbose": true}}', '{"jest": {"verbose": true, "roots": ["x"]}}'),
        ("package.json", '{"jest": {}}', '{"jest": {"moduleNameMapper": {"^../src/(.*)$": "<rootDir>/fake/$1"}}}'),
        ("vitest.config.ts", "export default {test: {}}", 'export default {test: {alias: {"../src": "./fake"}}}'),
        ("package.json", '{"scripts": {"test": "mocha"}}', '{"scripts": {"test": "MOCHA_OPTIONS=--dry-run mocha"}}'),
        ("package.json", '{"scripts": {"test": "mocha"}}', '{"scripts": {"test": "mocha -r ./hooks.js"}}'),
        ("package.json", '{"scripts": {"test": "mocha"}}', '{"scripts": {"test": "cross-env NODE_OPTIONS=-rx mocha"}}'),
        ("package.json", '{"scripts": {"test": "node --test"}}', '{"scripts": {"test": "node --test test/a.js"}}'),
        ("noxfile.py", SESSIONS, SESSIONS.replace('"pytest"', '"pytest", env={"PYTEST_ADDOPTS": "-kx"}')),
        ("noxfile.py", SESSIONS, SESSIONS.replace("    session.run", "    session.skip()\n    session.run")),
        ("noxfile.py", SESSIONS, SESSIONS.replace("    session.run", "    if session.posargs:\n        session.run")),
        ("noxfile.py", SESSIONS, SESSIONS.replace("@nox.session\ndef tests", "@nox.session(default=False)\ndef tests")),
    ],
)
def test_a_setting_that_checks_less_is_found_under_any_name(path: str, old: str, new: str) -> None:
    assert bad(look([ChangedFile(path, old.encode(), new.encode())]))


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("pyrightconfig.json", '{"typeCheckingMode": "basic"}', '{"typeCheckingMode": "strict"}'),
        ("package.json", '{"jest": {}}', '{"jest": {"moduleNameMapper": {"^(\\\\.{1,2}/.*)\\\\.js$": "$1"}}}'),
        ("package.json", '{"jest": {}}', '{"jest": {"moduleNameMapper": {"\\\\.css$": "<rootDir>/test/style.js"}}}'),
        (
            "package.json",
            '{"scripts": {"test": "jest"}}',
            '{"scripts": {"test": "NODE_OPTIONS=--experimental-vm-modules jest"}}',
        ),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "cross-env NODE_ENV=test jest"}}'),
        (
            "noxfile.py",
            SESSIONS,
            SESSIONS.replace(
                '    session.run("pytest")',
                '    if session.posargs:\n        session.run("pytest", "-v")\n    else:\n        session.run("pytest")',
            ),
        ),
    ],
)
def test_a_setting_that_checks_as_much_is_left_alone(path: str, old: str, new: str) -> None:
    assert bad(look([ChangedFile(path, old.encode(), new.encode())])) == []


FILTERS = '[tool.pytest.ini_options]\nfilterwarnings = ["ignore::DeprecationWarning", "error"]\n'
FILTERS_SWAPPED = FILTERS.replace('"ignore::DeprecationWarning", "error"', '"error", "ignore::DeprecationWarning"')
LINT = '{"scripts": {"lint": "eslint --max-warnings 0 ."}}'
RC = '{"root": true, "rules": {"semi": "error"}}'
FLAT = "module.exports = [{ rules: { semi: 'error' } }];\n"
CRATES = '[workspace]\nmembers = ["a", "b"]\n'
TSCONFIG = '{"compilerOptions": {"strict": true}, "include": ["src", "tests"]}'
RUFF = '[tool.ruff.lint]\nselect = ["E", "F", "S"]\n'
TARGETS = "test:\n\tpytest\n"


@pytest.mark.parametrize(
    ("path", "old", "new", "context", "what"),
    [
        ("pyproject.toml", FILTERS, FILTERS_SWAPPED, {}, "a warning is ignored: `ignore::DeprecationWarning`"),
        ("pyproject.toml", FILTERS_SWAPPED, FILTERS, {}, None),
        (
            "pytest.ini",
            "[pytest]\nfilterwarnings =\n    error\n    ignore::A\n    ignore::B\n",
            "[pytest]\nfilterwarnings =\n    error\n    ignore::B\n    ignore::A\n",
            {},
            None,
        ),
        ("pyrightconfig.json", '{"strict": ["src", "tests"]}', '{"strict": ["src"]}', {}, "no longer includes `tests`"),
        ("pyrightconfig.json", '{"strict": ["src"], "venv": "a"}', '{"venv": "a"}', {}, "strict was removed"),
        ("pyrightconfig.json", '{"strict": ["src/a"]}', '{"strict": ["src"]}', {}, None),
        ("pyproject.toml", '[tool.bandit]\nskips = ["B101"]\n', '[tool.bandit]\nskips = ["B602"]\n', {}, "B602"),
        ("pyproject.toml", '[tool.bandit]\nskips = ["B101", "B602"]\n', '[tool.bandit]\nskips = ["B602"]\n', {}, None),
        ("bandit.yaml", "exclude_dirs: [tests]\n", "exclude_dirs: [tests, src]\n", {}, "now leaves out `src`"),
        ("bandit.yaml", "tests: [B101, B602]\n", "tests: [B101]\n", {}, "no longer includes `B602`"),
        (".bandit", "[bandit]\nskips = B101\n", "[bandit]\nskips = B101,B602\n", {}, "now leaves out `B602`"),
        (
            "pyproject.toml",
            "[tool.black]\nline-length = 88\n",
            '[tool.black]\nline-length = 88\nforce-exclude = "src/.*"\n',
            {},
            "now leaves out `src/.*`",
        ),
        ("pyproject.toml", "[tool.black]\nline-length = 88\n", "[tool.black]\nline-length = 99\n", {}, None),
        ("pyproject.toml", RUFF, f"{RUFF}\n[tool.ruff]\nforce-exclude = true\n", {}, None),
        ("package.json", LINT, LINT.replace("eslint", "eslint --quiet"), {}, "adds `--quiet`"),
        ("package.json", LINT, LINT.replace(" 0 ", " 50 "), {}, "`--max-warnings 50` lets a failure of"),
        ("package.json", LINT, LINT.replace(" 0 ", " 0 --rule 'semi: off' "), {}, "adds `--rule semi: off`"),
        ("package.json", LINT, LINT.replace("eslint", "eslint --no-eslintrc"), {}, "adds `--no-eslintrc`"),
        ("package.json", LINT, LINT.replace("eslint", "eslint --cache"), {}, None),
        ("package.json", LINT.replace(" 0 ", " 9 "), LINT, {}, None),
        (".eslintrc.json", RC, RC.replace('"rules"', '"ignorePatterns": ["src"], "rules"'), {}, "now leaves out `src`"),
        (".eslintrc.json", RC, RC.replace('"rules"', '"ignorePatterns": ["dist"], "rules"'), {}, None),
        ("eslint.config.js", FLAT, FLAT.replace("[{", "[globalIgnores(['src/**']), {"), {}, "now leaves out `src/**`"),
        ("eslint.config.js", FLAT, FLAT.replace("[{", "[globalIgnores(['dist/**']), {"), {}, None),
        (".eslintignore", None, "src/\n", {".eslintrc.json": RC}, "now leaves out `src`"),
        (".eslintignore", None, "*\n", {"package.json": f'{{"eslintConfig": {RC}}}'}, "now leaves out `*`"),
        (".eslintignore", None, "# built\ndist/\nnode_modules\n", {".eslintrc.json": RC}, None),
        ("Cargo.toml", CRATES, f'{CRATES}default-members = ["a"]\n', {}, "default-members no longer includes `b`"),
        ("Cargo.toml", CRATES, f'{CRATES}default-members = ["a", "b"]\n', {}, None),
        ("Cargo.toml", CRATES, CRATES.replace(', "b"', ""), {}, "workspace.members no longer includes `b`"),
        ("Cargo.toml", CRATES, CRATES.replace('"b"', '"b", "c"'), {}, None),
        (
            "tsconfig.json",
            TSCONFIG,
            TSCONFIG.replace('"include": ["src", "tests"]', '"files": ["a.ts"]'),
            {},
            "include",
        ),
        ("tsconfig.json", '{"include": ["src"]}', '{"include": ["src"], "files": ["a.ts"]}', {}, None),
        (
            "tsconfig.json",
            '{"compilerOptions": {}}',
            '{"files": ["a.ts"]}',
            {},
            "tsconfig.files now includes only `a.ts`",
        ),
        ("tsconfig.json", TSCONFIG, TSCONFIG.replace('["src", "tests"]', '["src/**/*", "tests/**"]'), {}, None),
        ("tsconfig.json", TSCONFIG, TSCONFIG.replace("true", 'true, "noCheck": true'), {}, "noCheck is switched on"),
        ("src/ruff.toml", None, '[lint]\nselect = ["E"]\n', {"pyproject.toml": RUFF}, "ruff.select no longer has `F`"),
        ("src/ruff.toml", None, "line-length = 99\n", {"pyproject.toml": RUFF}, "no longer has `E` and 1 more"),
        (
            "src/.ruff.toml",
            None,
            'extend = "../pyproject.toml"\n[lint]\nignore = ["S"]\n',
            {"pyproject.toml": RUFF},
            "ruff.ignore now leaves out `S`",
        ),
        (
            "src/ruff.toml",
            None,
            'extend = "../pyproject.toml"\n[lint]\nextend-select = ["B"]\n',
            {"pyproject.toml": RUFF},
            None,
        ),
        (
            "a/src/pyproject.toml",
            None,
            '[tool.ruff.lint]\nselect = ["E9"]\n',
            {"pyproject.toml": RUFF},
            "no longer has",
        ),
        ("a/src/pyproject.toml", None, '[project]\nname = "src"\n', {"pyproject.toml": RUFF}, None),
        ("src/.eslintrc.json", None, '{"root": true}', {".eslintrc.json": RC}, "rules.semi was removed"),
        ("src/.eslintrc.json", None, '{"rules": {"eqeqeq": "error"}}', {".eslintrc.json": RC}, None),
        ("src/.eslintrc.json", None, '{"extends": ["b"]}', {".eslintrc.json": '{"extends": ["a"]}'}, None),
        ("eslint.config.mjs", "export default [{}];\n", "export default [{ files: ['*.mjs'] }];\n", {}, None),
        ("lib/.rubocop.yml", None, "AllCops:\n  DisabledByDefault: true\n", {".rubocop.yml": "A:\n  B: 1\n"}, "on"),
        ("GNUmakefile", None, "test:\n\techo well\n", {"Makefile": TARGETS}, "test: `pytest` is no longer run"),
        ("makefile", None, "all:\n\tcc a.c\n", {"Makefile": TARGETS}, "test: `pytest` is no longer run"),
        ("GNUmakefile", None, "include Makefile\n\nall:\n\tcc a.c\n", {"Makefile": TARGETS}, None),
        ("docs/GNUmakefile", None, "all:\n\tcc a.c\n", {"Makefile": TARGETS}, None),
    ],
)
def test_settings_that_take_effect_are_compared(
    path: str, old: str | None, new: str, context: dict[str, str], what: str | None
) -> None:
    findings = [each for each in found(path, old, new, **context) if each.grade != "note"]
    if what is None:
        assert findings == []
    else:
        assert [what in each.what for each in findings] == [True]
        assert findings[0].line


def test_a_crate_that_is_removed_with_its_files_is_left_alone() -> None:
    changes = [
        ChangedFile("Cargo.toml", CRATES.encode(), CRATES.replace(', "b"', "").encode()),
        ChangedFile("b/Cargo.toml", b'[package]\nname = "b"\n', None),
    ]
    assert [each for each in look(changes) if each.path == "Cargo.toml"] == []
