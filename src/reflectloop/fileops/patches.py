"""Parses a patch of either form and computes the resulting files before any file is changed. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from reflectloop.fileops import hunks, paths
from reflectloop.fileops.hunks import Hunk, HunkLine
from reflectloop.system.patterns import lazy

__all__ = ["FileChange", "FileResult", "PatchUnfit", "parse_patch", "resulting_files"]

MOST_HUNKS = 2000


class PatchUnfit(Exception):
    """A patch cannot be parsed, or does not match the files."""


class FileChange(NamedTuple):
    kind: Literal["add", "update", "delete"]
    path: str
    hunks: tuple[Hunk, ...] = ()
    target: str | None = None  # its new path, if the file is moved
    executable: bool | None = None
    closes: bool = False  # end the file with a line break, whatever the hunks say

    @property
    def places(self) -> tuple[str, ...]:
        return (self.path, self.target) if self.target else (self.path,)


def normal_path(path: str, line: int) -> str:
    """Return a path of a patch in its normal form, or raise PatchUnfit."""
    try:
        return paths.file_path(path)
    except ValueError as fault:
        raise PatchUnfit(f"line {line}: path {path[:200]!r} {fault}") from fault


def check_hunk_count(changes: list[FileChange]) -> tuple[FileChange, ...]:
    if sum(len(change.hunks) for change in changes) > MOST_HUNKS:
        raise PatchUnfit(f"has more than {MOST_HUNKS} hunks")
    return tuple(changes)


class FileResult(NamedTuple):
    """The new state of a file; content None means deleted."""

    content: bytes | None
    executable: bool | None = None


def parse_patch(text: str) -> tuple[FileChange, ...]:
    """Return the change of each file in a patch, or raise PatchUnfit with the line and the fault."""
    first = text.lstrip("\ufeff \t\r\n")
    changes = parse_begin_patch(first) if first.startswith(FIRST) else parse_diff(text)
    if not changes:
        raise PatchUnfit("is neither a '*** Begin Patch' text nor a unified diff")
    return changes


def resulting_files(changes: tuple[FileChange, ...], look: Callable[[str], bytes | None]) -> dict[str, FileResult]:
    """Return the resulting state of each file; `look` returns a file's present content, or None."""
    made: dict[str, FileResult] = {}

    def current(path: str) -> bytes | None:
        return made[path].content if path in made else look(path)

    for change in changes:
        before = current(change.path)
        if change.kind == "add":
            _refuse_there(before, change.path)
            made[change.path] = FileResult(_applied(b"", change), change.executable)
            continue
        if before is None:
            raise PatchUnfit(f"{change.path!r} does not exist")
        after = _applied(before, change)
        if change.kind == "delete":
            made[change.path] = FileResult(None)
        elif change.target and change.target != change.path:
            _refuse_there(current(change.target), change.target)
            made |= {change.path: FileResult(None), change.target: FileResult(after, change.executable)}
        else:
            made[change.path] = FileResult(after, change.executable)
    return made


def _refuse_there(content: bytes | None, path: str) -> None:
    if content is not None:
        raise PatchUnfit(f"{path!r} already exists")


def _applied(before: bytes, change: FileChange) -> bytes:
    try:
        text = before.decode("utf-8", "surrogateescape")
        return hunks.apply(text, change.hunks, close=change.closes).encode("utf-8", "surrogateescape")
    except hunks.HunkMismatch as fault:
        raise PatchUnfit(f"{change.path}: {fault}") from fault


# Patches of the form *** Begin Patch --------------------------------------------------------------------------------
# Files by headings, hunks by context lines, no line numbers.


FIRST = "*** Begin Patch"
_LAST = "*** End Patch"
_ADD, _UPDATE, _DELETE, _MOVE = "*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move File: "
_TARGET, _END_OF_FILE = "*** Move to: ", "*** End of File"
_ARROW = " -> "
_NUMBERS = lazy(r"(?:-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?.*|.*?(?P<closed> ?@@))")


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = [line.removesuffix("\r") for line in text.split("\n")]
        self.at = 1

    @property
    def now(self) -> str:
        return self.lines[self.at] if self.at < len(self.lines) else ""

    @property
    def over(self) -> bool:
        return self.at >= len(self.lines)

    def take(self) -> str:
        self.at += 1
        return self.lines[self.at - 1]

    def fault(self, message: str) -> PatchUnfit:
        return PatchUnfit(f"line {self.at + 1}: {message}")

    def path(self, text: str) -> str:
        return normal_path(text.strip(), self.at)


def parse_begin_patch(text: str) -> tuple[FileChange, ...]:
    reader = _Reader(text)
    changes: list[FileChange] = []
    while reader.now.strip() != _LAST:
        if reader.over:
            raise reader.fault(f"{_LAST!r} is missing")
        if not reader.now.strip():
            reader.take()
            continue
        changes.append(_change(reader))
    if any(line.strip() for line in reader.lines[reader.at + 1 :]):
        raise reader.fault(f"something follows {_LAST!r}")
    return check_hunk_count(changes)


def _change(reader: _Reader) -> FileChange:
    heading = reader.now
    if heading.startswith(_DELETE):
        return FileChange("delete", reader.path(reader.take().removeprefix(_DELETE)))
    if heading.startswith(_ADD):
        path = reader.path(reader.take().removeprefix(_ADD))
        return FileChange("add", path, (Hunk(_added(reader)),), closes=True)
    if heading.startswith((_UPDATE, _MOVE)):
        return _update(reader)
    raise reader.fault(f"a file's heading is expected, such as {_UPDATE + 'PATH'!r}, and not {heading[:100]!r}")


def _added(reader: _Reader) -> tuple[HunkLine, ...]:
    lines: list[HunkLine] = []
    while reader.now.startswith("+"):
        lines.append(HunkLine("+", reader.take()[1:]))
    return tuple(lines)


def _update(reader: _Reader) -> FileChange:
    moving = reader.now.startswith(_MOVE)
    source, _, target = reader.take().removeprefix(_MOVE).removeprefix(_UPDATE).partition(_ARROW if moving else "\n")
    path = reader.path(source)
    if reader.now.startswith(_TARGET):
        target = reader.take().removeprefix(_TARGET)
    place = reader.path(target) if target else None
    if moving and place is None:
        raise reader.fault(f"{_TARGET + 'PATH'!r} is missing")
    hunks: list[Hunk] = []
    while not reader.over and not _is_heading(reader.now):
        hunks.append(_hunk(reader))
    if not hunks and place is None:
        raise reader.fault(f"there is no change to {path!r}")
    return FileChange("update", path, tuple(hunks), place, closes=bool(hunks))


def _is_heading(line: str) -> bool:
    return line.startswith("*** ") and line.strip() != _END_OF_FILE


def _hunk(reader: _Reader) -> Hunk:
    anchors: list[str] = []
    while reader.now.startswith("@@"):
        anchors.append(_anchor(reader.take()))
    lines: list[HunkLine] = []
    while not reader.over and not reader.now.startswith(("@@", "*** ")):
        lines.append(_line(reader))
    at_end = reader.now.strip() == _END_OF_FILE
    if at_end:
        reader.take()
    if not any(line.mark != " " for line in lines):
        raise reader.fault("a hunk changes nothing")
    return Hunk(tuple(lines), tuple(anchor for anchor in anchors if anchor.strip()), at_end=at_end)


def _anchor(line: str) -> str:
    """Return the line that `@@` names, or "" for the line numbers of a unified diff."""
    text = line[2:].removeprefix(" ")
    match = _NUMBERS.fullmatch(text)
    if match is None:
        return text
    return text[: match.start("closed")] if match["closed"] else ""


def _line(reader: _Reader) -> HunkLine:
    text = reader.now
    if text == "":
        reader.take()
        return HunkLine(" ", "")
    if text[0] not in " -+":
        raise reader.fault(f"a line begins with ' ', '-' or '+', and not with {text[:40]!r}")
    reader.take()
    return HunkLine(text[0], text[1:])  # type: ignore[arg-type]


# Unified diffs ------------------------------------------------------------------------------------------------------
# From git or plain, even with wrong line counts in their headings.

_GIT = lazy(r"diff --git (\"(?:[^\"\\]|\\.)*\"|a/.+?) (\"(?:[^\"\\]|\\.)*\"|b/.+)")
_HUNK = lazy(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = lazy(r"\\([0-7]{3}|.)")
_ESCAPES = {"n": 10, "t": 9, "r": 13, '"': 34, "\\": 92, "a": 7, "b": 8, "f": 12, "v": 11}
_NOTHING = "/dev/null"
_LINK, _MODULE = "120000", "160000"
_REFUSED = {
    "GIT binary patch": "binary patches are not supported",
    "Binary files ": "binary patches are not supported",
    "copy from ": "copies are not supported; write the file",
}


@dataclass
class _Entry:
    """The headings and hunks of one file."""

    line: int
    git: bool = False
    old: str | None = None
    new: str | None = None
    mode: str | None = None
    moved: bool = False
    hunks: list[Hunk] = field(default_factory=list)

    def change(self) -> FileChange:
        if self.old is None or self.new is None:
            raise PatchUnfit(f"line {self.line}: the file's name is missing")
        if self.mode in (_LINK, _MODULE):
            raise PatchUnfit(f"line {self.line}: a patch may not create links or submodules")
        executable = None if self.mode is None else self.mode.endswith("755")
        old, new = self._bare()
        if old == _NOTHING:
            return FileChange("add", normal_path(new, self.line), tuple(self.hunks), executable=executable)
        if new == _NOTHING:
            return FileChange("delete", normal_path(old, self.line), tuple(self.hunks))
        path, target = normal_path(old, self.line), normal_path(new, self.line)
        if not (self.hunks or self.moved or self.mode):
            raise PatchUnfit(f"line {self.line}: there is no change to {path!r}")
        return FileChange("update", path, tuple(self.hunks), target if target != path else None, executable)

    def _bare(self) -> tuple[str, str]:
        """Return the names without git's prefixes a/ and b/."""
        old, new = str(self.old), str(self.new)
        prefixed = (old == _NOTHING or old.startswith("a/")) and (new == _NOTHING or new.startswith("b/"))
        if self.moved or not prefixed:
            return old, new
        return old.removeprefix("a/"), new.removeprefix("b/")


class _DiffReader:
    def __init__(self, text: str) -> None:
        self.lines = text.removesuffix("\n").split("\n")
        self.at = 0
        self.entries: list[_Entry] = []

    def peek(self, ahead: int = 0) -> str | None:
        return self.lines[self.at + ahead] if self.at + ahead < len(self.lines) else None

    def read(self) -> tuple[FileChange, ...]:
        while (line := self.peek()) is not None:
            self._heading(line)
        return check_hunk_count([entry.change() for entry in self.entries])

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
        names = _same(line) or _GIT.fullmatch(line.rstrip("\r"))
        if names:
            entry.old, entry.new = (_unquoted(name) for name in (names if isinstance(names, tuple) else names.groups()))
        self.entries.append(entry)

    def _extended(self, line: str, entry: _Entry) -> None:
        heading = line.rstrip("\r")
        if heading.startswith("new file mode "):
            entry.old, entry.mode = _NOTHING, heading.rsplit(" ", 1)[1]
        elif heading.startswith("deleted file mode "):
            entry.new = _NOTHING
        elif heading.startswith("new mode "):
            entry.mode = heading.rsplit(" ", 1)[1]
        elif heading.startswith("rename from "):
            entry.old, entry.moved = _unquoted(heading.removeprefix("rename from ")), True
        elif heading.startswith("rename to "):
            entry.new, entry.moved = _unquoted(heading.removeprefix("rename to ")), True

    def _names(self, old: str, new: str) -> None:
        entry = self.entries[-1] if self.entries else None
        if entry is None or not entry.git or entry.hunks:
            entry = _Entry(self.at + 1)
            self.entries.append(entry)
        if not entry.moved:
            entry.old, entry.new = _name(old), _name(new)
        self.at += 1

    def _hunk(self, line: str) -> None:
        match = _HUNK.match(line)
        if not self.entries or match is None:
            raise PatchUnfit(f"line {self.at + 1}: {line[:80]!r} is not the heading of a hunk of a file")
        start, old, _, new = (int(number) if number else 1 for number in match.groups())
        old = 1 if match[2] is None else old
        self.at += 1
        body = self._body(old, new)
        bare = _bare_end(body)
        lines = tuple(HunkLine(mark, text) for mark, text in body if mark != "\\")  # type: ignore[arg-type]
        near = start if old == 0 else start - 1
        self.entries[-1].hunks.append(Hunk(lines, near=max(near, 0), bare=bare))

    def _body(self, old: int, new: int) -> list[tuple[str, str]]:
        """Read the lines of a hunk. Trust its counts while positive: only they tell a removed '-- x' from a heading."""
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
    """Return the two names if they are equal, even if they contain blanks."""
    names = line.rstrip("\r").removeprefix("diff --git ")
    half = len(names) // 2
    old, new = names[:half], names[half + 1 :]
    return (old, new) if old[:2] == "a/" and new[:2] == "b/" and old[2:] == new[2:] else None


def _name(line: str) -> str:
    """Return the name in a `---` or `+++` line; a time may follow after a tab."""
    return _unquoted(line[4:].rstrip("\r").split("\t")[0].rstrip())


def _unquoted(name: str) -> str:
    """Decode a name that git wrote in quotes with escapes."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):  # noqa: PLR2004 - two quotes
        return name
    raw = bytearray()
    position = 0
    inner = name[1:-1]
    for match in _ESCAPE.finditer(inner):
        raw += inner[position : match.start()].encode()
        escape = match[1]
        raw.append(int(escape, 8) & 255 if len(escape) > 1 else _ESCAPES.get(escape, ord(escape) & 255))
        position = match.end()
    raw += inner[position:].encode()
    return raw.decode("utf-8", "surrogateescape")


def parse_diff(text: str) -> tuple[FileChange, ...]:
    return _DiffReader(text).read()
