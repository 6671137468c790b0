"""Where the programs the engine itself starts are found: once, by absolute path, before anything untrusted runs.

A relative entry in PATH would let a workspace put a `git` of its own in our way.
"""

from __future__ import annotations

import functools
import os
import shutil


@functools.cache
def search_path() -> str:
    """The caller's PATH without entries that depend on the current folder."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if os.path.isabs(entry)) or os.defpath


@functools.cache
def find(name: str) -> str | None:
    return shutil.which(name, path=search_path())


def need(name: str) -> str:
    """The absolute path of a tool; FileNotFoundError where there is none."""
    found = find(name)
    if found is None:
        raise FileNotFoundError(name)
    return found
