"""UTF-16 and UTF-32 as plain text, for scanning: patterns look at bytes, and many of theirs are NUL."""

from __future__ import annotations

import re

_LETTER = rb"[\t\n\r -~]"
# A letter next to another is of the text before or behind: it would run together with what stands here.
_RUN = re.compile(
    rb"(?:\A\0|(?<!%(letter)s))%(letter)s(?:\0%(letter)s(?!%(letter)s)){3,}(?:\0(?!%(letter)s))?" % {b"letter": _LETTER}
)


_WIDE_RUN = re.compile(
    rb"%(letter)s(?:\0{3}%(letter)s(?!%(letter)s)){3,}(?:\0{3}(?!%(letter)s))?" % {b"letter": _LETTER}
)


def narrow(data: bytes) -> bytes:
    """The same without the NULs between letters; those of other bytes stay. Lines keep their numbers."""
    if b"\0" not in data:
        return data
    if b"\0\0\0" in data:
        data = _WIDE_RUN.sub(_without_nul, data)
    return _RUN.sub(_without_nul, data)


def _without_nul(run: re.Match[bytes]) -> bytes:
    return run[0].replace(b"\0", b"")
