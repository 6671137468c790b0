"""Reads how full the context of a live session is: the last record of its transcript, read from the file's end."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.agents.prices import Prices
from reflectloop.system.patterns import lazy

_BLOCK = 1 << 18
_MOST_READ = 64 << 20  # bytes from the end; a record that lies further away is not known
_LONGEST_LINE = 16 << 20
_NOT_LETTERS = lazy(r"[^A-Za-z0-9]")
_COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_MOST_ROLLOUTS = 200  # newest ones that are looked at for one of the project


class ContextFill(NamedTuple):
    """The tokens in a session's context, its window if known, and the transcript that says so."""

    used: int
    window: int | None
    path: Path

    def is_above(self, percent: float) -> bool:
        """Return True if more than this share is used; an unknown window is never full."""
        return self.window is not None and self.used * 100 > percent * self.window


class LiveTranscript(NamedTuple):
    """The newest transcript of a project; its size tells whether something was said since."""

    path: Path
    size: int


def lines_from_end(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, the last one first; only as much is read as is asked for, up to a limit."""
    with path.open("rb") as file:
        at = end = file.seek(0, os.SEEK_END)
        rest = b""
        while at > 0 and end - at < _MOST_READ:
            step = min(_BLOCK, at)
            at -= step
            file.seek(at)
            rest = file.read(step) + rest
            *lines, rest = rest.split(b"\n")[::-1]
            yield from (line for line in lines if line)
            if len(rest) > _LONGEST_LINE:
                return
        if at == 0 and rest:
            yield rest


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a file from its end; a torn line, or one of another kind, is left out."""
    try:
        for line in lines_from_end(path):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record
    except OSError:
        return


# Claude Code -------------------------------------------------------------------------------------------------------


def claude_transcript(home: Path, root: Path) -> LiveTranscript | None:
    """Return the newest transcript of a session in the project itself; those of subagents do not count."""
    folder = home / ".claude" / "projects" / _NOT_LETTERS.sub("-", os.fspath(root))
    return _newest([path for path in _listed(folder) if path.suffix == ".jsonl" and not path.name.startswith("agent-")])


def claude_fill(transcript: LiveTranscript, prices: Prices, limit: int | None = None) -> ContextFill | None:
    """Return the context after the last answer on the main chain; None if there is none yet."""
    for record in _records(transcript.path):
        message = record.get("message")
        if record.get("type") != "assistant" or record.get("isSidechain") or not isinstance(message, dict):
            continue
        used = _claude_tokens(message.get("usage"))
        if used:  # messages that the program wrote itself have none
            price = prices.of(str(message.get("model")))
            return ContextFill(used, limit or (price.window if price else None), transcript.path)
    return None


def _claude_tokens(usage: object) -> int:
    if not isinstance(usage, dict):
        return 0
    counts = [usage.get(name) for name in _COUNTED]
    return sum(count for count in counts if isinstance(count, int) and not isinstance(count, bool))


# Codex -------------------------------------------------------------------------------------------------------------


def codex_transcript(home: Path, root: Path) -> LiveTranscript | None:
    """Return the newest rollout whose first record names the project's folder."""
    folder = Path(os.environ.get("CODEX_HOME") or home / ".codex") / "sessions"
    rollouts = sorted(folder.glob("*/*/*/rollout-*.jsonl"), key=lambda path: path.name, reverse=True)
    return _newest([path for path in rollouts[:_MOST_ROLLOUTS] if _folder_of(path) == root])


def _folder_of(path: Path) -> Path | None:
    try:
        with path.open("rb") as file:
            payload = json.loads(file.readline(_LONGEST_LINE)).get("payload")
        return Path(str(payload["cwd"])) if isinstance(payload, dict) and payload.get("cwd") else None
    except (OSError, ValueError, RecursionError, AttributeError):
        return None


def codex_fill(transcript: LiveTranscript, _prices: Prices, limit: int | None = None) -> ContextFill | None:
    """Return the context after the last count, and the window that Codex itself names."""
    for record in _records(transcript.path):
        payload = record.get("payload")
        info = payload.get("info") if isinstance(payload, dict) and payload.get("type") == "token_count" else None
        last = info.get("last_token_usage") if isinstance(info, dict) else None
        used = last.get("total_tokens") if isinstance(last, dict) else None
        if isinstance(used, int) and isinstance(info, dict):
            window = info.get("model_context_window")
            return ContextFill(used, limit or (window if isinstance(window, int) else None), transcript.path)
    return None


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _newest(paths: list[Path]) -> LiveTranscript | None:
    """Return the file that was written last."""
    known = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        known.append((status.st_mtime_ns, LiveTranscript(path, status.st_size)))
    return max(known, key=lambda entry: entry[0])[1] if known else None
