"""UTF-16 as plain text, for scanning: patterns look at bytes, and every second one of it is NUL."""

from __future__ import annotations

import re

_LETTER = rb"[\t\n\r -~]"
# A letter next to another is of the text before or behind: it would run together with what stands here.
_RUN = re.compile(
    rb"(?:\A\0|(?<!%(letter)s))%(letter)s(?:\0%(letter)s(?!%(letter)s)){3,}(?:\0(?!%(letter)s))?" % {b"letter": _LETTER}
)


def narrow(data: bytes) -> bytes:
    """The same without the NULs between letters; those of other bytes stay. Lines keep their numbers."""
    return _RUN.sub(lambda run: run[0].replace(b"\0", b""), data) if b"\0" in data else data
