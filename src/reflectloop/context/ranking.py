"""Add up the signals of a question, and choose the functions of the best files. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reflectloop.context import filekinds
from reflectloop.context.signals import Scores

# Measured on the tuning half of SWE-bench Lite by `make proof-context`; docs/context.md says what each is.
WEIGHTS: Mapping[str, float] = {
    "words": 1.3,
    "title": 1.0,
    "functions": 3.0,
    "function": 1.2,
    "title_functions": 2.4,
    "title_function": 0.0,
    "definitions": 0.3,
    "symbols": 1.1,
    "names": 0.5,
    "mentions": 2.5,
    "frames": 1.5,
    "path": 0.5,
    "title_path": 0.5,
    "history": 0.4,
    "title_history": 0.2,
    "changes": 0.3,
    "neighbours": 0.5,
    "together": 1.0,
    "runs": 0.5,
}
# Code before what describes, tests or configures it.
_KINDS: Mapping[filekinds.FileKind, float] = {"code": 1.0, "test": 0.6, "docs": 0.6, "data": 0.6}
_VENDORED = 0.5
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
        for path, value in values.items():
            if weight and value > 0:
                parts[path].append((weight * value, name))
    whole = sum(weights.values())
    priors = _PRIORS if weights is WEIGHTS else _PRIORS[:1]
    rated = [
        RankedFile(path, sum(value for value, _ in some) * _factor(path) / whole, _strongest(some))
        for path, some in parts.items()
        if any(name not in priors for _, name in some)
    ]
    return sorted(rated, key=lambda file: (-file.score, file.path))


def _factor(path: str) -> float:
    return _KINDS[filekinds.kind_of(path)] * (_VENDORED if filekinds.is_vendored(path) else 1)


def _strongest(parts: Iterable[tuple[float, str]]) -> tuple[str, ...]:
    ordered = sorted(parts, key=lambda part: (-part[0], part[1]))
    least = ordered[0][0] * 0.2
    return tuple(name for value, name in ordered if value >= least)
