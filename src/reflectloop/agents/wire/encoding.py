"""Decompresses an HTTP response in chunks of bounded size."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

_CHUNK = 1 << 16  # bytes
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
_PLAIN = ("", "identity")


class Unpackable(Exception):
    """The content is not compressed as its header says."""


def fault_in(header: str) -> bool:
    """Return True if the content encoding is unknown, or if there are several."""
    name = header.strip().lower()
    return name not in _PLAIN and name not in _WINDOWS


def unpack(raw: Iterable[bytes], header: str) -> Iterator[bytes]:
    """Yield the decompressed content of `raw`, at most one chunk at a time."""
    name = header.strip().lower()
    if name in _PLAIN:
        yield from raw
        return
    machine = zlib.decompressobj(_WINDOWS[name])
    try:
        for piece in raw:
            left = piece
            while left and not machine.eof:
                yield machine.decompress(left, _CHUNK)
                left = machine.unconsumed_tail
    except zlib.error as fault:
        raise Unpackable(f"something that is not {name} ({fault})") from fault
    if not machine.eof:
        raise Unpackable(f"{name} that ends in the middle")
