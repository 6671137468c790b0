"""The brief: what an agent should know when its session begins."""

from __future__ import annotations

from reflectloop.hooks.stop_gate import MOST_REFUSALS
from reflectloop.state import latch
from reflectloop.workspace.folders import Folders


def text(folders: Folders) -> str:
    """Return the rules of the gates, the latch and the current task in a few lines."""
    lines = [
        "reflectloop judges this session: before your turn may end, it runs the project's own checks on your change.",
        "They run in a sealed copy, with tests and settings as when the session began: weakening them is no use.",
        f"After {MOST_REFUSALS} refusals without progress the project is locked until a person unlocks it.",
        "Verify at any time: reflectloop verify --session latest",
    ]
    return _with_state(lines, folders)


def for_tools(folders: Folders) -> str:
    """Return the same for an agent that calls tools, where no hook ends its turn."""
    lines = [
        "reflectloop judges changes here: `verify` runs the project's own checks on your change in a sealed copy,",
        "with tests and settings as in the base: weakening them is no use. Only PASS is done; REVIEW needs a person.",
        "Nothing is applied or pushed without a signed receipt.",
    ]
    return _with_state(lines, folders)


def _with_state(lines: list[str], folders: Folders) -> str:
    stop = latch.read_stop(folders.own)
    if stop:
        lines.insert(0, f"This project is stopped ({stop.error_code}): {stop.reason}. Do nothing; tell the user.")
    task = folders.peek_current() if folders.current_task() else None
    if task is not None:
        run = task.last_run
        done = f", {run.count('done')} of {len(run.steps)} steps done" if run else ""
        lines.append(f"Current task: {task.title} ({task.state}{done}). More: reflectloop status")
    return "\n".join(lines)
