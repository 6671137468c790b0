"""Reads server-sent events out of lines; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

END = "[DONE]"


def events(lines: Iterable[str]) -> Iterator[str]:
    """The data of each event. Names are passed over: the data says what it is."""
    held: list[str] = []
    for line in lines:
        if not line and held:
            yield "\n".join(held)
            held = []
        elif line.startswith("data:"):
            held.append(line[5:].removeprefix(" "))
    if held:
        yield "\n".join(held)
