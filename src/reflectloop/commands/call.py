"""Runs one command as a tool, in the box: what fails is diagnosed, written down, and tried again only where safe."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config, policy, secrets
from reflectloop.commands import call_sandbox
from reflectloop.commands.call_sandbox import Show
from reflectloop.diagnosis import diagnosis, rulefile, safe_call
from reflectloop.diagnosis.breaker import PersistentBreakers
from reflectloop.diagnosis.failure_record import ErrorClass
from reflectloop.diagnosis.rulefile import DiagnosisTable
from reflectloop.diagnosis.safe_call import Invoke, Outcome, Params, RetryIO, RetryOptions, ToolError, ToolFailure
from reflectloop.diagnosis.tool_failure_report import ToolReport
from reflectloop.diagnosis.tool_fixes import ToolFixes
from reflectloop.errors import GateRejected, InvalidInput, NeedsInput, ReflectloopError, StepFailed, StepTimeout
from reflectloop.lessons import lesson_scopes
from reflectloop.policy import CommandPolicy, PolicyVerdict
from reflectloop.policy.simple_command import SHELLS
from reflectloop.system import files, process, terminal
from reflectloop.system.process import Timeouts
from reflectloop.terms import Network
from reflectloop.workspace import project
from reflectloop.workspace.folders import Folders
from reflectloop.workspace.patch import TouchedFile

_KEPT = 1 << 20  # bytes of what a command printed
_GRACE_S = 5.0
_FOLDER = "reflections"
_LAUNCHERS = SHELLS | frozenset(("env", "make", "node", "npm", "npx", "perl", "ruby", "sudo", "timeout", "uv", "xargs"))

Tell = Callable[[ToolReport], None]


class CallOptions(NamedTuple):
    command: tuple[str, ...]
    fallbacks: tuple[tuple[str, ...], ...] = ()
    idempotent: bool = False
    retries: int | None = None
    timeout_s: float = 3600.0
    on_host: bool = False  # instead of in the box
    network: Network | None = None  # in the box; None: as a step gets it


class CallResult(NamedTuple):
    outcome: Outcome
    written: tuple[Path, ...]  # diagnosis files
    changes: tuple[TouchedFile, ...] | None = ()  # in the copy, dropped with it; None where they cannot be told


def call(
    order: CallOptions, start: Path, *, show: Show, tell: Tell, waits: Callable[[str], None] = lambda _: None
) -> CallResult:
    """Run a command as a tool. Where the box is no wall, commands are judged as on the host."""
    desk = _Desk(start, tell)
    commands = _named((order.command, *order.fallbacks))
    rules = policy.of(desk.settings.policy, desk.folders.root)
    if order.on_host:
        _refuse_all(commands, rules)
        return _call(desk, order, commands, lambda argv: _run(argv, order.timeout_s, show))
    wall = call_sandbox.reached(desk.settings, order.network)
    _refuse_all(commands, rules.in_workspace if wall.mounted else rules)
    with call_sandbox.opened(desk.folders, desk.settings, wall, order.network, waits) as calls:
        done = _call(desk, order, commands, lambda argv: calls.run(argv, order.timeout_s, show))
        if calls.stop:
            raise calls.stop
        return done._replace(changes=calls.changes())


def _call(
    desk: _Desk, order: CallOptions, commands: Mapping[str, tuple[str, ...]], run: Callable[[tuple[str, ...]], str]
) -> CallResult:
    first, *others = commands

    def invoke(tool: str, _: Params) -> str:
        return run(commands[tool])

    ways = RetryOptions(tuple(others), retries=order.retries)
    return desk.call(first, {"command": list(order.command)}, invoke, ways, idempotent=order.idempotent)


def _refuse_all(commands: Mapping[str, tuple[str, ...]], rules: CommandPolicy) -> None:
    for command in commands.values():
        refuse(rules.judge(command))


def call_tool(
    start: Path,
    tool: str,
    params: Params,
    *,
    invoke: Invoke,
    idempotent: bool = False,
    ways: RetryOptions | None = None,
    hands: RetryIO | None = None,
) -> CallResult:
    """Any tool, by a function that invokes it: with the project's policies, lessons and records. For Python."""
    return _Desk(start, lambda _: None).call(
        tool, params, invoke, ways or RetryOptions(), idempotent=idempotent, hands=hands
    )


class _Desk:
    """A project's side of a call: its rules and policies, what it knows, and where it writes things down."""

    def __init__(self, start: Path, tell: Tell) -> None:
        self.folders = Folders(project.locate(start))
        self.settings = config.load(self.folders.root)
        secrets.use(secrets.of(self.settings.secrets, self.folders.root))
        self._tell = tell
        self._written: list[Path] = []

    def call(
        self,
        tool: str,
        params: Params,
        invoke: Invoke,
        ways: RetryOptions,
        *,
        idempotent: bool,
        hands: RetryIO | None = None,
    ) -> CallResult:
        rules = self.settings.reflect.rules
        own = rulefile.checked(self.folders.root / rules) if rules else DiagnosisTable()
        fixes = ToolFixes((lesson_scopes.project_dir(self.folders), lesson_scopes.user_dir()))
        known = ways._replace(
            policies=(*ways.policies, *own.policies),
            pairs=fixes,
            rules=diagnosis.with_own(own.rules),
            breakers=ways.breakers or PersistentBreakers(self.folders),
            tell=self._note,
        )
        outcome = safe_call.safe_call(tool, params, invoke=invoke, idempotent=idempotent, ways=known, hands=hands)
        fixes.learn(outcome)
        return CallResult(outcome, tuple(self._written))

    def _note(self, report: ToolReport) -> None:
        self._written.append(_write(self.folders, report))
        if self.settings.publish.research:
            _publish(self.folders, self._written[-1])
        self._tell(report)


def refuse(verdict: PolicyVerdict) -> None:
    """Refuse what the policy denies, and whatever only a person may let run."""
    if verdict.allowed:
        return
    kind = GateRejected if verdict.verdict == "deny" else NeedsInput
    raise kind(
        f"{verdict.where}: {verdict.reason} ({verdict.rule})",
        next_step=f'if it is meant: [policy] allow = ["{verdict.rule}"] in {config.NAME}, then: reflectloop trust',
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
    """Run a command on the host. Return what it printed, as plain text; raise what it said where it failed."""
    plain = {name: terminal.PlainText() for name in ("stdout", "stderr")}
    scanners = {name: secrets.current().scanner() for name in ("stdout", "stderr")}
    printed = bytearray()

    def take(stream: str, safe: bytes) -> None:
        printed.extend(safe)
        del printed[:-_KEPT]
        show(stream, safe)

    watched = process.SupervisedProcess(
        argv,
        cwd=Path.cwd(),
        env=os.environ,
        on_output=lambda stream, chunk: take(stream, scanners[stream].feed(plain[stream].feed(chunk))),
        merge=False,
    )
    ended = watched.wait(Timeouts(timeout_s, _GRACE_S))
    for stream, scanner in scanners.items():
        take(stream, scanner.feed(plain[stream].finish()) + scanner.finish())
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
    from reflectloop.reflection import publish_research  # noqa: PLC0415 - few ask for it

    publish_research.publish_tool_failure(folders, written)


def error_of(outcome: ToolFailure) -> ReflectloopError:
    """Return the error that a call ended with, and the command or the advice that helps."""
    failure, known = outcome.failure, outcome.failure.diagnosis
    cause = known.root_cause if known else failure.log_excerpt
    times = "once" if outcome.attempts == 1 else f"{outcome.attempts} times"
    kind: type[ReflectloopError] = StepTimeout if failure.code == StepTimeout.code else StepFailed
    return kind(
        f"failed, tried {times}; last {outcome.tool}: {failure.category}, needs {failure.needs}: {cause}",
        next_step=(known.next_command or known.suggestion) if known else None,
    )


def as_data(done: CallResult) -> dict[str, Any]:
    outcome = done.outcome
    told = {
        "ok": outcome.ok,
        "tool": outcome.tool,
        "attempts": outcome.attempts,
        "reflections": [one.model_dump(mode="json") for one in outcome.reports],
        "changes": None if done.changes is None else [change.path for change in done.changes],
    }
    if isinstance(outcome, safe_call.ToolFailure):
        return told | {"failure": outcome.failure.as_data()}
    pair = outcome.pair.model_dump(mode="json") if outcome.pair else None
    return told | {"output": outcome.value, "pair": pair, "class": str(ErrorClass.ITERATION) if pair else None}
