"""Know the tools that check projects: one record for each, and the commands that run them for a report."""

from reflectloop.verification.tools.commands import recognise
from reflectloop.verification.tools.prepare import PreparedCommand, collects, prepare, selection
from reflectloop.verification.tools.registry import by_name, tools

__all__ = ["PreparedCommand", "by_name", "collects", "prepare", "recognise", "selection", "tools"]
