"""What CLIs keep of their sessions in their HOME, and how full a session's context is by it. Reads only."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reflectloop.agents.backend import Json
from reflectloop.fileops import safe_files

_LARGEST = 256 << 20  # bytes of a transcript that are read
_DEPTH = 4  # Codex sorts by year, month and day


class ContextUse(NamedTuple):
    """Tokens that the session holds now, and how many it can hold where that is known."""

    used: int
    window: int | None = None


def of_claude(home: Path, session: str) -> ContextUse | None:
    """The last word of the main line: what sub-agents used is in contexts of their own."""
    used: int | None = None
    for record in _records(home, ".claude/projects", f"/{session}.jsonl"):
        said = (record.get("message") or {}).get("usage")
        if record.get("type") == "assistant" and not record.get("isSidechain") and isinstance(said, dict):
            names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
            used = sum(int(said.get(name) or 0) for name in names)
    return None if used is None else ContextUse(used)


def of_codex(home: Path, session: str) -> ContextUse | None:
    """The last count; the totals beside it are of all requests together, which no context ever held."""
    told = _count_of_codex(home, session)
    last = (told or {}).get("last_token_usage")
    if told is None or not isinstance(last, dict):
        return None
    return ContextUse(int(last.get("total_tokens") or 0), told.get("model_context_window"))


def total_of_codex(home: Path, session: str) -> Json | None:
    """What all calls of a session used together, in its own words."""
    total = (_count_of_codex(home, session) or {}).get("total_token_usage")
    return total if isinstance(total, dict) else None


def _count_of_codex(home: Path, session: str) -> Json | None:
    found: Json | None = None
    for record in _records(home, ".codex/sessions", f"-{session}.jsonl"):
        payload = record.get("payload") or {}
        if payload.get("type") == "token_count" and isinstance(payload.get("info"), dict):
            found = payload["info"]
    return found


def _records(home: Path, folder: str, ending: str) -> Iterator[Json]:
    """HOME is the agent's to write: nothing in it is followed out of it."""
    with contextlib.suppress(safe_files.AccessBarred, OSError), safe_files.opened(home) as files:
        paths = [one.path for one in files.walk(folder, _DEPTH) if one.kind == "file" and one.path.endswith(ending)]
        for path in paths:
            for line in files.read(path, _LARGEST).splitlines():
                with contextlib.suppress(ValueError):
                    record = json.loads(line)
                    if isinstance(record, dict):
                        yield record
