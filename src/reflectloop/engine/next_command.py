"""The command that goes on with a run which came to no end: said in many places, decided here."""

from __future__ import annotations

from reflectloop.state.fold import RunState, TaskKind

RESUME = "reflectloop resume"
BY_AGENTS = "reflectloop tr --all"
BY_REQUESTS = "reflectloop fileops REQUEST.json"


def command(run: RunState) -> str:
    """Return the command that continues a run which has not ended."""
    if not run.kind.is_stepwise:
        return RESUME
    left = next(iter(run.unfinished_steps), None)
    if left and left.status == "blocked":
        return f"reflectloop answer {left.id} TEXT"
    if run.kind is TaskKind.AGENTS:
        return BY_AGENTS
    return BY_REQUESTS if left else RESUME
