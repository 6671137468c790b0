"""The retention gate (识): select the anchors worth keeping, and render them as pages. The engine stores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reflectloop.gates.insight import Anchor, Insight
from reflectloop.lessons.merge import OFTEN

_NAMES = {"D": "Decisions", "C": "Constraints", "I": "Interfaces", "P": "Problems", "M": "Patterns"}


class RetainedAnchor(NamedTuple):
    """An anchor with its permanent id, and the reason it is kept."""

    id: str
    anchor: Anchor
    occurrences: int
    why: str


class RetentionResult(NamedTuple):
    retained: tuple[RetainedAnchor, ...]
    waiting: tuple[Anchor, ...]  # counted, but not kept yet


def reason_to_keep(anchor: Anchor, occurrences: int) -> str:
    """Return why an anchor passes the threshold; empty if it does not."""
    if occurrences >= OFTEN:
        return f"seen {occurrences} times"
    if anchor.impact:
        return "large impact"
    return "reusable" if anchor.reusable else ""


def select_anchors(anchors: Sequence[Anchor], counts: Mapping[str, int], known: Mapping[str, str]) -> RetentionResult:
    """Split anchors into those to keep and those still waiting.

    `counts` maps an anchor's signature to its earlier occurrences, `known` to the id it already has.
    """
    retained, waiting = [], []
    ids = list(known.values())
    for anchor in dict.fromkeys(anchors):
        occurrences = counts.get(anchor.signature, 0) + 1
        why = reason_to_keep(anchor, occurrences)
        if not why:
            waiting.append(anchor)
            continue
        name = known.get(anchor.signature) or next_id(anchor.kind, ids)
        ids.append(name)
        retained.append(RetainedAnchor(name, anchor, occurrences, why))
    return RetentionResult(tuple(retained), tuple(waiting))


def next_id(kind: str, ids: Sequence[str]) -> str:
    taken = [int(name[1:]) for name in ids if name.startswith(kind) and name[1:].isdigit()]
    return f"{kind}{max(taken, default=0) + 1:03d}"


def anchors_page(anchors: Sequence[RetainedAnchor], head: str) -> str:
    lines = [head, "# Anchors", ""]
    for kind, title in _NAMES.items():
        group = [retained for retained in anchors if retained.anchor.kind == kind]
        if group:
            lines += [
                f"## {title}",
                "",
                *(f"- **{retained.id}** {_line(retained.anchor.text)} ({retained.why})" for retained in group),
                "",
            ]
    return "\n".join(lines) + ("" if anchors else "Nothing was worth keeping yet.\n")


def compact_page(
    title: str, facts: Mapping[str, str], insight: Insight | None, anchors: Sequence[RetainedAnchor], head: str
) -> str:
    """Return the one-page summary for somebody who returns to the task."""
    lines = [
        head,
        f"# {_line(title)}",
        "",
        *(f"- **{name}**: {_line(value)}" for name, value in facts.items() if value),
    ]
    if insight:
        lines += ["", *(f"- {_line(text)}" for text in insight.feedback)]
    lines += [f"- anchor [{retained.id}] {_line(retained.anchor.text)}" for retained in anchors]
    return "\n".join([*lines, ""])


def _line(text: str) -> str:
    return " ".join(text.split()).replace("<!--", "<! --")
