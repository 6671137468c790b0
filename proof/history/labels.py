"""A simple rule of its own for which commits change an expectation or may check less; a person reads the list."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from proof.history.project import Project
from proof.history.sampling import Commit, is_test_path

_CONFIGURATION = re.compile(
    r"(^|/)(\.github/workflows/.*|\.travis\.yml|\.circleci/.*|appveyor\.yml|tox\.(ini|toml)|noxfile\.py|\.?pytest\.(ini|toml)"
    r"|conftest\.py|\.coveragerc|\.nycrc.*|\.taprc|\.mocharc.*|\.pre-commit-config\.yaml|\.?eslint[^/]*|\.flake8|\.?ruff\.toml"
    r"|\.?mypy\.ini|\.pylintrc|biome\.json|tsconfig[^/]*\.json|jest\.config\.\w+|\.golangci\.ya?ml|clippy\.toml|Makefile"
    r"|CMakeLists\.txt|setup\.cfg|pyproject\.toml|package\.json)$"
)
_CHECK_TOOLS = (
    "pytest",
    "ruff",
    "mypy",
    "coverage",
    "tox",
    "black",
    "isort",
    "flake8",
    "pylint",
    "pyright",
    "hatch",
    "nox",
)
_CHECK_FIELDS = ("scripts", "eslintConfig", "nyc", "jest", "mocha", "tap")
_NO_CHECKS = ("metadata", "options", "bdist_wheel", "egg_info", "sdist", "build_ext")
_TEST_NAME = re.compile(
    r"\b(?:def|fn|func|static void) (test_?\w*|Test\w+)\s*\("
    r"|\b(?:it|test|describe|t\.test)\(\s*['\"`]([^'\"`]+)|^class (Test\w+|\w+Test(?:Case)?s?)\b",
    re.MULTILINE,
)
_ASSERTION = re.compile(
    r"\bassert|\bself\.(fail|assert)|\braises\(|\bexpect\(|\bt\.(equal|deepEqual|same|is|ok|not|throws)\w*\(|TEST_ASSERT"
    r"|\bt\.(Error|Fatal)f?\(|\bt!\("
)


class Signs(NamedTuple):
    """What the rule saw in a commit; nothing means that it must PASS."""

    old_tests_fail: tuple[str, ...] = ()
    tests_gone: tuple[str, ...] = ()
    assertions_gone: tuple[str, ...] = ()
    configuration: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The strongest sign, in one word."""
        if self.old_tests_fail:
            return "expectation"
        if self.tests_gone or self.assertions_gone:
            return "tests edited"
        return "configuration" if self.configuration else "none"

    def __str__(self) -> str:
        parts = [
            ("old tests fail: ", self.old_tests_fail),
            ("tests gone: ", self.tests_gone),
            ("assertions gone: ", self.assertions_gone),
            ("configuration: ", self.configuration),
        ]
        return "; ".join(
            word + ", ".join(items[:3]) + (f" and {len(items) - 3} more" if items[3:] else "")
            for word, items in parts
            if items
        )


def names_of_tests(text: str) -> set[str]:
    """Return the names of tests and test classes in a file."""
    return {next(name for name in match.groups() if name) for match in _TEST_NAME.finditer(text)}


def assertions_of(text: str) -> Counter[str]:
    """Return the lines of a file that assert something, without spaces."""
    return Counter(re.sub(r"\s+", "", line).rstrip(",;") for line in text.splitlines() if _ASSERTION.search(line))


def checks_part(path: str, text: str) -> Any:  # noqa: ANN401 - a part of a TOML, JSON or INI document
    """Return the part of a mixed file that steers checks; the whole text of any other."""
    try:
        if path.endswith("pyproject.toml"):
            tools: Mapping[str, Any] = tomllib.loads(text).get("tool", {})
            return {name: tools[name] for name in _CHECK_TOOLS if name in tools}
        if path.endswith("package.json") and text:
            fields = json.loads(text)
            return {name: fields[name] for name in _CHECK_FIELDS if name in fields}
        if path.endswith("setup.cfg"):
            parser = configparser.ConfigParser(interpolation=None, strict=False)
            parser.read_string(text)
            return {name: dict(parser[name]) for name in parser.sections() if not name.startswith(_NO_CHECKS)}
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, configparser.Error):
        pass
    return text


def compare_texts(old: Mapping[str, str], new: Mapping[str, str]) -> Signs:
    """Return the signs that two versions of the changed files show by their text alone."""
    names: tuple[set[str], set[str]] = (set(), set())
    lines: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    configuration = []
    for path in sorted({*old, *new}):
        before, after = old.get(path, ""), new.get(path, "")
        if is_test_path(path) or path.endswith(".rs"):
            for side, text in enumerate((before, after)):
                names[side].update(names_of_tests(text))
                lines[side].update(assertions_of(text))
        if _CONFIGURATION.search(path) and checks_part(path, before) != checks_part(path, after):
            configuration.append(path)
    return Signs(
        tests_gone=tuple(sorted(names[0] - names[1])),
        assertions_gone=tuple(sorted(lines[0] - lines[1])),
        configuration=tuple(configuration),
    )


def label(project: Project, commit: Commit) -> Signs:
    """Return the signs of a commit: by text, and by running the parent's tests on the new source."""
    paths = project.paths(commit)
    texts = [{path: project.show(revision, path) for path in paths} for revision in (commit.parent, commit.id)]
    signs = compare_texts(texts[0], texts[1])
    if any(is_test_path(path) for path in paths):
        run = project.suite(commit.id, commit.parent, paths)
        if not run.green:
            signs = signs._replace(old_tests_fail=run.failing or (f"exit code {run.exit_code}",))
    return signs
