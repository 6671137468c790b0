"""What a secret looks like. Patterns run on a linear-time engine; the first group is the value."""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

import re2

Grade = Literal["certain", "likely"]


class Rule(NamedTuple):
    name: str
    keywords: tuple[bytes, ...]  # text without any of these is not matched at all
    pattern: str
    grade: Grade = "certain"


RULES = (
    Rule(
        "search-api-key",
        (b"TAVILY", b"BRAVE", b"DASHSCOPE"),
        r"(?:TAVILY|BRAVE|DASHSCOPE)[^\n]*?(?:API_KEY|MCP_URL)[\"']?[ \t]*[:=][ \t]*[\"']?([^\s\"'<]{4,})",
    ),
    Rule("prefixed-token", (b"sk-", b"tvly-"), r"[:=][ \t]*[\"']?((?:tvly-|sk-)[A-Za-z0-9_-]{10,})"),
    Rule(
        "url-with-secret",
        (b"api_key=", b"token=", b"apikey="),
        r"https?://[^\s\"'<>]*[?&](?:api_key|token|apikey)=([^&\s\"'<>]{4,})",
    ),
)

# A name that stands for a value is not one.
PLACEHOLDER = re2.compile(
    rb"(?i)^(?:\$|\{|<|\[|%|\*|x{3,}|\.{3}|your[-_]|my[-_]?|example|changeme|redacted|none|null|unset|set\b|placeholder|dummy)"
)


@cache
def compiled() -> tuple[tuple[Rule, re2._Regexp], ...]:
    return tuple((rule, re2.compile(rule.pattern.encode())) for rule in RULES)
