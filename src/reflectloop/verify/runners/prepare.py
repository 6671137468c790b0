"""Makes of a check the command that also leaves a machine report, without touching the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from reflectloop.verify.result import Detected
from reflectloop.verify.runners.select import SELECTORS
from reflectloop.verify.runners.tools import TOOLS, Tool
from reflectloop.verify.runners.words import Call, call

# Ids come from reports that a patch can forge: none may be read as an option, or as a file of options.
_NOT_A_NAME = ("-", "@")
SCRIPT_RUNNERS = ("npm", "pnpm", "yarn", "bun")


class Prepared(NamedTuple):
    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    # A path asked for; or, relative to the check's folder, a pattern of files the tool names itself. None: its output.
    report: Path | None = None
    format: str | None = None  # None: words
    restricted: bool = False  # True where only what was asked for runs
    stand_in: Path | None = None  # a file of ours that must lie beside the report


def selection(check: Detected, tests: Sequence[str]) -> tuple[str, ...] | None:
    """The arguments by which the check's tool runs these tests alone; None where it cannot be told."""
    selector = SELECTORS.get(check.tool)
    if selector is None or not tests or any(test.startswith(_NOT_A_NAME) for test in tests):
        return None
    return selector.words(tests)


def prepare(check: Detected, *, report: Path, only: Sequence[str] = ()) -> Prepared:
    """The command to run. The folder that `report` lies in must be there, and be for this check alone."""
    tool = TOOLS.get(check.tool)
    if tool is None:
        return Prepared(check.command)
    asked = tuple(_filled(word, report) for word in tool.arguments)
    chosen = selection(check, only) or ()
    if is_script(check.command):
        return _through_script(check, tool, asked, chosen, report)
    seen = call(check.command)
    if seen is None or seen.tool != check.tool:
        return Prepared(check.command, tool.env)
    if tool.stand_in:
        return _by_stand_in(seen, tool, asked, chosen, report)
    argv = _joined(seen, tool, asked, chosen, replaces=bool(chosen) and SELECTORS[check.tool].replaces)
    return Prepared(argv, tool.env, _place(tool, report), tool.format, restricted=bool(chosen))


def is_script(command: Sequence[str]) -> bool:
    """Whether a package manager stands between us and the tool."""
    return bool(command) and PurePosixPath(command[0]).name in SCRIPT_RUNNERS and call(command) is None


def _filled(word: str, report: Path) -> str:
    for name, path in (("{report}", f"{report}"), ("{kept}", f"{report}.kept"), ("{beside}", f"{report.parent}")):
        word = word.replace(name, path)
    return word


def _place(tool: Tool, report: Path) -> Path | None:
    places = {"file": report, "folder": report, "beside": report.parent / tool.own, "own": Path(tool.own)}
    return places.get(tool.place)


def _through_script(
    check: Detected, tool: Tool, asked: tuple[str, ...], chosen: tuple[str, ...], report: Path
) -> Prepared:
    place = _place(tool, report)
    if check.tool == "node-test":  # what follows the script's own words would be files to test
        env = {**tool.env, "NODE_OPTIONS": " ".join(asked)}
        return Prepared(check.command, env, place, tool.format)
    extra = (*asked, *chosen)
    # pnpm, yarn and bun hand on what follows, a `--` included.
    joint = ("--",) if extra and PurePosixPath(check.command[0]).name == "npm" and "--" not in check.command else ()
    return Prepared((*check.command, *joint, *extra), tool.env, place, tool.format, restricted=bool(chosen))


def _joined(
    seen: Call, tool: Tool, asked: tuple[str, ...], chosen: tuple[str, ...], *, replaces: bool
) -> tuple[str, ...]:
    before, after = _at_dashes(seen.arguments)
    kept = _options(before, tool.valued) if replaces else before
    own = (*asked, *kept) if tool.leading else (*kept, *asked)
    if chosen[:1] == ("--",):
        return (*seen.lead, *own, *(after or ("--",)), *chosen[1:])
    return (*seen.lead, *own, *chosen, *after)


def _by_stand_in(seen: Call, tool: Tool, asked: tuple[str, ...], chosen: tuple[str, ...], report: Path) -> Prepared:
    """In the place of `-m MODULE`; where something else runs the module, its words have to do."""
    argv = _joined(seen, tool, asked, chosen, replaces=False)
    at = len(seen.lead) - 2
    if "-m" in seen.lead[:at]:
        return Prepared(argv, tool.env, restricted=bool(chosen))
    ours = (f"{report.parent / tool.stand_in}", f"{report}")
    return Prepared(
        (*argv[:at], *ours, *argv[at + 2 :]),
        tool.env,
        report,
        tool.format,
        restricted=bool(chosen),
        stand_in=Path(__file__).with_name(tool.stand_in),
    )


def _at_dashes(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at:]


def _options(words: tuple[str, ...], valued: frozenset[str]) -> tuple[str, ...]:
    """The words that are options or their values; the others say what to run."""
    kept: list[str] = []
    for place, word in enumerate(words):
        if word.startswith("-") or (place and words[place - 1] in valued):
            kept.append(word)
    return tuple(kept)
