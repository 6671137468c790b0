"""Search without an index, by reading every file: for a Python whose SQLite has no full-text search."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reflectloop.context import chunks, filekinds, grammars, words
from reflectloop.context.hit import Hit
from reflectloop.context.question import Question
from reflectloop.context.redaction import redacted
from reflectloop.context.trees import Tree

_NAME = 3  # a word in the name of a definition counts so often


def search(tree: Tree, listing: Mapping[str, str], asked: Question, leave_out: Collection[str]) -> list[Hit]:
    """Return the best chunk of each file by the share of the question's words in it."""
    hits = []
    for path, data in tree.read({path: key for path, key in listing.items() if path not in leave_out}):
        hit = _best(path, data, asked)
        if hit:
            hits.append(hit)
    return sorted(hits, key=lambda hit: (-hit.score, hit.path))


def _best(path: str, data: bytes, asked: Question) -> Hit | None:
    text = filekinds.readable_text(path, redacted(data))
    if text is None:
        return None
    lines = text.split("\n")
    best: Hit | None = None
    whole = _NAME * max(1, len(asked.terms))
    for chunk in chunks.split(text, grammars.grammar_of(path)):
        shared = asked.terms.keys() & words.query_words("\n".join(lines[chunk.start - 1 : chunk.end])).keys()
        named = asked.terms.keys() & words.query_words(f"{' '.join(chunk.names)} {path}").keys()
        score = (len(shared) + (_NAME - 1) * len(named)) / whole
        if shared and (best is None or score > best.score):
            best = Hit(("words",), path, chunk.start, chunk.end, score, f"`{chunk.names[-1]}`" if chunk.names else "")
    return best
