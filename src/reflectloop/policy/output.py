"""What a simple command would print, where that can be told without running it."""

from __future__ import annotations

import base64
import binascii
import re

from reflectloop.policy.simple import Feed, Simple

_PREFIXES = frozenset(("sudo", "env", "command", "busybox", "doas"))
_HOLE = re.compile(r"%[-0-9.]*[sdqb]")
_LONGEST = 100_000


def of(one: Simple) -> Feed:
    program = one.program
    names = (program, *(word.text for word in one.words[1:2] if program in _PREFIXES))
    made_by = (*(one.feed.made_by if one.feed else ()), *names)
    return Feed(_text(one, program), made_by)


_FIXED = {"mktemp": "$TMPDIR/mktemp", "pwd": "$PWD"}


def _text(one: Simple, program: str) -> str | None:
    texts = one.texts[1:]
    if program in ("echo", "printf", "print") and all(word.known for word in one.words):
        return _echoed([text for text in texts if not re.fullmatch(r"-[neEr]+", text)], formats=program == "printf")
    if program in _FIXED:
        return _FIXED[program]
    return _passed(program, texts, one.feed.text) if one.feed and one.feed.text is not None else None


def _passed(program: str, texts: list[str], feed: str) -> str | None:
    """What a command makes of its input."""
    if program == "tee" or (program == "cat" and all(text.startswith("-") for text in texts)):
        return feed
    if program in ("base64", "base32") and any(re.fullmatch(r"-[a-z]*[dD]|--decode", text) for text in texts):
        return _decoded(feed)
    return feed[::-1] if program == "rev" else None


def _echoed(texts: list[str], *, formats: bool) -> str:
    if not formats or not texts:
        return " ".join(texts)[:_LONGEST]
    waiting = iter(texts[1:])
    first = _HOLE.sub(lambda _: next(waiting, ""), texts[0])
    return " ".join([first.replace("\\n", "\n"), *waiting])[:_LONGEST]


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(text.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
