"""Where secrets stand in a piece of text: which of two that overlap counts, and what is hidden."""

from __future__ import annotations

from typing import NamedTuple

from reflectloop.secrets.rule import Grade


class Span(NamedTuple):
    start: int
    end: int
    rule: str
    grade: Grade

    @property
    def weight(self) -> tuple[bool, int, int, str]:
        """The more certain one counts, then the longer, then the earlier."""
        return (self.grade == "certain", self.end - self.start, -self.start, self.rule)


class Cluster(NamedTuple):
    """Spans that overlap: all of it is hidden, the weightiest gives the name."""

    start: int
    end: int
    chief: Span


def clusters(spans: list[Span]) -> list[Cluster]:
    out: list[Cluster] = []
    for span in sorted(spans):
        if out and span.start < out[-1].end:
            last = out[-1]
            out[-1] = Cluster(last.start, max(last.end, span.end), max(last.chief, span, key=lambda one: one.weight))
        else:
            out.append(Cluster(span.start, span.end, span))
    return out
