"""Find private keys in PEM and similar formats: over many lines, escaped into one, or cut off."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from reflectloop.system import patterns

KEYWORD = b"-----begin"
RULE = "private-key"
LONGEST = 1 << 16  # bytes; a longer key is taken to end there
_MAX_MARKER = 80
_MIN_BODY = 24  # characters of the body; a header alone is not a key
_SAMPLE_PART = 4  # a body shorter than the stated length divided by this is a sample

# Python's own engine is linear on these: each is anchored, bounded and free of choices.
_BEGIN = patterns.lazy(rb"-----BEGIN[ A-Z0-9_]{0,40}PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_END = patterns.lazy(rb"-----END[ A-Z0-9_]{0,40}PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_BREAK = patterns.lazy(rb"\r?\n|\\+r|\\+n")
_FRAME = rb" \t\r\"'`,;+|*#>()[]{}\\$"
_BODY = patterns.lazy(rb"[A-Za-z0-9+/=.]+\Z")
_UNFINISHED = patterns.lazy(rb"[A-Za-z0-9+/=.]*[\\\"' -]{0,8}-{0,5}(?:END[ A-Z0-9_]{0,60}-{0,5})?\Z")
_HEADER = patterns.lazy(rb"[A-Za-z][A-Za-z-]{2,20}: ?[^\n]{0,200}\Z")
_BETWEEN = patterns.lazy(rb"[A-Za-z0-9+/=\s\\\"'`,;+|*#>.:()\[\]{}&<$-]*\Z")


class Key(NamedTuple):
    start: int
    end: int
    complete: bool  # False if it may continue in data that has not arrived


def find(data: bytes, position: int, *, final: bool) -> Key | None:
    """Return the key that starts exactly at `position`, or None."""
    begin = _BEGIN.match(data, position)
    if not begin:
        return None
    limit = min(len(data), position + LONGEST)
    dashes = data.find(b"-----", begin.end(), limit)
    end = _END.match(data, dashes, limit) if dashes >= 0 else None
    if end and _is_sample(data[begin.end() : dashes]):
        return None
    if end and _is_body(data[begin.end() : dashes]):
        return Key(position, end.end(), complete=True)
    stop, is_open = _body_end(data, begin.end(), limit if dashes < 0 else dashes)
    more_may_come = limit < position + LONGEST and not final and not _is_no_end(data, dashes)
    if more_may_come and (is_open or _BETWEEN.match(data, begin.end(), limit)):  # a later END would make it a key
        return Key(position, stop, complete=False)
    return Key(position, stop, complete=True) if _is_body(data[begin.end() : stop]) else None


def _is_sample(body: bytes) -> bool:
    """Return True if a key with an END is much shorter than the length in its first bytes."""
    text = b"".join(re.findall(rb"[A-Za-z0-9+/]{8,}", body))
    head = base64.b64decode(text[:8]) if len(text) > _MIN_BODY and text.startswith(b"MI") else b""
    if head[:2] != b"\x30\x82":  # an ASN.1 sequence; the next two bytes are its length
        return False
    return len(text) * 3 // 4 < int.from_bytes(head[2:4], "big") // _SAMPLE_PART


def _is_no_end(data: bytes, dashes: int) -> bool:
    """Return True if the dashes start something other than an END; at the end of the data this is unknown."""
    return dashes >= 0 and len(data) - dashes > _MAX_MARKER


class _Stop(NamedTuple):
    end: int
    is_open: bool


def _body_end(data: bytes, start: int, limit: int) -> _Stop:
    """Return where the lines that look like a key's body end, and if more of them may come."""
    end = position = start
    headers = True
    while position < limit:
        separator = _BREAK.search(data, position, limit)
        stop = separator.start() if separator else limit
        framed = data[position:stop].rstrip(_FRAME)
        line = framed.lstrip(_FRAME)
        if line and not (headers and _HEADER.match(line)):
            if not _BODY.match(line) and (separator or not _UNFINISHED.match(line)):
                return _Stop(end, is_open=False)
            headers = False
        end = position + len(framed) if line else end
        position = separator.end() if separator else limit
    return _Stop(end, is_open=True)


def _is_body(body: bytes) -> bool:
    letters = sum(len(run) for run in re.findall(rb"[A-Za-z0-9+/]{8,}", body))
    return letters >= _MIN_BODY and _BETWEEN.match(body) is not None
