"""Make inputs near the recorded ones: the same kinds of values with other digits, letters, elements and order."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import hashlib
import json
import math
import random
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from reflectloop.verification.probing import histories
from reflectloop.verification.probing.far_inputs import FarValue, far_values
from reflectloop.verification.probing.histories import HistoryValue, ObjectCall
from reflectloop.verification.probing.inside import content, plain_data

_CLASSES = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_LARGEST = 2_000  # elements of a value that is still varied
_CONTAINERS: dict[str, Callable[[Iterable[Any]], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_MOST_BITS = 14_000  # of a number that Python writes as digits
GROWN = "grown"  # the family of inputs that are several times as large
_GROWING, _ROUNDS, _MOST_GROWN_TESTS, _EACH_GROWN = ("joined", "larger"), 3, 4, 10
NUMBERED = "numbered"  # the family of inputs with other numbers beside a larger argument; the group's number follows
_MOST_NUMBERED_TESTS, _GROUPS, _NUMBER_STEPS = 2, 2, (0, 1, 2, 3, 4, 5, 7, 10, -1, -2, -3)
TWIN = "twin"  # the family of inputs with an equal value of another type
_MOST_TWINS, _MOST_DIGITS, _EXACT = 12, 15, 1 << 53  # _EXACT: smaller numbers are equal as int and float
LETTER = "letter"  # the family of inputs that differ in one letter of a text; its place in the text follows
_MOST_TEXTS, _LEAST_PLACES, _LETTERS = 2, 6, 10
_INT_STEPS = (1, -1, 2, -2, 10, -10, 3, -3, 4, -4, 7, 100, -100)


class FixedValue(NamedTuple):
    """A value that is passed on as it was recorded."""

    text: str  # JSON

    def __repr__(self) -> str:
        written = json.loads(self.text)
        name = written.get("name") or written.get("inner") if isinstance(written, dict) else None
        if not isinstance(name, str) or not {"code", "inner"} & {*written}:
            return "<object>"
        return f"<{name.rpartition('.')[2].strip('<>')}>"  # a function


class MadeValue(NamedTuple):
    """An object that is made again for each call, by its class and the arguments of its constructor."""

    name: str  # module:Class
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        named = [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"{self.name.rpartition(':')[2]}({', '.join([*map(repr, self.args), *named])})"


class CallInput(NamedTuple):
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def read(args: Sequence[Any], kwargs: Iterable[Sequence[Any]]) -> CallInput:
    """Return the recorded arguments; objects of the project's classes are never made here."""
    return CallInput(tuple(map(_read, args)), {str(name): _read(value) for name, value in kwargs})


def write(given: CallInput) -> dict[str, Any]:
    """Return arguments in the form in which calls are recorded."""
    return {
        "args": [_write(value) for value in given.args],
        "kwargs": [[k, _write(v)] for k, v in given.kwargs.items()],
    }


def _read(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return [_read(item) for item in value]
    if not isinstance(value, dict):
        return value
    try:
        made = _read_tagged(next(iter(value), ""), value)
    except (TypeError, ValueError, KeyError):
        made = _END  # such as an object as a key that has no hash here
    return FixedValue(json.dumps(value)) if made is _END else made


def _read_tagged(tag: str, value: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    if tag == "dict":
        return {_read(name): _read(item) for name, item in value["dict"]}
    if tag in _CONTAINERS:
        return _CONTAINERS[tag](_read(item) for item in value[tag])
    if tag in plain_data.PLAIN:
        made = plain_data.decode_plain(value)
        return _END if isinstance(made, int) and made.bit_length() > _MOST_BITS else made
    if tag == "made":
        return MadeValue(str(value["made"]), *read(value["args"], value["kwargs"]))
    if tag in ("pickle", "instance", "history") and isinstance(made := value.get("history"), dict):
        calls = tuple(ObjectCall(str(name), *read(args, kwargs)) for name, args, kwargs in made["calls"])
        recorded = "" if tag == "history" else json.dumps(value)
        return HistoryValue(str(made["made"]), *read(made["args"], made["kwargs"]), calls, recorded)
    return _END


def _write(value: Any) -> Any:  # noqa: ANN401, PLR0911 - JSON, a case per type
    if isinstance(value, FixedValue):
        return json.loads(value.text)
    if isinstance(value, HistoryValue):
        return json.loads(value.recorded) if value.recorded else {"history": _write_history(value)}
    if isinstance(value, MadeValue):
        return {"made": value.name, **write(CallInput(value.args, value.kwargs))}
    if isinstance(value, list):
        return [_write(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[_write(name), _write(item)] for name, item in value.items()]}
    if isinstance(value, tuple | set | frozenset):
        items = [_write(item) for item in value]
        return {type(value).__name__: items if isinstance(value, tuple) else sorted(items, key=json.dumps)}
    return plain_data.encode_argument(value, plain_data.ValueBudget(1 << 20))


def _write_history(value: HistoryValue) -> dict[str, Any]:
    calls = [[call.name, *write(CallInput(call.args, call.kwargs)).values()] for call in value.calls]
    return {"made": value.name, **write(CallInput(value.args, value.kwargs)), "calls": calls}


def without_histories(given: CallInput) -> CallInput:
    """Return an input whose objects are passed on as they were recorded."""

    def fixed(value: object) -> object:
        return FixedValue(value.recorded or json.dumps(_write(value))) if isinstance(value, HistoryValue) else value

    return CallInput(tuple(map(fixed, given.args)), {name: fixed(value) for name, value in given.kwargs.items()})


class NeighbourInput(NamedTuple):
    """An input near a recorded one."""

    input: CallInput
    origin: int  # the number of the recorded input
    place: str  # the argument that differs, or "crossed"
    family: str = ""  # the way by which a far input was made


def key(given: CallInput) -> str:
    """Return a text that is the same for equal inputs of equal types."""
    return repr((_shape(list(given.args)), sorted((name, _shape(value)) for name, value in given.kwargs.items())))


def _shape(value: object) -> object:
    if isinstance(value, dict):
        return ("dict", [(_shape(name), _shape(item)) for name, item in value.items()])
    if isinstance(value, set | frozenset):
        return (type(value).__name__, sorted(repr(_shape(item)) for item in value))
    if isinstance(value, list | tuple):
        return (type(value).__name__, [_shape(item) for item in value])
    return (type(value).__name__, repr(value))


def make(
    inputs: Sequence[CallInput], focus: Sequence[int], seed: str, most: int, literals: Iterable[object] = ()
) -> list[NeighbourInput]:
    """Return up to `most` inputs near the recorded ones, two thirds of them near those in `focus`."""
    chance = random.Random(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big"))  # noqa: S311 - no secret
    known = {key(given) for given in inputs}
    rest = [at for at in range(len(inputs)) if at not in set(focus)]
    constants = list(literals)
    out: list[NeighbourInput] = []
    for group, room in ((focus, most * 2 // 3 if rest else most), (rest, most)):
        streams = [_near(inputs, at, chance, constants) for at in group]
        out += _taken(streams, room - (len(out) if group is rest else 0), known)
    return out


def _taken(streams: list[Iterator[NeighbourInput]], room: int, known: set[str]) -> list[NeighbourInput]:
    """Take from each stream in turn, so that each recorded input gets its share."""
    out: list[NeighbourInput] = []
    while streams and len(out) < room:
        for stream in list(streams):
            for neighbour in stream:
                text = key(neighbour.input)
                if text not in known:
                    known.add(text)
                    out.append(neighbour)
                    break
            else:
                streams.remove(stream)
            if len(out) >= room:
                break
    return out


def _near(
    inputs: Sequence[CallInput], origin: int, chance: random.Random, literals: Sequence[object]
) -> Iterator[NeighbourInput]:
    """Yield inputs that differ from one recorded input in one argument, in turn, and then in several."""
    given = inputs[origin]
    places: list[int | str] = [*range(len(given.args)), *given.kwargs]
    others = {place: [_at(other, place) for other in inputs if _has(other, place)] for place in places}
    others = {place: [value for value in values if not _names_file(value)] for place, values in others.items()}
    streams = {
        place: _variants(_at(given, place), chance, [*_alike(_at(given, place), literals), *others[place]])
        for place in places
    }
    turn = 0
    renamed = _with_other_files(given, chance)
    renumbered = histories.renumbered(given.args, given.kwargs, chance, of_kind)
    while streams:
        for place in list(streams):
            if (other := next(renumbered, None)) is not None:
                yield NeighbourInput(CallInput(*other), origin, "crossed")
            if (files := next(renamed, None)) is not None:
                yield NeighbourInput(files, origin, "crossed")
            made = next(streams[place], None)
            if made is None:
                del streams[place]
                continue
            changed = with_value(given, place, made.value)
            yield NeighbourInput(changed, origin, str(place), made.family)
            turn += 1
            if turn % 3 == 0 and (rest := [other for other in places if other != place and others[other]]):
                second = chance.choice(rest)
                yield NeighbourInput(with_value(changed, second, chance.choice(others[second])), origin, "crossed")


def _with_other_files(given: CallInput, chance: random.Random) -> Iterator[CallInput]:
    """Yield a call that finds a folder in which one file has another name, or is not there."""
    files = [name for name in given.kwargs if name.startswith(content.FILE)]
    if not files or not any(name.startswith(content.FOLDER) for name in given.kwargs):
        return
    for number in range(_ROUNDS * len(files) * 4):
        old = files[number % len(files)]
        folder, _, base = old.rpartition("/")
        names = [name for name in islice(_strings(base, chance), 20) if name and "/" not in str(name)]
        name = f"{folder}/{chance.choice(names)}" if names and number % 5 else ""
        rest = {key: value for key, value in given.kwargs.items() if key != old}
        if name not in rest:
            yield CallInput(given.args, {**rest, name: given.kwargs[old]} if name else rest)


def _names_file(value: object) -> bool:
    """Return True for the path of a temporary file, which only its own test has."""
    return isinstance(value, FixedValue) and value.text.startswith(('{"file"', '{"folder"'))


def one_letter_apart(inputs: Sequence[CallInput], focus: Sequence[int], seed: str) -> list[NeighbourInput]:
    """Return inputs that differ from a recorded text in one letter, many for each of some places of the text."""
    chance = random.Random(int.from_bytes(hashlib.sha256(f"{seed} letters".encode()).digest()[:8], "big"))  # noqa: S311
    known = {key(given) for given in inputs}
    texts = [(at, place, value) for at in focus for place, value in arguments(inputs[at]) if isinstance(value, str)]
    fitting = [item for item in texts if len(_changeable(item[2])) >= _LEAST_PLACES]
    out: list[NeighbourInput] = []
    for at, place, value in sorted(fitting, key=lambda item: len(item[2]))[:_MOST_TEXTS]:
        for position in chance.sample(_changeable(value), _LEAST_PLACES):
            made = {_replaced(value, position, chance) for _ in range(4 * _LETTERS)}
            changed = [with_value(inputs[at], place, text) for text in sorted(made)[:_LETTERS]]
            fresh = [given for given in changed if key(given) not in known]
            out += [NeighbourInput(given, at, str(place), f"{LETTER} {position}") for given in fresh]
    return out


def twins(inputs: Sequence[CallInput], focus: Sequence[int]) -> list[NeighbourInput]:
    """Return inputs that mean the same as a recorded one, with a value of another type: `13` for `"13"`."""
    known = {key(given) for given in inputs}
    made = [
        NeighbourInput(with_value(inputs[at], place, twin), at, str(place), TWIN)
        for at in focus[:_MOST_TWINS]
        for place, value in arguments(inputs[at])
        for twin in _of_other_type(value)
    ]
    return [item for item in made if key(item.input) not in known]


def _of_other_type(value: object) -> list[object]:
    if type(value) is str:
        digits = value.removeprefix("-")
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
        return [int(value)] if is_number and str(int(value)) == value else []
    if type(value) is int:
        return [str(value), float(value)] if abs(value) < _EXACT else []
    if type(value) is float:
        return [int(value)] if value.is_integer() and abs(value) < _EXACT else []
    if isinstance(value, FixedValue):
        return _of_other_class(json.loads(value.text))
    made: list[object] = []
    if type(value) is list:  # such as the arguments of a program
        for at, item in enumerate(value):
            others = _of_other_class(json.loads(item.text)) if isinstance(item, FixedValue) else []
            made += [[*value[:at], other, *value[at + 1 :]] for other in others]
    return [*made, tuple(value)] if type(value) is list else [list(value)] if type(value) is tuple else []


_OTHER_PROGRAM = "/usr/local/bin/tool"
_OTHER_PATHS = {"str": "PosixPath", "PosixPath": "str"}
_OTHER_STREAMS = {"StringIO": "TextIOWrapper", "TextIOWrapper": "StringIO"}
_FUNCTIONS = {"code", "inner", "wrapped"}


def _of_other_class(written: Any) -> list[object]:  # noqa: ANN401 - JSON
    """Return the same temporary file elsewhere or as another kind of path, the same stream or function as another."""
    made: list[dict[str, Any]] = []
    if not isinstance(written, dict):
        return []
    if "file" in written:
        made = [{**written, "moved": True}]
    elif "program" in written:
        made = [{"program": _OTHER_PROGRAM, "moved": True}]
    if {"file", "folder"} & written.keys():
        made += [{**written, "of": other} for name, other in _OTHER_PATHS.items() if name == written["of"]]
    elif "reader" in written and written["of"] in _OTHER_STREAMS:
        made = [{**written, "of": other} for other in (_OTHER_STREAMS[written["of"]], "file", "pipe")]
    elif _FUNCTIONS & written.keys():
        made = [{"partial": written, "args": [], "kwargs": []}, {"called": written}]
    elif "database" in written:
        made = [{**written, "stored": True}]
    return [FixedValue(json.dumps(item)) for item in made]


def class_of(value: object) -> str:
    """Return what kind of value one is, by which equal values are told apart."""
    written = json.loads(value.text) if isinstance(value, FixedValue) else None
    if type(value) is list:
        kinds = {class_of(item) for item in value if isinstance(item, FixedValue)}
        return f"list of {', '.join(sorted(kinds))}" if kinds else "list"
    if not isinstance(written, dict):
        return type(value).__name__
    kind = written.get("of") or ("function" if _FUNCTIONS & written.keys() else next(iter(written)))
    return f"{kind} elsewhere" if written.get("moved") else f"{kind} in a file" if written.get("stored") else str(kind)


def grown(inputs: Sequence[CallInput], focus: Sequence[int], seed: str) -> list[NeighbourInput]:
    """Return inputs in which one argument is several times as long or as large as in a recorded one."""
    chance = random.Random(int.from_bytes(hashlib.sha256(f"{seed} grown".encode()).digest()[:8], "big"))  # noqa: S311
    out: dict[str, NeighbourInput] = {}
    for at in focus[:_MOST_GROWN_TESTS]:
        for place, value in arguments(inputs[at]):
            others = [_at(other, place) for other in inputs if _has(other, place)]
            for _ in range(_EACH_GROWN):
                made = _grown(value, others, chance)
                if made is not value:
                    given = with_value(inputs[at], place, made)
                    out.setdefault(key(given), NeighbourInput(given, at, str(place), GROWN))
    return [*out.values()]


def numbered(inputs: Sequence[CallInput], focus: Sequence[int], seed: str) -> list[NeighbourInput]:
    """Return groups of inputs with other numbers for one argument, each group with another one that is larger.

    Many numbers have one answer where the other argument is small, such as the length of a part of a short text.
    """
    chance = random.Random(int.from_bytes(hashlib.sha256(f"{seed} numbers".encode()).digest()[:8], "big"))  # noqa: S311
    known = {key(given) for given in inputs}
    out: list[NeighbourInput] = []
    for at in focus[:_MOST_NUMBERED_TESTS]:
        places = arguments(inputs[at])
        numbers = [(place, value) for place, value in places if type(value) is int and abs(value) > 1]
        pairs = [(place, value, *other) for place, value in numbers for other in places if other[0] != place]
        for number, (place, value, beside, small) in enumerate(pairs[:_GROUPS]):
            large: Any = _grown(small, [_at(other, beside) for other in inputs if _has(other, beside)], chance)
            if large is small and type(small) in (str, list, tuple):  # there is no other call
                large = small[: _LARGEST // _ROUNDS] * _ROUNDS
            changed = [with_value(with_value(inputs[at], beside, large), place, value + step) for step in _NUMBER_STEPS]
            fresh = [given for given in changed if large is not small and key(given) not in known]
            out += [NeighbourInput(given, at, str(place), f"{NUMBERED} {at} {number}") for given in fresh]
    return out


def _grown(value: object, others: Sequence[object], chance: random.Random) -> object:
    if isinstance(value, HistoryValue):
        return histories.larger(value, chance, of_kind)
    for _ in range(_ROUNDS):
        larger = [made.value for made in far_values(value, others, chance) if made.family in _GROWING]
        value = chance.choice(larger) if larger else value
    return value


def _changeable(value: str) -> list[int]:
    chance = random.Random(0)  # noqa: S311 - no secret
    return [at for at, letter in enumerate(value[:_LARGEST]) if _letter(letter, chance) != letter]


def arguments(given: CallInput) -> list[tuple[int | str, Any]]:
    return [*enumerate(given.args), *given.kwargs.items()]


_END = object()


def _alike(value: object, literals: Sequence[object]) -> list[object]:
    return [literal for literal in literals if type(literal) is type(value)]


def _at(given: CallInput, place: int | str) -> Any:  # noqa: ANN401 - an argument of any type
    return given.args[place] if isinstance(place, int) else given.kwargs[place]


def _has(given: CallInput, place: int | str) -> bool:
    return place < len(given.args) if isinstance(place, int) else place in given.kwargs


def with_value(given: CallInput, place: int | str, value: object) -> CallInput:
    args, kwargs = copy.deepcopy(given.args), copy.deepcopy(given.kwargs)
    value = copy.deepcopy(value)
    if isinstance(place, int):
        return CallInput((*args[:place], value, *args[place + 1 :]), kwargs)
    return CallInput(args, {**kwargs, place: value})


def _variants(value: object, chance: random.Random, others: Sequence[object]) -> Iterator[FarValue]:
    """Yield values near one value, far from it, and values that other calls had in its place, by turns."""
    far = far_values(value, others, chance)
    crossed = (FarValue("other call", other) for other in others if type(other) is type(value))
    for at, variant in enumerate(of_kind(value, chance)):
        yield FarValue("", variant)
        if (made := next(crossed if at % 4 == 3 else far, None)) is not None:  # noqa: PLR2004
            yield made
    yield from far
    yield from crossed


def of_kind(value: object, chance: random.Random) -> Iterator[object]:
    maker = _KINDS.get(type(value))
    if maker is not None:
        yield from maker(value, chance)


def _bools(value: bool, _chance: random.Random) -> Iterator[object]:
    yield not value


def _ints(value: int, chance: random.Random) -> Iterator[object]:
    steps = list(_INT_STEPS)
    yield value + 1
    yield value - 1
    yield _other_digit(value, chance)
    yield value + 10
    for step in steps:
        yield value + step
        yield _other_digit(value, chance)
    yield from (-value, 0, 1, value * 2, value // 2, value * 10 + chance.randrange(10), value // 10)
    for _ in range(40):
        yield value + chance.randint(-max(20, abs(value)), max(20, abs(value)))


def _other_digit(value: int, chance: random.Random) -> int:
    """Return a number of as many digits, one of which differs."""
    digits = list(str(abs(value))[:400])
    at = chance.randrange(len(digits))
    digits[at] = chance.choice([digit for digit in string.digits if digit != digits[at] and (at or digit != "0")])
    return int("".join(digits)) * (-1 if value < 0 else 1)


def _floats(value: float, chance: random.Random) -> Iterator[object]:
    if not math.isfinite(value):
        yield from (0.0, 1.5, -value)
        return
    yield from (value + 1, value - 1, value * 1.1, value + 0.1, -value, value / 2, value * 10, value * 0.9, 0.0)
    yield float(round(value))
    for _ in range(40):
        yield round(value * chance.uniform(0.2, 3) + chance.uniform(-1, 1), 3)


def _letter(letter: str, chance: random.Random) -> str:
    """Return another character of the same class."""
    for members in _CLASSES:
        if letter in members:
            return chance.choice([other for other in members if other != letter])
    if letter.isalpha():
        return chr(ord(letter) + chance.choice((-1, 1))) if not letter.isascii() else letter
    return letter


def _strings(value: str, chance: random.Random) -> Iterator[object]:
    if len(value) > _LARGEST:
        value = value[:_LARGEST]
    if not value:
        yield from ("a", "0", " ", "ab", "x1")
        return
    changeable = _changeable(value)
    rounds = 12 if len(value) > 1 else 30
    for number in range(rounds):
        if changeable:
            yield _replaced(value, chance.choice(changeable), chance)
        yield from _edits(value, chance, number)
        if changeable:
            yield "".join(_letter(letter, chance) for letter in value)
        if number % 2:
            yield "".join(letter.swapcase() if chance.random() < 0.5 else letter for letter in value)  # noqa: PLR2004
    yield from (value.upper(), value.lower(), value[::-1], value + value, f" {value}", f"{value} ", "")


def _replaced(value: str, at: int, chance: random.Random) -> str:
    return value[:at] + _letter(value[at], chance) + value[at + 1 :]


def _edits(value: str, chance: random.Random, number: int) -> Iterator[str]:
    at = chance.randrange(len(value))
    words = value.split(" ")
    edits: tuple[Callable[[], str], ...] = (
        lambda: value[:at] + value[at + 1 :],
        lambda: value + chance.choice(value),
        lambda: value[:at] + value[at] + value[at:],
        lambda: value[:at] + value[at + 1 : at + 2] + value[at] + value[at + 2 :],
        value.swapcase,
        lambda: " ".join(chance.sample(words, len(words))),
        lambda: value[: max(1, len(value) // 2)],
        lambda: " ".join([*words, chance.choice(words)]),
    )
    yield edits[number % len(edits)]()
    yield edits[(number + 3) % len(edits)]()


def _bytes(value: bytes, chance: random.Random) -> Iterator[object]:
    for text in _strings(value.decode("latin-1"), chance):
        yield str(text).encode("latin-1", "replace")


def _lists(value: list[Any], chance: random.Random) -> Iterator[object]:
    if len(value) > _LARGEST:
        value = value[:_LARGEST]
    if not value:
        yield from ([0], [1, 2], ["a"])
        return
    ordered = _is_ordered(value)
    streams: dict[int, Iterator[object]] = {}
    for number in range(24):
        at = chance.randrange(len(value))
        stream = streams.setdefault(at, of_kind(value[at], chance))
        if (other := next(stream, _END)) is not _END:
            changed = [*value[:at], other, *value[at + 1 :]]
            yield _sorted(changed) if ordered and number % 2 == 0 else changed
        for edited in (_list_edit(value, chance, number), _list_edit(value, chance, number + 3)):
            yield _sorted(edited) if ordered and number % 4 else edited
        yield [next(of_kind(item, chance), item) if chance.random() < 0.5 else item for item in value]  # noqa: PLR2004
    yield []


def _list_edit(value: list[Any], chance: random.Random, number: int) -> list[Any]:
    at, to = chance.randrange(len(value)), chance.randrange(len(value))
    swapped = list(value)
    swapped[at], swapped[to] = swapped[to], swapped[at]
    edits: tuple[list[Any], ...] = (
        [*value[:at], *value[at + 1 :]],
        swapped,
        [*value[: at + 1], *value[at:]],
        value[::-1],
        [*value, value[at]],
        value[: max(1, len(value) // 2)],
        [*value[at:], *value[:at]],
        chance.sample(value, len(value)),
    )
    return edits[number % len(edits)]


def _is_ordered(value: Sequence[Any]) -> bool:
    return len(value) > 1 and _sorted(list(value)) == list(value)


def _sorted(value: list[Any]) -> list[Any]:
    try:
        return sorted(value)
    except TypeError:
        return value


def _tuples(value: tuple[Any, ...], chance: random.Random) -> Iterator[object]:
    """Yield tuples of the same length first, since the length of a tuple is often its type."""
    for number, other in enumerate(_lists(list(value), chance)):
        items = tuple(other) if isinstance(other, list) else ()
        if len(items) == len(value) or number % 4 == 0:
            yield items


def _dicts(value: dict[Any, Any], chance: random.Random) -> Iterator[object]:
    if not value:
        yield from ({"a": 1}, {1: 1})
        return
    names = list(value)
    streams = {name: of_kind(value[name], chance) for name in names}
    for number in range(24):
        name = chance.choice(names)
        if (other := next(streams[name], _END)) is not _END:
            yield {**value, name: other}
        if number % 4 == 1:
            yield {other: item for other, item in value.items() if other != name}
        elif number % 4 == 2:  # noqa: PLR2004
            renamed = next(of_kind(name, chance), name)
            yield {(renamed if other == name else other): item for other, item in value.items()}
        elif number % 4 == 3:  # noqa: PLR2004
            yield dict(zip(names, chance.sample(list(value.values()), len(names)), strict=True))
    yield {}


def _sets(value: set[Any], chance: random.Random) -> Iterator[object]:
    members = sorted(value, key=repr)
    for other in _lists(members, chance):
        try:
            yield set(other) if isinstance(other, list) else value
        except TypeError:
            return


def _frozensets(value: frozenset[Any], chance: random.Random) -> Iterator[object]:
    for other in _sets(set(value), chance):
        yield frozenset(other) if isinstance(other, set) else value


def _dates(value: dt.date, chance: random.Random) -> Iterator[object]:
    for days in (1, -1, 7, 30, -30, 31, 365, -365, 366, 1461):
        yield _moved(value, dt.timedelta(days=days))
    for _ in range(30):
        yield _moved(value, dt.timedelta(days=chance.randint(-4000, 4000), seconds=chance.randint(0, 86399)))


def _moved(value: dt.date, by: dt.timedelta) -> dt.date:
    try:
        return value + by
    except OverflowError:
        return value


def _spans(value: dt.timedelta, chance: random.Random) -> Iterator[object]:
    for _ in range(30):
        yield value + dt.timedelta(days=chance.randint(-3, 3), seconds=chance.randint(-4000, 4000))


def _decimals(value: decimal.Decimal, chance: random.Random) -> Iterator[object]:
    if value.is_finite():
        yield from (value + 1, value - 1, -value, value * 10, value / 2)
        for _ in range(30):
            yield value + decimal.Decimal(chance.randint(-999, 999)) / 100


def _made(value: MadeValue, chance: random.Random) -> Iterator[object]:
    """Yield objects that are made with another argument."""
    places: list[int | str] = [*range(len(value.args)), *value.kwargs]
    given = CallInput(value.args, value.kwargs)
    streams = {place: _variants(_at(given, place), chance, ()) for place in places}
    while streams:
        for place in list(streams):
            made = next(streams[place], None)
            if made is None:
                del streams[place]
            else:
                yield MadeValue(value.name, *with_value(given, place, made.value))


_KINDS: dict[type, Callable[[Any, random.Random], Iterator[object]]] = {
    bool: _bools,
    int: _ints,
    float: _floats,
    str: _strings,
    bytes: _bytes,
    list: _lists,
    tuple: _tuples,
    dict: _dicts,
    set: _sets,
    frozenset: _frozensets,
    dt.date: _dates,
    dt.datetime: _dates,
    dt.timedelta: _spans,
    decimal.Decimal: _decimals,
    MadeValue: _made,
    HistoryValue: lambda value, chance: histories.variants(value, chance, of_kind),
}
