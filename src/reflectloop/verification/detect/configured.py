"""Convert a check that the user configured to the form of a detected one."""

from __future__ import annotations

from collections.abc import Sequence

from reflectloop.verification.detect.part import ProjectPart, at
from reflectloop.verification.detect.tree import ProjectFiles
from reflectloop.verification.result import DetectedCheck, Kind
from reflectloop.verification.runners import TOOLS, recognise


def configured(
    tree: ProjectFiles, name: str, run: Sequence[str], kind: Kind | None = None, cwd: str = "."
) -> DetectedCheck:
    """Return the check, with the tool recognised from the command or its package.json script; otherwise "custom"."""
    scripts = at(ProjectPart(tree, cwd).json("package.json"), "scripts")
    tool = recognise(tuple(run), scripts if isinstance(scripts, dict) else {}) or "custom"
    known = TOOLS.get(tool)
    return DetectedCheck(
        name, kind or (known.kind if known else "custom"), tool, tuple(run), cwd, "configured in reflectloop.toml"
    )
