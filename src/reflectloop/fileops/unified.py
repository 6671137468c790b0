"""Reads unified diffs, by git or plain, also where the counts in their headings are wrong. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from reflectloop.fileops.change import FileChange, PatchUnfit, counted, named
from reflectloop.fileops.hunks import Hunk, HunkLine

_GIT = re.compile(r"diff --git (\"(?:[^\"\\]|\\.)*\"|a/.+?) (\"(?:[^\"\\]|\\.)*\"|b/.+)")
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_ESCAPES = {"n": 10, "t": 9, "r": 13, '"': 34, "\\": 92, "a": 7, "b": 8, "f": 12, "v": 11}
_NOTHING = "/dev/null"
_LINK, _MODULE = "120000", "160000"
_REFUSED = {
    "GIT binary patch": "binary patches are not read",
    "Binary files ": "binary patches are not read",
    "copy from ": "copies are not read; write the file",
}


@dataclass
class _Entry:
    """What the headings of one file say."""

    line: int
    git: bool = False
    old: str | None = None
    new: str | None = None
    mode: str | None = None
    moved: bool = False
    hunks: list[Hunk] = field(default_factory=list)

    def change(self) -> FileChange:
        if self.old is None or self.new is None:
            raise PatchUnfit(f"line {self.line}: the file that this is about is not named")
        if self.mode in (_LINK, _MODULE):
            raise PatchUnfit(f"line {self.line}: links and submodules are not made by a patch")
        executable = None if self.mode is None else self.mode.endswith("755")
        old, new = self._bare()
        if old == _NOTHING:
            return FileChange("add", named(new, self.line), tuple(self.hunks), executable=executable)
        if new == _NOTHING:
            return FileChange("delete", named(old, self.line), tuple(self.hunks))
        path, target = named(old, self.line), named(new, self.line)
        if not (self.hunks or self.moved or self.mode):
            raise PatchUnfit(f"line {self.line}: there is no change to {path!r}")
        return FileChange("update", path, tuple(self.hunks), target if target != path else None, executable)

    def _bare(self) -> tuple[str, str]:
        """Without the prefixes that git puts before names, and others with it."""
        old, new = str(self.old), str(self.new)
        prefixed = (old == _NOTHING or old.startswith("a/")) and (new == _NOTHING or new.startswith("b/"))
        if self.moved or not prefixed:
            return old, new
        return old.removeprefix("a/"), new.removeprefix("b/")


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.removesuffix("\n").split("\n")
        self.at = 0
        self.entries: list[_Entry] = []

    def peek(self, ahead: int = 0) -> str | None:
        return self.lines[self.at + ahead] if self.at + ahead < len(self.lines) else None

    def read(self) -> tuple[FileChange, ...]:
        while (line := self.peek()) is not None:
            self._heading(line)
        return counted([entry.change() for entry in self.entries])

    def _heading(self, line: str) -> None:
        refused = next((why for sign, why in _REFUSED.items() if line.startswith(sign)), None)
        if refused:
            raise PatchUnfit(f"line {self.at + 1}: {refused}")
        if line.startswith("diff --git "):
            self._git(line)
        elif line.startswith("--- ") and (self.peek(1) or "").startswith("+++ "):
            self._names(line, self.peek(1) or "")
        elif line.startswith("@@ "):
            self._hunk(line)
        elif self.entries and self.entries[-1].git:
            self._extended(line, self.entries[-1])
        self.at += 0 if line.startswith("@@ ") else 1

    def _git(self, line: str) -> None:
        entry = _Entry(self.at + 1, git=True)
        found = _same(line) or _GIT.fullmatch(line.rstrip("\r"))
        if found:
            entry.old, entry.new = (_unquoted(name) for name in (found if isinstance(found, tuple) else found.groups()))
        self.entries.append(entry)

    def _extended(self, line: str, entry: _Entry) -> None:
        words = line.rstrip("\r")
        if words.startswith("new file mode "):
            entry.old, entry.mode = _NOTHING, words.rsplit(" ", 1)[1]
        elif words.startswith("deleted file mode "):
            entry.new = _NOTHING
        elif words.startswith("new mode "):
            entry.mode = words.rsplit(" ", 1)[1]
        elif words.startswith("rename from "):
            entry.old, entry.moved = _unquoted(words.removeprefix("rename from ")), True
        elif words.startswith("rename to "):
            entry.new, entry.moved = _unquoted(words.removeprefix("rename to ")), True

    def _names(self, old: str, new: str) -> None:
        entry = self.entries[-1] if self.entries else None
        if entry is None or not entry.git or entry.hunks:
            entry = _Entry(self.at + 1)
            self.entries.append(entry)
        if not entry.moved:
            entry.old, entry.new = _name(old), _name(new)
        self.at += 1

    def _hunk(self, line: str) -> None:
        found = _HUNK.match(line)
        if not self.entries or found is None:
            raise PatchUnfit(f"line {self.at + 1}: {line[:80]!r} is not the heading of a hunk of a file")
        start, old, _, new = (int(number) if number else 1 for number in found.groups())
        old = 1 if found[2] is None else old
        self.at += 1
        body = self._body(old, new)
        bare = _bare_end(body)
        lines = tuple(HunkLine(mark, text) for mark, text in body if mark != "\\")  # type: ignore[arg-type]
        near = start if old == 0 else start - 1
        self.entries[-1].hunks.append(Hunk(lines, near=max(near, 0), bare=bare))

    def _body(self, old: int, new: int) -> list[tuple[str, str]]:
        """By the counts as far as they are right: only they tell a removed '-- x' from the heading of a file."""
        body: list[tuple[str, str]] = []
        while (line := self.peek()) is not None:
            if line.startswith("\\"):
                body.append(("\\", ""))
            elif self._ends(line, counting=old > 0 or new > 0):
                break
            else:
                mark, text = (line[0], line[1:]) if line else (" ", "")
                old -= mark != "+"
                new -= mark != "-"
                body.append((mark, text))
            self.at += 1
        if not body:
            raise PatchUnfit(f"line {self.at + 1}: a hunk without lines")
        return body

    def _ends(self, line: str, *, counting: bool) -> bool:
        if line.startswith(("diff --git ", "@@ ")):
            return True
        if not counting and (not line or (line.startswith("--- ") and (self.peek(1) or "").startswith("+++ "))):
            return True
        return bool(line) and line[0] not in " -+"


def _bare_end(body: list[tuple[str, str]]) -> bool | None:
    marked = {body[number - 1][0] for number, (mark, _) in enumerate(body) if mark == "\\" and number}
    if marked & {"+", " "}:
        return True
    return False if "-" in marked else None


def _same(line: str) -> tuple[str, str] | None:
    """The two names where both are the same, blanks in them or not."""
    words = line.rstrip("\r").removeprefix("diff --git ")
    half = len(words) // 2
    old, new = words[:half], words[half + 1 :]
    return (old, new) if old[:2] == "a/" and new[:2] == "b/" and old[2:] == new[2:] else None


def _name(line: str) -> str:
    """A name from `---` or `+++`; what follows a tab is a time."""
    return _unquoted(line[4:].rstrip("\r").split("\t")[0].rstrip())


def _unquoted(name: str) -> str:
    """As git writes names with odd bytes: in quotes, with escapes."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):  # noqa: PLR2004 - two quotes
        return name
    raw = bytearray()
    position = 0
    inner = name[1:-1]
    for found in _ESCAPE.finditer(inner):
        raw += inner[position : found.start()].encode()
        word = found[1]
        raw.append(int(word, 8) & 255 if len(word) > 1 else _ESCAPES.get(word, ord(word) & 255))
        position = found.end()
    raw += inner[position:].encode()
    return raw.decode("utf-8", "surrogateescape")


def read(text: str) -> tuple[FileChange, ...]:
    return _Reader(text).read()
