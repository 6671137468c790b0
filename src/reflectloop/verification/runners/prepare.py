"""Build the command of a check that also writes a machine-readable report, without touching the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.runners.command_recognition import RunnerCall, call
from reflectloop.verification.runners.select import SELECTORS
from reflectloop.verification.runners.tools import TOOLS, RunnerTool

# A patch can forge the ids in a report, so none may be read as an option or a file of options.
_NOT_A_NAME = ("-", "@")
SCRIPT_RUNNERS = ("npm", "pnpm", "yarn", "bun")


class PreparedCommand(NamedTuple):
    """A command to run, and where its report will be."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    # The requested path, or a pattern relative to the check's folder for files the tool names. None: its output.
    report: Path | None = None
    format: str | None = None  # None: plain text
    restricted: bool = False  # True if only the selected tests run
    stand_in: Path | None = None  # a file of the engine that must be in the report's folder


def selection(check: DetectedCheck, tests: Sequence[str]) -> tuple[str, ...] | None:
    """Return the arguments that make the check's tool run only these tests, or None if it has no such option."""
    selector = SELECTORS.get(check.tool)
    if selector is None or not tests or any(test.startswith(_NOT_A_NAME) for test in tests):
        return None
    return selector.words(tests)


def prepare(check: DetectedCheck, *, report: Path, only: Sequence[str] = ()) -> PreparedCommand:
    """Return the command to run.

    The folder of `report` must exist and be used by this check only.
    """
    tool = TOOLS.get(check.tool)
    if tool is None:
        return PreparedCommand(check.command)
    report_arguments = tuple(_filled(argument, report) for argument in tool.arguments)
    chosen = selection(check, only) or ()
    if is_script(check.command):
        return _through_script(check, tool, report_arguments, chosen, report)
    parsed = call(check.command)
    if parsed is None or parsed.tool != check.tool:
        return PreparedCommand(check.command, tool.env)
    if tool.stand_in:
        return _with_stand_in(parsed, tool, report_arguments, chosen, report)
    argv = _joined(parsed, tool, report_arguments, chosen, replaces=bool(chosen) and SELECTORS[check.tool].replaces)
    return PreparedCommand(argv, tool.env, _place(tool, report), tool.format, restricted=bool(chosen))


def is_script(command: Sequence[str]) -> bool:
    """Return True if a package manager runs the tool through a script."""
    return bool(command) and PurePosixPath(command[0]).name in SCRIPT_RUNNERS and call(command) is None


def _filled(argument: str, report: Path) -> str:
    for name, path in (("{report}", f"{report}"), ("{kept}", f"{report}.kept"), ("{beside}", f"{report.parent}")):
        argument = argument.replace(name, path)
    return argument


def _place(tool: RunnerTool, report: Path) -> Path | None:
    places = {"file": report, "folder": report, "beside": report.parent / tool.own, "own": Path(tool.own)}
    return places.get(tool.place)


def _through_script(
    check: DetectedCheck, tool: RunnerTool, report_arguments: tuple[str, ...], chosen: tuple[str, ...], report: Path
) -> PreparedCommand:
    place = _place(tool, report)
    if check.tool == "node-test":  # node would take added arguments for test files
        env = {**tool.env, "NODE_OPTIONS": " ".join(report_arguments)}
        return PreparedCommand(check.command, env, place, tool.format)
    extra = (*report_arguments, *chosen)
    # pnpm, yarn and bun pass on all that follows, including `--`.
    joint = ("--",) if extra and PurePosixPath(check.command[0]).name == "npm" and "--" not in check.command else ()
    return PreparedCommand((*check.command, *joint, *extra), tool.env, place, tool.format, restricted=bool(chosen))


def _joined(
    parsed: RunnerCall, tool: RunnerTool, report_arguments: tuple[str, ...], chosen: tuple[str, ...], *, replaces: bool
) -> tuple[str, ...]:
    before, after = _at_dashes(parsed.arguments)
    project_options = _options(before, tool.valued) if replaces else before
    options = (*report_arguments, *project_options) if tool.leading else (*project_options, *report_arguments)
    if chosen[:1] == ("--",):
        return (*parsed.lead, *options, *(after or ("--",)), *chosen[1:])
    return (*parsed.lead, *options, *chosen, *after)


def _with_stand_in(
    parsed: RunnerCall, tool: RunnerTool, report_arguments: tuple[str, ...], chosen: tuple[str, ...], report: Path
) -> PreparedCommand:
    """Run the stand-in instead of `-m MODULE`; if another module runs it, rely on its text output."""
    argv = _joined(parsed, tool, report_arguments, chosen, replaces=False)
    at = len(parsed.lead) - 2
    if "-m" in parsed.lead[:at]:
        return PreparedCommand(argv, tool.env, restricted=bool(chosen))
    ours = (f"{report.parent / tool.stand_in}", f"{report}")
    return PreparedCommand(
        (*argv[:at], *ours, *argv[at + 2 :]),
        tool.env,
        report,
        tool.format,
        restricted=bool(chosen),
        stand_in=Path(__file__).with_name(tool.stand_in),
    )


def _at_dashes(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at:]


def _options(arguments: tuple[str, ...], valued: frozenset[str]) -> tuple[str, ...]:
    """Return the arguments that are options or their values; the others name what to run."""
    options: list[str] = []
    for place, argument in enumerate(arguments):
        if argument.startswith("-") or (place and arguments[place - 1] in valued):
            options.append(argument)
    return tuple(options)
