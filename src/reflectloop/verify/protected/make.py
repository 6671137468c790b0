"""Reads of a Makefile or justfile the targets that run checks, and what they depend on."""

from __future__ import annotations

import re
from typing import NamedTuple

from reflectloop.verify.protected.packages import JUDGING_NAME, RUNS_CHECKS

_VARIABLE = re.compile(r"^(?:export\s+|override\s+)?([\w.-]+)\s*(?:[:?+!]|::)?=\s*(.*)$")
_RULE = re.compile(r"^@?([^:=\t#]+?)\s*::?(?!=)\s*(.*)$")
_USED = re.compile(r"\$[({]([\w.-]+)|\{\{\s*([\w-]+)")
# What acts on every recipe, whichever target it belongs to.
_GLOBAL = re.compile(r"^(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|PATH|\.DEFAULT_GOAL|BASH_ENV|ENV|PYTEST_ADDOPTS|PYTHONPATH)$")
_GLOBAL_LINE = re.compile(r"^-?(?:s?include|export|unexport|import|set|mod)\b|^\.(?:IGNORE|ONESHELL|POSIX|SILENT)\b")


class Rule(NamedTuple):
    needs: tuple[str, ...]
    recipe: tuple[str, ...]


class Book(NamedTuple):
    rules: dict[str, Rule]
    variables: dict[str, str]
    everywhere: list[str]


def steering(text: str) -> dict[str, object]:
    book = _read(text)
    wanted = _reached(book, {name for name, rule in book.rules.items() if _judges(name, rule)})
    found: dict[str, object] = {f"target {name}": _said(book.rules[name]) for name in sorted(wanted)}
    used = _used(book, wanted)
    found.update({f"variable {name}": book.variables[name] for name in sorted(used)})
    found.update({f"line {line}": True for line in book.everywhere})
    return found


def _read(text: str) -> Book:
    book = Book({}, {}, [])
    current: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line[:1] in {"\t", " "} and current and line.strip():
            for name in current:
                rule = book.rules[name]
                book.rules[name] = Rule(rule.needs, (*rule.recipe, " ".join(line.split())))
        elif line.strip() and not line.startswith("#"):
            current = _take(line, book)
    return book


def _take(line: str, book: Book) -> list[str]:
    bare = line.partition(" #")[0].rstrip()
    if _GLOBAL_LINE.match(bare):
        book.everywhere.append(bare)
    if set_ := _VARIABLE.match(bare):
        book.variables[set_[1]] = (book.variables.get(set_[1], "") + " " + set_[2]).strip()
        return []
    found = _RULE.match(bare)
    if not found or bare.startswith((".PHONY", ".DEFAULT_GOAL")):
        return []
    needs, _, inline = found[2].partition(";")
    targets = found[1].split()
    for name in targets:
        old = book.rules.get(name, Rule((), ()))
        recipe = (*old.recipe, inline.strip()) if inline.strip() else old.recipe
        book.rules[name] = Rule((*old.needs, *needs.split()), recipe)
    return targets


def _judges(name: str, rule: Rule) -> bool:
    return bool(JUDGING_NAME.search(name) or any(RUNS_CHECKS.search(line) for line in rule.recipe))


def _reached(book: Book, wanted: set[str]) -> set[str]:
    waiting = list(wanted)
    while waiting:
        for need in book.rules[waiting.pop()].needs:
            if need in book.rules and need not in wanted:
                wanted.add(need)
                waiting.append(need)
    return wanted


def _said(rule: Rule) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Without what only speaks: `@echo` lines change nothing."""
    return tuple(sorted(rule.needs)), tuple(line for line in rule.recipe if not re.match(r"@?echo\b[^;&|]*$", line))


def _used(book: Book, wanted: set[str]) -> set[str]:
    waiting = [line for name in wanted for line in (*book.rules[name].recipe, *book.rules[name].needs)]
    used = {name for name in book.variables if _GLOBAL.match(name)}
    while waiting:
        for first, second in _USED.findall(waiting.pop()):
            name = first or second
            if name in book.variables and name not in used:
                used.add(name)
                waiting.append(book.variables[name])
    return used
