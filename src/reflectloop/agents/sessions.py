"""Reads how full a session's context is from the transcripts that command-line agents write into their HOME."""

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
    """The tokens in a session's context, and its maximum if known."""

    used: int
    window: int | None = None


def claude_context(home: Path, session: str) -> ContextUse | None:
    """Return the context of a Claude session by its last main message; sub-agents have separate contexts."""
    used: int | None = None
    for record in _records(home, ".claude/projects", f"/{session}.jsonl"):
        usage = (record.get("message") or {}).get("usage")
        if record.get("type") == "assistant" and not record.get("isSidechain") and isinstance(usage, dict):
            names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
            used = sum(int(usage.get(name) or 0) for name in names)
    return None if used is None else ContextUse(used)


def codex_context(home: Path, session: str) -> ContextUse | None:
    """Return the context of a Codex session by its last count; the totals next to it sum all requests."""
    counts = _count_of_codex(home, session)
    last = (counts or {}).get("last_token_usage")
    if counts is None or not isinstance(last, dict):
        return None
    return ContextUse(int(last.get("total_tokens") or 0), counts.get("model_context_window"))


def codex_total(home: Path, session: str) -> Json | None:
    """Return the total usage of a Codex session, as Codex reports it."""
    total = (_count_of_codex(home, session) or {}).get("total_token_usage")
    return total if isinstance(total, dict) else None


def _count_of_codex(home: Path, session: str) -> Json | None:
    info: Json | None = None
    for record in _records(home, ".codex/sessions", f"-{session}.jsonl"):
        payload = record.get("payload") or {}
        if payload.get("type") == "token_count" and isinstance(payload.get("info"), dict):
            info = payload["info"]
    return info


def _records(home: Path, folder: str, ending: str) -> Iterator[Json]:
    """Yield the JSON records of a transcript. The agent can write to HOME, so no link in it is followed."""
    with contextlib.suppress(safe_files.AccessBarred, OSError), safe_files.open_folder(home) as files:
        paths = [
            entry.path for entry in files.walk(folder, _DEPTH) if entry.kind == "file" and entry.path.endswith(ending)
        ]
        for path in paths:
            for line in files.read(path, _LARGEST).splitlines():
                with contextlib.suppress(ValueError):
                    record = json.loads(line)
                    if isinstance(record, dict):
                        yield record
