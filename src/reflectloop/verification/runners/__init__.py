"""Recognise the tools that check projects, ask them for a report, and make them run only some tests."""

from reflectloop.verification.runners.prepare import PreparedCommand, prepare, selection
from reflectloop.verification.runners.scripts import recognise
from reflectloop.verification.runners.tools import TOOLS, RunnerTool

__all__ = ["TOOLS", "PreparedCommand", "RunnerTool", "prepare", "recognise", "selection"]
