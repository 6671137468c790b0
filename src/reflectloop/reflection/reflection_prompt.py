"""The prompt by which whoever made an output is asked to reflect on a ticket and to repair the output; pure."""

from __future__ import annotations

import json
from pathlib import Path

from reflectloop import languages
from reflectloop.reflection.ticket import Ticket

STEPS = (
    "Explore - look at the present output",
    "Reflect - find out why it deviates",
    "Classify - decide the class of the error (3.3.1-3.3.5)",
    "Plan - make a plan of repair",
    "Execute - carry the repair out",
    "Submit - hand in the reflection report and the revised output",
)


def reflection_required(ticket: Ticket, output: str = "") -> str:
    """Return the protocol's prompt for a ticket; `output` is the file of the revised output."""
    score = "none" if ticket.quality_score is None else f"{ticket.quality_score:g}"
    issues = [issue.model_dump(mode="json") for issue in ticket.issues]
    lines = [
        "REFLECTION REQUIRED",
        "",
        f"REWIND TICKET: {ticket.ticket_id}",
        f"VERDICT: {ticket.verdict}",
        f"QUALITY SCORE: {score}",
        "",
        "ISSUES IDENTIFIED:",
        json.dumps(issues, indent=2, ensure_ascii=False),
        "",
        "REPAIR PLAN:",
        *ticket.repair_plan,
        "",
        "Follow the reflection protocol:",
        *(f"{number}. {step}" for number, step in enumerate(STEPS, 1)),
        "",
        "OUTPUT FILES:",
        f"- reflection_{ticket.ticket_id}.json",
        *([f"- {output}"] if output else []),
    ]
    return languages.document("\n".join(lines) + "\n")


def revised_name(target: str | None) -> str:
    """Return the name of the revised output of a target, with the protocol's `_v2`."""
    path = Path(target or "")
    return str(path.with_name(f"{path.stem}_v2{path.suffix}")) if path.name else ""
