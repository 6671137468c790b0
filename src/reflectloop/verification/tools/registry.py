"""Find the records of all tools; nothing else imports them."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path

from reflectloop.verification.tools.record import Tool

_RECORDS = "records"  # every module of this package has a tuple TOOLS


@cache
def tools() -> tuple[Tool, ...]:
    """Return every known tool; those with a higher precedence come first."""
    folder = Path(__file__).with_name(_RECORDS)
    modules = [import_module(f"{__package__}.{_RECORDS}.{module.name}") for module in pkgutil.iter_modules([folder])]
    known = [tool for module in modules for tool in module.TOOLS]
    return tuple(sorted(known, key=lambda tool: (-tool.precedence, tool.name)))


@cache
def by_name() -> dict[str, Tool]:
    return {tool.name: tool for tool in tools()}


def runnable(name: str) -> Tool | None:
    """Return the tool if it can be run for a report, or None."""
    tool = by_name().get(name)
    return tool if tool and tool.run else None
