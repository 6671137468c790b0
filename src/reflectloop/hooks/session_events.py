"""Answer the events of a session that need the engine: its start, its stop, and what happens after a tool."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from reflectloop.errors import ReflectloopError, UnsupportedRepository
from reflectloop.hooks.model import ALLOW, HookAnswer, HookCall, HookEvent
from reflectloop.workspace.folders import Folders, open_project_dirs

_TOKENS = 2_500
_MOST_NEW = 100  # files that are added to an index
_INDEX = "cache/context.sqlite"
_MOST_PLACES = 3


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
    """Return the cause of a tool's failure, the known fix and the places, as more context for the agent."""
    from reflectloop.diagnosis import log_diagnosis  # noqa: PLC0415 - loads the readers of logs

    if not call.output.strip():
        return ALLOW
    result = log_diagnosis.diagnose_log(call.output, exit_code=1, rules=log_diagnosis.use_project(call.folder))
    known = result.failure.diagnosis if result.failure else None
    lines = [f"TOOL REFLECTION: {call.tool or 'the tool'} failed.", f"What: {result.result.summary}"]
    if known and known.root_cause:
        lines.append(f"Cause: {known.root_cause}")
    fix = ((known.next_command or known.suggestion) if known else "") or result.result.suggestion
    if fix:
        lines.append(f"Fix: {fix}")
    lines += [f"At {detail.file}:{detail.line}: {detail.error}" for detail in result.result.details[:_MOST_PLACES]]
    return HookAnswer(context="\n".join(lines))


def _stop(call: HookCall, folders: Folders, deadline: float) -> HookAnswer:
    from reflectloop.hooks.stop_gate import StopGate  # noqa: PLC0415

    return StopGate(call, folders, deadline).judge()


def _start(call: HookCall, folders: Folders, deadline: float) -> HookAnswer:
    from reflectloop.hooks.stop_gate import StopGate  # noqa: PLC0415

    StopGate(call, folders, deadline).begin()
    return HookAnswer(context=brief_text(folders))


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


# The brief at the start of a session --------------------------------------------------------------------------------


def brief_text(folders: Folders) -> str:
    """Return the rules of the stop gate, and the brief of the current task or of the project."""
    from reflectloop.hooks.stop_gate import MOST_REFUSALS  # noqa: PLC0415

    lines = [
        "reflectloop judges this session: before your turn may end, it runs the project's own checks on your change.",
        "They run in a sealed copy, with tests and settings as when the session began: weakening them is no use.",
        f"After {MOST_REFUSALS} refusals without progress the project is locked until a person unlocks it.",
        "Verify at any time: reflectloop verify --session latest",
    ]
    return "\n".join([*lines, "", _of_state(folders)])


def _of_state(folders: Folders) -> str:
    """Return the brief, with code only if an index of it exists: a hook has no time to build one."""
    if not folders.current_task() and not folders.knowledge.is_dir():
        from reflectloop.state import latch  # noqa: PLC0415

        stop = latch.read_stop(folders.own)
        stopped = (
            f"This project is stopped ({stop.error_code}): {stop.reason}. Do nothing; tell the user.\n" if stop else ""
        )
        return f"{stopped}There is no task here. More: reflectloop brief"
    from reflectloop.engine import brief  # noqa: PLC0415 - loads the engine
    from reflectloop.engine.brief.code import of_project  # noqa: PLC0415

    source = of_project(folders.root, _MOST_NEW) if (folders.own / _INDEX).is_file() else None
    try:
        return brief.text(folders, tokens=_TOKENS, code=source)
    except ReflectloopError as fault:
        return f"The state of reflectloop cannot be read: {fault.code}: {fault.message}. Next: {fault.next_step}"
