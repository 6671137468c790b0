"""The ops that only read: files, folders, and lines that hold something."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator
from typing import Any

import re2

from reflectloop.fileops.ops_context import Data
from reflectloop.fileops.request import ListDir, ReadFile, Search
from reflectloop.fileops.safe_files import AccessBarred, SafeFiles, shown

_MOST_READ = 64 << 20  # bytes of a file that is looked at
_MOST_SHOWN = 1 << 20  # characters of one answer
_MOST_SEARCHED = 4 << 20  # bytes of a file that is searched
_MOST_IN_ALL = 512 << 20
_LONGEST_LINE = 400
_DEEPEST = 200
_STARS = re.compile(r"(\*\*/|\*\*|\*|\?)")
_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_QUIETLY = re2.Options()
_QUIETLY.log_errors = False


def file(op: ReadFile, reach: SafeFiles) -> Data:
    raw = reach.read(op.path, _MOST_READ + 1)
    if len(raw) > _MOST_READ:
        raise AccessBarred(f"{op.path!r} has more than {_MOST_READ >> 20} MB")
    said: Data = {"path": op.path, "size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    text = _text(raw)
    if text is None:
        return {**said, "binary": True}
    lines = _LINE.findall(text)
    wanted = "".join(lines[op.startLine - 1 : op.endLine])
    return {**said, "lines": len(lines), "content": wanted[:_MOST_SHOWN], "truncated": len(wanted) > _MOST_SHOWN}


def _text(raw: bytes) -> str | None:
    try:
        return None if b"\0" in raw else raw.decode()
    except UnicodeDecodeError:
        return None


def folder(op: ListDir, reach: SafeFiles) -> Data:
    found = list(itertools.islice(reach.walk(op.path, op.depth), op.maxEntries + 1))
    entries: list[Any] = [
        {"path": shown(one.path), "kind": one.kind, **({"size": one.size} if one.kind == "file" else {})}
        for one in found[: op.maxEntries]
    ]
    return {"path": op.path, "entries": entries, "truncated": len(found) > op.maxEntries}


def search(op: Search, reach: SafeFiles) -> Data:
    pattern = op.pattern if op.regex else re2.escape(op.pattern)
    matcher = re2.compile(("(?mi)" if op.ignoreCase else "(?m)") + pattern, _QUIETLY)
    skipped: list[str] = []
    found = list(itertools.islice(_matches(op, reach, matcher, skipped), op.maxResults + 1))
    return {
        "matches": [dict(one) for one in found[: op.maxResults]],
        "truncated": len(found) > op.maxResults,
        "skipped": [shown(path) for path in skipped[:20]],
    }


def _matches(op: Search, reach: SafeFiles, matcher: Any, skipped: list[str]) -> Iterator[Data]:  # noqa: ANN401 - no types
    room, wanted = _MOST_IN_ALL, _glob(op.glob or "**")
    for one in reach.walk(op.path, _DEEPEST):
        if one.kind != "file" or not wanted.fullmatch(shown(one.path)):
            continue
        room -= one.size
        if one.size > _MOST_SEARCHED or room < 0:
            skipped.append(one.path)
            continue
        text = _searched(one.path, reach)
        if text is not None and matcher.search(text):
            yield from _lines(shown(one.path), text, matcher)


def _glob(pattern: str) -> Any:  # noqa: ANN401
    """By RE2 too: a pattern of many stars costs other engines for ever."""
    parts = (_MEANING.get(part) or re2.escape(part) for part in _STARS.split(pattern.removeprefix("./")))
    return re2.compile("(?s)(?:.*/)?" + "".join(parts), _QUIETLY)


def _searched(path: str, reach: SafeFiles) -> str | None:
    try:
        return _text(reach.read(path, _MOST_SEARCHED))
    except AccessBarred:
        return None  # it went while we looked


def _lines(path: str, text: str, matcher: Any) -> Iterator[Data]:  # noqa: ANN401
    for number, line in enumerate(text.split("\n"), 1):
        if matcher.search(line):
            yield {"path": path, "line": number, "text": line.rstrip("\r")[:_LONGEST_LINE]}
