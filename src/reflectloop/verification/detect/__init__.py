"""Detect the checks of a project from its files, and the executable for each."""

from reflectloop.verification.detect.configured import configured
from reflectloop.verification.detect.project import checks
from reflectloop.verification.detect.resolve import beside, resolve
from reflectloop.verification.detect.tree import ProjectFiles

__all__ = ["ProjectFiles", "beside", "checks", "configured", "resolve"]
