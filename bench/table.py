"""The rows of the benchmark table, and how they read on a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

HEAD = ("what", "ours", "peer", "ratio", "floor", "bar", "met?")
_NONE = "-"


class Measure(NamedTuple):
    """A number with the name of what it was taken of."""

    name: str
    value: float
    unit: str = "s"

    def __str__(self) -> str:
        return f"{self.name} {amount(self)}".strip()


class Row(NamedTuple):
    """One comparison; the ratio is ours to the peer, or to the floor where there is no peer."""

    what: str
    ours: Measure
    peer: Measure | None = None
    floor: Measure | None = None
    limit: float | None = None  # the bar: the greatest ratio allowed

    @property
    def ratio(self) -> float | None:
        against = self.peer or self.floor
        return self.ours.value / against.value if against else None

    @property
    def met(self) -> bool | None:
        return None if self.limit is None or self.ratio is None else self.ratio <= self.limit

    def cells(self) -> tuple[str, ...]:
        ratio = _NONE if self.ratio is None else f"{_short(self.ratio)}x {'peer' if self.peer else 'floor'}"
        bar = _NONE if self.limit is None else f"<= {self.limit:g}x"
        met = {None: _NONE, True: "yes", False: "MISSED"}[self.met]
        peer, floor = (str(one) if one else _NONE for one in (self.peer, self.floor))
        return (self.what, amount(self.ours), peer, ratio, floor, bar, met)


class Section(NamedTuple):
    """What one group measured, with what a reader must know to judge it."""

    name: str
    notes: Sequence[str]
    rows: Sequence[Row]


def amount(measure: Measure) -> str:
    if measure.unit != "s":
        return f"{measure.value:,.1f} {measure.unit}"
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if measure.value >= scale:
            return f"{measure.value / scale:.{2 if measure.value < 10 * scale else 1}f} {unit}"
    return f"{measure.value * 1e6:.0f} µs"


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.4f}"


def plain(section: Section) -> str:
    lines = [HEAD, *(row.cells() for row in section.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([f"== {section.name}", *body])


def markdown(section: Section) -> str:
    lines = [HEAD, ("---",) * len(HEAD), *(row.cells() for row in section.rows)]
    body = ["| " + " | ".join(line) + " |" for line in lines]
    notes = [f"- {note}" for note in section.notes]
    return "\n".join([f"## {section.name}", "", *notes, "", *body, ""])


def verdict(sections: Sequence[Section]) -> str:
    judged = [row for section in sections for row in section.rows if row.met is not None]
    missed = [row for row in judged if not row.met]
    return f"{len(judged) - len(missed)} of {len(judged)} bars met, {len(missed)} missed"
