"""Put other words in place of the words of a recorded input, to see whether a change survives; pure.

A function that copies the words of its input into its answer, or does not look at them, copies other words too. A fix
of it does so as well: its answer to the renamed input is its old answer with the word renamed. One that knows the words
of the tests gives base's answer, or something else.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from reflectloop.verification.probing import neighbours
from reflectloop.verification.probing.histories import HistoryValue, ObjectCall
from reflectloop.verification.probing.neighbours import CallInput, FixedValue, MadeValue, NeighbourInput

WORD = "word"  # the family of inputs with a renamed word; the word and the new one follow
FIGURE = "figure"  # the family of inputs with other digits in a part of a text; the part and the new one follow
TIE = "tie"  # the family of inputs in which all arguments that share a word or a number share another one instead
ENTRY = "entry"  # the family of inputs that differ in one entry of a dictionary, such as an object of options
_ENTRY_STEPS = (1, 2, -1, 3, -2, 5, 7, 10, 13)
_MOST_ENTRY_TESTS, _MOST_ENTRIES, _EACH_ENTRY = 8, 6, 9
_FIGURES = re.compile(r"(?<![A-Za-z0-9])(?=[A-Za-z]*\d)[A-Za-z0-9]{2,12}(?![A-Za-z0-9])")
_MOST_FIGURES, _OTHER_FIGURES, MORE_FIGURES = 2, 12, 60
_WORDS = re.compile(r"[A-Za-z]{3,24}")
_CLASSES = ("aeiou", "bcdfghjklmnpqrstvwxz", "AEIOU", "BCDFGHJKLMNPQRSTVWXZ")
_TIED = re.compile(r"[A-Za-z]+|[0-9]+")
_MOST_TIED_TESTS, _MOST_TIED, _EACH_TIED = 4, 3, 2  # every second one is longer
_KEPT = 2  # letters at the end of a word that may decide what it is
_MOST_TESTS, _MOST_WORDS, _NAMES = 3, 6, 4
_LARGEST = 4_000


def make(
    inputs: Sequence[CallInput], focus: Sequence[int], seed: str, figures_each: int = _OTHER_FIGURES
) -> list[NeighbourInput]:
    """Return inputs in which a word is another word wherever it is, and inputs in which a part has other digits."""
    chance = random.Random(int.from_bytes(hashlib.sha256(f"{seed} words".encode()).digest()[:8], "big"))  # noqa: S311
    known = {neighbours.key(given) for given in inputs}
    out: list[NeighbourInput] = []
    written = {at: texts(inputs[at]) for at in focus}
    fitting = [at for at in focus if any(map(_has_words, written[at])) and sum(map(len, written[at])) <= _LARGEST]
    for at in sorted(fitting, key=lambda at: sum(map(len, written[at])))[:_MOST_TESTS]:
        words = _different(word for text in written[at] for word in _WORDS.findall(text))
        figures = [*dict.fromkeys(part for text in written[at] for part in _FIGURES.findall(text))]
        chosen = [(WORD, word, _others(word, written[at], chance)) for word in _some(words, _MOST_WORDS, chance)]
        chosen += [
            (FIGURE, part, _figures(part, chance, figures_each)) for part in _some(figures, _MOST_FIGURES, chance)
        ]
        for family, word, others in chosen:
            for other in others:
                change = _replacer(word, other, "A-Za-z" if family == WORD else "A-Za-z0-9")
                given = _renamed(inputs[at], change)
                places = [text for text in dict.fromkeys(written[at]) if change(text) != text]
                place = places[0] if len(places) == 1 else ""
                out.append(NeighbourInput(given, at, place, f"{family} {word} {other}"))
    return [item for item in out if neighbours.key(item.input) not in known]


def ties(inputs: Sequence[CallInput], focus: Sequence[int], seed: str) -> list[NeighbourInput]:
    """Return inputs in which what several arguments share is another word or number in all of them.

    A comparison looks at what follows such a beginning only as long as both sides have the same one.
    """
    chance = random.Random(int.from_bytes(hashlib.sha256(f"{seed} ties".encode()).digest()[:8], "big"))  # noqa: S311
    known = {neighbours.key(given) for given in inputs}
    out: dict[str, NeighbourInput] = {}
    shared = {at: _shared_parts(inputs[at]) for at in focus}
    for at in [at for at in focus if shared[at]][:_MOST_TIED_TESTS]:
        for part in _some(shared[at], _MOST_TIED, chance):
            for number in range(_EACH_TIED):
                other = "".join(_other_sign(sign, chance) for sign in (*part, *part[-1:] * (number % 2)))
                given = _renamed(inputs[at], _tie(part, other))
                out.setdefault(neighbours.key(given), NeighbourInput(given, at, "", TIE))
    return [item for text, item in out.items() if text not in known]


def _shared_parts(given: CallInput) -> list[str]:
    """Return the words and numbers that two or more arguments have."""
    counted = Counter(
        part
        for _, value in neighbours.arguments(given)
        for part in {part for text in _written(value) for part in _TIED.findall(text)}
    )
    return [part for part, count in counted.items() if count > 1]


def _written(value: object) -> list[str]:
    """Return all texts of a value, and its whole numbers as texts."""
    if type(value) is int:
        return [str(value)]
    if isinstance(value, list | tuple) and not isinstance(value, FixedValue | HistoryValue | MadeValue):
        return [text for item in value for text in _written(item)]
    return texts(value)


def _other_sign(sign: str, chance: random.Random) -> str:
    signs = "123456789" if sign.isdigit() else _class(sign) or "bcdfgh"
    return chance.choice([other for other in signs if other != sign])


def _tie(part: str, other: str) -> _Change:
    in_text = _replacer(part, other, "A-Za-z" if part.isalpha() else "0-9")
    return lambda value: in_text(value) if isinstance(value, str) else int(other) if str(value) == part else value


def _different(words: Iterable[str]) -> list[str]:
    """Return each word in the case in which it comes first."""
    out: dict[str, str] = {}
    for word in words:
        out.setdefault(word.casefold(), word)
    return [*out.values()]


def _has_words(text: str) -> bool:
    return bool(_WORDS.search(text) or _FIGURES.search(text))


def _some(items: Sequence[str], most: int, chance: random.Random) -> list[str]:
    return chance.sample(items, min(len(items), most))


def _figures(part: str, chance: random.Random, most: int) -> list[str]:
    """Return the part of a text with other digits; the first one is no zero."""
    out: dict[str, None] = {}
    for _ in range(3 * most):
        letters = [str(chance.randint(1, 9)) if letter.isdigit() else letter for letter in part]
        out["".join(letters)] = None
    return [other for other in out if other != part][:most]


def words_of(sources: Iterable[bytes]) -> frozenset[str]:
    """Return the words that are written in some sources."""
    return frozenset(
        word.casefold() for source in sources for word in _WORDS.findall(source.decode("utf-8", "replace"))
    )


def texts(given: object) -> list[str]:
    """Return all texts of an input, without the keys of its dicts."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, dict):
        return [text for item in given.values() for text in texts(item)]
    if isinstance(given, HistoryValue):
        return texts([given.args, given.kwargs, *(call[1:] for call in given.calls)])
    if isinstance(given, list | tuple) and not isinstance(given, FixedValue):
        return [text for item in given[isinstance(given, MadeValue) :] for text in texts(item)]
    return []


def _others(word: str, known: Sequence[str], chance: random.Random) -> list[str]:
    """Return words of the same length and form that no text has."""
    inner = [at for at in range(1 if len(word) > _KEPT + 1 else 0, len(word) - _KEPT) if _class(word[at])]
    out: dict[str, None] = {}
    for _ in range(8 * _NAMES if inner else 0):
        letters = list(word)
        for at in inner:
            letters[at] = chance.choice([letter for letter in _class(word[at]) if letter != word[at]])
        made = "".join(letters)
        if not any(made.casefold() in text.casefold() for text in known):
            out[made] = None
    return [*out][:_NAMES]


def _class(letter: str) -> str:
    return next((members for members in _CLASSES if letter in members), "")


_Change = Callable[[Any], Any]  # of a text or a whole number


def _replacer(word: str, other: str, letters: str) -> _Change:
    pattern = re.compile(rf"(?<![{letters}]){re.escape(word)}(?![{letters}])", re.IGNORECASE)
    return lambda value: in_place_of(pattern, other, value) if isinstance(value, str) else value


def in_place_of(pattern: re.Pattern[str], other: str, text: str) -> str:
    """Put a word where a pattern matches, with large letters where the old word has them."""

    def written(match: re.Match[str]) -> str:
        letters = itertools.zip_longest(other, match[0][: len(other)], fillvalue=match[0][-1:])
        return "".join(new.upper() if old.isupper() else new.lower() for new, old in letters)

    return pattern.sub(written, text)


def _renamed(value: Any, change: _Change) -> Any:  # noqa: ANN401, PLR0911 - any argument, a case per type
    """Return a value with other texts and numbers, wherever they are in it."""
    if isinstance(value, str) or type(value) is int:
        return change(value)
    if isinstance(value, CallInput):
        return CallInput(_renamed(value.args, change), {k: _renamed(item, change) for k, item in value.kwargs.items()})
    if isinstance(value, MadeValue):
        return MadeValue(value.name, *_renamed(CallInput(value.args, value.kwargs), change))
    if isinstance(value, HistoryValue):
        args, kwargs = _renamed(CallInput(value.args, value.kwargs), change)
        calls = tuple(ObjectCall(call.name, *_renamed(CallInput(*call[1:]), change)) for call in value.calls)
        same = (args, kwargs, calls) == value[1:4]
        return value if same else HistoryValue(value.name, args, kwargs, calls)
    if isinstance(value, dict):
        return {_renamed(name, change): _renamed(item, change) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_renamed(item, change) for item in value)
    return value


# Entries of dictionaries ---------------------------------------------------------------------------------------------


def with_other_entries(inputs: Sequence[CallInput], focus: Sequence[int], seed: str) -> list[NeighbourInput]:
    """Return inputs that differ in one entry of a dictionary. Numbers stay above 1: others are often refused."""
    chance = random.Random(int.from_bytes(hashlib.sha256(f"{seed} entries".encode()).digest()[:8], "big"))  # noqa: S311
    known = {neighbours.key(given) for given in inputs}
    out: dict[str, NeighbourInput] = {}
    for at in focus[:_MOST_ENTRY_TESTS]:
        for place, value in neighbours.arguments(inputs[at]):
            for name, own in list(value.items())[:_MOST_ENTRIES] if type(value) is dict else ():
                for other in itertools.islice(_other_entries(own, chance), _EACH_ENTRY):
                    given = neighbours.with_value(inputs[at], place, {**value, name: other})
                    out.setdefault(neighbours.key(given), NeighbourInput(given, at, f"{place}.{name}", ENTRY))
    return [item for text, item in out.items() if text not in known]


def _other_entries(own: object, chance: random.Random) -> Iterator[object]:
    if type(own) is int:
        return iter([own + step for step in _ENTRY_STEPS if own > 1 and own + step > 1])
    return neighbours.of_kind(own, chance)
