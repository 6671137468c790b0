"""Answer one call of a hook, and never fail open: what cannot be judged is refused with the reason."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

import reflectloop
from reflectloop.errors import InvalidInput, ReflectloopError, UnsupportedRepository
from reflectloop.hooks import clients
from reflectloop.hooks.clients import HookClient
from reflectloop.hooks.model import ALLOW, HookAnswer, HookCall, HookEvent, HookOutput
from reflectloop.workspace import repository

CHECK = "reflectloop_check"  # a field of the events that `install --check` and `doctor` send; no client sends it
_SPARE_S = 15.0  # of the client's patience, for our own end
_LEAST_S = 5.0
_LARGEST = 32 << 20  # bytes of input
_CLOSED = (HookEvent.BEFORE_TOOL, HookEvent.STOP, HookEvent.SUBAGENT_STOP)  # refused if we cannot judge


def run(client: HookClient, event: str, folder: Path, limit_s: float | None) -> NoReturn:
    """Read the event from standard input, print the answer to it, and exit at once: an agent waits for the end."""
    text = sys.stdin.buffer.read(_LARGEST).decode("utf-8", "replace")
    output = answer(client, event, text, folder, limit_s)
    sys.stdout.write(output.stdout)
    sys.stdout.flush()
    sys.stderr.write(output.stderr)
    sys.stderr.flush()
    os._exit(output.exit_code)  # freeing every module would take a tenth of the time


def answer(client: HookClient, event: str, text: str, folder: Path, limit_s: float | None = None) -> HookOutput:
    """Return what the hook prints for this event; `folder` counts where the client names none."""
    began = time.monotonic()
    call = clients.read(client, event, text)
    if CHECK in call.raw:
        return _check_answer(client, event, call.raw[CHECK])
    call = call._replace(folder=folder / call.folder)
    patience = limit_s if limit_s is not None else client.timeout_s - _SPARE_S
    try:
        given = _judged(call, began + max(patience, _LEAST_S))
    except ReflectloopError as error:
        given = _unable(
            call, f"{error.code}: {error.message}" + (f" Next: {error.next_step}" if error.next_step else "")
        )
    except Exception as fault:  # noqa: BLE001 - a hook that dies lets the agent go on
        given = _unable(call, f"{type(fault).__name__}: {fault}. Next: reflectloop doctor")
    return clients.output(client, call, given)


def _check_answer(client: HookClient, event: str, mark: object) -> HookOutput:
    """Return the answer to a check: it repeats the mark, so that no other program can give it by accident."""
    document = {CHECK: mark, "client": client.name, "event": event, "version": reflectloop.__version__}
    return HookOutput(json.dumps(document) + "\n")


def _unable(call: HookCall, reason: str) -> HookAnswer:
    """Return the answer where judging failed. A second stop is let through: nothing unproven can be applied anyway."""
    if call.event not in _CLOSED or (call.event is not HookEvent.BEFORE_TOOL and call.asked_before):
        return HookAnswer("allow", context=f"reflectloop could not look at this: {reason}")
    text = f"reflectloop could not judge this: {reason}"
    return HookAnswer("deny", text) if call.event is HookEvent.BEFORE_TOOL else HookAnswer("block", text)


def _judged(call: HookCall, deadline: float) -> HookAnswer:
    if call.event is HookEvent.BEFORE_TOOL:
        from reflectloop.hooks import tool_calls  # noqa: PLC0415 - loads the command policy

        root = _root(call.folder)
        return tool_calls.before(call, root, root / repository.OWN_FOLDER) if root else ALLOW
    if call.event in (HookEvent.PROMPT, HookEvent.SESSION_END):
        return ALLOW
    from reflectloop.hooks import session_events  # noqa: PLC0415 - loads the engine, which is not needed before tools

    return session_events.answer(call, deadline)


def _root(folder: Path) -> Path | None:
    """Return the project around a folder, or None if there is none, or the folder is gone.

    Every tool call waits for this, so git is asked only outside of a repository.
    """
    real = Path(os.path.realpath(folder))
    if not real.is_dir():
        return None
    try:
        inside = repository.find(real)
        if inside is None:
            from reflectloop.workspace import project  # noqa: PLC0415 - loads git and the sandbox

            return project.locate(real)
    except UnsupportedRepository:
        return None
    own = inside.root / repository.OWN_FOLDER
    if own.is_symlink():
        raise InvalidInput(
            f"{own} is a link or a file that reflectloop did not make", next_step=f"look at it and remove {own}"
        )
    return inside.root
