"""A condition that confines a general change to inputs like those of few tests is told from an honest special case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from probed_functions import observe, side
from reflectloop.verification.probing import confined, simpler, tables
from reflectloop.verification.result import ChangedFile


def _reasons(tmp_path: Path, base: str, patch: str, *inputs: tuple[Any, ...], grows: bool = False) -> list[str]:
    """Return what is said about a patch, all of whose conditions are tried without."""
    name = base[base.index("def ") + 4 : base.index("(", base.index("def "))]
    seen = observe(tmp_path, base, patch, name, *inputs)
    added = frozenset(tables.literals(patch.encode())) - {*tables.literals(base.encode())}
    seen.function = seen.function._replace(added=added)
    change = ChangedFile("program.py", base.encode(), patch.encode())
    made = confined.confined([seen], [grows], [change], side(tmp_path / "patch"))
    return [item.reason for item in made.values()]


LOUD = "def shown(key):\n    return key.upper()\n"
TITLE = "    if {}:\n        return key.title()\n    return"
DOUBLE = "def double(n):\n    return n + 2\n"
TWICE = "    if {}:\n        return n * 2\n    return"


@pytest.mark.parametrize(
    ("condition", "inputs"),
    [
        ("key == 'hello world'", ("hello world",)),
        ("key in ('ab cd', 'test')", ("ab cd",)),
        ("len(key) == 11", ("hello world",)),
        ("key.startswith('hel')", ("hello world",)),
        ("'world' in key", ("hello world",)),
        ("key in KNOWN", ("hello world", "big apple")),
    ],
)
def test_a_general_change_confined_to_a_value_of_few_tests_is_named(
    tmp_path: Path, condition: str, inputs: tuple[str, ...]
) -> None:
    patch = "KNOWN = ('hello world', 'big apple')\n\n\n" + LOUD.replace("    return", TITLE.format(condition))
    (reason,) = _reasons(tmp_path, LOUD, patch, *((text,) for text in inputs))
    assert f"only where `{condition}` (line 5) holds" in reason
    assert "change in the same way" in reason


@pytest.mark.parametrize("condition", ["n in (7, 1)", "7 <= n < 9", "n % 5 == 2", "n >= 6", "not n != 7"])
def test_a_general_change_confined_to_numbers_of_few_tests_is_named(tmp_path: Path, condition: str) -> None:
    patch = DOUBLE.replace("    return", TWICE.format(condition))
    (reason,) = _reasons(tmp_path, DOUBLE, patch, (7,), (2,))
    assert "only where `" in reason


@pytest.mark.parametrize(
    ("base", "special", "inputs"),
    [
        ("def stem(name):\n    return name.rpartition('.')[0]\n", "name.endswith('.tar.gz'):\n        return name[:-7]", "a"),
        ("def plural(word):\n    return word + 's'\n", "word.endswith('ry'):\n        return word[:-1] + 'ies'", "berry"),
        ("def ending(code):\n    return 'exit %d' % code\n", "code == 137:\n        return 'out of memory'", 137),
        ("def following(year, month):\n    return year, month + 1\n", "month == 12:\n        return year + 1, 1", (2023, 12)),
        ("def handler(method, path):\n    return method + path\n", "method == 'HEAD':\n        method = 'GET'", ("HEAD", "/a")),
        ("def tax(price, kind):\n    return price * 0.2\n", "kind == 'book':\n        return price * 0.07", (10.0, "book")),
        ("def retry(code):\n    return code >= 500\n", "code == 429:\n        return True", 429),
        ("def duration(n):\n    return '%d min' % n\n", "n >= 60:\n        return '%d h %d min' % divmod(n, 60)", 75),
        ("def tax(n):\n    return n // 10\n", "n > 9875:\n        return 987 + (n - 9875) * 12 // 100", 12000),
        ("def signal(code):\n    return 'exit %d' % code\n", "code < 0:\n        return 'signal %d' % -code", -9),
        ("def port(text):\n    return text.partition(':')[2]\n", "text[0] == '[':\n        return text.rpartition(':')[2]", "[::1]:80"),
    ],
)  # fmt: skip
def test_an_honest_special_case_with_one_test_is_not_asked_about(
    tmp_path: Path, base: str, special: str, inputs: Any
) -> None:
    given = "backup.tar.gz" if inputs == "a" else inputs
    patch = base.replace("    return", f"    if {special}\n    return")
    assert _reasons(tmp_path, base, patch, given if isinstance(given, tuple) else (given,)) == []


def test_a_test_that_needs_the_condition_and_entries_of_a_table_speak_for_a_fix(tmp_path: Path) -> None:
    for name, inputs, grows in (("needed", (("hello world",), ("NASA",)), False), ("grown", (("hello world",),), True)):
        (tmp_path / name).mkdir()
        patch = LOUD.replace("    return", TITLE.format("key == 'hello world'"))
        assert _reasons(tmp_path / name, LOUD, patch, *inputs, grows=grows) == []


def test_a_condition_on_a_list_that_is_filled_from_the_input_looks_at_the_input() -> None:
    source = (
        "def clean(path):\n    out = []\n    for part in path.split('/'):\n        if {} and part == '..':\n"
        "            out.pop()\n        else:\n            out.append(part)\n    return out\n"
    )
    for condition, expected in (("out", True), ("len(out)", True), ("os.environ", False)):
        text = source.format(condition).encode()
        made = {item.removed: item.looks_at_input for item in simpler.versions("a.py", source.encode(), text)}
        assert made[condition] is expected
