"""Ask the installed Codex, by its app server, which of our hooks it trusts: it skips the others without a word."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.errors import InvalidInput
from reflectloop.system.process import Conversation

SKIPS = "codex skips hooks it does not trust"
_LIMIT_S = 30.0
_PROGRAM = "codex"
_GREETING = {"clientInfo": {"name": "reflectloop", "title": "reflectloop", "version": "1"}}


class CodexHook(NamedTuple):
    """One hook as Codex sees it."""

    key: str
    event: str
    command: str
    digest: str
    trusted: bool


class CodexServer:
    """A conversation with `codex app-server`."""

    def __init__(self, talk: Conversation) -> None:
        self._talk, self._number = talk, 0

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request; lines about other things are passed over."""
        self._number += 1
        line = json.dumps({"id": self._number, "method": method, "params": params})
        self._talk.ask(line.encode() + b"\n")
        end = time.monotonic() + _LIMIT_S
        while (left := end - time.monotonic()) > 0:
            answer = self._talk.answer(left)
            if not answer:
                break
            with contextlib.suppress(ValueError):
                document = json.loads(answer)
                if isinstance(document, dict) and document.get("id") == self._number:
                    result = document.get("result")
                    return result if isinstance(result, dict) else {}
        raise InvalidInput(f"codex app-server does not answer {method}", next_step="codex --version")

    def hooks(self, root: Path) -> list[CodexHook]:
        """Return the hooks that Codex finds for a project."""
        data = self.ask("hooks/list", {"cwds": [os.fspath(root)]}).get("data")
        entries = [entry for place in data or () if isinstance(place, dict) for entry in place.get("hooks", ())]
        return [
            CodexHook(
                str(entry.get("key")),
                str(entry.get("eventName")),
                str(entry.get("command")),
                str(entry.get("currentHash")),
                entry.get("trustStatus") in ("trusted", "managed") and entry.get("enabled") is not False,
            )
            for entry in entries
            if isinstance(entry, dict)
        ]

    def trust(self, hooks: Sequence[CodexHook]) -> None:
        value = {hook.key: {"trusted_hash": hook.digest} for hook in hooks}
        edit = {"keyPath": "hooks.state", "value": value, "mergeStrategy": "upsert"}
        self.ask("config/batchWrite", {"edits": [edit]})


@contextlib.contextmanager
def connect() -> Iterator[CodexServer | None]:
    """Start the app server of the installed Codex; None if there is no Codex."""
    program = shutil.which(_PROGRAM)
    if program is None:
        yield None
        return
    talk = Conversation([program, "app-server"], env=dict(os.environ))
    try:
        server = CodexServer(talk)
        server.ask("initialize", _GREETING)
        talk.ask(b'{"method": "initialized"}\n')
        yield server
    finally:
        talk.kill()
        talk.close()


def faults(root: Path, commands: Sequence[str]) -> list[str]:
    """Return which hooks Codex would skip; empty also if there is no Codex."""
    with connect() as server:
        if server is None:
            return []
        ours = [hook for hook in server.hooks(root) if hook.command in commands]
    missing = len(commands) - len({hook.command for hook in ours})
    out = [f"codex does not see {missing} of {len(commands)} hooks; does it trust this folder?"] if missing else []
    skipped = [hook.event for hook in ours if not hook.trusted]
    return [*out, *([f"{SKIPS}: {', '.join(skipped)}"] if skipped else [])]


def trust(root: Path, commands: Sequence[str]) -> list[str]:
    """Let Codex trust our hooks as they are now, because the user asked for it; return their events."""
    with connect() as server:
        if server is None:
            raise InvalidInput("there is no codex on PATH", next_step="install codex, then run this again")
        ours = [hook for hook in server.hooks(root) if hook.command in commands]
        server.trust(ours)
        return [hook.event for hook in ours]
