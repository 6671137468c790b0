"""Collects context for a planner: code by the retriever, the last failure, lessons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from reflectloop.engine.steps import code_context, prompts
from reflectloop.fileops import read_ops, safe_files
from reflectloop.fileops.request import ListDir, Search
from reflectloop.lessons import lesson_scopes
from reflectloop.lessons.lesson_recall import Moment
from reflectloop.system.patterns import lazy
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.folders import Folders

_WORD = lazy(r"[A-Za-z_][A-Za-z0-9_]{3,}")
_COMMON = frozenset(
    ("that", "this", "with", "from", "when", "then", "should", "must", "have", "into", "each", "they", "will", "make")
)
_MOST_WORDS = 8
_MOST_FILES = 200
_MOST_LINES = 40
_LARGEST = 12_000  # characters of a file of the engine's


def of(folders: Folders, space: Workspace, text: str) -> str:
    """Return what a planner should know of the project: code about the text, and the last failure, as quotations."""
    code = code_context.quoted(folders.root, text)
    return "\n\n".join(filter(None, (code or _without_retriever(space, text), *_failures(folders))))


def _without_retriever(space: Workspace, text: str) -> str:
    """Return names of files, and lines with words of the text, where the retriever has no answer."""
    with safe_files.open_folder(space.repo, space.identity[2:]) as top:
        listed = read_ops.list_folder(ListDir(op="list_dir", depth=3, maxEntries=_MOST_FILES), top)
        names = [str(entry["path"]) for entry in _entries(listed) if entry.get("kind") == "file"]
        hits = list(_hits(top, text))
    parts = [
        prompts.quoted("files", "\n".join(names)) if names else "",
        prompts.quoted("lines that hold words of it", "\n".join(hits)) if hits else "",
    ]
    return "\n\n".join(filter(None, parts))


def _hits(top: safe_files.SafeFiles, text: str) -> Iterable[str]:
    words = [word for word in dict.fromkeys(_WORD.findall(text)) if word.casefold() not in _COMMON]
    left = _MOST_LINES
    for word in sorted(words, key=_weight)[:_MOST_WORDS]:
        op = Search(op="search", pattern=word, ignoreCase=True, maxResults=max(1, left // 2))
        for match in _rows(read_ops.search(op, top), "matches"):
            yield f"{match['path']}:{match['line']}: {match['text']}"
            left -= 1
        if left <= 0:
            return


def _weight(word: str) -> tuple[bool, int]:
    """Return the sort key of a word: names of code first, then longer words."""
    return ("_" not in word and word.islower(), -len(word))


def _entries(data: Mapping[str, object]) -> list[dict[str, object]]:
    return _rows(data, "entries")


def _rows(data: Mapping[str, object], name: str) -> list[dict[str, object]]:
    rows = data.get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _failures(folders: Folders) -> Iterable[str]:
    """Yield the blocker of the last run, if it failed."""
    latest = folders.own / "latest"
    folder = folders.own / "runs" / latest.read_text().strip() if latest.is_file() else None
    blocker = folder / "blocker.yaml" if folder else Path()
    if blocker.is_file():
        yield prompts.quoted("what the last run failed with", blocker.read_text("utf-8", "replace"), _LARGEST)


def advice(start: Path, moment: Moment, query: str, signature: str = "") -> str:
    """Return the lessons for this moment as quoted advice; empty if there are none."""
    return lesson_scopes.recall(lesson_scopes.open_scopes(start), moment, query, signature=signature).text
