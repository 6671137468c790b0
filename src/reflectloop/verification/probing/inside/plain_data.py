"""Write Python values as JSON, so that calls can be recorded, repeated elsewhere and compared without their own code.

The project's Python runs this file: standard library of 3.8 only. A recording is a file of JSON lines, one call each:

    {"file": "src/pkg/mod.py", "module": "pkg.mod", "qualname": "Cls.method", "line": 12, "test": "tests/t.py::test_a",
     "args": [VALUE, ...], "kwargs": [["name", VALUE], ...], "outcome": OUTCOME, "after": [VALUE, ...], "ms": 0.1,
     "argv": [...], "cwd": "tests", "env": {"NAME": "value" or null}, "nested": false, "first": "self" or "cls" or "",
     "patched": true, "files": true, "states": {"pkg.mod": "hash"}, "histories": {"0": {"made", ...}}}

`args` are all positional arguments, with self or cls, as they were at entry; `after` is there if the call changed them.
`env` are the variables that differ from the start of the session; `patched` says that names were patched, `files` that
the call opened some; `states` are hashes of the plain variables of the project's modules; `histories` says by which
calls positional arguments became what they are. OUTCOME is {"value": VALUE},
{"raises": "pkg.Error", "text": "..."} or {"generator": true}. VALUE is one of

    null, true, 12, "text", [VALUE, ...]                         None, bool, int below 2**63, str, list
    {"tuple": [...]} {"set": [...]} {"frozenset": [...]}         sets sorted by their JSON text
    {"dict": [[KEY, VALUE], ...]}                                in its order
    {"int": "0x..."} {"float": "0.1"} {"complex": ["1.0", "nan"]} {"bytes": "latin-1"} {"bytearray": "latin-1"}
    {"range": [0, 9, 1]} {"slice": [VALUE, VALUE, VALUE]} {"ellipsis": null} {"decimal": "1.0"} {"fraction": ["1", "2"]}
    {"datetime": "iso", "fold": 0} {"date": "iso"} {"time": "iso"} {"timedelta": [days, seconds, microseconds]}
    {"path": "PurePosixPath", "text": "a/b"} {"uuid": "..."} {"enum": "pkg.mod:Color", "name": "RED"}
    {"match": [PATTERN, FLAGS, TEXT, POS, ENDPOS, START, END]}    a match of a regular expression
    {"file": ...} {"folder": ...} {"reader": ...} {"database": ...} an argument that refers to content: see `content.py`
    {"code": ...} {"inner": ...} {"wrapped": ...} {"partial": ...}  one that is a function: see `functions.py`
    {"pickle": "base64", "type": "pkg.mod:Cls"}                   an argument that is an object of another type
    {"made": "pkg.mod:Cls", "args": [...], "kwargs": [...]}       one that cannot be pickled, by how it was made
    {"history": {"made", "args", "kwargs", "calls": [[METHOD, [VALUE, ...], [[NAME, VALUE], ...]], ...]}}
                                                                  one that is made, and whose methods are called then
    {"object": "pkg.mod:Cls", "of": VALUE, "fields": [[NAME, VALUE], ...]}   a result that is such an object
    {"opaque": "pkg.mod:Cls"}                                     a result that cannot be described
    {"stream": "stdin"}                                           a result that is a standard stream of the process
    {"iterator": [...], "more": false}                            a drained result of a generator or iterator
"""

from __future__ import annotations

import base64
import collections
import datetime as dt
import decimal
import enum
import fractions
import importlib
import io
import json
import pathlib
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

if __package__:
    from . import content, copies, functions
else:
    import content  # type: ignore[import-not-found,no-redef]
    import copies  # type: ignore[import-not-found,no-redef]
    import functions  # type: ignore[import-not-found,no-redef]

LARGEST = 16 << 10  # characters of the JSON text of one call's arguments or of its outcome
DEEPEST = 40
MOST_DRAINED = 500
_MOST_TURNS = 1000  # times that a coroutine gives way to others
_ITERATOR_MODULES = ("builtins", "itertools", "_collections")
_SMALL = 1 << 63
_LARGEST_COUNT = 1 << 40
# Tells how an object was made that cannot be pickled, and notes what it found then.
remembered: Callable[[Any, Any], Any] | None = None
PLAIN = ("int", "float", "bytes", "decimal", "date", "datetime", "timedelta")  # tags without code of a project
_PATHS = ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")


class NotPlainData(Exception):  # noqa: N818 - not an error of the program
    """A value that cannot be written, or is too large or too deep."""


class ValueBudget:
    """The room that is left for one value."""

    def __init__(self, largest: int = LARGEST) -> None:
        self.left = largest
        self.surroundings: Any = None  # a `content.CallSurroundings` that takes what arguments only refer to

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise NotPlainData("too large")


def type_name(kind: type) -> str:
    """Return the name of a class as module:qualname."""
    return "%s:%s" % (type.__getattribute__(kind, "__module__"), type.__getattribute__(kind, "__qualname__"))


def exception_text(fault: BaseException | None, longest: int = 2000) -> str:
    """Return the text of an exception, whose own code may fail."""
    try:
        return str(fault)[:longest]
    except Exception:  # the exception's own code
        return "?"


def described_exception(fault: BaseException | None) -> dict[str, Any]:
    """Return an exception as an outcome."""
    return {"raises": type_name(type(fault)).replace("builtins:", ""), "text": exception_text(fault)}


def encode_call(args: Any, folders: Any) -> tuple[list[Any], content.CallSurroundings, ValueBudget]:
    """Return arguments as JSON, with what they refer to, and the room that is left."""
    budget = ValueBudget()
    budget.surroundings = content.CallSurroundings(folders, lambda value: _encode(value, budget, 1, _pickled))
    return [encode_argument(value, budget) for value in args], budget.surroundings, budget


def encode_argument(value: Any, budget: ValueBudget | None = None) -> Any:
    """Return a value as JSON from which it can be made again. Raise NotPlainData if that is not possible."""
    return _encode(value, budget or ValueBudget(), 0, _pickled)


def describe(value: Any, budget: ValueBudget | None = None) -> Any:
    """Return a result as JSON by which it can be compared, without calling the value's own methods."""
    try:
        return _encode(value, budget or ValueBudget(), 0, _described)
    except NotPlainData:
        return {"opaque": type_name(type(value)), "large": True}


def is_iterator(value: Any) -> bool:
    """Return True for a generator or an iterator of the interpreter, whose values are its only content."""
    kind = type(value)
    return kind.__module__ in _ITERATOR_MODULES and (hasattr(kind, "__next__") or hasattr(kind, "__anext__"))


def drain(iterator: Any) -> Any:
    """Return the values of an iterator as JSON, up to a bound."""
    items: list[Any] = []
    budget = ValueBudget()
    for item in _awaited_items(iterator) if hasattr(type(iterator), "__anext__") else iterator:
        if len(items) >= MOST_DRAINED:
            return {"iterator": items, "more": True}
        items.append(_encode(item, budget, 1, _described))
    return {"iterator": items, "more": False}


def _awaited_items(iterator: Any) -> Iterator[Any]:
    while True:
        try:
            yield awaited(iterator.__anext__())
        except StopAsyncIteration:
            return


def awaited(waiting: Any) -> Any:
    """Return what a coroutine returns that waits for nothing outside of itself; no event loop runs."""
    steps = waiting.__await__()
    for _ in range(_MOST_TURNS):
        try:
            turn = next(steps)
        except StopIteration as end:
            return end.value
        if turn is not None:
            break  # a future, which only an event loop can fulfil
    steps.close()
    raise NotPlainData("waits for an event loop")


def text_of(value: Any) -> str:
    """Return the JSON text by which two encoded values are compared: dicts do not depend on their order."""
    return json.dumps(_sorted(value), sort_keys=True)


def same(first: Any, second: Any) -> bool:
    """Return True if two encoded values are the same value."""
    return text_of(first) == text_of(second)


def _sorted(value: Any) -> Any:
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    if isinstance(value, dict):
        if isinstance(value.get("dict"), list):
            return {"dict": sorted((_sorted(pair) for pair in value["dict"]), key=json.dumps)}
        return {key: _sorted(item) for key, item in value.items()}
    return value


# Writing -------------------------------------------------------------------------------------------------------


def _encode(value: Any, budget: ValueBudget, depth: int, other: Any) -> Any:  # noqa: C901, PLR0911 - a case per type
    budget.take(2)
    if depth > DEEPEST:
        raise NotPlainData("too deep")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        budget.take(value.bit_length() // 4)
        return value if -_SMALL < value < _SMALL else {"int": hex(value)}
    if kind is str:
        budget.take(len(value))
        return (budget.surroundings.path(value, "str") if budget.surroundings else None) or value
    if kind in (list, tuple, set, frozenset):
        return _encode_items(value, kind, budget, depth, other)
    if kind is dict:
        pairs = []
        for key, item in dict.items(value):
            pairs.append([_encode(key, budget, depth + 1, other), _encode(item, budget, depth + 1, other)])
        return {"dict": pairs}
    writer = _WRITERS.get(kind)
    if writer is not None:
        out = writer(value)
        if budget.surroundings and "path" in out:
            out = budget.surroundings.path(out["text"], out["path"]) or out
        budget.take(len(json.dumps(out)))
        return out
    if kind is slice:
        return {"slice": [_encode(part, budget, depth + 1, other) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, enum.Enum) and isinstance(kind, enum.EnumMeta):
        name = value.__dict__.get("_name_")
        if isinstance(name, str) and kind.__members__.get(name) is value:
            return {"enum": type_name(kind), "name": name}
    out = _referred(value, budget) if budget.surroundings else None
    return other(value, budget, depth) if out is None else out


def _referred(value: Any, budget: ValueBudget) -> Any:
    """Return a stream, a connection or a function as JSON; None for other values."""
    try:
        out = budget.surroundings.value(value)
    except functions.NotWritten as fault:
        raise NotPlainData(str(fault)) from fault
    if out is not None:
        budget.take(len(json.dumps(out)))
    return out


def _encode_items(value: Any, kind: Any, budget: ValueBudget, depth: int, other: Any) -> Any:
    items = [_encode(item, budget, depth + 1, other) for item in iter(value)]
    if kind is list:
        return items
    if kind is not tuple:
        items.sort(key=lambda item: json.dumps(item, sort_keys=True))
    return {kind.__name__: items}


def _latin(value: Any) -> str:
    return bytes(value).decode("latin-1")


def _datetime(value: Any) -> Any:
    if value.tzinfo is not None and type(value.tzinfo) is not dt.timezone:
        raise NotPlainData("time zone")
    return {"datetime": value.isoformat(), "fold": value.fold}


def _time(value: Any) -> Any:
    if value.tzinfo is not None and type(value.tzinfo) is not dt.timezone:
        raise NotPlainData("time zone")
    return {"time": value.isoformat()}


def _match(value: Any) -> Any:
    if len(value.string) > LARGEST // 4 or len(value.re.pattern) > LARGEST // 4:
        raise NotPlainData("too large")
    of_text = isinstance(value.string, str)
    texts = [text if of_text else {"bytes": _latin(text)} for text in (value.re.pattern, value.string)]
    out = {"match": [texts[0], value.re.flags, texts[1], value.pos, value.endpos, *value.span()]}
    _read_match(out)
    return out


def _read_match(value: Any) -> Any:
    """Match again, in the way that leads to the same place."""
    pattern, flags, text, pos, endpos, start, end = value["match"]
    made = re.compile(decode(pattern), flags)
    for way in (made.match, made.fullmatch, made.search):
        match = way(decode(text), pos, endpos)
        if match is not None and match.span() == (start, end):
            return match
    raise NotPlainData("a match that cannot be made again")


_WRITERS: dict[type, Callable[[Any], Any]] = {
    float: lambda value: {"float": repr(value)},
    complex: lambda value: {"complex": [repr(value.real), repr(value.imag)]},
    bytes: lambda value: {"bytes": _latin(value)},
    bytearray: lambda value: {"bytearray": _latin(value)},
    range: lambda value: {"range": [value.start, value.stop, value.step]},
    type(Ellipsis): lambda _value: {"ellipsis": None},
    decimal.Decimal: lambda value: {"decimal": str(value)},
    fractions.Fraction: lambda value: {"fraction": [str(value.numerator), str(value.denominator)]},
    dt.datetime: _datetime,
    dt.date: lambda value: {"date": value.isoformat()},
    dt.time: _time,
    dt.timedelta: lambda value: {"timedelta": [value.days, value.seconds, value.microseconds]},
    uuid.UUID: lambda value: {"uuid": str(value)},
    re.Match: _match,
}
for _name in _PATHS:
    _WRITERS[getattr(pathlib, _name)] = lambda value: {"path": type(value).__name__, "text": str(value)}


class _Bounded(io.RawIOBase):
    """A file of at most some bytes."""

    def __init__(self, largest: int) -> None:
        super().__init__()
        self.data = bytearray()
        self._largest = largest

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if len(self.data) + len(data) > self._largest:
            raise NotPlainData("too large")
        self.data += data
        return len(data)


def _pickled(value: Any, budget: ValueBudget, depth: int) -> Any:  # noqa: ARG001 - as `_described`
    file = _Bounded(budget.left * 3 // 4)
    try:
        copies.Copier(file, _content).dump(value)
    except NotPlainData:
        raise
    except Exception as fault:  # noqa: BLE001 - pickling runs code of the value
        made = remembered(value, budget.surroundings) if remembered is not None else None
        if made is None:
            raise NotPlainData("cannot be copied: " + type_name(type(value))) from fault
        budget.take(len(json.dumps(made)))
        return made
    text = base64.b64encode(bytes(file.data)).decode()
    budget.take(len(text))
    return {"pickle": text, "type": type_name(type(value))}


_order_of = collections.OrderedDict.__iter__  # not dict's, which does not know of keys that were moved

# Bases whose content is read by the base's own methods, so that an override cannot change what is seen.
_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, lambda value: int.__add__(value, 0)),
    (float, lambda value: float.__add__(value, 0.0)),
    (complex, lambda value: complex.__add__(value, 0j)),
    (str, lambda value: "".join(str.__iter__(value))),
    (bytes, lambda value: bytes(bytes.__iter__(value))),
    (bytearray, lambda value: bytearray(bytearray.__iter__(value))),
    (list, lambda value: [*list.__iter__(value)]),
    (tuple, lambda value: (*tuple.__iter__(value),)),
    (collections.OrderedDict, lambda value: {key: dict.__getitem__(value, key) for key in _order_of(value)}),
    (dict, lambda value: {key: dict.__getitem__(value, key) for key in dict.__iter__(value)}),
    (set, lambda value: {*set.__iter__(value)}),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
)


def base_content(value: Any) -> Any:
    """Return the content of an object whose class derives from a built-in type. Raise NotPlainData if it does not."""
    for base, content in _BASES:
        if isinstance(value, base) and issubclass(type(value), base):
            return content(value)
    raise NotPlainData("no content")


def _content(value: Any) -> Any:
    """Return the content of an object, or None if its class derives from no type that has some."""
    try:
        return base_content(value)
    except NotPlainData:
        return None


def _standard_stream(value: Any) -> str:
    """Return the name of a standard stream of this process, which test runners replace by their own."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name, None)
        if value is not None and (value is stream or value is getattr(stream, "buffer", None)):
            return name
    return ""


def _described(value: Any, budget: ValueBudget, depth: int) -> Any:
    stream = _standard_stream(value)
    if stream:
        return {"stream": stream}
    held = content.describe(value)
    if held is not None:
        inner = [[name, _encode(item, budget, depth + 1, _described)] for name, item in held[1].items()]
        return {"object": held[0], "fields": inner}
    out: dict[str, Any] = {"object": type_name(type(value))}
    if isinstance(value, BaseException) and issubclass(type(value), BaseException):
        out["of"] = _encode(list(BaseException.args.__get__(value)), budget, depth + 1, _described)  # type: ignore[attr-defined]
    else:
        try:
            out["of"] = _encode(base_content(value), budget, depth + 1, _described)
        except NotPlainData as fault:
            if str(fault) != "no content":
                raise
    fields = _fields(value)
    if fields is None and "of" not in out:
        return {"opaque": type_name(type(value))}
    out["fields"] = [
        [name, _encode(item, budget, depth + 1, _described)] for name, item in sorted((fields or {}).items())
    ]
    return out


def _is_hash(item: Any, value: Any, fields: dict[str, Any]) -> bool:
    """Return True for a hash that an object remembers of itself or of a field: it is another number in each process."""
    if type(item) is not int or abs(item) <= _LARGEST_COUNT:
        return False
    for holder in (value, *(field for field in fields.values() if not isinstance(field, (int, float)))):
        try:
            if hash(holder) == item:
                return True
        except Exception:  # noqa: BLE001, S112 - has none, or the project's own fault
            continue
    return False


def _fields(value: Any) -> dict[str, Any] | None:
    """Return the state of an object: its __dict__ and its slots; None if it has neither, as a function or a file."""
    if isinstance(value, type) or callable(getattr(type(value), "__next__", None)):
        return None
    if type(value).__module__ == "builtins":
        return None
    out: dict[str, Any] | None = None
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        own = None
    if type(own) is dict:
        out = {str(name): item for name, item in own.items()}
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            member = kind.__dict__.get(name)
            if type(member).__name__ == "member_descriptor":
                out = {} if out is None else out
                try:
                    out[name] = member.__get__(value, type(value))  # type: ignore[union-attr]
                except AttributeError:
                    pass
    return {name: None if _is_hash(item, value, out) else item for name, item in out.items()} if out else out


# Reading -------------------------------------------------------------------------------------------------------


def decode(value: Any) -> Any:
    """Return the value that an encoded argument stands for. Raise NotPlainData if it cannot be made here.

    This runs code that the argument names: only in a box.
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value))
    reader = _READERS.get(tag)
    if reader is None:
        raise NotPlainData("not an argument: " + tag)
    try:
        return reader(value)
    except NotPlainData:
        raise
    except Exception as fault:  # noqa: BLE001 - unpickling runs code of the project
        raise NotPlainData("cannot be made here: %s: %s" % (type(fault).__name__, fault)) from fault


def decode_plain(value: dict[str, Any]) -> Any:
    """Return a value of the standard library that is plain data. Raise KeyError for any other.

    For the engine, which must make nothing else from what was written in a box.
    """
    return {name: _READERS[name] for name in PLAIN}[next(iter(value))](value)


def _find_class(name: str) -> Any:
    module, _, path = name.partition(":")
    out = importlib.import_module(module)
    for part in path.split("."):
        out = getattr(out, part)
    return out


def _make(value: Any) -> Any:
    kwargs = {name: decode(item) for name, item in value["kwargs"]}
    return _find_class(value["made"])(*decode(value["args"]), **kwargs)


def made_by(history: Any) -> Any:
    """Return an object that is made by its constructor and then by calls of its methods, some of which may fail."""
    out = _make(history)
    for name, args, kwargs in history["calls"]:
        given, named = decode(args), {key: decode(item) for key, item in kwargs}
        try:
            if isinstance(getattr(type(out), name, None), property):
                setattr(out, name, *given)
            else:
                getattr(out, name)(*given, **named)
        except Exception:  # noqa: BLE001, S112 - as it did in the test, perhaps
            continue
    return out


def _place() -> content.CallPlace:
    if content.place is None:
        raise NotPlainData("no call is repeated here")
    return content.place


def _read_datetime(value: Any) -> Any:
    return dt.datetime.fromisoformat(value["datetime"]).replace(fold=value["fold"])


_READERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda value: tuple(decode(value["tuple"])),
    "set": lambda value: set(decode(value["set"])),
    "frozenset": lambda value: frozenset(decode(value["frozenset"])),
    "dict": lambda value: {decode(key): decode(item) for key, item in value["dict"]},
    "int": lambda value: int(value["int"], 16),
    "float": lambda value: float(value["float"]),
    "complex": lambda value: complex(*(float(part) for part in value["complex"])),
    "bytes": lambda value: value["bytes"].encode("latin-1"),
    "bytearray": lambda value: bytearray(value["bytearray"].encode("latin-1")),
    "range": lambda value: range(*value["range"]),
    "slice": lambda value: slice(*decode(value["slice"])),
    "ellipsis": lambda _value: Ellipsis,
    "decimal": lambda value: decimal.Decimal(value["decimal"]),
    "fraction": lambda value: fractions.Fraction(*(int(part) for part in value["fraction"])),
    "datetime": _read_datetime,
    "date": lambda value: dt.date.fromisoformat(value["date"]),
    "time": lambda value: dt.time.fromisoformat(value["time"]),
    "timedelta": lambda value: dt.timedelta(*value["timedelta"]),
    "path": lambda value: getattr(pathlib, value["path"])(value["text"]),
    "uuid": lambda value: uuid.UUID(value["uuid"]),
    "match": _read_match,
    "enum": lambda value: _find_class(value["enum"]).__members__[value["name"]],
    "made": _make,
    "history": lambda value: made_by(value["history"]),
    "file": lambda value: _place().read_path(value),
    "folder": lambda value: _place().read_path(value),
    "reader": lambda value: _place().read_stream(value),
    "database": lambda value: _place().read_database(value),
    "code": lambda value: _place().remember(functions.read_code(value, decode)),
    "inner": lambda value: _place().remember(functions.read_inner(value, decode)),
    "method": lambda value: _place().remember(getattr(decode(value["of"]), value["method"])),
    "called": lambda value: functions.CalledObject(decode(value["called"])),
    "wrapped": functions.read_wrapped,
    "partial": lambda value: functions.read_partial(value, decode),
    "module": lambda value: importlib.import_module(value["module"]),
    "program": lambda value: str(value["program"]),
    "itself": lambda _value: functions.InnerFunction,
    "pickle": lambda value: copies.read(base64.b64decode(value["pickle"])),
}
