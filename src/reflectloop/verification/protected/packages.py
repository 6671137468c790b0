"""Extract from a package.json the scripts and keys that control checks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from reflectloop.verification.protected import names

RUNS_CHECKS = re.compile(
    r"\b(?:pytest|py\.test|unittest|tox|nox|jest|vitest|mocha|karma|ava|tap|nyc|c8|node --test|playwright|cypress|"
    r"eslint|prettier|tsc|biome|stylelint|xo|standard|go (?:test|vet)|golangci-lint|"
    r"cargo (?:test|nextest|clippy|fmt|check)|"
    r"mvn|gradle|gradlew|ctest|rspec|minitest|rake|rubocop|phpunit|pest|phpstan|psalm|bats|dotnet test|ruff|flake8|"
    r"mypy|pyright|pylint|black|isort|coverage|pre-commit|make (?:test|check|lint)|npm (?:t|test|run)|yarn|pnpm|"
    r"lint-imports|shellcheck|behave|prove|hatch (?:run|test)|uv run|poetry run|bandit|deptry)\b"
)
JUDGING_NAME = re.compile(
    r"(?i)(?:^|[-:_.])(?:tests?|lint|check|checks|build|types?|typecheck|type-check|tsc|ci|"
    r"verify|cover|coverage|e2e|unit|"
    r"integration|spec|validate|audit|format|prettier|eslint|jest|vitest|mocha|pytest|qa|all|tdd)(?:$|[-:_.\d])"
)
_HOOKS = re.compile(r"^(?:pre|post)(?:test|lint|build|check|install|pack|publish|coverage)|^prepare$|^install$")
_CALLED = re.compile(r"(?:npm|yarn|pnpm|bun)(?:\s+run(?:-script)?)?\s+(?:-\S+\s+)*([\w:.-]+)|run-[sp]\s+([\w:.\- ]+)")
_KEYS = (
    "jest",
    "mocha",
    "vitest",
    "ava",
    "nyc",
    "c8",
    "tap",
    "karma",
    "eslintConfig",
    "eslintIgnore",
    "prettier",
    "lint-staged",
    "husky",
    "simple-git-hooks",
    "pre-commit",
    "xo",
    "standard",
    "stylelint",
    "babel",
    "wireit",
    "nx",
    "jest-junit",
    "config",
)


def steering(document: Mapping[str, object]) -> dict[str, object]:
    """Return what controls checks: scripts that run checks, scripts they call, runner keys, tool-like commands."""
    parts: dict[str, object] = {key: document[key] for key in _KEYS if key in document}
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
    return bool(JUDGING_NAME.search(name) or _HOOKS.search(name) or RUNS_CHECKS.search(command))


def _calls(command: str) -> list[str]:
    calls = (first or second for first, second in _CALLED.findall(command))
    return [word for call in calls for word in call.split()]


def shims(commands: Mapping[str, object]) -> dict[str, object]:
    """Return the commands that a package would install under the name of a tool."""
    return {name: command for name, command in commands.items() if name in names.TOOLS}


_JSON_PIECE = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_JSON_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])')


def without_comments(text: str) -> str:
    """Return plain JSON from a configuration file: no comments, no comma before a closing bracket."""
    plain = _JSON_PIECE.sub(lambda match: match[0] if match[0].startswith('"') else " ", text)
    return _JSON_COMMA.sub(lambda match: match[0] if match[0].startswith('"') else "", plain)
