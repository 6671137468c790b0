"""The files that people read about a task: `todo.md` and `plan_log.md`, and TriFlow's files if configured."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reflectloop import config, languages, secrets
from reflectloop.artifacts import triflow
from reflectloop.artifacts.edited_views import PUBLISHED
from reflectloop.errors import ReflectloopError
from reflectloop.plan.model import Plan
from reflectloop.state import events, snapshot
from reflectloop.state.fold import RunState, StepState, Task
from reflectloop.state.journal import Journal
from reflectloop.state.transitions import TaskState
from reflectloop.system import files
from reflectloop.terms import shorten
from reflectloop.workspace import generated_files
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.generated_files import HEAD, LOG, TODO

_LONGEST = 200  # of a title or a reason, in a view
_ENDED = (TaskState.DONE, TaskState.ABORTED)
_MARKS = {"done": "[x]", "skipped": "[-]"}


# Rendering: pure ------------------------------------------------------------------------------------------------


def todo(task: Task, titles: Mapping[str, str]) -> str:
    """Return the steps of the last run as a list: done, current, pending, blocked and why."""
    run = task.last_run
    lines = [HEAD, f"# {_line(task.title)}", "", f"{task.id}: {task.state}{_latched(task)}", ""]
    if run is None:
        return "\n".join([*lines, "No run has begun.", ""])
    at = None if task.state in _ENDED else _current(run)
    lines += [
        "  " * _depth(run, step.id) + _item(step, titles.get(step.id, ""), current=step.id in (at or ()))
        for step in run.steps.values()
    ]
    return "\n".join([*lines, ""])


def _depth(run: RunState, name: str) -> int:
    """Return how many steps a part lies below."""
    above = name.rpartition(".")[0]
    return 1 + _depth(run, above) if above in run.steps and name in run.steps[above].parts else 0


def plan_log(task: Task, titles: Mapping[str, str]) -> str:
    """Return every run in the order of the journal, with its steps in the order in which they ended."""
    lines = [HEAD, f"# Log of {_line(task.title)}", "", f"{task.id}: {task.state}{_latched(task)}"]
    for run in task.runs.values():
        ended = f" ({run.error_code})" if run.error_code else ", applied" if run.applied else ""
        lines += ["", f"## {run.id}", "", f"Began {run.started}; {run.mode}; {run.status}{ended}.", ""]
        lines += [_entry(step, titles.get(step.id, "")) for step in _begun(run)]
    return "\n".join([*lines, ""])


def _current(run: RunState) -> tuple[str, ...]:
    """Return the ids of the running steps; if none runs, of the first open step."""
    running = tuple(step.id for step in run.steps.values() if step.status == "running")
    waiting = (step.id for step in run.steps.values() if step.status in ("pending", "failed", "blocked"))
    return running or tuple(name for name in (next(waiting, None),) if name)


def _item(step: StepState, title: str, *, current: bool) -> str:
    mark = "[>]" if current else _MARKS.get(step.status, "[ ]")
    return f"- {mark} {_name(step, title)}{_why(step)}"


def _why(step: StepState) -> str:
    reason = _line("; ".join(filter(None, (step.reason, step.unblock))))
    if step.status in ("failed", "blocked"):
        return f" (BLOCKED: {reason or 'no reason was given'})"
    if step.status == "skipped":
        return f" (skipped: {reason})"
    return f" ({reason})" if reason else ""


def _entry(step: StepState, title: str) -> str:
    facts = [step.status, f"attempt {step.attempts}" if step.attempts else ""]
    facts += [f"exit {step.exit_code}" if step.exit_code is not None else ""]
    facts += [f"{step.duration_ms / 1000:.1f} s" if step.duration_ms is not None else ""]
    facts += [f"interrupted {step.interrupted} time(s)" if step.interrupted else ""]
    return f"- {_name(step, title)}: {', '.join(filter(None, facts))}{_why(step)}"


def _begun(run: RunState) -> Iterator[StepState]:
    """Yield the steps that have begun, each once, in the order of their last end."""
    ended = list(dict.fromkeys(reversed(run.order)))[::-1]
    yield from (run.steps[name] for name in ended)
    known = set(ended)
    others = (step for step in run.steps.values() if step.id not in known)
    yield from (step for step in others if step.attempts or step.status != "pending")


def _latched(task: Task) -> str:
    return f"; held by {task.latch.error_code}: {_line(task.latch.reason)}" if task.latch else ""


def _name(step: StepState, title: str) -> str:
    return f"{step.id} {_line(title)}".rstrip()


def _line(text: str) -> str:
    """Return the text as one line without markup that could break a document."""
    return shorten(files.display(" ".join(text.split()).replace("<!--", "<! --")), _LONGEST)


def triflow_todo(state: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    """Return the steps of a state in TriFlow's format as a list."""
    at = state["current"]
    lines = [HEAD, f"# {_line(state['taskName'])}", "", _line(state["objective"]["goal"]), ""]
    for step in state["steps"]:
        here = at["type"] == "step" and at["stepIndex"] == step["index"]
        lines.append(f"- {_mark(step, here=here)} {_triflow_item(step, str(step['index']), reasons)}")
        for below in step["substeps"]:
            here = at["type"] == "substep" and (at["stepIndex"], at["subIndex"]) == (step["index"], below["index"])
            name = f"{step['index']}.{below['index']}"
            lines.append(f"  - {_mark(below, here=here)} {_triflow_item(below, name, reasons)}")
    return "\n".join([*lines, ""])


def _mark(step: Mapping[str, Any], *, here: bool) -> str:
    return "[>]" if here else "[x]" if step["status"] == "done" else "[ ]"


def _triflow_item(step: Mapping[str, Any], number: str, reasons: Mapping[str, str]) -> str:
    why = f" (BLOCKED: {_line(reasons.get(number, '')) or 'no reason was given'})"
    return f"{number}. {_line(step['title'])}{why if step['status'] == 'blocked' else ''}"


# On disk --------------------------------------------------------------------------------------------------------


def refresh(folder: Path) -> list[str]:
    """Write `state.json` and the views of the task in `folder` from its journal; return faults as warnings.

    The caller holds the project's lock. The outcome of a run or a command never depends on it.
    """
    try:
        return _refresh(folder)
    except Exception as fault:  # noqa: BLE001 - a view must not turn a success into a failure
        reason = fault.message if isinstance(fault, ReflectloopError) else f"{type(fault).__name__}: {fault}"
        return [f"the views of task {folder.name} are not up to date: {reason}"]


@contextmanager
def edit_journal(folders: Folders, task_id: str) -> Iterator[Journal]:
    """Open a task's journal for writing, close it afterwards, and refresh the views if nothing failed."""
    journal = folders.open_journal(task_id)
    try:
        yield journal
    finally:
        journal.close()
    refresh(journal.path.parent)


def append_events(
    folders: Folders, task_id: str, events_: Iterable[events.Event], *, make_current: bool = False
) -> list[str]:
    """Append events to a task's journal and refresh its views; return the warnings of the refresh."""
    journal = folders.open_journal(task_id)
    try:
        for event in events_:
            journal.append(event)
    finally:
        journal.close()
    if make_current:
        folders.set_current_task(task_id)
    return refresh(journal.path.parent)


def _refresh(folder: Path) -> list[str]:
    folders = Folders(folder.parents[2])
    covered = snapshot.read_journal(folder)
    task, plan = covered.task, plan_of(folders, covered.task)
    run = task.last_run
    titles = triflow.titles(run, plan) if run else {}
    settings = config.load(folders.root)
    languages.use_setting(settings.output.language)
    made = {TODO: _page(todo(task, titles)), LOG: _page(plan_log(task, titles))}
    before = snapshot.views(folder) or {}
    digests = {name: [_digest(raw), *before.get(name, [])[:1]] for name, raw in made.items()}
    # The digests first: a reader between two writes then knows both the old view and the new one.
    snapshot.write(folder, covered, digests)
    for name, raw in made.items():
        _write(folder / name, raw)
    wanted = settings.publish.triflow and folders.current_task() == task.id
    return _publish(folders, task, plan, made[LOG]) if wanted else []


def _publish(folders: Folders, task: Task, plan: Plan | None, log: bytes) -> list[str]:
    """Write the views at the top of the project in TriFlow's format; files that we did not write are kept."""
    warnings: list[str] = []
    digests: dict[str, str] = {}
    for name, raw in {**triflow_files(task, plan), LOG: log}.items():
        path = folders.root / name
        if os.path.lexists(path) and not generated_files.is_ours(path):
            warnings.append(f"{name} at the top of the project was not written by reflectloop and was not changed")
        else:
            digests[name] = _digest(raw)
            _write(path, raw)
    files.write_atomic(folders.own / PUBLISHED, json.dumps(digests) + "\n")
    return warnings


def triflow_files(task: Task, plan: Plan | None) -> dict[str, bytes]:
    """Return `state.json`, `todo.md` and `plan_log.md` of a task in TriFlow's format, by name."""
    state, run = triflow.to_triflow(task, plan), task.last_run
    reasons = {place: run.steps[name].reason for place, name in triflow.indexes(run).items()} if run else {}
    return {
        generated_files.STATE: _redact(triflow.text(state)),
        TODO: _page(triflow_todo(state, reasons)),
        LOG: _page(plan_log(task, triflow.titles(run, plan) if run else {})),
    }


def plan_of(folders: Folders, task: Task) -> Plan | None:
    """Return the plan of the last run as it was when the run began; None if it cannot be read any more."""
    run = task.last_run
    if run is None or run.mode == events.IMPORTED:
        return None
    from reflectloop.plan import load as plans  # noqa: PLC0415 - reading a state needs no YAML

    try:
        return plans.load(folders.run_folder(run.id).saved_plan()).plan
    except ReflectloopError:
        return None


def _page(text: str) -> bytes:
    return _redact(languages.document(text))


def _redact(text: str) -> bytes:
    return secrets.current_detector().redact(text).encode("utf-8", "backslashreplace")


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _write(path: Path, raw: bytes) -> None:
    if not path.is_file() or path.is_symlink() or path.read_bytes() != raw:
        files.write_atomic(path, raw)
