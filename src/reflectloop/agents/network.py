"""Decides what an agent's program can connect to: its model's address, and nothing else unless the user allows it."""

from __future__ import annotations

from collections.abc import Sequence

from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable
from reflectloop.sandbox import network_forward
from reflectloop.sandbox.network_forward import Forward
from reflectloop.terms import AgentNetwork


def network_mode(agent: AgentConfig, maker: Sequence[str] = ()) -> AgentNetwork:
    """Return the mode from the settings; by default MODEL if an address is known, else NONE."""
    if agent.network is not None:
        return agent.network
    return AgentNetwork.MODEL if maker or agent.base_url or agent.reach else AgentNetwork.NONE


def forward_for(name: str, agent: AgentConfig, maker: Sequence[str] = ()) -> Forward | None:
    """Return the addresses that the agent's program can reach, or None for the machine's network.

    `maker` lists the provider's hosts, used if the settings have no `base_url`.
    """
    mode = network_mode(agent, maker)
    if mode is AgentNetwork.HOST:
        return None
    if mode is AgentNetwork.NONE:
        return Forward()
    addresses = (agent.base_url,) if agent.base_url else tuple(maker)
    if not addresses and not agent.reach:
        raise AgentUnavailable(
            f"agent {name} may reach its model, but the settings do not name its address",
            next_step=f"set base_url under [agents.{name}]",
        )
    try:
        return Forward(
            tuple(dict.fromkeys(network_forward.parse_address(address) for address in (*addresses, *agent.reach)))
        )
    except ValueError as fault:
        raise AgentUnavailable(
            f"agent {name}: {fault}", next_step=f"correct base_url or reach under [agents.{name}]"
        ) from fault


def hint(name: str, agent: AgentConfig) -> str:
    """Return a hint for a program that failed without network, or "" if the settings chose the network."""
    if agent.network is not None or network_mode(agent) is not AgentNetwork.NONE:
        return ""
    return f"it has no network unless [agents.{name}] names its model's base_url"
