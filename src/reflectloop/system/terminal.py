"""Removes terminal control sequences and invisible characters from text, at once or from a stream."""

from __future__ import annotations

from reflectloop.system.patterns import lazy

_LONGEST = 1 << 12  # bytes of a title or link sequence; longer ones are treated as text
_BARE = bytes(
    [*range(7), 11, 12, *range(14, 27), *range(28, 32), 127]
)  # removed first: inside a sequence they would hide it
_MOVES = b"\b\r"
_LEADS = b"\xc2\xcd\xd8\xe1\xe2\xe3\xef\xf0\xf3"  # first bytes of characters without width
_SUSPECT = _BARE + b"\a\b\x1b" + _LEADS  # text without any of these needs no change
_STRING = rb"\x1b[\]PX^_][^\a\x1b\n]{0,%d}" % _LONGEST
_CONTROL = rb"(?:\x1b\[|\xc2\x9b)[0-?\a]{0,64}[ -/]{0,16}"
_SEQUENCE = lazy(
    rb"(\x1b\[[0-9;]{0,32}m)|%s[@-~]?|%s(?:\a|\x1b\\|(?=[\x1b\n])|\Z)|\x1b[ -/]{0,4}[0-~]?" % (_CONTROL, _STRING)
)
# Characters without width (soft hyphen, joiners, fillers, variation selectors, tags) and those that change the writing
# direction; with continuation bytes that follow in damaged text.
_WIDTHLESS = (
    rb"\xc2\xad|\xcd\x8f|\xd8\x9c|\xe1\x85[\x9f\xa0]|\xe1\x9e[\xb4\xb5]|\xe1\xa0[\x8b-\x8f]|\xe2\x80[\x8b-\x8f\xaa-\xae]"
    rb"|\xe2\x81[\xa0-\xa4\xa6-\xaf]|\xe3\x85\xa4|\xef\xb8[\x80-\x8f]|\xef\xbb\xbf|\xef\xbe\xa0|\xef\xbf[\xb0-\xbb]"
    rb"|\xf0\x9b\xb2[\xa0-\xa3]|\xf0\x9d\x85[\xb3-\xba]|\xf3\xa0[\x80-\xbf][\x80-\xbf]"
)
_INVISIBLE = lazy(_WIDTHLESS)
_UNSEEN = lazy(rb"(?:\a|\xc2[\x80-\x9f]|%s)[\x80-\xbf]*" % _WIDTHLESS)
_CUT = (  # an incomplete one
    rb"[\xc2\xcd\xd8]|\xe1[\x85\x9e\xa0]?|\xe2[\x80\x81]?|\xe3\x85?|\xef[\xb8\xbb\xbe\xbf]?"
    rb"|\xf0(?:\x9b\xb2?|\x9d\x85?)?|\xf3(?:\xa0[\x80-\xbf]?)?"
)
_UNFINISHED = lazy(rb"(?:%s|%s\x1b?|\x1b[ -/]{0,4}|%s)\Z" % (_CONTROL, _STRING, _CUT))


class PlainText:
    """Cleans one stream. A possible beginning of a sequence is buffered, up to a few kB."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, chunk: bytes) -> bytes:
        data = self._pending + chunk
        if len(data.translate(None, _SUSPECT)) == len(data):
            self._pending = b""
            return data
        data = data.translate(None, _BARE)
        begun = _UNFINISHED.search(data, max(0, len(data) - _LONGEST - 4))
        end = begun.start() if begun else len(data)
        self._pending = data[end:]
        return _without(data[:end])

    def finish(self) -> bytes:
        pending, self._pending = self._pending, b""
        return _without(pending)


def plain(data: bytes) -> bytes:
    """Return plain text: only tabs, line breaks and carriage returns remain of the control characters."""
    stream = PlainText()
    return stream.feed(data) + stream.finish()


def visible(data: bytes) -> bytes:
    """Return the data without characters that have no width."""
    if len(data.translate(None, _LEADS)) == len(data):
        return data
    return _INVISIBLE.sub(b"", data)


def coloured(data: bytes) -> bytes:
    """Return text and colour sequences only."""
    cleaned = data.translate(None, _BARE + _MOVES)
    return _UNSEEN.sub(b"", _SEQUENCE.sub(lambda match: match[1] or b"", cleaned))


def _without(data: bytes) -> bytes:
    if b"\x1b" in data or b"\xc2\x9b" in data:
        data = _SEQUENCE.sub(b"", data)
    if b"\b" in data:
        data = _apply_backspaces(data)
    return _UNSEEN.sub(b"", data)


def _apply_backspaces(data: bytes) -> bytes:
    """Apply backspaces: each removes the character before it in the line."""
    first, *others = data.split(b"\b")
    out = bytearray(first)
    for piece in others:
        while out and out[-1] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
            out.pop()
        if out and out[-1] not in b"\n\r":
            out.pop()
        out += piece
    return bytes(out)
