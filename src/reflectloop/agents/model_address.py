"""Where a model's server may be, and whether a key may be sent there."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse(name: str, agent: AgentConfig) -> None:
    """A key goes without encryption only where the settings name it, so that it is meant."""
    if agent.base_url is None:
        return
    url = urlsplit(agent.base_url)
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password:
        raise AgentUnavailable(
            f"agent {name}: base_url is no http address without a user", next_step=f"correct [agents.{name}] base_url"
        )
    if url.scheme == "http" and not is_loopback(agent.base_url) and not agent.key_env:
        raise AgentUnavailable(
            f"agent {name}: its key would be sent without encryption",
            next_step="use https, or name the variable in key_env if that is meant",
        )
