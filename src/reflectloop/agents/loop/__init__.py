"""The built-in loop: the model talks, the engine acts, and breakers end what leads nowhere."""

from reflectloop.agents.loop.states import LoopEnd, LoopState

__all__ = ["LoopEnd", "LoopState"]
