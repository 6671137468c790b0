"""Find the places of a project that a text is about, within a token budget."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from reflectloop.context import database, index, linear, question, ranking, records, signals, trees, words
from reflectloop.context.graph import ImportGraph
from reflectloop.context.hit import Hit
from reflectloop.context.index import Corpus
from reflectloop.context.ranking import RankedFile
from reflectloop.context.redaction import redacted
from reflectloop.context.signals import Scores, Signals, TreeReader
from reflectloop.errors import InvalidInput
from reflectloop.system.git import Git
from reflectloop.workspace import repository

TOKENS = 4000
LIMIT = 10
_CHUNKS = (3, 3, 2, 2)  # places in the first files; one in each further file
_SEEDS = 5  # best files whose neighbours in the graph of imports count
_NAMELESS = 0.7  # of the value of a chunk that defines nothing
_MANY_BLOBS = 20_000  # an index with fewer is never rebuilt for its age
_MOST_VERSIONS = 6  # contents in the index for each file of today
_NAMED_LINE = 2.0  # the value of a chunk with a line that the text names
T = TypeVar("T")


def retrieve(
    root: Path,
    query: str,
    *,
    tokens: int = TOKENS,
    limit: int = LIMIT,
    failure: str = "",
    changed: Sequence[str] = (),
    tree: str | None = None,
    leave_out: Collection[str] = (),
    most_new: int | None = None,
) -> list[Hit]:
    """Return the best places first: whole functions of at most `limit` files, with text as far as `tokens` reach.

    `failure` is the output of a failed command, whose stack frames count; `changed` are paths the work is on;
    `tree` is a commit or tree to search instead of the working folder; `leave_out` are paths that are not wanted;
    where more than `most_new` files are not in the index, they are not searched.
    """
    asked = question.read(query, failure)
    advice = records.lessons(root, query)

    def search(corpus: Corpus) -> list[Hit]:
        hits = _search(corpus, asked, changed, leave_out, limit)
        return with_texts(corpus.tree, corpus.listing, [*hits, *advice], tokens, asked)

    try:
        return with_corpus(root, search, tree, most_new)
    except database.NoFullText:
        chosen = tree_of(root, tree)
        listing = chosen.listing(trees.NoMemory()).files
        hits = linear.search(chosen, listing, asked, leave_out)[:limit]
        return with_texts(chosen, listing, [*hits, *advice], tokens, asked)


def with_corpus(root: Path, use: Callable[[Corpus], T], tree: str | None = None, most_new: int | None = None) -> T:
    """Bring the index of a project up to date, and call a function with it."""
    chosen = tree_of(root, tree)
    git = Git(cwd=root) if chosen.tip else None

    def answer(connection: sqlite3.Connection) -> T:
        corpus = index.refresh(connection, chosen, git, most_new)
        (total,) = connection.execute("SELECT count(*) FROM blob").fetchone()
        if most_new is None and total > _MANY_BLOBS and total > _MOST_VERSIONS * len(corpus.listing):
            raise sqlite3.DatabaseError("most of it is of earlier versions, which make every question slow")
        return use(corpus)

    return database.ask(database.place_for(root), answer)


def tree_of(root: Path, name: str | None = None) -> trees.Tree:
    """Return the files to search: the working folder, or a commit or tree by its name."""
    if repository.find(root) is None:
        return trees.PlainFolder(root)
    git = Git(cwd=root)
    if name is None:
        return trees.WorkTree(root, trees.object_id(git, "HEAD^{commit}"))
    tree = trees.object_id(git, f"{name}^{{tree}}")
    if tree is None:
        raise InvalidInput(f"there is no commit or tree {name!r} here", next_step="git log --oneline")
    return trees.GitTree(git, tree, trees.object_id(git, f"{name}^{{commit}}"))


def _search(
    corpus: Corpus, asked: question.Question, changed: Sequence[str], leave_out: Collection[str], limit: int
) -> list[Hit]:
    files, gathered = rank_files(corpus, asked, changed, leave_out)
    return [hit for number, file in enumerate(files[:limit]) for hit in places_of(corpus, file, number, gathered)]


def rank_files(
    corpus: Corpus, asked: question.Question, changed: Sequence[str] = (), leave_out: Collection[str] = ()
) -> tuple[list[RankedFile], Signals]:
    """Return the files of a tree, the best first, and what speaks for them."""
    reader = TreeReader(corpus)
    gathered = signals.gather(reader, asked)
    files = gathered.files
    files["together"] = signals.scaled(reader.changed_with(changed))
    files["runs"] = signals.scaled(records.files_of_runs(corpus, asked))
    seeds = [*changed, *(file.path for file in ranking.rank(files)[:_SEEDS])]
    files["neighbours"] = signals.scaled(_neighbours(corpus, seeds, explicit=bool(changed)))
    weights = ranking.AROUND_CHANGES if leave_out else ranking.WEIGHTS
    return [file for file in ranking.rank(files, weights) if file.path not in leave_out], gathered


def _neighbours(corpus: Corpus, seeds: Sequence[str], *, explicit: bool) -> Scores:
    """Return the files next to the best ones in the graph of imports; importers are asked for only if it matters."""
    graph = ImportGraph(corpus)
    out: Scores = {}
    for number, path in enumerate(dict.fromkeys(seeds)):
        near = graph.imports(path)
        if explicit:
            near |= graph.importers.get(path, set()) | graph.tests_of(path).keys()
        for other in near:
            out[other] = out.get(other, 0) + 1 / (1 + number) / len(near) ** 0.5
    return out


class _Place(NamedTuple):
    start: int
    end: int
    name: str
    value: float


def places_of(corpus: Corpus, file: RankedFile, number: int, gathered: Signals) -> list[Hit]:
    """Return the best chunks of a file as hits; what speaks for the whole file is said with the first."""
    lines = gathered.places.get(file.path, {})
    rows = corpus.connection.execute(
        "SELECT id, first, last, name FROM chunk WHERE blob = ? ORDER BY first", (corpus.blobs[file.path],)
    )
    places = [
        _Place(start, end, name, _value(gathered.chunks.get(chunk, 0), start, end, name, lines))
        for chunk, start, end, name in rows
    ] or [_Place(1, 1, "", 0)]
    most = _CHUNKS[number] if number < len(_CHUNKS) else 1
    best = sorted(places, key=lambda place: (-place.value, place.start))[:most]
    top = best[0].value or 1
    chosen = [place for place in best if place.value >= 0.3 * top or place is best[0]]
    return [
        Hit(
            ranking.public(file.sources),
            file.path,
            place.start,
            place.end,
            file.score * (place.value / top if place.value else 1),
            ranking.explain(
                () if rank else file.sources,
                place.name,
                [lines[at] for at in lines if place.start <= at <= place.end],
            ),
        )
        for rank, place in enumerate(chosen)
    ]


def _value(value: float, start: int, end: int, name: str, lines: Collection[int]) -> float:
    is_named = any(start <= line <= end for line in lines)
    return value * (1 if name else _NAMELESS) + _NAMED_LINE * is_named


def with_texts(
    tree: trees.Tree, listing: Mapping[str, str], hits: list[Hit], tokens: int, asked: question.Question | None = None
) -> list[Hit]:
    """Give as many hits their text as fit: the best place of each file first, then the second best, and so on."""
    wanted = {hit.path: listing[hit.path] for hit in hits if not hit.text and hit.path in listing}
    contents = {
        path: redacted(data).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for path, data in tree.read(wanted)
    }
    turns: dict[int, int] = {}
    seen: dict[str, int] = {}
    for number, hit in enumerate(hits):
        turns[number] = seen[hit.path] = seen.get(hit.path, -1) + 1
    left = tokens
    out = list(hits)
    for number in sorted(turns, key=lambda number: (turns[number], number)):
        hit = hits[number]
        text = hit.text or "\n".join(contents.get(hit.path, [])[hit.start_line - 1 : hit.end_line])
        cost = words.count_tokens(f"{hit.path}{hit.why}{text}")
        fits = cost <= left
        left -= cost if fits else 0
        why = ranking.with_words(hit.why, text, asked) if asked else hit.why
        out[number] = hit._replace(text=text if fits else "", why=why)
    return out
