"""The brief: what an agent who remembers nothing needs to continue a task, from state alone."""

from reflectloop.engine.brief.briefing import DEFAULT_TOKENS, collect, text
from reflectloop.engine.brief.code import CodeQuery, CodeSource
from reflectloop.engine.brief.sizes import LEAST_TOKENS

__all__ = ["DEFAULT_TOKENS", "LEAST_TOKENS", "CodeQuery", "CodeSource", "collect", "text"]
