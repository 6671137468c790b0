"""How the tools that check projects are recognised, asked for a report, and told to run only some tests."""

from reflectloop.verify.runners.prepare import Prepared, prepare, selection
from reflectloop.verify.runners.scripts import recognise
from reflectloop.verify.runners.tools import TOOLS, Tool

__all__ = ["TOOLS", "Prepared", "Tool", "prepare", "recognise", "selection"]
