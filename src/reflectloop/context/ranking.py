"""Adds up the signals of a question to the best files, and says why each place was chosen. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reflectloop.context import filekinds, words
from reflectloop.context.question import Question
from reflectloop.context.signals import Scores


class Signal(NamedTuple):
    """The weight of a signal, the source that a hit names for it, and the reason that a person reads."""

    weight: float
    source: str
    reason: str = ""  # none where the words of the place say it


# Weights measured on the tuning half of SWE-bench Lite by `make proof-context`; docs/context.md explains the signals.
SIGNALS: Mapping[str, Signal] = {
    "words": Signal(0.72, "words"),
    "title": Signal(1.03, "words"),
    "functions": Signal(0.63, "words"),
    "function": Signal(0.75, "words"),
    "title_functions": Signal(0.83, "words"),
    "title_function": Signal(0.85, "words"),
    "definitions": Signal(0.85, "symbols"),
    "code": Signal(0.56, "symbols"),
    "code_functions": Signal(0.55, "symbols"),
    "symbols": Signal(0.46, "symbols", "defines a name of the text"),
    "names": Signal(0.37, "symbols"),
    "mentions": Signal(0.78, "named", "the text names this file or module"),
    "frames": Signal(0.68, "failure", "in the stack trace"),
    "path": Signal(0.69, "path", "its path has words of the text"),
    "title_path": Signal(0.44, "path", "its path has words of the text"),
    "history": Signal(0.45, "history", "changed by commits that say similar things"),
    "title_history": Signal(0.65, "history", "changed by commits that say similar things"),
    "changes": Signal(0.35, "history"),
    "neighbours": Signal(0.88, "imports", "next to other hits in the graph of imports"),
    "together": Signal(1.0, "history", "changed together with the files of the work"),
    "runs": Signal(0.5, "runs", "changed by an earlier run for a similar task"),
}
WEIGHTS: Mapping[str, float] = {name: signal.weight for name, signal in SIGNALS.items()}
# Where the files of the work are known, what lies next to them counts more.
AROUND_CHANGES = {**WEIGHTS, "neighbours": 4.0, "together": 4.0, "mentions": 0.5, "changes": 0.1}
# Code before what describes, tests or configures it.
_KINDS: Mapping[filekinds.FileKind, float] = {"code": 1.0, "test": 0.6, "docs": 0.6, "data": 0.6}
_VENDORED = 0.5
_FIRST_RANKS = 5  # ranks over which the reciprocal rank falls to a half
_MOST_WORDS = 5  # of the question, in a reason
_PRIORS = ("changes", "neighbours")  # they say nothing about a file that nothing else speaks for


class RankedFile(NamedTuple):
    """A file, its value, and the signals behind it, the strongest first."""

    path: str
    score: float
    sources: tuple[str, ...]


def rank(signals: Mapping[str, Scores], weights: Mapping[str, float] = WEIGHTS) -> list[RankedFile]:
    """Return the files by the weighted sum of their signals, the best first; equal ones by path."""
    parts: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for name, values in signals.items():
        weight = weights.get(name, 0)
        for path, value in _with_rank(values).items() if weight else ():
            parts[path].append((weight * value, name))
    whole = sum(weights.values())
    priors = _PRIORS if weights is WEIGHTS else _PRIORS[:1]
    rated = [
        RankedFile(path, sum(value for value, _ in some) * _factor(path) / whole, _strongest(some))
        for path, some in parts.items()
        if any(name not in priors for _, name in some)
    ]
    return sorted(rated, key=lambda file: (-file.score, file.path))


def _with_rank(values: Scores) -> Scores:
    """Return the mean of each value and its reciprocal rank; equal values have the same rank."""
    out: Scores = {}
    rank, last = 0, 0.0
    ordered = sorted(((value, path) for path, value in values.items() if value > 0), reverse=True)
    for number, (value, path) in enumerate(ordered):
        if value != last:
            rank, last = number, value
        out[path] = (value + _FIRST_RANKS / (_FIRST_RANKS + rank)) / 2
    return out


def _factor(path: str) -> float:
    return _KINDS[filekinds.kind_of(path)] * (_VENDORED if filekinds.is_vendored(path) else 1)


def _strongest(parts: Iterable[tuple[float, str]]) -> tuple[str, ...]:
    ordered = sorted(parts, key=lambda part: (-part[0], part[1]))
    least = ordered[0][0] * 0.2
    return tuple(name for value, name in ordered if value >= least)


# What a hit says of itself -------------------------------------------------------------------------------------


def public(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the sources of a hit, each once, the strongest first."""
    return tuple(dict.fromkeys(SIGNALS[source].source for source in sources))


def explain(sources: Sequence[str], name: str, lines: Sequence[str]) -> str:
    """Return why a place was chosen: the name it defines, what its lines say, the reasons of its signals."""
    parts = [f"`{name.rsplit(maxsplit=1)[-1]}`"] if name else []
    parts += dict.fromkeys(lines)
    parts += dict.fromkeys(reason for source in sources if (reason := SIGNALS[source].reason))
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
