"""Which checks a project has, told from its files alone, and which executable each would be run with."""

from reflectloop.verify.detect.configured import configured
from reflectloop.verify.detect.project import checks
from reflectloop.verify.detect.resolve import beside, resolve
from reflectloop.verify.detect.tree import Tree

__all__ = ["Tree", "beside", "checks", "configured", "resolve"]
