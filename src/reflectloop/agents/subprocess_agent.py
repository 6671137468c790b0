"""Runs the program behind an agent for one call: found, shown to its box, told what to do, heard until it ends."""

from __future__ import annotations

import dataclasses
import json
import re
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
from reflectloop.terms import Network

LARGEST_LINE = 32 << 20  # bytes; a line that never ends is no line
LARGEST_ANSWER = 8 << 20
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_WHOLE_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9}){1,5}")
_VERSION_S = 30.0
_PACKAGE_DEPTH = 3  # last parts of a program's path that may be named by its version
_LARGEST_DESCRIPTION = 1 << 20
_NPM = "node_modules"
_PACKAGES = (_NPM, "site-packages", "dist-packages")
_TAIL = 4096  # bytes of a log's end that are looked at for its last line


class OutputLimitExceeded(Exception):
    """Whoever hears the program has heard enough of it: it is ended, for this reason."""

    def __init__(self, words: str) -> None:
        self.words = words
        super().__init__(words)


def refuse_long(said: str | bytes | bytearray) -> None:
    """Nobody reads that much, and whoever keeps it pays for it again and again."""
    if len(said) > LARGEST_ANSWER:
        raise OutputLimitExceeded(f"answered with more than {LARGEST_ANSWER >> 20} MB")


class ProgramCall(NamedTuple):
    argv: tuple[str, ...]
    hear: Callable[[bytes], None]  # raw standard output as it comes
    stdin: bytes = b""
    env: Mapping[str, str] = {}
    forward: Forward | None = Forward()  # all that it can reach; None: the machine's network


class ProgramOutput(NamedTuple):
    """How the program ended, or why it was ended."""

    done: CommandResult
    log: Path
    enough: str = ""

    @property
    def last_line(self) -> str:
        """Of what it wrote, secrets taken out; often the only word about why it failed."""
        lines = self.log.read_bytes()[-_TAIL:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def broken_off(self) -> Reply | None:
        """What is answered where the program did not come to its own end."""
        if self.enough:
            return self.reply("error", self.enough)
        done = self.done
        if done.timed_out or done.idle:
            return self.reply("timeout", f"took longer than {done.duration_ms // 1000} s")
        if done.cancelled:
            return self.reply("error", "cancelled")
        if done.limit:
            return self.reply("error", f"came up against a limit: {done.limit}")
        if done.exit_code in (NOT_FOUND, NOT_RUNNABLE):
            return self.reply("error", f"could not be started: {self.last_line}")
        return None

    def reply(self, status: Status, reason: str) -> Reply:
        """Return an answer made of how it ended; what it could not connect to is among what it was refused."""
        refused = tuple(f"connect to {place}: not its model's address" for place in self.done.refused)
        if refused and status != "ok":
            reason = f"{reason}; it was refused connections to {', '.join(self.done.refused[:3])}"
        return Reply(status, raw_log=self.log, reason=reason, duration_ms=self.done.duration_ms, denials=refused)


def run(asking: AgentRequest, call: ProgramCall) -> ProgramOutput:
    """One program in the box that was given for it, to its end or ours."""
    with tempfile.TemporaryFile() as told:
        told.write(call.stdin)
        told.seek(0)
        return run_reading(asking, call, told.fileno())


def run_reading(asking: AgentRequest, call: ProgramCall, stdin: int) -> ProgramOutput:
    """The same where what it is told comes from a descriptor."""
    log, began = _log(asking), time.monotonic()
    try:
        box = seeing(asking.box, call.argv)
        if call.forward and call.forward.places:
            box = dataclasses.replace(box, readable=(*box.readable, *network_forward.needed()))
        return ProgramOutput(box.run(_order(asking, call, log, stdin)), log)
    except OutputLimitExceeded as fault:
        took_ms = round((time.monotonic() - began) * 1000)
        return ProgramOutput(CommandResult(0, timed_out=False, duration_ms=took_ms), log, fault.words)


def _order(asking: AgentRequest, call: ProgramCall, log: Path, stdin: int) -> SandboxCommand:
    return SandboxCommand(
        call.argv,
        asking.box.workspace.repo,
        log,
        asking.bounds.timeout_s,
        env=call.env,
        look=call.hear,
        merge=False,
        # A model that thinks says nothing and uses nothing: only the time it may take ends it.
        idle_s=2 * asking.bounds.timeout_s,
        network=Network.HOST if call.forward is None else Network.NONE,
        forward=call.forward,
        stdin=stdin,
    )


def _log(asking: AgentRequest) -> Path:
    asking.folder.mkdir(parents=True, exist_ok=True)
    name = f"{asking.role}-{asking.attempt}"
    number = sum(1 for _ in asking.folder.glob(f"{name}*.log"))
    return asking.folder / (f"{name}-{number + 1}.log" if number else f"{name}.log")


def lines(take: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """Cuts what comes into whole lines. What is left without an end at the end is no line, and is not taken."""
    held = bytearray()

    def hear(chunk: bytes) -> None:
        held.extend(chunk)
        if len(held) > LARGEST_LINE:
            raise OutputLimitExceeded(f"wrote a line of more than {LARGEST_LINE >> 20} MB")
        if b"\n" in chunk:
            *whole, rest = bytes(held).split(b"\n")
            held[:] = rest
            for line in whole:
                take(line)

    return hear


def seeing(box: Box, argv: Sequence[str]) -> Box:
    """The same box with the program itself in sight, wherever its user has put it."""
    shown = [part for word in argv if word.startswith("/") for part in _shown(Path(word))]
    return dataclasses.replace(box, readable=(*box.readable, *shown))


def _shown(path: Path) -> Iterator[Path]:
    """The file, what it is a link to, and the package it is a part of; never a folder with other things in it."""
    if not path.is_file():
        return
    for one in (path, path.resolve()):
        parts = one.parts
        cut = next((parts.index(name) for name in _PACKAGES if name in parts), None)
        if cut is None:
            yield one
        else:
            yield Path(*parts[: cut + (1 if parts[cut] == _NPM else 2)])


def words_of(agent: AgentConfig, caller: Mapping[str, str], default: str = "") -> tuple[str, ...] | None:
    """The program with its first words, the program by its whole path; None where there is none."""
    first, *others = agent.run or (default,)
    found = process.find(first, path=caller.get("PATH", ""), cwd=Path("/")) if first else None
    return (found, *others) if found else None


def version_of(words: Sequence[str], asking: AgentRequest) -> str | None:
    """Ask the program for its version, in the box it is to run in, with no network and no key."""
    parts: list[bytes] = []

    def hear(chunk: bytes) -> None:
        parts.append(chunk)
        refuse_long(b"".join(parts))

    with tempfile.TemporaryDirectory(prefix="reflectloop-agent-") as folder:
        bounds = asking.bounds._replace(timeout_s=min(_VERSION_S, asking.bounds.timeout_s))
        quietly = dataclasses.replace(asking, folder=Path(folder), bounds=bounds)
        heard = run(quietly, ProgramCall((*words, "--version"), hear, env={"DISABLE_AUTOUPDATER": "1"}))
    if heard.enough or heard.done.exit_code or heard.done.timed_out:
        return None
    match = _VERSION.search(b"".join(parts).decode("utf-8", "replace"))
    return match.group() if match else None


def version_by_files(words: Sequence[str]) -> str | None:
    """Return the version that an installed program's own files tell, without starting it; None where they do not.

    An npm package's `package.json` tells it, or a folder or file that is named by the version.
    """
    if len(words) != 1:  # its first word runs another program
        return None
    parts = Path(words[0]).resolve().parts
    if _NPM in parts:
        top = len(parts) - parts[::-1].index(_NPM)
        scoped = parts[top].startswith("@")
        return _version_in(Path(*parts[: top + (2 if scoped else 1)]) / "package.json")
    named = [part for part in reversed(parts[-_PACKAGE_DEPTH:]) if _WHOLE_VERSION.fullmatch(part)]
    return named[0] if named else None


def _version_in(description: Path) -> str | None:
    try:
        with description.open("rb") as file:
            told = json.loads(file.read(_LARGEST_DESCRIPTION))
    except (OSError, ValueError, RecursionError):
        return None
    version = told.get("version") if isinstance(told, dict) else None
    match = _WHOLE_VERSION.match(version) if isinstance(version, str) else None
    return match.group() if match else None


def refuse_old(name: str, version: str | None, minimum: tuple[int, ...], how: str) -> None:
    """What it prints and which flags it takes is known from there on only."""
    least = ".".join(map(str, minimum))
    if version is None:
        said = "does not say its version"
    elif tuple(map(int, version.split("."))) < minimum:
        said = f"is version {version}"
    else:
        return
    raise AgentUnavailable(
        f"agent {name} {said}; {least} or newer is needed", next_step=how, missing=(f"{name}>={least}",)
    )


def passed_on(agent: AgentConfig, caller: Mapping[str, str]) -> dict[str, str]:
    """Those variables of the caller's that the settings let the program see, but for its key."""
    return {name: caller[name] for name in agent.env if name in caller}


def passed_on_with_key(agent: AgentConfig, caller: Mapping[str, str]) -> dict[str, str]:
    """For a program that knows by itself what it needs its key for."""
    key = agent.key_env
    return {**passed_on(agent, caller), **({key: caller[key]} if key and key in caller else {})}


def missing(name: str, program: str, how: str) -> AgentUnavailable:
    return AgentUnavailable(
        f"agent {name} needs the program {program}, which is not installed",
        next_step=how,
        missing=(f"program:{program}",),
    )


def no_key(name: str, variables: Sequence[str]) -> AgentUnavailable:
    return AgentUnavailable(
        f"agent {name} has no key: {' or '.join(variables)} is not set",
        next_step=f"export {variables[0]}=...",
        missing=tuple(f"env:{one}" for one in variables[:1]),
    )


def shaped(heard: ProgramOutput, asking: AgentRequest, text: str) -> Reply:
    """For who can only say it: the object that was asked for, found in what was said."""
    marks = frozenset((asking.schema or {}).get("properties", {}))
    try:
        data, unsound = json_from_text.read(text.encode("utf-8", "surrogateescape"), marks)
    except json_from_text.NoJsonObject as fault:
        return heard.reply("no_output", f"gave no answer of the shape that was asked for: it {fault.words}")
    faults = [f"{json_from_text.dotted(one.place)} {one.words}" for one in unsound] or asking.faults_of(data)
    return heard.reply("error" if faults else "ok", "; ".join(faults))._replace(data=data)


def clean(reply: Reply) -> Reply:
    """What goes on into the flow: no secret in it, whatever the model said."""
    redact = secrets.current().redact
    return reply._replace(
        text=redact(reply.text) if reply.text else "",
        reason=redact(reply.reason) if reply.reason else "",
        denials=tuple(redact(one) for one in reply.denials),
        data=redacted(reply.data),
    )


def own_home(box: Box) -> Path:
    """The agent's HOME, from the engine's side."""
    return box.home or box.workspace.home


def home_inside(box: Box) -> Path:
    """The same as the program sees it."""
    return box.view.home if box.view else own_home(box)


def lay(box: Box, name: str, text: str, *, executable: bool = False) -> None:
    """A file of ours in the agent's HOME, where an agent before may have left anything at all: no link is followed."""
    try:
        with safe_files.opened(own_home(box)) as files:
            files.write(name, text.encode(), executable)
    except safe_files.AccessBarred as fault:
        raise SandboxEscape(
            f"an agent put something in the way of a file in its HOME: {fault}",
            next_step="reflectloop unlock --reason TEXT",
        ) from fault
