"""The built-in agent loop: the model calls tools, the engine executes them, and limits end a loop without progress."""

from reflectloop.agents.loop.states import LoopEnd, LoopState

__all__ = ["LoopEnd", "LoopState"]
