"""Turn the bytes a tool wrote into lines of plain text, in bounded memory."""

from __future__ import annotations

from reflectloop.system import terminal
from reflectloop.system.patterns import lazy

MOST = 96 << 20  # bytes of a report; a larger one is refused
_HEAD, _TAIL = 8 << 20, 24 << 20  # bytes of a log; the middle of a larger one is skipped
_LONGEST = 2000  # characters per line
_UTF16_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_DECLARED = lazy(rb"""\A\s*<\?xml[^>]{0,80}encoding=["']([A-Za-z0-9._-]{1,40})["']""")


def text(data: bytes | str) -> str:
    r"""Return readable text: no colours, no control characters, `\n` line ends."""
    raw = data.encode("utf-8", "replace") if isinstance(data, str) else _to_utf8(data)
    plain_text = terminal.plain(raw).decode("utf-8", "replace")
    return plain_text.replace("\r\n", "\n").replace("\r", "\n")


def _to_utf8(data: bytes) -> bytes:
    for mark, encoding in _UTF16_MARKS:
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
    """Return the beginning and the end of a huge log, where tools report their results."""
    if len(data) <= _HEAD + _TAIL:
        return data
    if isinstance(data, str):
        return data[:_HEAD] + "\n" + data[-_TAIL:]
    return data[:_HEAD] + b"\n" + data[-_TAIL:]


def lines(text: str) -> list[str]:
    return [line[:_LONGEST].rstrip() for line in text.split("\n")]
