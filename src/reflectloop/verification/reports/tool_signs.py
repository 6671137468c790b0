"""Recognise tools by name or by their output."""

from __future__ import annotations

import re
from functools import cache

from reflectloop.verification.result import Kind
from reflectloop.verification.tools.registry import tools

_SAMPLE, _WIDTH = 1000, 400  # lines from each end, and characters of each
# Lines that say that there are no findings, of no tool in particular.
_CLEAN = r"0 issues\.|Found 0 errors.*|Found no issues\.?"


@cache
def _kinds() -> dict[str, Kind]:
    return {name: kind for tool in tools() for kind, names in tool.output.kinds for name in names.split()}


def kind_of(tool: str) -> Kind:
    return _kinds().get(tool, "lint")


def sample(lines: list[str]) -> str:
    """Return enough of a log to recognise the tool that wrote it."""
    some = lines if len(lines) <= 2 * _SAMPLE else lines[:_SAMPLE] + lines[-_SAMPLE:]
    return "\n".join(line[:_WIDTH] for line in some)


def recognise(some: str) -> str | None:
    signs = ((tool.name, tool.output.signs) for tool in tools() if tool.output.signs)
    return next((name for name, sign in signs if re.search(sign, some, re.MULTILINE)), None)


def says_clean(some: str) -> bool:
    lines = "|".join([_CLEAN, *(tool.output.clean for tool in tools() if tool.output.clean)])
    return bool(re.search(f"^(?:{lines})$", some, re.MULTILINE))
