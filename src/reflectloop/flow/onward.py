"""The command that goes on with a run which came to no end: said in many places, decided here."""

from __future__ import annotations

from reflectloop.state import events
from reflectloop.state.fold import Run

RESUME = "reflectloop resume"
BY_AGENTS = "reflectloop tr --all"
BY_REQUESTS = "reflectloop fileops REQUEST.json"


def by_agents(run: Run) -> bool:
    """Whether `tp` planned it, which always says by what the whole is judged."""
    return run.mode == events.BY_REQUESTS and isinstance(run.objective.get("contract"), dict)


def command(run: Run) -> str:
    if run.mode != events.BY_REQUESTS:
        return RESUME
    left = next((step for step in run.steps.values() if step.status not in ("done", "skipped")), None)
    if left and left.status == "blocked":
        return f"reflectloop answer {left.id} TEXT"
    if by_agents(run):
        return BY_AGENTS
    return BY_REQUESTS if left else RESUME
