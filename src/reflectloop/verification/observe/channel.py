"""A named pipe that a check writes events into; they are read while the check runs, so nothing can be taken back."""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_READ = 1 << 16
_MOST_BYTES = 256 << 20


class ChannelEvents(NamedTuple):
    """The events in the order in which they were written, and what is wrong with the channel itself."""

    events: tuple[Mapping[str, Any], ...]
    faults: tuple[str, ...] = ()


class Channel:
    """The reading end of the pipe, read by a thread of its own."""

    def __init__(self, path: Path, *, many: bool = False) -> None:
        self._many = many  # True if several processes tell outcomes, each in a session of its own
        os.mkfifo(path, 0o600)
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # a writer of our own, so that there is no end of file
        self._stop, self._stopping = os.pipe()
        self._data = bytearray()
        self._thread = threading.Thread(target=self._read, name="events", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._pipe, self._stop], [], [])
            if self._pipe in ready:
                self._take()
            if self._stop in ready:
                return

    def _take(self) -> None:
        try:
            while chunk := os.read(self._pipe, _READ):
                if len(self._data) < _MOST_BYTES:
                    self._data += chunk
        except BlockingIOError:
            return

    def close(self) -> ChannelEvents:
        """Return all events, after the check has ended."""
        os.close(self._stopping)
        self._thread.join()
        self._take()
        os.close(self._stop)
        os.close(self._pipe)
        return read_events(bytes(self._data), many=self._many)


def read_events(data: bytes, *, many: bool = False) -> ChannelEvents:
    """Read the lines; a line that is no event, or has another number than the next one, is a fault."""
    events: list[Mapping[str, Any]] = []
    counts: dict[str, int] = {}  # by session
    for line in data.split(b"\n")[:-1]:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("e"), str):
            return ChannelEvents(tuple(events), ("a line is no event",))
        session = str(event.get("s", ""))
        count = counts.get(session, 0)
        if (event["e"] == "start" and count) or (counts and not count and not many):
            return ChannelEvents(tuple(events), ("a second session was started",))
        if event.get("n") != count:
            return ChannelEvents(tuple(events), (f"event {count} has the number {event.get('n')}",))
        counts[session] = count + 1
        events.append(event)
    rest = data.rpartition(b"\n")[2]
    return ChannelEvents(tuple(events), ("the last event is cut",) if rest else ())
