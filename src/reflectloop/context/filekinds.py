"""Tell by path and content which files the index takes, and what kind each is. Pure."""

from __future__ import annotations

import re
from typing import Literal

from reflectloop.context import grammars

FileKind = Literal["code", "test", "docs", "data"]
LARGEST = 1 << 20  # bytes of a file that is indexed
_LARGEST_DATA = 1 << 16
_BINARY_PREFIX = 8000  # bytes that are searched for a NUL, as git does
_LONG_LINE = 400  # characters; code with such lines on average was written by a program
_HEAD = 2000
_DOCS = (".md", ".rst", ".txt", ".adoc", ".org", ".mdx")
_DATA = (
    *(".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".xml", ".html", ".htm", ".css", ".scss", ".less", ".sql"),
    *(".csv", ".tsv", ".properties", ".conf", ".j2", ".jinja", ".tmpl"),
)
_NEVER = (
    *(".min.js", ".min.css", ".map", ".lock", ".po", ".mo", ".pot", ".svg", ".png", ".jpg", ".jpeg", ".gif", ".ico"),
    *(".pdf", ".zip", ".gz", ".xz", ".bz2", ".tar", ".whl", ".jar", ".so", ".a", ".o", ".dll", ".exe", ".bin", ".dat"),
    *(".woff", ".woff2", ".ttf", ".eot", ".otf", ".mp3", ".mp4", ".webm", ".webp", ".npy", ".npz", ".fits", ".ipynb"),
    *("package-lock.json", "yarn.lock", "go.sum", ".snap", ".pyc", ".class", ".sqlite", ".db", ".pickle", ".pkl"),
)
_NEVER_SUFFIXES = frozenset(end[end.rfind(".") :] for end in _NEVER)
# Most names are settled by their suffix alone.
_SOURCE_SUFFIXES = frozenset(
    suffix
    for suffix in (*_DOCS, *_DATA, *(suffix for grammar in grammars.GRAMMARS for suffix in grammar.suffixes))
    if suffix not in _NEVER_SUFFIXES
)
_NEVER_BELOW = re.compile(r"(?:^|/)(?:node_modules|\.git|\.reflectloop|\.venv|venv|__pycache__|site-packages)/")
_VENDORED = re.compile(
    r"(?:^|/)(?:vendor|vendored|_vendor|third[_-]?party|externals?|extern|bundled|dist|deps|3rdparty)/"
)
_TEST = re.compile(
    r"(?:^|/)(?:tests?|testing|spec|specs|__tests__|testdata|fixtures|e2e|benchmarks?|asv_bench)(?:/|$)"
    r"|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*(?:_tests?|_spec|\.test|\.spec|\.e2e)\.[^/.]+|tests?\.[^/.]+)$"
)
_JAVA_TEST = re.compile(r"(?:Test|Tests|IT)\.java$")
_GENERATED = re.compile(rb"(?i)@generated|code generated (?:by|from)|do not edit|auto-?generated (?:by|file)")


def may_index_name(name: str) -> bool:
    """Return False for names of files that are never source: binaries, locks, minified files."""
    suffix = name[name.rfind(".") :]
    return suffix in _SOURCE_SUFFIXES or not name.lower().endswith(_NEVER)


def may_index_below(folder: str) -> bool:
    """Return False for folders, written with a final slash, whose files are never source: installed packages."""
    return _NEVER_BELOW.search(folder) is None


def kind_of(path: str) -> FileKind:
    if is_test(path):
        return "test"
    low = path.lower()
    if low.endswith(_DOCS):
        return "docs"
    return "data" if low.endswith(_DATA) else "code"


def is_test(path: str) -> bool:
    return _TEST.search(path) is not None or _JAVA_TEST.search(path) is not None


def is_vendored(path: str) -> bool:
    return _VENDORED.search(path) is not None


def readable_text(path: str, data: bytes) -> str | None:
    """Return the text of a file that people write; None for binary, minified, generated and too large ones."""
    if len(data) > LARGEST or b"\0" in data[:_BINARY_PREFIX]:
        return None
    if len(data) > _LARGEST_DATA and kind_of(path) == "data":
        return None
    if len(data) > _HEAD and len(data) // (data.count(b"\n") + 1) > _LONG_LINE:
        return None
    if grammars.grammar_of(path) and _GENERATED.search(data, 0, _HEAD):
        return None
    return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
