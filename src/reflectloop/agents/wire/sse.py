"""Parses server-sent events; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

END = "[DONE]"


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Split chunks into lines at CR, LF or both only: other line breaks are part of the text."""
    pending: list[bytes] = []
    returned = False  # the last chunk ended with CR, and its LF may follow
    for chunk in chunks:
        fresh = chunk[1:] if returned and chunk.startswith(b"\n") else chunk
        returned = chunk.endswith(b"\r")
        *complete, rest = fresh.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in complete:
            yield b"".join([*pending, line]).decode("utf-8", "replace")
            pending = []
        pending.append(rest)
    yield b"".join(pending).decode("utf-8", "replace")


def events(lines: Iterable[str]) -> Iterator[str]:
    """Yield the data of each event. Event names are ignored: the data contains the type."""
    pending: list[str] = []
    for line in lines:
        if not line and pending:
            yield "\n".join(pending)
            pending = []
        elif line.startswith("data:"):
            pending.append(line[5:].removeprefix(" "))
    if pending:
        yield "\n".join(pending)
