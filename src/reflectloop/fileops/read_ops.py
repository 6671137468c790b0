"""The ops that only read: read a file, list a folder, search for lines."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import re2

from reflectloop.fileops.ops_context import Data
from reflectloop.fileops.request import ListDir, ReadFile, Search
from reflectloop.fileops.safe_files import AccessBarred, SafeFiles, display_name
from reflectloop.system.patterns import lazy

_MOST_READ = 64 << 20  # bytes of a file that is read
_MOST_SHOWN = 1 << 20  # characters of one response
_MOST_SEARCHED = 4 << 20  # bytes of a file that is searched
_MOST_IN_ALL = 512 << 20
_LONGEST_LINE = 400
_DEEPEST = 200
_STARS = lazy(r"(\*\*/|\*\*|\*|\?)")
_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_LINE = lazy(r"[^\n]*\n|[^\n]+")
_QUIETLY = re2.Options()
_QUIETLY.log_errors = False


def read_file(op: ReadFile, reach: SafeFiles) -> Data:
    raw = reach.read(op.path, _MOST_READ + 1)
    if len(raw) > _MOST_READ:
        raise AccessBarred(f"{op.path!r} has more than {_MOST_READ >> 20} MB")
    return shown(op, raw)


def shown(op: ReadFile, raw: bytes) -> Data:
    """Return the lines of a file that a response shows."""
    result: Data = {"path": op.path, "size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    text = _text(raw)
    if text is None:
        return {**result, "binary": True}
    lines = _LINE.findall(text)
    content = "".join(lines[op.startLine - 1 : op.endLine])
    return {**result, "lines": len(lines), "content": content[:_MOST_SHOWN], "truncated": len(content) > _MOST_SHOWN}


def _text(raw: bytes) -> str | None:
    try:
        return None if b"\0" in raw else raw.decode()
    except UnicodeDecodeError:
        return None


def list_folder(op: ListDir, reach: SafeFiles) -> Data:
    entries_found = list(itertools.islice(reach.walk(op.path, op.depth), op.maxEntries + 1))
    entries: list[Any] = [
        {"path": display_name(entry.path), "kind": entry.kind, **({"size": entry.size} if entry.kind == "file" else {})}
        for entry in entries_found[: op.maxEntries]
    ]
    return {"path": op.path, "entries": entries, "truncated": len(entries_found) > op.maxEntries}


def search(op: Search, reach: SafeFiles) -> Data:
    pattern = op.pattern if op.regex else re2.escape(op.pattern)
    matcher = re2.compile(("(?mi)" if op.ignoreCase else "(?m)") + pattern, _QUIETLY)
    skipped: list[str] = []
    matches = list(itertools.islice(_matches(op, reach, matcher, skipped), op.maxResults + 1))
    return {
        "matches": [dict(match) for match in matches[: op.maxResults]],
        "truncated": len(matches) > op.maxResults,
        "skipped": [display_name(path) for path in skipped[:20]],
    }


def _matches(op: Search, reach: SafeFiles, matcher: Any, skipped: list[str]) -> Iterator[Data]:  # noqa: ANN401 - no types
    room, glob = _MOST_IN_ALL, _glob(op.glob or "**")
    for entry in reach.walk(op.path, _DEEPEST):
        if entry.kind != "file" or not glob.fullmatch(display_name(entry.path)):
            continue
        room -= entry.size
        if entry.size > _MOST_SEARCHED or room < 0:
            skipped.append(entry.path)
            continue
        text = _searched(entry.path, reach)
        if text is not None and matcher.search(text):
            yield from _lines(display_name(entry.path), text, matcher)


def _glob(pattern: str) -> Any:  # noqa: ANN401
    """Compile a glob to RE2: other engines can take forever on many stars."""
    parts = (_MEANING.get(part) or re2.escape(part) for part in _STARS.split(pattern.removeprefix("./")))
    return re2.compile("(?s)(?:.*/)?" + "".join(parts), _QUIETLY)


def _searched(path: str, reach: SafeFiles) -> str | None:
    try:
        return _text(reach.read(path, _MOST_SEARCHED))
    except AccessBarred:
        return None  # removed while we searched


def _lines(path: str, text: str, matcher: Any) -> Iterator[Data]:  # noqa: ANN401
    for number, line in enumerate(text.split("\n"), 1):
        if matcher.search(line):
            yield {"path": path, "line": number, "text": line.rstrip("\r")[:_LONGEST_LINE]}
