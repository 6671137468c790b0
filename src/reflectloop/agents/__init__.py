"""Agents that plan, execute, review and reflect: one backend for each kind. Their answers are claims."""

from reflectloop.agents.backend import Act, AgentLimits, AgentRequest, Backend, Probe, Reply, TokenUsage
from reflectloop.agents.registry import bind

__all__ = ["Act", "AgentLimits", "AgentRequest", "Backend", "Probe", "Reply", "TokenUsage", "bind"]
