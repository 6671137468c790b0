"""`status`, `show`, `log`, `diff`: what there is, read only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar, Self

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, harmless, say
from reflectloop.engine.artifacts import task_status


@click.command()
@click.option("--all", "everything", is_flag=True, help="List every run, not only the current task's.")
@common
def status(everything: bool, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Show the current task, its runs, and the workspaces on disk.

    \b
    Example: reflectloop status --all
    """
    seen = task_status.status(project_dir, everything=everything)
    if as_json:
        render.answer("status", seen, next_step=seen["next"])
        return
    paint = colours()
    if seen["task"]:
        plan = f"  ({seen['task']['plan_path']})" if seen["task"]["plan_path"] else ""
        say(f"{seen['task']['id']}  {seen['task']['title']}{plan}")
    for one in seen["runs"]:
        mark = {"ok": paint("green", "✓"), "failed": paint("red", "✗")}.get(one["status"], "…")
        detail = one["error_code"] or (f"{one['touched']} file(s) changed" if one["touched"] is not None else "")
        done = f"{one['steps_done']}/{one['steps_total']} steps"
        say(f"  {mark} {one['run_id']}  {done}  {detail}  {one['note']}".rstrip())
    _tell_step(seen["step"])
    _tell_cost(seen["cost"], seen["step"])
    for fix in seen["known_fixes"]:
        say(f"{paint('dim', 'known:')} {render.known_fix(fix)}")
    for warning in seen["warnings"]:
        say(f"{paint('yellow', '!')} {warning}")
    if seen["torn_apply"]:
        say(f"{paint('red', '!')} an apply was killed half way; the next run or apply puts your files back first")
    if seen["stop"]:
        say(f"{paint('red', '!')} stopped by {seen['stop']['error_code']}: {seen['stop']['reason']}")
    if not seen["runs"]:
        say("nothing has run here yet")
    spaces = seen["workspaces"]
    if spaces["count"]:
        say(
            f"{spaces['count']} workspace(s) on disk, {render.size(spaces['bytes'])}; reflectloop gc --all removes them"
        )
    say(f"{paint('dim', 'next:')} {seen['next']}")


def _tell_step(at: dict[str, Any] | None) -> None:
    """The step at work, and what it waits for."""
    if not at:
        return
    tried = f", attempt {at['attempts']}" if at["attempts"] else ""
    say(f"step {at['id']}: {at['title']} ({at['status']}{tried})")
    if at["question"]:
        say(f"{colours()('yellow', '?')} {at['question']}")


def _tell_cost(cost: dict[str, Any] | None, at: dict[str, Any] | None) -> None:
    if not cost:
        return
    from reflectloop.engine.artifacts import usage

    for line in usage.words(cost, at["id"] if at else ""):
        say(line)


@click.command()
@click.argument("run", required=False)
@common
def show(run: str | None, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Show what RUN did, or why it stopped (default: the latest run).

    \b
    Example: reflectloop show RLOP-20260101-abcdef
    """
    if as_json:
        render.answer("show", task_status.result(project_dir, run))
    else:
        say(task_status.summary(project_dir, run))


@click.command()
@click.argument("run", required=False)
@click.argument("step", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on printing until the run ends.")
@common
def log(run: str | None, step: str | None, follow: bool, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Print what the commands of RUN printed, or those of one STEP (default: the latest run).

    \b
    Example: reflectloop log latest P-2
    """
    if follow:
        if as_json:
            raise click.UsageError("--follow prints as it comes; leave --json out.")
        task_status.follow(project_dir, run, step, lambda text: click.echo(harmless(text), nl=False))
        return
    logs = task_status.logs(project_dir, run, step)
    if as_json:
        data = [{"path": str(path), "text": path.read_text("utf-8", "replace")} for path in logs]
        render.answer("log", data)
        return
    for path in logs:
        if len(logs) > 1:
            say(colours()("bold", f"== {path.name}"))
        _copy(path)


def _copy(path: Path) -> None:
    """A log as it is to a file or pipe, harmless to a terminal."""
    from reflectloop.cli.progress import plain

    with path.open("rb") as file:
        for line in file:
            text = "\n".join(plain(line)) if sys.stdout.isatty() else line.decode("utf-8", "replace")
            click.echo(text.removesuffix("\n"))


class _ShellCommand(click.Command):
    """What stands after `--` is the command to run, whether a run was named before it or not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" not in args:
            return super().parse_args(ctx, args)
        place = args.index("--")
        ctx.meta["after"] = tuple(args[place + 1 :])
        ctx.allow_interspersed_args, ctx.ignore_unknown_options = True, False
        return super().parse_args(ctx, args[:place])


@click.command("tasks")
@common
def tasks(project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """List every task of this project, its state and how far it is.

    \b
    Example: reflectloop tasks
    """
    known = task_status.all_tasks(project_dir)
    if as_json:
        render.answer("tasks", known, next_step="reflectloop status")
        return
    for one in known:
        mark = "*" if one["current"] else " "
        say(f"{mark} {one['id']}  {one['state']:12}  {one['steps_done']}/{one['steps_total']} steps  {one['title']}")
    if not known:
        say("no task has been opened here")


@click.command(cls=_ShellCommand, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("run", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@common
def shell(run: str | None, command: tuple[str, ...], project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Open a shell, or run COMMAND, in the workspace kept of RUN (default: the latest run).

    It has the environment the run's commands had, and is not recorded.

    \b
    Example: reflectloop shell -- git status
    """
    if as_json:
        raise click.UsageError("a shell has no JSON; see 'reflectloop show --json'")
    from reflectloop.engine import shell as shells

    typed = click.get_current_context().meta.get("after", ())
    sys.exit(shells.open_in(project_dir, run, (*command, *typed)))


@click.command()
@click.argument("run", required=False)
@click.option("--stat", is_flag=True, help="Only the names of the files and what happened to them.")
@common
def diff(run: str | None, stat: bool, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Show what RUN changed (default: the latest run), also when it failed.

    \b
    Example: reflectloop diff --stat
    """
    change = task_status.change(project_dir, run)
    if as_json:
        data: dict[str, Any] = {"run_id": change.run_id, "base": change.base, "end": change.end}
        data["touched_files"] = [entry._asdict() for entry in change.touched]
        data["patch"] = None if stat else _collected(change)
        render.answer("diff", data, next_step=f"reflectloop apply {change.run_id}")
    elif stat:
        for entry in change.touched:
            say(f"{entry.change:13} {entry}")
    elif sys.stdout.isatty():
        with ColouredPatch() as shown:
            change.stream(shown.take, exact=False)
    else:
        change.stream(_written, exact=True)  # as it is, so that `git apply` can read it
        sys.stdout.flush()


def _written(chunk: bytes) -> None:
    sys.stdout.buffer.write(chunk)


def _collected(change: task_status.DiffView) -> str:
    parts: list[bytes] = []
    change.stream(parts.append, exact=True)
    return b"".join(parts).decode("utf-8", "replace")


class ColouredPatch:
    """A patch for a person's eyes, line by line as it comes."""

    _SHADES: ClassVar = {b"+": "green", b"-": "red", b"@": "dim", b"d": "bold"}

    def __init__(self) -> None:
        self._rest = b""
        self._paint = colours()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rest:
            self._show(self._rest)

    def take(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._show(line)

    def _show(self, line: bytes) -> None:
        from reflectloop.cli.progress import plain

        shown = "".join(plain(line))
        shade = self._SHADES.get(line[:1])
        say(self._paint(shade, shown) if shade else shown)
