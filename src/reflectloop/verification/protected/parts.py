"""Extract from a configuration file the part that controls checks, as dotted keys and values."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from typing import Any, NamedTuple

import yaml

from reflectloop.system.patterns import lazy
from reflectloop.verification.protected.paths import is_executable
from reflectloop.verification.protected.tool_names import of_tools
from reflectloop.verification.tools.record import PartReader
from reflectloop.verification.tools.registry import tools

_VARIABLE = lazy(r"^(?:export\s+|override\s+)?([\w.-]+)\s*(?:[:?+!]|::)?=\s*(.*)$")
_RULE = lazy(r"^@?([^:=\t#]+?)\s*::?(?!=)\s*(.*)$")
_USED = lazy(r"\$[({]([\w.-]+)|\{\{\s*([\w-]+)")
# Variables and lines that affect every recipe.
_GLOBAL = lazy(r"^(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|PATH|\.DEFAULT_GOAL|BASH_ENV|ENV|PYTEST_ADDOPTS|PYTHONPATH)$")
_GLOBAL_LINE = lazy(r"^-?(?:s?include|export|unexport|import|set|mod)(?:\s|$)|^\.(?:IGNORE|ONESHELL|POSIX|SILENT)\b")


class MakeRule(NamedTuple):
    """The prerequisites and the recipe of one target."""

    needs: tuple[str, ...]
    recipe: tuple[str, ...]


class Makefile(NamedTuple):
    """The rules and variables of a makefile, and the lines that affect every recipe."""

    rules: dict[str, MakeRule]
    variables: dict[str, str]
    everywhere: list[str]


def make_steering(text: str) -> dict[str, object]:
    """Return the targets, variables and lines that control checks."""
    book = _read_make(text)
    wanted = _with_prerequisites(book, {name for name, rule in book.rules.items() if runs_checks(name, rule.recipe)})
    parts: dict[str, object] = {f"target {name}": _comparable(book.rules[name]) for name in sorted(wanted)}
    used = _used(book, wanted)
    parts.update({f"variable {name}": book.variables[name] for name in sorted(used)})
    parts.update({f"line {line}": True for line in book.everywhere})
    return parts


def _read_make(text: str) -> Makefile:
    book = Makefile({}, {}, [])
    current: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line[:1] in {"\t", " "} and current and line.strip():
            for name in current:
                rule = book.rules[name]
                book.rules[name] = MakeRule(rule.needs, (*rule.recipe, " ".join(line.split())))
        elif line.strip() and not line.startswith("#"):
            current = _take(line, book)
    return book


def _take(line: str, book: Makefile) -> list[str]:
    bare = line.partition(" #")[0].rstrip()
    if _GLOBAL_LINE.match(bare):
        book.everywhere.append(bare)
    if assignment := _VARIABLE.match(bare):
        book.variables[assignment[1]] = (book.variables.get(assignment[1], "") + " " + assignment[2]).strip()
        return []
    match = _RULE.match(bare)
    if not match or bare.startswith((".PHONY", ".DEFAULT_GOAL")):
        return []
    needs, _, inline = match[2].partition(";")
    targets = match[1].split()
    for name in targets:
        old = book.rules.get(name, MakeRule((), ()))
        recipe = (*old.recipe, inline.strip()) if inline.strip() else old.recipe
        book.rules[name] = MakeRule((*old.needs, *needs.split()), recipe)
    return targets


def _with_prerequisites(book: Makefile, wanted: set[str]) -> set[str]:
    """Add to the wanted targets all that they depend on."""
    waiting = list(wanted)
    while waiting:
        for need in book.rules[waiting.pop()].needs:
            if need in book.rules and need not in wanted:
                wanted.add(need)
                waiting.append(need)
    return wanted


def _comparable(rule: MakeRule) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the rule without plain `@echo` lines, which change nothing."""
    return tuple(sorted(rule.needs)), tuple(line for line in rule.recipe if not re.match(r"@?echo\b[^;&|]*$", line))


def _used(book: Makefile, wanted: set[str]) -> set[str]:
    """Return the variables that the wanted targets use, directly or through other variables."""
    waiting = [line for name in wanted for line in (*book.rules[name].recipe, *book.rules[name].needs)]
    used = {name for name in book.variables if _GLOBAL.match(name)}
    while waiting:
        for first, second in _USED.findall(waiting.pop()):
            name = first or second
            if name in book.variables and name not in used:
                used.add(name)
                waiting.append(book.variables[name])
    return used


_JUDGING_WORDS = (
    "tests?|lint|check|checks|build|types?|typecheck|type-check|ci|verify|cover|coverage|e2e|unit|integration|spec|"
    "validate|audit|format|qa|all|tdd"
)
_HOOKS = lazy(r"^(?:pre|post)(?:test|lint|build|check|install|pack|publish|coverage)|^prepare$|^install$")
_CALLED = lazy(r"(?:npm|yarn|pnpm|bun)(?:\s+run(?:-script)?)?\s+(?:-\S+\s+)*([\w:.-]+)|run-[sp]\s+([\w:.\- ]+)")


@cache
def _tool_calls() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(tool.files.commands for tool in tools() if tool.files.commands)})\b")


def calls_a_tool(command: str) -> bool:
    return _tool_calls().search(command) is not None


@cache
def _judging_name() -> re.Pattern[str]:
    known = "|".join([_JUDGING_WORDS, *sorted(of_tools("script_names"))])
    return re.compile(rf"(?i)(?:^|[-:_.])(?:{known})(?:$|[-:_.\d])")


def runs_checks(name: str, commands: Iterable[str]) -> bool:
    """Return True if a script or target runs checks, by its name or by its commands."""
    return _judging_name().search(name) is not None or any(calls_a_tool(command) for command in commands)


def package_steering(document: Mapping[str, object]) -> dict[str, object]:
    """Return what controls checks: scripts that run checks, scripts they call, runner keys, tool-like commands."""
    parts: dict[str, object] = {key: document[key] for key in sorted(of_tools("package_keys")) if key in document}
    scripts = document.get("scripts")
    parts["scripts"] = judging_scripts(scripts) if isinstance(scripts, dict) else {}
    bins = document.get("bin")
    parts["bin"] = shims(bins) if isinstance(bins, dict) else {}
    return parts


def judging_scripts(scripts: Mapping[str, object]) -> dict[str, object]:
    """Return the scripts that run checks, and the scripts they call."""
    wanted = {key for key, command in scripts.items() if _judges(key, str(command))}
    waiting = list(wanted)
    while waiting:
        for called in _calls(str(scripts[waiting.pop()])):
            if called in scripts and called not in wanted:
                wanted.add(called)
                waiting.append(called)
    return {key: command for key, command in scripts.items() if key in wanted}


def _judges(name: str, command: str) -> bool:
    return bool(_HOOKS.search(name)) or runs_checks(name, [command])


def _calls(command: str) -> list[str]:
    calls = (first or second for first, second in _CALLED.findall(command))
    return [word for call in calls for word in call.split()]


def shims(commands: Mapping[str, object]) -> dict[str, object]:
    """Return the commands that a package would install under the name of a tool."""
    return {name: command for name, command in commands.items() if is_executable(name)}


_JSON_PIECE = lazy(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_JSON_COMMA = lazy(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])')


def without_comments(text: str) -> str:
    """Return plain JSON from a configuration file: no comments, no comma before a closing bracket."""
    plain = _JSON_PIECE.sub(lambda match: match[0] if match[0].startswith('"') else " ", text)
    return _JSON_COMMA.sub(lambda match: match[0] if match[0].startswith('"') else "", plain)


Part = Mapping[str, object]

_TASKS = frozenset({"scripts", "tasks", "envs", "test", "task"})


def part(path: str, data: bytes | None) -> Part | None:
    """Return the part of this file that controls checks.

    The part is empty if there is no file, and None if it cannot be read.
    """
    if data is None:
        return {}
    name = path.rpartition("/")[2].lower()
    try:
        return {
            str(key): value for key, value in _read(name, data.decode("utf-8-sig")).items() if value not in ({}, [])
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, configparser.Error, yaml.YAMLError):
        return None


def beside(path: str, data: bytes | None) -> Part:
    """Return what else of this file says how much is checked, though the file is not protected for it."""
    name = path.rpartition("/")[2].lower()
    readers = [record for tool in tools() for record in tool.files.parts if record.beside]
    for record in readers:
        if data is not None and record.beside and re.fullmatch(record.names, name):
            try:
                document = record.beside(_FORMATS[record.format](data.decode("utf-8-sig")))
                return {key: value for key, value in flat(document) if value not in ({}, [])}
            except (ValueError, TypeError, AttributeError, RecursionError):
                return {}
    return {}


def _read(name: str, text: str) -> Part:
    for pattern, reader in _readers():
        if pattern.fullmatch(name):
            return reader(text)
    return lines(text)


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


def _pyproject(text: str) -> Part:
    document = tomllib.loads(text)
    tools = document.get("tool", {})
    package_steering: dict[str, object] = {name: _named(name, table) for name, table in tools.items() if _steers(name)}
    for name, table in tools.items():
        if name not in package_steering and isinstance(table, dict):
            package_steering[name] = {key: inner for key, inner in table.items() if key in _TASKS}
    project = document.get("project", {})
    plugins = {key: entry for key, entry in project.get("entry-points", {}).items() if key.startswith("pytest")}
    package_steering["entry-points"] = plugins
    package_steering["commands-named-like-tools"] = shims(project.get("scripts", {}))
    if "backend-path" in document.get("build-system", {}):
        package_steering["build-system"] = {"backend-path": document["build-system"]["backend-path"]}
    return dict(flat(package_steering))


def _steers(name: str) -> bool:
    return any(fnmatch(name, known) for known in of_tools("pyproject"))


def _named(name: str, table: object) -> object:
    """Return a tool's table with its nested table of settings merged in, as other files write it."""
    nested = next((tool.files.pyproject_nested for tool in tools() if name in tool.files.pyproject.split()), "")
    if nested and isinstance(table, dict) and isinstance(table.get(nested), dict):
        return {**{key: value for key, value in table.items() if key != nested}, **table[nested]}
    return table


def _ini(text: str) -> Part:
    reader = configparser.RawConfigParser(strict=False, allow_no_value=True)
    reader.read_string(text)
    return {
        f"{_section(name)}.{key}": value
        for name in reader.sections()
        if _sections().fullmatch(name)
        for key, value in reader.items(name)
    }


@cache
def _sections() -> re.Pattern[str]:
    return re.compile("|".join(tool.files.ini_sections for tool in tools() if tool.files.ini_sections))


def _section(name: str) -> str:
    return name.removeprefix("tool:").replace("coverage:", "coverage.")


def _full_ini(text: str) -> Part:
    reader = configparser.RawConfigParser(strict=False, allow_no_value=True)
    reader.read_string(text)
    return {f"{_section(name)}.{key}": value for name in reader.sections() for key, value in reader.items(name)}


def _package(text: str) -> Part:
    return dict(flat(package_steering(json.loads(text))))


_FORMATS: dict[str, Callable[[str], Any]] = {
    "toml": tomllib.loads,
    "ini": _full_ini,
    "json": json.loads,
    "jsonc": lambda text: json.loads(without_comments(text)),
    "yaml": yaml.safe_load,
    "text": lambda text: text,
}


def _by_record(record: PartReader) -> Callable[[str], Part]:
    """Return the reader that a tool's record describes."""

    def read(text: str) -> Part:
        document = _FORMATS[record.format](text)
        settings = flat(record.select(document) if record.select else document)
        return {f"{record.prefix}.{key}" if record.prefix else key: value for key, value in settings}

    return read


@cache
def _readers() -> tuple[tuple[re.Pattern[str], Callable[[str], Part]], ...]:
    known = ((record.names, _by_record(record)) for tool in tools() for record in tool.files.parts)
    general = (
        (r"pyproject\.toml", _pyproject),
        (r"setup\.cfg|tox\.ini", _ini),
        (r"package\.json", _package),
        (r"(?:gnu)?makefile.*|.*\.mk|\.?justfile|.*\.just", make_steering),
        *known,
        (r".*\.toml", _by_record(PartReader("", "toml"))),
        (r"\.isort\.cfg|\.importlinter|\.pycodestyle|.*\.(?:ini|cfg)", _by_record(PartReader("", "ini"))),
        (r".*\.json[c5]?", _by_record(PartReader("", "jsonc"))),
        (r".*\.ya?ml", _by_record(PartReader("", "yaml"))),
    )
    return tuple((re.compile(pattern), reader) for pattern, reader in general)
