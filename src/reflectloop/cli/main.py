"""Finds the command to run. The only place where errors become exit codes."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import click

import reflectloop
from reflectloop.cli import help_pages

if TYPE_CHECKING:  # only a shell that completes a command needs it
    from click.shell_completion import CompletionItem


class CommandEntry(NamedTuple):
    """One command of the list: the module of this package that has it, and its summary."""

    module: str
    summary: str


# Commands are imported when they are called: `--help` and `--version` stay quick.
GROUPS: dict[str, dict[str, CommandEntry]] = {
    "Set up": {
        "init": CommandEntry("setup", "Write reflectloop.toml and a first plan."),
        "demo": CommandEntry("setup", "Run a demonstration on a bundled sample project."),
        "doctor": CommandEntry("setup", "Show what this machine has and lacks, and test its isolation."),
        "agents": CommandEntry("setup", "List the agents, their roles, and what each of them lacks."),
        "config": CommandEntry("setup", "Show the active settings and where each comes from."),
        "trust": CommandEntry("setup", "Show what the project's settings would allow, and agree to it."),
        "gc": CommandEntry("setup", "Remove workspaces that are no longer needed."),
    },
    "Plan and run": {
        "plan": CommandEntry("plan", "Check or show a plan, or print the JSON Schema of plans."),
        "tp": CommandEntry("agent_tasks", "Let agents write a plan for a goal."),
        "run": CommandEntry("run", "Run a plan in an isolated copy of the project."),
        "tr": CommandEntry("agent_tasks", "Execute the current task's steps with agents, then run the gates."),
        "review": CommandEntry("agent_tasks", "Review the work of the current task."),
        "resume": CommandEntry("run", "Continue a run that was paused, interrupted or killed."),
        "retry": CommandEntry("run", "Run a failed task again, saying what was fixed."),
        "import-state": CommandEntry("plan", "Open a task from a TriFlow state.json."),
    },
    "Look at a task": {
        "status": CommandEntry("status", "Show the current task, its runs and the next command."),
        "tasks": CommandEntry("status", "List every task and its state."),
        "show": CommandEntry("status", "Show what a run did, or why it stopped."),
        "log": CommandEntry("status", "Print the output of a run's commands."),
        "diff": CommandEntry("status", "Show what a run changed."),
        "shell": CommandEntry("status", "Open a shell in the workspace of a failed run."),
        "route": CommandEntry("status", "Show what the last failure needs, and the command for it."),
        "brief": CommandEntry("brief", "Print what an agent that knows nothing needs to continue."),
    },
    "Steer a task": {
        "pause": CommandEntry("control", "Stop a run before its next step."),
        "abort": CommandEntry("control", "End a task for good."),
        "skip": CommandEntry("control", "Leave a step out, with a reason."),
        "redo": CommandEntry("control", "Do a step again, and every step that depends on it."),
        "rewind": CommandEntry("control", "Return to the state before a step."),
        "answer": CommandEntry("control", "Answer the question of a blocked step."),
        "fork": CommandEntry("control", "Open a new task from the state before a step."),
        "unlock": CommandEntry("control", "Lift the latch that a leak, an escape or failures set."),
    },
    "Work unattended": {
        "submit": CommandEntry("autoloop", "Put a task into the queue."),
        "autoloop": CommandEntry("autoloop", "Work on queued tasks and the current one unattended."),
        "report": CommandEntry("autoloop", "Report what every task came to, with cost and time."),
    },
    "Judge and apply a change": {
        "verify": CommandEntry("verify", "Verify a change with the project's own checks in fresh copies."),
        "watch": CommandEntry("watch", "Verify the working tree while somebody edits it."),
        "gate": CommandEntry("verify", "Put a change and its contract through the four gates."),
        "approve": CommandEntry("approve", "Say yes to the findings of a change that waits for a person."),
        "apply": CommandEntry("apply", "Apply a run's change to your files, a commit or a branch."),
        "detect": CommandEntry("receipt", "List the project's checks, and what each was detected by."),
        "protected": CommandEntry("receipt", "List the files that judge a change, and why."),
        "receipt": CommandEntry("receipt", "Show or check the evidence behind a decision."),
    },
    "Check commands, files and output": {
        "policy": CommandEntry("policy", "Judge a command before it runs; list and explain the rules."),
        "scan": CommandEntry("scan", "Search files, a stream or commits for secrets."),
        "diagnose": CommandEntry("diagnose", "Explain the log or report of any tool."),
        "context": CommandEntry("context", "Find the code that a text, a failure or a change is about."),
        "call": CommandEntry("call", "Run a command in a sandbox; diagnose a failure, retry if safe."),
        "fileops": CommandEntry("fileops", "Carry out an agent's or script's request, all or nothing."),
        "template": CommandEntry("fileops", "Print a valid request made from a template."),
    },
    "Work inside other agents": {
        "install": CommandEntry("install", "Enter the hooks into the settings of an agent's program."),
        "hook": CommandEntry("hook", "Answer a hook of Claude Code, Codex, Cursor, Copilot or Antigravity."),
        "mcp": CommandEntry("mcp", "Serve this project to an agent by the Model Context Protocol."),
    },
    "Learn from failures": {
        "critic": CommandEntry("reflect", "Judge an output by its requirements; write a ticket."),
        "reflect": CommandEntry("reflect", "Reflect on a ticket or failed run in six steps; try a repair."),
        "lessons": CommandEntry("lessons", "Record and find lessons from earlier work."),
    },
}
COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}
# Names that other tools use for what a command of ours does.
_OTHER_NAMES = {
    "ask": "tp",
    "check": "verify",
    "clean": "gc",
    "continue": "resume",
    "exec": "call",
    "execute": "run",
    "goal": "tp",
    "history": "tasks",
    "knowledge": "lessons",
    "list": "tasks",
    "ls": "tasks",
    "memory": "lessons",
    "merge": "apply",
    "new": "init",
    "rollback": "rewind",
    "search": "context",
    "secrets": "scan",
    "settings": "config",
    "setup": "init",
    "start": "run",
    "stop": "pause",
    "test": "verify",
    "undo": "rewind",
    "unlatch": "unlock",
}


# Commands that show their progress, and load much before they can.
_LARGE = frozenset({"run", "retry", "resume", "tr", "review", "verifying"})


click.Context.formatter_class = help_pages.HelpFormatter


class SuggestingGroup(click.Group):
    """A group that suggests a command where a name is unknown."""

    other_names: ClassVar[Mapping[str, str]] = {}  # unknown name -> the command that does it

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        known = self.list_commands(ctx)
        if name and name not in known and not name.startswith("-"):
            raise click.UsageError(f"There is no command '{name}'. {self._hint(ctx, name, known)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        help_pages.write_commands([(name, command) for name, command in commands if command], formatter)

    def _hint(self, ctx: click.Context, name: str, known: list[str]) -> str:
        if name in self.other_names:
            return f"Use '{ctx.command_path} {self.other_names[name]}'."
        from reflectloop.terms import closest

        close = next((other for other in known if other.startswith(f"{name}-")), None) or closest(name, known, 0.6)
        return f"Did you mean '{close}'?" if close else f"See '{ctx.command_path} --help'."


class LazyGroup(SuggestingGroup):
    """The top-level group, which imports a command's module when the command is called."""

    other_names = _OTHER_NAMES

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        with showing_start(cmd_name):
            module = importlib.import_module(f"reflectloop.cli.{COMMANDS[cmd_name].module}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, commands in GROUPS.items():
            with formatter.section(title):
                # One width for all groups, so that the summaries stand in one column.
                formatter.write_dl([(f"{name:12}", entry.summary) for name, entry in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from the list alone: importing every command on a key press would be slow."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=COMMANDS[name].summary) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


@contextlib.contextmanager
def showing_start(name: str) -> Iterator[None]:
    """Show a word on the terminal while a large command is loaded, which takes seconds on a busy machine."""
    shown = name in _LARGE and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if not shown or not {"--json", "--help", "-h"}.isdisjoint(sys.argv):
        yield
        return
    sys.stderr.write(help_pages.translated("starting"))
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(reflectloop.__version__, prog_name="reflectloop")
def cli() -> None:
    """Run a plan in an isolated copy of a repository; let only proven work through.

    \b
    Start:    reflectloop init && reflectloop run
    Then:     reflectloop diff && reflectloop apply
    More:     reflectloop help COMMAND
    """


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of docs/codes.md."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    arguments = help_pages.choose_language(arguments)
    if sys.platform == "win32":
        sys.exit("reflectloop needs Linux; on Windows run it inside WSL")
    try:
        cli.main(args=arguments, prog_name="reflectloop", standalone_mode=False)
    except click.exceptions.Exit as left:
        sys.exit(left.exit_code)
    except click.ClickException as usage:
        sys.exit(_report_usage(usage, arguments))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(_report_interrupt(arguments))
    except BrokenPipeError:
        # The reader of a pipe ended early (`| head`), which is no error.
        sys.stderr.close()
        sys.exit(0)
    except Exception as fault:  # noqa: BLE001 - the boundary: everything becomes a code here, and only here
        from reflectloop.cli.render import report_error

        sys.exit(report_error(fault, arguments))
    finally:
        _warn_of_ignored(arguments)


def _report_interrupt(arguments: list[str]) -> int:
    """Print that the command was stopped, and return the exit code."""
    from reflectloop.cli.render import report_error
    from reflectloop.errors import Interrupted

    return report_error(Interrupted("stopped by ^C or a signal", next_step="run the same command again"), arguments)


def _warn_of_ignored(arguments: list[str]) -> None:
    """Print which settings were ignored. Only a command that read settings has imported `trust`."""
    if "reflectloop.trust" in sys.modules:
        from reflectloop.cli.render import warn_of_ignored

        with contextlib.suppress(OSError, ValueError):  # standard error may be closed
            warn_of_ignored(arguments)


def _report_usage(usage: click.ClickException, arguments: list[str]) -> int:
    if "--json" in arguments:
        from reflectloop.cli.render import report_usage_as_json

        report_usage_as_json(usage, arguments)
    else:
        _show_usage(usage)
    return usage.exit_code


def _show_usage(usage: click.ClickException) -> None:
    shown = io.StringIO()
    usage.show(shown)
    click.echo(help_pages.translated(shown.getvalue()), err=True, nl=False)
