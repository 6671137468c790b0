"""Finds the programs that the engine starts: once, by absolute path, before anything untrusted runs.

A relative entry in PATH would let a workspace replace `git` with its own program.
"""

from __future__ import annotations

import functools
import os


@functools.cache
def search_path() -> str:
    """Return the caller's PATH without relative entries."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if os.path.isabs(entry)) or os.defpath


@functools.cache
def find(name: str) -> str | None:
    return find_in(search_path(), name)


def find_in(path: str, name: str) -> str | None:
    """Return the first program of this name in the folders of a PATH, or None; loading `shutil` for it takes 2 ms."""
    candidates = (os.path.join(folder, name) for folder in path.split(os.pathsep) if path)
    return next((file for file in candidates if os.access(file, os.X_OK) and not os.path.isdir(file)), None)


def need(name: str) -> str:
    """Return the absolute path of a tool, or raise FileNotFoundError."""
    path = find(name)
    if path is None:
        raise FileNotFoundError(name)
    return path
