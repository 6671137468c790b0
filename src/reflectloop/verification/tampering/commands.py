"""Compare changed command lines: flags of runners, shell tricks, recipes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from functools import cache

from reflectloop.verification.tools.registry import tools

# Constructs that make any failing check succeed.
_LOOSENS = (
    r"\|\|\s*(?:true|:|exit\s+0|echo|/bin/true)|;\s*(?:true|:)\s*$|\bexit\s+0\b|\bset\s+\+e\b|&\s*$|--no-fail|--exit-zero|"
    r"--if-present|--silent-failures|--no-verify|continue-on-error:\s*(?:\$\{\{\s*)?[\"']?true|"
    r"allow_failure:\s*[\"']?true|"
    r"\|\s*(?:true|cat|tail|head|tee)\b|\bif:\s*(?:\$\{\{\s*)?(?:false|always\(\)\s*&&\s*false)|--warn-only"
)
# Flags that run fewer tests, stop early, or hide output.
_NARROWS = (
    *(r"--run\S*", r"--skip\S*", r"--exclude\S*", r"--only\S*", r"--shard\S*", r"--filter\S*", r"--select\S*", "--fix"),
    *("--exit-zero", "--quiet-errors"),
)
_STRICTER = (
    *(
        r"\{(?:posargs|tty|env)\S*",
        r"--strict\S*",
        "-v+",
        "-q+",
        "--verbose",
        "--quiet",
        r"--color\S*",
        r"--reporter\S*",
    ),
    *(r"--timeout\S*", "-Werror", "-W error", "auto", r"\d+", r"--show-\S*", r"--json\S*", r"--output\S*", "--check"),
)


@cache
def loosens() -> re.Pattern[str]:
    """Return the pattern of what lets a failure pass."""
    return re.compile("|".join([_LOOSENS, *(pattern for tool in tools() for pattern in tool.tampering.loosens)]))


@cache
def _narrows() -> re.Pattern[str]:
    return _any_flag([*_NARROWS, *(flag for tool in tools() for flag in tool.tampering.narrows)])


@cache
def _stricter() -> re.Pattern[str]:
    return _any_flag([*_STRICTER, *(flag for tool in tools() for flag in tool.tampering.stricter)])


@cache
def _valued() -> frozenset[str]:
    return frozenset(flag for tool in tools() for flag in tool.tampering.valued_flags)


def _any_flag(flags: Iterable[str]) -> re.Pattern[str]:
    return re.compile(f"^(?:{'|'.join(dict.fromkeys(flags))})$")


def words(line: str) -> list[str]:
    """Split a command line into words, joining each flag with its value."""
    try:
        plain = shlex.split(line, comments=False)
    except ValueError:
        plain = line.split()
    joined: list[str] = []
    for word in plain:
        if joined and joined[-1] in _valued():
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined


def options(old: Sequence[str], new: Sequence[str]) -> str | None:
    """Return why a list of flags checks less than before, or None."""
    added = [word for word in new if word not in old]
    removed = [word for word in old if word not in new]
    for word in added:
        if not _matches(_stricter(), word):
            return (
                f"adds `{word}`" if _matches(_narrows(), word) else f"adds `{word}`, which is not known to be harmless"
            )
    for word in removed:
        if not _matches(_narrows(), word) and not _changes_output_only(word):
            return f"drops `{word}`"
    return None


def _matches(pattern: re.Pattern[str], word: str) -> bool:
    return pattern.match(word) is not None or pattern.match(word.split(" ", maxsplit=1)[0]) is not None


def _changes_output_only(word: str) -> bool:
    """Return True if the flag changes only the output or the speed."""
    return (
        re.match(
            r"-(?:r[a-zA-Z]*|v+|q+|n.*|s|l)$|--(?:tb|color|durations|verbose|quiet|showlocals|dist|benchmark)", word
        )
        is not None
    )


def command(old: str, new: str) -> str | None:
    """Return why a changed command line checks less than before, or None."""
    if (match := loosens().search(new)) and not loosens().search(old):
        return f"`{match[0].strip()}` lets a failure pass"
    before, after = words(old), words(new)
    if not before:
        return None
    if before[:1] != after[:1]:
        return f"`{old[:60]}` became `{new[:60]}`"
    return options(before[1:], after[1:])


def recipe(old: Sequence[str], new: Sequence[str]) -> str | None:
    """Return why a list of command lines checks less, or None: a line is removed, loosened, or ignores failures."""
    new_lines = [line for line in new if line not in old]
    for line in new_lines:
        if loosens().search(line):
            return f"`{line[:80]}` lets a failure pass"
        if line.lstrip("@").startswith("-") and line.lstrip("@-+ ") in {old_line.lstrip("@-+ ") for old_line in old}:
            return f"a failure of `{line[:80]}` is now ignored"
    waiting = list(new_lines)
    for line in old:
        if line in new:
            continue
        if not waiting:
            return f"`{line[:80]}` was removed"
        if why := command(line.lstrip("@-+ "), waiting.pop(0).lstrip("@-+ ")):
            return why
    return None
