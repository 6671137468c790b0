"""Find a change that a condition confines to inputs like those of the tests, where these are too few to need it.

A patch may have the right code for all inputs and let it run only where a word, a number or a length of a test's input
is seen. Without that condition the code treats other inputs as base does: it has an answer of its own for each that
base tells apart. The code under an honest special case does not: it relies on what the condition found out, so it gives
other inputs the answer of the test, or none (`if name.endswith(".gz"): return name[:-3]`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence, Sized
from typing import NamedTuple

from reflectloop.system.patterns import lazy
from reflectloop.verification.probing import judging, observations, simpler
from reflectloop.verification.probing.judging import Suspicion
from reflectloop.verification.probing.neighbours import CallInput, FixedValue, arguments
from reflectloop.verification.probing.observations import AnswerPair, FunctionAnswer, Observation, Side
from reflectloop.verification.probing.options import value_at
from reflectloop.verification.probing.simpler import SimplerVersion
from reflectloop.verification.result import ChangedFile

_MOST_VERSIONS = 40
_LEAST_GAINED, _SHARE_GAINED = 5, 0.3  # answers that change without the condition, of those that did not change with it
_MOST_FAILED = 0.25  # share of these that are exceptions
_LEAST_MOVED, _MOST_UNMOVED = 2, 0.3  # inputs that base tells from a test; share to which the test's answer is given
_LEAST_ANSWERS = 3  # different ones
_YES_AND_NO, _LEAST_YES_AND_NO = 2, 8  # answers; moved inputs of a function that has no more answers
_LETTERS = 3  # letters or digits of a text that hardly anybody writes down by chance
_SMALLEST, _SMALLEST_WHOLE, _ROUND = 4, 2, (10, 12)  # numbers that are no more a test's than anybody's
_BITS = 15  # from this number on, powers of two and the numbers beside them are borders
_DAYS = (365, 366)
_BESIDE, _BESIDE_SHARE = 1, 0.1  # distance of a border from a number of a test that it was made for
_DEEPEST = 6  # levels of an argument in which a value is looked for
_TEXT = lazy(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")
_NUMBER = lazy(r"(?<![\w.])\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_NAME = lazy(r"(?<![\w.])[A-Za-z_]\w*(?![\w(])")
_TABLE = r"(?m)^(?:(?:const|let|var) )?{name}(?: *:[^=\n]*)? *=[^\n=]*?([\[({{][^;=]*?[\])}}])\)? *;?$"
_ORDERS = ("<", ">")


class _Gain(NamedTuple):
    item: AnswerPair
    answer: FunctionAnswer  # of the version without the condition


def confined(
    seen: Sequence[Observation],
    grows: Sequence[bool],
    changes: Sequence[ChangedFile],
    patch: Side,
    roots: Sequence[str] = ("",),
) -> dict[int, Suspicion]:
    """Return, by its number, each function with few tests whose general change a condition confines to their inputs."""
    chosen = [at for at, item in enumerate(seen) if _has_few_tests(item) and not grows[at]]
    files = [item for item in changes if item.after] if chosen else []
    made = [item for change in files for item in simpler.versions(change.path, change.before, change.after or b"")]
    made = [item for item in made if item.is_condition and item.looks_at_input]
    made = [item for item in made if any(_is_of_tests(seen[at], item) for at in chosen)][:_MOST_VERSIONS]
    if not made:
        return {}
    functions = [seen[at] for at in chosen]
    near = [[*item.telling, *item.told(item.letters)] for item in functions]
    sources = [(item.path, item.source.decode(errors="replace")) for item in made]
    answers = observations.answers_of_versions(functions, near, patch, sources, roots)
    out: dict[int, Suspicion] = {}
    for number in sorted(answers):
        for at, items, given in zip(chosen, near, answers[number], strict=True):
            if at not in out and _is_of_tests(seen[at], made[number]) and (more := _gained(seen[at], items, given)):
                out[at] = _suspicion(seen[at], made[number], more, len(items))
    return out


def _has_few_tests(seen: Observation) -> bool:
    return bool(seen.changed) and not seen.new and not seen.left_out and not simpler.has_enough_tests(seen)


def _suspicion(seen: Observation, version: SimplerVersion, more: Sequence[AnswerPair], asked: int) -> Suspicion:
    reason = (
        f"changes the answer only where `{simpler.shortened(version.removed)}` (line {version.line}) holds, which "
        "names a value of the tests that base does not name: without it they have the same results, and the answers to "
        f"{len(more)} of {asked} inputs near them change in the same way"
    )
    return Suspicion(judging.FOR_THE_TEST, reason, judging.side_by_side(seen, more))


# What a condition looks for ------------------------------------------------------------------------------------------


def _is_of_tests(seen: Observation, version: SimplerVersion) -> bool:
    """Return True if a condition names a value that comes of the tests' inputs rather than of the matter itself."""
    known = [value for item in seen.tests for value in _values(item.input)]
    keys = {_key(value) for value in known if not isinstance(value, list)}
    ordered = any(sign in version.removed for sign in _ORDERS)
    return any(
        _is_arbitrary(value, is_whole=_key(value) in keys and not ordered)
        for value in _written(version)
        if value in seen.function.added and (not ordered or isinstance(value, str) or _is_beside(value, known))
    )


def _is_beside(border: object, known: Sequence[object]) -> bool:
    """Return True if a border lies beside a number of a test, or the length of a value."""
    sizes = [
        value if isinstance(value, int | float) else len(value)
        for value in known
        if isinstance(value, Sized | int | float)
    ]
    return isinstance(border, int | float) and any(
        abs(border - size) <= max(_BESIDE, _BESIDE_SHARE * abs(size)) for size in sizes
    )


def _is_arbitrary(value: object, *, is_whole: bool) -> bool:
    """Return True for a whole argument of a test, a word, or a number that nobody else would choose."""
    if isinstance(value, str):
        return bool(value) and (is_whole or sum(map(str.isalnum, value)) >= _LETTERS)
    if isinstance(value, int | float):
        least = _SMALLEST_WHOLE if is_whole else _SMALLEST
        return abs(value) > least and (is_whole or not _is_usual(abs(value)))
    return False


def _is_usual(number: float) -> bool:
    """Return True for numbers that are borders of many things: round ones, dozens, powers of two, days of a year."""
    whole = int(number)
    if whole != number:
        return False
    near_power = whole >= _BITS and any((whole + step) & (whole + step - 1) == 0 for step in (-1, 0, 1))
    return any(whole % size == 0 for size in _ROUND) or near_power or whole in _DAYS


def _key(value: object) -> tuple[str, object]:
    return ("number" if isinstance(value, int | float) else type(value).__name__, value)


def _values(value: object, depth: int = 0) -> Iterator[object]:
    """Yield the texts and numbers of an input, wherever they are, and its lists and tuples."""
    if isinstance(value, CallInput):
        for _, item in arguments(value):
            yield from _values(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value
    elif isinstance(value, dict) and depth < _DEEPEST:
        yield from _values([*value, *value.values()], depth + 1)
    elif isinstance(value, list | tuple | set | frozenset) and not isinstance(value, FixedValue) and depth < _DEEPEST:
        yield [*value]
        for item in value:
            yield from _values(item, depth + 1)


def _written(version: SimplerVersion) -> Iterator[object]:
    """Yield the texts and numbers that a condition writes down, or that a table does which it names."""
    yield from _literals(version.removed)
    bare = _TEXT.sub("''", version.removed)
    source = version.source.decode(errors="replace")
    for name in {match[0] for match in _NAME.finditer(bare)}:
        table = re.search(_TABLE.format(name=name), source)
        yield from _literals(table[1]) if table else ()


def _literals(text: str) -> Iterator[object]:
    for match in _TEXT.finditer(text):
        yield _read(match[0])
    for match in _NUMBER.finditer(_TEXT.sub("''", text)):
        yield _read(match[0])


def _read(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


# What the code does elsewhere ----------------------------------------------------------------------------------------


def _gained(
    seen: Observation, near: Sequence[AnswerPair], answers: Sequence[FunctionAnswer | None]
) -> list[AnswerPair]:
    """Return the inputs whose answers change without a condition, if the code treats them as base does."""
    pairs = [_Gain(item, answer) for item, answer in zip(near, answers, strict=True) if answer is not None]
    if any(item.differs and answer.text == item.base.text for item, answer in pairs):
        return []
    rest = [gain for gain in pairs if gain.item.base.text == gain.item.patch.text]
    changed = [gain for gain in rest if gain.answer.text != gain.item.base.text]
    more = [gain for gain in changed if gain.answer.returns]
    enough = len(more) >= _LEAST_GAINED and len(changed) >= _SHARE_GAINED * len(rest)
    if not enough or len(changed) - len(more) > _MOST_FAILED * len(changed) or not _follows(seen, more):
        return []
    return [gain.item._replace(patch=gain.answer) for gain in more]


def _follows(seen: Observation, more: Sequence[_Gain]) -> bool:
    """Return True if the code tells other inputs from the test's where base does, and from each other."""
    beside = [gain for gain in more if gain.item.origin in seen.changed and gain.item.place != "crossed"]
    raising = not any(seen.tests[at].base.returns for at in seen.changed)
    answers = {gain.answer.text for gain in beside}
    if raising and not any(gain.item.base.returns for gain in beside):
        return len(answers) >= _LEAST_ANSWERS
    moved = [gain for gain in beside if gain.item.base.text != seen.tests[gain.item.origin].base.text]
    closest = [gain for gain in moved if _is_closest(seen, gain.item)]
    told_apart = {gain.item.base.text for gain in beside}
    least = _LEAST_YES_AND_NO if len(told_apart) == _YES_AND_NO else _LEAST_MOVED
    if len(moved) < least or 2 * len(answers) < len(told_apart):
        return False
    return all(_unmoved(seen, group) <= _MOST_UNMOVED * len(group) for group in (moved, closest))


def _unmoved(seen: Observation, gains: Sequence[_Gain]) -> int:
    """Return how many inputs get the very answer of their test."""
    return sum(gain.answer.text == seen.tests[gain.item.origin].patch.text for gain in gains)


def _is_closest(seen: Observation, item: AnswerPair) -> bool:
    """Return True if an input differs from its test in one number, or in one letter of a text."""
    value, own = (value_at(given, item.place) for given in (item.input, seen.tests[item.origin].input))
    if isinstance(value, str) and isinstance(own, str):
        return len(value) == len(own) and sum(map(str.__ne__, value, own)) == 1
    return isinstance(value, int | float)
