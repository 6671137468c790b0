"""Decide whether a shell command only reads, for agents that may not write."""

from __future__ import annotations

import re
import shlex

from reflectloop import policy

_READERS = frozenset(
    """
    ls cat head tail grep egrep fgrep rg wc sort uniq cut tr nl pwd which type file stat tree du df echo printf date
    diff cmp basename dirname realpath readlink true false test [ jq column cd less more od xxd sha256sum
    """.split()  # noqa: SIM905 - reads better as text
)
_GIT = frozenset(
    "status log diff show blame ls-files ls-tree rev-parse grep describe shortlog cat-file rev-list".split()  # noqa: SIM905
)
# Commands of ours that leave the user's files as they are: what they change is a copy, or the journal.
_OURS = frozenset(
    """
    status tasks show log diff route plan tp tr run review resume answer skip redo fileops template agents detect
    protected verify gate receipt policy critic reflect diagnose scan doctor help
    """.split()  # noqa: SIM905
)
_LESSONS = frozenset(("list", "search", "show", "patches"))
_ACTING_OPTIONS = frozenset(("-o", "--output", "-i", "--in-place", "-delete", "-exec", "-execdir", "-ok", "-fprint"))
_REDIRECTED = re.compile(r"(?<![0-9&])[0-9]?>>?(?!&[0-9]|\s*/dev/null)|<>|>\|")
_JOINED = re.compile(r"[;&|`$()\n]")  # more than one program
_HERE = re.compile(r"<<'(\w+)'\n.*?^\1$", re.DOTALL | re.MULTILINE)  # input that the shell leaves as it is
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")


def only_reads(command: str | tuple[str, ...]) -> bool:
    """Return True if every part of a command is a program that reads; unknown programs count as writing."""
    text = _HERE.sub("", command) if isinstance(command, str) else shlex.join(command)
    bare = _QUOTED.sub("''", text)
    if _REDIRECTED.search(bare):
        return False
    if not _JOINED.search(bare) and "`" not in text and "$(" not in text and _reads(text):
        return True
    parts = [part for part in policy.default().look(text) if part.source.strip() != text.strip()]
    sources = [part.source for part in parts] or [text]
    return all(_reads(source) for source in sources)


def _reads(source: str) -> bool:
    try:
        words = shlex.split(source)
    except ValueError:
        return False
    if not words or "=" in words[0]:
        return False
    return _ours(words[1:]) if words[0] == "reflectloop" else _program_reads(words)


def _program_reads(words: list[str]) -> bool:
    program = words[0].rpartition("/")[2]
    options = {word.partition("=")[0] for word in words[1:]}
    if options & _ACTING_OPTIONS:
        return False
    if program == "git":
        return next((word for word in words[1:] if not word.startswith("-")), "") in _GIT and "-c" not in words
    if program == "sed":
        return words[1:2] == ["-n"] and not re.search(r"[we]\b", " ".join(words[2:3]))
    return program in _READERS or program == "find"


def _ours(words: list[str]) -> bool:
    """Return True for a command of ours that a planner may send; a setting of the project is not his to accept."""
    if "--trust-project" in words:
        return False
    name, below = (*words, "", "")[:2]
    return name in _OURS or (name == "lessons" and below in _LESSONS)
