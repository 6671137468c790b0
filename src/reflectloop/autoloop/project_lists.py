"""Reads the list of projects that one daemon works on."""

from __future__ import annotations

from pathlib import Path

from reflectloop.errors import InvalidInput
from reflectloop.system import beneath

_LARGEST = 1 << 20


def read(path: Path) -> list[Path]:
    """Return the folders in a list: one in each line, relative to the list; empty lines and `#` are left out."""
    try:
        text = beneath.read_path(path, _LARGEST).decode("utf-8", "surrogateescape")
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="--projects FILE") from fault
    lines = [line.strip() for line in text.splitlines()]
    folders = [path.parent / Path(line).expanduser() for line in lines if line and not line.startswith("#")]
    if not folders:
        raise InvalidInput(f"{path} names no project", next_step="write the folder of a project into each line")
    for folder in folders:
        if not folder.is_dir():
            raise InvalidInput(f"{path} names {folder}, which is no folder", next_step=f"correct {path}")
    return folders
