"""The signals of relevance: each gives files a value; the ranking adds them up."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeVar

from reflectloop.context import words
from reflectloop.context.graph import INDEXES, stems_of
from reflectloop.context.index import Corpus
from reflectloop.context.question import Question

Scores = dict[str, float]
Source = Literal["chunk", "path", "message"]
_MOST_TERMS = 96
_MOST_COUNTED = 3  # times that a repeated word of a question counts
_CHUNKS = 600
_BLOBS = 400
_COMMITS = 60
CHUNK_WEIGHTS = (1.0, 0.6, 0.8, 0.3)  # words, words of the title, names of code, other names
_FEW = 100  # chunks; a word in so few is never too common
_COMMON_SHARE = 0.4  # of all chunks; a word in more of them tells nothing


class ScoredChunk(NamedTuple):
    """A chunk that matches, and how well."""

    number: int
    blob: int
    start: int
    end: int
    score: float


class NamedPlaces(NamedTuple):
    """The files and lines that a text names."""

    mentions: Scores
    frames: Scores
    lines: dict[str, dict[int, str]]  # path -> line -> why


class Signals(NamedTuple):
    """All signals of one question."""

    files: dict[str, Scores]  # signal -> path -> value, the best 1
    chunks: dict[int, float]  # number of a chunk -> value
    places: dict[str, dict[int, str]]  # path -> line -> why it is named
    terms: list[str]  # the words that were searched, the rarest first


class TreeReader:
    """Asks the index about one tree."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.paths: dict[int, list[str]] = defaultdict(list)
        for path, blob in corpus.blobs.items():
            self.paths[blob].append(path)

    # Words ------------------------------------------------------------------------------------------------------

    def telling(self, terms: Mapping[str, int], source: Source = "chunk", most: int = _MOST_TERMS) -> list[str]:
        """Return the rarest words of a question that one of the word tables knows; a word said twice is there twice."""
        ask = self.corpus.connection.execute
        (total,) = ask(f"SELECT max(id) FROM {source}").fetchone()  # noqa: S608 - one of three names
        query = f"SELECT doc FROM {source}_terms WHERE term = ?"  # noqa: S608
        counts = {}
        for term in terms:
            row = ask(query, (term,)).fetchone()
            if row and row[0] < max(_COMMON_SHARE * (total or 1), _FEW):
                counts[term] = row[0]
        chosen = sorted(counts, key=lambda term: (counts[term] / (1 + terms[term]), term))[:most]
        return [term for term in chosen for _ in range(min(terms[term], _MOST_COUNTED))]

    def chunks(self, terms: Iterable[str], weights: tuple[float, float] = (2.0, 1.0)) -> list[ScoredChunk]:
        query = _either(terms)
        if not query:
            return []
        rows = self.corpus.connection.execute(
            "SELECT rowid, bm25(chunk_words, ?, ?) AS value FROM chunk_words WHERE chunk_words MATCH ? ORDER BY value",
            (*weights, query),
        )
        out: list[ScoredChunk] = []
        ask = self.corpus.connection.execute
        for number, value in rows:
            blob, start, end = ask("SELECT blob, first, last FROM chunk WHERE id = ?", (number,)).fetchone()
            if blob in self.paths:
                out.append(ScoredChunk(number, blob, start, end, -value))
                if len(out) >= _CHUNKS:
                    break
        return out

    def chunks_with(self, name: str) -> list[ScoredChunk]:
        """Return the chunks in which a whole name occurs."""
        return self.chunks([words.pieces(name)[0]], (0.0, 1.0)) if words.pieces(name) else []

    def blobs(self, terms: Iterable[str], weights: tuple[float, float] = (2.0, 1.0)) -> Scores:
        query = _either(terms)
        if not query:
            return {}
        rows = self.corpus.connection.execute(
            "SELECT rowid, bm25(blob_words, ?, ?) AS value FROM blob_words WHERE blob_words MATCH ? ORDER BY value",
            (*weights, query),
        )
        out: Scores = {}
        for blob, value in rows:
            for path in self.paths.get(blob, ()):
                out[path] = -value
            if len(out) >= _BLOBS:
                break
        return out

    def by_path(self, terms: Iterable[str]) -> Scores:
        query = _either(terms)
        if not query:
            return {}
        rows = self.corpus.connection.execute(
            "SELECT p.name, w.rank FROM path_words w JOIN path p ON p.id = w.rowid WHERE path_words MATCH ?", (query,)
        )
        return {name: -value for name, value in rows if name in self.corpus.blobs}

    # Names ------------------------------------------------------------------------------------------------------

    def defined(self, names: Mapping[str, float]) -> tuple[Scores, dict[int, float]]:
        """Return the files and chunks that define names of a question; a name defined everywhere counts little."""
        by_file: Scores = defaultdict(float)
        by_chunk: dict[int, float] = defaultdict(float)
        ask = self.corpus.connection.execute
        for name, weight in names.items():
            rows = ask(
                "SELECT d.chunk, c.blob FROM definition d JOIN chunk c ON c.id = d.chunk WHERE d.name = ?", (name,)
            )
            places = [(chunk, blob) for chunk, blob in rows if blob in self.paths]
            owners = {path for _, blob in places for path in self.paths[blob]}
            value = weight / (1 + math.log2(max(1, len(owners)))) ** 2 if owners else 0
            for path in owners:
                by_file[path] += value
            for chunk, _ in places:
                by_chunk[chunk] += value
        return dict(by_file), dict(by_chunk)

    def named(self, question: Question) -> NamedPlaces:
        """Return the files that a question names, those in its stack traces, and the lines that it names."""
        modules = [name.replace("::", ".").split(".") for name in question.dotted]
        bases, stems = self._lookups(
            {file.path.rpartition("/")[2] for file in question.files}, {part for parts in modules for part in parts}
        )
        out = NamedPlaces(defaultdict(float), defaultdict(float), defaultdict(dict))
        trace = [file for file in question.files if file.is_frame]
        for file in question.files:
            matches = _best_suffix(file.path, bases.get(file.path.rpartition("/")[2], ()))
            for path in matches:
                if file.is_frame:
                    depth = (trace.index(file) + 1) / len(trace)
                    out.frames[path] = max(out.frames[path], 0.4 + 0.6 * depth)
                else:
                    out.mentions[path] = max(out.mentions[path], 1 / len(matches))
                if file.line:
                    out.lines[path].setdefault(file.line, "stack frame" if file.is_frame else "named in the text")
        for parts in modules:
            for path, value in _modules(parts, stems).items():
                out.mentions[path] = max(out.mentions[path], value)
        return out

    def _lookups(self, bases: set[str], stems: set[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Return the paths with one of these file names, and those with one of these stems."""
        same_base: dict[str, list[str]] = defaultdict(list)
        same_stem: dict[str, list[str]] = defaultdict(list)
        for path in self.corpus.blobs:
            base = path.rpartition("/")[2]
            if base in bases:
                same_base[base].append(path)
            stem = base.partition(".")[0]
            if stem in INDEXES:
                stem = stems_of(path)[-1]
            if stem in stems:
                same_stem[stem].append(path)
        return same_base, same_stem

    # History ----------------------------------------------------------------------------------------------------

    def history(self, terms: Iterable[str]) -> Scores:
        """Return the files of earlier commits whose messages say similar things."""
        query = _either(terms)
        out: Scores = defaultdict(float)
        if not query or not self.corpus.commits:
            return {}
        ask = self.corpus.connection.execute
        rows = ask("SELECT rowid, rank FROM message_words WHERE message_words MATCH ? ORDER BY rank", (query,))
        count = 0
        for number, value in rows:
            if number not in self.corpus.commits:
                continue
            touched = self._touched(number)
            for name in touched:
                out[name] += -value / len(touched) ** 0.5
            count += 1
            if count >= _COMMITS:
                break
        return dict(out)

    def changed_with(self, changed: Iterable[str]) -> Scores:
        """Return the files that were changed together with these, commits of few files counting more."""
        out: Scores = defaultdict(float)
        ask = self.corpus.connection.execute
        for path in changed:
            rows = ask("SELECT t.message FROM touched t JOIN path p ON p.id = t.path WHERE p.name = ?", (path,))
            for (message,) in rows.fetchall():
                if message in self.corpus.commits:
                    others = self._touched(message)
                    for other in others:
                        out[other] += 1 / len(others)
        return {path: value for path, value in out.items() if path not in set(changed)}

    def _touched(self, message: int) -> list[str]:
        rows = self.corpus.connection.execute(
            "SELECT p.name FROM touched t JOIN path p ON p.id = t.path WHERE t.message = ?", (message,)
        )
        return [name for (name,) in rows if name in self.corpus.blobs]

    def changes(self) -> Scores:
        """Return how often each file was changed, as a logarithm."""
        if not self.corpus.commits:
            return {}
        rows = self.corpus.connection.execute("SELECT message, path FROM touched")
        counts: dict[int, int] = defaultdict(int)
        commits = self.corpus.commits
        for message, path in rows:
            if message in commits:
                counts[path] += 1
        names = dict(self.corpus.connection.execute("SELECT id, name FROM path"))
        return {names[path]: math.log1p(count) for path, count in counts.items() if names[path] in self.corpus.blobs}


def _either(terms: Iterable[str]) -> str:
    return " OR ".join(f'"{term}"' for term in terms)


def _best_suffix(path: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that share the longest end with a path."""
    parts = path.split("/")[::-1]
    best: list[str] = []
    longest = 0
    for candidate in candidates:
        shared = 0
        for left, right in zip(parts, candidate.split("/")[::-1], strict=False):
            if left != right:
                break
            shared += 1
        if shared > longest:
            best, longest = [], shared
        if shared == longest and shared:
            best.append(candidate)
    return best


def _modules(parts: list[str], same_stem: Mapping[str, list[str]]) -> Scores:
    """Return files for a dotted name: the longest beginning that is a module."""
    for end in range(len(parts), 0, -1):
        want = parts[:end]
        matches = [path for path in same_stem.get(want[-1], ()) if stems_of(path)[-len(want) :] == want]
        if matches and (end > 1 or len(matches) == 1):
            return {path: 1 / len(matches) for path in matches}
    return {}


def file_sums(chunks: Iterable[ScoredChunk], paths: Mapping[int, list[str]]) -> tuple[Scores, Scores]:
    """Return for each file the sum of its three best chunks, and its best chunk."""
    values: dict[int, list[float]] = defaultdict(list)
    for chunk in chunks:
        if len(values[chunk.blob]) < 3:  # noqa: PLR2004
            values[chunk.blob].append(chunk.score)
    sums = {path: sum(some) for blob, some in values.items() for path in paths[blob]}
    best = {path: some[0] for blob, some in values.items() for path in paths[blob]}
    return sums, best


def gather(reader: TreeReader, question: Question) -> Signals:
    """Ask for every signal of a question."""
    terms = reader.telling(question.terms)
    title_terms = reader.telling(question.title_terms)
    chunks = reader.chunks(terms)
    sums, best = file_sums(chunks, reader.paths)
    title_chunks = reader.chunks(title_terms)
    title_sums, title_best = file_sums(title_chunks, reader.paths)
    code_terms = reader.telling({piece: 1 for name in question.code for piece in words.pieces(name)})
    sure = {name: weight for name, weight in question.names.items() if weight == 1}
    symbols, symbol_chunks = reader.defined(sure)
    plain, plain_chunks = reader.defined({name: weight for name, weight in question.names.items() if name not in sure})
    named = reader.named(question)
    files = {
        "words": reader.blobs(terms),
        "title": reader.blobs(title_terms),
        "functions": sums,
        "function": best,
        "title_functions": title_sums,
        "title_function": title_best,
        "definitions": reader.blobs(terms, (1.0, 0.0)),
        "code": reader.blobs(code_terms),
        "code_functions": file_sums(reader.chunks(code_terms), reader.paths)[0],
        "symbols": symbols,
        "names": plain,
        "mentions": named.mentions,
        "frames": named.frames,
        "path": reader.by_path(reader.telling(question.terms, "path")),
        "title_path": reader.by_path(reader.telling(question.title_terms, "path")),
        "history": reader.history(reader.telling(question.terms, "message")),
        "title_history": reader.history(reader.telling(question.title_terms, "message")),
        "changes": reader.changes(),
    }
    values: dict[int, float] = defaultdict(float)
    parts = (
        (CHUNK_WEIGHTS[0], {chunk.number: chunk.score for chunk in chunks}),
        (CHUNK_WEIGHTS[1], {chunk.number: chunk.score for chunk in title_chunks}),
        (CHUNK_WEIGHTS[2], symbol_chunks),
        (CHUNK_WEIGHTS[3], plain_chunks),
    )
    for weight, part in parts:
        for number, value in scaled(part).items():
            values[number] += weight * value
    return Signals({name: scaled(some) for name, some in files.items()}, dict(values), named.lines, terms)


K = TypeVar("K")


def scaled(values: Mapping[K, float]) -> dict[K, float]:
    """Return the values as shares of the greatest."""
    most = max(values.values(), default=0)
    return {key: value / most for key, value in values.items()} if most > 0 else {}
