"""Build the command of a check that also writes a machine-readable report, without touching the project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from reflectloop.verification.result import DetectedCheck
from reflectloop.verification.tools.commands import call, is_script
from reflectloop.verification.tools.record import Run, RunnerCall
from reflectloop.verification.tools.registry import by_name

# A patch can forge the ids in a report, so none may be read as an option or a file of options.
_NOT_A_NAME = ("-", "@")


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
    tool = by_name().get(check.tool)
    selector = tool.select if tool else None
    if selector is None or not tests or any(test.startswith(_NOT_A_NAME) for test in tests):
        return None
    return selector.words(tests)


def prepare(check: DetectedCheck, *, report: Path, only: Sequence[str] = ()) -> PreparedCommand:
    """Return the command to run.

    The folder of `report` must exist and be used by this check only.
    """
    tool = by_name().get(check.tool)
    if tool is None or tool.run is None:
        return PreparedCommand(check.command)
    run, env = tool.run, {name: _filled(value, report) for name, value in (tool.run.env or {}).items()}
    report_arguments = tuple(_filled(argument, report) for argument in _accepted(run, check.command))
    chosen = selection(check, only) or ()
    if is_script(check.command):
        return _through_script(check, run, env, report_arguments, chosen, report)
    parsed = call(check.command)
    if parsed is None or parsed.tool != check.tool:
        return PreparedCommand(check.command, env)
    if run.stand_in:
        return _with_stand_in(parsed, run, run.stand_in, report_arguments, chosen, report)
    replaces = bool(chosen and tool.select and tool.select.replaces)
    argv = _joined(parsed, run, report_arguments, chosen, replaces=replaces)
    return PreparedCommand(argv, env, _place(run, report), run.format, restricted=bool(chosen), stand_in=run.reporter)


def collects(check: DetectedCheck, path: str) -> bool:
    """Return True if a check would run this test file, by its folder and its language."""
    inside = check.cwd in (".", "") or path.startswith(f"{check.cwd.rstrip('/')}/")
    tool = by_name().get(check.tool)
    endings = tool.endings if tool else ()
    return inside and (not endings or path.endswith(endings))


def _accepted(run: Run, command: Sequence[str]) -> Iterator[str]:
    """Yield the arguments for a report that the tool accepts beside those of the project's command."""
    beside = (run.refused_beside or {}).items()
    refused = [argument for end, argument in beside if any(word.endswith(end) for word in command)]
    return (argument for argument in run.arguments if argument not in refused)


def _filled(argument: str, report: Path) -> str:
    for name, path in (("{report}", f"{report}"), ("{kept}", f"{report}.kept"), ("{beside}", f"{report.parent}")):
        argument = argument.replace(name, path)
    return argument


def _place(run: Run, report: Path) -> Path | None:
    places = {"file": report, "folder": report, "beside": report.parent / run.own, "own": Path(run.own)}
    return places.get(run.place)


def _through_script(
    check: DetectedCheck,
    run: Run,
    env: Mapping[str, str],
    report_arguments: tuple[str, ...],
    chosen: tuple[str, ...],
    report: Path,
) -> PreparedCommand:
    place = _place(run, report)
    if run.options_variable:
        env = {**env, run.options_variable: " ".join(report_arguments)}
        return PreparedCommand(check.command, env, place, run.format)
    extra = (*report_arguments, *chosen)
    # pnpm, yarn and bun pass on all that follows, including `--`.
    joint = ("--",) if extra and PurePosixPath(check.command[0]).name == "npm" and "--" not in check.command else ()
    argv = (*check.command, *joint, *extra)
    return PreparedCommand(argv, env, place, run.format, restricted=bool(chosen), stand_in=run.reporter)


def _joined(
    parsed: RunnerCall, run: Run, report_arguments: tuple[str, ...], chosen: tuple[str, ...], *, replaces: bool
) -> tuple[str, ...]:
    before, after = _at_dashes(parsed.arguments)
    project_options = _options(before, run.valued) if replaces else before
    options = (*report_arguments, *project_options) if run.leading else (*project_options, *report_arguments)
    if chosen[:1] == ("--",):
        return (*parsed.lead, *options, *(after or ("--",)), *chosen[1:])
    return (*parsed.lead, *options, *chosen, *after)


def _with_stand_in(
    parsed: RunnerCall,
    run: Run,
    stand_in: Path,
    report_arguments: tuple[str, ...],
    chosen: tuple[str, ...],
    report: Path,
) -> PreparedCommand:
    """Run the stand-in instead of `-m MODULE`; if another module runs it, rely on its text output."""
    argv = _joined(parsed, run, report_arguments, chosen, replaces=False)
    at = len(parsed.lead) - 2
    if "-m" in parsed.lead[:at]:
        return PreparedCommand(argv, run.env or {}, restricted=bool(chosen))
    ours = (f"{report.parent / stand_in.name}", f"{report}")
    return PreparedCommand(
        (*argv[:at], *ours, *argv[at + 2 :]),
        run.env or {},
        report,
        run.format,
        restricted=bool(chosen),
        stand_in=stand_in,
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
