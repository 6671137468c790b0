"""Private keys in PEM and their like: from BEGIN to END, over many lines, escaped into one, or cut off."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

KEYWORD = b"-----begin"
RULE = "private-key"
LONGEST = 1 << 16  # what runs on for longer is taken to end there
_LONGEST_MARK = 80
_LEAST = 24  # letters of body; a header alone is no key
_PART = 4  # a body of less than this part of a key is a sample of one

# Python's own engine is linear on these: each is anchored, bounded and free of choices.
_BEGIN = re.compile(rb"-----BEGIN[ A-Z0-9_]{0,40}PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_END = re.compile(rb"-----END[ A-Z0-9_]{0,40}PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_BREAK = re.compile(rb"\r?\n|\\+r|\\+n")
_FRAME = rb" \t\r\"'`,;+|*#>()[]{}\\$"
_BODY = re.compile(rb"[A-Za-z0-9+/=.]+\Z")
_UNFINISHED = re.compile(rb"[A-Za-z0-9+/=.]*[\\\"' -]{0,8}-{0,5}(?:END[ A-Z0-9_]{0,60}-{0,5})?\Z")
_HEADER = re.compile(rb"[A-Za-z][A-Za-z-]{2,20}: ?[^\n]{0,200}\Z")
_BETWEEN = re.compile(rb"[A-Za-z0-9+/=\s\\\"'`,;+|*#>.:()\[\]{}&<$-]*\Z")


class Key(NamedTuple):
    start: int
    end: int
    whole: bool  # False: it may go on in what has not come yet


def find(data: bytes, position: int, *, final: bool) -> Key | None:
    """The key that begins exactly at `position`, if one does."""
    begin = _BEGIN.match(data, position)
    if not begin:
        return None
    limit = min(len(data), position + LONGEST)
    dashes = data.find(b"-----", begin.end(), limit)
    end = _END.match(data, dashes, limit) if dashes >= 0 else None
    if end and _is_sample(data[begin.end() : dashes]):
        return None
    if end and _is_body(data[begin.end() : dashes]):
        return Key(position, end.end(), whole=True)
    stop, is_open = _body_end(data, begin.end(), limit if dashes < 0 else dashes)
    more_may_come = limit < position + LONGEST and not final and not _is_begun(data, dashes)
    if more_may_come and (is_open or _BETWEEN.match(data, begin.end(), limit)):  # an END would make a key of it
        return Key(position, stop, whole=False)
    return Key(position, stop, whole=True) if _is_body(data[begin.end() : stop]) else None


def _is_sample(body: bytes) -> bool:
    """Return whether a key that ends properly lacks most of what its own first bytes say it has."""
    text = b"".join(re.findall(rb"[A-Za-z0-9+/]{8,}", body))
    head = base64.b64decode(text[:8]) if len(text) > _LEAST and text.startswith(b"MI") else b""
    if head[:2] != b"\x30\x82":  # a sequence whose length stands in the next two bytes
        return False
    return len(text) * 3 // 4 < int.from_bytes(head[2:4], "big") // _PART


def _is_begun(data: bytes, dashes: int) -> bool:
    """Whether the dashes there begin something that is no END; at the very end of the data that cannot be said."""
    return dashes >= 0 and len(data) - dashes > _LONGEST_MARK


class _Stop(NamedTuple):
    end: int
    is_open: bool


def _body_end(data: bytes, start: int, limit: int) -> _Stop:
    """Where what looks like a key's lines ends, and whether more of them may come."""
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
    return letters >= _LEAST and _BETWEEN.match(body) is not None
