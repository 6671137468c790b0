"""Answer quickly and provisionally: run sealed only the tests that import what changed. The answer is never PASS."""

from __future__ import annotations

import ast
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from reflectloop.terms import Decision
from reflectloop.verification import protected, tools, verdict
from reflectloop.verification.compare import Comparison
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.seal import JudgingFiles
from reflectloop.verification.sealed import SealedVerification
from reflectloop.verification.verdict import Provisional, Verdict, VerdictReason

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


class QuickVerification(SealedVerification):
    """A verification that stops at the tests which depend on the change."""

    def judge(self) -> Verdict:
        """Run the chosen tests on base and on the patch, sealed, and return a provisional verdict."""
        self.runs.judging = JudgingFiles(tuple(self.case.protect), tuple(self.case.lifted))
        self._lay_out()
        tests = [check for check in self.case.checks if check.kind == "test"]
        choice = self._choice()
        only = {check.name: self._arguments(check, choice.files) for check in tests}
        only = {name: files for name, files in only.items() if files}
        wanted = [*(check for check in self.case.checks if check.kind == "build"), *tests]
        own = self.with_tests != self.tree
        self.runs.expected_runs = 2 * (len(wanted) + (len(tests) if own else 0))
        before = self._run(self.case.base, wanted, "on base, the tests that depend on the change", only)
        self._limits = {name: self.runs.time_limit(ran.result) for name, ran in before.items()}
        after = self._run(self.tree, wanted, "on base + patch, the tests that depend on the change", only)
        judged = [self._judged(check, before[check.name], after[check.name]) for check in wanted]
        patch_tests = self._own_tests(judged)
        judged = self._explained(judged, patch_tests)
        provisional = Provisional(choice.files if only else (), choice.unknown)
        reasons = [
            *verdict.of_findings(self.findings, self.laid.freed),
            *verdict.of_checks(judged, self.case.track),
            *verdict.of_own(patch_tests),
            VerdictReason(Decision.RETRY, provisional.text, unjudged=True),
        ]
        standing, approved = verdict.split_approved(
            verdict.identified(reasons, self.case.base, self.case.head), self.case.approved
        )
        total = Comparison()
        for item in judged:
            total = total.joined(item.comparison) if not item.left_out else total
        return Verdict(
            verdict.gravest(standing),
            "L2",
            self.case.track,
            tuple(standing),
            tuple(self.findings),
            tuple(judged),
            tuple(patch_tests),
            (),
            total,
            self.case.base,
            self.case.head,
            self.tree,
            tuple(self.laid.restored),
            tuple(sorted(self.runs.notes)),
            tuple(approved),
            provisional=provisional,
        )

    def _choice(self) -> ChosenTests:
        trees = self.runs.ground.trees
        listing = trees.listing(self.with_tests)
        changed = [change.path for change in self.laid.changes]
        gone = [path for path in changed if path not in listing]
        if gone:
            return ChosenTests(unknown=f"{verdict.shown(gone)} is gone")
        return choose_tests(changed, listing, functools.partial(trees.read_all, self.with_tests))

    def _arguments(self, check: DetectedCheck, files: Sequence[str]) -> list[str]:
        """Return the chosen files that a check collects on base, as its tool names them; none if it runs all."""
        known = self.runs.ground.trees.listing(self.case.base)
        names = [check.relative(path) for path in files if path in known and tools.collects(check, path)]
        return names if names and tools.selection(check, names) else []
