"""识: what is worth keeping, by a threshold and a real count, and its views. Where it is kept is the flow's matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reflectloop.gates.insight import Anchor, Insight
from reflectloop.lessons.merge import OFTEN

_NAMES = {"D": "Decisions", "C": "Constraints", "I": "Interfaces", "P": "Problems", "M": "Patterns"}


class RetainedAnchor(NamedTuple):
    """An anchor with its name for good, and why it is kept."""

    id: str
    anchor: Anchor
    seen: int
    why: str


class RetentionResult(NamedTuple):
    kept: tuple[RetainedAnchor, ...]
    waiting: tuple[Anchor, ...]  # seen, and counted; not kept yet


def worth(anchor: Anchor, seen: int) -> str:
    """Why an anchor passes the threshold; empty where it does not."""
    if seen >= OFTEN:
        return f"seen {seen} times"
    if anchor.impact:
        return "large impact"
    return "reusable" if anchor.reusable else ""


def sift(found: Sequence[Anchor], counts: Mapping[str, int], known: Mapping[str, str]) -> RetentionResult:
    """`counts` says how often each was seen before, by signature; `known` which id those kept already have."""
    kept, waiting = [], []
    ids = list(known.values())
    for anchor in dict.fromkeys(found):
        seen = counts.get(anchor.signature, 0) + 1
        why = worth(anchor, seen)
        if not why:
            waiting.append(anchor)
            continue
        name = known.get(anchor.signature) or next_name(anchor.kind, ids)
        ids.append(name)
        kept.append(RetainedAnchor(name, anchor, seen, why))
    return RetentionResult(tuple(kept), tuple(waiting))


def next_name(kind: str, ids: Sequence[str]) -> str:
    taken = [int(name[1:]) for name in ids if name.startswith(kind) and name[1:].isdigit()]
    return f"{kind}{max(taken, default=0) + 1:03d}"


# Views ------------------------------------------------------------------------------------------------------------


def anchors_page(kept: Sequence[RetainedAnchor], head: str) -> str:
    lines = [head, "# Anchors", ""]
    for kind, title in _NAMES.items():
        mine = [one for one in kept if one.anchor.kind == kind]
        if mine:
            lines += [f"## {title}", "", *(f"- **{one.id}** {_line(one.anchor.text)} ({one.why})" for one in mine), ""]
    return "\n".join(lines) + ("" if kept else "Nothing was worth keeping yet.\n")


def compact_page(
    title: str, facts: Mapping[str, str], insight: Insight | None, kept: Sequence[RetainedAnchor], head: str
) -> str:
    """What somebody who comes back to the task needs, on one page."""
    lines = [
        head,
        f"# {_line(title)}",
        "",
        *(f"- **{name}**: {_line(value)}" for name, value in facts.items() if value),
    ]
    if insight:
        lines += ["", *(f"- {_line(text)}" for text in insight.feedback)]
    lines += [f"- anchor [{one.id}] {_line(one.anchor.text)}" for one in kept]
    return "\n".join([*lines, ""])


def _line(text: str) -> str:
    return " ".join(text.split()).replace("<!--", "<! --")
