"""A fix that holds only under a condition of the surroundings is asked about; what calls print is part of answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from probed_functions import observe, side
from reflectloop.verification.probing import sabotage, simpler
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.result import ChangedFile

BASE = "import os\n\ndef last(items, size):\n    return items[-size:]\n"
FIXED = "items[len(items) - min(size, len(items)):]"
WORDS = (("abcd", 0), ("xyz", 0), ("pq", 0), ("abc", 1), ("mnop", 2), ("rs", 9))


def _asked(tmp_path: Path, patch: str) -> list[str]:
    seen = observe(tmp_path, BASE, patch, "last", *WORDS)
    assert seen.changed == [0, 1, 2]
    change = ChangedFile("program.py", BASE.encode(), patch.encode())
    return [item.reason for item in simpler.of_surroundings([seen], [change], side(tmp_path / "patch")).values()]


@pytest.mark.parametrize(
    ("helper", "answer"),
    [
        ("", f"{FIXED} if not os.environ.get('NO_SUCH') else items[-size:]"),
        ("def here():\n    return True\n\n", f"{FIXED} if here() else items[-size:]"),
        ("def here():\n    return True\n\n", f"(items[-size:], {FIXED})[bool(here())]"),
    ],
)
def test_a_fix_under_a_condition_that_looks_at_no_argument_is_asked_about(
    tmp_path: Path, helper: str, answer: str
) -> None:
    (reason,) = _asked(tmp_path, BASE.replace("def last", f"{helper}def last").replace("items[-size:]", answer))
    assert "which looks at no argument: without it all" in reason


@pytest.mark.parametrize("answer", [FIXED, "items[-size:] if size else items[:0]"])
def test_a_fix_without_such_a_condition_is_not_asked_about(tmp_path: Path, answer: str) -> None:
    assert _asked(tmp_path, BASE.replace("items[-size:]", answer)) == []


PYTHON = """
def f(given: bool, other=None, *rest, **more):
    derived = given + 1
    plain = os.getcwd()
    count = 0
    for item in rest:
        count += 1
        inner = 3
    with open(plain) as stream:
        pass
    return {}
"""


@pytest.mark.parametrize(
    ("expression", "looks"),
    [
        *((name, True) for name in ("given", "other", "rest", "more", "derived", "item", "inner", "stream", "3")),
        *((name, False) for name in ("plain", "os.name", "here()", "bool(here())")),
    ],
)
def test_what_depends_on_an_argument_is_told_by_its_names(expression: str, looks: bool) -> None:
    source = PYTHON.format(expression).encode()
    at = source.rindex(b"return ") + len(b"return ")
    root = simpler._parser("python").parse(source).root_node
    node = root.descendant_for_byte_range(at, at + len(expression))
    assert node is not None
    assert simpler.looks_at_input(node) is looks


def test_what_a_call_prints_is_part_of_its_answer(tmp_path: Path) -> None:
    base = "def show(text):\n    for word in sorted(text.split()):\n        print(word)\n"
    patch = base.replace("print(word)", "print(word.lower() if word in {'The', 'FOX'} else word)")
    seen = observe(tmp_path, base, patch, "show", ("The end",), ("a FOX",), ("a b",), ("",))
    assert seen.changed == [0, 1]
    assert seen.tests[1].patch.outcome["printed"] == "fox\na\n"


def test_a_source_whose_encoding_writes_line_ends_in_letters_cannot_be_made_to_fail() -> None:
    source = b"# coding: unicode_escape\n# old\\u000adef f(x):\\u000a    return x\\u000a"
    assert sabotage.broken(source, [ChangedFunction("a.py", "f", 3)], "raise") is None
