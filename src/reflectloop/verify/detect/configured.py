"""A check the user wrote down, in the shape of one that was found."""

from __future__ import annotations

from collections.abc import Sequence

from reflectloop.verify.detect.part import Part, at
from reflectloop.verify.detect.tree import Tree
from reflectloop.verify.result import Detected, Kind
from reflectloop.verify.runners import TOOLS, recognise


def configured(tree: Tree, name: str, run: Sequence[str], kind: Kind | None = None, cwd: str = ".") -> Detected:
    """The tool is told from the command, through package.json where a script stands between; "custom" if it is not."""
    scripts = at(Part(tree, cwd).json("package.json"), "scripts")
    tool = recognise(tuple(run), scripts if isinstance(scripts, dict) else {}) or "custom"
    known = TOOLS.get(tool)
    return Detected(
        name, kind or (known.kind if known else "custom"), tool, tuple(run), cwd, "reflectloop.toml says so"
    )
