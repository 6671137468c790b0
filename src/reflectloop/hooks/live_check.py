"""Prove that installed hooks are live: run each as its client would, with an event that only our program can answer."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reflectloop.hooks.answering import CHECK
from reflectloop.hooks.clients import CLIENTS
from reflectloop.hooks.model import HookEvent
from reflectloop.system import clock, process

_TRY_S = 60.0
_FORBIDDEN = shlex.join(("rm", "-rf", "/"))


def faults(client: str, commands: Mapping[str, str], root: Path | None) -> list[str]:
    """Return which hooks do not answer, by the command of each event; in a project also one that refuses nothing."""
    out = [fault for event, line in commands.items() for fault in _fault(client, event, line)]
    if out or root is None:
        return out
    judging = [event for event in commands if CLIENTS[client].events.get(event) is HookEvent.BEFORE_TOOL]
    return [fault for event in judging for fault in _lets_pass(client, event, commands[event], root)]


def _fault(client: str, event: str, line: str) -> list[str]:
    mark = clock.mark()
    stdout, fault = _run(line, {CHECK: mark, "session_id": "check", "cwd": "/", "stop_hook_active": False})
    if fault:
        return [f"{client} {event}: {fault}"]
    try:
        document = json.loads(stdout)
    except ValueError:
        document = None
    given = document if isinstance(document, dict) else {}
    if (given.get(CHECK), given.get("client"), given.get("event")) != (mark, client, event):
        return [f"{client} {event}: another program answers, or none: {stdout[:80]!r}"]
    return []


def _lets_pass(client: str, event: str, line: str, root: Path) -> list[str]:
    """Return a fault if a command that is always refused is not."""
    call = {"tool_name": "Bash", "toolName": "bash", "tool_input": {"command": _FORBIDDEN}}
    call["toolArgs"] = {"command": _FORBIDDEN}
    stdout, fault = _run(line, {"session_id": "check", "cwd": str(root), **call})
    if not fault and '"deny"' not in stdout:
        fault = f"it lets {_FORBIDDEN} pass"
    return [f"{client} {event}: {fault}"] if fault else []


def _run(line: str, event: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a hook prints, and how it failed if it did."""
    try:
        done = process.capture(["sh", "-c", line], cwd=Path("/"), stdin=json.dumps(event).encode(), timeout_s=_TRY_S)
    except (TimeoutError, OSError) as fault:
        return "", str(fault)
    text = done.stderr.decode("utf-8", "replace").strip()[-200:]
    return done.stdout.decode("utf-8", "replace"), f"exit code {done.code}: {text}" if done.code else ""
