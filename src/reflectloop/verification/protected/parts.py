"""Extract from a configuration file the part that controls checks, as dotted keys and values."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping

import yaml

from reflectloop.verification.protected import builds, make, packages
from reflectloop.verification.protected.names import words

Part = Mapping[str, object]

_STEERING_TOOLS = frozenset(
    words(
        "pytest ruff flake8 pycodestyle pydocstyle black isort mypy pyright basedpyright pylint coverage tox "
        "nox hatch poe taskipy bandit ty pytype pyre vulture interrogate importlinter codespell cibuildwheel "
        "doit invoke yapf autopep8 deptry refurb djlint typos pydoclint mutmut django-stubs flit-test nitpick "
        "pyrefly ssort unittest behave robot check-manifest slotscheck darglint autoflake pyupgrade "
        "docformatter"
    )
)
_STEERING_SECTIONS = re.compile(
    r"(?:tool:)?pytest|testenv.*|tox|tox:.*|nox|flake8.*|mypy.*|coverage:.*|pycodestyle|pydocstyle|pylint.*|isort|pep8|"
    r"importlinter.*|bandit|aliases|gh-actions.*|gh|nosetests|green|vulture|codespell|test|run|report|paths|html|xml"
)
_TASKS = frozenset({"scripts", "tasks", "envs", "test", "task"})
_CARGO = frozenset({"lib", "test", "bench", "bin", "lints", "profile", "patch", "replace"})
_CARGO_PACKAGE = frozenset({"autotests", "autobenches", "autoexamples", "build"})
_STRICTNESS = re.compile(r"(?i)strict|^no[A-Z]|check|allow|isolated|exact|useUnknown|types$|typeRoots|plugins|jsx$")


def part(path: str, data: bytes | None) -> Part | None:
    """Return the part of this file that controls checks.

    The part is empty if there is no file, and None if it cannot be read.
    """
    if data is None:
        return {}
    reader = _reader(path.rpartition("/")[2].lower())
    try:
        return {str(key): value for key, value in reader(data.decode("utf-8-sig")).items() if value not in ({}, [])}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, configparser.Error, yaml.YAMLError):
        return None


def _reader(name: str) -> Callable[[str], Part]:
    for pattern, reader in _READERS:
        if pattern.fullmatch(name):
            return reader
    return lines


def flat(value: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield every leaf under its dotted key; a list is a leaf."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def lines(text: str) -> Part:
    """Count the lines of a file in no known format, without comments and blank lines."""
    stripped = (line.strip() for line in text.splitlines())
    counts: dict[str, object] = {}
    for line in stripped:
        if line and not line.startswith(("#", "//", ";", "*", "/*")):
            counts[line] = str(int(str(counts.get(line, 0))) + 1)
    return counts


def _toml(text: str) -> Part:
    return dict(flat(tomllib.loads(text)))


def _pyproject(text: str) -> Part:
    document = tomllib.loads(text)
    tools = document.get("tool", {})
    steering: dict[str, object] = {name: _named(name, table) for name, table in tools.items() if _steers(name)}
    for name, table in tools.items():
        if name not in steering and isinstance(table, dict):
            steering[name] = {key: inner for key, inner in table.items() if key in _TASKS}
    project = document.get("project", {})
    plugins = {key: entry for key, entry in project.get("entry-points", {}).items() if key.startswith("pytest")}
    steering["entry-points"] = plugins
    steering["commands-named-like-tools"] = packages.shims(project.get("scripts", {}))
    if "backend-path" in document.get("build-system", {}):
        steering["build-system"] = {"backend-path": document["build-system"]["backend-path"]}
    return dict(flat(steering))


def _steers(name: str) -> bool:
    return name in _STEERING_TOOLS or name.partition("-")[0] in {"pytest", "flake8", "mypy", "coverage", "tox"}


def _named(name: str, table: object) -> object:
    """Return pytest's table with `ini_options` merged in, as other files write it; any other table unchanged."""
    if name == "pytest" and isinstance(table, dict) and isinstance(table.get("ini_options"), dict):
        return {**{key: value for key, value in table.items() if key != "ini_options"}, **table["ini_options"]}
    return table


def _ini(text: str) -> Part:
    reader = configparser.RawConfigParser(strict=False, allow_no_value=True)
    reader.read_string(text)
    return {
        f"{_section(name)}.{key}": value
        for name in reader.sections()
        if _STEERING_SECTIONS.fullmatch(name)
        for key, value in reader.items(name)
    }


def _section(name: str) -> str:
    return name.removeprefix("tool:").replace("coverage:", "coverage.")


def _coveragerc(text: str) -> Part:
    return {f"coverage.{key}": value for key, value in _full_ini(text).items()}


def _full_ini(text: str) -> Part:
    reader = configparser.RawConfigParser(strict=False, allow_no_value=True)
    reader.read_string(text)
    return {f"{_section(name)}.{key}": value for name in reader.sections() for key, value in reader.items(name)}


def _json(text: str) -> Part:
    return dict(flat(json.loads(packages.without_comments(text))))


def _tsconfig(text: str) -> Part:
    document = json.loads(packages.without_comments(text))
    options = document.get("compilerOptions", {})
    parts: dict[str, object] = {
        key: document[key] for key in ("include", "exclude", "files", "extends") if key in document
    }
    parts["compilerOptions"] = {key: value for key, value in options.items() if _STRICTNESS.search(key)}
    return dict(flat(parts))


def _package(text: str) -> Part:
    return dict(flat(packages.steering(json.loads(text))))


def _composer(text: str) -> Part:
    return dict(flat({"scripts": json.loads(text).get("scripts", {})}))


def _cargo(text: str) -> Part:
    document = tomllib.loads(text)
    steering: dict[str, object] = {key: value for key, value in document.items() if key in _CARGO}
    steering["package"] = {key: value for key, value in document.get("package", {}).items() if key in _CARGO_PACKAGE}
    steering["workspace"] = {
        key: value for key, value in document.get("workspace", {}).items() if key in {"lints", "exclude"}
    }
    return dict(flat(steering))


def _yaml(text: str) -> Part:
    return dict(flat(yaml.safe_load(text)))


def _pylint(text: str) -> Part:
    return {f"pylint.{key}": value for key, value in _full_ini(text).items()}


def _prefixed(prefix: str, reader: Callable[[str], Part]) -> Callable[[str], Part]:
    return lambda text: {f"{prefix}.{key}": value for key, value in reader(text).items()}


_READERS: tuple[tuple[re.Pattern[str], Callable[[str], Part]], ...] = tuple(
    (re.compile(pattern), reader)
    for pattern, reader in (
        (r"pyproject\.toml", _pyproject),
        (r"\.?ruff\.toml", _prefixed("ruff", _toml)),
        (r"\.?pytest\.toml", _toml),
        (r"cargo\.toml", _cargo),
        (r".*\.toml", _toml),
        (r"setup\.cfg|tox\.ini", _ini),
        (r"\.coveragerc", _coveragerc),
        (r"\.?pylintrc", _pylint),
        (r"\.?pytest\.ini|\.flake8|\.?mypy\.ini|\.isort\.cfg|\.importlinter|\.pycodestyle|.*\.(?:ini|cfg)", _full_ini),
        (r"package\.json", _package),
        (r"composer\.json", _composer),
        (r"[tj]sconfig.*\.json", _tsconfig),
        (r".*\.json[c5]?|\.(?:eslintrc|babelrc|prettierrc|nycrc|mocharc|c8rc|jshintrc)", _json),
        (r".*\.ya?ml", _yaml),
        (r"(?:gnu)?makefile.*|.*\.mk|\.?justfile|.*\.just", make.steering),
        (r"cmakelists\.txt", builds.cmake),
        (r"pom\.xml", builds.maven),
        (r"build\.gradle(?:\.kts)?", builds.gradle),
        (r"vite\.config\..*", builds.vite),
    )
)
