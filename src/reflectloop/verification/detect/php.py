"""PHP: phpunit."""

from __future__ import annotations

from collections.abc import Iterator

from reflectloop.verification.detect.part import ProjectPart, at
from reflectloop.verification.result import DetectedCheck

MANIFESTS = (r"^composer\.json$", r"^phpunit\.xml(\.dist)?$")


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    name = part.first(["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"])
    if name:
        yield part.check("phpunit", "test", "phpunit", ("phpunit",), f"{name} exists")
    elif at(part.json("composer.json"), "require-dev", "phpunit/phpunit") and part.has_folder("tests"):
        yield part.check("phpunit", "test", "phpunit", ("phpunit", "tests"), "composer.json requires phpunit")


def covers(part: ProjectPart, folder: str) -> bool:  # noqa: ARG001
    return False
