"""What people read of a task: `todo.md` and `plan_log.md` beside `state.json`, and TriFlow's files where asked for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reflectloop import config, secrets
from reflectloop.engine.artifacts import triflow
from reflectloop.engine.folders import Folders, RunFolder
from reflectloop.engine.run import recovery
from reflectloop.errors import ReflectloopError
from reflectloop.plan.model import Plan
from reflectloop.state import events, snapshot
from reflectloop.state.fold import RunState, StepState, Task
from reflectloop.state.transitions import TaskState
from reflectloop.system import files
from reflectloop.workspace import generated_files
from reflectloop.workspace.generated_files import HEAD, LOG, TODO

_LONGEST = 200  # of a title or a reason, in a view
_ENDED = (TaskState.DONE, TaskState.ABORTED)
_MARKS = {"done": "[x]", "skipped": "[-]"}


# Rendering: pure ------------------------------------------------------------------------------------------------


def todo(task: Task, titles: Mapping[str, str]) -> str:
    """The steps of the last run: which are done, which one it is at, which wait, which are blocked and why."""
    run = _last(task)
    lines = [HEAD, f"# {_line(task.title)}", "", f"{task.id}: {task.state}{_held(task)}", ""]
    if run is None:
        return "\n".join([*lines, "No run has begun.", ""])
    at = None if task.state in _ENDED else _current(run)
    lines += [_item(step, titles.get(step.id, ""), current=step.id in (at or ())) for step in run.steps.values()]
    return "\n".join([*lines, ""])


def plan_log(task: Task, titles: Mapping[str, str]) -> str:
    """Every run in the order of the journal, and its steps in the order they came to their end."""
    lines = [HEAD, f"# Log of {_line(task.title)}", "", f"{task.id}: {task.state}{_held(task)}"]
    for run in task.runs.values():
        ended = f" ({run.error_code})" if run.error_code else ", applied" if run.applied else ""
        lines += ["", f"## {run.id}", "", f"Began {run.started}; {run.mode}; {run.status}{ended}.", ""]
        lines += [_entry(step, titles.get(step.id, "")) for step in _told(run)]
    return "\n".join([*lines, ""])


def _last(task: Task) -> RunState | None:
    return list(task.runs.values())[-1] if task.runs else None


def _current(run: RunState) -> tuple[str, ...]:
    """What runs now; where nothing does, the first that is open."""
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


def _told(run: RunState) -> Iterator[StepState]:
    """Those of which there is something to tell; each once, at its last end."""
    ended = list(dict.fromkeys(reversed(run.order)))[::-1]
    yield from (run.steps[name] for name in ended)
    known = set(ended)
    yield from (one for one in run.steps.values() if one.id not in known and (one.attempts or one.status != "pending"))


def _held(task: Task) -> str:
    return f"; held by {task.latch.error_code}: {_line(task.latch.reason)}" if task.latch else ""


def _name(step: StepState, title: str) -> str:
    return f"{step.id} {_line(title)}".rstrip()


def _line(text: str) -> str:
    """As one line that can do no harm in a document."""
    plain = files.display(" ".join(text.split()).replace("<!--", "<! --"))
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"


def triflow_todo(state: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    """The steps of a state in TriFlow's shape."""
    at = state["current"]
    lines = [HEAD, f"# {_line(state['taskName'])}", "", _line(state["objective"]["goal"]), ""]
    for step in state["steps"]:
        here = at["type"] == "step" and at["stepIndex"] == step["index"]
        lines.append(f"- {_their_mark(step, here=here)} {_theirs(step, str(step['index']), reasons)}")
        for below in step["substeps"]:
            here = at["type"] == "substep" and (at["stepIndex"], at["subIndex"]) == (step["index"], below["index"])
            name = f"{step['index']}.{below['index']}"
            lines.append(f"  - {_their_mark(below, here=here)} {_theirs(below, name, reasons)}")
    return "\n".join([*lines, ""])


def _their_mark(step: Mapping[str, Any], *, here: bool) -> str:
    return "[>]" if here else "[x]" if step["status"] == "done" else "[ ]"


def _theirs(step: Mapping[str, Any], number: str, reasons: Mapping[str, str]) -> str:
    why = f" (BLOCKED: {_line(reasons.get(number, '')) or 'no reason was given'})"
    return f"{number}. {_line(step['title'])}{why if step['status'] == 'blocked' else ''}"


# On disk --------------------------------------------------------------------------------------------------------


def refresh(folder: Path) -> list[str]:
    """Write `state.json` and the views of the task in `folder` anew, from its journal; what could not be is said.

    For whoever holds the project's lock. How a run or a command ended never depends on it.
    """
    try:
        return _refresh(folder)
    except Exception as fault:  # noqa: BLE001 - a run that ended well has ended well, whatever a view says
        said = fault.message if isinstance(fault, ReflectloopError) else f"{type(fault).__name__}: {fault}"
        return [f"the views of task {folder.name} are not up to date: {said}"]


def _refresh(folder: Path) -> list[str]:
    folders = Folders(folder.parents[2])
    covered = snapshot.of_journal(folder)
    task, plan = covered.task, plan_of(folders, covered.task)
    run = _last(task)
    titles = triflow.titles(run, plan) if run else {}
    made = {TODO: _clean(todo(task, titles)), LOG: _clean(plan_log(task, titles))}
    before = snapshot.views(folder) or {}
    digests = {name: [_digest(raw), *before.get(name, [])[:1]] for name, raw in made.items()}
    # First what says how the views look: a reader between two writes finds the digest before and the one to come.
    snapshot.write(folder, covered, digests)
    for name, raw in made.items():
        _write(folder / name, raw)
    wanted = config.load(folders.root).publish.triflow and folders.current_task() == task.id
    return _publish(folders, task, plan, made[LOG]) if wanted else []


def _publish(folders: Folders, task: Task, plan: Plan | None, log: bytes) -> list[str]:
    """The same at the top of the project, in TriFlow's shape; what lies there and is not ours stays."""
    state, run = triflow.shape(task, plan), _last(task)
    steps = list(run.steps.values()) if run else []
    imported = run is not None and run.mode == events.IMPORTED
    reasons = {step.id if imported else str(number): step.reason for number, step in enumerate(steps, 1)}
    made = {
        generated_files.STATE: _clean(triflow.text(state)),
        TODO: _clean(triflow_todo(state, reasons)),
        LOG: log,
    }
    warnings = []
    for name, raw in made.items():
        path = folders.root / name
        if os.path.lexists(path) and not generated_files.is_ours(path):
            warnings.append(f"{name} at the top of the project is not ours and was left as it is")
        else:
            _write(path, raw)
    return warnings


def plan_of(folders: Folders, task: Task) -> Plan | None:
    """As it was when the last run began; None where it cannot be read any more, and steps go by their ids."""
    run = _last(task)
    if run is None or run.mode == events.IMPORTED:
        return None
    from reflectloop.plan import load as plans  # noqa: PLC0415 - who only reads a state needs no YAML

    try:
        return plans.load(recovery.plan_of(RunFolder(folders.own / "runs" / run.id))).plan
    except ReflectloopError:
        return None


def _clean(text: str) -> bytes:
    return secrets.current().redact(text).encode("utf-8", "backslashreplace")


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _write(path: Path, raw: bytes) -> None:
    if not path.is_file() or path.is_symlink() or path.read_bytes() != raw:
        files.write_atomic(path, raw)


def edited(folder: Path) -> list[str]:
    """One line that names the generated files somebody changed; nothing where nobody did."""
    # Twice: an engine may have refreshed them between our reading the one and the other.
    if not _changed(folder) or not (names := _changed(folder)):
        return []
    were = "were" if len(names) > 1 else "was"
    return [f"{', '.join(names)} of {folder.name} {were} edited by hand; that changes nothing, and will be overwritten"]


def _changed(folder: Path) -> list[str]:
    # The views before what says how they look: so a refresh meanwhile is not taken for an edit.
    found = {name: _digest_of(folder / name) for name in (TODO, LOG)}
    wanted = snapshot.views(folder)
    if wanted is None:
        return [snapshot.NAME]
    return [name for name, digest in found.items() if digest and name in wanted and digest not in wanted[name]]


def _digest_of(path: Path) -> str | None:
    try:
        return _digest(path.read_bytes()) if path.is_file() else None
    except OSError:
        return None
