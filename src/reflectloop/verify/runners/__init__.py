"""Recognise the tools that check projects, ask them for a report, and make them run only some tests."""

from reflectloop.verify.runners.prepare import Prepared, prepare, selection
from reflectloop.verify.runners.scripts import recognise
from reflectloop.verify.runners.tools import TOOLS, Tool

__all__ = ["TOOLS", "Prepared", "Tool", "prepare", "recognise", "selection"]
