"""Detect the checks of a project from its files, and the executable for each."""

from reflectloop.verify.detect.configured import configured
from reflectloop.verify.detect.project import checks
from reflectloop.verify.detect.resolve import beside, resolve
from reflectloop.verify.detect.tree import ProjectFiles

__all__ = ["ProjectFiles", "beside", "checks", "configured", "resolve"]
