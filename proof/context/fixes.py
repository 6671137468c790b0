"""Fix commits of public repositories in other languages: the message leads to the changed sources."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from proof.context.cases import Case, changed_lines, git_dir
from reflectloop.context import filekinds
from reflectloop.system.git import Git

LANGUAGES = {
    "eslint+eslint": (".js",),
    "axios+axios": (".js", ".ts"),
    "vuejs+core": (".ts", ".tsx"),
    "gin-gonic+gin": (".go",),
    "spf13+cobra": (".go",),
    "gohugoio+hugo": (".go",),
    "clap-rs+clap": (".rs",),
    "BurntSushi+ripgrep": (".rs",),
    "tokio-rs+tokio": (".rs",),
    "jqlang+jq": (".c", ".h"),
    "redis+redis": (".c", ".h"),
    "curl+curl": (".c", ".h"),
}
_COMMITS = 8000  # newest commits that are looked at
_MOST_SOURCES, _MOST_FILES = 3, 10
_FIX = re.compile(r"\b(?:fix|fixe[sd]|fixing|bug|close[sd]?|resolve[sd]?|regression)\b", re.IGNORECASE)
_ISSUE = re.compile(r"(?:#|issues/|GH-)\d+")
_TRAILER = re.compile(r"^(?:[A-Z][\w-]+-by|Cc|Ref|PR-URL|Fixes|Closes|Bug|Link)\b.*$|https?://\S+", re.MULTILINE)
_FILE_NAME = re.compile(r"[\w./-]*\w\.(?:js|ts|tsx|go|rs|c|h|cc|cpp|py|md|vue|jsx|mjs)\b")
_ENTRY = re.compile(rb"\x01([0-9a-f]+)\x02([0-9a-f]*)\x02(.*?)\x03", re.DOTALL)
_SHORTEST = 20  # characters of a message that says something


class Fix(NamedTuple):
    commit: str
    parent: str
    message: str
    sources: tuple[str, ...]


def cases(folder: Path, quota: int) -> list[Case]:
    """Return so many fixes of each repository that is there, chosen by the hash of their ids."""
    out = []
    for name, suffixes in LANGUAGES.items():
        repository = git_dir(folder / name)
        if repository is None:
            continue
        git = Git(git_dir=repository)
        fixes = sorted(_fixes(git, suffixes), key=lambda fix: hashlib.sha256(fix.commit.encode()).digest())
        out += [_case(name, repository, git, fix, suffixes) for fix in fixes[:quota]]
    return [case for case in out if case.gold]


def _fixes(git: Git, suffixes: tuple[str, ...]) -> Iterator[Fix]:
    listing = git.run(
        "log", "--no-merges", "--no-renames", "--name-only", "-z", f"--max-count={_COMMITS}",
        "--format=%x01%H%x02%P%x02%B%x03", "HEAD",
    )  # fmt: skip
    begins = [match.start() for match in _ENTRY.finditer(listing)]
    for start, end in zip(begins, [*begins[1:], len(listing)], strict=True):
        entry = _ENTRY.match(listing, start)
        if entry is None or not entry[2]:
            continue
        paths = [name.strip("\n") for name in listing[entry.end() : end].decode("utf-8", "replace").split("\0")]
        message = entry[3].decode("utf-8", "replace")
        fix = _fix(entry[1].decode(), entry[2].decode(), message, [path for path in paths if path], suffixes)
        if fix:
            yield fix


def _fix(commit: str, parent: str, message: str, paths: list[str], suffixes: tuple[str, ...]) -> Fix | None:
    sources = tuple(path for path in paths if path.endswith(suffixes) and not filekinds.is_test(path))
    tests = [path for path in paths if filekinds.is_test(path)]
    if not (1 <= len(sources) <= _MOST_SOURCES and tests and len(paths) <= _MOST_FILES):
        return None
    if not (_FIX.search(message) and _ISSUE.search(message)):
        return None
    text = _FILE_NAME.sub(" ", _TRAILER.sub("", message)).strip()
    return Fix(commit, parent, text, sources) if len(text) >= _SHORTEST else None


def _case(name: str, repository: Path, git: Git, fix: Fix, suffixes: tuple[str, ...]) -> Case:
    """Return the case; a source that the fix created is nothing that could be found."""
    patch = git.run("diff", "--no-renames", "-U0", fix.parent, fix.commit, "--", *fix.sources).decode(
        "utf-8", "replace"
    )
    old = git.run("ls-tree", "-r", "--name-only", "-z", fix.parent, "--", *fix.sources).decode("utf-8", "replace")
    there = set(old.split("\0"))
    gold = tuple(path for path in fix.sources if path in there)
    lines = tuple((path, line) for path, line in changed_lines(patch) if path in there)
    return Case(f"{name}-{fix.commit[:12]}", repository, fix.parent, fix.message, gold, lines, suffixes)
