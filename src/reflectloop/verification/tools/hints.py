"""Find the commands by which a project checks itself: in tox, nox, make, CI, hooks and task tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from reflectloop.system.patterns import lazy
from reflectloop.verification.tools.commands import call
from reflectloop.verification.tools.project import ProjectPart, at, listed, table
from reflectloop.verification.tools.record import Hint

_CI = r"^(\.github/workflows/[^/]+\.ya?ml|\.gitlab-ci\.yml|\.travis\.yml|\.circleci/config\.yml|azure-pipelines\.yml)$"
_MAKE = ("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", "Taskfile.yml")
_LEAD = lazy(r"^(-\s+)?((run|script|cmd|command|entry)\s*:\s*)?([|>][-+]?$)?[@-]*\s*")
_HOOK = lazy(r"^[-\s{]*id:\s*[\"']?([\w-]+)", re.MULTILINE)
_PRE_COMMIT = ".pre-commit-config.yaml"
_RUN_BY_HOOKS = {"ruff": "ruff check", "ruff-check": "ruff check", "basedpyright": "pyright"}
_USUAL_ARGUMENTS = {"mypy": ["--ignore-missing-imports", "--scripts-are-modules"]}  # of a hook that names none
_MAKE_VARIABLE = lazy(r"\$[({][\w.-]+[)}]/?")
_TOX_BRACES = lazy(r"\{(?:posargs|tty)(?::([^{}]*))?\}")
_TOX_FOLDER = lazy(r"\{(?:tox_?ini_?dir|tox_?root)\}/?")
_TOX_PYTHON = lazy(r"\{env_?python\}")
_TOX_OTHER = lazy(r"(?:--[\w-]+\s+)?\S*\{[^{}]*\}\S*")  # with the option whose value it is


def hints(part: ProjectPart) -> list[Hint]:
    """Return the commands in order of trust: test environments, then task tables, then recipes, CI and hooks."""
    sources = (_tox(part), _nox(part), _tasks(part), _make(part), _ci(part), _hooks(part))
    return [hint for source in sources for hint in source]


def of_tool(project_hints: Iterable[Hint], tool: str) -> Hint | None:
    return next((hint for hint in project_hints if hint.call.tool == tool), None)


def hook(part: ProjectPart, *names: str) -> str | None:
    """Return the pre-commit hook with one of these names, or None."""
    hooks = _HOOK.findall(part.text(_PRE_COMMIT))
    return next((name for name in hooks if name in names), None)


def _lines(source: str, lines: Iterable[str]) -> Iterator[Hint]:
    for line in lines:
        tool_call = call(_LEAD.sub("", line.strip()))
        if tool_call:
            yield Hint(source, tool_call)


def _tox(part: ProjectPart) -> Iterator[Hint]:
    for source, text in (("tox.ini", part.ini("tox.ini")), ("setup.cfg", part.ini("setup.cfg"))):
        for section in text:
            if section.startswith(("testenv", "tox:testenv")):
                yield from _lines(source, _tox_commands(text[section].get("commands", "")))
    tables = [at(part.toml("tox.toml"), "env_run_base"), at(part.toml("pyproject.toml"), "tool", "tox", "env_run_base")]
    for env_table in tables:
        for argv in listed(env_table, "commands"):
            tool_call = (
                call(tuple(argument for argument in argv if isinstance(argument, str)))
                if isinstance(argv, list)
                else None
            )
            if tool_call:
                yield Hint("tox", tool_call)


def _tox_commands(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        plain = _TOX_BRACES.sub(lambda match: match[1] or "", line)
        plain = _TOX_PYTHON.sub("python", _TOX_FOLDER.sub("", plain))
        yield _TOX_OTHER.sub("", re.sub(r"^[\w,.-]+:\s+", "", plain.strip()))


def _nox(part: ProjectPart) -> Iterator[Hint]:
    try:
        tree = ast.parse(part.text("noxfile.py"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run":
            argv = [
                argument.value
                for argument in node.args
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            ]
            tool_call = call(argv)
            if tool_call:
                yield Hint("noxfile.py", tool_call)


def _tasks(part: ProjectPart) -> Iterator[Hint]:
    tool = part.toml("pyproject.toml").get("tool")
    tables = [
        at(tool, "poe", "tasks"),
        at(tool, "pdm", "scripts"),
        at(tool, "taskipy", "tasks"),
        at(tool, "rye", "scripts"),
    ]
    tables += [at(environment, "scripts") for environment in table(tool, "hatch", "envs").values()]
    for tasks in tables:
        yield from _lines("pyproject.toml", _strings(tasks))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value.replace("{args}", "").replace("{args:tests}", "tests")
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _make(part: ProjectPart) -> Iterator[Hint]:
    name = part.first(_MAKE)
    if name:
        recipes = (line for line in part.text(name).splitlines() if line[:1] in (" ", "\t"))
        yield from _lines(name, (_MAKE_VARIABLE.sub("", line) for line in recipes))


def _ci(part: ProjectPart) -> Iterator[Hint]:
    for name in part.matching(_CI):
        yield from _lines(name, part.text(name).splitlines())


def _hooks(part: ProjectPart) -> Iterator[Hint]:
    """Yield the hooks of pre-commit that are calls of a tool, with the arguments they are given."""
    text = part.text(_PRE_COMMIT)
    if not text:
        return
    import yaml  # noqa: PLC0415 - few projects have hooks of pre-commit

    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    for repository in listed(document, "repos"):
        for entry in listed(repository, "hooks"):
            name = str(at(entry, "id"))
            arguments = listed(entry, "args") if at(entry, "args") is not None else _USUAL_ARGUMENTS.get(name, [])
            tool_call = call((*_RUN_BY_HOOKS.get(name, name).split(), *(str(argument) for argument in arguments)))
            if tool_call:
                yield Hint(_PRE_COMMIT, tool_call)
