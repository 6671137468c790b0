"""Runs an agent's program for one call: finds it, makes it visible in the sandbox, and reads its output."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop import secrets
from reflectloop.agents.backend import AgentRequest, Reply, Status
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable, SandboxEscape
from reflectloop.fileops import json_from_text, safe_files
from reflectloop.fileops.response import redacted
from reflectloop.sandbox import network_forward
from reflectloop.sandbox.network_forward import Forward
from reflectloop.sandbox.sandbox import NOT_FOUND, NOT_RUNNABLE, Box, CommandResult, SandboxCommand
from reflectloop.system import process
from reflectloop.system.patterns import lazy
from reflectloop.terms import Network, dotted

LARGEST_LINE = 32 << 20  # bytes
LARGEST_ANSWER = 8 << 20
_VERSION = lazy(r"\d+(?:\.\d+)+")
_WHOLE_VERSION = lazy(r"\d{1,9}(?:\.\d{1,9}){1,5}")
_VERSION_S = 30.0
_PACKAGE_DEPTH = 3  # last parts of a program's path that may be a version
_LARGEST_DESCRIPTION = 1 << 20
_NPM = "node_modules"
_PACKAGES = (_NPM, "site-packages", "dist-packages")
_TAIL = 4096  # bytes at the end of a log that are searched for its last line


class OutputLimitExceeded(Exception):
    """The reader of the program's output ends the program, for this reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def refuse_long_answer(text: str | bytes | bytearray) -> None:
    """Raise if the text is longer than any answer may be."""
    if len(text) > LARGEST_ANSWER:
        raise OutputLimitExceeded(f"answered with more than {LARGEST_ANSWER >> 20} MB")


class ProgramBackend:
    """An agent whose program the configuration names."""

    def __init__(self, name: str, agent: AgentConfig, caller: Mapping[str, str]) -> None:
        self.name = name
        self._agent, self._caller = agent, caller

    def _command(self) -> tuple[str, ...]:
        """Return the command that starts the program; raise AgentUnavailable if there is none."""
        how = f"set [agents.{self.name}] run in reflectloop.toml to the program and its first arguments"
        return find_command(self.name, self._agent, self._caller, how)


class ProgramCall(NamedTuple):
    argv: tuple[str, ...]
    hear: Callable[[bytes], None]  # receives raw standard output as it arrives
    stdin: bytes = b""
    env: Mapping[str, str] = {}
    forward: Forward | None = Forward()  # the addresses it can reach; None: the machine's network


class ProgramOutput(NamedTuple):
    """The end of the program, or the reason it was ended."""

    done: CommandResult
    log: Path
    enough: str = ""

    @property
    def last_line(self) -> str:
        """Return the last line of the log, which is redacted; often the only hint at why the program failed."""
        lines = self.log.read_bytes()[-_TAIL:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def interrupted_reply(self) -> Reply | None:
        """Return a reply if the program did not end by itself, else None."""
        if self.enough:
            return self.reply("error", self.enough)
        done = self.done
        if done.timed_out or done.idle:
            return self.reply("timeout", f"took longer than {done.duration_ms // 1000} s")
        if done.cancelled:
            return self.reply("error", "cancelled")
        if done.limit:
            return self.reply("error", f"reached a limit: {done.limit}")
        if done.exit_code in (NOT_FOUND, NOT_RUNNABLE):
            return self.reply("error", f"could not be started: {self.last_line}")
        return None

    def reply(self, status: Status, reason: str) -> Reply:
        """Return a reply from how the program ended; refused connections are among its denials."""
        refused = tuple(f"connect to {place}: not its model's address" for place in self.done.refused)
        if refused and status != "ok":
            reason = f"{reason}; it was refused connections to {', '.join(self.done.refused[:3])}"
        return Reply(status, raw_log=self.log, reason=reason, duration_ms=self.done.duration_ms, denials=refused)


def run(request: AgentRequest, call: ProgramCall) -> ProgramOutput:
    """Run the program in the request's sandbox until it ends or is ended."""
    with tempfile.TemporaryFile() as file:
        file.write(call.stdin)
        file.seek(0)
        return run_reading(request, call, file.fileno())


def run_reading(request: AgentRequest, call: ProgramCall, stdin: int) -> ProgramOutput:
    """Run the program with a file descriptor as its standard input."""
    log, began = _log(request), time.monotonic()
    try:
        box = with_program_readable(request.box, call.argv)
        if call.forward and call.forward.places:
            box = dataclasses.replace(box, readable=(*box.readable, *network_forward.needed()))
        return ProgramOutput(box.run(_sandbox_command(request, call, log, stdin)), log)
    except OutputLimitExceeded as fault:
        took_ms = round((time.monotonic() - began) * 1000)
        return ProgramOutput(CommandResult(0, timed_out=False, duration_ms=took_ms), log, fault.reason)


def _sandbox_command(request: AgentRequest, call: ProgramCall, log: Path, stdin: int) -> SandboxCommand:
    return SandboxCommand(
        call.argv,
        request.box.workspace.repo,
        log,
        request.bounds.timeout_s,
        env=call.env,
        look=call.hear,
        merge=False,
        # A model that thinks prints nothing and uses no CPU: only the timeout ends it.
        idle_s=2 * request.bounds.timeout_s,
        network=Network.HOST if call.forward is None else Network.NONE,
        forward=call.forward,
        stdin=stdin,
    )


def _log(request: AgentRequest) -> Path:
    request.folder.mkdir(parents=True, exist_ok=True)
    name = f"{request.role}-{request.attempt}"
    number = sum(1 for _ in request.folder.glob(f"{name}*.log"))
    return request.folder / (f"{name}-{number + 1}.log" if number else f"{name}.log")


def split_lines(take: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Return a function that splits chunks into lines for `take`. An unterminated last line is dropped."""
    buffer = bytearray()

    def hear(chunk: bytes) -> None:
        buffer.extend(chunk)
        if len(buffer) > LARGEST_LINE:
            raise OutputLimitExceeded(f"wrote a line of more than {LARGEST_LINE >> 20} MB")
        if b"\n" in chunk:
            *complete, rest = bytes(buffer).split(b"\n")
            buffer[:] = rest
            for line in complete:
                take(line)

    return hear


def with_program_readable(box: Box, argv: Sequence[str]) -> Box:
    """Return the sandbox with the program's files readable, wherever they are installed."""
    files = [part for argument in argv if argument.startswith("/") for part in _program_files(Path(argument))]
    return dataclasses.replace(box, readable=(*box.readable, *files))


def _program_files(path: Path) -> Iterator[Path]:
    """Yield the file, its link target and its package; never a folder with unrelated files."""
    if not path.is_file():
        return
    for file in (path, path.resolve()):
        parts = file.parts
        cut = next((parts.index(name) for name in _PACKAGES if name in parts), None)
        if cut is None:
            yield file
        else:
            yield Path(*parts[: cut + (1 if parts[cut] == _NPM else 2)])


def find_command(
    name: str, agent: AgentConfig, caller: Mapping[str, str], how: str, default: str = ""
) -> tuple[str, ...]:
    """Return the program's absolute path with its first arguments; raise AgentUnavailable if it is not installed."""
    first, *others = agent.run or (default,)
    if not first:
        raise AgentUnavailable(f"agent {name} has no program", next_step=how)
    program = process.find(first, path=caller.get("PATH", ""), cwd=Path("/"))
    if program is None:
        raise AgentUnavailable(
            f"agent {name} needs the program {first}, which is not installed",
            next_step=how,
            missing=(f"program:{first}",),
        )
    return (program, *others)


def version_of(program: Sequence[str], request: AgentRequest) -> str | None:
    """Return the output of `--version`, run in the agent's sandbox without network and without a key."""
    parts: list[bytes] = []

    def hear(chunk: bytes) -> None:
        parts.append(chunk)
        refuse_long_answer(b"".join(parts))

    with tempfile.TemporaryDirectory(prefix="reflectloop-agent-") as folder:
        bounds = request.bounds._replace(timeout_s=min(_VERSION_S, request.bounds.timeout_s))
        request = dataclasses.replace(request, folder=Path(folder), bounds=bounds)
        output = run(request, ProgramCall((*program, "--version"), hear, env={"DISABLE_AUTOUPDATER": "1"}))
    if output.enough or output.done.exit_code or output.done.timed_out:
        return None
    match = _VERSION.search(b"".join(parts).decode("utf-8", "replace"))
    return match.group() if match else None


def version_by_files(program: Sequence[str]) -> str | None:
    """Return a program's version by its files, without starting it, or None if they do not contain it.

    The version is in an npm package's `package.json`, or in the name of a folder or file.
    """
    if len(program) != 1:  # a launcher with arguments runs another program
        return None
    parts = Path(program[0]).resolve().parts
    if _NPM in parts:
        top = len(parts) - parts[::-1].index(_NPM)
        scoped = parts[top].startswith("@")
        return _version_in(Path(*parts[: top + (2 if scoped else 1)]) / "package.json")
    named = [part for part in reversed(parts[-_PACKAGE_DEPTH:]) if _WHOLE_VERSION.fullmatch(part)]
    return named[0] if named else None


def _version_in(description: Path) -> str | None:
    try:
        with description.open("rb") as file:
            package = json.loads(file.read(_LARGEST_DESCRIPTION))
    except (OSError, ValueError, RecursionError):
        return None
    version = package.get("version") if isinstance(package, dict) else None
    match = _WHOLE_VERSION.match(version) if isinstance(version, str) else None
    return match.group() if match else None


def refuse_old_version(name: str, version: str | None, minimum: tuple[int, ...], how: str) -> None:
    """Raise if the version is below the minimum: older releases have other flags and output."""
    least = ".".join(map(str, minimum))
    if version is None:
        problem = "does not say its version"
    elif tuple(map(int, version.split("."))) < minimum:
        problem = f"is version {version}"
    else:
        return
    raise AgentUnavailable(
        f"agent {name} {problem}; {least} or newer is needed", next_step=how, missing=(f"{name}>={least}",)
    )


def passed_variables(agent: AgentConfig, caller: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's variables that the settings pass to the program, without the key."""
    return {name: caller[name] for name in agent.env if name in caller}


def passed_variables_with_key(agent: AgentConfig, caller: Mapping[str, str]) -> dict[str, str]:
    """Return the passed variables and the key."""
    key = agent.key_env
    return {**passed_variables(agent, caller), **({key: caller[key]} if key and key in caller else {})}


def no_key(name: str, variables: Sequence[str]) -> AgentUnavailable:
    return AgentUnavailable(
        f"agent {name} has no key: {' or '.join(variables)} is not set",
        next_step=f"export {variables[0]}=...",
        missing=tuple(f"env:{variable}" for variable in variables[:1]),
    )


def reply_with_object(output: ProgramOutput, request: AgentRequest, text: str) -> Reply:
    """Return a reply with the requested object, parsed from the text of an agent without structured output."""
    marks = frozenset((request.schema or {}).get("properties", {}))
    try:
        data, unsound = json_from_text.read_object(text.encode("utf-8", "surrogateescape"), marks)
    except json_from_text.NoJsonObject as fault:
        return output.reply("no_output", f"gave no structured answer: it {fault.message}")
    faults = [
        f"{dotted(fault_in_json.place)} {fault_in_json.message}" for fault_in_json in unsound
    ] or request.faults_of(data)
    return output.reply("error" if faults else "ok", "; ".join(faults))._replace(data=data)


def redact_reply(reply: Reply) -> Reply:
    """Redact every secret in a reply."""
    redact = secrets.current_detector().redact
    return reply._replace(
        text=redact(reply.text) if reply.text else "",
        reason=redact(reply.reason) if reply.reason else "",
        denials=tuple(redact(denial) for denial in reply.denials),
        data=redacted(reply.data),
    )


def home_outside(box: Box) -> Path:
    """Return the agent's HOME as a path outside the sandbox."""
    return box.home or box.workspace.home


def home_inside(box: Box) -> Path:
    """Return the agent's HOME as the program sees it."""
    return box.view.home if box.view else home_outside(box)


def write_home_file(box: Box, name: str, text: str, *, executable: bool = False) -> None:
    """Write a file into the agent's HOME without following links, which an earlier agent may have left there."""
    try:
        with safe_files.open_folder(home_outside(box)) as files:
            files.write(name, text.encode(), executable)
    except safe_files.AccessBarred as fault:
        raise SandboxEscape(
            f"an agent blocked a file in its HOME: {fault}",
            next_step="reflectloop unlock --reason TEXT",
        ) from fault
