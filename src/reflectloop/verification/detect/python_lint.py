"""Python linters and type checkers that the project configures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reflectloop.verification.detect.hints import Hint, hook, of_tool
from reflectloop.verification.detect.part import ProjectPart, at, table
from reflectloop.verification.result import DetectedCheck, Kind

_FILES = {
    "ruff": ("ruff.toml", ".ruff.toml"),
    "flake8": (".flake8",),
    "mypy": ("mypy.ini", ".mypy.ini"),
    "pyright": ("pyrightconfig.json",),
}
_SECTIONS = {"flake8": ("flake8",), "mypy": ("mypy",)}
_HOOKS = {
    "ruff": ("ruff", "ruff-check"),
    "flake8": ("flake8",),
    "mypy": ("mypy",),
    "pyright": ("pyright", "basedpyright"),
}
_KINDS: dict[str, Kind] = {"ruff": "lint", "flake8": "lint", "mypy": "type", "pyright": "type"}


def found(part: ProjectPart, project_hints: Sequence[Hint]) -> Iterator[DetectedCheck]:
    for tool, kind in _KINDS.items():
        reason = _reason(part, tool, project_hints)
        if reason:
            yield part.check(tool, kind, tool, _command(part, tool, project_hints), reason)


def _reason(part: ProjectPart, tool: str, project_hints: Sequence[Hint]) -> str | None:
    name = part.first(_FILES[tool])
    if name:
        return f"{name} exists"
    if at(part.toml("pyproject.toml"), "tool", tool) is not None:
        return f"pyproject.toml has [tool.{tool}]"
    for name in ("setup.cfg", "tox.ini"):
        for section in _SECTIONS.get(tool, ()):
            if section in part.ini(name):
                return f"{name} has [{section}]"
    hooked = hook(part, *_HOOKS[tool])
    if hooked:
        return f".pre-commit-config.yaml has the hook {hooked}"
    runs = of_tool(project_hints, tool)
    return f"{runs.source} runs {tool}" if runs else None


def _command(part: ProjectPart, tool: str, project_hints: Sequence[Hint]) -> tuple[str, ...]:
    if tool == "ruff":
        return ("ruff", "check")
    if tool == "pyright" or (tool == "mypy" and _names_its_files(part)):
        return (tool,)
    return (tool, *(_named(part, of_tool(project_hints, tool)) or _sources(part)))


def _names_its_files(part: ProjectPart) -> bool:
    tables = [table(part.toml("pyproject.toml"), "tool", "mypy")]
    tables += [table(part.ini(name), "mypy") for name in ("mypy.ini", ".mypy.ini", "setup.cfg")]
    return any(key in settings for settings in tables for key in ("files", "packages", "modules"))


def _named(part: ProjectPart, runs: Hint | None) -> tuple[str, ...]:
    arguments = runs.call.arguments if runs else ()
    return tuple(argument for argument in arguments if part.first([argument]) or part.has_folder(argument.rstrip("/")))


def _sources(part: ProjectPart) -> tuple[str, ...]:
    """Return the project's own sources; `.` would include a `.venv` folder."""
    tops = {path.split("/")[0] for path in part.matching(r"^[^./][^/]*/(?:.*/)?[^/]+\.pyi?$")}
    if "src" in tops:
        return ("src",)
    packages = {top for top in tops if part.first([f"{top}/__init__.py"])}
    return (*sorted(packages), *part.matching(r"^(?!setup\.py)[^/]+\.py$")) or tuple(sorted(tops)) or (".",)
