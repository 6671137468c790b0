"""`shell`: open a shell in the workspace of a failed run. Nothing done in it is recorded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from reflectloop import config
from reflectloop.commands.task_status import refuse_running
from reflectloop.errors import NothingToDo
from reflectloop.sandbox import isolation, limits
from reflectloop.sandbox.sandbox import Box
from reflectloop.terms import Isolation
from reflectloop.workspace import checkout, project, workspace_registry
from reflectloop.workspace.folders import open_project_dirs
from reflectloop.workspace.store import open_store


def open_in(start: Path, name: str | None, command: tuple[str, ...], say: Callable[[str], None]) -> int:
    """Hand the terminal to a shell in the workspace that was kept after a run; return its exit code."""
    folders = open_project_dirs(start)
    folder = folders.find_run(name)
    entry = workspace_registry.find(folders.own, folder.run_id)
    refuse_running(folders, folder)
    if entry is None or entry.fate != "kept" or not (entry.folder / "repo").is_dir():
        raise NothingToDo(
            f"the workspace of {folder.run_id} was not kept; only those of the last failed runs are",
            next_step="reflectloop status",
        )
    settings = config.load(folders.root)
    level = isolation.choose_level(Isolation.NONE, settings.box.strongest)
    home = project.open_project(folders.root)
    space = checkout.reopen(home, open_store(home, settings.workspace), entry, settings.workspace)
    limiter = limits.limiter_for(level, f"{space.name}-shell", settings.box)
    box = Box(
        space, dict(os.environ), level, readable=settings.box.read, env_allow=settings.run.env_allow, limiter=limiter
    )
    if not command:  # its prompt shows the path of the project
        say(f"this shell is in the workspace of {folder.run_id}, not in your files; exit ends it")
    try:
        return box.interact(list(command) or [os.environ.get("SHELL", "bash")])
    finally:
        if limiter:
            limiter.close()
