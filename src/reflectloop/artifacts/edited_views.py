"""Find generated files that somebody edited by hand; the journal decides, so an edit has no effect."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from reflectloop.state import snapshot
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.generated_files import LOG, TODO

PUBLISHED = "published.json"  # digests of the files at the top of the project


def edited_at_top(folders: Folders) -> list[str]:
    """Return a warning that names the published files which somebody edited at the top of the project."""
    try:
        digests = json.loads((folders.own / PUBLISHED).read_bytes())
    except (OSError, ValueError):
        return []
    pairs = digests.items() if isinstance(digests, dict) else ()
    names = [name for name, digest in pairs if _digest_of(folders.root / name) not in (None, digest)]
    if not names:
        return []
    were = "were" if len(names) > 1 else "was"
    listed = ", ".join(names)
    return [f"{listed} at the top of the project {were} edited by hand; the edit has no effect: the journal decides"]


def edited(folder: Path) -> list[str]:
    """Return a warning that names the generated files which somebody edited; empty if nobody did."""
    # Twice: an engine may have refreshed the files between our two reads.
    if not _changed(folder) or not (names := _changed(folder)):
        return []
    were = "were" if len(names) > 1 else "was"
    return [
        f"{', '.join(names)} of {folder.name} {were} edited by hand; the edit has no effect and will be overwritten"
    ]


def _changed(folder: Path) -> list[str]:
    # The views before their digests, so that a refresh in between is not taken for an edit.
    digests = {name: _digest_of(folder / name) for name in (TODO, LOG)}
    wanted = snapshot.views(folder)
    if wanted is None:
        return [snapshot.NAME]
    return [name for name, digest in digests.items() if digest and name in wanted and digest not in wanted[name]]


def _digest_of(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
    except OSError:
        return None
