"""Tell the outcomes of a unittest run as they happen, and run known tests before the first and after the last.

The text of `events.py` stands before this text.
"""

from __future__ import annotations

import importlib
import os
import sys
import unittest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reflectloop.verification.observe.inside.events import Originals, Pipe, raises

_MODULES = "unittest.case unittest.result unittest.suite unittest.loader unittest.runner unittest.main __main__"
_OFTEN = (
    "unittest.case.TestCase.run unittest.case.TestCase.assertEqual unittest.case.TestCase.assertTrue "
    "unittest.case.TestCase.assertRaises unittest.case.TestCase.fail unittest.case._Outcome.testPartExecutor "
    "unittest.result.TestResult.addFailure unittest.result.TestResult.addError unittest.suite.TestSuite.run "
    "__main__.Result._record __main__.Result.addFailure __main__.Result.addError __main__.Result.addSuccess"
)
_WORDS = {"failure": "failed", "unloaded": "error", "xfail": "xfailed"}
_MOST_TWINS = 40


class Observer:
    """Sees one run. `values` are the names of this run; they stand next to this file."""

    def __init__(self, values: dict[str, Any], folder: str) -> None:
        self._rounds = values["rounds"]
        self._wanted = frozenset(values["wanted"])
        self._folder = folder
        self._pipe = Pipe(os.path.join(folder, values["pipe"]))  # noqa: PTH118
        self._originals = Originals(_MODULES.split(), _OFTEN.split())
        self._twins: list[tuple[str, str, str]] = []
        self._pipe.send("start", pid=os.getpid(), version=sys.version)

    def told(self, test: str, kind: str) -> None:
        self._pipe.send("told", id=test, outcome=_WORDS.get(kind, kind))
        self._tell_changed(self._originals.changed_often())

    def run(self, suite: Any, make: Callable[[], Any], run: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        """Run a suite between two rounds of known tests."""
        self._twins = self._chosen([_name(test) for test in _flat(suite) if isinstance(test, unittest.TestCase)])
        self._round(make, 0)
        result = run(suite)
        self._round(make, 1)
        self._pipe.send("end", status=0)
        return result

    def _chosen(self, names: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
        """Return the real tests whose names known failures get: the wanted ones, and some at equal distances."""
        step = max(1, len(names) // (_MOST_TWINS // 2))
        chosen = [name for name in names if ".".join(name) in self._wanted][: _MOST_TWINS // 2]
        return chosen + [name for name in names[::step][: _MOST_TWINS // 2] if name not in chosen]

    def _round(self, make: Callable[[], Any], number: int) -> None:
        try:
            self._run_known(make, number)
        except Exception as fault:  # noqa: BLE001 - a run must not end because it is observed
            self._pipe.send("broken", round=number, error=repr(fault)[:500])
        self._tell_changed(self._originals.changed())

    def _run_known(self, make: Callable[[], Any], number: int) -> None:
        module_name, styles = self._rounds[number]
        sys.path.insert(0, self._folder)
        try:
            module = importlib.import_module(module_name)
        finally:
            sys.path.remove(self._folder)
        sys.modules.pop(module_name, None)
        for style, name in styles:
            function = getattr(module, name)
            got = _outcome(
                (module_name, "Test" + name.title().replace("_", ""), name), function, make, style == "setup"
            )
            self._pipe.send("known", round=number, style=style, got=got, raised=raises(function))
        for place in self._twins:
            got = _outcome(place, getattr(module, styles[0][1]), make, broken_setup=False)
            self._pipe.send("twin", round=number, id=".".join(place), got=got)

    def _tell_changed(self, names: list[str]) -> None:
        if names:
            self._pipe.send("changed", names=names[:50])


def _flat(suite: Any) -> Iterator[Any]:  # noqa: ANN401
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        elif test is not None:
            yield test


def _name(test: Any) -> tuple[str, str, str]:  # noqa: ANN401
    return (type(test).__module__, type(test).__qualname__, test._testMethodName)  # noqa: SLF001


def _outcome(
    place: tuple[str, str, str], function: Callable[[], Any], make: Callable[[], Any], broken_setup: bool
) -> str:
    """Run one function as a test of this name, as any other test is run, and return the outcome."""

    def method(_self: Any) -> None:  # noqa: ANN401
        function()

    module, name, test = place
    members = {test: method, **({"setUp": method} if broken_setup else {}), "__module__": module}
    kind = type(name.rpartition(".")[2], (unittest.TestCase,), members)
    kind.__qualname__ = name
    result = make()
    if module in sys.modules:
        kind(test).run(result)  # a suite would run the set-up of the project's module
    else:
        unittest.TestSuite([kind(test)]).run(result)
    kinds = [_WORDS.get(word, word) for word in result.kinds_of(".".join(place))]
    if result.testsRun != 1 or len(kinds) != 1:
        return "unclear"
    counted = (len(result.failures), len(result.errors), len(result.skipped))
    wanted = {"failed": (1, 0, 0), "error": (0, 1, 0), "skipped": (0, 0, 1), "passed": (0, 0, 0)}
    return kinds[0] if wanted.get(kinds[0]) == counted else "unclear"
