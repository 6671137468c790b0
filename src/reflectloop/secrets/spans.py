"""Positions of secrets in a text, and the merging of those that overlap."""

from __future__ import annotations

from typing import NamedTuple, get_args

from reflectloop.secrets.rule import Grade

_GRADES = get_args(Grade)


class Span(NamedTuple):
    start: int
    end: int
    rule: str
    grade: Grade

    @property
    def weight(self) -> tuple[int, int, int, str]:
        """Return the sort key by which one of two overlapping spans wins: more certain, then longer, then earlier."""
        return (-_GRADES.index(self.grade), self.end - self.start, -self.start, self.rule)


class Cluster(NamedTuple):
    """Overlapping spans: the whole range is redacted, and the weightiest span names the rule."""

    start: int
    end: int
    chief: Span


def clusters(spans: list[Span]) -> list[Cluster]:
    out: list[Cluster] = []
    for span in sorted(spans):
        if out and span.start < out[-1].end:
            last = out[-1]
            out[-1] = Cluster(last.start, max(last.end, span.end), max(last.chief, span, key=lambda item: item.weight))
        else:
            out.append(Cluster(span.start, span.end, span))
    return out
