"""Go: every module is built, vetted and tested."""

from __future__ import annotations

from collections.abc import Iterator

from reflectloop.verification.detect.part import ProjectPart
from reflectloop.verification.result import DetectedCheck

MANIFESTS = (r"^go\.mod$",)


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    if not part.first(["go.mod"]):
        return
    yield part.check("go-build", "build", "go-build", ("go", "build", "./..."), "go.mod exists")
    yield part.check("go-vet", "lint", "go-vet", ("go", "vet", "./..."), "go.mod exists")
    tested = next(part.matching(r"_test\.go$"), None)
    if tested:
        yield part.check("go-test", "test", "go-test", ("go", "test", "./..."), f"{tested} has tests")


def covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    """Return False: a Go module ends where another begins."""
    return False
