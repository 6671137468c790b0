"""Say in words why a place was chosen. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from reflectloop.context import words
from reflectloop.context.question import Question

# signal -> (source that a hit names, reason for a person; "" where the words themselves say it)
_SAID = {
    "words": ("words", ""),
    "title": ("words", ""),
    "functions": ("words", ""),
    "function": ("words", ""),
    "title_functions": ("words", ""),
    "title_function": ("words", ""),
    "definitions": ("symbols", ""),
    "code": ("symbols", ""),
    "code_functions": ("symbols", ""),
    "symbols": ("symbols", "defines a name of the text"),
    "names": ("symbols", ""),
    "mentions": ("named", "the text names this file or module"),
    "frames": ("failure", "in the stack trace"),
    "path": ("path", "its path has words of the text"),
    "title_path": ("path", "its path has words of the text"),
    "history": ("history", "changed by commits that say similar things"),
    "title_history": ("history", "changed by commits that say similar things"),
    "changes": ("history", ""),
    "neighbours": ("imports", "next to other hits in the graph of imports"),
    "together": ("history", "changed together with the files of the work"),
    "runs": ("runs", "changed by an earlier run for a similar task"),
}
_MOST_WORDS = 5


def public(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the sources of a hit, each once, the strongest first."""
    return tuple(dict.fromkeys(_SAID[source][0] for source in sources))


def explain(sources: Sequence[str], name: str, lines: Sequence[str]) -> str:
    parts = [f"`{name.rsplit(maxsplit=1)[-1]}`"] if name else []
    parts += dict.fromkeys(lines)
    parts += dict.fromkeys(reason for source in sources if (reason := _SAID[source][1]))
    return "; ".join(parts)


def with_words(why: str, text: str, asked: Question) -> str:
    """Add the words of the question that a place has, as it spells them."""
    spelled: dict[str, str] = {}
    for name in words.names_of(text):
        for piece in words.pieces(name)[:1]:
            if piece in asked.terms:
                spelled.setdefault(piece, name)
    telling = sorted(spelled, key=lambda word: (word not in asked.title_terms, -len(word), word))[:_MOST_WORDS]
    shared = f"has {', '.join(spelled[word] for word in telling)}" if telling else ""
    return "; ".join(part for part in (why, shared) if part)
