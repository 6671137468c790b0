"""Objects by the calls that made them what they are, and objects near them; pure.

An object holds what its constructor and the calls of its methods left in it. A call more or less, another argument or
another order of the calls makes an object that users can have, too; other values of its attributes may not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

_ROUNDS = 12
_MOST_MORE = 4  # calls that a larger object has
_FIRST = 8  # variants of a value, of which one is taken
_LARGEST = 1000
_SHIFTS = (1, 5, 40, 300)

Vary = Callable[[object, random.Random], Iterator[object]]


class ObjectCall(NamedTuple):
    """One call of a method."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.name}({_arguments(self.args, self.kwargs)})"


class HistoryValue(NamedTuple):
    """An object that is made by the calls of its constructor and of its methods."""

    name: str  # module:Class
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    calls: tuple[ObjectCall, ...]
    recorded: str = ""  # JSON of the recorded object; nothing if no test had it

    def __repr__(self) -> str:
        made = f"{self.name.rpartition(':')[2]}({_arguments(self.args, self.kwargs)})"
        return "".join([made, *(f".{call!r}" if call.name else repr(call) for call in self.calls)])


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])


def variants(value: HistoryValue, chance: random.Random, vary: Vary) -> Iterator[HistoryValue]:
    """Yield objects with a call less or more, with other arguments, or with their calls in another order."""
    edits = (_without_one, _with_another_argument, larger, _with_one_more, _made_otherwise, larger, _in_another_order)
    for _ in range(_ROUNDS):
        for edit in edits if value.calls else (larger, _made_otherwise):
            made = edit(value, chance, vary)
            if made is not None and made[:4] != value[:4]:
                yield made._replace(recorded="")


def _without_one(value: HistoryValue, chance: random.Random, _vary: Vary) -> HistoryValue | None:
    at = chance.randrange(len(value.calls))
    return value._replace(calls=value.calls[:at] + value.calls[at + 1 :])


def _with_another_argument(value: HistoryValue, chance: random.Random, vary: Vary) -> HistoryValue | None:
    at = chance.randrange(len(value.calls))
    call = _varied(value.calls[at], chance, vary)
    return value._replace(calls=(*value.calls[:at], call, *value.calls[at + 1 :])) if call else None


def _with_one_more(value: HistoryValue, chance: random.Random, vary: Vary) -> HistoryValue | None:
    if not value.calls:
        return None
    more = _varied(chance.choice(value.calls), chance, vary)
    at = chance.choice((0, len(value.calls), chance.randint(0, len(value.calls))))
    return value._replace(calls=(*value.calls[:at], more, *value.calls[at:])) if more else None


def _made_otherwise(value: HistoryValue, chance: random.Random, vary: Vary) -> HistoryValue | None:
    made = _varied(ObjectCall("", value.args, value.kwargs), chance, vary)
    return value._replace(args=made.args, kwargs=made.kwargs) if made else None


def larger(value: HistoryValue, chance: random.Random, vary: Vary) -> HistoryValue:
    """Return an object with room for more, and with more in it."""
    by = chance.randint(2, 9)
    out = value._replace(args=tuple(_raised(item, by) for item in value.args))
    out = out._replace(kwargs={name: _raised(item, by) for name, item in value.kwargs.items()})
    for _ in range(chance.randint(1, _MOST_MORE)):
        out = _with_one_more(out, chance, vary) or out
    return out._replace(recorded="")


def _raised(value: object, by: int) -> object:
    return value + by if type(value) is int else value


def _in_another_order(value: HistoryValue, chance: random.Random, _vary: Vary) -> HistoryValue | None:
    return value._replace(calls=tuple(chance.sample(value.calls, len(value.calls))))


def _varied(call: ObjectCall, chance: random.Random, vary: Vary) -> ObjectCall | None:
    """Return a call with another value for one argument, or nothing if no argument can be varied."""
    places: list[int | str] = [*range(len(call.args)), *call.kwargs]
    for place in chance.sample(places, len(places)):
        own = call.args[place] if isinstance(place, int) else call.kwargs[place]
        others = [*islice(vary(own, chance), _FIRST)]
        if others:
            other = chance.choice(others)
            if isinstance(place, int):
                return call._replace(args=(*call.args[:place], other, *call.args[place + 1 :]))
            return call._replace(kwargs={**call.kwargs, place: other})
    return None


# The same values in an object and beside it --------------------------------------------------------------------------


def renumbered(args: tuple[Any, ...], kwargs: dict[str, Any], chance: random.Random, vary: Vary) -> Iterator[Any]:
    """Yield arguments in which a number or a text is another one wherever it is: in calls of objects and beside them.

    An element that an object holds is often named by an argument too. What objects were made with stays as it is.
    """
    histories = [value for value in (*args, *kwargs.values()) if isinstance(value, HistoryValue)]
    atoms = [*dict.fromkeys(atom for history in histories for call in history.calls for atom in _atoms(call[1:]))]
    numbers = [atom for atom in atoms if type(atom) is int]
    for number in range(_ROUNDS if atoms else 0):
        if numbers and number % 2:
            by = chance.choice(_SHIFTS)
            changes: dict[Any, Any] = {atom: atom + by for atom in numbers}
        else:
            own = chance.choice(atoms)
            other = chance.randint(0, _LARGEST) if type(own) is int else next(vary(own, chance), own)
            changes = {own: other}
        if not {*changes.values()} & ({*atoms} - {*changes}):
            yield _replaced(args, changes), {name: _replaced(value, changes) for name, value in kwargs.items()}


def _atoms(value: object) -> Iterator[Any]:
    if type(value) in (int, str):
        yield value
    elif isinstance(value, dict):
        yield from (atom for item in (*value, *value.values()) for atom in _atoms(item))
    elif type(value) in (list, tuple):
        yield from (atom for item in value for atom in _atoms(item))  # type: ignore[attr-defined]


def _replaced(value: Any, changes: dict[Any, Any]) -> Any:  # noqa: ANN401 - any argument
    if type(value) in (int, str):
        return changes.get(value, value)
    if isinstance(value, HistoryValue):
        calls = tuple(ObjectCall(call.name, *(_replaced(part, changes) for part in call[1:])) for call in value.calls)
        return value._replace(calls=calls, recorded="") if calls != value.calls else value
    if type(value) is dict:
        return {_replaced(name, changes): _replaced(item, changes) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_replaced(item, changes) for item in value)
    return value
