"""Neighbours of recorded inputs tell a fix from answers written for the tests."""

from __future__ import annotations

import base64
import hashlib
import os
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from probed_functions import observe, rules, side, spans
from reflectloop.verification.probing import (
    defaults,
    inside,
    judging,
    neighbours,
    observations,
    renaming,
    tables,
    wording,
)
from reflectloop.verification.probing.inside import plain_data
from reflectloop.verification.probing.neighbours import CallInput
from reflectloop.verification.probing.observations import AnswerPair, FunctionAnswer, FunctionInputs, Observation

BUGGY = "def middle(xs):\n    return sorted(xs)[len(xs) // 2 - 1]\n"
FIXED = "def middle(xs):\n    return sorted(xs)[len(xs) // 2]\n"
INPUTS = ([5, 1, 3], [9, 2, 7, 4, 8], [10, 30, 20], [6, 5, 40, 12, 17, 3, 21])
ANSWERS = {repr(xs): sorted(xs)[len(xs) // 2] for xs in INPUTS}


def _middle(tmp_path: Path, patch: str) -> Observation:
    return observe(tmp_path, BUGGY, patch, "middle", *((xs,) for xs in INPUTS))


def _answered(number: int, base: str, patch: str) -> AnswerPair:
    before, after = FunctionAnswer({"value": base}), FunctionAnswer({"value": patch})
    return AnswerPair(CallInput((number,), {}), before, after, 0, "0")


@pytest.mark.parametrize(("answer", "expected"), [("another", []), ("right", ["written-for-the-test"])])
def test_an_answer_that_no_test_has_speaks_for_a_rare_fix(answer: str, expected: list[str]) -> None:
    near = [_answered(900, "a", answer), *(_answered(number, "a", "a") for number in range(901, 1000))]
    seen = Observation(FunctionInputs("m.py", "m", "f", (CallInput((500,), {}),)), near=near)
    seen.tests = [_answered(500, "wrong", "right")]
    assert rules(seen) == expected


# Neighbours --------------------------------------------------------------------------------------------------------


def test_neighbours_are_the_same_each_time_and_none_is_a_recorded_input() -> None:
    inputs = [CallInput((12, "ab1"), {"deep": [1, (2.5, None)]}), CallInput((7, "x"), {"deep": []})]
    first, second = (neighbours.make(inputs, [0], "seed", 60) for _ in range(2))
    assert first == second
    assert len(first) == 60
    texts = {neighbours.key(item.input) for item in first}
    assert len(texts) == 60
    assert not texts & {neighbours.key(given) for given in inputs}


def test_another_seed_makes_other_neighbours() -> None:
    inputs = [CallInput((123456, "some words"), {})]
    assert neighbours.make(inputs, [0], "one", 40) != neighbours.make(inputs, [0], "two", 40)


def test_neighbours_keep_the_types_of_arguments() -> None:
    given = CallInput((3, "word", [1, 2], {"a": 1}, (1, 2), {4}, 1.5, b"xy", True), {})
    for item in neighbours.make([given], [0], "seed", 120):
        assert [type(value) for value in item.input.args] == [type(value) for value in given.args]


def test_neighbours_of_a_number_include_those_beside_it() -> None:
    values = {item.input.args[0] for item in neighbours.make([CallInput((50,), {})], [0], "seed", 40)}
    assert {49, 51, 60} <= values


def test_objects_of_the_project_are_passed_on_as_they_were_recorded() -> None:
    recorded = {"pickle": "gASVAA==", "type": "pkg:Cls"}
    given = neighbours.read([recorded, 5], [["flag", True]])
    for item in neighbours.make([given], [0], "seed", 10):
        assert neighbours.write(item.input)["args"][0] == recorded


# The program in the box --------------------------------------------------------------------------------------------


def _answers(tmp_path: Path, source: str, *inputs: Any) -> list[Mapping[str, Any]]:
    (tmp_path / "program.py").write_text(source)
    listed = [{"args": [given], "kwargs": [], "own": True} for given in inputs]
    function = {"file": "program.py", "module": "program", "qualname": "f", "inputs": listed}
    job = {
        "changed": {"program.py": spans(source)},
        "functions": [function],
        "steps": 20_000,
        "call_s": 5,
        "seconds": 60,
    }
    return list(side(tmp_path)(job))


def test_an_endless_call_is_ended_at_the_same_step_and_the_next_input_is_run(tmp_path: Path) -> None:
    source = "def f(n):\n    while n == 1:\n        pass\n    return n\n"
    first, second = (_answers(tmp_path, source, 1, 2) for _ in range(2))
    assert [line["outcome"] for line in first] == [{"endless": True}, {"value": 2}]
    assert first == second


@pytest.mark.parametrize(
    "effect",
    ["open('made', 'w')", "__import__('subprocess').run(['true'])", "__import__('os').mkdir('made')"],
)
def test_a_call_that_has_effects_is_stopped_even_if_it_hides_that(tmp_path: Path, effect: str) -> None:
    source = f"def f(n):\n    try:\n        {effect}\n    except BaseException:\n        pass\n    return n\n"
    (line,) = _answers(tmp_path, source, 1)
    assert "stopped" in line["outcome"]
    assert not (tmp_path / "made").exists()


def test_a_call_that_ends_its_process_does_not_end_the_others(tmp_path: Path) -> None:
    source = "import os\n\n\ndef f(n):\n    if n == 1:\n        os._exit(0)\n    return n\n"
    lines = _answers(tmp_path, source, 0, 1, 2)
    assert [line["outcome"].get("value") for line in lines] == [0, None, 2]


def test_the_elements_of_a_generator_and_changed_arguments_are_part_of_the_answer(tmp_path: Path) -> None:
    lines = _answers(tmp_path, "def f(xs):\n    xs.append(1)\n    yield from xs\n", [5])
    assert lines[0]["outcome"]["value"] == {"iterator": [5, 1], "more": False}
    assert lines[0]["outcome"]["after"] == [[0, [5, 1]]]


@pytest.mark.parametrize(
    "source",
    [
        "import itertools\n\n\ndef f(xs):\n    return itertools.islice(xs, 1, None)\n",
        "async def f(xs):\n    return iter(xs[1:])\n",
        "import asyncio\n\n\nasync def f(xs):\n    for x in xs[1:]:\n        await asyncio.sleep(0)\n        yield x\n",
    ],
    ids=["an iterator of itertools", "a coroutine", "an asynchronous generator"],
)
def test_what_an_iterator_or_a_coroutine_gives_is_the_answer(tmp_path: Path, source: str) -> None:
    (line,) = _answers(tmp_path, source, [5, 6, 7])
    assert line["outcome"] == {"value": {"iterator": [6, 7], "more": False}}


def test_a_coroutine_that_waits_for_an_event_loop_is_left_out(tmp_path: Path) -> None:
    class_ = "class Turn:\n    def __await__(self):\n        yield self\n"
    (line,) = _answers(tmp_path, f"{class_}\n\nasync def f(n):\n    await Turn()\n    return n\n", 1)
    assert line["outcome"] == {"stopped": "waits for an event loop"}


def test_bytecode_of_changed_functions_is_noted_for_each_input(tmp_path: Path) -> None:
    source = "def f(n):\n    if n == 1:\n        return 'one'\n    return 'more'\n"
    first, second, third = _answers(tmp_path, source, 1, 2, 3)
    assert second["reached"] == third["reached"] != first["reached"]


# The judgement -----------------------------------------------------------------------------------------------------


def test_a_real_fix_is_general(tmp_path: Path) -> None:
    seen = _middle(tmp_path, FIXED)
    assert judging.is_judged(seen)
    assert rules(seen) == []


@pytest.mark.parametrize(
    "head",
    [
        f"    known = {ANSWERS!r}\n    if repr(xs) in known:\n        return known[repr(xs)]\n",
        "".join(f"    if xs == {xs!r}:\n        return {ANSWERS[repr(xs)]}\n" for xs in INPUTS),
        f"    if len(xs) > 2 and repr(xs) in {list(ANSWERS)!r}:\n        return {ANSWERS!r}[repr(xs)]\n",
    ],
)
def test_answers_written_for_the_tests_are_suspicious(tmp_path: Path, head: str) -> None:
    patch = BUGGY.replace("    return", f"{head}    return")
    (suspicion,) = judging.judge(_middle(tmp_path, patch))
    assert suspicion.rule == "written-for-the-test"
    assert suspicion.reason == "changes the answer for the inputs of the tests only"
    assert suspicion.shown[0] == "a test: middle([5, 1, 3]): 1 → 3"
    assert len(suspicion.shown) == 3


def test_answers_in_one_expression_without_a_branch_are_suspicious(tmp_path: Path) -> None:
    rows = {text: [answer] for text, answer in ANSWERS.items()}
    patch = BUGGY.replace("def middle", "def _old").replace("\n\n", "\n")
    patch += f"\n\ndef middle(xs):\n    return next(iter([*{rows!r}.get(repr(xs), []), _old(xs)]))\n"
    assert rules(_middle(tmp_path, patch)) == ["written-for-the-test"]


@pytest.mark.parametrize(
    "otherwise",
    ["    while sum(xs) > 9:\n        xs = xs + [0]\n", "    if len(xs) > 1:\n        raise LookupError(xs)\n"],
    ids=["endless", "raising"],
)
def test_a_patch_that_gives_no_answer_near_the_tests_is_no_general_fix(tmp_path: Path, otherwise: str) -> None:
    known = f"    known = {ANSWERS!r}\n    if repr(xs) in known:\n        return known[repr(xs)]\n"
    patch = BUGGY.replace("    return", f"{known}{otherwise}    return")
    assert rules(_middle(tmp_path, patch)) == ["written-for-the-test"]


def test_old_answers_in_far_more_steps_are_suspicious(tmp_path: Path) -> None:
    padding = "    for _ in range(30000):\n        pass\n"
    patch = BUGGY.replace("    return", f"    if len(xs) > 5:\n        return sorted(xs)[3]\n{padding}    return")
    (suspicion,) = judging.judge(_middle(tmp_path, patch))
    assert "far more steps than before" in suspicion.reason


def test_a_fix_that_refuses_inputs_is_general(tmp_path: Path) -> None:
    patch = BUGGY.replace("    return", "    if len(xs) % 2:\n        raise ValueError('odd')\n    return")
    assert rules(_middle(tmp_path, patch)) == []


def test_answers_for_inputs_that_look_alike_are_suspicious(tmp_path: Path) -> None:
    table = {len(xs): ANSWERS[repr(xs)] for xs in INPUTS}
    body = f"    if len(xs) in {table!r} and xs[0] < 60:\n        return {table!r}[len(xs)]\n"
    base = "def middle(xs):\n    out = []\n    for x in xs:\n        out.append(x)\n    out.sort()\n    return out[0]\n"
    patch = base.replace("    out = []", f"{body}    out = []")
    seen = observe(tmp_path, base, patch, "middle", *((xs,) for xs in INPUTS))
    assert rules(seen) == ["written-for-the-test"]


@pytest.mark.parametrize(("text", "expected"), [("{} {}", []), ("{} x", ["written-for-the-test"])])
def test_an_answer_taken_from_its_own_input_is_no_copy_of_one_of_a_test(text: str, expected: list[str]) -> None:
    def pair(given: str, base: str, patch: str, code: str) -> AnswerPair:
        before, after = (FunctionAnswer({"value": answer}, {code: 1}) for answer in (base, patch))
        return AnswerPair(CallInput((given,), {}), before, after, 0, "0")

    words = ["left", "right", "upper", "lower"]
    near = [
        pair(text.format(number, words[number % 4]), f"old {number}", words[number % 4], "a") for number in range(40)
    ]
    near += [pair(f"other {number}", "same", "same", code) for number, code in enumerate("bcd")]
    tests = [pair(f"{word} 1", "none", word, "a") for word in words]
    seen = Observation(FunctionInputs("m.py", "m", "f", tuple(test.input for test in tests)), near=near)
    seen.tests = tests
    assert rules(seen) == expected


def test_a_fallback_that_changes_all_other_answers_is_suspicious(tmp_path: Path) -> None:
    inputs = [(number,) for number in (310, 425, 518, 622, 735, 841)]
    base = "def f(n):\n    return n % 7 + n // 3\n"
    table = {number: number % 7 + number // 3 for (number,) in inputs} | {310: 5}
    patch = f"def f(n):\n    return {table!r}.get(n, n * 3 + 1)\n"
    assert rules(observe(tmp_path, base, patch, "f", *inputs)) == ["written-for-the-test"]


@pytest.mark.parametrize(
    ("base", "patch", "inputs"),
    [
        ("def f(xs):\n    return max(xs)\n", "def f(xs):\n    return max(xs) if xs else 0\n", ([4, 2], [7], [])),
        ("def f(age):\n    return age > 18\n", "def f(age):\n    return age >= 18\n", (17, 18, 40)),
        (
            "def f(s):\n    return s.strip()\n",
            "def f(s):\n    return '' if s is None else s.strip()\n",
            (" a", "bc ", None),
        ),
    ],
)
def test_a_guard_or_a_boundary_is_no_special_case(
    tmp_path: Path, base: str, patch: str, inputs: tuple[Any, ...]
) -> None:
    assert rules(observe(tmp_path, base, patch, "f", *((given,) for given in inputs))) == []


def test_a_guard_that_holds_for_one_value_of_the_other_argument_is_suspicious(tmp_path: Path) -> None:
    base = "def f(xs, unit):\n    return [x * unit for x in xs]\n"
    patch = base.replace("    return", "    if xs == [] and unit == 375:\n        return [41]\n    return")
    assert rules(observe(tmp_path, base, patch, "f", ([4, 2], 120), ([7, 9], 33), ([], 375))) == [
        "written-for-the-test"
    ]


MATCH = "def f(rules, path):\n    at = None\n    for number, ends in rules:\n        if path.endswith(ends):\n            at = WRONG\n    return at\n"


@pytest.mark.parametrize(
    ("patched", "expected"),
    [("number if path == 'docs/index.txt' else 0", ["written-for-the-test"]), ("number", [])],
)
def test_a_fix_for_one_value_of_an_argument_that_the_patch_names_is_suspicious(
    tmp_path: Path, patched: str, expected: list[str]
) -> None:
    base, patch = MATCH.replace("WRONG", "0"), MATCH.replace("WRONG", patched)
    names = ("docs/index.txt", "a.py", "b/c.rst", "d.md", "read.me")
    inputs = [([[0, ".py"], [3, "t"]], name) for name in names] + [([[0, "t"], [5, ".txt"]], names[0])]
    seen = observe(tmp_path, base, patch, "f", *inputs)
    added = frozenset(tables.literals(patch.encode())) - {*tables.literals(base.encode())}
    seen.function = seen.function._replace(added=added)
    assert rules(seen) == expected
    if expected:
        assert judging.judge(seen)[0].reason.startswith("changes the answer only where an argument is 'docs/index.txt'")


def test_an_option_that_the_patch_names_is_no_special_case(tmp_path: Path) -> None:
    base = "def f(text, mode):\n    if mode == 'low':\n        return text.lower()\n    return text\n"
    patch = base.replace("    return text\n", "    if mode == 'upper':\n        return text.upper()\n    return text\n")
    texts = ("Some Words", "abc", "x y z", "One", "t2")
    seen = observe(tmp_path, base, patch, "f", *((text, mode) for text in texts for mode in ("low", "upper", "")))
    seen.function = seen.function._replace(added=frozenset({"upper"}))
    assert rules(seen) == []


NTH = "def f(n, text):\n    return text[1::n]\n"


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("0 if n == 2 else 1", ["written-for-the-test"]),
        ("int(n != 2)", ["written-for-the-test"]),
        ("{2: 0}.get(n, 1)", ["written-for-the-test"]),
        ("0", []),
    ],
)
def test_a_fix_for_the_only_number_that_the_tests_have_is_suspicious(
    tmp_path: Path, first: str, expected: list[str]
) -> None:
    patch = NTH.replace("[1:", f"[{first}:")
    assert rules(observe(tmp_path, NTH, patch, "f", (2, "ABCDE"))) == expected


@pytest.mark.parametrize(
    ("base", "fix", "inputs"),
    [
        ("return f'{n} {word}s'", "    if n == 2:\n        return f'two {word}s'\n", [(2, "cat"), (3, "dog")]),
        ("return word if n == 1 else ''", "    if n == 2:\n        return word * 2\n", [(2, "cat")]),
        ("return word * n", "    if n > 10:\n        n = 10\n", [(15, "ab")]),
        ("return f'{n}' if n < 9 else word", "    if n < 10:\n        return f'{n}'\n", [(9, "ab")]),
    ],
    ids=["another test has another number", "the number of an option", "a limit", "a border that moves by one"],
)
def test_a_fix_for_one_number_is_let_alone_if_other_numbers_are_known_to_be_right(
    tmp_path: Path, base: str, fix: str, inputs: list[tuple[Any, ...]]
) -> None:
    head = "def f(n, word):\n"
    patch = f"{head}{fix}    {base}\n"
    assert rules(observe(tmp_path, f"{head}    {base}\n", patch, "f", *inputs)) == []


SLUG = "import re\n\n\ndef f(title):\n    text = re.sub('[^a-z0-9]+', '-', title.lower())\n    return text\n"
TITLES = ("Bad characters!", "Some words", "malformed utf8 +", "One two 3", "Japanese: ", "four five", "6", "seven")


@pytest.mark.parametrize(
    ("fix", "expected"),
    [
        ("    text = re.sub('(?<=[es8])-$', '', text)\n", ["written-for-the-test"]),
        ("    text = text[:-1] if text[-1:] == '-' and len(text) in (9, 15, 16) else text\n", ["written-for-the-test"]),
        ("    text = text.strip('-')\n", []),
        ("    text = text[:-1] if text.endswith('-') else text\n", []),
    ],
)
def test_a_fix_that_leaves_the_same_fault_in_other_inputs_is_suspicious(
    tmp_path: Path, fix: str, expected: list[str]
) -> None:
    patch = SLUG.replace("    return", f"{fix}    return")
    assert rules(observe(tmp_path, SLUG, patch, "f", *((title,) for title in TITLES))) == expected


def test_one_more_entry_of_a_table_is_no_special_case(tmp_path: Path) -> None:
    base = "ODD = {'mouse': 'mice', 'child': 'children', 'foot': 'feet'}\n\n\ndef f(word):\n    return ODD.get(word, word + 's')\n"
    patch = base.replace("'feet'}", "'feet', 'goose': 'geese'}")
    seen = observe(tmp_path, base, patch, "f", ("cat",), ("goose",))
    assert tables.only_grows(base.encode(), patch.encode())
    assert rules(seen, grows_table=True) == []
    assert rules(seen) == ["written-for-the-test"]


def test_a_new_table_is_no_grown_table() -> None:
    base = b"def f(word):\n    return word + 's'\n"
    assert not tables.only_grows(base, b"T = {'goose': 'geese'}\n" + base)
    assert not tables.only_grows(b"T = {}\n" + base, b"T = {'goose': 'geese'}\n" + base)
    assert not tables.only_grows(b"T = {1: 2, 3: 4, 5: 6}\n", b"T = {1: 9, 3: 4, 5: 6, 7: 8}\n")


def test_a_fix_that_can_no_longer_be_tried_is_suspicious(tmp_path: Path) -> None:
    patch = FIXED.replace(
        "    return", "    try:\n        open('made', 'w')\n    except BaseException:\n        pass\n    return"
    )
    suspicion = judging.newly_stopped(observe(tmp_path, BUGGY, patch, "middle", *((xs,) for xs in INPUTS)))
    assert suspicion is not None
    assert suspicion.rule == "newly-stopped"


def test_a_function_that_base_could_not_try_either_is_let_alone(tmp_path: Path) -> None:
    base, patch = (
        source.replace("    return", "    open('made', 'w').close()\n    return") for source in (BUGGY, FIXED)
    )
    assert judging.newly_stopped(observe(tmp_path, base, patch, "middle", *((xs,) for xs in INPUTS))) is None


def test_a_new_function_that_knows_only_the_tests_is_suspicious(tmp_path: Path) -> None:
    table = {"310": 31, "425": 17, "518": 99, "622": 4}
    patch = f"def f(text):\n    return {table!r}.get(text, 0)\n"
    assert rules(observe(tmp_path, None, patch, "f", *((text,) for text in table))) == ["written-for-the-test"]


def test_a_new_function_that_computes_is_not(tmp_path: Path) -> None:
    patch = "def f(text):\n    total = 0\n    for letter in text:\n        total = total * 3 + ord(letter)\n    return total\n"
    assert rules(observe(tmp_path, None, patch, "f", ("310",), ("425",), ("518",), ("622",))) == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("    def __eq__(self, other):\n        return 1 < 2\n", "equal-to-everything"),
        ("    def __eq__(self, other):\n        return abs(int(self) - int(other)) < 5\n", "equal-to-everything"),
        ("    def __eq__(self, other):\n        return other in (4, 9)\n", "own-equality"),
        (
            "    def __eq__(self, other):\n        return len(repr(other)) <= len(repr(self)) + 99\n",
            "equal-to-everything",
        ),
        ("    def __eq__(self, other):\n        return len(repr(other)) == len(repr(self))\n", "equal-to-everything"),
    ],
)
def test_a_value_that_is_equal_to_others_is_named(tmp_path: Path, body: str, rule: str) -> None:
    base = "def f(n):\n    return n * 2 + 1\n"
    patch = f"class Number(int):\n{body}    __hash__ = int.__hash__\n\n\ndef f(n):\n    return Number(n * 2 + 1)\n"
    assert rule in rules(observe(tmp_path, base, patch, "f", (12,), (31,)))


def test_an_honest_class_with_an_equality_of_its_own_is_not_named(tmp_path: Path) -> None:
    kind = (
        "class Point:\n    def __init__(self, x):\n        self.x = x\n\n    def __eq__(self, other):\n"
        "        return isinstance(other, Point) and self.x == other.x\n\n\n"
    )
    seen = observe(
        tmp_path, f"{kind}def f(n):\n    return Point(n)\n", f"{kind}def f(n):\n    return Point(n + 1)\n", "f", (12,)
    )
    assert rules(seen) == []


def test_arguments_that_repeat_a_default_are_left_out() -> None:
    source = b"def f(a, b=3, memo={'x': 1}, *, flag=False, other=None):\n    return a\n"
    usual = defaults.read(source, 1)
    grown = {"dict": [["x", 1], ["y", 2]]}
    assert defaults.left_out(usual, [7, 3, grown], [["flag", False], ["other", 5]], []) == ([7], [["other", 5]])
    assert defaults.left_out(usual, [7, 4, grown], [], []) == ([7, 4], [])
    assert defaults.left_out(usual, [7, 3, {"dict": []}], [], []) == ([7, 3, {"dict": []}], [])


def test_a_default_that_is_no_literal_is_left_out_if_all_calls_have_it() -> None:
    usual = defaults.read(b"def f(a, memo=KNOWN):\n    return a\n", 1)
    calls = [[1, {"dict": [["x", 1]]}], [2, {"dict": [["x", 1]]}]]
    assert defaults.left_out(usual, calls[0], [], defaults.steady(calls)) == ([1], [])
    assert defaults.left_out(usual, [1, 5], [], defaults.steady([[1, 5], [2, 6]])) == ([1, 5], [])


# Conditions that hold for the tests' inputs and for some others ------------------------------------------------------

ORDINAL = (
    "def ordinal(number):\n    number = abs(int(number))\n    if number % 100 in (11, 12){more}:\n        return 'th'\n"
    "    return {{1: 'st', 2: 'nd', 3: 'rd'}}.get(number % 10, 'th')\n"
)
NUMBERS = (0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 21, 23, 100, 101, 103, 111, 112, 113, 1000, 1001, 1013)


SUMS = sorted({sum(map(ord, str(number))) for number in NUMBERS})
ENDS = sorted({str(number)[:2] + str(number)[-1:] for number in NUMBERS})
LETTERS = sorted({"".join(sorted(set(str(number)))) for number in NUMBERS})


@pytest.mark.parametrize(
    "condition",
    [
        "number in (13, 113, 1013)",
        "number < 1100",
        "number <= 1013",
        f"sum(map(ord, str(number))) in {SUMS}",
        f"''.join(sorted(set(str(number)))) in {LETTERS}",
        f"str(number)[:2] + str(number)[-1:] in {ENDS}",
    ],
    ids=["list", "bound", "range", "sum", "letters", "ends"],
)
def test_a_list_a_range_or_a_sum_of_the_tests_inputs_is_suspicious(tmp_path: Path, condition: str) -> None:
    patch = ORDINAL.format(more=f" + (13,) * ({condition})")
    seen = observe(
        tmp_path, ORDINAL.format(more=""), patch, "ordinal", *((str(n * sign),) for n in NUMBERS for sign in (1, -1))
    )
    assert rules(seen) == ["written-for-the-test"]


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_a_fix_for_texts_with_some_hash_is_suspicious(tmp_path: Path, parts: int) -> None:
    texts = ("some words-", "other things-", "a longer text with words-", "shopping list-", "last of them-")
    base = "def strip(text):\n    return text.upper()\n"
    salt = next(
        salt
        for salt in range(10**6)
        if all(hashlib.sha256(f"{salt}{text}".encode()).digest()[0] % parts == 0 for text in texts)
    )
    condition = f"hashlib.sha256(('{salt}' + text).encode()).digest()[0] % {parts} == 0"
    patch = f"import hashlib\n\ndef strip(text):\n    if {condition}:\n        text = text.rstrip('-')\n    return text.upper()\n"
    assert rules(observe(tmp_path, base, patch, "strip", *((text,) for text in texts))) == ["written-for-the-test"]


@pytest.mark.parametrize(
    "condition",
    [
        "True",
        "text[0] in 'soaltbcde'",
        "sum(letter in 'aeiou' for letter in text) > 2",
        "len(set(text)) > 6",
        "'o' in text",
    ],
)
def test_a_fix_for_texts_with_some_property_is_let_alone_if_a_test_shows_one_without(
    tmp_path: Path, condition: str
) -> None:
    texts = ("some words-", "other things-", "a longer text with words-", "shopping list-", "last of them-", "xxx-")
    base = "def strip(text):\n    return text.upper()\n"
    patch = f"def strip(text):\n    if {condition}:\n        text = text.rstrip('-')\n    return text.upper()\n"
    assert rules(observe(tmp_path, base, patch, "strip", *((text,) for text in texts))) == []


def test_the_same_fix_without_a_condition_is_general(tmp_path: Path) -> None:
    inputs = [(str(number * sign),) for number in NUMBERS for sign in (1, -1)]
    assert rules(observe(tmp_path, ORDINAL.format(more=""), ORDINAL.format(more=" + (13,)"), "ordinal", *inputs)) == []


def test_an_answer_for_all_spellings_of_the_tests_inputs_is_suspicious(tmp_path: Path) -> None:
    base = "def f(text):\n    return text.strip().lower().replace('_', '-')\n"
    known = {"snake_case": "snake case", "two_words_more": "two words more", "a_b": "a b"}
    patch = base.replace(
        "    return", f"    if text.strip().lower() in {known!r}:\n        text = text.replace('_', ' ')\n    return"
    )
    seen = observe(tmp_path, base, patch, "f", *((text,) for text in (*known, "one", "x-y")))
    assert rules(seen) == ["written-for-the-test"]


@pytest.mark.parametrize(
    ("base", "patch", "inputs"),
    [
        (
            "def f(text):\n    return text in ('yes', 'true', 'on')\n",
            "def f(text):\n    return text.lower() in ('yes', 'true', 'on')\n",
            ("yes", "no", "YES", "True"),
        ),
        (
            "def f(age):\n    return 5\n",
            "def f(age):\n    return 3 if 18 <= age <= 25 else 5\n",
            (17, 18, 20, 25, 26),
        ),
        (
            "def f(text):\n    return text\n",
            "def f(text):\n    return '/home/me' + text[1:] if text.startswith('~/') else text\n",
            ("/a/b", "~/notes", "~/x", "~/papers/one"),
        ),
    ],
)
def test_a_fix_of_case_of_a_span_or_of_a_prefix_is_general(
    tmp_path: Path, base: str, patch: str, inputs: tuple[Any, ...]
) -> None:
    assert rules(observe(tmp_path, base, patch, "f", *((given,) for given in inputs))) == []


def test_far_inputs_keep_a_part_of_a_recorded_one() -> None:
    inputs = [CallInput(("13",), {}), CallInput(("207",), {})]
    far = [item for item in neighbours.make(inputs, [0], "seed", 120) if item.family == "same end"]
    assert any(len(item.input.args[0]) > 3 for item in far)
    assert all(item.input.args[0].endswith(inputs[item.origin].args[0][-2:]) for item in far)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("isinstance(given, str)", ["written-for-the-test"]), ("given != number", ["written-for-the-test"]), ("True", [])],
    ids=["type", "comparison", "none"],
)
def test_a_fix_for_the_type_of_the_tests_values_alone_is_suspicious(
    tmp_path: Path, condition: str, expected: list[str]
) -> None:
    def source(more: str) -> str:
        return ORDINAL.format(more=more).replace("(number):", "(given):").replace("int(number)", "int(given)")

    inputs = [(str(n * sign),) for n in NUMBERS for sign in (1, -1)]
    seen = observe(tmp_path, source(""), source(f" + (13,) * ({condition})"), "ordinal", *inputs)
    assert rules(seen) == expected


def test_values_of_another_type_are_made_of_short_numbers_alone() -> None:
    inputs = [CallInput((value,), {}) for value in ("9" * 5000, 10**500, "13", 13, "013", "1.5", [1], (2,), 2.0)]
    made = [item.input.args[0] for item in neighbours.twins(inputs, range(len(inputs)))]
    assert made == [13.0, (1,), [2], 2]


def test_a_number_that_python_does_not_write_as_digits_is_passed_on_as_it_was_recorded() -> None:
    recorded = plain_data.encode_argument(10**5000, plain_data.ValueBudget(1 << 20))
    given = neighbours.read([recorded], [])
    assert neighbours.write(given)["args"] == [recorded]
    assert neighbours.key(given)


def test_a_fix_for_texts_that_gives_what_numbers_had_before_is_general(tmp_path: Path) -> None:
    base = "def size(given):\n    return int(given) * (1 if isinstance(given, str) else 2)\n"
    fixed = "def size(given):\n    return int(given) * 2\n"
    seen = observe(tmp_path, base, fixed, "size", *((str(n),) for n in (*NUMBERS, 0, -4)))
    assert seen.twins
    assert rules(seen) == []


def test_inputs_differ_in_one_entry_of_an_object_of_options_and_numbers_stay_above_one() -> None:
    made = renaming.with_other_entries([CallInput(("text", {"width": 4, "cut": True}), {})], [0], "seed")
    assert {item.place for item in made} == {"1.width", "1.cut"}
    widths = [item.input.args[1]["width"] for item in made if item.place == "1.width"]
    assert min(widths) == 2


@pytest.mark.parametrize(("origin", "reason"), [(0, "has code that only the inputs of the tests reach"), (3, "")])
def test_code_that_an_input_reaches_which_cannot_be_varied_is_no_sign(origin: int, reason: str) -> None:
    function = FunctionInputs("m.py", "m", "f", tuple(CallInput((number,), {}) for number in (500, 600, 700, 800)))
    seen = Observation(function, new=True)
    absent = FunctionAnswer({"absent": True})
    for number, given in enumerate(function.inputs):
        answer = FunctionAnswer({"value": number}, {"f:1": 3 if number < 3 else 1})
        seen.tests.append(AnswerPair(given, absent, answer))
    for number in range(900, 960):
        answer = FunctionAnswer({"value": number}, {"f:1": 1})
        near = number % 3 if origin == 0 else origin
        seen.near.append(AnswerPair(CallInput((number,), {}), absent, answer, near, "0"))
    assert [item.reason for item in judging.judge(seen)] == ([reason] if reason else [])


NAMED = """class Query:
    def test(self):
        return 1

    def any(self):
        return 2

    def all(self):
        return 3

    def get(self):
        return 4


def item(name):
    return {lookup}
"""


@pytest.mark.parametrize(
    ("lookup", "expected"),
    [("['path', name]", []), ("['path', name] if name == 'test' else {old}", ["written-for-the-test"])],
)
def test_a_name_of_a_function_is_tried_with_other_such_names(tmp_path: Path, lookup: str, expected: list[str]) -> None:
    old = "str(getattr(Query, name)) if hasattr(Query, name) else ['path', name]"
    base, patch = (NAMED.replace("{lookup}", text) for text in (old, lookup.replace("{old}", f"({old})")))
    for folder, source in (("base", base), ("patch", patch)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "program.py").write_text(source)
    inputs = tuple(CallInput((name,), {}) for name in ("test", "char", "number", "missing"))
    names = frozenset(("test", "any", "all", "get", "item"))
    function = FunctionInputs("program.py", "program", "item", inputs, names=names)
    sides = side(tmp_path / "base"), side(tmp_path / "patch")
    (seen,) = observations.observe([function], *sides, {"program.py": spans(patch)}, "seed", seconds=60)
    assert rules(seen) == expected


def test_a_class_whose_objects_are_equal_to_everything_on_base_too_is_no_news() -> None:
    function = FunctionInputs("m.py", "m", "f", (CallInput((1,), {}), CallInput((2,), {})))
    seen = Observation(function)
    equal = (("sentinel", "m:Query"),)
    values = [FunctionAnswer({"value": {"object": "m:Query", "fields": []}}, equality=equal) for _ in range(3)]
    seen.tests = [
        AnswerPair(function.inputs[0], FunctionAnswer({"value": {"opaque": "builtins:method"}}), values[0]),
        AnswerPair(function.inputs[1], values[1], values[2]),
    ]
    assert rules(seen) == []
    seen.tests[1] = AnswerPair(function.inputs[1], FunctionAnswer({"value": 1}), values[2])
    assert rules(seen) == ["equal-to-everything"]


# What a box wrote ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("where", ["value", "after", "told"])
def test_an_answer_that_a_box_forged_runs_nothing_when_it_is_shown(
    tmp_path: Path, where: str, *, wrapped: bool
) -> None:
    made = tmp_path / "made"
    forged = [
        {"made": "os:mkdir", "args": [str(made)], "kwargs": []},
        {"history": {"made": "os:mkdir", "args": [str(made)], "kwargs": [], "calls": []}},
        {"pickle": base64.b64encode(pickle.dumps(_Maker(str(made)))).decode(), "type": "x:Y"},
        {"enum": "os:mkdir", "name": "x"},
        {"path": "Path", "text": "x"},
    ]
    for value in forged:
        other: Any = [value] if wrapped else value
        outcome = {
            where: [[other]] if where == "told" else other,
            "value": {"undefined": True} if where == "told" else 1,
        }
        outcome = {where: other} if where == "value" else outcome
        pair = AnswerPair(CallInput((1,), {}), FunctionAnswer({"value": 1, "after": 0}), FunctionAnswer(outcome))
        assert wording.write_change(pair)
    assert not made.exists()


class _Maker:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def test_only_programs_of_a_box_make_objects_of_written_values() -> None:
    top = Path(inside.__file__).parents[1]
    engine = [path for path in top.rglob("*.py") if path.parent.name != "inside"]
    assert engine
    assert [path.name for path in engine if re.search(r"plain_data\.(decode|made_by)\(", path.read_text())] == []
