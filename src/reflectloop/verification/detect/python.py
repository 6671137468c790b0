"""Python: the builds, linters and tests that the records of tools detect in a project."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools.hints import hints, hook, of_tool
from reflectloop.verification.tools.project import ProjectPart, at
from reflectloop.verification.tools.record import Hint, PythonLinter, PythonTool
from reflectloop.verification.tools.registry import by_name, tools

_NAMES_MODULES = frozenset({"-p", "--package", "-m", "--module"})  # paths beside them are refused
_NEVER_FAILS = frozenset({"--exit-zero"})  # a linter that is run so is no check


@cache
def manifests() -> tuple[str, ...]:
    names = [name for tool in tools() if isinstance(tool.detect, PythonTool) for name in tool.detect.manifests]
    return tuple(f"^{re.escape(name)}$" for name in names)


def find(part: ProjectPart) -> Iterator[DetectedCheck]:
    project_hints = [hint for hint in hints(part) if _NEVER_FAILS.isdisjoint(hint.call.arguments)]
    yield from _first(part, project_hints, "build")
    for tool in tools():
        if isinstance(tool.detect, PythonLinter):
            reason = _reason(part, tool.name, tool.detect, project_hints)
            if reason:
                command = _command(part, tool.name, tool.detect, project_hints)
                yield part.check(tool.name, tool.kind, tool.name, command, reason)
    yield from _first(part, project_hints, "test")


def covers(part: ProjectPart, folder: str) -> bool:
    """Return True if this part's tests include those of a folder below it."""
    known = [tool.detect for tool in tools() if isinstance(tool.detect, PythonTool)]
    return any(detection.covers(part, folder) for detection in known if detection.covers)


def _first(part: ProjectPart, project_hints: list[Hint], kind: str) -> Iterator[DetectedCheck]:
    """Yield the check of the first tool of a kind that is detected."""
    for tool in tools():
        if isinstance(tool.detect, PythonTool) and tool.kind == kind:
            check = tool.detect.find(part, project_hints)
            if check:
                yield check
                return


def _reason(part: ProjectPart, tool: str, linter: PythonLinter, project_hints: Sequence[Hint]) -> str | None:
    name = part.first(linter.files)
    if name:
        return f"{name} exists"
    if at(part.toml("pyproject.toml"), "tool", tool) is not None:
        return f"pyproject.toml has [tool.{tool}]"
    for name in ("setup.cfg", "tox.ini"):
        for section in linter.sections:
            if section in part.ini(name):
                return f"{name} has [{section}]"
    hooked = hook(part, *linter.hooks)
    if hooked:
        return f".pre-commit-config.yaml has the hook {hooked}"
    runs = of_tool(project_hints, tool)
    return f"{runs.source} runs {tool}" if runs else None


def _command(part: ProjectPart, tool: str, linter: PythonLinter, project_hints: Sequence[Hint]) -> tuple[str, ...]:
    """Return the linter with the options and on the paths that the project itself uses."""
    runs = of_tool(project_hints, tool)
    options, paths = _options(part, tool, linter, runs.call.arguments if runs else ())
    if linter.command:
        return (*linter.command, *options, *paths)
    if (linter.names_its_files and linter.names_its_files(part)) or not _NAMES_MODULES.isdisjoint(options):
        return (tool, *options)
    return (tool, *options, *(paths or _sources(part)))


def _options(
    part: ProjectPart, tool: str, linter: PythonLinter, arguments: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split arguments into the options that decide what is an issue, and the paths; the others are left out."""
    run = by_name()[tool].run
    valued = run.valued if run else frozenset()
    options: list[str] = []
    paths: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        name = argument.partition("=")[0]
        value = [waiting.pop(0)] if name in valued and "=" not in argument and waiting else []
        if argument.startswith("-"):
            options += [] if name in linter.left_out else [argument, *value]
        elif part.first([argument]) or part.has_folder(argument.rstrip("/")):
            paths.append(argument)
    return tuple(options), tuple(paths)


def _sources(part: ProjectPart) -> tuple[str, ...]:
    """Return the project's own sources; `.` would include a `.venv` folder."""
    tops = {path.split("/")[0] for path in part.matching(r"^[^./][^/]*/(?:.*/)?[^/]+\.pyi?$")}
    if "src" in tops:
        return ("src",)
    packages = {top for top in tops if part.first([f"{top}/__init__.py"])}
    return (*sorted(packages), *part.matching(r"^(?!setup\.py)[^/]+\.py$")) or tuple(sorted(tops)) or (".",)
