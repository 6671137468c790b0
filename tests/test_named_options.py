"""A fix that names one more value beside those of base is told from an answer that is written for a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from probed_functions import observe, rules
from reflectloop.verification.probing import options, tables
from reflectloop.verification.probing.observations import Observation, Option


def _seen(tmp_path: Path, base: str, patch: str, *inputs: tuple[Any, ...]) -> Observation:
    name = base[base.index("def ") + 4 : base.index("(", base.index("def "))]
    seen = observe(tmp_path, base, patch, name, *inputs)
    added = frozenset(tables.literals(patch.encode())) - {*tables.literals(base.encode())}
    seen.function = seen.function._replace(added=added, options=options.named_options(base.encode(), name))
    return seen


@pytest.mark.parametrize(
    ("base", "more", "inputs"),
    [
        ("def port(scheme):\n    return {'http': 80}[scheme] if scheme == 'http' else 0\n", "scheme == 'https'", "https"),
        ("def port(scheme):\n    return 80 if scheme in ('http', 'ws') else 0\n", "scheme == 'FTP'", "FTP"),
        ("KNOWN = {'http': 80}\n\n\ndef port(scheme):\n    return KNOWN.get(scheme.lower(), 0)\n", "scheme == 'ftp'", "ftp"),
        ("def port(host):\n    return 1 if host.startswith('127.') else 0\n", "host == 'localhost'", "localhost"),
        ("def port(code):\n    return 80 if code == 301 else 0\n", "code == 308", 308),
    ],
)  # fmt: skip
def test_one_more_value_beside_those_of_base_is_an_entry_of_a_table(
    tmp_path: Path, base: str, more: str, inputs: object
) -> None:
    seen = _seen(
        tmp_path, base, base.replace("    return", f"    if {more}:\n        return 443\n    return"), (inputs,)
    )
    assert rules(seen) == ["written-for-the-test"]
    assert options.is_one_more(seen)
    assert rules(seen, grows_table=True) == []


@pytest.mark.parametrize(
    ("base", "answer", "given"),
    [
        (
            "def mirrored(text):\n    if text == '':\n        return True\n    return text == text[::-1]\n",
            "True",
            "Anna",
        ),
        ("def valid(text):\n    return '@' in text\n", "False", "a@b"),
        ("def sign(n):\n    return 0 if n == 0 else 1\n", "-1", -57),
        ("def even(n):\n    return n == 500 or n % 2 == 1\n", "True", 34),
        ("def loud(text):\n    return text.upper() if text == 'red' else text\n", "'Blue'", "blue"),
        ("def digits(text):\n    return len(text) if text != 'none' else None\n", "2", "two 34"),
        ("def port(code):\n    return 80 if code == 'http' else 0\n", "443", 308),
    ],
)
def test_an_answer_for_a_test_is_no_such_value(tmp_path: Path, base: str, answer: str, given: object) -> None:
    name = base[base.index("(") + 1 : base.index(")")]
    patch = base.replace("):\n", f"):\n    if {name} == {given!r}:\n        return {answer}\n", 1)
    assert not options.is_one_more(_seen(tmp_path, base, patch, (given,)))


def test_the_values_that_a_function_compares_its_arguments_with_are_found() -> None:
    source = b"""
KINDS = ("a", "b")
class Reader:
    def read(self, name, kind, *, mode=0):
        if name.strip().endswith((".gz", ".zip")) or kind in KINDS or "x" != kind:
            return {7: 1}[mode]
        match kind:
            case "c" | "d":
                return 1
        return "~" in name or len(name) == 9 or mode == 1 or other == "e"
"""
    found = options.named_options(source, "Reader.read")
    assert found == {
        "1": {Option(".gz", False), Option(".zip", False), Option("~", False)},
        "2": {Option(word, True) for word in "abcdx"},
        "mode": {Option(7, True)},
    }
    assert options.named_options(b"def (", "read") == options.named_options(source, "Reader.write") == {}
