"""The morning report: what every task came to since a time, computed from the journals alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.autoloop.daemon_files import DaemonFiles
from reflectloop.autoloop.decision import with_dependencies
from reflectloop.autoloop.loop import explained
from reflectloop.autoloop.project_state import ProjectState, for_person
from reflectloop.autoloop.task_view import Standing, TaskView
from reflectloop.errors import ReflectloopError
from reflectloop.state import events, journal
from reflectloop.state.journal import JournalEntry
from reflectloop.system import clock
from reflectloop.workspace.folders import TASK_ID

_MARGIN = timedelta(days=1)  # a clock may have been set meanwhile
GROUPS: dict[str, tuple[Standing, ...]] = {
    "Proven, and can be applied": (Standing.PROVEN, Standing.TO_LAND),
    "Applied": (Standing.APPLIED,),
    "Waits for a person": (Standing.ASKS, Standing.STOPPED, Standing.HELD),
    "Failed": (Standing.FAILED, Standing.ABORTED),
    "Not finished": (Standing.QUEUED, Standing.UNFINISHED, Standing.UNANSWERED, Standing.WORKING, Standing.WAITS),
}


class Charge(NamedTuple):
    """One call of an agent: when, and what it cost."""

    at: str
    usd: float


class ReportRow(NamedTuple):
    """One task of the report. Costs and times are those since the report's beginning."""

    project: str
    entry: str
    task_id: str
    title: str
    standing: str
    reason: str = ""
    next_command: str = ""
    run_id: str = ""
    began: str = ""
    ended: str = ""
    elapsed_s: float = 0.0
    agent_s: float = 0.0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    charges: tuple[Charge, ...] = ()

    @property
    def group(self) -> str:
        return next(name for name, standings in GROUPS.items() if self.standing in standings)


class NightReport(NamedTuple):
    """The rows of all projects, and the time they are about."""

    since: str
    until: str
    rows: tuple[ReportRow, ...]

    def of_group(self, group: str) -> list[ReportRow]:
        return [row for row in self.rows if row.group == group]

    @property
    def totals(self) -> dict[str, Any]:
        return {
            "tasks": len(self.rows),
            "calls": sum(row.calls for row in self.rows),
            "tokens": sum(row.tokens for row in self.rows),
            "usd": round(sum(row.usd for row in self.rows), 6),
            "unpriced": sum(row.unpriced for row in self.rows),
            "agent_s": round(sum(row.agent_s for row in self.rows), 3),
        }

    def as_data(self) -> dict[str, Any]:
        rows = [row._asdict() | {"group": row.group} for row in self.rows]
        for row in rows:
            del row["charges"]
        return {"since": self.since, "until": self.until, "totals": self.totals, "tasks": rows}


def make(roots: Sequence[Path], since: datetime, now: datetime) -> NightReport:
    """Return the report on all tasks with an event since then, and on submissions that are not done."""
    rows = [row for root in dict.fromkeys(roots) for row in _project_rows(ProjectState(root), since)]
    return NightReport(clock.stamp(since), clock.stamp(now), tuple(rows))


def _project_rows(project: ProjectState, since: datetime) -> Iterator[ReportRow]:
    memory = DaemonFiles(project.folders).read_memory()
    known = [explained(memory, view) for view in with_dependencies(project.views())]
    views = {view.task_id or view.entry: view for view in known}
    for task_id in _task_names(project, since):
        view = views.pop(task_id, None) or _unlisted(project, task_id)
        row = _row(project, view, _entries(project, task_id), clock.stamp(since))
        if row.ended:
            yield row
    for view in views.values():
        if not view.standing.is_over:
            yield _row(project, view, [], "")


def _task_names(project: ProjectState, since: datetime) -> list[str]:
    """Return the tasks whose journal may have an event since then, in the order of their opening."""
    oldest = (since - _MARGIN).timestamp()
    paths = [
        path for path in (project.folders.own / "tasks").glob("T-*/journal.jsonl") if path.stat().st_mtime > oldest
    ]
    return sorted((path.parent.name for path in paths if TASK_ID.fullmatch(path.parent.name)), key=str)


def _unlisted(project: ProjectState, task_id: str) -> TaskView:
    """Return the view of a task that neither the queue nor the current task is about."""
    facts = project.facts(task_id)
    if facts is None:
        return TaskView(task_id, project.name, Standing.FAILED, "", task_id=task_id)
    return TaskView(
        task_id, project.name, facts.standing, facts.position, facts.title, facts.reason,
        for_person(task_id, facts.next_command),
        task_id=task_id, run_id=facts.run_id,
    )  # fmt: skip


def _entries(project: ProjectState, task_id: str) -> list[JournalEntry]:
    try:
        return journal.read(project.folders.journal(task_id))
    except ReflectloopError:
        return []  # the view says that the journal is damaged


def _row(project: ProjectState, view: TaskView, entries: Sequence[JournalEntry], since: str) -> ReportRow:
    recent = [entry for entry in entries if entry.at >= since]
    damaged = [clock.stamp(clock.now())] if not entries and view.standing is Standing.FAILED else []
    times = [entry.at for entry in recent] or damaged
    calls = [(entry.at, entry.event) for entry in recent if isinstance(entry.event, events.AgentAsked)]
    asked = [call for _, call in calls]
    return ReportRow(
        project.name,
        view.entry,
        view.task_id,
        view.title,
        str(view.standing),
        view.reason,
        view.next_command,
        view.run_id,
        times[0] if times else "",
        times[-1] if times else "",
        _seconds(times[0], times[-1]) if times else 0.0,
        round(sum(call.duration_ms for call in asked) / 1000, 3),
        len(asked),
        sum(_tokens(call) for call in asked),
        round(sum(call.cost_usd or 0.0 for call in asked), 6),
        sum(call.cost_usd is None for call in asked),
        tuple(Charge(at, call.cost_usd or 0.0) for at, call in calls),
    )


def _tokens(call: events.AgentAsked) -> int:
    return call.input_tokens + call.output_tokens + call.cache_read_tokens + call.cache_write_tokens


def _seconds(first: str, last: str) -> float:
    """Return the time between two events; never negative, also if the clock was set back between them."""
    return max(0.0, (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds())


# As text -----------------------------------------------------------------------------------------------------------


def markdown(report: NightReport) -> list[str]:
    """Return the report for a person."""
    totals = report.totals
    lines = [f"# Report since {report.since}", ""]
    lines += [f"- {name}: {len(report.of_group(name))}" for name in GROUPS]
    lines += [
        "",
        f"Agents: {totals['calls']} call(s), {totals['tokens']} tokens, {money(totals)}, {totals['agent_s']} s",
    ]
    for name in GROUPS:
        rows = report.of_group(name)
        if rows:
            lines += ["", f"## {name}", ""]
            lines += [line for row in rows for line in _row_lines(row)]
    return lines


def money(costs: dict[str, Any]) -> str:
    """Return a cost; calls of unknown price are named, never counted as free."""
    unknown = f" and {costs['unpriced']} call(s) of unknown cost" if costs["unpriced"] else ""
    return f"{costs['usd']:.4f} USD{unknown}"


def _row_lines(row: ReportRow) -> Iterator[str]:
    yield f"- {row.title or row.entry} ({row.task_id or row.entry})"
    if row.reason:
        yield f"  - {_one_line(row.reason)}"
    if row.next_command:
        yield f"  - next: `{_one_line(row.next_command)}`"
    if row.calls or row.elapsed_s:
        yield f"  - {row.elapsed_s:.0f} s, {row.calls} call(s), {money(row._asdict())}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
