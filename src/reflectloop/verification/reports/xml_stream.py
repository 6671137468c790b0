"""Read XML as a stream: expand no entity and build no tree beyond the current element."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from xml.parsers import expat

_DEEPEST = 200
_MOST_TEXT = 1 << 20  # per element
_MOST_INSIDE = 100_000  # elements inside one visited element
_PIECE = 1 << 16
_NO_CHARACTER = re.compile(r"&#(?:[xX]0*(?:[0-8bcBCeEfF]|1[0-9a-fA-F])|0*(?:[0-8]|1[124-9]|2\d|3[01]));|[\ufffe\uffff]")
_STRAY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});)")


class UnreadableXml(Exception):
    """Raised for a document that must not or cannot be read."""


class XmlNode:
    """One XML element with its attributes, children and text."""

    __slots__ = ("attributes", "children", "pieces", "size", "tag")

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[XmlNode] = []
        self.pieces: list[str] = []
        self.size = 0

    def get(self, *names: str) -> str:
        """Return the first non-empty value among these attributes, or an empty string."""
        return next((self.attributes[name] for name in names if self.attributes.get(name)), "")

    def find(self, *tags: str) -> XmlNode | None:
        return next((child for child in self.children if child.tag in tags), None)

    def deep(self, *tags: str) -> XmlNode | None:
        """Return the first descendant with one of these tags, or None."""
        waiting = [*reversed(self.children)]
        while waiting:
            node = waiting.pop()
            if node.tag in tags:
                return node
            waiting.extend(reversed(node.children))
        return None

    def text(self) -> str:
        return "".join(self.pieces)

    def add_text(self, text: str) -> None:
        if self.size < _MOST_TEXT:
            self.pieces.append(text[: _MOST_TEXT - self.size])
            self.size += len(text)


Visit = Callable[[XmlNode, list[XmlNode]], None]


class _Walk:
    def __init__(self, items: Collection[str], visit: Visit) -> None:
        self._items = items
        self._visit = visit
        self.path: list[XmlNode] = []
        self._depth_inside = 0  # nesting depth inside a visited element
        self._inside = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self.path) >= _DEEPEST:
            raise UnreadableXml(f"elements are nested more than {_DEEPEST} deep")
        node = XmlNode(_local(tag), {_local(name): value for name, value in attributes.items()})
        if self._depth_inside:
            self._inside += 1
            if self._inside > _MOST_INSIDE:  # an omitted element could be a failure
                raise UnreadableXml(f"one element contains more than {_MOST_INSIDE} others")
            self.path[-1].children.append(node)
        if self._depth_inside or node.tag in self._items:
            self._depth_inside += 1
        self.path.append(node)

    def end(self, _tag: str) -> None:
        node = self.path.pop()
        if self._depth_inside:
            self._depth_inside -= 1
        if node.tag in self._items:
            self._visit(node, self.path)
        if not self._depth_inside:
            self._inside = 0

    def text(self, text: str) -> None:
        if self._depth_inside:
            self.path[-1].add_text(text)


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _refuse_entity(*_: object) -> int:
    raise UnreadableXml("it declares entities")


def _parser() -> expat.XMLParserType:
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.EntityDeclHandler = _refuse_entity
    parser.UnparsedEntityDeclHandler = _refuse_entity
    parser.ExternalEntityRefHandler = _refuse_entity
    return parser


def walk(document: str, items: Collection[str], visit: Visit) -> str | None:
    """Call `visit` with each element named in `items` and its ancestors.

    Return why the document could not be read to its end, or None.
    """
    walking = _Walk(items, visit)
    parser = _parser()
    parser.StartElementHandler = walking.start
    parser.EndElementHandler = walking.end
    parser.CharacterDataHandler = walking.text
    try:
        _feed(parser, document)
    except expat.ExpatError as fault:
        return f"{expat.ErrorString(fault.code)}, line {fault.lineno}"
    except UnreadableXml as fault:
        return str(fault)
    return None


def _feed(parser: expat.XMLParserType, document: str) -> None:
    data = _STRAY.sub("&amp;", _NO_CHARACTER.sub("�", document)) if "&" in document else document
    raw = data.encode("utf-8", "replace")
    for start in range(0, len(raw), _PIECE):
        parser.Parse(raw[start : start + _PIECE], False)
    parser.Parse(b"", True)


def root(document: str) -> XmlNode | None:
    """Return the outermost element without its content, or None."""
    roots: list[XmlNode] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if not roots:
            roots.append(XmlNode(_local(tag), {_local(name): value for name, value in attributes.items()}))

    parser = _parser()
    parser.StartElementHandler = start
    for begin in range(0, min(len(document), 16 * _PIECE), 4096):
        try:
            parser.Parse(document[begin : begin + 4096].encode("utf-8", "replace"), False)
        except (expat.ExpatError, UnreadableXml):
            break
        if roots:
            break
    return roots[0] if roots else None
