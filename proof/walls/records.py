"""Parts of the proof that were played, kept as files, so that a page is written of parts played on the same code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from proof.paper import ROOT
from proof.walls.rows import Row


def code_id() -> str:
    """Return a hash of the program and of this proof."""
    digest = hashlib.sha256()
    for top in ("src", "proof/walls"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


class Records(NamedTuple):
    """A folder with a file for each unit: a part, or a door of `inside`."""

    folder: Path
    code: str

    def _path(self, unit: str) -> Path:
        return self.folder / f"{unit.replace(':', '-').replace(' ', '-')}.json"

    def write(self, unit: str, rows: Sequence[Row], seconds: float) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        body = {"unit": unit, "code": self.code, "seconds": round(seconds), "rows": rows}
        self._path(unit).write_text(json.dumps(body, indent=1))

    def read(self, unit: str) -> list[Row] | None:
        """Return the rows of a unit; None if it was not played on this code."""
        if not self._path(unit).is_file():
            return None
        body = json.loads(self._path(unit).read_text())
        return [Row(*row) for row in body["rows"]] if body["code"] == self.code else None
