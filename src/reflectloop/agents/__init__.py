"""Agents that plan, execute, review and reflect: how each is asked, and what came of it. The engine decides."""

from reflectloop.agents.backend import Act, AgentLimits, AgentRequest, Backend, Probe, Reply, TokenUsage
from reflectloop.agents.registry import bind

__all__ = ["Act", "AgentLimits", "AgentRequest", "Backend", "Probe", "Reply", "TokenUsage", "bind"]
