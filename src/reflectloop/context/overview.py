"""The repository in one page: its parts, and the files that most others depend on with what they define."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.context import filekinds, grammars, retriever, words
from reflectloop.context.graph import ImportGraph
from reflectloop.context.index import Corpus

_DAMPING = 0.85
_ROUNDS = 20
_PARTS = 16  # folders
_FILES = 40
_NAMES = 12  # definitions of a file


class ProjectMap(NamedTuple):
    """A project as people see it first."""

    files: int
    languages: dict[str, int]  # language -> files
    parts: dict[str, dict[str, int]]  # folder -> kind of file -> files
    important: list[tuple[str, list[str]]]  # path and what it defines

    def as_data(self) -> dict[str, Any]:
        important = [{"path": path, "defines": names} for path, names in self.important]
        return {"files": self.files, "languages": self.languages, "parts": self.parts, "important": important}


def project_map(root: Path, tokens: int = retriever.TOKENS) -> ProjectMap:
    """Return the map of a project, shortened to a token budget."""
    return retriever.with_corpus(root, lambda corpus: _map(corpus, tokens))


def _map(corpus: Corpus, tokens: int) -> ProjectMap:
    paths = sorted(corpus.blobs)
    languages = Counter(grammar.name for path in paths if (grammar := grammars.grammar_of(path)))
    parts: dict[str, Counter[str]] = defaultdict(Counter)
    for path in paths:
        parts[_part(path)][filekinds.kind_of(path)] += 1
    largest = sorted(parts, key=lambda part: (-parts[part].total(), part))[:_PARTS]
    left = tokens - 40 - 12 * len(largest)
    important = []
    for path in _by_rank(corpus)[:_FILES]:
        names = list(_names(corpus, path))
        cost = words.count_tokens(f"{path}: {', '.join(names)}") + 2
        if cost > left:
            break
        left -= cost
        important.append((path, names))
    folders = {part: dict(parts[part].most_common()) for part in sorted(largest)}
    return ProjectMap(len(paths), dict(languages.most_common()), folders, important)


def _part(path: str) -> str:
    """Return the folder that a file counts for: the first, or the second below a source folder."""
    folders = path.split("/")[:-1]
    deep = folders[:1] in (["src"], ["lib"], ["packages"], ["crates"], ["pkg"], ["cmd"], ["internal"])
    return "/".join(folders[: 3 if folders[:1] == ["src"] else 2 if deep else 1]) or "."


def _by_rank(corpus: Corpus) -> list[str]:
    """Return the code of a project, what much depends on first, by the page rank of the graph of imports."""
    importers = ImportGraph(corpus).importers
    paths = [path for path in corpus.blobs if filekinds.kind_of(path) == "code" and grammars.grammar_of(path)]
    known = set(paths)
    outgoing = Counter(other for targets in importers.values() for other in targets if other in known)
    rank = dict.fromkeys(paths, 1.0)
    for _ in range(_ROUNDS):
        rank = {
            path: 1
            - _DAMPING
            + _DAMPING * sum(rank[other] / outgoing[other] for other in importers.get(path, ()) if other in known)
            for path in paths
        }
    return sorted(paths, key=lambda path: (-rank[path] * (0.3 if filekinds.is_vendored(path) else 1), path))


def _names(corpus: Corpus, path: str) -> Iterator[str]:
    rows = corpus.connection.execute(
        "SELECT name, owner FROM chunk WHERE blob = ? AND name <> '' ORDER BY first", (corpus.blobs[path],)
    )
    names = dict.fromkeys(owner or name.split()[0] for name, owner in rows)
    yield from [name for name in names if not name.startswith("_")][:_NAMES]
