"""Parts of the proof that were played, kept as files, so that a page is written of parts played on the same code."""

from __future__ import annotations

import ast
import hashlib
import json
import platform
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from proof.paper import ROOT
from proof.walls.rows import Row

# Packages that no attempt reaches. The program is played without them: an attempt that needs one ends the proof.
ASIDE = ("api.py", "autoloop", "demo", "mcp")
# The files of this proof that one part alone uses; all others count for every part.
_OWN = {
    "inside": ("inside", "outside", "runner"),
    "settings": ("settings",),
    "judged": ("judged",),
    "repository": ("repository",),
    "agents": ("spoken", "speaker"),
    "bounds": ("bounds",),
    "fuzz": ("fuzzing",),
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _meaning(path: Path) -> bytes:
    """Return what a file does: of a module its syntax without comments and docstrings, else its bytes."""
    if path.suffix != ".py":
        return path.read_bytes()
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree).encode()


def _files(top: Path) -> Iterator[Path]:
    return (path for path in sorted(top.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)


@cache
def _program(root: Path) -> bytes:
    """Return a hash of the program as it is played, of the packages it needs, and of the kernel."""
    digest = hashlib.sha256(platform.release().encode() + (root / "requirements/dev.txt").read_bytes())
    package = root / "src/reflectloop"
    for path in _files(package):
        if path.relative_to(package).parts[0] not in ASIDE:
            digest.update(f"{path.relative_to(root)}\0".encode() + _meaning(path) + b"\0")
    return digest.digest()


def code_id(unit: str, root: Path = ROOT) -> str:
    """Return a hash of the program and of what plays a unit; text for people, and other parts, do not count."""
    part = unit.partition(":")[0]
    others = tuple(stem for name, stems in _OWN.items() if name != part for stem in stems)
    digest = hashlib.sha256(_program(root))
    for path in _files(root / "proof/walls"):
        if not path.stem.startswith(others):
            digest.update(f"{path.relative_to(root)}\0".encode() + _meaning(path) + b"\0")
    return digest.hexdigest()[:12]


def program_id() -> str:
    return _program(ROOT).hex()[:12]


class Records(NamedTuple):
    """A folder with a file for each unit: a part, or a door of `inside`."""

    folder: Path

    def _path(self, unit: str) -> Path:
        return self.folder / f"{unit.replace(':', '-').replace(' ', '-')}.json"

    def write(self, unit: str, code: str, rows: Sequence[Row], seconds: float) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        body = {"unit": unit, "code": code, "seconds": round(seconds), "rows": rows}
        self._path(unit).write_text(json.dumps(body, indent=1))

    def read(self, unit: str) -> list[Row] | None:
        """Return the rows of a unit; None if it was not played on this code."""
        if not self._path(unit).is_file():
            return None
        body = json.loads(self._path(unit).read_text())
        return [Row(*row) for row in body["rows"]] if body["code"] == code_id(unit) else None
