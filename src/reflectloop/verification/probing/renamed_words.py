"""Judge whether a change survives other words in the inputs of the tests; see `renaming`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reflectloop.verification.probing import renaming
from reflectloop.verification.probing.observations import AnswerPair, Observation

_LEAST_NAMES, _LEAST_FIGURES = 3, 7
_LEAST_WORDS, _MOSTLY, _FEW = 2, 0.6, 0.25
_STRAY = 0.05  # share of inputs without the digits whose answers may change for another reason


class RenamedWord(NamedTuple):
    """One word of an input of the tests, with the answers to inputs in which it is another word."""

    origin: int
    word: str
    place: str  # the text that has it, if it is in one only
    steady: bool  # base copies the word, and so does the patch
    followed: bool  # the patch's answer has it, and has each new word in its place
    failed: int  # new words with which the patch gives base's answer, or one that is neither base's nor the renamed one
    tried: int

    @property
    def breaks(self) -> bool:
        return self.failed == self.tried


def depends_on_words(seen: Observation) -> bool:
    """Return True if a kind of change survives other words in no text of the tests' inputs that has words."""
    words = [item for item in _renamed(seen) if item.steady and item.tried >= _LEAST_NAMES]
    kinds: dict[tuple[str, str], dict[int, list[RenamedWord]]] = {}
    for item in words:
        kinds.setdefault(_kinds(seen.tests[item.origin]), {}).setdefault(item.origin, []).append(item)
    return any(all(_all_break(seen, group) for group in tests.values()) for tests in kinds.values())


def depends_on_figures(seen: Observation) -> bool:
    """Return True if other digits in a part of each test's text keep base's answer and lose the change."""
    groups: dict[int, dict[str, list[AnswerPair]]] = {}
    for item in seen.told(seen.words):
        family, part, _ = item.family.split(" ")
        if (
            family == renaming.FIGURE
            and item.origin in seen.changed
            and item.base.text == seen.tests[item.origin].base.text
        ):
            groups.setdefault(item.origin, {}).setdefault(part, []).append(item)
    parts = {
        at: [part for part, items in group.items() if _is_lost(seen, at, part, items)] for at, group in groups.items()
    }
    return bool(parts) and all(parts.values()) and not is_rare_answer(seen)


def is_rare_answer(seen: Observation) -> bool:
    """Return True if base, too, gives the right answer to few texts that differ from a test in digits only.

    So does code that checks a check digit. A text with other digits must then change its answer, which a list of the
    tests' inputs does not do.
    """
    if not any(item.differs for item in seen.told(seen.words) if item.origin in seen.changed):
        return False
    groups: dict[tuple[int, str], list[bool]] = {}
    for item in seen.told(seen.words):
        if item.origin not in seen.changed:
            part = item.family.split(" ")[1]
            groups.setdefault((item.origin, part), []).append(item.base.text == seen.tests[item.origin].base.text)
    return any(len(group) >= _LEAST_FIGURES and sum(group) <= _FEW * len(group) for group in groups.values())


def _is_lost(seen: Observation, at: int, part: str, items: Sequence[AnswerPair]) -> bool:
    copies = [item for item in items if item.differs and item.patch.text == seen.tests[at].patch.text]
    if len(items) < _LEAST_FIGURES or len(copies) > _FEW * len(items):
        return False
    others = [item for item in items if item.differs and item not in copies]
    return not others and not _changes_without(seen, at, part.casefold(), _STRAY)


def follows_words(seen: Observation) -> bool:
    """Return True if the patch's answers have other words where the inputs have them, so that they are no copies."""
    return any(item.followed and item.tried >= _LEAST_NAMES for item in _renamed(seen))


def _kinds(item: AnswerPair) -> tuple[str, str]:
    return item.base.kind, item.patch.kind


def _all_break(seen: Observation, words: Sequence[RenamedWord]) -> bool:
    """Return True if all words break that base's sources lack, or all those of one text, if the patch lacks them."""
    data = [item for item in words if item.word.casefold() not in seen.function.vocabulary] or words
    broken = [item for item in data if item.breaks]
    if len(broken) == len(data) or (len(broken) >= _LEAST_WORDS and len(broken) >= _MOSTLY * len(data)):
        return True
    unwritten = [item for item in broken if item.place and item.word.casefold() not in seen.function.written]
    return any(all(other.breaks for other in words if other.place == item.place) for item in unwritten)


def _renamed(seen: Observation) -> Iterator[RenamedWord]:
    groups: dict[tuple[int, str], list[AnswerPair]] = {}
    for item in seen.told(seen.words):
        family, word, _ = item.family.split(" ")
        if family == renaming.WORD:
            groups.setdefault((item.origin, word), []).append(item)
    for (at, word), items in groups.items():
        yield _judged(seen, at, word, items)


def _judged(seen: Observation, at: int, word: str, items: Sequence[AnswerPair]) -> RenamedWord:
    test, own = seen.tests[at], word.casefold()
    steady = own in test.base.text.casefold() and own in test.patch.text.casefold()
    followed = own in test.patch.text.casefold()
    broken, lost = 0, False
    for item in items:
        other = item.family.split(" ")[2]
        back = functools.partial(renaming.in_place_of, re.compile(re.escape(other), re.IGNORECASE), word)
        steady = steady and back(item.base.text) == test.base.text
        right = back(item.patch.text) == test.patch.text
        followed = followed and right and other.casefold() in item.patch.text.casefold()
        broken += not right
        lost = lost or (not right and item.patch.text == item.base.text)
    steady = steady and not (lost and _changes_without(seen, at, own))
    return RenamedWord(at, word, items[0].place, steady, followed, broken, len(items))


def _changes_without(seen: Observation, at: int, word: str, stray: float = 0.0) -> bool:
    """Return True if answers near the test change in the same way although the inputs do not have the word.

    An input with both of the test's answers says nothing: what the patch looks at may be the same. Yes and no say it.
    """
    test = seen.tests[at]
    is_flat = isinstance(test.patch.outcome.get("value"), bool)
    near = [item for item in seen.telling if item.origin == at]
    without = [item for item in near if not any(_has(text.casefold(), word) for text in renaming.texts(item.input))]
    changed = [
        item
        for item in without
        if item.differs
        and _kinds(item) == _kinds(test)
        and (is_flat or (item.base.text, item.patch.text) != (test.base.text, test.patch.text))
    ]
    return len(changed) > stray * len(without)


def _has(text: str, word: str) -> bool:
    return word in re.split(r"[^a-z]+" if word.isalpha() else r"[^a-z0-9]+", text)
