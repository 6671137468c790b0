"""Answer one call of a hook, and never fail open: what cannot be judged is refused with the reason."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from reflectloop.errors import ReflectloopError, UnsupportedRepository
from reflectloop.hooks import clients, tool_calls
from reflectloop.hooks.clients import HookClient
from reflectloop.hooks.model import ALLOW, HookAnswer, HookCall, HookEvent, HookOutput
from reflectloop.workspace.folders import Folders, open_project_dirs

_SPARE_S = 15.0  # of the client's patience, for our own end
_LEAST_S = 5.0
_CLOSED = (HookEvent.BEFORE_TOOL, HookEvent.STOP, HookEvent.SUBAGENT_STOP)  # refused if we cannot judge


def answer(client: HookClient, event: str, text: str, folder: Path, limit_s: float | None = None) -> HookOutput:
    """Return what the hook prints for this event; `folder` counts where the client names none."""
    began = time.monotonic()
    call = clients.read(client, event, text)
    call = call._replace(folder=folder / call.folder)
    patience = limit_s if limit_s is not None else client.timeout_s - _SPARE_S
    try:
        given = _judged(call, began + max(patience, _LEAST_S))
    except ReflectloopError as error:
        given = _unable(
            call, f"{error.code}: {error.message}" + (f" Next: {error.next_step}" if error.next_step else "")
        )
    except Exception as fault:  # noqa: BLE001 - a hook that dies lets the agent go on
        given = _unable(call, f"{type(fault).__name__}: {fault}. Next: reflectloop doctor")
    return clients.output(client, call, given)


def _unable(call: HookCall, reason: str) -> HookAnswer:
    """Return the answer where judging failed. A second stop is let through: nothing unproven can be applied anyway."""
    if call.event not in _CLOSED or (call.event is not HookEvent.BEFORE_TOOL and call.asked_before):
        return HookAnswer("allow", context=f"reflectloop could not look at this: {reason}")
    text = f"reflectloop could not judge this: {reason}"
    return HookAnswer("deny", text) if call.event is HookEvent.BEFORE_TOOL else HookAnswer("block", text)


def _judged(call: HookCall, deadline: float) -> HookAnswer:
    folders = _folders(call.folder)
    if folders is None:
        return ALLOW
    return _HANDLERS[call.event](call, folders, deadline)


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


def _before(call: HookCall, folders: Folders, _deadline: float) -> HookAnswer:
    return tool_calls.before(call, folders.root, folders.own)


def _after(call: HookCall, folders: Folders, deadline: float) -> HookAnswer:
    from reflectloop.hooks.stop_gate import StopGate  # noqa: PLC0415 - loads the engine, which reading does not need

    answer = tool_calls.after(call, folders.root)
    if answer.word == "allow" and (call.writes or call.command is not None):
        StopGate(call, folders, deadline).start_verifying()
    return answer


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


def _nothing(_call: HookCall, _folders: Folders, _deadline: float) -> HookAnswer:
    return ALLOW


_HANDLERS: dict[HookEvent, Callable[[HookCall, Folders, float], HookAnswer]] = {
    HookEvent.BEFORE_TOOL: _before,
    HookEvent.AFTER_TOOL: _after,
    HookEvent.TOOL_FAILED: _failed,
    HookEvent.PROMPT: _nothing,
    HookEvent.STOP: _stop,
    HookEvent.SUBAGENT_STOP: _stop,
    HookEvent.SESSION_START: _start,
    HookEvent.COMPACT: _compact,
    HookEvent.SESSION_END: _nothing,
}
