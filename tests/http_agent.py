"""Hands for the stories of agents: a call of one in a real workspace, with a model that says what a script says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from fileops_workspace import Place
from model import Line, Model
from reflectloop.agents.backend import Act, AgentLimits, AgentRequest, Reply
from reflectloop.agents.http import Http
from reflectloop.agents.loop.engine import AGAIN
from reflectloop.config import AgentConfig
from reflectloop.fileops.response import Response
from reflectloop.terms import Role

KEY = "key-" + "zq7" * 9  # looks like nobody's
QUICK = AGAIN.model_copy(update={"delay_s": 0.01, "most_s": 0.02})


class Verdict(BaseModel):
    """A shape to answer in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verdict: str
    score: int


def hands(place: Place) -> Act:
    """Ops through FileOps on the real workspace, as the flow does it."""

    def act(ops: Sequence[Mapping[str, Any]]) -> Response:
        return place.ask(*(dict(one) for one in ops), report={"commandOutputs": "always"})

    return act


def asking(place: Place, folder: Path, **more: Any) -> AgentRequest:
    bounds = AgentLimits(
        more.pop("turns", 20), more.pop("timeout_s", 60.0), more.pop("tokens", None), more.pop("usd", None)
    )
    said: dict[str, Any] = {"role": Role.EXECUTOR, "prompt": "Do the step."}
    return AgentRequest(**{**said, **more}, box=place.hands.box, folder=folder, bounds=bounds)


def backend(url: str, *, caller: Mapping[str, str] | None = None, **more: Any) -> Http:
    agent = AgentConfig(kind="http", base_url=url, **{"model": "claude-sonnet-4-5", **more})
    return Http("here", agent, {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY} if caller is None else caller, QUICK)


def told(script: Iterable[Line], ask: AgentRequest, **agent: Any) -> tuple[Reply, Model]:
    """What an agent with that script comes to, and what its model was asked."""
    with Model(script) as model:
        return backend(model.url, **agent).run(ask), model
