"""Java and Kotlin: Maven or Gradle, with the project's wrapper if it has one."""

from __future__ import annotations

from collections.abc import Iterator

from reflectloop.verification.detect.part import ProjectPart
from reflectloop.verification.result import DetectedCheck

MANIFESTS = (r"^pom\.xml$", r"^(build|settings)\.gradle(\.kts)?$")
_TESTS = r"(^|/)src/(\w*[tT]est)/.+\.(java|kt|groovy|scala)$"
_GRADLE = ("settings.gradle", "settings.gradle.kts", "build.gradle", "build.gradle.kts")


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    tool, program, build_file = _tool(part)
    if build_file is None:
        return
    tested = next(part.matching(_TESTS), None)
    if tested:
        yield part.check(tool, "test", tool, (program, "test"), f"{build_file} exists, and {tested}")
    else:
        goal = "compile" if tool == "maven" else "assemble"
        yield part.check(f"{tool}-build", "build", tool, (program, goal), f"{build_file} exists")


def covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    """Return True: the top-level build runs its modules' tests."""
    return True


def _tool(part: ProjectPart) -> tuple[str, str, str | None]:
    if part.first(["pom.xml"]):
        return "maven", _wrapper(part, "mvnw", "mvn"), "pom.xml"
    return "gradle", _wrapper(part, "gradlew", "gradle"), part.first(_GRADLE)


def _wrapper(part: ProjectPart, name: str, otherwise: str) -> str:
    return f"./{name}" if part.first([name]) else otherwise
