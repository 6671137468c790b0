"""A workflow or a script that makes the next verdict weaker is asked about once, with its line."""

from __future__ import annotations

import pytest

from python_test_diff import found

CI = """on:
  push:
    branches: [main]
  pull_request:
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: pip install -e .[test]
      - name: tests
        run: |
          pytest
  lint:
    runs-on: ubuntu-latest
    steps:
      - run: ruff check .
"""
JOB = "  test:\n    runs-on: ubuntu-latest\n"
STEP = "      - name: tests\n"
RUN = "          pytest\n"
GATE = "  gate:\n    if: {}\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo hi\n  test:\n    needs: gate\n"


def script(text: str) -> str:
    return "".join(f"          {line}\n" for line in text.splitlines())


def step(text: str) -> str:
    return f"      - run: {text}\n{STEP}"


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        # Variables.
        (STEP, f"{STEP}        env:\n          PYTEST_ADDOPTS: -k no\n", 13, "`PYTEST_ADDOPTS=-k no` may leave"),
        (JOB, f"{JOB}    env:\n      PYTHONPATH: calm\n", 9, "`PYTHONPATH=calm` may leave"),
        ("jobs:", "env:\n  NODE_OPTIONS: --require ./calm.js\njobs:", 6, "`NODE_OPTIONS=--require ./calm.js` may"),
        ("jobs:", "env:\n  BASH_ENV: ./calm.sh\njobs:", 6, "`BASH_ENV=./calm.sh` may leave"),
        ("jobs:", "env:\n  RUSTFLAGS: -A warnings\njobs:", 6, "`RUSTFLAGS=-A warnings` may leave"),
        (STEP, step('echo "PYTEST_ADDOPTS=-k no" >> $GITHUB_ENV'), 11, "`PYTEST_ADDOPTS=-k no` may leave"),
        (STEP, step('echo "SKIP=ruff" | tee -a "$GITHUB_ENV"'), 11, "`SKIP=ruff` may leave"),
        (STEP, step("cat settings >> $GITHUB_ENV"), 11, "sets variables that are not written there"),
        (STEP, step("echo $PWD/shims >> $GITHUB_PATH"), 11, "programs in `$PWD/shims` come first"),
        (RUN, script('export PYTEST_ADDOPTS="-k no"\npytest'), 13, "`PYTEST_ADDOPTS=-k no` may leave"),
        (RUN, script('export PATH="$PWD/shims:$PATH"\npytest'), 13, "`PATH=$PWD/shims:$PATH` may leave"),
        # Another folder.
        (STEP, f"{STEP}        working-directory: docs\n", 12, "`pytest` now runs in `docs`, and ran in `.`"),
        (JOB, f"{JOB}    defaults:\n      run:\n        working-directory: docs\n", 9, "now runs in `docs`"),
        (RUN, script("cd docs\npytest"), 14, "`pytest` now runs in `docs`"),
        # Commands that are not reached, or whose failure is lost.
        (RUN, script("exit 0\npytest"), 13, "`exit 0` lets a failure pass"),
        (RUN, script("exit\npytest"), 13, "`pytest` is never reached: `exit` comes first"),
        (RUN, script("return 0\npytest"), 13, "`pytest` is never reached: `return 0` comes first"),
        (RUN, script("exec true\npytest"), 13, "`pytest` is never reached: `exec true` comes first"),
        (RUN, script("[ -f x ] && exit\npytest"), 13, "`pytest` now runs only if `not [ -f x ]`"),
        (RUN, script('if [ -z "$CI" ]; then\n  pytest\nfi'), 13, '`pytest` now runs only if `[ -z "$CI" ]`'),
        (RUN, script("test -f never && pytest\necho done"), 13, "`pytest` now runs only if `test -f never`"),
        (RUN, script("if ! pytest; then echo bad; fi"), 13, "`if` lets a failure of `pytest` pass"),
        (RUN, script(": <<X\npytest\nX"), 13, "`pytest` is no longer run"),
        (RUN, script("check() {\n  pytest\n}"), 13, "`pytest` now runs only if `check is called`"),
        (STEP, f"{STEP}        shell: bash --noprofile --norc {{0}}\n", 12, "may let a failure pass"),
        (STEP, f"{STEP}        continue-on-error: true\n", 12, "`true` lets a failure of `pytest` pass"),
        # Other programs and other sources.
        (RUN, script("alias pytest=true\npytest"), 13, "`pytest` is an alias"),
        (RUN, script("pytest() { true; }\npytest"), 13, "`pytest` is a function of the script"),
        (RUN, script("rm -rf tests/slow\npytest"), 13, "`rm -rf tests/slow` changes what is tested"),
        (RUN, script("git checkout v1.0 -- tests\npytest"), 13, "changes what is tested"),
        ("checkout@v4\n", "checkout@v4\n        with:\n          ref: v1.0\n", 11, "`v1.0` is checked out"),
        # Jobs and events.
        ("  test:\n", GATE.format("false"), 7, "`pytest` now runs only if `false`"),
        ("  test:\n", GATE.format("github.event_name == 'schedule'"), 7, "only if `github.event_name == 'schedule'`"),
        ("  pull_request:\n", "  pull_request:\n    paths-ignore: ['src/**']\n", 5, "paths-ignore: src/**"),
        ("  pull_request:\n", "  pull_request:\n    branches-ignore: [main]\n", 5, "branches-ignore: main"),
        ("  pull_request:\n", "  pull_request:\n    branches: [never]\n", 5, "branches: never"),
    ],
)
def test_a_workflow_that_checks_less_is_asked_about_once(old: str, new: str, line: int, what: str) -> None:
    assert old in CI
    findings = [each for each in found(".github/workflows/ci.yml", CI, CI.replace(old, new, 1)) if each.grade != "note"]
    assert [(each.rule, each.line) for each in findings] == [("ci-loosened", line)]
    assert what in findings[0].what


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("jobs:", "env:\n  FORCE_COLOR: 1\n  PYTEST_ADDOPTS: --color=yes\n  PYTHONPATH: src\njobs:"),
        ("jobs:", "env:\n  NODE_OPTIONS: --max-old-space-size=4096\n  RUSTFLAGS: -D warnings\njobs:"),
        ("jobs:", "concurrency:\n  group: x\n  cancel-in-progress: true\njobs:"),
        (STEP, step('echo "VERSION=$(git describe)" >> $GITHUB_ENV')),
        (STEP, step('echo "dir=$(pip cache dir)" >> $GITHUB_OUTPUT')),
        (STEP, step("echo $HOME/.local/bin >> $GITHUB_PATH")),
        (RUN, f"{RUN}      - run: echo shims >> $GITHUB_PATH\n"),  # after the checks
        (STEP, f"{STEP}        working-directory: .\n"),
        ("      - run: pip", "      - working-directory: docs\n        run: pip"),
        (RUN, script("cd docs\npip install x\ncd ..\npytest")),
        (RUN, script("(cd docs && pip install x)\npytest")),
        (RUN, script("pushd docs\nls\npopd\npytest")),
        (RUN, script("test -f setup.cfg || exit 1\npytest")),
        (RUN, script("set -euo pipefail\npytest")),
        (RUN, script("pytest; echo done")),  # the shell of a step stops at a failure
        (RUN, script("if ! pytest; then\n  echo bad\n  exit 1\nfi")),
        (RUN, script('if [ "$RUNNER_OS" = Linux ]; then\n  sudo apt-get install x\nfi\npytest')),
        (RUN, script('case "$X" in\n  a) echo 1 ;;\nesac\npytest')),
        (RUN, script("if [ -n $X ]; then\n  pytest -v\nelse\n  pytest\nfi")),
        (RUN, script("if [ -n $X ]; then\n  make test\nelse\n  pytest\nfi")),
        (STEP, step("Add-Content $env:GITHUB_PATH $tools/bin")),
        (RUN, script("if npm -ps ls nyc; then npm install x; fi\npytest")),
        (RUN, script("for x in a b; do\n  echo $x\ndone\npytest")),
        (RUN, script('say() {\n  echo "$1"\n}\nsay hi\npytest')),
        (RUN, script("check() {\n  pytest\n}\ncheck")),
        (RUN, script("cat <<X > notes\nexit 0\nX\npytest")),
        (RUN, script("rm -rf build dist\ngit fetch --tags\npytest")),
        (RUN, script('export PATH="$HOME/.local/bin:$PATH"\nexport PYTHONPATH=$PWD/src\npytest')),
        (STEP, f"{STEP}        if: always()\n"),
        (STEP, f"{STEP}        if: success() || failure()\n"),
        (STEP, f"{STEP}        if: ${{{{ !cancelled() }}}}\n"),
        (STEP, f"{STEP}        timeout-minutes: 10\n"),
        (JOB, f"{JOB}    strategy:\n      fail-fast: false\n"),
        (JOB, f"{JOB}    strategy:\n      fail-fast: true\n"),
        ("  test:\n", GATE.format("always()")),
        ("  test:\n", "  test:\n    needs: lint\n"),
        ("  pull_request:\n", "  pull_request:\n    paths-ignore: ['docs/**', '*.md']\n"),
        ("  pull_request:\n", "  pull_request:\n    branches-ignore: [gh-pages]\n"),
        ("checkout@v4\n", "checkout@v4\n        with:\n          fetch-depth: 0\n"),
        ("checkout@v4\n", "checkout@v4\n        with:\n          ref: ${{ github.head_ref }}\n"),
    ],
)
def test_a_workflow_that_checks_as_much_is_left_alone(old: str, new: str) -> None:
    assert old in CI
    findings = found(".github/workflows/ci.yml", CI, CI.replace(old, new, 1))
    assert [each.what for each in findings if each.grade != "note"] == []


@pytest.mark.parametrize(
    ("path", "text", "old", "new", "what"),
    [
        ("Makefile", "test:\n\tpytest\n", "pytest", "pytest; echo done", "test: `;` lets a failure of `pytest` pass"),
        ("Makefile", "test:\n\tpytest\n", "pytest", "set -e; pytest; echo done", None),
        ("Makefile", "test:\n\tpytest\n", "pytest", "pytest; r=$$?; rm -f x; exit $$r", None),
        ("Makefile", "test:\n\tpytest\n", "pytest", "cd docs && pytest", "test: `pytest` now runs in `docs`"),
        (
            "Makefile",
            "test:\n\tpytest\n",
            "pytest",
            "if [ -n $$X ]; then pytest; fi",
            "test: `pytest` now runs only if",
        ),
        ("package.json", '{"scripts": {"test": "mocha"}}', "mocha", "[ -n $X ] || mocha", "`mocha` now runs only if"),
        (
            "package.json",
            '{"scripts": {"test": "mocha"}}',
            "mocha",
            "mocha; echo done",
            "`;` lets a failure of `mocha`",
        ),
        ("package.json", '{"scripts": {"test": "mocha"}}', "mocha", "npm run build && mocha", None),
        ("tox.ini", "[testenv]\ncommands =\n    pytest\n", "pytest", "- pytest", "`-` lets a failure of `pytest` pass"),
        (".travis.yml", "script:\n  - make test\n", "make", "make -C docs", "`make -C docs test` now runs in `docs`"),
    ],
)
def test_scripts_are_read_as_their_shell_reads_them(path: str, text: str, old: str, new: str, what: str | None) -> None:
    findings = [each.what for each in found(path, text, text.replace(old, new)) if each.grade != "note"]
    assert [what in each for each in findings if what] == ([] if what is None else [True])
    assert bool(findings) == bool(what)


NOSE = "script:\n  - $NOSE --with-coverage\n  - node run_checks.js --all\nbefore_install:\n  - easy_install nose coverage\n"


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("$NOSE --with-coverage", "$NOSE $NOSE_OPTIONS", "`$NOSE $NOSE_OPTIONS` drops `--with-coverage`"),
        ("easy_install nose coverage", "easy_install nose", None),
        (
            "node run_checks.js --all",
            "./more/lint.sh",
            "`node run_checks.js --all` is no longer run, and `./more/lint.sh` is new",
        ),
        (
            "node run_checks.js --all",
            "python run_checks.py --all",
            "`node run_checks.js --all` became `python run_checks.py --all`",
        ),
    ],
)
def test_only_similar_commands_are_paired(old: str, new: str, what: str | None) -> None:
    findings = [each.what for each in found(".travis.yml", NOSE, NOSE.replace(old, new)) if each.grade != "note"]
    assert [each.partition(" (line")[0] for each in findings] == ([] if what is None else [what])
