"""Runs one command as a tool: what fails is diagnosed, written down, and tried again only as far as that is safe."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config, policy, secrets
from reflectloop.errors import GateRejected, InvalidInput, NeedsInput
from reflectloop.flow.failing.breakers import KeptBreakers
from reflectloop.flow.folders import Folders
from reflectloop.flow.learning import lessons
from reflectloop.flow.learning.fixes import Fixes
from reflectloop.policy import Verdict
from reflectloop.policy.simple import SHELLS
from reflectloop.reflect import diagnosis, rulefile, tools
from reflectloop.reflect.record import ErrorClass
from reflectloop.reflect.report import ToolReport
from reflectloop.reflect.rulefile import Table
from reflectloop.reflect.tools import Hands, Invoke, Outcome, Params, ToolError, Ways
from reflectloop.workspace import project
from reflectloop.world import files, process
from reflectloop.world.process import Patience

_KEPT = 1 << 20  # bytes of what a command printed
_GRACE_S = 5.0
_FOLDER = "reflections"
_LAUNCHERS = SHELLS | frozenset(("env", "make", "node", "npm", "npx", "perl", "ruby", "sudo", "timeout", "uv", "xargs"))

Show = Callable[[str, bytes], None]  # which stream, and what of it may be shown
Tell = Callable[[ToolReport], None]


class Order(NamedTuple):
    command: tuple[str, ...]
    fallbacks: tuple[tuple[str, ...], ...] = ()
    idempotent: bool = False
    retries: int | None = None
    timeout_s: float = 3600.0


class Done(NamedTuple):
    outcome: Outcome
    written: tuple[Path, ...]  # diagnosis files


def call(order: Order, start: Path, *, show: Show, tell: Tell) -> Done:
    """A command as a tool."""
    desk = _Desk(start, tell)
    for command in (order.command, *order.fallbacks):
        refuse(policy.of(desk.settings.policy, desk.folders.root).judge(command))
    commands = _named((order.command, *order.fallbacks))
    first, *others = commands

    def run(tool: str, _: Params) -> str:
        return _run(commands[tool], order.timeout_s, show)

    ways = Ways(tuple(others), retries=order.retries)
    return desk.call(first, {"command": list(order.command)}, run, ways, idempotent=order.idempotent)


def call_tool(
    start: Path,
    tool: str,
    params: Params,
    *,
    invoke: Invoke,
    idempotent: bool = False,
    ways: Ways | None = None,
    hands: Hands | None = None,
) -> Done:
    """Any tool, by a function that invokes it: with the project's policies, lessons and records. For Python."""
    return _Desk(start, lambda _: None).call(tool, params, invoke, ways or Ways(), idempotent=idempotent, hands=hands)


class _Desk:
    """A project's side of a call: its rules and policies, what it knows, and where it writes things down."""

    def __init__(self, start: Path, tell: Tell) -> None:
        self.folders = Folders(project.locate(start))
        self.settings = config.load(self.folders.root)
        secrets.use(secrets.of(self.settings.secrets, self.folders.root))
        self._tell = tell
        self._written: list[Path] = []

    def call(
        self, tool: str, params: Params, invoke: Invoke, ways: Ways, *, idempotent: bool, hands: Hands | None = None
    ) -> Done:
        rules = self.settings.reflect.rules
        own = rulefile.checked(self.folders.root / rules) if rules else Table()
        fixes = Fixes((lessons.project_shelf(self.folders), lessons.user_shelf()))
        known = ways._replace(
            policies=(*ways.policies, *own.policies),
            pairs=fixes,
            rules=diagnosis.with_own(own.rules),
            breakers=ways.breakers or KeptBreakers(self.folders),
            tell=self._note,
        )
        outcome = tools.safe_call(tool, params, invoke=invoke, idempotent=idempotent, ways=known, hands=hands)
        fixes.learn(outcome)
        return Done(outcome, tuple(self._written))

    def _note(self, report: ToolReport) -> None:
        self._written.append(_write(self.folders, report))
        if self.settings.publish.research:
            _publish(self.folders, self._written[-1])
        self._tell(report)


def refuse(verdict: Verdict) -> None:
    """What is called runs on this machine and not in a copy: whatever only a person may let run does not."""
    if verdict.allowed:
        return
    kind = GateRejected if verdict.verdict == "deny" else NeedsInput
    raise kind(
        f"{verdict.where}: {verdict.reason} ({verdict.rule})",
        next_step=f'if it is meant: [policy] allow = ["{verdict.rule}"] in {config.NAME}',
    )


def _named(commands: tuple[tuple[str, ...], ...]) -> dict[str, tuple[str, ...]]:
    """Each under the name of its program, as policies know it; a second of the same name under all its words.

    Of what runs other programs or scripts the words are the name: that one script fails says nothing of the next.
    """
    named: dict[str, tuple[str, ...]] = {}
    for words in commands:
        if not words or not words[0]:
            raise InvalidInput("there is no command to call", next_step="reflectloop call --help")
        short = words[0].rpartition("/")[2]
        taken = short in named or short in _LAUNCHERS or short.startswith("python")
        named[" ".join(words) if taken else short] = words
    return named


def _run(argv: tuple[str, ...], timeout_s: float, show: Show) -> str:
    """What a command printed; raises what it said where it failed."""
    scanners = {name: secrets.current().scanner() for name in ("stdout", "stderr")}
    printed = bytearray()

    def take(stream: str, safe: bytes) -> None:
        printed.extend(safe)
        del printed[:-_KEPT]
        show(stream, safe)

    watched = process.Watched(
        argv,
        cwd=Path.cwd(),
        env=os.environ,
        on_output=lambda stream, chunk: take(stream, scanners[stream].feed(chunk)),
        merge=False,
    )
    ended = watched.wait(Patience(timeout_s, _GRACE_S))
    for stream, scanner in scanners.items():
        take(stream, scanner.finish())
    said = printed.decode("utf-8", "replace")
    if ended.timed_out:
        raise TimeoutError(f"ran past {timeout_s:g} s and was ended with its children")
    if ended.code:
        raise ToolError(said, exit_code=ended.code)
    return said


def _write(folders: Folders, report: ToolReport) -> Path:
    folders.refuse_strange()
    folders.claim()
    folder = folders.own / _FOLDER
    with files.room_for("a diagnosis", folder):
        folder.mkdir(exist_ok=True)
    stamp = "".join(letter for letter in report.timestamp if letter.isalnum())
    name = f"tool_failure-{stamp}-{report.signature[:6]}"
    names = (f"{name}{f'-{number}' if number > 1 else ''}.json" for number in itertools.count(1))
    path = next(folder / one for one in names if not (folder / one).exists())  # several fail within a second
    text = json.dumps(report.model_dump(mode="json"), indent=2, ensure_ascii=False)
    files.write_atomic(path, secrets.current().redact(text) + "\n")
    return path


def _publish(folders: Folders, written: Path) -> None:
    from reflectloop.flow.learning import research  # noqa: PLC0415 - few ask for it

    research.publish_tool_failure(folders, written)


def as_data(done: Done) -> dict[str, Any]:
    outcome = done.outcome
    told = {
        "ok": outcome.ok,
        "tool": outcome.tool,
        "attempts": outcome.attempts,
        "reflections": [one.model_dump(mode="json") for one in outcome.reports],
    }
    if isinstance(outcome, tools.Failed):
        return told | {"failure": outcome.failure.as_data()}
    pair = outcome.pair.model_dump(mode="json") if outcome.pair else None
    return told | {"output": outcome.value, "pair": pair, "class": str(ErrorClass.ITERATION) if pair else None}
