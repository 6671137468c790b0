"""Put other words in place of the words of a recorded input, to see whether a change survives; pure.

A function that copies the words of its input into its answer, or does not look at them, copies other words too. A fix
of it does so as well: its answer to the renamed input is its old answer with the word renamed. One that knows the words
of the tests gives base's answer, or something else.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reflectloop.verification.probing import neighbours
from reflectloop.verification.probing.neighbours import CallInput, FixedValue, MadeValue, NeighbourInput

WORD = "word"  # the family of inputs with a renamed word; the word and the new one follow
_WORDS = re.compile(r"[A-Za-z]{3,24}")
_CLASSES = ("aeiou", "bcdfghjklmnpqrstvwxz", "AEIOU", "BCDFGHJKLMNPQRSTVWXZ")
_KEPT = 2  # letters at the end of a word that may decide what it is
_MOST_TESTS, _MOST_WORDS, _NAMES = 3, 6, 4
_LARGEST = 4_000


def make(inputs: Sequence[CallInput], focus: Sequence[int], seed: str) -> list[NeighbourInput]:
    """Return inputs in which a word is another word wherever it is."""
    chance = random.Random(int.from_bytes(hashlib.sha256(f"{seed} words".encode()).digest()[:8], "big"))  # noqa: S311
    known = {neighbours.key(given) for given in inputs}
    out: list[NeighbourInput] = []
    written = {at: texts(inputs[at]) for at in focus}
    fitting = [at for at in focus if written[at] and sum(map(len, written[at])) <= _LARGEST]
    for at in sorted(fitting, key=lambda at: sum(map(len, written[at])))[:_MOST_TESTS]:
        words = [*dict.fromkeys(word for text in written[at] for word in _WORDS.findall(text))]
        for word in chance.sample(words, min(len(words), _MOST_WORDS)):
            for other in _others(word, written[at], chance):
                given = _renamed(inputs[at], _replacer(word, other))
                if neighbours.key(given) not in known:
                    places = [text for text in dict.fromkeys(written[at]) if _replacer(word, other)(text) != text]
                    place = places[0] if len(places) == 1 else ""
                    out.append(NeighbourInput(given, at, place, f"{WORD} {word} {other}"))
    return out


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


def _replacer(word: str, other: str) -> Callable[[str], str]:
    pattern = re.compile(rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z])")
    return lambda text: pattern.sub(other, text)


def _renamed(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - any argument
    """Return a value with other texts, wherever they are in it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, CallInput):
        return CallInput(_renamed(value.args, change), {k: _renamed(item, change) for k, item in value.kwargs.items()})
    if isinstance(value, MadeValue):
        return MadeValue(value.name, *_renamed(CallInput(value.args, value.kwargs), change))
    if isinstance(value, dict):
        return {_renamed(name, change): _renamed(item, change) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_renamed(item, change) for item in value)
    return value
