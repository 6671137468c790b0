"""The choice of commits: which kind each is, and in which order they are tried."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import NamedTuple

SEED = 7
LAST = 300
KINDS = ("fix", "feature", "refactor", "tests", "maintenance")
QUOTA = 2  # of each kind and repository
TRACKS = {"fix": "fix", "feature": "feature", "refactor": "refactor", "tests": None, "maintenance": None}
TRIES = 5  # for each commit of a quota: a commit whose suite is red here is no candidate
_TEST_FOLDER = re.compile(r"(^|/)(tests?|testing|specs?|__tests__|tap-snapshots|fixtures?)/")
_TEST_FILE = re.compile(r"(^|/)(test[_-][^/]*|[^/]*[_.-](test|spec)s?|tests?|conftest)\.\w+$")
_PROSE = re.compile(r"(^|/)(docs?|examples?)/|\.(md|rst|txt|in)$|(^|/)[A-Z]+$")
_SOURCE = re.compile(r"\.(py|pyi|pyx|js|cjs|mjs|jsx|ts|tsx|rs|go|c|h|cc|cpp|hpp)$")
_NO_SOURCE = re.compile(
    r"(^|/)(setup\.py|noxfile\.py|\.?eslint[^/]*|[^/]*\.config\.\w+|bench(mark)?s?/.*|\.github/.*)$"
)
_FIX = re.compile(
    r"\b(fix(es|ed|ing)?|bugs?|regressions?|crash(es|ed)?|correct(s|ed|ly)?|incorrect(ly)?)\b", re.IGNORECASE
)
_FEATURE = re.compile(
    r"\b(add(s|ed|ing)?|support(s|ed)?|implement(s|ed)?|new|feat(ure)?|allow(s|ed)?|introduce[sd]?)\b", re.IGNORECASE
)
_REFACTOR = re.compile(
    r"\b(refactor\w*|clean\w*|simplif\w*|renam\w*|mov(e|es|ed|ing)|extract\w*|perf\w*|optimi\w+|speed\w*|type|types|typing"
    r"|annotations?|style|format\w*|reorgani\w+|restructur\w+|inline[sd]?|dedup\w*|unused|modern\w*|drop|remove[sd]?)\b",
    re.IGNORECASE,
)
_RELEASE = re.compile(r"\b(release|version|bump|changelog|prepare)\b|^v?\d+\.\d+", re.IGNORECASE)


class Commit(NamedTuple):
    """One commit without a second parent, with the paths it changes."""

    id: str
    parent: str
    subject: str
    paths: tuple[str, ...]


def is_test_path(path: str) -> bool:
    """Return whether a path is a test or lies among tests."""
    return bool(_TEST_FOLDER.search(path) or _TEST_FILE.search(path))


def is_source_path(path: str) -> bool:
    """Return whether a path is code that the tests test."""
    return (
        bool(_SOURCE.search(path))
        and not is_test_path(path)
        and not _NO_SOURCE.search(path)
        and not _PROSE.search(path)
    )


def kind_of(commit: Commit) -> str | None:
    """Return the kind of a commit by its paths and its subject; None for one that says too little of itself."""
    source = any(is_source_path(path) for path in commit.paths)
    tests = any(is_test_path(path) for path in commit.paths)
    if not source:
        return "tests" if tests else "maintenance"
    if _RELEASE.search(commit.subject) and not tests:
        return "maintenance"
    if _FIX.search(commit.subject):
        return "fix" if tests else None  # a fix without a test has nothing that shows it
    if _REFACTOR.search(commit.subject):
        return "refactor"
    if _FEATURE.search(commit.subject):
        return "feature"
    return None


def order(repository: str, commits: Sequence[Commit]) -> dict[str, list[Commit]]:
    """Return the candidates of each kind in the order in which they are tried, the same in every run."""
    by_kind: dict[str, list[Commit]] = {kind: [] for kind in KINDS}
    for commit in commits[:LAST]:
        kind = kind_of(commit)
        if kind:
            by_kind[kind].append(commit)
    for kind, candidates in by_kind.items():
        random.Random(f"{SEED}:{repository}:{kind}").shuffle(candidates)
    return by_kind


def read_log(text: str) -> list[Commit]:
    """Read `git log --format=%x1e%H%x1f%P%x1f%s --name-only`; a commit without one parent is left out."""
    commits = []
    for record in text.split("\x1e")[1:]:
        head, _, paths = record.partition("\n")
        commit, parents, subject = head.split("\x1f", 2)
        if len(parents.split()) == 1:
            commits.append(Commit(commit, parents, subject, tuple(line for line in paths.splitlines() if line)))
    return commits
