"""Read a question: its words, the names of code in it, and the files, modules and stack frames it names. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from reflectloop.context import words

_HEAD, _TAIL = 24_000, 8_000  # characters of a long text that are read
_TITLE = 240
_CODE_NAME = re.compile(
    r"(?<![\w.])(?:[A-Za-z_]\w*\.)*(?:\w*_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[A-Za-z_]\w*(?=\())"
    r"|`{1,2}([A-Za-z_][\w.]*)`{1,2}"
)
_DOTTED = re.compile(r"(?<![\w/.])[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)+")
# Every repetition is bounded or begins at one place only: a question may be a log of any kind.
_PATH = re.compile(
    r"(?<![\w.@+/\\-])[/\\]*((?:[\w.@+-]{1,100}[/\\]{1,2}){0,40}[\w@+-][\w.@+-]{0,100}\.[A-Za-z]{1,5})\b"
    r"(?:(?::|#L|\", line |\(|, line )(\d{1,9}))?"
)
_FRAME = re.compile(
    r"File \"([^\"\n]{1,400})\", line (\d{1,9})(?:, in (\w+))?"
    r"|^[ \t]+at (?:([\w.$<>\[\] ]{1,200}?) \()?(?:file://)?((?:[A-Za-z]:)?[^():\s]{1,400})"
    r":(\d{1,9})(?::\d+)?\)?[ \t]*$"
    r"|^[ \t]*(?:-->|at)? ?((?:[\w.-]{0,100}/){0,40}[\w.-]{1,100}\.(?:go|rs|c|cc|cpp|h|rb|java)):(\d{1,9})",
    re.MULTILINE,
)
_FROM_IMPORT = re.compile(r"^[> \t]*(?:from\s+([\w.]+)\s+import\s+([\w, ]+)|import\s+([\w.]+))", re.MULTILINE)
_MOST_NAMES = 300


class NamedFile(NamedTuple):
    """A file as a text names it, with a line where it gives one."""

    path: str
    line: int = 0
    function: str = ""
    is_frame: bool = False


class Question(NamedTuple):
    """A text as the retriever understands it."""

    title: str
    terms: dict[str, int]
    title_terms: dict[str, int]
    names: dict[str, float]  # lower-case names of code -> how surely they are meant as such
    code: tuple[str, ...]  # names of code as they are written
    dotted: tuple[str, ...]
    files: tuple[NamedFile, ...]


def read(text: str, failure: str = "") -> Question:
    """Read a question and the output of a failed command."""
    whole = _shortened(f"{text}\n{failure}" if failure else text)
    title = next((line.strip("# \t") for line in text.split("\n") if line.strip("# \t\r")), "")[:_TITLE]
    return Question(
        title,
        words.query_words(whole),
        words.query_words(title),
        _names(whole, title),
        _code_names(whole),
        tuple(dict.fromkeys([*(found_name[0] for found_name in _DOTTED.finditer(whole)), *_imported(whole)]))[
            :_MOST_NAMES
        ],
        tuple(dict.fromkeys([*_frames(whole), *_named_files(whole)]))[:_MOST_NAMES],
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"


def _code_names(text: str) -> tuple[str, ...]:
    """Return the names that only code has: with underscores, capitals inside, dots, a call, or in back quotes."""
    parts = (part for match in _CODE_NAME.finditer(text) for part in (match[1] or match[0]).split("."))
    return tuple(dict.fromkeys(part for part in parts if part and part.lower() not in words.COMMON))[:_MOST_NAMES]


def _names(text: str, title: str) -> dict[str, float]:
    """Return names that look like code with weight 1, and other words of the title and the text with less."""
    out = {name.lower(): 1.0 for name in _code_names(text)}
    for weight, source in ((0.5, title), (0.25, text)):
        for word in words.names_of(source):
            low = word.lower()
            if len(low) > 2 and low not in words.COMMON:  # noqa: PLR2004
                out.setdefault(low, weight)
    return dict(list(out.items())[:_MOST_NAMES])


def _imported(text: str) -> list[str]:
    out = []
    for match in _FROM_IMPORT.finditer(text):
        if match[1]:
            out += [match[1], *(f"{match[1]}.{name.strip()}" for name in match[2].split(",") if name.strip())]
        else:
            out.append(match[3])
    return out


def _frames(text: str) -> list[NamedFile]:
    """Return the files of stack traces, the innermost frame of Python's last."""
    out = []
    for match in _FRAME.finditer(text):
        path = match[1] or match[5] or match[7]
        line = match[2] or match[6] or match[8]
        function = match[3] or (match[4] or "").rpartition(".")[2]
        out.append(NamedFile(path.replace("\\", "/"), int(line), function, is_frame=True))
    return out


def _named_files(text: str) -> list[NamedFile]:
    return [NamedFile(match[1].replace("\\", "/"), int(match[2] or 0)) for match in _PATH.finditer(text)]
