"""The program's entry: finds the command, and is the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Sequence

import click

import reflectloop

# Commands are imported when they are called: `--help` and `--version` stay quick.
COMMANDS = {
    "init": ("setup", "Write reflectloop.toml and a first plan."),
    "demo": ("demo", "Play the main story on a bundled sample project."),
    "doctor": ("setup", "Say what this machine has, lacks and reaches."),
    "agents": ("agents", "List the agents: bound, installed, what each can do and lacks."),
    "config": ("setup", "Show the settings in force and where each comes from."),
    "trust": ("trust", "Show what the project's settings would allow, and agree to it."),
    "plan": ("plan", "Check or show a plan; print its JSON Schema."),
    "tp": ("agent_tasks", "Make a plan of a goal, with agents that plan."),
    "tr": ("agent_tasks", "Work on the current task's steps, to the gates' last word."),
    "review": ("agent_tasks", "Review what the current task has come to."),
    "run": ("run", "Run a plan in an isolated copy of the project."),
    "resume": ("run", "Go on with a run whose engine died."),
    "pause": ("control", "Stop a run before its next step; `resume` goes on."),
    "abort": ("control", "Give a task up for good."),
    "skip": ("control", "Leave a step out, saying why."),
    "redo": ("control", "Do a step again, and all that built on it."),
    "rewind": ("control", "Go back to before a step."),
    "answer": ("control", "Answer what a blocked step asked."),
    "fork": ("control", "Open a new task that stands where this one stood before a step."),
    "tasks": ("status", "List every task and its state."),
    "import-state": ("import_state", "Open a task from a TriFlow state.json."),
    "retry": ("run", "Run a failed task again, saying what was mended."),
    "unlock": ("run", "Lift the latch that a leak, an escape or too many failures set."),
    "route": ("run", "Say what the last failure needs, and the command for it."),
    "status": ("status", "Show the current task and its runs."),
    "show": ("status", "Show what a run did, or why it stopped."),
    "log": ("status", "Print what a run's commands printed."),
    "diff": ("status", "Show what a run changed."),
    "shell": ("status", "Open a shell in the workspace of a failed run."),
    "apply": ("apply", "Put a run's change onto your tree, a commit or a branch."),
    "verify": ("verify", "Judge a change by sealed runs of the project's own checks."),
    "gate": ("gate", "Put a change with its contract through the four gates."),
    "protected": ("receipt", "List the files that judge a change, and why."),
    "receipt": ("receipt", "Show or check the evidence behind a decision."),
    "fileops": ("fileops", "Carry out a request of an agent or a script, all or nothing."),
    "template": ("fileops", "Print a valid request, made from a template."),
    "policy": ("policy", "Judge a command before it runs; list and explain the rules."),
    "scan": ("scan", "Look for secrets in files, a stream, or commits."),
    "diagnose": ("diagnose", "Say what a log or a report of any tool says."),
    "critic": ("reflect", "Judge an output by its requirements; what falls short gets a ticket."),
    "reflect": ("reflect", "Reflect on a ticket or a failed run in six steps; try a repair."),
    "call": ("call", "Run a command as a tool: failures are diagnosed, retried where safe, never silent."),
    "detect": ("detect", "Say which checks the project has, and by what sign."),
    "lessons": ("lessons", "Keep and find what earlier work taught."),
    "gc": ("apply", "Take away workspaces that are not needed any more."),
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"reflectloop.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            close = difflib.get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f" Did you mean '{close[0]}'?" if close else " See 'reflectloop --help'."
            raise click.UsageError(f"There is no command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(reflectloop.__version__, prog_name="reflectloop")
def cli() -> None:
    """Run a plan in an isolated copy of a repository; let only proven work through.

    \b
    Begin:   reflectloop init && reflectloop run
    Then:    reflectloop diff && reflectloop apply
    """


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and leave with the code the table says."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.platform == "win32":
        sys.exit("reflectloop needs Linux; on Windows run it inside WSL")
    try:
        cli.main(args=arguments, prog_name="reflectloop", standalone_mode=False)
    except click.exceptions.Exit as left:
        sys.exit(left.exit_code)
    except click.ClickException as usage:
        sys.exit(_refuse_usage(usage, arguments))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # The reader went away (`| head`); that is no fault of ours or theirs.
        sys.stderr.close()
        sys.exit(0)
    except Exception as fault:  # noqa: BLE001 - the boundary: everything becomes a code here, and only here
        from reflectloop.cli.render import refuse

        sys.exit(refuse(fault, arguments))
    finally:
        _warn_of_ignored(arguments)


def _warn_of_ignored(arguments: list[str]) -> None:
    """Only a command that read settings has something to say, and has imported what says it."""
    if "reflectloop.trust" in sys.modules:
        from reflectloop.cli.render import warn_of_ignored

        with contextlib.suppress(OSError, ValueError):  # standard error is closed: there is nobody to tell
            warn_of_ignored(arguments)


def _refuse_usage(usage: click.ClickException, arguments: list[str]) -> int:
    if "--json" in arguments:
        from reflectloop.cli.render import usage_as_json

        usage_as_json(usage.format_message(), arguments)
    else:
        usage.show()
    return usage.exit_code
