"""The brief: what an agent should know when its session begins, or goes on after its context was compacted."""

from __future__ import annotations

from reflectloop.errors import ReflectloopError
from reflectloop.hooks.stop_gate import MOST_REFUSALS
from reflectloop.state import latch
from reflectloop.workspace.folders import Folders

_TOKENS = 2_500
_MOST_NEW = 100  # files that are added to an index
_INDEX = "cache/context.sqlite"


def text(folders: Folders) -> str:
    """Return the rules of the stop gate, and the brief of the current task or of the project."""
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
