"""Settles what an agent's program can reach: its model's address, and nothing else unless its user says so."""

from __future__ import annotations

from collections.abc import Sequence

from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable
from reflectloop.sandbox import network_forward
from reflectloop.sandbox.network_forward import Forward
from reflectloop.terms import AgentNetwork


def settled(agent: AgentConfig, maker: Sequence[str] = ()) -> AgentNetwork:
    """Return what the settings say, else the model's address where one is known, else nothing."""
    if agent.network is not None:
        return agent.network
    return AgentNetwork.MODEL if maker or agent.base_url or agent.reach else AgentNetwork.NONE


def of(name: str, agent: AgentConfig, maker: Sequence[str] = ()) -> Forward | None:
    """Return all that its program can reach; None for the network of the machine.

    `maker` are the hosts that a program asks where the settings have no `base_url`.
    """
    mode = settled(agent, maker)
    if mode is AgentNetwork.HOST:
        return None
    if mode is AgentNetwork.NONE:
        return Forward()
    asked = (agent.base_url,) if agent.base_url else tuple(maker)
    if not asked and not agent.reach:
        raise AgentUnavailable(
            f"agent {name} may reach its model, and nothing says where that is",
            next_step=f"set base_url under [agents.{name}]",
        )
    try:
        return Forward(tuple(dict.fromkeys(network_forward.place_of(address) for address in (*asked, *agent.reach))))
    except ValueError as fault:
        raise AgentUnavailable(
            f"agent {name}: {fault}", next_step=f"correct base_url or reach under [agents.{name}]"
        ) from fault


def hint(name: str, agent: AgentConfig) -> str:
    """Return what to say of a program that failed with no network, where nobody chose that for it; else nothing."""
    if agent.network is not None or settled(agent) is not AgentNetwork.NONE:
        return ""
    return f"it has no network unless [agents.{name}] names its model's base_url"
