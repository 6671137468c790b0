"""Changed functions are found, and the calls of tests into them are recorded as plain data."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import OrderedDict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import pytest

from reflectloop.verification.probing import changed
from reflectloop.verification.probing.changed import ChangeReport
from reflectloop.verification.probing.inside import copies, plain_data
from reflectloop.verification.result import ChangedFile

INSIDE = Path(plain_data.__file__).parent


def changes_of(old: str | None, new: str, others: dict[str, bytes] | None = None) -> ChangeReport:
    before = None if old is None else old.encode()
    return changed.find([ChangedFile("pkg/mod.py", before, new.encode())], lambda: others or {})


def names(report: ChangeReport, *, direct: bool | None = None) -> list[str]:
    return [item.qualname for item in report.functions if direct is None or item.direct is direct]


TWO = "def f(x):\n    return x\n\n\nclass C:\n    def g(self):\n        return 1\n"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (TWO.replace("return x", "return x + 1") + "X = 3\n", []),
        (TWO + "f = w(f)\n", ["f"]),
        ("@w\n" + TWO, ["f"]),
        (TWO.replace("f(", "_f(") + "f = w(_f)\n", ["f"]),
        (TWO + "f.__code__ = k\n", ["f"]),
        (TWO + "globals().update({n: w(n) for n in T})\n", ["f", "C.g"]),
        (TWO.replace("class C:", "class C(B):"), ["C.g"]),
        (TWO.replace("def g(self):\n        return 1", "g = D()"), ["C.g"]),
        (TWO + "    def __getattribute__(self, name):\n        return T[name]\n", ["C.g"]),
    ],
)
def test_a_function_of_base_whose_name_may_lead_elsewhere_is_named(new: str, expected: list[str]) -> None:
    assert [item.qualname for item in changes_of(TWO, new).rebound] == expected


def test_a_function_with_other_code_is_changed_and_one_with_another_docstring_is_not() -> None:
    old = 'def f(x):\n    "one"\n    return x\n\ndef g(x: int):\n    return x\n'
    new = 'def f(x):\n    "two"\n    return x\n\ndef g(x: str):\n    return x + 1\n'
    assert names(changes_of(old, new)) == ["g"]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ("def _g(n):\n    return _g(n - 1) if n else T\n", []),
        ("def _g(n):\n    return _g(n - 2) if n else T\n", ["_g"]),
        ("def g(n):\n    return g(n - 1) if n else T\n\n\ndef _g(n):\n    return _g(n - 1) if n else T\n", ["_g"]),
        ("class C:\n    def _g(n):\n        return _g(n - 1) if n else T\n", ["C._g"]),
    ],
)
def test_a_function_that_only_got_another_name_is_not_changed(new: str, expected: list[str]) -> None:
    old = "T = 1\n\n\ndef g(n):\n    return g(n - 1) if n else T\n"
    assert names(changes_of(old, f"T = 1\n\n\n{new}")) == expected
    if not expected:
        assert names(changes_of(old, f"T = 2\n\n\n{new}")) == ["_g"]  # it reads what changed


def test_a_function_that_reads_a_changed_table_is_changed_and_others_are_not() -> None:
    old = "T = {1: 2}\n\ndef f(x):\n    return T[x]\n\ndef g(x):\n    return x\n"
    report = changes_of(old, old.replace("2}", "3}"))
    assert names(report, direct=False) == ["f"]
    assert names(report, direct=True) == []


def test_a_function_of_another_file_that_imports_a_changed_table_is_changed() -> None:
    other = b"from .mod import T as U\n\ndef q(x):\n    return U[x]\n\ndef r(x):\n    return x\n"
    report = changes_of("T = 1\n", "T = 2\n", {"pkg/other.py": other, "pkg/far.py": b"def T():\n    return 1\n"})
    assert [(item.path, item.qualname) for item in report.functions] == [("pkg/other.py", "q")]


def test_methods_properties_nested_functions_and_lambdas_have_their_names() -> None:
    new = (
        "class A:\n    @property\n    def p(self):\n        return 1\n    @p.setter\n    def p(self, v):\n        pass\n"
        "def f():\n    def inner():\n        return 1\n    return inner\nh = lambda x: x\n"
    )
    report = changes_of(None, new)
    assert names(report) == ["A.p", "A.p#2", "f", "f.<locals>.inner", "h"]
    assert [item.line for item in report.functions] == [2, 5, 8, 9, 12]
    assert all(item.is_new for item in report.functions)


def test_a_source_that_cannot_be_parsed_is_unread() -> None:
    report = changes_of("x = 1\n", "x = = 1\n")
    assert not report.functions
    assert report.unread[0].startswith("pkg/mod.py: SyntaxError")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**70),
        float("nan"),
        -0.0,
        1j,
        "a\ud800",
        b"\xff",
        bytearray(b"1"),
        [1, (2, {3, "x"})],
        {"a": [1], (1, 2): frozenset([1])},
        range(3),
        slice(1, None),
        ...,
        Decimal("1.20"),
        Fraction(1, 3),
        datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))),
        date(2026, 1, 2),
        timedelta(1, 2, 3),
        PurePosixPath("/a/b"),
        UUID(int=5),
        OrderedDict(a=1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_can_be_made_again_from_its_json(value: object) -> None:
    written = json.loads(json.dumps(plain_data.encode_argument(value)))
    again = plain_data.decode(written)
    assert type(again) is type(value)
    assert plain_data.same(plain_data.encode_argument(again), written)
    if value == value:  # noqa: PLR0124 - not for nan
        assert again == value


class Basket(list[int]):
    __slots__ = ("__dict__", "name")

    def __init__(self, *prices: int) -> None:
        super().__init__(prices)
        self.name, self.tags = "small", ["new", self]


@pytest.mark.parametrize(
    ("hook", "code"),
    [
        ("__getstate__", lambda _self: {"tags": []}),
        ("__reduce__", lambda _self: (Basket, (1,))),
        ("__reduce_ex__", lambda _self, _version: 1 / 0),
        ("__setstate__", lambda _self, _state: None),
    ],
)
def test_an_object_is_recorded_by_what_it_holds_whatever_the_patch_says_of_its_copies(
    monkeypatch: pytest.MonkeyPatch, hook: str, code: Any
) -> None:
    monkeypatch.setattr(copies, "new_hooks", set())
    monkeypatch.setattr(Basket, hook, code, raising=False)
    copies.find_new_hooks("/", [(__file__, f"Basket.{hook}"), (__file__, "Basket.total")])
    again = plain_data.decode(json.loads(json.dumps(plain_data.encode_argument(Basket(3, 4)))))
    assert type(again) is Basket
    assert (list(again), again.name, again.tags[0], again.tags[1] is again) == ([3, 4], "small", "new", True)


def test_an_object_is_copied_as_its_class_on_base_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "new_hooks", set())
    monkeypatch.setattr(Basket, "__reduce__", lambda _self: (Basket, (1,)), raising=False)
    assert list(plain_data.decode(plain_data.encode_argument(Basket(3, 4)))) == [1]


@pytest.mark.parametrize(
    "match", [re.match("(a+)b?", "aac"), re.compile(b"c").search(b"aac", 1), re.fullmatch("x|xy", "xy")]
)
def test_a_match_is_made_again_by_matching_again(match: re.Match[Any]) -> None:
    again = plain_data.decode(json.loads(json.dumps(plain_data.encode_argument(match))))
    assert (again.span(), again.groups(), again.re) == (match.span(), match.groups(), match.re)


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def test_results_are_compared_without_their_own_equality() -> None:
    first, second = plain_data.describe(Liar(1)), plain_data.describe(Liar(2))
    assert Liar(1) == Liar(2)
    assert not plain_data.same(first, second)
    assert not plain_data.same(first, plain_data.describe(1))


def test_dicts_are_the_same_in_any_order_and_lists_are_not() -> None:
    describe = plain_data.describe
    assert plain_data.same(describe({"a": 1, "b": 2}), describe({"b": 2, "a": 1}))
    assert not plain_data.same(describe([1, 2]), describe([2, 1]))


def test_a_value_without_end_and_a_large_one_are_not_written() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value in (endless, "x" * (plain_data.LARGEST + 1), lambda: 1):
        with pytest.raises(plain_data.NotPlainData):
            plain_data.encode_argument(value)
    assert plain_data.describe(endless) == {"opaque": "builtins:list", "large": True}


SOURCE = """
import functools

def add(x, *rest, k=1, **more):
    "Add."
    if x < 0:
        raise ValueError("negative: %d" % x)
    return x + k

class Box:
    def __init__(self, v):
        self.v = v

    @property
    def value(self):
        return self.v

    @functools.lru_cache(None)
    def cached(self, x):
        try:
            return x
        finally:
            pass

def fill(items):
    items.append(1)

def count(n):
    for i in range(n):
        yield i

async def later(n):
    return n

plus = lambda x: x + 1

def outer(a):
    def inner(b):
        return a + b
    return inner(2)

def own_locals():
    return locals()

def takes_a_lock(lock):
    return lock.locked()

def often(x):
    return x

def half(x):
    '''Halve.

    >>> half(8)
    4
    '''
    return x // 2

def peek():
    with open(__file__.replace("pkg", "tests").replace("mod.py", "test_peek.py")) as stream:
        return stream.read()

if __name__ == "__main__":
    import sys
    print(half(int(sys.argv[1])))
"""
TESTS = """
import asyncio, os, threading, unittest
from pkg import mod

class Case(unittest.TestCase):
    def test_all(self):
        os.environ["COLOUR"] = "red"
        self.assertEqual(mod.add(1, 2, k=3, z=5), 4)
        self.assertRaises(ValueError, mod.add, -1)
        box = mod.Box(3)
        self.assertEqual((box.value, box.cached(4)), (3, 4))
        items = []
        mod.fill(items)
        self.assertEqual(items, [1])
        self.assertEqual((list(mod.count(2)), asyncio.run(mod.later(2))), ([0, 1], 2))
        self.assertEqual((mod.plus(1), mod.outer(1), mod.own_locals()), (2, 3, {}))
        self.assertEqual(mod.takes_a_lock(threading.Lock()), False)
        self.assertEqual([mod.often(x) for x in range(1000)], list(range(1000)))

    def test_more(self):
        self.assertEqual(mod.often(-1), -1)
"""


def record(top: Path, *command: str) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Lay out the package, run a command with the recorder, and return the calls and the summaries."""
    for name, text in (("pkg/__init__.py", ""), ("pkg/mod.py", SOURCE), ("tests/test_mod.py", TESTS)):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(text)
    shutil.copytree(INSIDE, top / "helper", ignore=shutil.ignore_patterns("__pycache__"))
    (top / "helper" / "out").mkdir()
    functions = changes_of(None, SOURCE).functions
    settings = {
        "mark": "_k",
        "root": str(top),
        "out": "out",
        "files": {"pkg/mod.py": [item[1:3] for item in functions]},
    }
    (top / "helper" / "settings.json").write_text(json.dumps(settings))
    env = {"PYTHONPATH": str(top), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, *command], cwd=top, env=env, check=True)
    lines = [json.loads(line) for file in (top / "helper" / "out").iterdir() for line in file.read_text().splitlines()]
    return [line for line in lines if "args" in line], {line["summary"]: line for line in lines if "summary" in line}


def test_the_calls_of_examples_in_a_source_that_pytest_imports_itself_are_recorded(tmp_path: Path) -> None:
    plugins = ("-p", "helper.recorder", "-p", "no:cacheprovider")
    calls, summaries = record(tmp_path, "-m", "pytest", "-q", *plugins, "--doctest-modules", "pkg/mod.py")
    (call,) = calls
    assert (call["qualname"], call["args"], call["outcome"]) == ("half", [8], {"value": 4})
    assert call["test"] == "pkg/mod.py::pkg.mod.half"
    assert summaries["add"]["loaded"]


PROGRAMS = """
import os, subprocess, sys

def test_programs():
    for words, out in ((["-m", "pkg.mod", "6"], "3"), (["-c", "from pkg import mod; print(mod.half(10))"], "5")):
        env = {**os.environ, "COLOUR": "red", "PYTHONPATH": os.environ["PYTHONPATH"] + os.pathsep + "other"}
        done = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True)
        assert (done.stdout.split(), done.stderr) == (["started", out], "")
"""


def test_calls_in_the_programs_that_a_test_starts_are_recorded(tmp_path: Path) -> None:
    for name, text in (("tests/test_programs.py", PROGRAMS), ("other/sitecustomize.py", "print('started')\n")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    command = ("-m", "pytest", "-q", "-p", "helper.recorder", "-p", "no:cacheprovider", "tests/test_programs.py")
    calls, _ = record(tmp_path, *command)
    first, second = sorted(calls, key=lambda call: str(call["outcome"]))
    assert [(call["module"], call["qualname"], call["args"]) for call in (first, second)] == [
        ("pkg.mod", "half", [6]),
        ("pkg.mod", "half", [10]),
    ]
    assert {call["test"] for call in calls} == {"tests/test_programs.py::test_programs"}
    assert first["env"]["COLOUR"] == "red"
    assert first["argv"][1:] == ["6"]


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_what_a_changed_source_reads_is_reported_in_workers_too(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_peek.py").write_text("from pkg import mod\n\ndef test_peek():\n    assert mod.peek()\n")
    plugins = ("-p", "helper.recorder", "-p", "no:cacheprovider", "--import-mode=prepend", *workers)
    record(tmp_path, "-m", "pytest", "-q", *plugins, "tests/test_peek.py")
    files = (tmp_path / "helper" / "out").iterdir()
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [line["audit"] for line in lines if "audit" in line] == ["tests/test_peek.py"]
    assert {folder for line in lines if "python" in line for folder in line["path"]} >= {"tests"}


@pytest.mark.parametrize("runner", ["pytest", "unittest"])
def test_the_calls_of_tests_are_recorded(tmp_path: Path, runner: str) -> None:
    (tmp_path / "run.py").write_text("import unittest\nunittest.main(module='tests.test_mod')\n")
    command = {
        "pytest": ("-m", "pytest", "-q", "-p", "helper.recorder", "-p", "no:cacheprovider", "tests"),
        "unittest": ("helper/launch.py", "run.py"),
    }[runner]
    calls, summaries = record(tmp_path, *command)
    by_name = {call["qualname"]: call for call in calls}
    added = [call for call in calls if call["qualname"] == "add"]
    assert added[0]["args"] == [1, 2]
    assert added[0]["kwargs"] == [["k", 3], ["z", 5]]
    assert added[0]["outcome"] == {"value": 4}
    assert added[0]["env"] == {"COLOUR": "red"}
    assert added[0]["test"].endswith(("::Case::test_all", ".Case.test_all"))
    assert added[1]["outcome"] == {"raises": "ValueError", "text": "negative: -1"}
    assert by_name["fill"]["args"] == [[]]
    assert by_name["fill"]["after"] == [[1]]
    assert by_name["Box.value"]["first"] == "self"
    assert by_name["Box.cached"]["outcome"] == by_name["Box.cached"]["outcome"] == {"value": 4}
    assert by_name["count"]["outcome"] == {"generator": True}
    assert by_name["later"]["outcome"] == by_name["plus"]["outcome"] == {"value": 2}
    assert by_name["outer.<locals>.inner"]["nested"]
    assert by_name["own_locals"]["outcome"] == {"value": {"dict": []}}
    assert {call["args"][0] for call in calls if call["qualname"] == "often"} == {*range(25), -1}  # of every test some
    assert summaries["takes_a_lock"]["calls"] == 0
    assert "cannot be copied" in next(iter(summaries["takes_a_lock"]["reasons"]))
