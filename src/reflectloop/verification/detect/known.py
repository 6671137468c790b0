"""The checks that judge a project: those that its settings name, else those that are detected."""

from __future__ import annotations

from reflectloop.config import Config, ConfiguredCheck
from reflectloop.verification.detect.project import checks, configured
from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools.project import ProjectFiles


def known_checks(settings: Config, tree: ProjectFiles) -> list[DetectedCheck]:
    """Return the project's checks: those its settings name, else those that are found.

    Their executables are chosen when they run, after the set-up.
    """
    named = [_named(check, tree) for check in settings.verify.checks]
    return named or checks(tree)


def _named(check: ConfiguredCheck, tree: ProjectFiles) -> DetectedCheck:
    """Return a check of the settings; without a kind it has its tool's, and an unknown command must show tests."""
    named = configured(tree, check.name, check.run, check.kind, check.cwd)._replace(service=check.service)
    return named._replace(kind="test") if check.kind is None and named.kind == "custom" else named
