"""The test target of a Makefile, used if nothing more specific is detected."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reflectloop.verification.detect.part import ProjectPart
from reflectloop.verification.result import DetectedCheck

_FILES = ("GNUmakefile", "makefile", "Makefile")
_SOURCES = r"\.(c|cc|cpp|cxx|h|hpp|f90|s|S)$"


def found(part: ProjectPart) -> Iterator[DetectedCheck]:
    name = part.first(_FILES)
    if name is None:
        return
    targets = set(re.findall(r"^([\w.-]+)\s*:(?!=)", part.text(name), re.MULTILINE))
    if any(part.matching(_SOURCES)):
        yield part.check("make", "build", "make", ("make",), f"{name} exists, and sources to compile")
    target = next((target for target in ("check", "test", "tests") if target in targets), None)
    if target:
        yield part.check(f"make-{target}", "test", "make", ("make", target), f"{name} has the target {target}")
