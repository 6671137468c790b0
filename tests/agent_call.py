"""A call of an agent on a real workspace, in a real box, for what is told of backends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from fileops_workspace import Place
from reflectloop.agents.backend import AgentLimits, AgentRequest
from reflectloop.terms import Role


class Verdict(BaseModel):
    """A shape that an answer must have."""

    model_config = ConfigDict(extra="forbid")

    verdict: str
    reason: str


def asking(place: Place, tmp_path: Path, role: Role = Role.EXECUTOR, **more: Any) -> AgentRequest:
    """As the flow asks: a box that is read-only for who only looks, a HOME of the agent's own, hands for executors."""
    home = tmp_path / "agent"
    home.mkdir(exist_ok=True)
    said = {
        "prompt": "Do it.",
        "box": place.hands.box.for_agent(home, read_only=role.looks_only),
        "folder": tmp_path / "agent-logs",
        "bounds": AgentLimits(5, 60.0),
        "act": None if role.looks_only else lambda ops: place.ask(*ops),
    }
    return AgentRequest(role, **{**said, **more})


def python(place: Place, name: str, text: str) -> tuple[str, ...]:
    """A program of the project's own, written in Python, as words to start it with."""
    (place.repo / name).write_text(text)
    return (os.path.realpath(sys.executable), name)
