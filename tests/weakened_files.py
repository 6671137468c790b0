"""Settings and workflows that tests of weakening change."""

from __future__ import annotations

PYPROJECT = '[project]\nname = "shop"\nversion = "1"\n\n[tool.pytest.ini_options]\ntestpaths = ["tests"]\naddopts = "-ra --strict-markers"\nfilterwarnings = ["error"]\nxfail_strict = true\n\n[tool.ruff.lint]\nselect = ["ALL"]\nignore = ["D1"]\n\n[tool.coverage.report]\nfail_under = 90\n\n[tool.mypy]\nstrict = true\n'
CMAKE = """\
project(shop C)
enable_testing()
add_subdirectory(tests)
add_test(NAME shop COMMAND test_shop)
add_test(NAME more
  COMMAND test_shop --more)
set_tests_properties(shop PROPERTIES TIMEOUT 10)
"""
TOX = "[tox]\nenvlist = py{38,39,310},pypy3,lint\n\n[testenv]\ncommands = pytest {posargs}\n\n[testenv:py{38,39,310}-cov]\ncommands = pytest --cov=shop tests\n\n[testenv:lint]\ncommands = flake8 src tests\n"
NOX = 'import nox\n\n@nox.session(python=["3.9", "3.10"])\ndef tests(session):\n    session.install("pytest")\n    session.run("pytest", "-ra", *session.posargs)\n'
MATRIX = """\
on: [push, pull_request]
jobs:
  test:
    runs-on: ${{ matrix.os }}
    strategy:
      matrix:
        os: [ubuntu-latest, windows-latest]
        python: ["3.9", "3.10", pypy3]
    steps:
      - uses: actions/checkout@v4
      - run: pip install tox
      - name: Test
        run: tox -e py
  lint:
    runs-on: ubuntu-latest
    steps:
      - run: flake8 src/shop/ tests
"""
HOOKS = """\
repos:
  - repo: https://github.com/psf/black
    rev: 23.1.0
    hooks:
      - id: black
        args: ["--line-length=100"]
  - repo: https://github.com/PyCQA/flake8
    rev: 6.0.0
    hooks:
      - id: flake8
        exclude: ^docs/
"""
ESLINT = "import a from 'a';\n\nexport default [\n  a,\n  {\n    rules: {\n      eqeqeq: ['error', 'always'],\n      'max-params': ['error', 4],\n    },\n  },\n];\n"
SETUP = "[tool:pytest]\ntestpaths = tests\nfilterwarnings =\n    error\n\n[mypy]\nfiles = src/shop/, tests\ndisallow_untyped_defs = true\nwarn_no_return = true\n\n[flake8]\nselect = E, F\nignore = E501\nper-file-ignores =\n    src/shop/__init__.py: F401\n\n[coverage:paths]\nsource =\n    src\n"
