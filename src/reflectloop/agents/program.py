"""Runs the program behind an agent for one call: found, shown to its box, told what to do, heard until it ends."""

from __future__ import annotations

import dataclasses
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reflectloop import secrets
from reflectloop.agents.backend import Asking, Reply, Status
from reflectloop.box.box import NOT_FOUND, NOT_RUNNABLE, Box, Done, Order
from reflectloop.config import AgentConfig
from reflectloop.errors import AgentUnavailable, SandboxEscape
from reflectloop.fileops import reach, reading
from reflectloop.fileops.response import redacted
from reflectloop.terms import Network
from reflectloop.world import process

LARGEST_LINE = 32 << 20  # bytes; a line that never ends is no line
LARGEST_ANSWER = 8 << 20
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_VERSION_S = 30.0
_PACKAGES = ("node_modules", "site-packages", "dist-packages")
_TAIL = 4096  # bytes of a log's end that are looked at for its last line


class Enough(Exception):
    """Whoever hears the program has heard enough of it: it is ended, for this reason."""

    def __init__(self, words: str) -> None:
        self.words = words
        super().__init__(words)


def refuse_long(said: str | bytes | bytearray) -> None:
    """Nobody reads that much, and whoever keeps it pays for it again and again."""
    if len(said) > LARGEST_ANSWER:
        raise Enough(f"answered with more than {LARGEST_ANSWER >> 20} MB")


class Call(NamedTuple):
    argv: tuple[str, ...]
    hear: Callable[[bytes], None]  # raw standard output as it comes
    stdin: bytes = b""
    env: Mapping[str, str] = {}
    network: Network = Network.HOST


class Heard(NamedTuple):
    """How the program ended, or why it was ended."""

    done: Done
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
        return Reply(status, raw_log=self.log, reason=reason, duration_ms=self.done.duration_ms)


def run(asking: Asking, call: Call) -> Heard:
    """One program in the box that was given for it, to its end or ours."""
    with tempfile.TemporaryFile() as told:
        told.write(call.stdin)
        told.seek(0)
        return run_reading(asking, call, told.fileno())


def run_reading(asking: Asking, call: Call, stdin: int) -> Heard:
    """The same where what it is told comes from a descriptor."""
    log, began = _log(asking), time.monotonic()
    try:
        return Heard(seeing(asking.box, call.argv).run(_order(asking, call, log, stdin)), log)
    except Enough as fault:
        took_ms = round((time.monotonic() - began) * 1000)
        return Heard(Done(0, timed_out=False, duration_ms=took_ms), log, fault.words)


def _order(asking: Asking, call: Call, log: Path, stdin: int) -> Order:
    return Order(
        call.argv,
        asking.box.workspace.repo,
        log,
        asking.bounds.timeout_s,
        env=call.env,
        look=call.hear,
        merge=False,
        # A model that thinks says nothing and uses nothing: only the time it may take ends it.
        idle_s=2 * asking.bounds.timeout_s,
        network=call.network,
        stdin=stdin,
    )


def _log(asking: Asking) -> Path:
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
            raise Enough(f"wrote a line of more than {LARGEST_LINE >> 20} MB")
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
            yield Path(*parts[: cut + (1 if parts[cut] == "node_modules" else 2)])


def words_of(agent: AgentConfig, caller: Mapping[str, str], default: str = "") -> tuple[str, ...] | None:
    """The program with its first words, the program by its whole path; None where there is none."""
    first, *others = agent.run or (default,)
    found = process.find(first, path=caller.get("PATH", ""), cwd=Path("/")) if first else None
    return (found, *others) if found else None


def version_of(words: Sequence[str], caller: Mapping[str, str]) -> str | None:
    """What it says its version is, asked in a HOME that is nobody's."""
    with tempfile.TemporaryDirectory(prefix="reflectloop-agent-") as home:
        env = {"PATH": caller.get("PATH", ""), "HOME": home, "DISABLE_AUTOUPDATER": "1"}
        try:
            said = process.capture([*words, "--version"], cwd=Path(home), env=env, timeout_s=_VERSION_S)
        except (OSError, TimeoutError):
            return None
    found = _VERSION.search(said.stdout.decode("utf-8", "replace"))
    return found.group() if found and said.code == 0 else None


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


def shaped(heard: Heard, asking: Asking, text: str) -> Reply:
    """For who can only say it: the object that was asked for, found in what was said."""
    marks = frozenset((asking.schema or {}).get("properties", {}))
    try:
        data, unsound = reading.read(text.encode("utf-8", "surrogateescape"), marks)
    except reading.Unread as fault:
        return heard.reply("no_output", f"gave no answer of the shape that was asked for: it {fault.words}")
    faults = [f"{reading.dotted(one.place)} {one.words}" for one in unsound] or asking.faults_of(data)
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
        with reach.opened(own_home(box)) as files:
            files.write(name, text.encode(), executable)
    except reach.Barred as fault:
        raise SandboxEscape(
            f"an agent put something in the way of a file in its HOME: {fault}",
            next_step="reflectloop unlock --reason TEXT",
        ) from fault
