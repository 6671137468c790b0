"""Watch one run of a check: lay the observer's files next to its report, and say afterwards what was odd."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reflectloop.system.patterns import lazy
from reflectloop.verification.observe import canaries, observation
from reflectloop.verification.observe.canaries import Canary
from reflectloop.verification.observe.channel import Channel, ChannelEvents
from reflectloop.verification.observe.observation import Oddity
from reflectloop.verification.result import Outcome
from reflectloop.verification.tools import PreparedCommand

_INSIDE = Path(__file__).with_name("inside")
_ONLY_FOR_TYPES = lazy(r"^if TYPE_CHECKING:\n(?:(?: {4}.*)?\n)+", re.MULTILINE)
_STUB = """\
import json
import os

folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, __name__ + ".json"), encoding="utf-8") as file:
    texts = json.load(file)["texts"]
for text in texts:
    exec(compile(text, "<string>", "exec"))
"""
_PYTEST_END = "install(globals(), folder, __name__)\n"
_MOST_WANTED = 500
_JAVASCRIPT = ("mocha", "tape", "node-test", "jest", "vitest")
_REPORTER = "--reporter="  # the option has the same name for mocha and vitest
_SEPARATORS = {"PYTHONPATH": os.pathsep, "NODE_OPTIONS": " "}


@dataclass(frozen=True)
class Watch:
    """One observed run: its command, and the channel through which it tells its outcomes."""

    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    channel: Channel | None = None  # None if the run is not observed
    canaries: tuple[Canary, ...] = ()
    outcomes: Callable[[ChannelEvents], dict[str, bool] | None] = observation.no_outcomes
    title: Callable[[str, Mapping[str, bool]], str] | None = None  # how outcomes name a test of the report
    changes_command: bool = False  # True if the runner fails where the observer cannot be loaded

    @property
    def observed(self) -> bool:
        return self.channel is not None

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the command, with ours before those that it has."""
        joined = {
            name: _SEPARATORS[name].join(filter(None, (value, env.get(name)))) for name, value in self.variables.items()
        }
        return {**env, **joined}

    def close(self) -> ChannelEvents:
        return self.channel.close() if self.channel else ChannelEvents(())

    def oddities(self, told: ChannelEvents, reported: Mapping[str, Outcome], *, ended: bool) -> list[Oddity]:
        outcomes = self.outcomes(told)
        if self.title and outcomes is not None:
            reported = {self.title(test, outcomes): outcome for test, outcome in reported.items()}
        return observation.oddities(told, self.canaries, reported, outcomes, ended=ended)


def can_observe(tool: str) -> bool:
    """Return True if there is an observer for a tool's runner."""
    return tool in ("pytest", "unittest", *_JAVASCRIPT)


def can_choose(tool: str, prepared: PreparedCommand) -> bool:
    """Return True if the observer of a command can choose tests."""
    return tool == "pytest" and _junit(prepared) in prepared.argv


def begin(
    tool: str,
    prepared: PreparedCommand,
    outside: Path,
    inside: Path,
    wanted: Sequence[str] = (),
    chosen: Sequence[str] = (),
) -> Watch | None:
    """Return the watch of a check whose report is in a folder, or None if its runner cannot be observed.

    `outside` and `inside` are the report's folder for the engine and for the check. `wanted` are tests under whose
    names failing tests of the engine are run too; `chosen` are those to run, if not all: see `can_choose`.
    """
    if tool == "pytest":
        return _begin_pytest(prepared, outside, inside, wanted, chosen)
    if tool == "unittest" and prepared.stand_in:
        return _begin_unittest(prepared, outside, wanted)
    if tool in _JAVASCRIPT:
        return _begin_javascript(tool, prepared, outside, inside)
    return None


def _begin_unittest(prepared: PreparedCommand, outside: Path, wanted: Sequence[str]) -> Watch:
    pipe = f"{canaries.random_name()}.pipe"
    known = canaries.UNITTEST_RUN
    values = {
        "texts": _texts("events.py", "unittest_events.py"),
        "rounds": _write_rounds(known, ("unittest",), outside),
        "wanted": list(wanted)[:_MOST_WANTED],
        "pipe": pipe,
    }
    (outside / "observer.json").write_text(json.dumps(values))
    return Watch(prepared.argv, {}, Channel(outside / pipe), known, observation.unittest_outcomes)


def _begin_javascript(tool: str, prepared: PreparedCommand, outside: Path, inside: Path) -> Watch | None:
    if tool in ("mocha", "vitest") and prepared.report is None:
        return None
    name = canaries.random_name()
    option = f"--require {inside / name}.cjs"
    values = {"tool": tool, "pipe": os.fspath(inside / f"{name}.pipe"), "option": option}
    text = (_INSIDE / "javascript_events.cjs").read_text()
    (outside / f"{name}.cjs").write_text(f"const values = {json.dumps(values)};\n{text}")
    channel = Channel(outside / f"{name}.pipe", many=tool in ("node-test", "jest", "vitest"))
    if tool == "mocha":
        at = _at_reporter(prepared.argv)
        argv = (*prepared.argv[:at], f"--file={inside / name}.cjs", *prepared.argv[at:])
        return Watch(
            argv,
            {},
            channel,
            canaries.JAVASCRIPT,
            observation.mocha_outcomes,
            observation.mocha_title,
            changes_command=True,
        )
    if tool == "vitest":
        return _begin_vitest(prepared, outside, inside, name, channel)
    variables = {"NODE_OPTIONS": option}
    if tool == "jest":
        outcomes, title = observation.mocha_outcomes, observation.mocha_title
        return Watch(prepared.argv, variables, channel, canaries.JAVASCRIPT, outcomes, title)
    by_name = observation.node_outcomes if tool == "node-test" else observation.tape_outcomes
    return Watch(prepared.argv, variables, channel, canaries.JAVASCRIPT, by_name, observation.node_name)


def _begin_vitest(prepared: PreparedCommand, outside: Path, inside: Path, name: str, channel: Channel) -> Watch:
    """Add a reporter of ours, which adds a set-up file of ours to what each file of tests loads."""
    reporter = canaries.random_name()
    values = {
        "observer": os.fspath(inside / f"{name}.cjs"),
        "setup": os.fspath(inside / f"{canaries.random_name()}.mjs"),
    }
    text = (_INSIDE / "vitest_events.mjs").read_text()
    (outside / f"{reporter}.mjs").write_text(f"const values = {json.dumps(values)};\n{text}")
    at = _at_reporter(prepared.argv)
    argv = (*prepared.argv[:at], f"--reporter={inside / reporter}.mjs", *prepared.argv[at:])
    outcomes, title = observation.mocha_outcomes, observation.mocha_title
    return Watch(argv, {}, channel, canaries.JAVASCRIPT, outcomes, title, changes_command=True)


def _at_reporter(argv: Sequence[str]) -> int:
    """Return the place of the last option that names a reporter: it is the engine's."""
    return max(at for at, word in enumerate(argv) if word.startswith(_REPORTER))


def _write_rounds(known: Sequence[Canary], imports: Sequence[str], outside: Path) -> list[tuple[str, Any]]:
    """Write one module of known tests for each round, and return their names with those of the tests."""
    modules = [canaries.write_module(known, imports) for _ in range(canaries.ROUNDS)]
    for module in modules:
        (outside / f"{module.name}.py").write_text(module.text)
    return [(module.name, module.functions) for module in modules]


def _junit(prepared: PreparedCommand) -> str:
    return f"--junitxml={prepared.report}"


def _begin_pytest(
    prepared: PreparedCommand, outside: Path, inside: Path, wanted: Sequence[str], chosen: Sequence[str]
) -> Watch | None:
    option = _junit(prepared)
    if option not in prepared.argv:
        return None
    name = canaries.random_name()
    folder = canaries.random_name()  # of its own: it is taken from the path again, and others may need theirs
    outside, inside = outside / folder, inside / folder
    outside.mkdir()
    values = {
        "texts": [*_texts("events.py", "pytest_events.py"), _PYTEST_END],
        "rounds": _write_rounds(canaries.PYTEST, ("pytest", "unittest"), outside),
        "wanted": list(wanted)[:_MOST_WANTED],
        "chosen": list(chosen),
    }
    (outside / f"{name}.json").write_text(json.dumps(values))
    (outside / f"{name}.py").write_text(_STUB)
    at = prepared.argv.index(option)
    argv = (*prepared.argv[:at], "-p", name, *prepared.argv[at:])
    channel = Channel(outside / f"{name}.pipe")
    variables = {"PYTHONPATH": os.fspath(inside)}
    return Watch(argv, variables, channel, canaries.PYTEST, observation.pytest_outcomes, changes_command=True)


def _texts(*names: str) -> list[str]:
    return [_ONLY_FOR_TYPES.sub("", (_INSIDE / name).read_text()) for name in names]
