"""Finds the message that a line was made from, and makes the line from the same message in another language."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.errors import InvalidInput

_FIELD = re.compile(r"\{(\w+)\}")
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
# A mark before the words of a line: indentation, bullets, headings, quotes, the signs of progress.
_MARK = re.compile(r"^(?:\s+|[-*>·•!?✓✗…│=]+\s+|#+ |\d+\. |\[[ x>\-/\d]+\] |E-\d+ L\d |`[^`]*` )")
# Values of these names are one word each, so that a short message is not taken for another one.
_ONE_WORD = re.compile(
    r"(?:.*_)?id|(?:.*_)?(?:ids|code|count|number|calls|turns|tokens|level|track|state|attempts|times|hash|verdict|total|category|needs|rule|fingerprint)\d?"
)
_AFTER_LABEL = re.compile(r"(：(?:\x1b\[[0-9;]*m)*) ")  # a blank that English needs
_LABEL = re.compile(r"[\w)\]]: ")
_PATH_OR_LINE = re.compile(r"[\w./-]+(?::\d+)?")
_PATH = re.compile(r"\S*/\S*|[A-Z][A-Z_ ]+")  # or an outcome
_SIGNS = {"; ": "；", " ": ""}
_SIGN = re.compile(r"; | (?=\()")
_LAST_CLAUSE = r";\ (.*?)"
_SHELL = re.compile(r"[$<>|&]|(?<!\[)\"(?!\])")  # signs of a shell, and quotes that are none of a list
_ENTRY = re.compile(r'("(?:[^"\\]|\\["\\nt])*") = ("(?:[^"\\]|\\["\\nt])*")')
_FENCE = "```"
_COMMENT = "<!--"
_WORDS = "words"  # the table of single words, which are translated only inside of messages and cells
_CLEAR = 8  # characters of a message that is recognised behind a name


class _Message(NamedTuple):
    literal: str  # the longest piece of it without a value
    weight: int
    pattern: str
    fields: tuple[str, ...]
    wording: str


class Catalogue:
    """The messages of a language, by their English form.

    A field in small letters is a value and stays as it is; a field in capitals is text of ours and is translated too.
    """

    def __init__(self, entries: Mapping[str, str], words: Mapping[str, str]) -> None:
        self._exact = {key: text for key, text in entries.items() if not _FIELD.search(key)}
        self._words = dict(words)
        made = [_message(key, text) for key, text in entries.items() if _FIELD.search(key)]
        self._messages = sorted(made, key=lambda message: -message.weight)
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._known: dict[tuple[str, bool], str | None] = {}

    def document(self, text: str) -> str:
        lines, is_code = [], False
        for line in text.split("\n"):
            is_fence = line.lstrip().startswith(_FENCE)
            is_ours = not is_code and not is_fence and not line.startswith(_COMMENT)
            lines.append(self.line(line) if is_ours else line)
            is_code ^= is_fence
        return "\n".join(lines)

    def line(self, text: str) -> str:
        if "\n" in text:
            return self.document(text)
        return self._text(text, words=False) or text

    def _text(self, text: str, *, words: bool) -> str | None:
        """Return a text in this language, or None if nothing of it is known."""
        if not text.strip():
            return None
        key = (text, words)
        if key not in self._known:
            self._known[key] = None  # while it is looked for
            self._known[key] = self._look_up(text, words=words)
        return self._known[key]

    def _look_up(self, text: str, *, words: bool) -> str | None:
        whole = self._exact.get(text)
        if whole is None and words:
            whole = self._words.get(text)
        if whole is None:
            whole = self._by_message(
                text, is_marked=bool(_MARK.match(text)) or text.startswith("next: "), is_labelled=True
            )
        if whole is not None:
            return whole
        if _COLOUR.search(text):
            return self._coloured(text, words=words)
        return (
            self._counted(text)
            or self._marked(text, words=words)
            or self._by_message(text, is_labelled=True)
            or self._parts(text, words=words)
            or self._by_message(text)
        )

    def _by_message(
        self, text: str, *, is_marked: bool = False, is_labelled: bool = False, weight: int = 0
    ) -> str | None:
        """Return a text by the first message that it was made from.

        A mark is no value at the beginning of a message; and what may have a label before it has none in that value.
        """
        for message in self._messages:
            if message.literal not in text or message.weight < weight or (is_marked and message.pattern[0] == "("):
                continue
            pattern = self._patterns.get(message.pattern)
            if pattern is None:
                pattern = self._patterns[message.pattern] = re.compile(message.pattern, re.DOTALL)
            match = pattern.fullmatch(text)
            if match and not (is_labelled and _holds_label(message, match)) and self._ends_well(message, match):
                return self._filled(message, match)
        return None

    def _ends_well(self, message: _Message, match: re.Match[str]) -> bool:
        """Return False if what follows the last `; ` is no message, since the text before it may hold one, too."""
        if not message.pattern.endswith(_LAST_CLAUSE) or not message.fields[-1].isupper():
            return True
        return self._edge(match[len(message.fields)]) is not None

    def _filled(self, message: _Message, match: re.Match[str]) -> str:
        values = {
            name: (self._text(value, words=True) or value) if name.isupper() else value
            for name, value in zip(message.fields, match.groups(), strict=True)
        }
        last = message.fields[-1]
        if not last.isupper() and match.end(len(message.fields)) == len(match.string):
            values[last] = self._with_clauses(values[last])
        return _FIELD.sub(lambda field: values.get(field[1], field[0]), message.wording)

    def _with_clauses(self, value: str) -> str:
        """Return the value at the end of a text, with the messages that were joined to it translated."""
        place = value.find("; ")
        while place >= 0:
            known = self._edge(value[place + 2 :])
            if known is not None:
                return f"{value[:place]}；{known}"
            place = value.find("; ", place + 2)
        return value

    def _coloured(self, text: str, *, words: bool) -> str | None:
        parts = _COLOUR.split(text)
        made = [part if _COLOUR.fullmatch(part) else self._coloured_part(part, words=words) for part in parts]
        if made == parts:
            return self._text(_COLOUR.sub("", text), words=words)
        return _AFTER_LABEL.sub(r"\1", "".join(made))

    def _coloured_part(self, text: str, *, words: bool) -> str:
        """Return a piece of a line of several colours; a word with a colon is a label of ours."""
        label = self._words.get(text[:-1]) if text.endswith(":") else None
        return f"{label}：" if label is not None else self._edged(text, words=words)

    def _edged(self, text: str, *, words: bool) -> str:
        """Return a piece of a line in this language, with the blanks and signs around it as they are."""
        known = self._text(text, words=words)
        if known is not None:
            return known
        core = text.strip(" :;,.")
        at = text.find(core)
        known = self._text(core, words=words) if core and core != text else None
        return text[:at] + known + text[at + len(core) :] if known is not None else text

    def _counted(self, text: str) -> str | None:
        """Translate `3 passed` and `probed 3`."""
        first, _, last = text.partition(" ")
        if first.isdigit() and last in self._words:
            return f"{first} {self._words[last]}"
        return f"{self._words[first]} {last}" if last.isdigit() and first in self._words else None

    def _marked(self, text: str, *, words: bool) -> str | None:
        mark = _MARK.match(text)
        if not mark:
            return None
        known = self._text(text[mark.end() :], words=words)
        return mark[0] + known if known is not None else None

    def _parts(self, text: str, *, words: bool) -> str | None:
        """Translate the parts that a line was joined from: cells, columns, clauses."""
        if text.startswith("| ") and text.endswith(" |"):
            return self._joined(text[2:-2], " | ", " | ", words=True, around=("| ", " |"))
        label, sign, rest = text.partition(": ")
        is_open = label.count("(") > label.count(")")  # the sign stands in brackets
        known = self._edge(rest) if sign and not is_open and not _SHELL.search(label) else None
        if known is not None:
            return f"{self._label(label, words=words) or self._words.get(label) or label}：{known}"
        clauses = not _SHELL.search(text)  # which may be a command, and stays whole
        return (
            self._tailed(text, words=words)
            or self._named(text)
            or self._joined(text, "  ", "  ", words=words)
            or self._joined(text, " · ", " · ", words=words)
            or self._joined(text, " → ", " → ", words=words)
            or (self._joined(text, "; ", "；", words=words) if clauses else None)
            or self._labelled(text, words=words)
            or self._bracketed(text, words=words)
            or (self._joined(text, ", ", "，", words=words) if clauses else None)
            or (self._joined(text, ". ", "。", words=words) if clauses else None)
        )

    def _tailed(self, text: str, *, words: bool) -> str | None:
        """Translate `text; message` and the like, where the message may hold such signs, too."""
        for sign in _SIGN.finditer(text):
            for start in (sign.start(), sign.end()):
                known = self._exact.get(text[start:]) or self._by_message(text[start:], is_marked=True, weight=_CLEAR)
                if known is not None:
                    head = text[: sign.start()]
                    joint = "" if start == sign.start() else _SIGNS[sign[0]]
                    return f"{self._text(head, words=words) or head}{joint}{known}"
        return None

    def _joined(self, text: str, by: str, with_: str, *, words: bool, around: tuple[str, str] = ("", "")) -> str | None:
        if by not in text:
            return None
        parts = text.split(by)
        made = [self._part(part, by, words=words) for part in parts]
        if all(part is None for part in made):
            return None
        # Beside a part that is ours, a single word is ours, too.
        done = [
            known if known is not None else self._text(part, words=True) or part
            for part, known in zip(parts, made, strict=True)
        ]
        return around[0] + with_.join(done) + around[1]

    def _part(self, text: str, by: str, *, words: bool) -> str | None:
        """Return one of several parts; a message may begin with the sign before it."""
        known = self._text(text, words=words)
        if known is None and by in ("; ", ", "):
            known = self._edge(by + text)
            return known.lstrip("，；") if known is not None else None
        return known

    def _labelled(self, text: str, *, words: bool) -> str | None:
        """Translate `label: text`, where the label is a path, a code or words of ours."""
        label, sign, rest = text.partition(": ")
        if not sign:
            return None
        first, second = self._label(label, words=words), self._text(rest, words=words)
        if first is None and second is None and label in self._words and _PATH.fullmatch(rest):
            return f"{self._words[label]}：{rest}"
        if first is None and second is None:
            return None
        if first is None:
            first = self._words.get(label)  # a state before a text of ours
        return f"{first}：{second or rest}" if first is not None else f"{label}：{second}"

    def _label(self, text: str, *, words: bool) -> str | None:
        known = self._text(text, words=words)
        if known is None and (whole := self._exact.get(f"{text}:")) is not None:
            return whole.removesuffix("：")
        name, _, place = text.partition(" ")
        if known is None and name in self._words and _PATH_OR_LINE.fullmatch(place):
            return f"{self._words[name]} {place}"
        return known

    def _edge(self, text: str) -> str | None:
        """Return a text that is a whole message, or None."""
        known = self._exact.get(text)
        return known if known is not None else self._by_message(text, is_labelled=True) or self._by_message(text)

    def _named(self, text: str) -> str | None:
        """Translate `name message`, where the name is one word and the rest one of our messages."""
        name, _, rest = text.partition(" ")
        if not name[:1].isalpha() or name[-1] in ",;:" or not rest:
            return None
        known = self._exact.get(rest) or self._by_message(rest, weight=_CLEAR)
        if known is None:
            return None
        return f"{name}{known}" if known[:1] in "，；：（" else f"{name} {known}"

    def _bracketed(self, text: str, *, words: bool) -> str | None:
        start, sign, rest = text.partition(" (")
        if not sign or ")" not in rest:
            return None
        inside, _, after = rest.partition(")") if "(" not in rest.partition(")")[0] else rest.rpartition(")")
        whole = self._edge(f"({inside})")
        first, second = self._text(start, words=words), whole or self._text(inside, words=words)
        if first is None and second is None:
            return None
        brackets = second if whole else f"（{second or inside}）"
        return f"{first or start}{brackets}{self._edged(after, words=words)}"


def _holds_label(message: _Message, match: re.Match[str]) -> bool:
    """Return True if a value at the beginning or the end has a label in it, so that it is more than the value."""
    first, last = message.fields[0], message.fields[-1]
    return (message.pattern[0] == "(" and not first.isupper() and bool(_LABEL.search(match[1]))) or (
        message.pattern[-1] == ")" and not last.isupper() and bool(_LABEL.search(match[len(message.fields)]))
    )


def _value_pattern(name: str) -> str:
    if name == "verdict":
        return "([A-Z_]+)"
    return r"(\S*?)" if _ONE_WORD.fullmatch(name) else "(.*?)"


def _message(key: str, wording: str) -> _Message:
    pieces = _FIELD.split(key)
    literals = pieces[0::2]
    pattern = "".join(
        re.escape(piece) if number % 2 == 0 else _value_pattern(piece) for number, piece in enumerate(pieces)
    )
    weight = sum(len(literal) for literal in literals)
    return _Message(max(literals, key=len), weight, pattern, tuple(pieces[1::2]), wording)


def read(folder: Path) -> Catalogue:
    """Read every file of a language."""
    entries: dict[str, str] = {}
    words: dict[str, str] = {}
    for path in sorted(folder.glob("*.toml")):
        for key, text in read_file(path).items():
            if isinstance(text, str):
                entries[key] = text
            elif key == _WORDS:
                words |= text
    return Catalogue(entries, words)


def _quick(text: str) -> dict[str, Any] | None:
    """Return the entries of a file with one entry a line, some ten times faster than TOML is read; else None."""
    raw: dict[str, Any] = {}
    table = raw
    for line in text.splitlines():
        match = _ENTRY.fullmatch(line)
        if match and (key := _string(match[1])) not in table:
            table[key] = _string(match[2])
        elif line == f"[{_WORDS}]" and _WORDS not in raw:
            table = raw[_WORDS] = {}
        elif line and not line.startswith("#"):
            return None
    return raw


def _string(quoted: str) -> str:
    return str(json.loads(quoted)) if "\\" in quoted else quoted[1:-1]


def read_file(path: Path) -> dict[str, str | dict[str, str]]:
    """Return the entries of a file; raise InvalidInput if it is not a file of messages."""
    try:
        text = path.read_text(encoding="utf-8")
        raw = _quick(text) or tomllib.loads(text)
    except (OSError, ValueError) as fault:
        raise InvalidInput(f"{path} is not TOML: {fault}", next_step=f"correct {path}") from fault
    for key, text in raw.items():
        entries = text if isinstance(text, dict) and key == _WORDS else {key: text}
        if not all(isinstance(word, str) for word in entries.values()):
            raise InvalidInput(f"{path}: {key!r} is not a text", next_step=f"correct {path}")
    return raw


def fields(text: str) -> set[str]:
    """Return the names of the values in a message."""
    return set(_FIELD.findall(text))


def shape(text: str) -> str:
    """Return a message with all its values alike and neighbours as one, to compare it with the source."""
    return re.sub(r"(?:\{\})+", "{}", _FIELD.sub("{}", text))
