"""`call`: run one command as a tool in the sandbox; diagnose a failure, record it, and retry if that is safe."""

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

_LONGEST_OUTPUT = 1 << 20  # bytes; the end is kept
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
    on_host: bool = False  # instead of in the sandbox
    network: Network | None = None  # in the sandbox; None: as for a step


class CallResult(NamedTuple):
    outcome: Outcome
    written: tuple[Path, ...]  # diagnosis files
    changes: tuple[TouchedFile, ...] | None = ()  # in the copy, discarded with it; None if unknown


def call(
    request: CallOptions, start: Path, *, show: Show, tell: Tell, waits: Callable[[str], None] = lambda _: None
) -> CallResult:
    """Run a command as a tool. Without isolation, commands are judged as on the host."""
    session = _ToolCallSession(start, tell)
    commands = _named((request.command, *request.fallbacks))
    rules = policy.of(session.settings.policy, session.folders.root)
    if request.on_host:
        _refuse_all(commands, rules)
        return _call(session, request, commands, lambda argv: _run(argv, request.timeout_s, show))
    level = call_sandbox.isolation_level(session.settings, request.network)
    _refuse_all(commands, rules.in_workspace if level.mounted else rules)
    with call_sandbox.open_calls(session.folders, session.settings, level, request.network, waits) as calls:
        done = _call(session, request, commands, lambda argv: calls.run(argv, request.timeout_s, show))
        if calls.stop:
            raise calls.stop
        return done._replace(changes=calls.changes())


def _call(
    session: _ToolCallSession,
    request: CallOptions,
    commands: Mapping[str, tuple[str, ...]],
    run: Callable[[tuple[str, ...]], str],
) -> CallResult:
    first, *others = commands

    def invoke(tool: str, _: Params) -> str:
        return run(commands[tool])

    options = RetryOptions(tuple(others), retries=request.retries)
    return session.call(first, {"command": list(request.command)}, invoke, options, idempotent=request.idempotent)


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
    options: RetryOptions | None = None,
    io: RetryIO | None = None,
) -> CallResult:
    """Call any tool through a function, with the project's policies, lessons and records. The API for Python."""
    session = _ToolCallSession(start, lambda _: None)
    return session.call(tool, params, invoke, options or RetryOptions(), idempotent=idempotent, io=io)


class _ToolCallSession:
    """Calls tools with a project's rules, policies and lessons, and writes the diagnoses of failures."""

    def __init__(self, start: Path, tell: Tell) -> None:
        self.folders = Folders(project.locate(start))
        self.settings = config.load(self.folders.root)
        secrets.use_detector(secrets.detector_for(self.settings.secrets, self.folders.root))
        self._tell = tell
        self._written: list[Path] = []

    def call(
        self,
        tool: str,
        params: Params,
        invoke: Invoke,
        options: RetryOptions,
        *,
        idempotent: bool,
        io: RetryIO | None = None,
    ) -> CallResult:
        rules = self.settings.reflect.rules
        table = rulefile.checked(self.folders.root / rules) if rules else DiagnosisTable()
        fixes = ToolFixes(lesson_scopes.lesson_dirs(self.folders))
        complete = options._replace(
            policies=(*options.policies, *table.policies),
            pairs=fixes,
            rules=diagnosis.with_own(table.rules),
            breakers=options.breakers or PersistentBreakers(self.folders),
            tell=self._note,
        )
        outcome = safe_call.safe_call(tool, params, invoke=invoke, idempotent=idempotent, options=complete, io=io)
        fixes.learn(outcome)
        return CallResult(outcome, tuple(self._written))

    def _note(self, report: ToolReport) -> None:
        self._written.append(_write(self.folders, report))
        if self.settings.publish.research:
            _publish(self.folders, self._written[-1])
        self._tell(report)


def refuse(verdict: PolicyVerdict) -> None:
    """Raise if the policy denies the command, or if only a person may allow it."""
    if verdict.allowed:
        return
    kind = GateRejected if verdict.verdict == "deny" else NeedsInput
    raise kind(
        f"{verdict.where}: {verdict.reason} ({verdict.rule})",
        next_step=f'if it is meant: [policy] allow = ["{verdict.rule}"] in {config.NAME}, then: reflectloop trust',
    )


def _named(commands: tuple[tuple[str, ...], ...]) -> dict[str, tuple[str, ...]]:
    """Return the commands by tool name: the program's, or the whole command if that name is taken.

    A launcher (a shell, `make`, `python`) is named by its whole command: a failure of one script says nothing about
    another.
    """
    named: dict[str, tuple[str, ...]] = {}
    for argv in commands:
        if not argv or not argv[0]:
            raise InvalidInput("there is no command to call", next_step="reflectloop call --help")
        short = argv[0].rpartition("/")[2]
        taken = short in named or short in _LAUNCHERS or short.startswith("python")
        named[" ".join(argv) if taken else short] = argv
    return named


def _run(argv: tuple[str, ...], timeout_s: float, show: Show) -> str:
    """Run a command on the host and return its output as plain text; raise ToolError with it if the command fails."""
    plain = {name: terminal.PlainText() for name in ("stdout", "stderr")}
    scanners = {name: secrets.current_detector().scanner() for name in ("stdout", "stderr")}
    printed = bytearray()

    def take(stream: str, safe: bytes) -> None:
        printed.extend(safe)
        del printed[:-_LONGEST_OUTPUT]
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
    text = printed.decode("utf-8", "replace")
    if ended.timed_out:
        raise TimeoutError(f"ran past {timeout_s:g} s and was ended with its children")
    if ended.code:
        raise ToolError(text, exit_code=ended.code)
    return text


def _write(folders: Folders, report: ToolReport) -> Path:
    folders.reject_links()
    folders.ensure_owned()
    folder = folders.own / _FOLDER
    with files.room_for("a diagnosis", folder):
        folder.mkdir(exist_ok=True)
    stamp = "".join(letter for letter in report.timestamp if letter.isalnum())
    base = f"tool_failure-{stamp}-{report.signature[:6]}"
    names = (f"{base}{f'-{number}' if number > 1 else ''}.json" for number in itertools.count(1))
    path = next(folder / name for name in names if not (folder / name).exists())  # several may fail in one second
    text = json.dumps(report.model_dump(mode="json"), indent=2, ensure_ascii=False)
    files.write_atomic(path, secrets.current_detector().redact(text) + "\n")
    return path


def _publish(folders: Folders, written: Path) -> None:
    from reflectloop.reflection import publish_research  # noqa: PLC0415 - rarely configured

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
    data = {
        "ok": outcome.ok,
        "tool": outcome.tool,
        "attempts": outcome.attempts,
        "reflections": [report.model_dump(mode="json") for report in outcome.reports],
        "changes": None if done.changes is None else [change.path for change in done.changes],
    }
    if isinstance(outcome, safe_call.ToolFailure):
        return data | {"failure": outcome.failure.as_data()}
    pair = outcome.pair.model_dump(mode="json") if outcome.pair else None
    return data | {"output": outcome.value, "pair": pair, "class": str(ErrorClass.ITERATION) if pair else None}
