"""Reads server-sent events out of lines; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

END = "[DONE]"


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines end by CR, LF or both, and by nothing else: answers hold every other kind of break as text."""
    held: list[bytes] = []
    returned = False  # the last chunk ended with CR, of which LF may be the other half
    for chunk in chunks:
        fresh = chunk[1:] if returned and chunk.startswith(b"\n") else chunk
        returned = chunk.endswith(b"\r")
        *whole, rest = fresh.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in whole:
            yield b"".join([*held, line]).decode("utf-8", "replace")
            held = []
        held.append(rest)
    yield b"".join(held).decode("utf-8", "replace")


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
