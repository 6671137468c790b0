"""The last word on a task that requests worked on: its plan is in the journal, its change in the tree they left."""

from __future__ import annotations

from reflectloop.engine import next_command
from reflectloop.engine.artifacts import views
from reflectloop.engine.folders import Folders
from reflectloop.engine.requests.request_log import RequestLog
from reflectloop.errors import NothingToDo
from reflectloop.state import events
from reflectloop.state.fold import RunState, Task, TaskKind
from reflectloop.state.transitions import TaskState
from reflectloop.workspace.store import Store


def refuse_open(folders: Folders, task: Task, run: RunState) -> None:
    """What still has a step left is gone on with by agents or requests, not by us; a pause ends here all the same."""
    left = [step for step in run.steps.values() if step.status not in ("done", "skipped")]
    if not left:
        return
    lifted = "the pause is over; " if task.state is TaskState.PAUSED else ""
    if lifted:
        _end_pause(folders, task, run)
    step, by = left[0], "agents" if run.kind is TaskKind.AGENTS else "requests"
    raise NothingToDo(
        f"{lifted}step {step.id} of task {task.id} is {step.status}; its steps are done by {by}",
        next_step=next_command.command(run),
    )


def _end_pause(folders: Folders, task: Task, run: RunState) -> None:
    book = folders.open_journal(task.id)
    try:
        book.append(events.RunResumed(run_id=run.id))
    finally:
        book.close()
    views.refresh(book.path.parent)


def tree_of(folders: Folders, store: Store, task: Task, run: RunState) -> str:
    """What the last request left; where its pointer is lost, what the last finished step left."""
    answers = RequestLog(folders, store)
    behind = answers.is_behind(run.stands)
    if answers.now.task == task.id and answers.has(answers.now.tree) and not behind:
        return answers.now.tree
    return run.reached
