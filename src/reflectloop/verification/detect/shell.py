"""Shell: tests written for bats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from reflectloop.verification.detect.part import ProjectPart
from reflectloop.verification.result import DetectedCheck

MANIFESTS = ()


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    tests = list(part.matching(r"\.bats$"))
    if tests:
        tops = dict.fromkeys(PurePosixPath(path).parts[0] for path in tests)
        yield part.check("bats", "test", "bats", ("bats", "--recursive", *tops), f"{tests[0]} exists")


def covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    return True
