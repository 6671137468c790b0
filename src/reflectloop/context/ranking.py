"""Add up the signals of a question, and choose the functions of the best files. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reflectloop.context import filekinds
from reflectloop.context.signals import Scores

# Measured on the tuning half of SWE-bench Lite by `make proof-context`; docs/context.md says what each is.
WEIGHTS: Mapping[str, float] = {
    "words": 0.72,
    "title": 1.03,
    "functions": 0.63,
    "function": 0.75,
    "title_functions": 0.83,
    "title_function": 0.85,
    "definitions": 0.85,
    "code": 0.56,
    "code_functions": 0.55,
    "symbols": 0.46,
    "names": 0.37,
    "mentions": 0.78,
    "frames": 0.68,
    "path": 0.69,
    "title_path": 0.44,
    "history": 0.45,
    "title_history": 0.65,
    "changes": 0.35,
    "neighbours": 0.88,
    "together": 1.0,
    "runs": 0.5,
}
# Code before what describes, tests or configures it.
_KINDS: Mapping[filekinds.FileKind, float] = {"code": 1.0, "test": 0.6, "docs": 0.6, "data": 0.6}
_VENDORED = 0.5
_FIRST_RANKS = 5  # ranks over which the reciprocal rank falls to a half
_PRIORS = ("changes", "neighbours")  # they say nothing about a file that nothing else speaks for


class RankedFile(NamedTuple):
    """A file, its value, and the signals behind it, the strongest first."""

    path: str
    score: float
    sources: tuple[str, ...]


# Where the files of the work are known, what lies next to them counts more.
AROUND_CHANGES = {**WEIGHTS, "neighbours": 4.0, "together": 4.0, "mentions": 0.5, "changes": 0.1}


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
