"""How the environment of a repository is set up, and which plain command runs its suite."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
PYTEST = "python -m pytest -q -rfE -p no:cacheprovider"
_GUESSES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("pyproject.toml", "setup.py", "setup.cfg"), PYTEST),
    (("package.json",), "npm test --silent"),
    (("Cargo.toml",), "cargo test --offline"),
    (("go.mod",), "go test ./..."),
    (
        ("CMakeLists.txt",),
        'cmake -S . -B "$BUILD" >/dev/null && cmake --build "$BUILD" >/dev/null && ctest --test-dir "$BUILD"',
    ),
)


@dataclass(frozen=True)
class Recipe:
    """What the harness must know of a repository; every field has a guess."""

    test: str  # shell; exit code 0 means that the suite is green
    install: str = ""  # shell, run once at the newest commit, after the usual set-up
    packages: tuple[str, ...] = ()  # beside those that the newest commit names for its tests
    settings: str = ""  # the user's own config.toml for `reflectloop verify`
    generated: dict[str, str] = field(default_factory=dict)  # files that the project's build writes and git ignores
    ignored: tuple[str, ...] = ()  # paths that `install` makes in the project
    env: dict[str, str] = field(default_factory=dict)
    timeout_s: int = 120


def guess_test(names: Collection[str]) -> str | None:
    """Return the usual test command for a project with these files at its top; None for an unknown ecosystem."""
    return next((test for manifests, test in _GUESSES if any(name in names for name in manifests)), None)


def find_recipe(repository: str, names: Collection[str], table: dict[str, Any] | None = None) -> Recipe | None:
    """Return the table's recipe for a repository, filled up by guesses; None where nothing fits."""
    if table is None:
        table = tomllib.loads((FOLDER / "repositories.toml").read_text())
    entry = dict(table.get(repository, {}))
    test = entry.pop("test", None) or guess_test(names)
    if not test:
        return None
    as_tuple: Callable[[Any], Any] = lambda value: tuple(value) if isinstance(value, list) else value  # noqa: E731
    return Recipe(test=test, **{name: as_tuple(value) for name, value in entry.items()})


def requirements_for_tests(pyproject: dict[str, Any]) -> list[str]:
    """Return the requirements that a pyproject.toml names for its tests, its own dependencies included."""
    project = pyproject.get("project", {})
    groups = {**project.get("optional-dependencies", {}), **pyproject.get("dependency-groups", {})}
    wanted = list(project.get("dependencies", []))
    for name in ("test", "tests", "testing"):
        wanted += [line for line in groups.get(name, []) if isinstance(line, str)]
    own = project.get("name", "")
    return [line for line in wanted if not (own and line.startswith(f"{own}["))]
