"""Checks the address of a model's server, and that a key may be sent there."""

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


def check_address(name: str, agent: AgentConfig) -> None:
    """Raise if base_url is invalid, or if a key would be sent unencrypted without `key_env` in the settings."""
    if agent.base_url is None:
        return
    url = urlsplit(agent.base_url)
    if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password:
        raise AgentUnavailable(
            f"agent {name}: base_url is not an http address without a user name",
            next_step=f"correct [agents.{name}] base_url",
        )
    if url.scheme == "http" and not is_loopback(agent.base_url) and not agent.key_env:
        raise AgentUnavailable(
            f"agent {name}: its key would be sent without encryption",
            next_step="use https, or name the variable in key_env if that is intended",
        )
