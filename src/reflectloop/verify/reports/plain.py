"""Whatever bytes a tool left, as lines of plain text in bounded memory."""

from __future__ import annotations

import re

from reflectloop.world import terminal

MOST = 96 << 20  # of a report; what is larger is refused
_HEAD, _TAIL = 8 << 20, 24 << 20  # of a log; what lies between is left out
_LONGEST = 2000  # of a line; a tool says what is wrong long before
_WIDE = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_DECLARED = re.compile(rb"""\A\s*<\?xml[^>]{0,80}encoding=["']([A-Za-z0-9._-]{1,40})["']""")


def text(data: bytes | str) -> str:
    """Readable text: no colours, no control characters, one kind of line end."""
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else _narrow(data)
    shown = terminal.plain(raw).decode("utf-8", "replace")
    return shown.replace("\r\n", "\n").replace("\r", "\n")


def _narrow(data: bytes) -> bytes:
    for mark, encoding in _WIDE:
        if data.startswith(mark):
            return data[2:].decode(encoding, "replace").encode()
    declared = _DECLARED.match(data)
    if declared and declared[1].lower() not in {b"utf-8", b"utf8"}:
        try:
            return data.decode(declared[1].decode(), "replace").encode("utf-8", "replace")
        except (LookupError, ValueError):
            return data
    return data


def bounded(data: bytes | str) -> bytes | str:
    """Of a huge log its beginning and its end, where tools say what they found."""
    if len(data) <= _HEAD + _TAIL:
        return data
    if isinstance(data, str):
        return data[:_HEAD] + "\n" + data[-_TAIL:]
    return data[:_HEAD] + b"\n" + data[-_TAIL:]


def lines(shown: str) -> list[str]:
    return [line[:_LONGEST].rstrip() for line in shown.split("\n")]
