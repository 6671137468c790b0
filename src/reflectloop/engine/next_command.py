"""The command that goes on with a run which came to no end: said in many places, decided here."""

from __future__ import annotations

from reflectloop.state import events
from reflectloop.state.fold import RunState

MADE_BY = "tp"  # as the journal says it of a task
RESUME = "reflectloop resume"
BY_AGENTS = "reflectloop tr --all"
BY_REQUESTS = "reflectloop fileops REQUEST.json"


def by_agents(run: RunState) -> bool:
    """Whether `tp` planned it: `tr` then goes on with it."""
    return run.mode == events.BY_REQUESTS and run.objective.get("made_by") == MADE_BY


def command(run: RunState) -> str:
    if run.mode != events.BY_REQUESTS:
        return RESUME
    left = next((step for step in run.steps.values() if step.status not in ("done", "skipped")), None)
    if left and left.status == "blocked":
        return f"reflectloop answer {left.id} TEXT"
    if by_agents(run):
        return BY_AGENTS
    return BY_REQUESTS if left else RESUME
