"""What one rule is, and how its pattern is put together. Patterns run on a linear-time engine."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

import re2

Grade = Literal["certain", "likely"]

# Before a format: no letter or digit, or what ends in one and stands for something else: an escape of a string, a
# control sequence as it is or escaped, an encoded byte of an address, an encoded separator of a mail.
_ESCAPE = r"\\(?:[abefnrtv0]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|0[0-7]{2})"
_CONTROL = rf"(?:\x1b\[|\xc2\x9b|{_ESCAPE}\[)[0-9;:?]*[A-Za-z]"
_ENCODED = r"%(?:25)*[0-9A-Fa-f]{2}|=(?:0[9AD]|2[0-9A-F]|3[A-F])"
_BEFORE = rf"(?:\b|{_ESCAPE}|{_CONTROL}|{_ENCODED})"
_AFTER = r"(?:[^A-Za-z0-9_]|$)"
# Between a provider's name and its value: the rest of the name, closing quotes, an operator, opening quotes.
_TO_VALUE = r"""(?:[ \t\w.-]{0,20})[\s'"\\\])}]{0,4}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,|->|\()["'`\s=\\(]{0,6}"""
_END_OF_VALUE = r"""(?:[`'"\s;,)<>\\&\]}]|$)"""


class SecretRule(NamedTuple):
    id: str
    keywords: tuple[str, ...]  # in lower case; text without any of these is not matched at all; none: always matched
    pattern: str
    grade: Grade
    entropy: float = 0.0  # what the value must have, in bits a character
    check: str = "value"  # which of `checks.CHECKS` looks at what the pattern found
    lines: int = 1  # how many lines the pattern may look at, beginning with the keyword's
    each: str = ""  # where the pattern finds a block of values: finds each of them in it


def pattern_of(entry: dict[str, Any]) -> str:
    """A whole `regex`, a bare `format`, or a `value` that counts `near` a provider's name."""
    if "regex" in entry:
        return cast("str", entry["regex"])
    if "format" in entry:
        return f"{_BEFORE}({entry['format']}){_AFTER}"
    return f"(?i:{entry['near']}){_TO_VALUE}((?i:{entry['value']})){_END_OF_VALUE}"


def compiled(pattern: str, *, captures: bool = True) -> re2._Regexp:
    """Without captures the engine needs no second pass over what it finds."""
    options = re2.Options()
    options.never_capture = not captures
    options.encoding = re2.Options.Encoding.LATIN1  # bytes that are no UTF-8 are bytes all the same
    options.log_errors = False
    return re2.compile(pattern.encode("latin-1"), options)
