""".NET: the solution, or each project that belongs to none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reflectloop.verification.detect.part import ProjectPart
from reflectloop.verification.result import DetectedCheck

MANIFESTS = (r"\.slnx?$", r"\.(cs|fs|vb)proj$")
_TEST_PROJECT = re.compile(r"Microsoft\.NET\.Test\.Sdk|\b(xunit|NUnit|MSTest)\b|<IsTestProject>\s*true", re.IGNORECASE)


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    project_file = next(part.matching(r"^[^/]+\.slnx?$"), None) or next(part.matching(r"^[^/]+\.(cs|fs|vb)proj$"), None)
    if project_file is None:
        return
    yield part.check("dotnet-build", "build", "dotnet-build", ("dotnet", "build"), f"{project_file} exists")
    projects = part.matching(r"\.(cs|fs|vb)proj$")
    test_project = next((path for path in projects if _TEST_PROJECT.search(part.text(path))), None)
    if test_project:
        yield part.check("dotnet-test", "test", "dotnet-test", ("dotnet", "test"), f"{test_project} is a test project")


def covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    return True
