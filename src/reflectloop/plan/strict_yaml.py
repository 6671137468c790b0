"""Parses a strict subset of YAML and records the line of every value.

Written over libyaml's event stream, because the standard loaders expand aliases without limit, recurse as deep as the
text, drop duplicate keys and turn `on` into True.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from reflectloop.errors import Fault
from reflectloop.system.patterns import lazy
from reflectloop.terms import dotted

MAX_BYTES = 8 << 20
MAX_DEPTH = 64
MAX_VALUES = 500_000  # with aliases expanded

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
Path = tuple[str | int, ...]

_INT = lazy(r"[-+]?(?:0|[1-9][0-9]*)\Z")
_FLOAT = lazy(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z")
_LONGEST_INT = 18  # digits; a longer one is an id, not a number
_KEYWORDS: dict[str, Value] = {"": None, "~": None, "null": None, "true": True, "false": False}
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableYaml(Exception):
    """The text cannot be parsed; there is no value."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(str(fault))


@dataclass
class YamlDocument:
    value: Value = None
    lines: dict[Path, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def line(self, path: Path) -> int | None:
        """Return the line of a value, or of its nearest parent."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path)


def parse(raw: bytes) -> YamlDocument:
    if len(raw) > MAX_BYTES:
        raise _refused(None, f"a plan has at most {MAX_BYTES >> 20} MB, and this file has more")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise _refused(line, f"byte {raw[fault.start]:#04x} is not UTF-8 text; this is not a YAML file") from fault
    loader = _Loader(text)
    try:
        return _Builder(loader).document()
    except yaml.reader.ReaderError as fault:
        line = text.count("\n", 0, fault.position) + 1
        raise _refused(line, f"character {fault.character!r} is not allowed; this is not a YAML file") from fault
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark
        raise _refused(mark.line + 1 if mark else None, f"not YAML: {fault.problem or fault.context}") from fault
    finally:
        loader.dispose()


def _refused(line: int | None, message: str) -> UnreadableYaml:
    return UnreadableYaml(Fault("", line, message))


class _Builder:
    def __init__(self, loader: Any) -> None:  # noqa: ANN401 - the C loader has no types
        self._loader = loader
        self._anchors: dict[str, Value] = {}
        self._open: set[str] = set()
        self._count = 0
        self._out = YamlDocument()

    def document(self) -> YamlDocument:
        self._next(yaml.StreamStartEvent)
        if self._loader.check_event(yaml.StreamEndEvent):
            return self._out
        self._next(yaml.DocumentStartEvent)
        self._out.value = self._value(())
        self._next(yaml.DocumentEndEvent)
        if not self._loader.check_event(yaml.StreamEndEvent):
            raise _refused(
                self._line(self._loader.peek_event()), "a plan is one YAML document; a second one begins here"
            )
        return self._out

    def _next(self, kind: type[yaml.Event]) -> None:
        event = self._loader.get_event()
        assert isinstance(event, kind), event  # noqa: S101 - guaranteed by the parser

    @staticmethod
    def _line(event: Any) -> int:  # noqa: ANN401
        return int(event.start_mark.line) + 1

    def _value(self, path: Path) -> Value:
        event = self._loader.get_event()
        line = self._line(event)
        self._out.lines[path] = line
        self._budget(1, line)
        if len(path) > MAX_DEPTH:
            raise _refused(line, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._follow(event, line)
        anchor: str | None = event.anchor
        before = self._count
        if anchor:
            self._open.add(anchor)
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, path)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(path)
        else:
            value = self._mapping(path)
        if anchor:
            self._open.discard(anchor)
            self._anchors[anchor] = value
            self._anchors[f"{anchor}\0size"] = self._count - before + 1
        return value

    def _follow(self, event: yaml.AliasEvent, line: int) -> Value:
        name = str(event.anchor)
        if name in self._open:
            raise _refused(line, f"alias *{name} is inside its own value")
        if name not in self._anchors:
            raise _refused(line, f"alias *{name} has no anchor")
        size = self._anchors[f"{name}\0size"]
        self._budget(size if isinstance(size, int) else 1, line)
        return self._anchors[name]

    def _budget(self, more: int, line: int) -> None:
        self._count += more
        if self._count > MAX_VALUES:
            raise _refused(line, f"more than {MAX_VALUES} values with aliases expanded")

    def _sequence(self, path: Path) -> Value:
        out: list[Value] = []
        while not self._loader.check_event(yaml.SequenceEndEvent):
            out.append(self._value((*path, len(out))))
        self._loader.get_event()
        return out

    def _mapping(self, path: Path) -> Value:
        out: dict[str, Value] = {}
        while not self._loader.check_event(yaml.MappingEndEvent):
            event = self._loader.get_event()
            line = self._line(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise _refused(line, "a key must be plain text")
            key: str = event.value
            if key == "<<":
                raise _refused(line, "merge keys (<<) are not supported; write the values out")
            if key in out:
                first = self._out.lines.get((*path, key))
                self._out.faults.append(Fault(dotted((*path, key)), line, f"duplicate key; it is also on line {first}"))
            out[key] = self._value((*path, key))
            self._out.lines[(*path, key)] = line
        self._loader.get_event()
        return out

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> Value:
        text: str = event.value
        if "\0" in text:
            self._out.faults.append(Fault(dotted(path), self._line(event), "contains a NUL character"))
            text = text.replace("\0", "")
        if event.tag and event.tag not in ("!", "tag:yaml.org,2002:str"):
            fault = Fault(dotted(path), self._line(event), f"tag {event.tag} is not supported")
            self._out.faults.append(fault)
        if event.style or event.tag:  # quoted or block style
            return text
        if text in _KEYWORDS:
            return _KEYWORDS[text]
        if _INT.match(text):
            return int(text) if len(text) <= _LONGEST_INT else text
        return float(text) if _FLOAT.match(text) else text
