"""Makes a git repository that looks like source code: the same files, bytes and commit every time."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

_FOLDER_SIZE = 20  # files in a folder
_FAN_OUT = 12  # folders in a folder
_MEDIAN_LINES = 70
_MOST_LINES = 2_000
_WINDOW = 3  # how many neighbours git compares a file with when it packs; ten takes a minute longer
_WORDS = [
    "return",
    "value",
    "index",
    "buffer",
    "state",
    "handler",
    "for",
    "while",
    "if",
    "else",
    "not",
    "None",
    "self",
    "result",
    "error",
    "path",
    "name",
    "count",
    "size",
    "offset",
    "length",
    "start",
    "stop",
    "begin",
    "end",
    "write",
    "read",
    "open",
    "close",
    "parse",
    "token",
    "node",
    "tree",
    "leaf",
    "parent",
    "child",
    "update",
]


def make(root: Path, files: int) -> None:
    """By `git fast-import`: a hundred thousand loose objects made and deleted again would wear the disk out first."""
    root.mkdir(parents=True)
    _git(root, "init", "--quiet")
    _git(root, "fast-import", "--quiet", stdin=_history(files))
    _git(root, "-c", f"pack.window={_WINDOW}", "gc", "--quiet", "--prune=now")
    _git(root, "reset", "--quiet", "--hard")
    # So that no entry is as young as the index itself, by git's clock of seconds: it would read such files again.
    time.sleep(1.1)
    _git(root, "update-index", "--force-write-index", "--refresh")


def _git(root: Path, *words: str, stdin: bytes = b"") -> None:
    subprocess.run(["git", *words], cwd=root, input=stdin, check=True, capture_output=True)


def _history(files: int) -> bytes:
    """One commit of everything, as `git fast-import` reads it."""
    out = [b"commit refs/heads/main\ncommitter bench <bench@localhost> 1577836800 +0000\n", _data(b"Everything\n")]
    for number, name in enumerate(names(files)):
        out += [f"M 100644 inline {name}\n".encode(), _data(content(number))]
    return b"".join(out)


def _data(raw: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(raw), raw)


def names(files: int) -> list[str]:
    """Folders within folders, so many files in each."""
    return [f"{_folder(number // _FOLDER_SIZE)}/module_{number}.py" for number in range(files)]


def _folder(number: int) -> str:
    parts = [f"part_{number % _FAN_OUT}"]
    while number := number // _FAN_OUT:
        parts.append(f"part_{number % _FAN_OUT}")
    return "source/" + "/".join(reversed(parts))


def content(number: int, edition: int = 0) -> bytes:
    """A file's text; another edition differs in one line, as an edit does."""
    chance = random.Random(number)  # noqa: S311 - the same text every time is the point
    count = min(_MOST_LINES, max(1, round(chance.lognormvariate(0, 0.9) * _MEDIAN_LINES)))
    stems = [" ".join(chance.choices(_WORDS, k=7)) for _ in range(1 + count // 4)]
    lines = [f"    {stem}  # {chance.getrandbits(32):08x}" for stem in chance.choices(stems, k=count)]
    lines[count // 2] += f" edition {edition}"
    return ("\n".join([f'"""Module {number}."""', "", *lines]) + "\n").encode()
