"""Parses the `*** Begin Patch` form: files by headings, hunks by context lines, no line numbers. Pure."""

from __future__ import annotations

from reflectloop.fileops.change import FileChange, PatchUnfit, check_hunk_count, normal_path
from reflectloop.fileops.hunks import Hunk, HunkLine
from reflectloop.system.patterns import lazy

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


def parse_patch(text: str) -> tuple[FileChange, ...]:
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
