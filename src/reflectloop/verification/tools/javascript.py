"""Constants and detection shared by the tools for JavaScript and TypeScript."""

from __future__ import annotations

from collections.abc import Callable

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools.project import PackageScripts, ProjectPart

ENDINGS = (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx", ".vue", ".svelte", ".snap")
CODE = ("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte")
TIME = r"(?: \(?[\d.]+ ?m?s\)?)?"  # how long a test took, at the end of its line
CI = {"CI": "true"}  # only for tools that would otherwise watch files: the code under test can see it
TEST_FILE = r"(^|/)(test-[^/]+|[^/]+[._-](test|spec)|test|(__tests__|tests?)/[^/]+)(?<!\.d)\.[cm]?[jt]sx?$"


def configured(
    tool: str, pattern: str, command: tuple[str, ...]
) -> Callable[[ProjectPart, PackageScripts], DetectedCheck | None]:
    """Return the detection of a runner by its configuration file, its key in package.json, or tests that need it."""

    def find(part: ProjectPart, packed: PackageScripts) -> DetectedCheck | None:
        name = next(part.matching(pattern), None)
        if name or tool in packed.manifest or (tool in packed.needs and any(part.matching(TEST_FILE))):
            return part.check(tool, "test", tool, command, f"{name} exists" if name else f"package.json names {tool}")
        return None

    return find
