"""Convert UTF-16 and UTF-32 to plain text for scanning, because patterns match bytes and these contain NULs."""

from __future__ import annotations

import re

from reflectloop.system import patterns

_LETTER = rb"[\t\n\r -~]"
# A letter directly beside another belongs to the plain text around the run, and is left out.
_RUN = patterns.lazy(
    rb"(?:\A\0|(?<!%(letter)s))%(letter)s(?:\0%(letter)s(?!%(letter)s)){3,}(?:\0(?!%(letter)s))?" % {b"letter": _LETTER}
)


_WIDE_RUN = patterns.lazy(
    rb"%(letter)s(?:\0{3}%(letter)s(?!%(letter)s)){3,}(?:\0{3}(?!%(letter)s))?" % {b"letter": _LETTER}
)


def as_plain_text(data: bytes) -> bytes:
    """Remove the NULs between ASCII letters; other NULs stay. Line numbers do not change."""
    if b"\0" not in data:
        return data
    if b"\0\0\0" in data:
        data = _WIDE_RUN.sub(_without_nul, data)
    return _RUN.sub(_without_nul, data)


def _without_nul(run: re.Match[bytes]) -> bytes:
    return run[0].replace(b"\0", b"")
