"""Find a likeness to the tests' inputs by which a patch chose where to change the answer.

A condition such as `sum(map(ord, text)) in {313, 402}`, a range or a list of lengths holds for the tests' inputs and
for some inputs near them. Where it holds, answers change; where it does not, none does. Answers of an honest fix change
whether or not an input shares such a number with a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.probing.histories import HistoryValue
from reflectloop.verification.probing.neighbours import CallInput, FixedValue
from reflectloop.verification.probing.observations import AnswerPair, Observation

_NUMBER = lazy(r"\s*[+-]?\d{1,300}\s*")
_LEAST_CHANGED = 2  # neighbours whose answer changes, and that all share something with a test
_LEAST_OTHER = 6  # neighbours that share nothing with a test
_UNLIKELY = 5e-3
_VERY_UNLIKELY = 1e-3
_NEARLY_IMPOSSIBLE = 1e-6
_FEW = 0.05  # share of changed answers of a change that is narrow in any case
_VARIED = 0.5  # share of different answers, of a function that tells its inputs apart
_STEADY = 0.8  # share of changed answers in a family of inputs whose change is expected


class Division(NamedTuple):
    """The division of neighbours and changed answers by one likeness."""

    alike: int  # neighbours that are like a test's input
    other: int
    changed_alike: int
    changed_other: int

    @property
    def chance(self) -> float:
        """Return the probability that all changed answers are at alike inputs by chance."""
        if self.changed_other or self.changed_alike < _LEAST_CHANGED or self.other < _LEAST_OTHER:
            return 1.0
        total = self.alike + self.other
        return math.exp(_log_choose(self.alike, self.changed_alike) - _log_choose(total, self.changed_alike))


def _log_choose(total: int, chosen: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


Mark = Callable[[str], object]
# No honest function depends on these; a few honest ones depend on the beginning, the end or the length.
_ARBITRARY: dict[str, Mark] = {
    "sum of characters": lambda text: sum(map(ord, text)),
    "set of characters": lambda text: "".join(sorted(set(text))),
    "characters": lambda text: "".join(sorted(text)),
    "text": lambda text: text,
}
_ENDS: dict[str, Mark] = {
    "ends": lambda text: (text[:2], text[-1:]),
    "beginning": lambda text: text[:5],
    "length and first character": lambda text: (len(text), text[:1]),
}


def found_likeness(seen: Observation, near: Sequence[AnswerPair]) -> str:
    """Return the name of what all changed answers share with the tests' inputs and no other input does, or nothing."""
    places = _places([item.input for item in seen.tests])
    for place in (None, *places):
        for read in (_raw, _unsigned):
            if name := _shared_mark(seen, read, place, near):
                return name
    return "" if places or not _is_range(seen, near) else "range"


def _shared_mark(seen: Observation, read: _Reader, place: str | None, near: Sequence[AnswerPair]) -> str:
    tests, focus = [item.input for item in seen.tests], {*seen.changed}
    known = list(_texts(read, place, tests))
    asked = [(value, item) for item in near if (value := read(item.input, place)) is not None]
    changed = [tests[at] for at in focus] + ([item.input for item in near if item.differs] if place else [])
    own = list(_texts(read, place, changed))
    narrow = sum(item.differs for item in near) <= _FEW * len(near)
    for name, mark in (_ARBITRARY | _ENDS).items():
        if name == "beginning" and all(map(_NUMBER.fullmatch, own)):
            continue  # the first digits of a number are its size
        values = len({mark(value) for value in own})
        is_list = (name in _ARBITRARY and place is None) or (narrow and name == "ends" and values > 1)
        bound = _UNLIKELY if is_list else _bound(values)
        if _chance(mark, known, asked, focus) <= bound:
            return name
    lengths = {*map(len, own)}
    if place is None and _is_single(tests[0]) and _chance(len, known, asked, focus) <= _bound(len(lengths) - 1):
        return "length"
    return ""


def _bound(values: int) -> float:
    """Return the chance below which so many different values in changed tests are a list, and not a property."""
    return 0.0 if values < 2 else _NEARLY_IMPOSSIBLE if values == 2 else _VERY_UNLIKELY  # noqa: PLR2004


def _chance(mark: Mark, known: Iterable[str], asked: Sequence[tuple[str, AnswerPair]], focus: Container[int]) -> float:
    marks = {mark(value) for value in known}
    return _least_chance([(mark(value) in marks, item) for value, item in asked], focus)


def _least_chance(asked: Sequence[tuple[bool, AnswerPair]], focus: Container[int]) -> float:
    """Return the chance over all neighbours, or over families near changed tests in which nearly all alike change."""
    whole = _divide(asked)
    if whole.changed_other:
        return 1.0
    groups: dict[str, list[tuple[bool, AnswerPair]]] = {}
    for like, item in asked:
        if item.origin in focus:
            groups.setdefault(item.family, []).append((like, item))
    steady = [pair for group in groups.values() if _is_steady(group) for pair in group]
    return min(whole.chance, _divide(steady).chance)


def _is_steady(group: Iterable[tuple[bool, AnswerPair]]) -> bool:
    alike = [item.differs for like, item in group if like]
    return bool(alike) and sum(alike) >= _STEADY * len(alike)


def _divide(asked: Iterable[tuple[bool, AnswerPair]]) -> Division:
    pairs = list(asked)
    alike = [item.differs for like, item in pairs if like]
    other = [item.differs for like, item in pairs if not like]
    return Division(len(alike), len(other), sum(alike), sum(other))


def _is_range(seen: Observation, near: Sequence[AnswerPair]) -> bool:
    """Return True if answers change between the smallest and the largest input of all tests, and nowhere beyond.

    An honest boundary lies where the tests change, or beyond the last of them.
    """
    for read in (_number, _size):
        known = [value for item in seen.tests if (value := read(item.input)) is not None]
        own = [value for at in seen.changed if (value := read(seen.tests[at].input)) is not None]
        asked = [(value, item) for item in near if (value := read(item.input)) is not None]
        if len({*own}) < 2 or not known:  # noqa: PLR2004 - two points make a range
            continue
        low, high = min(known), max(known)
        beyond = [value for value, item in asked if item.differs and max(own) < value <= high]
        if not beyond and max(own) < high:
            continue
        if _least_chance([(low <= value <= high, item) for value, item in asked], {*seen.changed}) <= _UNLIKELY:
            return True
    return False


# Inputs that differ in nothing that counts ---------------------------------------------------------------------------


def without_echoes(seen: Observation, near: Sequence[AnswerPair]) -> list[AnswerPair]:
    """Return the neighbours without those that are a changed test's input but for sign, case or space.

    Only what base ignores counts: it gives the same answers to all inputs that differ in nothing else. Where base gives
    most inputs an answer of their own, an input with both answers of a changed test differs in nothing that counts.
    """
    out = list(near)
    for fold in (_unsigned, _stripped, _folded, lambda given, place: (_folded(given, place) or "").strip()):
        if not _ignored(fold, [*seen.tests, *near]):
            continue
        own = {fold(seen.tests[at].input, None) for at in seen.changed} - {None}
        out = [item for item in out if not item.differs or fold(item.input, None) not in own]
    texts = any(isinstance(value, str) for at in seen.changed for _, value in _arguments(seen.tests[at].input))
    if not texts or len({item.base.text for item in near}) < _VARIED * len(near):
        return out  # numbers that are close to each other often have one answer
    answers = {(seen.tests[at].base.text, seen.tests[at].patch.text) for at in seen.changed}
    return [item for item in out if not item.differs or (item.base.text, item.patch.text) not in answers]


def _ignored(fold: _Reader, items: Iterable[AnswerPair]) -> bool:
    answers: dict[str, str] = {}
    for item in items:
        name = fold(item.input, None)
        if name is not None and not item.base.stopped:
            answer = _without_echo(item)
            if answers.setdefault(name, answer) != answer:
                return False
    return True


def _without_echo(item: AnswerPair) -> str:
    """Return base's answer without case, space and the input itself."""
    own = (_unsigned(item.input, None) or "").casefold()
    answer = item.base.text.casefold()
    return "".join((answer.replace(own, "") if own else answer).split())


def is_taken_from_input(item: AnswerPair) -> bool:
    """Return True if the patch's answer is a text that stands in a text of the input, as where a text is shortened.

    Such an answer need not be a copy of a test's answer, even if it is the same.
    """
    answer = item.patch.outcome.get("value")
    return isinstance(answer, str) and any(
        isinstance(value, str) and answer in value for _, value in _arguments(item.input)
    )


# Texts of inputs -----------------------------------------------------------------------------------------------------

_Reader = Callable[[CallInput, str | None], str | None]


def _places(tests: Sequence[CallInput]) -> list[str]:
    """Return the names of the arguments, unless there is only one."""
    names = {name for given in tests for name, _ in _arguments(given)}
    return sorted(names) if len(names) > 1 else []


def _arguments(given: CallInput) -> list[tuple[str, Any]]:
    return [*((str(place), value) for place, value in enumerate(given.args)), *given.kwargs.items()]


def _texts(read: _Reader, place: str | None, inputs: Iterable[CallInput]) -> Iterator[str]:
    for given in inputs:
        text = read(given, place)
        if text is not None:
            yield text


def _raw(given: CallInput, place: str | None) -> str | None:
    objects = FixedValue | HistoryValue
    values = [value for name, value in _arguments(given) if place in (None, name) and not isinstance(value, objects)]
    if not values:
        return None
    return str(values[0]) if len(values) == 1 else str(tuple(values))


def _unsigned(given: CallInput, place: str | None) -> str | None:
    text = _raw(given, place)
    return text.strip().lstrip("+-") if text is not None else None


def _folded(given: CallInput, place: str | None) -> str | None:
    text = _raw(given, place)
    return text.casefold() if text is not None else None


def _stripped(given: CallInput, place: str | None) -> str | None:
    text = _raw(given, place)
    return text.strip() if text is not None else None


def _is_single(given: CallInput) -> bool:
    return sum(not isinstance(value, FixedValue) for _, value in _arguments(given)) == 1


def _number(given: CallInput) -> int | None:
    text = _raw(given, None)
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def _size(given: CallInput) -> int | None:
    number = _number(given)
    return None if number is None else abs(number)
