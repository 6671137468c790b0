"""A secret rule, and how its pattern is built. Patterns run on a linear-time engine."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

if TYPE_CHECKING:
    import re2

# An identifier (a UUID, a public address) is no secret: only `scan` reports it, and only if asked.
Grade = Literal["certain", "likely", "identifier"]

# A format starts at a word boundary, or after a sequence that ends in a letter or digit but is not part of the value:
# a string escape, a terminal control sequence (raw or escaped), a URL-encoded byte, a quoted-printable separator.
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
    keywords: tuple[str, ...]  # lower case; a line is matched only if it contains one of these, or if there are none
    pattern: str
    grade: Grade
    entropy: float = 0.0  # least entropy of the value, in bits per character
    check: str = "value"  # the name in `validators.CHECKS` of the check of a match
    lines: int = 1  # number of lines that the pattern may span, starting with the keyword's
    each: str = ""  # second pattern, if the first matches a block of several values: it matches each of them


def pattern_of(entry: dict[str, Any]) -> str:
    """Build the pattern from a complete `regex`, a bare `format`, or a `value` that follows the name `near`."""
    if "regex" in entry:
        return cast("str", entry["regex"])
    if "format" in entry:
        return f"{_BEFORE}({entry['format']}){_AFTER}"
    return f"(?i:{entry['near']}){_TO_VALUE}((?i:{entry['value']})){_END_OF_VALUE}"


@cache
def compile_pattern(pattern: str, *, captures: bool = True) -> re2._Regexp:
    """Compile a pattern. Without captures the engine needs no second pass over a match."""
    import re2  # noqa: PLC0415 - most texts hold no keyword of any rule

    options = re2.Options()
    options.never_capture = not captures
    options.encoding = re2.Options.Encoding.LATIN1  # matches any bytes, also invalid UTF-8
    options.log_errors = False
    return re2.compile(pattern.encode("latin-1"), options)
