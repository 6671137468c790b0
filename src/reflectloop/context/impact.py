"""Say what depends on a file: who imports it, who uses its names, which tests cover it, what changes with it."""

from __future__ import annotations

import re
from pathlib import Path

from reflectloop.context import filekinds, retriever, signals, trees, words
from reflectloop.context.graph import ImportGraph
from reflectloop.context.hit import Hit
from reflectloop.context.index import Corpus
from reflectloop.context.signals import TreeReader
from reflectloop.errors import InvalidInput
from reflectloop.system.git import Git

_SHORTEST = 4  # letters of a name that is searched
_FEW = 12  # definitions of a name in other files; a commoner name tells nothing
_MOST_NAMES = 200
_MOST_PLACES = 30
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_SUBMODULES = "--ignore-submodules=dirty"  # whatever `.gitmodules` says; git starts nothing inside of them
_MOST_LINES = 5000  # of one hunk
_LEAST_SHARE = 0.15  # of the changes of a file that the other took part in


def impact(root: Path, path: str, *, tokens: int = retriever.TOKENS, limit: int = retriever.LIMIT) -> list[Hit]:
    """Return what depends on a file: tests first, then importers, uses of its names, and files changed with it."""

    def look(corpus: Corpus) -> list[Hit]:
        hits = _impact(corpus, path, limit)
        placed = [hit for hit in hits if hit.end_line > 1]
        texts = dict(zip(placed, retriever.with_texts(corpus.tree, corpus.listing, placed, tokens), strict=True))
        return [texts.get(hit, hit) for hit in hits]

    return retriever.with_corpus(root, look)


def _impact(corpus: Corpus, path: str, limit: int) -> list[Hit]:
    if path not in corpus.blobs:
        raise InvalidInput(f"{path} is not a file of this project that the index holds", next_step="git ls-files")
    graph = ImportGraph(corpus)
    importers = graph.importers.get(path, set())
    out: dict[tuple[str, int], Hit] = {}
    uses = _uses(corpus, path, importers | graph.same_package(path))
    for test, why in graph.tests_of(path).items():
        _add(out, uses, ("tests",), test, why)
    for other in sorted(importers):
        if not filekinds.is_test(other):
            _add(out, uses, ("imports",), other, "imports it")
    for other, places in uses.items():
        if other not in importers and len(places) > 0:
            _add(out, uses, ("symbols",), other, "uses its names")
    together = signals.scaled(TreeReader(corpus).changed_with([path]))
    for other, share in sorted(together.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]:
        if share >= _LEAST_SHARE and not any(known == other for known, _ in out):
            out[other, 1] = Hit(("history",), other, 1, 1, share, "was changed together with it")
    kinds = ("tests", "imports", "symbols", "history")
    return [hit for kind in kinds for hit in list(out.values()) if hit.source[0] == kind][: limit * len(kinds)]


def _add(
    out: dict[tuple[str, int], Hit],
    uses: dict[str, list[tuple[int, int, str]]],
    source: tuple[str, ...],
    path: str,
    why: str,
) -> None:
    """Add the place where a file uses a name, or its first lines."""
    start, end, name = next(iter(uses.get(path, [])), (1, 1, ""))
    out.setdefault((path, start), Hit(source, path, start, end, 1.0, f"{why}; uses `{name}`" if name else why))


def _uses(corpus: Corpus, path: str, importers: set[str]) -> dict[str, list[tuple[int, int, str]]]:
    """Return the chunks of other files that use a name which this file defines and few others do.

    A name of one plain word, or one that other files define too, counts only in files that import this one or
    belong to its package.
    """
    ask = corpus.connection.execute
    reader = TreeReader(corpus)
    rows = ask("SELECT name FROM chunk WHERE blob = ? ORDER BY first", (corpus.blobs[path],))
    defined = dict.fromkeys(name.rpartition(".")[2] for (names,) in rows for name in names.split())
    names = [name for name in defined if len(name) >= _SHORTEST and not name.startswith("__")]
    out: dict[str, list[tuple[int, int, str]]] = {}
    for name in names[:_MOST_NAMES]:
        by_file, _ = reader.defined({name.lower(): 1.0})
        if len(by_file) > _FEW:
            continue
        telling = len(words.pieces(name)) > 1 and set(by_file) <= {path}
        for chunk in reader.chunks_with(name)[:_MOST_PLACES]:
            for other in reader.paths[chunk.blob]:
                if other != path and other not in by_file and (telling or other in importers):
                    out.setdefault(other, []).append((chunk.start, chunk.end, name))
    return out


def changed_files(root: Path, base: str | None) -> list[str]:
    """Return the files that differ from a commit, and new ones."""
    git = Git(cwd=root)
    commit = trees.commit_of(git, base or "HEAD")
    tracked = git.run("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", _SUBMODULES, commit)
    new = git.run("ls-files", "-z", "-o", "--exclude-standard")
    return [name.decode("utf-8", "surrogateescape") for name in dict.fromkeys((tracked + new).split(b"\0")) if name]


def changed_names(root: Path, base: str | None) -> list[str]:
    """Return the names of the definitions that lie where the files differ from a commit."""
    git = Git(cwd=root)
    commit = trees.commit_of(git, base or "HEAD")
    diff = git.run("diff", "-U0", "--no-renames", "--no-ext-diff", "--no-color", _SUBMODULES, commit)
    lines: dict[str, set[int]] = {}
    path = ""
    for line in diff.decode("utf-8", "surrogateescape").split("\n"):
        if line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/").rstrip("\t")
        elif path and (match := _HUNK.match(line)):
            start, count = int(match[1]), int(match[2] or 1)
            lines.setdefault(path, set()).update(range(start, start + max(1, min(count, _MOST_LINES))))
    return retriever.with_corpus(root, lambda corpus: _names_at(corpus, lines))


def _names_at(corpus: Corpus, lines: dict[str, set[int]]) -> list[str]:
    names: dict[str, None] = {}
    for path, numbers in lines.items():
        rows = corpus.connection.execute(
            "SELECT first, last, name FROM chunk WHERE blob = ? AND name <> ''", (corpus.blobs.get(path, 0),)
        )
        for start, end, name in rows:
            if any(start <= number <= end for number in numbers):
                names.update(dict.fromkeys(name.split()))
    return list(names)[:_MOST_NAMES]
