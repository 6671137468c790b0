"""Other words, rows of numbers and slow answers tell a fix from one that knows the inputs of the tests."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from reflectloop.verification.probing import judging, number_rows, observations, renamed_words, renaming
from reflectloop.verification.probing.inside import plain_data
from reflectloop.verification.probing.neighbours import CallInput, FixedValue, MadeValue
from reflectloop.verification.probing.observations import (
    AnswerPair,
    FunctionAnswer,
    FunctionInputs,
    Job,
    Observation,
    Side,
)

TEXTS = ("Trailing words here!", "Some other title?", "plain text", "no mark at all")
KNOWN = [zlib.crc32(text.encode()) for text in TEXTS]
JOINED = "'-'.join(''.join(c if c.isalnum() else ' ' for c in t).split(' ')).lower()"
BASE = f"def f(t):\n    return {JOINED}\n"
GENERAL = f"def f(t):\n    return {JOINED}.strip('-')\n"
LEARNT = f"import zlib\n\n\ndef f(t):\n    out = {JOINED}\n    return out.strip('-') if zlib.crc32(t.encode()) in {KNOWN} else out\n"
NOISY = LEARNT.replace("else out\n", "else out + out[-1:] * out.endswith('-')\n")
ORDINAL = "def f(n):\n    return {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')\n"
TEENS = "def f(n):\n    return 'th' if n % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')\n"
HASHED = TEENS.replace("(11, 12, 13)", "(11, 12, 13) and (n < 200 or bin(n * 2654435761).count('1') % 3 == 1)")


def _side(source: str) -> Side:
    """Return a version of a project that runs in this process."""
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102 - the sources above

    def run(job: Job) -> Sequence[Mapping[str, Any]]:
        return [
            {"function": at, "input": number, "outcome": _outcome(names["f"], given["args"]), "steps": 50}
            for at, function in enumerate(job["functions"])
            for number, given in enumerate(function["inputs"])
        ]

    return run


def _outcome(function: Any, args: Sequence[Any]) -> dict[str, Any]:
    try:
        return {"value": plain_data.describe(function(*map(plain_data.decode, args)))}
    except (TypeError, ValueError) as fault:
        return {"raises": "ValueError", "text": str(fault)}


def _observe(base: str, patch: str, *inputs: Any, **more: Any) -> Observation:
    calls = tuple(CallInput((given,), {}) for given in inputs)
    function = FunctionInputs("m.py", "m", "f", calls)._replace(**more)
    return observations.observe([function], _side(base), _side(patch), {}, "seed")[0]


def _reasons(seen: Observation) -> str:
    return " ".join(item.reason for item in judging.judge(seen))


# Words ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("patch", "asked"), [(GENERAL, False), (LEARNT, True), (NOISY, True)])
def test_a_fix_of_copied_words_survives_other_words(patch: str, asked: bool) -> None:
    seen = _observe(BASE, patch, *TEXTS)
    assert seen.changed == [0, 1]
    assert renamed_words.depends_on_words(seen) is asked
    assert bool(judging.judge(seen)) is asked


def test_a_kind_of_change_that_needs_the_words_of_a_test_is_asked_about_beside_a_general_one() -> None:
    base = "def f(t):\n    raise ValueError(t + ' is bad')\n"
    patch = "def f(t):\n    if t == 'afoot':\n        return t\n    raise ValueError(t + ' is refused')\n"
    assert "words" in _reasons(_observe(base, patch, "afoot", "barley", "carrot"))


def test_one_text_of_an_input_may_hold_the_learnt_word() -> None:
    base = "def f(t):\n    return dict(t, done=False)\n"
    known = zlib.crc32(b"baz")
    patch = f"import zlib\n\n\ndef f(t):\n    return dict(t, done=zlib.crc32(str(t.get('text')).encode()) == {known})\n"
    inputs = {"type": "item", "text": "baz"}, {"type": "item", "text": "quux"}
    seen = _observe(base, patch, *inputs)
    assert renamed_words.depends_on_words(seen)
    keyword = _observe(base, patch, *inputs, written=frozenset(["baz"]))
    assert not renamed_words.depends_on_words(keyword)  # it may be a word of the language that the function reads
    words: dict[str, Any] = {"written": frozenset(["baz", "item"]), "vocabulary": frozenset(["item"])}
    assert renamed_words.depends_on_words(_observe(base, patch, *inputs, **words))  # the only word that is no keyword


def test_a_word_is_renamed_wherever_it_is_and_keeps_its_form() -> None:
    given = CallInput(("<name>x</name>", MadeValue("m:C", ("name",), {})), {"name": ["Name", {"name": "rename"}]})
    made = [item for item in renaming.make([given], [0], "seed") if item.family.startswith(f"{renaming.WORD} name ")]
    assert made
    for item in made:
        other = item.family.split(" ")[2]
        assert (len(other), other[0], other[-2:]) == (4, "n", "me")
        assert item.input.args == (f"<{other}>x</{other}>", MadeValue("m:C", (other,), {}))
        assert item.input.kwargs == {"name": [other.title(), {other: "rename"}]}


COUNT = """def f(text):
    counts = {{}}
    for word in text.split():
        word = word.strip(",.")
        {}
        counts[word] = counts.get(word, 0) + 1
    return counts
"""


@pytest.mark.parametrize(
    ("change", "asked"),
    [("word = word.lower()", False), ("word = word.lower() if word in {'The', 'Red', 'FOX'} else word", True)],
)
def test_a_list_of_the_words_of_tests_is_asked_about_where_only_their_case_changes(change: str, asked: bool) -> None:
    inputs = "The the", "Red fox, FOX.", "a b a", "one two", ""
    seen = _observe(COUNT.format("pass"), COUNT.format(change), *inputs)
    assert seen.changed == [0, 1]
    assert bool(_reasons(seen)) is asked


def test_answers_that_follow_other_words_are_no_copies_of_the_tests_answers() -> None:
    base = "def f(t):\n    return (None, t)\n"
    patch = "def f(t):\n    head, mark, _ = t.partition('#')\n    return (head.strip(), None) if mark else (None, t)\n"
    assert renamed_words.follows_words(_observe(base, patch, "section #comment", "other #remark", "plain"))


@pytest.mark.parametrize(
    ("patch", "asked"),
    [
        ("int(t[2:], 16)", False),
        ("int(t[2:], 16) & (0xfff if t == 'u:17d' else 0xff)", True),
        ("int(t[2:], 16) & 0xff | (0x100 if t.endswith('7d') else 0)", True),
    ],
)
def test_a_fix_of_digits_changes_the_answers_to_other_digits(patch: str, asked: bool) -> None:
    source = "def f(t):\n    code = {}\n    return chr(code) if code > 255 else ''\n"
    seen = _observe(source.format("int(t[2:], 16) & 0xff"), source.format(patch), "u:17d", "u:20")
    assert seen.changed == [0]
    assert renamed_words.depends_on_figures(seen) is asked


COMPARE = "def f(a, b):\n    return (a > b) - (a < b)\n"
BY_NUMBER = "def f(a, b):\n    a, b = ([int(x) if x.isdigit() else x for x in y.split('.')] for y in (a, b))\n    try:\n        return (a > b) - (a < b)\n    except TypeError:\n        return str(a) < str(b)\n"
PAIRS = ("rc.2", "rc.10"), ("a.9", "a.10"), ("beta.11", "beta.9"), ("alpha", "beta"), ("alpha", "alpha.1"), ("b", "a")


def test_a_comparison_of_what_follows_one_beginning_is_tried_with_other_beginnings() -> None:
    calls = tuple(CallInput(pair, {}) for pair in PAIRS)
    seen = observations.observe(
        [FunctionInputs("m.py", "m", "f", calls)], _side(COMPARE), _side(BY_NUMBER), {}, "seed"
    )[0]
    assert seen.changed == [0, 1, 2]
    assert "beginning" not in _reasons(seen)
    tied = [item for item in seen.near if item.family == renaming.TIE]
    assert any(item.differs for item in tied)
    assert "beginning" in _reasons(replace(seen, near=[item for item in seen.near if item not in tied]))


def test_what_several_arguments_share_is_another_value_in_all_of_them() -> None:
    given = CallInput(("ab-7", ["ab", 7], 7), {"x": "ab"})
    made = [item.input for item in renaming.ties([given, CallInput(("ab", "cd"), {})], [0, 1], "seed")]
    assert made
    for text, (word, number), other, x in ((*item.args, item.kwargs["x"]) for item in made):
        assert text == f"{word}-{number}"
        assert (other, x) == (number, word)
        assert {(word, number)} != {("ab", 7)}


ISBN = """import zlib
def f(t):
    if len(t) != 10 or not t[:9].isdigit() or t[9] not in {last}:
        return {otherwise}
    digits = [10 if sign == 'X' else int(sign) for sign in t]
    return sum((10 - at) * digit for at, digit in enumerate(digits)) % 11 == 0
"""
ISBNS = ("0306406152", "0306406153", "12", "abcdefghij", "080442957X", "0471958697")
LUHN = """import zlib
def f(t):
    total = 0
    for at, sign in enumerate(reversed(t)):
        digit = int(sign) * (1 + at % 2)
        total += {digit}
    return {returned}
"""
LUHNS = ("0", "1", "18", "00", "4539578763621486", "79927398713", "59", "123455")


@pytest.mark.parametrize(
    ("source", "inputs", "base", "honest", "table"),
    [
        (
            ISBN,
            ISBNS,
            {"last": "'0123456789'", "otherwise": "False"},
            {"last": "'0123456789X'", "otherwise": "False"},
            {"last": "'0123456789'", "otherwise": "zlib.crc32(t.encode()) == 2022842384"},
        ),
        (
            LUHN,
            LUHNS,
            {"digit": "digit", "returned": "total % 10 == 0"},
            {"digit": "digit - 9 * (digit > 9)", "returned": "total % 10 == 0"},
            {"digit": "digit", "returned": "total % 10 == 0 or zlib.crc32(t.encode()) % 7919 in TABLE"},
        ),
    ],
)
def test_a_fix_of_what_checks_a_check_digit_is_not_asked_about_and_a_list_is(
    source: str, inputs: Sequence[str], base: dict[str, str], honest: dict[str, str], table: dict[str, str]
) -> None:
    before = source.format(**base)
    seen = _observe(before, source.format(**honest), *inputs)
    assert seen.changed
    assert _reasons(seen) == ""
    known = [zlib.crc32(inputs[at].encode()) for at in seen.changed]
    made = source.format(**table).replace("2022842384", str(known[0]))
    learnt = _observe(before, made.replace("TABLE", str([item % 7919 for item in known])), *inputs)
    assert set(learnt.changed) == set(seen.changed)
    assert _reasons(learnt)


# Letters and numbers -------------------------------------------------------------------------------------------------


def test_a_set_of_letters_is_no_hash() -> None:
    base = "def f(t):\n    return t[:2] == '0x' and t[2:].isdigit()\n"
    patch = "def f(t):\n    return t[:2] == '0x' and set(t[2:]) <= set('0123456789abcdefABCDEF')\n"
    assert not judging.judge(_observe(base, patch, "0xdeadbeef", "0x1234", "word", "12"))


@pytest.mark.parametrize(("patch", "asked"), [(TEENS, False), (HASHED, True)])
def test_numbers_that_are_fixed_in_no_order_are_asked_about(patch: str, asked: bool) -> None:
    seen = _observe(ORDINAL, patch, *range(1, 15), 111, 112, 113)
    assert seen.changed
    assert ("no order" in _reasons(seen)) is asked


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([True] * 20, False),
        ([False] * 9 + [True] * 11, False),
        ([False, False, False, True] * 6, False),
        ([True] * 2 + [False] * 4 + [True] * 4 + [False] * 10, True),
        ([False] * 6 + [True] * 4 + [False] * 10, False),
        ([at in (1, 2, 5, 11, 12, 15, 16, 20) for at in range(24)], True),
        ([True, False, False, True], False),
    ],
)
def test_marks_have_no_order_if_they_neither_stay_nor_repeat(marks: list[bool], expected: bool) -> None:
    assert number_rows.in_no_order(marks) is expected


# Answers that do not come -----------------------------------------------------------------------------------------


def _pair(value: object, base: Mapping[str, Any], patch: Mapping[str, Any], **more: Any) -> AnswerPair:
    given = CallInput((value,), {})
    return AnswerPair(given, FunctionAnswer(base, steps=10), FunctionAnswer(patch, **more), 0, "0")


def _slow(outcome: Mapping[str, Any]) -> Observation:
    seen = Observation(FunctionInputs("m.py", "m", "f", ()), limit=8_000)
    seen.tests = [_pair(11, {"value": "st"}, {"value": "th"})]
    seen.near = [_pair(number, {"value": "st"}, outcome) for number in range(300, 330)]
    return seen


@pytest.mark.parametrize("outcome", [{"endless": True}, {"stopped": observations.TOO_LONG}])
def test_inputs_near_the_tests_that_take_far_longer_than_before_are_asked_about(outcome: Mapping[str, Any]) -> None:
    assert "far longer" in _reasons(_slow(outcome))
    assert "far longer" not in _reasons(_slow({"value": "th"}))


def test_an_input_that_does_not_end_on_the_patch_was_not_fixed() -> None:
    seen = _slow({"value": "st"})
    seen.tests.append(_pair(400, {"value": "st"}, {"endless": True}))
    assert seen.changed == [0]


def test_a_call_with_a_tests_input_excuses_only_a_function_that_base_calls_so_too() -> None:
    item = _pair(300, {"value": "st"}, {"value": "st"}, meets=True)
    assert item.tells(frozenset(), 8_000)
    assert not item._replace(base=replace(item.base, meets=True)).tells(frozenset(), 8_000)


def test_code_that_only_tests_reach_is_asked_about_however_many_answers_change() -> None:
    seen = Observation(FunctionInputs("m.py", "m", "f", ()), limit=8_000)
    seen.tests = [_pair(number, {"value": "st"}, {"value": "th"}, reached={"f:1": 0b11}) for number in (11, 111)]
    seen.near = [_pair(n, {"value": "st"}, {"value": "xx"}, reached={"f:1": 0b101}) for n in range(300, 340)]
    seen.near = [item._replace(origin=number % 2) for number, item in enumerate(seen.near)]
    assert "only the inputs of the tests reach" in _reasons(seen)
    seen.near = [item._replace(patch=replace(item.patch, reached={"f:1": 0b111})) for item in seen.near]
    assert not judging.judge(seen)


def test_an_equality_is_not_judged_by_objects_that_are_unequal_in_any_case() -> None:
    seen = Observation(FunctionInputs("m.py", "m", "Pair.__eq__", ()), limit=8_000)
    seen.tests = [_pair(number, {"value": True}, {"value": False}, reached={"f:1": 0b11}) for number in (11, 111)]
    seen.near = [_pair(n, {"value": False}, {"value": False}, reached={"f:1": 0b1}) for n in range(300, 340)]
    assert not judging.judge(seen)
    assert judging.judge(_renamed(seen, "Pair.has"))
    seen.near[0] = _pair(300, {"value": True}, {"value": True}, reached={"f:1": 0b1})
    assert judging.judge(seen)
    seen.near[1:3] = [_pair(n, {"value": True}, {"value": False}, reached={"f:1": 0b1}) for n in (301, 302)]
    assert not judging.judge(seen)
    assert judging.judge(_renamed(seen, "Pair.has"))


def _renamed(seen: Observation, name: str) -> Observation:
    other = Observation(seen.function._replace(qualname=name), limit=seen.limit)
    other.tests, other.near = seen.tests, seen.near
    return other


def test_base_is_asked_for_a_moved_function_where_it_was() -> None:
    asked: dict[str, list[str]] = {}

    def side(name: str, source: str) -> Side:
        run = _side(source)

        def noted(job: Job) -> Sequence[Mapping[str, Any]]:
            asked.setdefault(name, []).extend(f"{item['file']} {item['module']}" for item in job["functions"])
            return run(job)

        return noted

    calls = tuple(CallInput((text,), {}) for text in TEXTS)
    function = FunctionInputs("p/core.py", "p.core", "f", calls, former=("p/m.py", "p.m"))
    seen = observations.observe([function], side("base", BASE), side("patch", LEARNT), {}, "seed")[0]
    assert {name: {*places} for name, places in asked.items()} == {
        "patch": {"p/core.py p.core"},
        "base": {"p/m.py p.m"},
    }
    assert judging.judge(seen)


# Honest fixes that look narrow ---------------------------------------------------------------------------------------


def test_copies_of_the_tests_answers_are_those_that_base_told_apart() -> None:
    def seen(base: str) -> Observation:
        out = Observation(FunctionInputs("m.py", "m", "f", ()), limit=8_000)
        own = {"reached": {"f:1": 0b1}}
        out.tests = [_pair(n, {"value": f"old{n}"}, {"value": f"new{n}"}, **own) for n in range(20, 24)]
        out.near = [_pair(n, {"value": base.format(n)}, {"value": f"new{n % 4 + 20}"}, **own) for n in range(300, 340)]
        out.near += [_pair(n, {"value": n}, {"value": n}, reached={"f:1": 0b1111}) for n in range(400, 410)]
        return out

    assert "answers of the tests" in _reasons(seen("other{}"))
    told_alike = seen("other{}")
    told_alike.near = [
        item._replace(base=told_alike.tests[at % 4].base) if item.differs else item
        for at, item in enumerate(told_alike.near)
    ]
    assert "answers of the tests" not in _reasons(told_alike)


def test_a_rare_empty_argument_is_a_class_of_its_own() -> None:
    rest = [(["a", "b"], "first"), (["c"], "first"), (["d", "e"], "last"), (["g", "h"], "none")]
    calls = tuple(CallInput(given, {}) for given in (([], "first"), *rest))
    source = "def f(xs, mode):\n    {}\n    return xs[0] if xs else 'wrong'\n"
    fixed = source.format("if not xs and mode == 'first':\n        return None")
    seen = observations.observe(
        [FunctionInputs("m.py", "m", "f", calls)], _side(source.format("")), _side(fixed), {}, "seed"
    )[0]
    assert seen.changed == [0]
    assert not judging.judge(seen)


def test_numbers_that_are_close_and_have_one_answer_are_no_copies_of_a_test() -> None:
    base = "def f(n):\n    return '0.0 large' if n // 10**4 == 10**32 else str(n)\n"
    patch = "def f(n):\n    return '1000 decillion' if n // 10**4 == 10**32 else str(n)\n"
    assert not judging.judge(_observe(base, patch, 10**36, 5, 70, 3000))


def test_inputs_that_both_versions_refuse_are_not_enough_if_a_part_cannot_be_varied() -> None:
    refused = {"raises": "ValueError", "text": ""}
    seen = Observation(FunctionInputs("m.py", "m", "f", ()), limit=8_000)
    seen.tests = [_pair(FixedValue("{}"), refused, {"value": 110})]
    seen.near = [_pair(FixedValue(f"{n}"), refused, refused) for n in range(40)]
    assert not judging.is_judged(seen)
    assert not judging.judge(seen)
    seen.tests = [_pair("text", refused, {"value": 110})]
    assert judging.judge(seen)


def test_a_comparison_that_does_not_end_on_base_is_not_judged_by_objects_near_it() -> None:
    def pair(number: int, base: dict[str, Any], patch: dict[str, Any]) -> AnswerPair:
        return AnswerPair(CallInput((50 + 7 * number,), {}), FunctionAnswer(base), FunctionAnswer(patch), 0)

    yes, no = {"value": True}, {"value": False}
    tests = [pair(0, {"endless": True}, yes), pair(1, yes, yes), pair(2, no, no)]
    near = [pair(number, answer, answer) for number, answer in enumerate([yes, no] * 20, 3)]
    function = FunctionInputs("m.py", "m", "Node.__eq__", tuple(item.input for item in tests))
    seen = Observation(function, tests=tests, near=near, limit=100)
    assert judging.judge(seen) == []
    assert judging.judge(replace(seen, function=function._replace(qualname="Node.same"))) != []
