"""Extract from a Makefile or justfile the targets that run checks, and what they depend on."""

from __future__ import annotations

import re
from typing import NamedTuple

from reflectloop.verification.protected.packages import JUDGING_NAME, RUNS_CHECKS

_VARIABLE = re.compile(r"^(?:export\s+|override\s+)?([\w.-]+)\s*(?:[:?+!]|::)?=\s*(.*)$")
_RULE = re.compile(r"^@?([^:=\t#]+?)\s*::?(?!=)\s*(.*)$")
_USED = re.compile(r"\$[({]([\w.-]+)|\{\{\s*([\w-]+)")
# Variables and lines that affect every recipe.
_GLOBAL = re.compile(r"^(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|PATH|\.DEFAULT_GOAL|BASH_ENV|ENV|PYTEST_ADDOPTS|PYTHONPATH)$")
_GLOBAL_LINE = re.compile(r"^-?(?:s?include|export|unexport|import|set|mod)\b|^\.(?:IGNORE|ONESHELL|POSIX|SILENT)\b")


class MakeRule(NamedTuple):
    """The prerequisites and the recipe of one target."""

    needs: tuple[str, ...]
    recipe: tuple[str, ...]


class Makefile(NamedTuple):
    """The rules and variables of a makefile, and the lines that affect every recipe."""

    rules: dict[str, MakeRule]
    variables: dict[str, str]
    everywhere: list[str]


def steering(text: str) -> dict[str, object]:
    """Return the targets, variables and lines that control checks."""
    book = _read(text)
    wanted = _with_prerequisites(book, {name for name, rule in book.rules.items() if _judges(name, rule)})
    parts: dict[str, object] = {f"target {name}": _comparable(book.rules[name]) for name in sorted(wanted)}
    used = _used(book, wanted)
    parts.update({f"variable {name}": book.variables[name] for name in sorted(used)})
    parts.update({f"line {line}": True for line in book.everywhere})
    return parts


def _read(text: str) -> Makefile:
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


def _judges(name: str, rule: MakeRule) -> bool:
    return bool(JUDGING_NAME.search(name) or any(RUNS_CHECKS.search(line) for line in rule.recipe))


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
