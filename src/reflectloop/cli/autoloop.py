"""The commands `autoloop` and `submit`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflectloop.cli import render
from reflectloop.cli.main import SuggestingGroup
from reflectloop.cli.render import Answer, Note, answers
from reflectloop.terms import one_line

if TYPE_CHECKING:  # it loads the engine
    from reflectloop.autoloop.loop import LoopWorld

_PROJECTS = click.option(
    "--projects",
    "listed",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Work on all projects in this list, one folder in each line.",
)
_COOLDOWN = click.option(
    "--cooldown", type=click.FloatRange(0, 86400), default=20.0, show_default=True, help="Seconds between two sessions."
)
_START_S = 10.0
_STOP_S = 120.0
_STEP_S = 0.1


@click.group(cls=SuggestingGroup)
def autoloop() -> None:
    """Work on the current task and on submitted tasks unattended.

    \b
    Example: reflectloop autoloop start --until 07:00
    """


def _roots(project_dir: Path, listed: Path | None) -> list[Path]:
    from reflectloop.autoloop import typed

    return typed.read_projects(listed) if listed else [project_dir]


@autoloop.command()
@_PROJECTS
@_COOLDOWN
@click.option("--until", metavar="TIME", help="End at this time, such as 07:00.")
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), metavar="USD", help="End when this is spent.")
@click.option("--max-hours", type=click.FloatRange(0, min_open=True), metavar="HOURS", help="End after this time.")
@click.option("--jobs", "-j", type=click.IntRange(1, 64), default=1, show_default=True, help="Sessions at once.")
@click.option("--poll", type=click.FloatRange(0.05, 60), default=0.5, help="Seconds between looks without inotify.")
@click.option("--drain", is_flag=True, help="End when nothing is left to do.")
@click.option("--tmux", "pane", metavar="PANE", help="Type the current task's work into this pane of tmux.")
@click.option(
    "--client",
    type=click.Choice(["claude", "codex"]),
    default="claude",
    show_default=True,
    help="The program in the pane.",
)
@click.option("--say", metavar="TEXT", help="What is typed into the pane (default: /tr, for Codex $tr).")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 100),
    default=70.0,
    show_default=True,
    metavar="PERCENT",
    help="Clear the pane's session when more of its context is used.",
)
@click.option(
    "--context-limit",
    type=click.IntRange(1000),
    metavar="TOKENS",
    help="The window of its model (default: by its name).",
)
@click.option("--foreground", is_flag=True, help="Stay in the terminal, as a service manager wants it.")
@answers
def start(
    listed: Path | None,
    cooldown: float,
    until: str | None,
    max_cost: float | None,
    max_hours: float | None,
    jobs: int,
    poll: float,
    drain: bool,
    pane: str | None,
    client: str,
    say: str | None,
    threshold: float,
    context_limit: int | None,
    foreground: bool,
    project_dir: Path,
) -> Answer:
    """Start the daemon. It ends on `stop`, or when the time, the money or the hours are over.

    A task that waits for a person, is locked or failed is told once, and the others go on.

    \b
    Example: reflectloop autoloop start --until 07:00 --max-cost 20
    """
    from reflectloop.autoloop import daemon, typed
    from reflectloop.autoloop.task_view import Limits
    from reflectloop.system import clock

    roots = _roots(project_dir, listed)
    end = typed.next_time(until, clock.now()) if until else None
    if not foreground:
        more = {
            "--until": end.isoformat() if end else None,
            "--max-cost": max_cost,
            "--max-hours": max_hours,
            "--jobs": jobs,
            "--poll": poll,
            "--cooldown": cooldown,
            "--tmux": pane,
            "--client": client,
            "--say": say,
            "--threshold": threshold,
            "--context-limit": context_limit,
            "--projects": listed.absolute() if listed else None,
            "--project": project_dir.absolute(),
        }
        words = [str(word) for name, value in more.items() if value is not None for word in (name, value)]
        return start_in_background(roots[0], [*words, *(["--drain"] if drain else [])])
    limits = Limits(end, max_cost, max_hours, jobs, cooldown)
    arguments = {"until": until, "cost": max_cost, "hours": max_hours, "projects": [str(root) for root in roots]}
    listener = event_printer(several=len(roots) > 1)
    options = daemon.DaemonOptions(poll, drain, pane is not None, listener)
    world = _terminal_world(roots, pane, client, say, threshold, context_limit) if pane else None
    reason = daemon.run(roots, limits, options, arguments, world)
    return Answer({"ended": reason}, [f"autoloop ended: {reason}"], next_step="reflectloop report")


def event_printer(*, several: bool) -> Callable[[str, Mapping[str, Any]], None]:
    """Return a function that prints one plain line for each line of the log; with --json it prints nothing."""
    from datetime import datetime

    def write(project: str, record: Mapping[str, Any]) -> None:
        if render.wants_json():
            return
        at = datetime.fromisoformat(str(record["at"])).astimezone()
        where = [Path(project).name] if several else []
        name = [] if record["action"] == "notify" else [record.get("title") or record.get("entry")]
        more = [record.get(key) for key in ("standing", "code", "reason")]
        if record["action"] == "notify":
            more = [record["text"]]
        elif record["action"] in ("begin", "continue"):
            more = [f"until {record['until']}" if record.get("until") else "", record.get("began") or project]
        parts = [" ".join(str(part).split()) for part in [*where, *name, *more] if part]
        action = _ACTIONS.get(record["action"], record["action"])
        with contextlib.suppress(OSError):  # nobody reads it any more, which is no reason to stop
            render.echo(f"{at:%H:%M:%S} {action:9} {': '.join(parts)}")

    return write


_ACTIONS = {"notify": "tells", "start failed": "waits", "begin": "begins", "continue": "continues"}
_ACTIONS |= {"start": "starts", "end": "ended", "clear": "clears", "stop": "stops", "over": "is over"}


def _terminal_world(
    roots: list[Path], pane: str, client: str, say: str | None, threshold: float, limit: int | None
) -> LoopWorld:
    """Return the world in which the current task of one project is worked on in a pane of tmux."""
    from reflectloop import config
    from reflectloop.agents import prices
    from reflectloop.autoloop import terminal
    from reflectloop.workspace.folders import open_project_dirs

    if len(roots) != 1:
        raise click.UsageError("--tmux is for one project.")
    root = open_project_dirs(roots[0]).root
    place = terminal.Pane(pane)
    place.look()  # an unknown pane is told at once
    known = prices.load_prices(config.load(root).cost, root)
    driver = terminal.TerminalDriver(place, terminal.CLIENTS[client], known, says=say, threshold=threshold, limit=limit)
    return driver.world()


def continue_in_background(root: Path) -> Answer:
    """Let a daemon carry the current task out: the one that works already, or a new one that ends after it."""
    from reflectloop.autoloop.daemon_files import DaemonFiles
    from reflectloop.workspace.folders import open_project_dirs

    pid = DaemonFiles(open_project_dirs(root)).pid
    if pid is not None:  # it sees the task by itself
        return Answer({"pid": pid}, [f"autoloop works, pid {pid}"], next_step="reflectloop autoloop status")
    return start_in_background(root, ["--drain", "--project", str(root.absolute())])


def start_in_background(root: Path, words: list[str]) -> Answer:
    """Start the daemon as a process of its own, and wait until it holds its lock."""
    from reflectloop.autoloop.daemon_files import DaemonFiles
    from reflectloop.errors import Internal, Locked
    from reflectloop.state import lock
    from reflectloop.system import process
    from reflectloop.workspace.folders import open_project_dirs

    own = DaemonFiles(open_project_dirs(root))
    if own.is_running:
        raise Locked(
            f"another autoloop works in {own.folders.root}: {lock.owner(own.folder / 'lock')}",
            next_step="reflectloop autoloop status; or: reflectloop autoloop stop",
        )
    own.folders.ensure_owned()
    output = own.folder / "output.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "reflectloop", "autoloop", "start", *words, "--foreground", "--json"]
    pid = process.detach(command, output)
    _until(lambda: own.is_running or process.has_ended(pid), _START_S)
    status = "reflectloop autoloop status"
    if not process.has_ended(pid):
        return Answer({"pid": pid}, [f"autoloop works in the background, pid {pid}"], next_step=status)
    envelope = own.read_answer(str(output)).get("envelope") or {}
    if envelope.get("status") == "OK":
        return Answer({"pid": pid}, ["autoloop had nothing to do and ended"], next_step="reflectloop report")
    reason = str(envelope.get("message") or "it ended at once")
    raise Internal(f"autoloop did not start: {reason}", next_step=str(envelope.get("next") or status))


def _until(holds: Callable[[], bool], seconds: float) -> bool:
    from reflectloop.system import clock

    end = clock.monotonic() + seconds
    while not holds():
        if clock.monotonic() > end:
            return False
        clock.wait(_STEP_S)
    return True


@autoloop.command()
@click.option("--finish", is_flag=True, help="Let the running session come to its end first.")
@answers
def stop(finish: bool, project_dir: Path) -> Answer:
    """Stop the daemon of this project. A session that runs is interrupted cleanly, and continued at the next start.

    \b
    Example: reflectloop autoloop stop
    """
    from reflectloop.autoloop import daemon_files
    from reflectloop.errors import NothingToDo
    from reflectloop.workspace.folders import open_project_dirs

    own = daemon_files.DaemonFiles(open_project_dirs(project_dir))
    if not own.is_running:
        raise NothingToDo("no autoloop works here", next_step="reflectloop autoloop start")
    own.ask(daemon_files.FINISH if finish else daemon_files.STOP)
    if not finish and not _until(lambda: not own.is_running, _STOP_S):
        return Answer({"stopped": False}, ["autoloop was asked to stop, and has not ended yet"], exit_code=1)
    text = "autoloop ends after the running session" if finish else "autoloop has ended"
    return Answer({"stopped": not finish}, [text], next_step="reflectloop report")


@autoloop.command()
@answers
def status(project_dir: Path) -> Answer:
    """Show whether the daemon works, what every submitted task needs, and what a person must do.

    \b
    Example: reflectloop autoloop status
    """
    from reflectloop.autoloop import decision, loop
    from reflectloop.autoloop.daemon_files import DaemonFiles
    from reflectloop.autoloop.project_state import ProjectState
    from reflectloop.autoloop.task_view import Standing

    state = ProjectState(project_dir)
    own = DaemonFiles(state.folders)
    memory = loop.with_ended_sessions(own, own.read_memory())
    at_work = {entry for entry, session in memory.sessions.items() if session.runs}
    views = [
        view._replace(standing=Standing.WORKING)
        if view.entry in at_work
        else loop.explained(memory, loop.continued(memory, view))
        for view in decision.with_dependencies(state.views())
    ]
    data = {
        "running": own.is_running,
        "pid": own.pid,
        "heartbeat": own.read_status() or None,
        "tasks": [view._asdict() for view in views],
    }
    lines = [f"autoloop works, pid {own.pid}" if own.is_running else "autoloop is not running here"]
    for view in views:
        lines.append(f"  {view.entry}  {view.standing:10}  {view.title}")
        lines += [f"      {one_line(view.reason)}"] if view.reason else []
        lines += [f"      next: {view.next_command}"] if view.next_command and not view.standing.is_over else []
    follow = "reflectloop autoloop stop" if own.is_running else "reflectloop autoloop start"
    return Answer(data, lines, next_step=follow)


@autoloop.command()
@_PROJECTS
@_COOLDOWN
@answers
def once(listed: Path | None, cooldown: float, project_dir: Path) -> Answer:
    """Look once, and start the session that is due; a running daemon is asked to look instead.

    Exits 0 also where nothing can be done: inside of a sandbox, or while an engine works.

    \b
    Example: reflectloop autoloop once
    """
    from reflectloop.autoloop import daemon, daemon_files
    from reflectloop.autoloop.task_view import Limits
    from reflectloop.errors import Locked
    from reflectloop.workspace.folders import open_project_dirs

    roots = _roots(project_dir, listed)
    folders = open_project_dirs(roots[0])
    if not folders.own.is_dir():
        return Answer({"action": "none"}, ["there is no task here; autoloop did nothing"])
    own = daemon_files.DaemonFiles(folders)
    if own.is_running:
        own.ask(daemon_files.ONCE)
        return Answer({"action": "asked", "pid": own.pid}, [f"autoloop, pid {own.pid}, was asked to look"])
    try:
        started = daemon.once(roots, Limits(cooldown_s=cooldown))
    except Locked as fault:
        return Answer({"action": "none"}, [f"autoloop did nothing: {fault.message}"])
    lines = [f"started: {' '.join(('reflectloop', *session.words))}, pid {session.pid}" for session in started]
    data = {"action": "started" if started else "none", "sessions": [session._asdict() for session in started]}
    return Answer(data, lines or ["nothing is due; autoloop did nothing"])


@autoloop.command()
@click.option(
    "--lines", "-n", "count", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Of the end."
)
@answers
def logs(count: int, project_dir: Path) -> Answer:
    """Print the end of the daemon's log: one JSON document for each action.

    \b
    Example: reflectloop autoloop logs -n 20
    """
    import json

    from reflectloop.autoloop.daemon_files import DaemonFiles
    from reflectloop.workspace.folders import open_project_dirs

    own = DaemonFiles(open_project_dirs(project_dir))
    lines = own.log_lines(count)

    def records() -> Iterator[Any]:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def print_lines() -> None:
        for line in lines:
            render.print_raw(render.redacted(line))

    return Answer(list(records()), print_lines)


@autoloop.command()
@click.argument("task")
@answers
def land(task: str, project_dir: Path) -> Answer:
    """Land the proven change of a submitted TASK on the branch of [autoloop], verified again on the branch as it is.

    \b
    Example: reflectloop autoloop land Q-20260101-abcdef
    """
    from reflectloop.autoloop import landing
    from reflectloop.autoloop.project_state import ProjectState

    result = landing.land(ProjectState(project_dir), task)
    if result.get("commit"):
        text = f"{task} landed on {result['branch']} as {str(result['commit'])[:12]}"
    else:
        text = f"{task} does not land: {result['reason']}"
    return Answer(result, [text], next_step="reflectloop autoloop status", exit_code=0 if result.get("commit") else 34)


@click.command()
@click.argument("goal", required=False)
@click.option("--plan", type=click.Path(path_type=Path), metavar="PLAN", help="A plan to run, instead of a goal.")
@click.option("--title", default="", help="The name of the task in reports (default: the plan's, or the goal).")
@click.option("--executor", default="", metavar="AGENT", help="The agent that executes its steps.")
@click.option("--after", multiple=True, metavar="TASK", help="Begin when this task is proven; can be repeated.")
@click.option("--priority", type=click.IntRange(-1000, 1000), default=0, help="Higher ones begin first.")
@click.option("--withdraw", metavar="TASK", help="Take a submission back.")
@answers
def submit(
    goal: str | None,
    plan: Path | None,
    title: str,
    executor: str,
    after: tuple[str, ...],
    priority: int,
    withdraw: str | None,
    project_dir: Path,
) -> Answer:
    """Put a task into the queue of `autoloop`: a GOAL that agents plan, or a PLAN, of which a copy is kept.

    \b
    Example: reflectloop submit --plan fix.yaml --after Q-20260101-abcdef
    """
    from reflectloop import config
    from reflectloop.autoloop.submissions import NewSubmission, SubmissionQueue
    from reflectloop.terms import Role
    from reflectloop.workspace.folders import open_project_dirs

    queue = SubmissionQueue(open_project_dirs(project_dir))
    if withdraw:
        queue.withdraw(withdraw, "withdrawn by the user")
        return Answer({"id": withdraw}, [f"{withdraw} is withdrawn"], next_step="reflectloop autoloop status")
    entry = queue.submit(NewSubmission(goal or "", plan, title, executor, after, priority))
    next_step, warnings = "reflectloop autoloop start", []
    if goal and config.load(queue.folders.root).roles.bound_to(Role.PLANNER) is None:
        next_step = 'planner = "NAME" under [roles] in reflectloop.toml'
        warnings = [Note("warning: no agent is bound to the planner, so nobody can plan this goal yet")]
    lines = [f"{entry.id} is queued: {entry.title}", *warnings, Note(f"next: {next_step}")]
    return Answer(entry._asdict(), lines, next_step=next_step)


@click.command()
@click.option(
    "--since", default="12h", show_default=True, metavar="TIME", help="As 8h, 90m, 22:00 or a date with time."
)
@_PROJECTS
@click.option(
    "--html", "page", type=click.Path(path_type=Path), metavar="FILE", help="Also write one HTML page with plots."
)
@answers
def report(since: str, listed: Path | None, page: Path | None, project_dir: Path) -> Answer:
    """Report what every task came to: proven, waiting for a person with its question, failed and why; cost and time.

    \b
    Example: reflectloop report --since 8h --html night.html
    """
    from reflectloop.autoloop import night_report, typed
    from reflectloop.system import clock, files

    now = clock.now()
    made = night_report.make(_roots(project_dir, listed), typed.past_time(since, now), now)
    if page:
        from reflectloop.autoloop import report_page

        files.write_atomic(page, report_page.page(made))
    lines = [*night_report.markdown(made), *([Note(f"page: {page}")] if page else [])]
    return Answer(made.as_data(), lines, written=[page] if page else [])
