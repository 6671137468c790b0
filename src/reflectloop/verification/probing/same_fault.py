"""Tell whether the fault that a patch repairs at the tests' inputs stays in inputs near them. Pure.

The fault is a mark in base's wrong answers that no right answer of the tests has, such as a separator that is left over
at the end of a text. A fix by a rule that happens to hold for the tests' inputs repairs some of the inputs near them
and leaves the same fault in others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.probing.inside import content
from reflectloop.verification.probing.neighbours import CallInput, FixedValue, class_of
from reflectloop.verification.probing.observations import AnswerPair, FunctionAnswer, Observation

_LEAST_RIGHT = 5  # texts in right answers, none of which has the mark
_LEAST_LEFT, _SHARE_LEFT = 4, 0.15  # inputs with the fault that keep it
_LONGEST = 3  # letters of a mark at an end of a text; a longer one is more than a fault
_PATH = lazy(r'\{"path": "\w+", "text": ("[^"]*")\}')  # as a text
_LEAST_TWINS = 2  # equal values of another type
_BEGINNING = 2  # letters of a rest that was cut off


class Mark(NamedTuple):
    """Some signs at one place of a text, none of them a letter or a digit."""

    where: str  # begins, ends or has
    signs: str

    def is_in(self, text: str) -> bool:
        if self.where == "has":
            return self.signs in text
        return text.startswith(self.signs) if self.where == "begins" else text.endswith(self.signs)


def remaining(seen: Observation) -> list[AnswerPair]:
    """Return the inputs near the tests' that keep the fault, if others lose it and they are too many for chance."""
    for mark, origins in _marks(seen).items():
        near = [item for item in seen.telling if item.origin in origins]
        faulty = [item for item in near if _has(item.base, mark) and not _is_given(seen, item, mark)]
        left = [item for item in faulty if _has(item.patch, mark)]
        if _LEAST_LEFT <= len(left) < len(faulty) and len(left) >= _SHARE_LEFT * len(faulty):
            return left
    return []


def _marks(seen: Observation) -> dict[Mark, set[int]]:
    """Return the marks of wrong answers of base that no right answer has, with the numbers of the changed tests."""
    right = [text for item in seen.tests for text in _texts(item.patch)]
    out: dict[Mark, set[int]] = {}
    for at in seen.changed if len(right) >= _LEAST_RIGHT else ():
        before, after = _texts(seen.tests[at].base), _texts(seen.tests[at].patch)
        if len(before) == len(after):
            for wrong, repaired in zip(before, after, strict=True):
                for mark in _removed(wrong, repaired):
                    out.setdefault(mark, set()).add(at)
    return {mark: origins for mark, origins in out.items() if not any(map(mark.is_in, right))}


def _removed(wrong: str, repaired: str) -> Iterator[Mark]:
    """Yield the marks of what the second text does not have of the first."""
    beginning = wrong[: len(wrong) - _shared(wrong[::-1], repaired[::-1])]
    end = wrong[_shared(wrong, repaired) :]
    for mark in (Mark("begins", beginning), Mark("ends", end), Mark("has", end[:_BEGINNING])):
        long_enough = len(mark.signs) == _BEGINNING if mark.where == "has" else 0 < len(mark.signs) <= _LONGEST
        if wrong != repaired and long_enough and not any(map(str.isalnum, mark.signs)):
            yield mark


def _shared(left: str, right: str) -> int:
    """Return how many letters two texts begin with alike."""
    pairs = zip(left, right, strict=False)
    return next((at for at, (letter, other) in enumerate(pairs) if letter != other), min(len(left), len(right)))


def _is_given(seen: Observation, item: AnswerPair, mark: Mark) -> bool:
    """Return True if the mark may come from the input, where the test's input has none."""
    return any(map(mark.is_in, _inputs(item))) and not any(map(mark.is_in, _inputs(seen.tests[item.origin])))


def _inputs(item: AnswerPair) -> Sequence[str]:
    values = (*item.input.args, *item.input.kwargs.values())
    return [value for value in values if isinstance(value, str)]


def _has(answer: FunctionAnswer, mark: Mark) -> bool:
    return any(map(mark.is_in, _texts(answer)))


def _texts(answer: FunctionAnswer) -> list[str]:
    """Return all texts in an answer, in their order."""
    out: list[str] = []
    todo = [answer.outcome.get(name) for name in ("value", "after", "new")]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            out.append(value)
        elif isinstance(value, list):
            todo.extend(reversed(value))
        elif isinstance(value, dict):
            todo.extend(reversed(value.values()))
    return out


def in_other_types(seen: Observation) -> str:
    """Say if equal values of another type than that of the tests' values keep base's answer.

    Only values count to which base gave the answer that it gave to the test's, so the fault was theirs too.
    """
    unchanged: dict[tuple[str, str], list[bool]] = {}
    for item in seen.told(seen.twins):
        test = seen.tests[item.origin]
        if not _is_alike(item, test) or not (_is_of_one_kind(item) or _tells(item, test)):
            continue
        types = _type_at(test.input, item.place), _type_at(item.input, item.place)
        unchanged.setdefault(types, []).append(not item.differs)
    for (first, other), items in unchanged.items():
        if sum(items) >= max(_LEAST_TWINS, len(items) / 2):
            return f"changes the answer for {first} and leaves the old one for equal values of the type {other}"
    return ""


def _is_alike(item: AnswerPair, test: AnswerPair) -> bool:
    """Return True if base gives both inputs one answer, but for the path of the file that each of them names."""
    return item.base.text == test.base.text or _without_path(item) == _without_path(test) != ""


def _without_path(item: AnswerPair) -> str:
    """Return base's answer without the path of its file, or an empty text if no argument of it names one."""
    values = [part for value in item.input.args for part in (value if isinstance(value, list) else [value])]
    written = [json.loads(value.text) for value in values if isinstance(value, FixedValue)]
    files = [value for value in written if isinstance(value, dict) and "file" in value]
    text = _PATH.sub(r"\1", item.base.text)
    for value in files:
        folder, _, name = str(value["file"]).rpartition("/")
        if value.get("moved"):
            folder, name = f"{folder}{content.MOVED}", f"{content.OTHER}{PurePosixPath(name).suffix}"
        text = text.replace(f"{content.SHOWN}/{folder}/{name}", "").replace(json.dumps(name), '""')
    return text if files else ""


def _is_of_one_kind(item: AnswerPair) -> bool:
    """Return True for another kind of file, stream or function, which does all that the test's does."""
    value = _value_at(item.input, item.place)
    values = value if isinstance(value, list) else [value]
    return any(isinstance(part, FixedValue) for part in values)


def _tells(item: AnswerPair, test: AnswerPair) -> bool:
    """Return True if base's answer is one of many, and the patch takes the other type."""
    answer = test.base.outcome.get("value")
    return answer is not None and not isinstance(answer, bool) and item.patch.returns


def _type_at(given: CallInput, place: str) -> str:
    return class_of(_value_at(given, place))


def _value_at(given: CallInput, place: str) -> object:
    return given.args[int(place)] if place.isdigit() else given.kwargs[place]
