"""Answer the events of a session that need the engine: its start, its stop, and what happens after a tool."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from reflectloop.errors import UnsupportedRepository
from reflectloop.hooks.model import ALLOW, HookAnswer, HookCall, HookEvent
from reflectloop.workspace.folders import Folders, open_project_dirs


def answer(call: HookCall, deadline: float) -> HookAnswer:
    """Return the answer to an event; without a project, and for events that need none, allow."""
    handler = _HANDLERS.get(call.event)
    folders = _folders(call.folder) if handler else None
    return handler(call, folders, deadline) if handler and folders else ALLOW


def _folders(folder: Path) -> Folders | None:
    """Return the project around a folder, or None if there is none, or the folder is gone."""
    real = Path(os.path.realpath(folder))
    if not real.is_dir():
        return None
    try:
        folders = open_project_dirs(real)
    except UnsupportedRepository:
        return None
    folders.ensure_owned()
    return folders


def _after(call: HookCall, folders: Folders, deadline: float) -> HookAnswer:
    from reflectloop.hooks import tool_calls  # noqa: PLC0415 - loads the command policy and the rules for secrets
    from reflectloop.hooks.stop_gate import StopGate  # noqa: PLC0415 - loads the engine, which reading does not need

    given = tool_calls.after(call, folders.root)
    if given.word == "allow" and (call.writes or call.command is not None):
        StopGate(call, folders, deadline).start_verifying()
    return given


def _failed(call: HookCall, _folders: Folders, _deadline: float) -> HookAnswer:
    from reflectloop.hooks import tool_failures  # noqa: PLC0415 - loads the readers of logs

    return tool_failures.explain(call)


def _stop(call: HookCall, folders: Folders, deadline: float) -> HookAnswer:
    from reflectloop.hooks.stop_gate import StopGate  # noqa: PLC0415

    return StopGate(call, folders, deadline).judge()


def _start(call: HookCall, folders: Folders, deadline: float) -> HookAnswer:
    from reflectloop.hooks import brief  # noqa: PLC0415
    from reflectloop.hooks.stop_gate import StopGate  # noqa: PLC0415

    StopGate(call, folders, deadline).begin()
    return HookAnswer(context=brief.text(folders))


def _compact(call: HookCall, folders: Folders, deadline: float) -> HookAnswer:
    from reflectloop.hooks.stop_gate import StopGate  # noqa: PLC0415

    StopGate(call, folders, deadline).checkpoint()
    return ALLOW


_HANDLERS: dict[HookEvent, Callable[[HookCall, Folders, float], HookAnswer]] = {
    HookEvent.AFTER_TOOL: _after,
    HookEvent.TOOL_FAILED: _failed,
    HookEvent.STOP: _stop,
    HookEvent.SUBAGENT_STOP: _stop,
    HookEvent.SESSION_START: _start,
    HookEvent.COMPACT: _compact,
}
