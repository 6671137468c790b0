"""Choose the tests that depend on a change, by the imports of the project's Python files."""

from __future__ import annotations

import ast
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from reflectloop.verification import protected, tools, verdict
from reflectloop.verification.check_runner import CheckRun
from reflectloop.verification.result import ChangedFile, DetectedCheck
from reflectloop.verification.tree_builder import TreeBuilder

_LONG_MS = 20_000  # a suite that takes as long gets a first look
_SMALL_PART = 4  # if no more than every fourth file of tests depends on the change
FIRST_LOOK = "on base + patch, provisional: the tests that depend on the change"
_MOST_SOURCES = 3000  # files that are read for their imports
_PROSE = (".md", ".rst", ".txt", ".adoc")


class ChosenTests(NamedTuple):
    """The test files that depend on a change, or the reason why they are not known."""

    files: tuple[str, ...] = ()
    unknown: str = ""


def choose_tests(
    changed: Iterable[str], paths: Iterable[str], read: Callable[[Sequence[str]], Mapping[str, bytes]]
) -> ChosenTests:
    """Return the test files that import a changed source, directly or through others; a changed test file too."""
    sources = [path for path in paths if path.endswith(".py")]
    judged = [path for path in changed if not path.lower().endswith(_PROSE)]
    other = [path for path in judged if not path.endswith(".py")]
    if other:
        return ChosenTests(unknown=f"{verdict.shown(other)} is no Python file")
    if len(sources) > _MOST_SOURCES:
        return ChosenTests(unknown=f"the project has more than {_MOST_SOURCES} Python files")
    users, unread = _users(read(sources))
    if unread:
        return ChosenTests(unknown=f"{verdict.shown(unread)} cannot be read as Python")
    reached = {path: _reached(path, users) for path in judged}
    tests = {path: [user for user in users_of if _is_test(user)] for path, users_of in reached.items()}
    alone = [path for path, names in tests.items() if not names]
    if alone:
        return ChosenTests(unknown=f"no test imports {verdict.shown(alone)}")
    return ChosenTests(tuple(sorted({name for names in tests.values() for name in names})))


def _is_test(path: str) -> bool:
    return protected.is_test(path) and PurePosixPath(path).name not in ("conftest.py", "__init__.py")


def _reached(path: str, users: Mapping[str, set[str]]) -> set[str]:
    """Return the file and all that import it, directly or through others."""
    seen, waiting = {path}, deque([path])
    while waiting:
        for user in users.get(waiting.popleft(), ()):
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return seen


def _users(sources: Mapping[str, bytes]) -> tuple[dict[str, set[str]], list[str]]:
    """Return for each file those that import it, and the files that cannot be read."""
    by_name: dict[str, set[str]] = {}
    for path in sources:
        for name in _names_of(path):
            by_name.setdefault(name, set()).add(path)
    users: dict[str, set[str]] = {}
    unread = []
    for path, content in sources.items():
        try:
            tree = ast.parse(content)
        except (SyntaxError, ValueError, RecursionError):
            unread.append(path)
            continue
        for name in _imports(tree, PurePosixPath(path).parent.parts):
            for used in by_name.get(name, ()):
                users.setdefault(used, set()).add(path)
    for path in sources:  # hooks and fixtures of the folders above work on every test below
        if PurePosixPath(path).name == "conftest.py":
            folder = PurePosixPath(path).parent
            below = {other for other in sources if PurePosixPath(other).is_relative_to(folder) and _is_test(other)}
            users.setdefault(path, set()).update(below)
    return users, unread


def _names_of(path: str) -> Iterator[str]:
    """Yield every dotted name by which a file may be imported: which folder is on the path is not known here."""
    parts = PurePosixPath(path).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    yield from (".".join(parts[start:]) for start in range(len(parts)))


def _imports(tree: ast.Module, folder: tuple[str, ...]) -> Iterator[str]:
    """Yield the dotted names of all that a file may import: modules, members that may be modules, packages above."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else ()
            module = ".".join((*above, *((node.module,) if node.module else ())))
            names = [module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def choose(trees: TreeBuilder, tree: str, changes: Iterable[ChangedFile]) -> ChosenTests:
    """Return the test files of a tree that depend on the changed files."""
    listing = trees.listing(tree)
    changed = [change.path for change in changes]
    gone = [path for path in changed if path not in listing]
    if gone:
        return ChosenTests(unknown=f"{verdict.shown(gone)} is gone")
    return choose_tests(changed, listing, functools.partial(trees.read_all, tree))


def arguments(check: DetectedCheck, files: Iterable[str], known: Mapping[str, object]) -> list[str]:
    """Return those of the files that a check collects in a tree, as its tool names them; none if it runs all."""
    names = [check.relative(path) for path in files if path in known and tools.collects(check, path)]
    return names if names and tools.selection(check, names) else []


def first_look(
    trees: TreeBuilder,
    base: str,
    tree: str,
    changes: Sequence[ChangedFile],
    checks: Iterable[DetectedCheck],
    before: Mapping[str, CheckRun],
) -> Iterator[tuple[DetectedCheck, list[str]]]:
    """Yield each suite that takes long, with its test files that depend on the change, if these are a small part."""
    slow = [check for check in checks if check.kind == "test" and before[check.name].result.duration_ms >= _LONG_MS]
    chosen = choose(trees, tree, changes).files if slow else ()
    known = trees.listing(base)
    for check in slow:
        names = arguments(check, chosen, known)
        whole = sum(_is_test(path) and tools.collects(check, path) for path in known)
        if names and len(names) * _SMALL_PART <= whole:
            yield check, names
