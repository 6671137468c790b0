"""Detect the checks of a project from its files, and the executable for each."""

from reflectloop.verification.detect.project import checks, configured, known_checks
from reflectloop.verification.detect.resolve import beside, contains_file, installed_sites, resolve
from reflectloop.verification.tools.project import ProjectFiles

__all__ = [
    "ProjectFiles",
    "beside",
    "checks",
    "configured",
    "contains_file",
    "installed_sites",
    "known_checks",
    "resolve",
]
