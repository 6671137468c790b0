"""Finds the backend of an agent by its name in the settings; a kind is imported only when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from reflectloop.agents import prices
from reflectloop.agents.backend import Backend
from reflectloop.config import Config
from reflectloop.errors import AgentUnavailable
from reflectloop.terms import install_extra


def bind(name: str, settings: Config, caller: Mapping[str, str], root: Path = Path()) -> Backend:
    """Create an agent's backend with `make(name, agent, caller)` of its module. Paths are relative to `root`."""
    prices.use(prices.load_prices(settings.cost, root))
    agent = settings.agent(name)
    if agent.file:
        agent = agent.model_copy(update={"file": root / agent.file})
    try:
        module = importlib.import_module(f"reflectloop.agents.{agent.kind}")
    except ModuleNotFoundError as fault:
        raise AgentUnavailable(
            f"agent {name} ({agent.kind}) needs {fault.name}, which is not installed",
            next_step=install_extra(str(agent.kind)),
            missing=(f"package:{fault.name}",),
        ) from fault
    return cast("Backend", module.make(name, agent, caller))
