"""Finds the programs that the engine starts: once, by absolute path, before anything untrusted runs.

A relative entry in PATH would let a workspace replace `git` with its own program.
"""

from __future__ import annotations

import functools
import os
import shutil


@functools.cache
def search_path() -> str:
    """Return the caller's PATH without relative entries."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if os.path.isabs(entry)) or os.defpath


@functools.cache
def find(name: str) -> str | None:
    return shutil.which(name, path=search_path())


def need(name: str) -> str:
    """Return the absolute path of a tool, or raise FileNotFoundError."""
    path = find(name)
    if path is None:
        raise FileNotFoundError(name)
    return path
