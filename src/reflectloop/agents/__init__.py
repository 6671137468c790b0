"""Agents that plan, execute, review and reflect: how each is asked, and what came of it. The engine decides."""

from reflectloop.agents.backend import Act, Asking, Backend, Bounds, Probe, Reply, Usage
from reflectloop.agents.bound import bind

__all__ = ["Act", "Asking", "Backend", "Bounds", "Probe", "Reply", "Usage", "bind"]
