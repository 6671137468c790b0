"""Simpler versions of a fix tell conditions that no test needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probed_functions import observe, side
from reflectloop.verification.probing import judging, simpler
from reflectloop.verification.probing.observations import FunctionAnswer
from reflectloop.verification.result import ChangedFile
from support import Repo

# Conditions that no test needs -------------------------------------------------------------------------------------

WORDS = ("apple", "lemon pie", "kiwi", "fig jam", "plum", "pear tart", "quince", "sloe gin")
SHORT = "def short(text):\n    return ''.join(word[0] for word in text.split()).upper()\n"
LONG = SHORT.replace("word[0]", "word[-1]")


def _condition(tmp_path: Path, patch: str) -> list[str]:
    """Return the reasons of a patch whose every condition was tried without."""
    inputs = [(text,) for text in WORDS]
    seen = observe(tmp_path, LONG, patch, "short", *inputs)
    change = ChangedFile("program.py", LONG.encode(), patch.encode())
    made = simpler.narrowed([seen], [change], side(tmp_path / "patch"))
    return [item.reason for item in made.values()]


@pytest.mark.parametrize(
    "chosen",
    [
        "word[0] if {test} else word[-1]",
        "{{True: word[0]}}.get({test}, word[-1])",
        "next((letter for letter in word if {test}), word[-1])",
        "word[-(sum(map(ord, text)) // 1000)]",
        "word[-min(1, max(0, len(text) - 9))]",
    ],
)
def test_a_condition_that_only_keeps_a_fix_from_other_inputs_is_named(tmp_path: Path, chosen: str) -> None:
    codes = sorted({sum(map(ord, text)) % 13 for text in WORDS})
    patch = SHORT.replace("word[0]", chosen.format(test=f"sum(map(ord, text)) % 13 in {codes}"))
    (reason,) = _condition(tmp_path, patch)
    assert reason.startswith("decides by `")
    assert "(line 2), which no call of the tests needs" in reason


@pytest.mark.parametrize(
    "patch",
    [
        SHORT,
        """def short(text):
    if " " not in text:
        return text[-1].upper()
    return "".join(word[0] for word in text.split()).upper()
""",
        """def short(text):
    words = text.split()
    if not words:
        return ""
    return "".join([word[0] for word in words]).upper() if len(words) > 1 else words[0][0].upper()
""",
    ],
    ids=["no condition", "a condition that tests need", "conditions without effect"],
)
def test_a_fix_whose_conditions_are_needed_or_change_nothing_is_not_asked_about(tmp_path: Path, patch: str) -> None:
    assert _condition(tmp_path, patch) == []


def test_a_condition_on_the_text_of_an_exception_is_named(tmp_path: Path) -> None:
    base = "def need(text):\n    if not text.isdigit():\n        raise ValueError('bad')\n    return int(text)\n"
    given = [("ab",), ("x1",), ("12",), ("c-d",), ("7",), ("two",)]
    total = sorted({sum(map(ord, text)) % 5 for (text,) in given})
    chosen = f"'bad' + (': ' + text if sum(map(ord, text)) % 5 in {total} else '')"
    for folder, test, wanted in (("narrow", chosen, 1), ("right", "'bad: ' + text", 0)):
        (tmp_path / folder).mkdir()
        patch = base.replace("'bad'", test)
        seen = observe(tmp_path / folder, base, patch, "need", *given)
        change = ChangedFile("program.py", base.encode(), patch.encode())
        assert len(simpler.narrowed([seen], [change], side(tmp_path / folder / "patch"))) == wanted


RED = ("papaya pie", "mango fool", "orange cake", "tomato soup", "grape soda", "currant bun")  # longer than the others


@pytest.mark.usefixtures("without_probing")
@pytest.mark.probing("neighbours")
@pytest.mark.parametrize(("test", "outcome"), [("True", "PASS"), ("len(text) < 10", "REVIEW")])
def test_tests_that_stay_red_do_not_need_a_condition(repo: Repo, test: str, outcome: str) -> None:
    expected = {text: "".join(word[0] for word in text.split()).upper() for text in (*WORDS, *RED)}
    wrong = dict.fromkeys(RED, "?") if test == "True" else expected  # these stay red in both cases
    repo.git("rm", "-q", "-r", "src")
    repo.write("program.py", LONG)
    lines = ["import program", "", "", "def test_empty():", "    assert program.short('') == ''"]
    for number, text in enumerate((*WORDS, *RED)):
        value = (wrong if text in RED else expected)[text]
        lines += ["", "", f"def test_{number}():", f"    assert program.short({text!r}) == {value!r}"]
    repo.write("test_program.py", "\n".join([*lines, ""]))
    repo.commit("a program")
    repo.write("program.py", SHORT.replace("word[0]", f"word[0] if {test} else word[-1]"))
    answer = json.loads(repo.run("verify", "--track", "fix", "--json").stdout)["data"]
    assert answer["outcome"] == outcome
    needless = [item["what"] for item in answer["findings"] if "no call of the tests needs" in item["what"]]
    assert bool(needless) == (outcome == "REVIEW"), answer["findings"]


@pytest.mark.parametrize(("limits", "named"), [("", False), (" and most in (2, 3, 4, 5)", True)])
def test_a_fix_at_a_limit_is_tried_at_limits_that_no_test_has(tmp_path: Path, limits: str, named: bool) -> None:
    base = """
def shorten(text, most, joint):
    if len(text) <= most:
        return text
    out = ""
    for word in text.split("-"):
        more = joint + word if out else word
        if len(out) + len(more) < most:
            out += more
    return out
"""
    rule = f"len(out) + len(more) < most or (len(out) + len(more) == most{limits})"
    patch = base.replace("len(out) + len(more) < most", rule)
    short = [
        ("a-b-c", 2, ""),
        ("a-b-c", 3, "-"),
        ("lengthy-a-b", 3, "-"),
        ("lengthy-a-b", 4, "::"),
        ("x-yz-long", 5, ".."),
    ]
    steady = [("a-b", 3, "-"), ("", 5, ""), ("one--two", 8, "-"), ("hello-world", 8, "+"), ("b", 1, "")]
    seen = observe(tmp_path, base, patch, "shorten", *short, *steady)
    assert seen.changed == [0, 1, 2, 3, 4]
    change = ChangedFile("program.py", base.encode(), patch.encode())
    made = simpler.narrowed([seen], [change], side(tmp_path / "patch"))
    assert [item.reason.partition("`")[2].partition("`")[0] for item in made.values()] == [
        "most in (2, 3, 4, 5)"
    ] * named


def test_simpler_versions_leave_the_conditions_of_base_alone() -> None:
    before = b"def f(x):\n    if x > 3:\n        return 1\n    return 2\n"
    after = b"def f(x):\n    if x > 3:\n        return 1\n    return 2 if x % 2 else 3\n"
    texts = [item.source.splitlines()[-1].strip() for item in simpler.versions("a.py", before, after)]
    assert texts[:2] == [b"return 2 if ((x % 2), False)[1] else 3", b"return 2 if ((x % 2), True)[1] else 3"]
    assert texts[2:] == [b"return 2 if (%b) else 3" % value for value in (b"0", b"1", b"2", b"x")]
    script = b"const f = (x) => { if (x > 3) return 1; switch (x) { case 2: return 4; } return 2; };\n"
    made = simpler.versions("a.js", b"const f = (x) => { if (x > 3) return 1; return 2; };\n", script)
    assert [item.source for item in made] == [script.replace(b"switch (x)", b"switch (2)")]


def test_a_default_is_no_condition() -> None:
    base, patch = b"const f = (a) => a;\n", b"const f = (a) => (a.match(/x/) || []).length;\n"
    assert not [item.source for item in simpler.versions("a.js", base, patch) if b"[]), true)" in item.source]


@pytest.mark.parametrize(("given", "counts"), [(7, False), (0, True)])
def test_an_answer_that_a_function_of_few_answers_never_has_does_not_count(
    tmp_path: Path, given: int, counts: bool
) -> None:
    base = "def order(a, b):\n    return (str(a) > str(b)) - (str(a) < str(b))\n"
    patch = "def order(a, b):\n    return (a > b) - (a < b)\n"
    seen = observe(tmp_path, base, patch, "order", (9, 10), (10, 9), (5, 6), (7, 7), (99, 100), (4, 3))
    other = FunctionAnswer({"value": given})
    answers = [item.patch if item.differs else other for item in seen.telling]
    assert bool(simpler._gained(seen, seen.telling, answers)) is counts


# Answers that only look like those of a rare fault ------------------------------------------------------------------

SUCCESSOR = "def after(n):\n    return n + 1\n"


@pytest.mark.parametrize(
    ("given", "patch", "wanted"),
    [
        ((7, 13), "{7: 70, 13: 130}.get(n, n + 1 + (n % 97 == 5))", 1),
        ((7, 13), "{7: 70, 13: 130, 5: 11}.get(n, n + 1)", 1),
        ((7, 13), "n + 1 + (n in (7, 13)) * 99 + (n % 97 == 5)", 1),
        ((104, 205), "n + 1 + (n % 101 == 3)", 0),
        ((104, 205), "n + 1 + (n % 101 in (3,)) * (1 if n > 0 else 3)", 0),
    ],
)
def test_an_answer_of_other_code_than_the_tests_does_not_speak_for_a_fix(
    tmp_path: Path, given: tuple[int, int], patch: str, wanted: int
) -> None:
    source = SUCCESSOR.replace("n + 1", patch)
    seen = observe(tmp_path, SUCCESSOR, source, "after", *((n,) for n in (*given, 12, 40, 99)))
    assert judging.judge(seen) == []
    assert judging.rarely_changed(seen)[1]
    change = ChangedFile("program.py", SUCCESSOR.encode(), source.encode())
    made = simpler.unlinked([seen], [False], [change], side(tmp_path / "patch"))
    assert [item.reason for item in made.values()] == ["changes the answer for the inputs of the tests only"] * wanted
    assert simpler.unlinked([seen], [True], [change], side(tmp_path / "patch")) == {}


def test_versions_without_entries_tell_any_two_entries_of_a_new_collection_apart() -> None:
    made = simpler.without_entries("a.py", b"a = [1, 2]\n", b"a = [1, 2]\nb = (3, 4, 5)\n")
    texts = [item.source.splitlines()[1] for item in made]
    assert texts == [b"b = (3, 5,)", b"b = (4,)", b"b = (3, 4,)", b"b = (5,)"]
