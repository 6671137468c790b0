"""The commands `status`, `tasks`, `show`, `log`, `diff`, `shell` and `route`. They change nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import click

from reflectloop.cli import render
from reflectloop.cli.render import Answer, answers, both_results, echo, echo_as_is, harmless, heading, paint
from reflectloop.commands import task_status
from reflectloop.terms import OutcomeWord, describe_level


@click.command()
@click.option("--all", "everything", is_flag=True, help="List every task, every run and every verification.")
@answers
def status(everything: bool, project_dir: Path) -> Answer:
    """Show the current task, its runs, a newer verification, and the workspaces on disk; with --all everything.

    \b
    Example: reflectloop status --all
    """
    state = task_status.status(project_dir, everything=everything)
    return Answer(state, _status_lines(state), next_step=state["next"])


def _status_lines(state: dict[str, Any]) -> Iterator[str]:
    task = state["task"]
    if task:
        plan = f"  ({task['plan_path']})" if task["plan_path"] else ""
        yield f"{task['id']}  {task['title']}{plan}"
    for run in state["runs"]:
        mark = {"ok": paint("green", "✓"), "failed": paint("red", "✗")}.get(run["status"], "…")
        mark = paint("yellow", "?") if run["outcome"] == OutcomeWord.REVIEW else mark
        detail = run["error_code"] or (f"{run['touched']} file(s) changed" if run["touched"] is not None else "")
        detail = f"{run['outcome']} ({detail})" if run["outcome"] and detail else run["outcome"] or detail
        steps = f"{run['steps_done']}/{run['steps_total']} steps"
        yield f"  {mark} {run['run_id']}  {steps}  {detail}  {run['note']}".rstrip()
    for check in state["verifications"]:
        marks = {"PASS": paint("green", "✓"), "REVIEW": paint("yellow", "?"), None: "…"}
        mark = marks.get(check["outcome"], paint("red", "✗"))
        reason = f"  {check['reasons'][0]}" if check["reasons"] else ""
        yield f"  {mark} {check['run_id']}  {check['command']}  {check['outcome'] or 'not finished'}{reason}"
    yield from _step_lines(state["step"])
    yield from _cost_lines(state["cost"], state["step"])
    for fix in state["known_fixes"]:
        yield f"{paint('dim', 'known:')} {render.fix_line(fix)}"
    for warning in state["warnings"]:
        yield f"{paint('yellow', '!')} {warning}"
    if state["torn_apply"]:
        yield f"{paint('red', '!')} an apply was killed; the next run or apply restores your files first"
    if state["stop"]:
        yield f"{paint('red', '!')} stopped by {state['stop']['error_code']}: {state['stop']['reason']}"
    if not state["runs"] and not state["verifications"]:
        yield "nothing has run here yet"
    spaces = state["workspaces"]
    if spaces["count"]:
        size = render.format_size(spaces["bytes"])
        yield f"{spaces['count']} workspace(s) on disk, {size}; reflectloop gc --all removes them"
    yield f"{paint('dim', 'next:')} {state['next']}"


def _step_lines(step: dict[str, Any] | None) -> Iterator[str]:
    """Yield the step in progress, and the question that it waits for."""
    if step:
        attempt = f", attempt {step['attempts']}" if step["attempts"] else ""
        yield f"step {step['id']}: {step['title']} ({step['status']}{attempt})"
        if step["question"]:
            yield f"{paint('yellow', '?')} {step['question']}"


def _cost_lines(cost: dict[str, Any] | None, step: dict[str, Any] | None) -> Iterator[str]:
    if cost:
        from reflectloop.artifacts import usage

        yield from usage.usage_lines(cost, step["id"] if step else "")


@click.command("tasks")
@click.option("--use", metavar="TASK", help="Make this task the current one, to which other commands apply.")
@answers
def tasks(use: str | None, project_dir: Path) -> Answer:
    """List every task of this project, its state and its progress.

    \b
    Example: reflectloop tasks
    """
    if use:
        from reflectloop.commands import task_control

        result = task_control.use(project_dir, use)
        lines = [result.message, f"next: {result.next_step}"]
        return Answer(result.as_data(), lines, next_step=result.next_step)
    known = task_status.all_tasks(project_dir)
    lines = [
        f"{'*' if task['current'] else ' '} {task['id']}  {task['state']:12}  "
        f"{task['steps_done']}/{task['steps_total']} steps  {task['title']}"
        for task in known
    ]
    return Answer(known, lines or ["no task has been opened here"], next_step="reflectloop status")


@click.command()
@click.argument("run", required=False)
@answers
def show(run: str | None, project_dir: Path) -> Answer:
    """Show what RUN or a verification did, or why it stopped (default: the latest).

    \b
    Example: reflectloop show RLOP-20260101-abcdef
    """
    verification = task_status.verification(project_dir, run)
    if verification:
        return Answer(verification, _verification_lines(verification), next_step=_after_verification(verification))
    return Answer(lambda: task_status.result(project_dir, run), lambda: echo(task_status.summary(project_dir, run)))


def _verification_lines(shown: dict[str, Any]) -> Iterator[str]:
    verdict = shown["verdict"] or {}
    level = f", evidence {describe_level(shown['level'])}" if shown["level"] else ""
    track = f", track {shown['track']}" if shown["track"] else ""
    yield f"{shown['run_id']}: {shown['command']}: {shown['outcome'] or 'not finished'}{level}{track}"
    for reason in verdict.get("reasons") or shown["reasons"]:
        if isinstance(reason, str):
            yield f"  {reason}"
            continue
        finding, details = f"{reason['finding']} " if reason.get("finding") else "", reason.get("details") or ()
        yield f"  {finding}{heading(reason['text'], details)}"
        yield from (f"      {line}" for line in details)
    for item in shown["approvals"]:
        yield f"  approved {item['text']}; {item['approval']}"
    for check in verdict.get("checks", ()):
        yield f"  {check['name']}: {both_results(check)}"
    for fault in verdict.get("faults", ()):
        from reflectloop.diagnosis.log_diagnosis import CheckFault

        yield from (f"  {line}" for line in CheckFault(**fault).lines())
    yield from (f"  log: {path}" for path in shown["logs"])
    yield f"next: {_after_verification(shown)}"


def _after_verification(shown: dict[str, Any]) -> str:
    if shown["outcome"] == OutcomeWord.REVIEW:
        from reflectloop.artifacts import next_command

        return next_command.approve(shown["run_id"])
    return f"reflectloop log {shown['run_id']} [CHECK]"


@click.command()
@click.argument("run", required=False)
@click.argument("step", required=False)
@click.option("--follow", "-f", is_flag=True, help="Continue printing until the run ends.")
@answers
def log(run: str | None, step: str | None, follow: bool, project_dir: Path) -> Answer | None:
    """Print the output of the commands of RUN, or of its STEP (default: the latest).

    RUN may be a verification, and STEP one of its checks.

    \b
    Example: reflectloop log latest P-2
    """
    if follow:
        if render.wants_json():
            raise click.UsageError("--follow prints while the run goes on; leave --json out.")
        task_status.follow(project_dir, run, step, lambda text: click.echo(harmless(text), nl=False))
        return None
    logs = task_status.logs(project_dir, run, step)
    return Answer(
        lambda: [{"path": str(path), "text": path.read_text("utf-8", "replace")} for path in logs],
        lambda: _print_logs(logs, task_status.log_titles(project_dir, run, logs)),
    )


def _print_logs(logs: list[Path], titles: list[str]) -> None:
    for path, title in zip(logs, titles, strict=True):
        if len(logs) > 1:
            echo(paint("bold", f"== {title}"))
        if path.stat().st_size:
            _print_log(path)
        else:
            echo(paint("dim", "(no output)"), err=True)


def _print_log(path: Path) -> None:
    """Print a log: unchanged to a file or pipe, without control sequences to a terminal."""
    with path.open("rb") as file:
        for line in file:
            text = "\n".join(render.plain(line)) if sys.stdout.isatty() else line.decode("utf-8", "replace")
            click.echo(text.removesuffix("\n"))


class _ShellCommand(click.Command):
    """A command that takes all words after `--` as the program to run, with or without a run before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" not in args:
            return super().parse_args(ctx, args)
        place = args.index("--")
        ctx.meta["after"] = tuple(args[place + 1 :])
        ctx.allow_interspersed_args, ctx.ignore_unknown_options = True, False
        return super().parse_args(ctx, args[:place])


@click.command(cls=_ShellCommand, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("run", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@answers
def shell(run: str | None, command: tuple[str, ...], project_dir: Path) -> None:
    """Open a shell, or run COMMAND, in the saved workspace of RUN (default: the latest run).

    It has the same environment as the commands of the run, and is not recorded.

    \b
    Example: reflectloop shell -- git status
    """
    if render.wants_json():
        raise click.UsageError("a shell has no JSON; see 'reflectloop show --json'.")
    from reflectloop.commands import shell as shells

    after = click.get_current_context().meta.get("after", ())
    sys.exit(shells.open_in(project_dir, run, (*command, *after), lambda line: echo(line, err=True)))


@click.command()
@click.argument("run", required=False)
@click.option("--stat", is_flag=True, help="Show only the names of the files and what happened to them.")
@answers
def diff(run: str | None, stat: bool, project_dir: Path) -> Answer:
    """Show what RUN changed (default: the latest run), even if it failed.

    \b
    Example: reflectloop diff --stat
    """
    change = task_status.change(project_dir, run)

    def data() -> dict[str, Any]:
        return {
            "run_id": change.run_id,
            "base": change.base,
            "end": change.end,
            "touched_files": [file._asdict() for file in change.touched],
            "patch": None if stat else _patch_text(change),
        }

    next_step = f"reflectloop apply {change.run_id}"
    if stat:
        return Answer(data, [f"{file.change:13} {file}" for file in change.touched], next_step=next_step)
    return Answer(data, lambda: _print_patch(change), next_step=next_step)


def _print_patch(change: task_status.DiffView) -> None:
    if sys.stdout.isatty():
        with ColouredPatch() as patch:
            change.stream(patch.take, exact=False)
    else:
        change.stream(_write, exact=True)  # exact, so that `git apply` can read it
        sys.stdout.flush()


def _write(chunk: bytes) -> None:
    sys.stdout.buffer.write(chunk)


def _patch_text(change: task_status.DiffView) -> str:
    parts: list[bytes] = []
    change.stream(parts.append, exact=True)
    return b"".join(parts).decode("utf-8", "replace")


class ColouredPatch:
    """Prints a patch in colours, line by line as it is read."""

    _SHADES: ClassVar = {b"+": "green", b"-": "red", b"@": "dim", b"d": "bold"}

    def __init__(self) -> None:
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rest:
            self._print(self._rest)

    def take(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._print(line)

    def _print(self, line: bytes) -> None:
        text = "".join(render.plain(line))
        shade = self._SHADES.get(line[:1])
        echo_as_is(paint(shade, text) if shade else text)


@click.command()
@answers
def route(project_dir: Path) -> Answer:
    """Show what the last failure needs (research, a new plan, an answer, a retry or an unlock), and the command for it.

    \b
    Example: reflectloop route --json
    """
    from reflectloop.commands import route

    chosen = route.route(project_dir)
    then = [f"then: {chosen.then}"] if chosen.then else []
    lines = [f"{chosen.route}: {chosen.why}", f"next: {chosen.command}", *then]
    return Answer(chosen.as_data(), lines, next_step=chosen.command)
