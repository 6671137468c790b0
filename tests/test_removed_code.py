"""A patch that only removes code writes no answers down."""

from __future__ import annotations

import pytest

from reflectloop.verification.probing import tables


@pytest.mark.parametrize(
    ("after", "removes"),
    [
        ("def f(n):\n    return n\n", True),
        ("def f(n):\n    if n == 13:\n        return 0\n    return n\n", True),
        ("def f(n):\n    if n in (13,):\n        return 0\n    return n\n", False),
        ("def f(n):\n    if n == 13:\n        return 1\n    return n\n", False),
        ("def f(n:\n", False),
    ],
)
def test_a_patch_that_only_removes_code_is_known(after: str, removes: bool) -> None:
    before = "def f(n):\n    # thirteen\n    if n == 13 and n:\n        return 0\n    return n\n"
    assert tables.only_removes(before.encode(), after.encode()) is removes


SPECIAL = "def f(n):\n    if n > 3 and n:\n        return 0\n    else:\n        n += 1\n    log(n)\n    return n\n"


@pytest.mark.parametrize(
    ("after", "removes"),
    [
        ("def f(n):\n    n += 1\n    log(n)\n    return n\n", True),
        ("def f(n):\n    if n > 3:\n        return 0\n    log(n)\n    return n\n", True),
        ("def f(n):\n    if n > 3 and n:\n        return 0\n    n += 1\n    return n\n", True),
        (
            "def f(n):\n    if n > 3 and n:\n        return 0\n    else:\n        n += 1\n        log(n)\n    return n\n",
            False,
        ),
        ("def f(n):\n    if n > 3 and n:\n        n += 1\n    log(n)\n    return n\n", False),
        ("def f(n):\n    if n > 3 and n:\n        return n\n", False),
        ("def f(n):\n    if n > 3 and n:\n        return log(n)\n    return n\n", False),
    ],
)
def test_a_statement_under_another_condition_is_no_removed_code(after: str, removes: bool) -> None:
    assert tables.only_removes(SPECIAL.encode(), after.encode()) is removes


@pytest.mark.parametrize("table", ["{'a', 'b', 'c', 'd'}", "{1: 'a', 2: 'b', 3: 'c', 'd': 4}"])
def test_entries_taken_out_of_a_table_are_no_removed_code(table: str) -> None:
    before = f"WRONG = {table}\n\n\ndef f(word):\n    return word in WRONG\n"
    first = table.index(",") + 1
    after = before.replace(table, table[:first] + table[table.index(",", first) + 1 :])
    assert after != before
    assert not tables.only_removes(before.encode(), after.encode())
