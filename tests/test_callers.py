"""Functions whose calls cannot be recorded are probed by what calls them, and by objects that are made anew."""

from __future__ import annotations

import json
import sys
import threading
import types
from typing import Any

import pytest

from reflectloop.verification.probing import callers, changed, neighbours, second_inputs
from reflectloop.verification.probing.callers import Caller
from reflectloop.verification.probing.changed import ChangedFunction
from reflectloop.verification.probing.inside import call_arguments, content, plain_data, recorder
from reflectloop.verification.probing.neighbours import FixedValue
from reflectloop.verification.result import ChangedFile

SOURCE = b"""class Reader:
    def __init__(self, text):
        self.text = text

    def read(self):
        return self._part()

    def _part(self):
        return self.text


def load(text):
    def inner():
        return Reader(text).read()

    return inner()
"""


def _choose(function: ChangedFunction, *path: tuple[str, int]) -> list[Caller]:
    return callers.choose([function], {function: (path,)}, lambda name: name != "t.py", lambda _name: SOURCE)


def test_callers_are_those_between_the_function_and_the_test_and_no_closures() -> None:
    part = ChangedFunction("m.py", "Reader._part", 8)
    chosen = _choose(part, ("m.py", 5), ("m.py", 13), ("m.py", 12), ("t.py", 3), ("m.py", 2))
    assert [(item.function.qualname, item.distance) for item in chosen] == [
        ("Reader._part", -1),
        ("Reader.read", 0),
        ("load", 2),
    ]
    assert {item.reaches for item in chosen} == {part}


def test_a_function_that_only_tests_call_has_no_caller() -> None:
    assert not _choose(ChangedFunction("m.py", "load", 12), ("t.py", 3), ("m.py", 5))


def test_constructors_are_found_by_their_lines() -> None:
    assert callers.constructors({"m.py": SOURCE, "n.py": b"x = 1"}) == {"m.py": [2]}


def test_a_new_function_that_another_file_has_no_more_was_moved() -> None:
    old, new = b"def f():\n    return 1\n\n\ndef g():\n    return 2\n", b"from .core import f\n"
    changes = [ChangedFile("src/p/m.py", old, new), ChangedFile("src/p/core.py", None, old.replace(b"1", b"3"))]
    assert changed.former_path(ChangedFunction("src/p/core.py", "f", 1, is_new=True), changes) == "src/p/m.py"
    assert not changed.former_path(ChangedFunction("src/p/core.py", "h", 1, is_new=True), changes)
    assert second_inputs._module_at("src/p/m.py", "src/p/core.py", "p.core") == "p.m"
    assert second_inputs._module_at("src/p/__init__.py", "src/p/core.py", "p.core") == "p"


# What the recorder reads ---------------------------------------------------------------------------------------------

_FRAMES: list[Any] = []
_MARK = object()


def _given(first: int, second: Any = _MARK, third: int = 1000, *, fourth: Any = _MARK, **rest: int) -> None:  # noqa: ARG001
    _FRAMES[:] = [sys._getframe()]


def _read() -> tuple[list[Any], list[tuple[str, Any]]]:
    return call_arguments.ArgumentReader().read(_FRAMES[0])


def test_arguments_that_are_the_defaults_are_left_out_and_those_after_them_have_names() -> None:
    _given(1)
    assert _read() == ([1], [])
    _given(1, third=7, fifth=2)
    assert _read() == ([1], [("third", 7), ("fifth", 2)])
    _given(1, 2, 3, fourth=4)
    assert _read() == ([1, 2, 3], [("fourth", 4)])


class Locked:
    def __init__(self, text: str, *, times: int = 1) -> None:
        _FRAMES[:] = [sys._getframe()]
        self.text, self.times, self.lock = text, times, threading.Lock()


def test_an_object_that_cannot_be_copied_is_written_as_it_was_made(monkeypatch: Any) -> None:
    made = call_arguments.MadeObjects(content.PlacesOfTest("", lambda _file: False))
    monkeypatch.setattr(plain_data, "remembered", lambda value, _beside: made.recipe(value))
    value = Locked("some", times=3)
    made.remember(_FRAMES.pop())
    written = json.loads(json.dumps(plain_data.encode_argument(value)))
    assert written == {"made": f"{__name__}:Locked", "args": ["some"], "kwargs": [["times", 3]]}
    again = plain_data.decode(written)
    assert (again.text, again.times) == ("some", 3)
    varied = neighbours.make([neighbours.read([written], [])], [0], "seed", 20)
    texts = {item.input.args[0].args[0] for item in varied}
    assert len(texts) > 3
    assert neighbours.write(varied[0].input)["args"][0]["made"] == written["made"]


def test_an_object_as_a_key_is_passed_on_as_it_was_recorded() -> None:
    recorded = {"dict": [[{"made": "m:C", "args": [], "kwargs": []}, 1]]}
    given = neighbours.read([recorded], [])
    assert neighbours.write(given)["args"] == [recorded]


def test_functions_of_a_module_that_was_loaded_before_get_the_other_code(tmp_path: Any) -> None:
    path = tmp_path / "early.py"
    path.write_text("def f(n):\n    def g():\n        return n\n    return g()\n")
    module = types.ModuleType("early")
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), vars(module))  # noqa: S102 - the text above
    sys.modules["early"] = module
    settings = {
        "mark": "_test_mark_",
        "root": str(tmp_path),
        "out": "out",
        "files": {"early.py": [["f.<locals>.g", 2]]},
    }
    made = recorder.CallRecorder(settings)
    try:
        made._reach_loaded()
        assert made.functions[0].loaded
        assert "_test_mark_e" in module.f.__code__.co_consts[1].co_names
    finally:
        del sys.modules["early"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('{"code": "", "name": "<lambda>"}', "<lambda>"),
        ('{"code": "", "name": "fake"}', "<fake>"),
        ('{"inner": "shop.prices:outer.<locals>.inner"}', "<inner>"),
        ('{"made": "shop.prices:Basket", "name": "x"}', "<object>"),
        ("[1]", "<object>"),
    ],
)
def test_a_function_that_a_test_passed_is_shown_by_its_name(written: str, shown: str) -> None:
    assert repr(FixedValue(written)) == shown
