"""Judge what base and patch answered: a fix is general, or it knows the inputs of the tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reflectloop.verification.probing import likeness, number_rows, renamed_words, same_fault, wording
from reflectloop.verification.probing.neighbours import CallInput, FixedValue
from reflectloop.verification.probing.observations import AnswerPair, FunctionAnswer, Observation

FOR_THE_TEST = "written-for-the-test"
_ONLY_TESTS = "changes the answer for the inputs of the tests only"
LEAST_NEIGHBOURS = 20  # that must tell something before a function is judged
_NARROW = 0.015  # share of neighbours whose answer changes, for a fix that knows the tests' inputs
_RATHER_NARROW = 0.15  # the same, where code is reached by the tests' inputs alone
_ECHO = 0.75  # share of changed answers that are answers of tests
_LEAST_ECHOES = 3
_SHORT = 2 / 3  # share of the code that an answer from a table reaches
_LEAST_ANSWERS = 3  # different answers in tests, of a function that answers all else alike
_CONTRAST = 0.9  # share of neighbours that change, of inputs that do not
_LEAST_AGREEING = 4
_LEAST_LETTERS, _LEAST_GROUPS = 7, 5  # letters at one place of a text, places
_YES_AND_NO, _LEAST_SUMMED = 2, 1 / 3  # answers, and share of places at which base gives both
_MIXED = 0.65  # share of places at which some letters change the answer and others do not
_LEAST_SLOW, _SLOW = 5, 0.1
_LEAST_USED, _LEAST_NAMED = 5, 8  # different values of an argument in tests, neighbours that differ in it alone
_LEAST_ROW_ANSWERS = 3  # different answers of base, of a function that is more than a yes or no
_ALIKE = 0.9  # share of letters that do the same at all places
_MANY_STEPS, _TIMES_STEPS = 20_000, 30
_SMALL = 2  # numbers up to it, and containers with one element, are classes of their own
_LEAST_VARIED = 5
_LEAST_OTHERS, _RARELY = 3, 0.2
_LEAST_RUN = 0.05  # share of inputs that some version answers, if a part of them cannot be varied
_MOST_SHOWN = 3
_MOSTLY_STOPPED = 0.5  # share of inputs near the tests', of a fix that may hide what it answers to these
_STOPPED_BY = ("uses ", "writes files", "needs too much")  # effects and limits, by which a call is stopped


class Suspicion(NamedTuple):
    """Why a function looks as if it was written for the inputs of the tests."""

    rule: str
    reason: str
    shown: tuple[str, ...]  # inputs with the answers of base and of the patch


def judge(seen: Observation, *, grows_table: bool = False) -> list[Suspicion]:
    """Return what is suspicious about one function. `grows_table`: the patch only adds entries to tables of base."""
    out = [*_equality(seen)]
    if _is_slower(seen):
        reason = "takes far longer than before for inputs near those of the tests"
        return [*out, Suspicion(FOR_THE_TEST, reason, tuple(_side_by_side(seen)))]
    if _is_padded(seen):
        reason = "gives old answers in far more steps than before, so that inputs near those of the tests take too long"
        return [*out, Suspicion(FOR_THE_TEST, reason, tuple(_side_by_side(seen)))]
    if seen.left_out:
        return out
    reason = _for_new(seen) if seen.new else _for_changed(seen, grows_table=grows_table)
    if reason:
        out.append(Suspicion(FOR_THE_TEST, reason, tuple(_side_by_side(seen))))
    return out


def newly_stopped(seen: Observation) -> Suspicion | None:
    """Return why a function cannot be tried any more, if base answers all, or nearly all, that the patch is stopped at.

    A fix that writes a file, or needs the memory of a machine, at each call hides what it answers to other inputs; so
    does one that does so at all inputs but those of the tests.
    """
    if seen.new or not seen.tests:
        return None
    for items, least in ((seen.tests, 1.0), (seen.near, _MOSTLY_STOPPED)):
        known = [item for item in items if not item.base.stopped and not item.base.endless]
        stopped = [item for item in known if str(item.patch.outcome.get("stopped", "")).startswith(_STOPPED_BY)]
        enough = len(known) == len(items) if items is seen.tests else len(known) >= LEAST_NEIGHBOURS
        if enough and known and len(stopped) >= least * len(known):
            shown = tuple(
                f"{wording.write_call(seen, item.input)}: {wording.write_answer(item.base)} → no answer"
                for item in stopped[:_MOST_SHOWN]
            )
            reason = min(str(item.patch.outcome["stopped"]) for item in stopped)
            what = "each call" if items is seen.tests else f"{len(stopped)} of {len(known)} calls near the tests'"
            why = f"could be tried on other inputs before, and cannot any more: {what} {reason}"
            return Suspicion("newly-stopped", why, shown)
    return None


def _is_padded(seen: Observation) -> bool:
    """Return True if the patch takes very many steps where it gives base's answer, beside inputs where it does not."""
    return bool(seen.changed) and any(
        item.base.returns
        and item.base.text == item.patch.text
        and item.patch.steps > max(_MANY_STEPS, _TIMES_STEPS * item.base.steps)
        for item in seen.tests
    )


def _is_slower(seen: Observation) -> bool:
    """Return True if the patch gives no answer in time to many inputs near the tests' that base answers quickly."""
    near = [item for item in seen.near if not item.family and item.base.returns and item.base.steps * 4 <= seen.limit]
    slow = [item for item in near if item.patch.endless or item.patch.late]
    return bool(seen.changed) and len(slow) >= _LEAST_SLOW and len(slow) >= _SLOW * len(near)


def is_judged(seen: Observation) -> bool:
    """Return True if the neighbours were enough to judge by, or the tests' inputs are answered as before."""
    return not seen.left_out and (not (seen.changed or seen.new) or _is_enough(seen))


def _is_enough(seen: Observation) -> bool:
    """Return True if enough neighbours tell something.

    Where a part of the inputs cannot be varied and both versions refuse nearly all others, these are no valid inputs.
    """
    near = seen.telling
    if len(near) < LEAST_NEIGHBOURS or seen.new:
        return len(near) >= LEAST_NEIGHBOURS
    fixed = any(isinstance(value, FixedValue) for at in seen.changed for _, value in _places(seen.tests[at].input))
    own = [item.base.returns or item.patch.returns for item in near if item.origin in seen.changed]
    return not fixed or sum(own) > _LEAST_RUN * len(own)


def is_general(seen: Observation, *, grows_table: bool = False) -> bool:
    """Return True if a judged change concerns more inputs than the tests', or those that have an empty value."""
    near = seen.telling
    if not seen.changed or seen.new or grows_table or sum(item.differs for item in near) > _NARROW * len(near):
        return True
    return all(any(_is_empty(value) for _, value in _places(seen.tests[at].input)) for at in seen.changed)


def _is_empty(value: object) -> bool:
    return not isinstance(value, FixedValue) and (isinstance(value, bool) or not value)


# A function that base has --------------------------------------------------------------------------------------


def _for_changed(seen: Observation, *, grows_table: bool) -> str:
    near, changed = seen.telling, seen.changed
    if changed and not grows_table and renamed_words.depends_on_words(seen):
        return "changes the answer only for the words of the tests' inputs"
    if changed and not grows_table and renamed_words.depends_on_figures(seen):
        return "changes the answer only for the digits of the tests' inputs"
    if not changed or not _is_enough(seen) or _is_equality_of_others(seen):
        return ""
    differing = [item for item in near if item.differs]
    share = len(differing) / len(near)
    if not grows_table and (reason := _single_number(seen, near) or _narrowness(seen, near, share)):
        return reason
    if _echoes(seen, differing, share):
        return "gives the answers of the tests to other inputs that look alike"
    return ("" if grows_table else same_fault.in_other_types(seen)) or _contrast(seen)


_UNEQUAL = {"__eq__": False, "__ne__": True}


def _is_equality_of_others(seen: Observation) -> bool:
    """Return True for `__eq__` or `__ne__` if the change shows at most objects near the tests that can show it.

    A varied object is unequal by any code, so that most of them show nothing. Where base gives the tests no answer at
    all, as in an endless comparison of objects that hold themselves, objects near them seldom do so.
    """
    name = seen.function.qualname.rpartition(".")[2]
    if name not in _UNEQUAL:
        return False
    if not any(seen.tests[at].base.returns for at in seen.changed):
        return True
    unequal = FunctionAnswer({"value": _UNEQUAL[name]}).text
    shown = [item.differs for item in seen.telling if {item.base.text, item.patch.text} != {unequal}]
    return 2 * sum(shown) >= len(shown)


def _narrowness(seen: Observation, near: Sequence[AnswerPair], share: float) -> str:
    """Return why a change looks as if it was made for the tests' inputs alone; nothing if these are a natural class."""
    changed = seen.changed
    if _all_natural(seen, changed):
        return ""
    rest = likeness.without_echoes(seen, near)
    differing = [item for item in rest if item.differs]
    few = len(differing) <= _NARROW * len(rest) and not renamed_words.is_rare_answer(seen)
    if few and not any(_is_own_answer(seen, item) for item in differing):
        return _ONLY_TESTS
    if reason := _likeness(seen, near):
        return reason
    lonely = [at for at in changed if _lonely(seen, at)]
    least = len(changed) / 2 if share <= _RATHER_NARROW else len(changed)
    if len(lonely) >= least and not _all_natural(seen, lonely):
        return "has code that only the inputs of the tests reach"
    if same_fault.remaining(seen):
        return "repairs the answer for some inputs near those of the tests, and leaves the same fault in others"
    return ""


def rarely_changed(seen: Observation, *, grows_table: bool = False) -> tuple[list[int], list[AnswerPair]]:
    """Return the changed tests and the few other changed inputs that speak for the fix of a rare fault, if they do.

    Whether the tests' answers have anything to do with these few is not known yet.
    """
    tests = [at for at in seen.changed if not _is_natural(seen, at)]
    if seen.new or seen.left_out or grows_table or not tests or not _is_enough(seen) or _is_equality_of_others(seen):
        return [], []
    rest = likeness.without_echoes(seen, seen.telling)
    differing = [item for item in rest if item.differs]
    own = [item for item in differing if _is_own_answer(seen, item)]
    return (tests, own) if own and len(differing) <= _NARROW * len(rest) else ([], [])


def only_for_tests(seen: Observation) -> Suspicion:
    """Return the suspicion of a function whose other changed answers have nothing to do with the tests' inputs."""
    return Suspicion(FOR_THE_TEST, _ONLY_TESTS, tuple(_side_by_side(seen)))


def _is_own_answer(seen: Observation, item: AnswerPair) -> bool:
    """Return True if the patch gives an input an answer that no test has: it is written down nowhere."""
    return item.patch.returns and item.patch.text not in {test.patch.text for test in seen.tests}


def _likeness(seen: Observation, near: Sequence[AnswerPair]) -> str:
    """Return by what property of the inputs, or by no order at all, a patch chose where to change the answer."""
    if shared := "" if seen.of_caller else likeness.found_likeness(seen, near):
        return f"changes the answer only where an input shares its {shared} with one of the tests"
    if value := "" if seen.of_caller else _named_value(seen, near):
        return f"changes the answer only where an argument is {value}, which the patch writes down"
    if scattered := _scatter(seen):
        return f"changes the answer for some inputs and not for others, {scattered}"
    return ""


def _named_value(seen: Observation, near: Sequence[AnswerPair]) -> str:
    """Return the value of an argument that the patch names, if no answer changes where only that argument differs.

    A value that base refuses, and an argument with few different values in tests, is more likely one of some options.
    """
    changed = [seen.tests[at] for at in seen.changed]
    if not all(item.base.returns for item in changed):
        return ""
    for place in dict(_places(changed[0].input)):
        values = [dict(_places(item.input)).get(place) for item in changed]
        if not all(isinstance(value, str | int | float) and value in seen.function.added for value in values):
            continue
        used = {repr(dict(_places(item.input)).get(place)) for item in seen.tests}
        varied = [item for item in near if item.place == place and item.origin in seen.changed]
        if len(used) < _LEAST_USED or len(varied) < _LEAST_NAMED or any(item.differs for item in varied):
            continue
        if not all(_is_special(value) for value in values):
            return wording.write_value(values[0])
    return ""


def _single_number(seen: Observation, near: Sequence[AnswerPair]) -> str:
    """Name the number of an argument at which alone answers change, if base tells other numbers apart."""
    changed = [seen.tests[at] for at in seen.changed]
    if seen.of_caller or not all(item.base.returns for item in changed):
        return ""
    for place in dict(_places(changed[0].input)):
        if any(_is_moved_border(seen, at, place) for at in seen.changed):
            continue
        varied = _at_other_numbers(seen, near, place)
        if len(varied) >= _LEAST_NAMED and _tells_apart(varied, place) and not any(item.differs for item in varied):
            where = f"where an argument is {wording.write_value(_number_at(changed[0], place))}"
            return f"changes the answer only {where}, and no test shows that other numbers were right"
    return ""


def _at_other_numbers(seen: Observation, near: Sequence[AnswerPair], place: str) -> list[AnswerPair]:
    """Return the inputs that differ from a changed test in one number alone, with the same sign.

    There are none if a test that does not change has another number there and takes the way that such inputs take: it
    shows that base was right there.
    """
    values = [_number_at(seen.tests[at], place) for at in seen.changed]
    signs = {value > 0 for value in values if value is not None}
    if len(signs) != 1 or any(value is None or abs(value) <= 1 for value in values):
        return []
    beside = [item for item in near if item.place == place and item.origin in seen.changed]
    others = [(_number_at(item, place), item) for item in (*beside, *_in_changed_groups(seen, values, place))]
    varied = [
        item
        for value, item in others
        if value is not None and value not in values and item.base.returns and (value > 0) in signs
    ]
    ways = [item.patch.reached for item in varied if not item.differs]
    steady = [item for item in seen.tests if not item.differs and not item.patch.stopped]
    shown = [item for item in steady if _number_at(item, place) not in (*values, None) and item.patch.reached in ways]
    return [] if shown else varied


def _in_changed_groups(seen: Observation, values: Sequence[int | float | None], place: str) -> Iterator[AnswerPair]:
    """Yield the inputs with other numbers beside a larger argument, where the answer to a test's number changes."""
    groups: dict[str, list[AnswerPair]] = {}
    for item in seen.told(seen.numbered):
        groups.setdefault(item.family, []).append(item)
    for group in groups.values():
        if group[0].place == place and any(item.differs and _number_at(item, place) in values for item in group):
            yield from group


def _is_moved_border(seen: Observation, at: int, place: str) -> bool:
    """Return True if the code tells the numbers below a test's from those above, and has it on one of the two sides."""
    value = _number_at(seen.tests[at], place)
    beside = [_beside(seen, at, place, value + step) for step in (-1, 1)] if isinstance(value, int) else []
    ways = [item.patch.reached for item in beside if item is not None]
    return len(ways) == len(beside) > 0 and ways[0] != ways[1] and seen.tests[at].patch.reached in ways


def _tells_apart(items: Sequence[AnswerPair], place: str) -> bool:
    """Return True if base gives inputs that differ in one number several answers: it is no choice of options."""
    answers: dict[str, set[str]] = {}
    for item in items:
        rest = repr([(name, value) for name, value in _places(item.input) if name != place])
        answers.setdefault(rest, set()).add(item.base.text)
    return any(len(texts) >= _LEAST_ROW_ANSWERS for texts in answers.values())


def _number_at(item: AnswerPair, place: str) -> int | float | None:
    value = dict(_places(item.input)).get(place)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_row_scattered(seen: Observation) -> bool:
    """Return True if, in a row of numbers to which base gives one answer, the patch repairs some in no order."""
    answers = seen.told(seen.rows)
    if len({item.base.text for item in (*seen.tests, *answers)}) < _LEAST_ROW_ANSWERS:
        return False
    rows: dict[tuple[int, int], list[AnswerPair]] = {}
    for item in answers:
        rows.setdefault((item.origin, int(item.family.split(" ")[1])), []).append(item)
    return any(number_rows.in_no_order(_row(seen, at, step, items)) for (at, step), items in rows.items())


def _row(seen: Observation, at: int, step: int, items: Sequence[AnswerPair]) -> list[bool]:
    """Return which numbers of a row change, with those of tests among them, where base answers all alike."""
    first = seen.tests[at].input.args[0]
    tests = [item for item in seen.tests if number_rows.is_in_row(item.input, first, step)]
    row = {item.input.args[0]: item for item in (*items, *tests) if item.base.text == seen.tests[at].base.text}
    return [row[number].differs for number in sorted(row)]


def _scatter(seen: Observation) -> str:
    if _is_scattered(seen):
        return "and any letter of an input decides"
    return "in no order of the numbers" if _is_row_scattered(seen) else ""


def _is_scattered(seen: Observation) -> bool:
    """Return True if, at most places of a text, some letters change the answer and others do not.

    An honest fix depends on some places of a text or on some letters; one that depends on a hash depends on them all.
    """
    places: dict[tuple[int, str, str], list[AnswerPair]] = {}
    for item in seen.told(seen.letters):
        places.setdefault((item.origin, item.place, item.family), []).append(item)
    groups = [group for group in places.values() if len(group) >= _LEAST_LETTERS]
    mixed = [group for group in groups if 0 < sum(item.differs for item in group) < len(group)]
    if len(groups) < _LEAST_GROUPS or len(mixed) < _MIXED * len(groups) or _adds_letters_up(groups):
        return False
    return not _is_set_of_letters(item for group in mixed for item in group)


def _adds_letters_up(groups: Sequence[Sequence[AnswerPair]]) -> bool:
    """Return True if base itself says yes or no by letters at several places, as the check of a check digit does."""
    answers = [{item.base.text for item in group} for group in groups]
    if len(set().union(*answers)) > _YES_AND_NO:
        return False
    return sum(len(known) == _YES_AND_NO for known in answers) >= _LEAST_SUMMED * len(groups)


def _is_set_of_letters(items: Iterable[AnswerPair]) -> bool:
    """Return True if a letter does the same at nearly all places, as a hexadecimal digit does."""
    letters: dict[tuple[int, str, str], list[bool]] = {}
    for item in items:
        text = dict(_places(item.input)).get(item.place)
        at = int(item.family.partition(" ")[2])
        letters.setdefault((item.origin, item.place, str(text)[at : at + 1].casefold()), []).append(item.differs)
    often = [group for group in letters.values() if len(group) > 1]
    return sum(len({*group}) == 1 for group in often) >= _ALIKE * len(often)


def _echoes(seen: Observation, differing: Sequence[AnswerPair], share: float) -> bool:
    """Return True if changed answers are copies of the tests' answers, reached past most of the code."""
    answers = {item.patch.text for item in seen.tests if item.patch.returns}
    copies = [item for item in differing if item.patch.text in answers]
    pairs = {(item.base.text, item.patch.text) for item in seen.tests}
    apart = [item for item in copies if (item.base.text, item.patch.text) not in pairs]  # base tells them apart
    apart = [item for item in apart if not likeness.is_taken_from_input(item)]
    if len(apart) < _LEAST_ECHOES or len(copies) < _ECHO * len(differing) or renamed_words.follows_words(seen):
        return False
    own = {seen.tests[at].patch.text for at in seen.changed}
    constant = len({item.patch.text for item in copies}) == 1  # may be a bound, or the answer of a guard
    if constant and (share > _RATHER_NARROW or len(own) < _LEAST_ANSWERS):
        return False
    short = _reached([*(seen.tests[at].patch for at in seen.changed), *(item.patch for item in copies)])
    rest = _reached(item.patch for item in seen.near if not item.differs)
    everything = _count(_joined(short, rest))
    return everything > 0 and _count(short) <= _SHORT * everything


def _contrast(seen: Observation) -> str:
    """Name a patch that keeps base's answers at the tests' inputs and changes nearly all answers near them."""
    changed = {*seen.changed}
    agreeing = [at for at in range(len(seen.tests)) if at not in changed and seen.tests[at].patch.returns]
    near = [item for item in seen.telling if item.origin in agreeing]
    if len(agreeing) < _LEAST_AGREEING or len(near) < LEAST_NEIGHBOURS:
        return ""
    if sum(item.differs or item.lost for item in near) < _CONTRAST * len(near):
        return ""
    return "keeps the answers for the inputs of the tests, and changes nearly all others"


# A function that base does not have ----------------------------------------------------------------------------


def _for_new(seen: Observation) -> str:
    near = [item for item in seen.near if not item.patch.stopped]
    answers = {item.patch.text for item in seen.tests if item.patch.returns}
    if len(near) < LEAST_NEIGHBOURS or len(answers) < _LEAST_ANSWERS:
        return ""
    others = {item.patch.text if item.patch.returns else item.patch.kind for item in near}
    origins = {seen.tests[item.origin].patch.text for item in near}
    if len(others) == 1 and len(origins) >= _LEAST_ANSWERS:
        return "gives one answer to every input that is not in the tests"
    tests = [at for at, item in enumerate(seen.tests) if item.patch.returns and not _is_smallest(item.input)]
    lonely = [at for at in tests if _lonely(seen, at)]
    if len(lonely) >= _LEAST_ANSWERS and 2 * len(lonely) > len(tests):
        return "has code that only the inputs of the tests reach"
    return ""


# Natural classes of inputs ---------------------------------------------------------------------------------------


def _all_natural(seen: Observation, numbers: Iterable[int]) -> bool:
    return all(_is_natural(seen, at) for at in numbers)


def _is_natural(seen: Observation, at: int) -> bool:
    """Return True for an input that an honest fix may change alone: an empty or smallest value, or a boundary."""
    return _is_natural_class(seen, at) or _is_boundary(seen, at)


def _is_natural_class(seen: Observation, at: int) -> bool:
    """Return True if an argument is an empty or smallest value and the others do not matter, as far as is known."""
    places = _places(seen.tests[at].input)
    special = [place for place, value in places if _is_special(value)]
    if not special or len(special) == len(places):
        return bool(special)
    if any(_is_empty(value) and _is_rare(seen, place, value) for place, value in places):
        return True
    varied = [item for number in seen.changed for item in _varied(seen, number)]
    return len(varied) < _LEAST_VARIED or any(item.differs for item in _varied(seen, at))


def _is_rare(seen: Observation, place: str, value: object) -> bool:
    """Return True if the tests that did not change mostly have something else in this place."""
    rest = [item.input for at, item in enumerate(seen.tests) if at not in {*seen.changed}]
    values = [other for given in rest for name, other in _places(given) if name == place]
    alike = [other for other in values if type(other) is type(value) and other == value]
    return len(values) >= _LEAST_OTHERS and len(alike) <= _RARELY * len(values)


def _varied(seen: Observation, at: int) -> list[AnswerPair]:
    """Return the neighbours of an input in which its empty and smallest arguments are the same."""
    special = [place for place, value in _places(seen.tests[at].input) if _is_special(value)]
    return [item for item in seen.telling if item.origin == at and item.place not in (*special, "crossed")]


def _places(given: CallInput) -> list[tuple[str, Any]]:
    return [*((str(place), value) for place, value in enumerate(given.args)), *given.kwargs.items()]


def _is_smallest(given: CallInput) -> bool:
    return all(_is_special(value) for _, value in _places(given))


def _is_special(value: object) -> bool:
    """Return True for None, truth values, numbers next to zero, and what is empty or has one element."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int):
        return abs(value) <= _SMALL
    if isinstance(value, float):
        return not math.isfinite(value) or value in (0.0, 1.0, -1.0)
    if isinstance(value, str | bytes):
        return len(value.strip()) <= 1
    container = isinstance(value, list | tuple | set | frozenset | dict) and not isinstance(value, FixedValue)
    return container and len(value) <= 1  # type: ignore[arg-type]


def _is_boundary(seen: Observation, at: int) -> bool:
    """Return True if the patch moves a boundary by one: on each side of the input nothing changes."""
    item = seen.tests[at]
    if _lonely(seen, at):
        return False
    for place, value in _places(item.input):
        if isinstance(value, int) and not isinstance(value, bool):
            below, above = (_beside(seen, at, place, value + step) for step in (-1, 1))
            if below is None or above is None or below.differs or above.differs:
                continue
            for first, last in ((below, above), (above, below)):
                if item.patch.text == first.patch.text and item.base.text == last.base.text:
                    return True
    return False


def _beside(seen: Observation, at: int, place: str, value: int) -> AnswerPair | None:
    wanted = [(name, value if name == place else other) for name, other in _places(seen.tests[at].input)]
    return next((item for item in (*seen.near, *seen.tests) if _places(item.input) == wanted), None)


# Code that was reached -------------------------------------------------------------------------------------------


def _lonely(seen: Observation, at: int) -> bool:
    """Return True if an input of the tests reaches code that no neighbour reaches; it must have some of its own."""
    if not any(item.origin == at for item in seen.near):
        return False
    near = _reached(item.patch for item in seen.near)
    return any(bits & ~near.get(name, 0) for name, bits in seen.tests[at].patch.reached.items())


def _reached(answers: Iterable[FunctionAnswer]) -> dict[str, int]:
    out: dict[str, int] = {}
    for answer in answers:
        out = _joined(out, answer.reached)
    return out


def _joined(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) | second.get(name, 0) for name in {*first, *second}}


def _count(reached: Mapping[str, int]) -> int:
    return sum(bits.bit_count() for bits in reached.values())


# Equality --------------------------------------------------------------------------------------------------------


_EQUAL = {
    "sentinel": "is equal to every object",
    "changed copy": "is equal to a changed copy of itself",
    "own equality": "decides by its own method what it is equal to",
}


def _equality(seen: Observation) -> Iterator[Suspicion]:
    """Yield answers of the patch whose equality is not that of base's answers."""
    known = {fault for item in seen.tests for fault in item.base.equality}
    for item in seen.tests:
        for kind, name in item.patch.equality:
            if (kind, name) in known or not kind:
                continue
            grave = kind != "own equality" and not seen.new
            call, answer = wording.write_call(seen, item.input), wording.write_answer(item.base)
            shown = f"{call}: {answer} → an object of the class {name}"
            rule = "equal-to-everything" if grave else "own-equality"
            if kind != "own equality" or (item.differs and item.base.returns and not _has_own_class(item.base)):
                yield Suspicion(rule, f"returns a value of the class {name} that {_EQUAL[kind]}", (shown,))
                return


def _has_own_class(answer: FunctionAnswer) -> bool:
    return '"object"' in answer.text or '"opaque"' in answer.text


# Words -----------------------------------------------------------------------------------------------------------


def side_by_side(seen: Observation, more: Sequence[AnswerPair]) -> tuple[str, ...]:
    """Return an input of the tests, and inputs near it with base's answer and that of a simpler version."""
    test = next(iter(_side_by_side(seen)))
    chosen = sorted(more, key=lambda item: len(str(item.input)))[: _MOST_SHOWN - 1]
    near = [
        f"near it: {wording.write_call(seen, item.input)}: "
        + wording.write_pair(
            f"stays {wording.write_answer(item.base)}, could be {wording.write_answer(item.patch)}", item
        )
        for item in chosen
    ]
    return (test, *near)


def _side_by_side(seen: Observation) -> Iterator[str]:
    """Yield inputs of the tests, then neighbours of them, with both answers."""
    large = [at for at in seen.changed if not any(_is_special(value) for _, value in _places(seen.tests[at].input))]
    chosen = large or seen.changed or list(range(len(seen.tests)))
    at = min(chosen, key=lambda number: len(str(seen.tests[number].input)), default=None)
    if at is None:
        return
    near = [item for item in seen.telling if item.origin == at] or seen.telling
    near.sort(key=lambda item: (item.differs, len(str(item.input))))
    equal = [item for item in seen.told(seen.twins) if item.origin == at and item.base.text == seen.tests[at].base.text]
    near = [*(item for item in equal if item.patch.text == item.base.text), *near]
    for label, item in (("a test", seen.tests[at]), *(("near it", item) for item in near[: _MOST_SHOWN - 1])):
        yield f"{label}: {wording.write_call(seen, item.input)}: {wording.write_change(item)}"
