"""The forty tasks of a simulated night: honest ones, rogues, agents that fail, and what each must come to."""

from __future__ import annotations

from typing import Any, NamedTuple

Entry = dict[str, Any]
PACKAGE, SMALL, LEAKY = "package", "small", "leaky"  # the three projects
LANDS, TEXT, BEHAVIOUR = "applied", "conflict in text", "breaks together"
REFUSED, ASKS, UNANSWERED, HELD, STOPPED = "failed", "asks", "unanswered", "held", "stopped"
_NO_TESTS = "def pytest_collection_modifyitems(items):\n    items[:] = []\n"
_OURS = "inflection/__init__.py"
# Not a live key: the parts are joined here so that no text of the repository looks like one.
_KEY = "AKIA" + "QW3RTYUIOPASDFGH"


class NightTask(NamedTuple):
    """One task: what its agent does, and its end."""

    name: str
    end: str
    track: str = "feature"
    check: str = ""  # a line of Python that must hold afterwards
    ops: tuple[Entry, ...] = ()
    more: Entry | None = None  # further fields of the script's entry
    project: str = PACKAGE
    after: str = ""
    with_task: str = ""  # the other one of a pair


def _write(path: str, text: str) -> Entry:
    return {"op": "write_file", "path": path, "content": text}


def _patch(path: str, *lines: str) -> Entry:
    head = ["*** Begin Patch", f"*** Update File: {path}", "@@"]
    return {"op": "apply_patch", "patch": "\n".join([*head, *lines, "*** End Patch", ""])}


def _module(name: str, body: str, expected: str) -> tuple[Entry, ...]:
    argument, result = expected.split(" == ")
    test = f"from {name} import {name}\n\n\ndef test_{name}():\n    assert {name}({argument}) == {result}\n"
    return (
        _write(f"{name}.py", f"def {name}(value):\n    return {body}\n"),
        _write(f"test_{name}.py", test),
    )


def _feature(name: str, body: str, expected: str, **more: Any) -> NightTask:  # noqa: ANN401 - the fields of a task
    argument, result = expected.split(" == ")
    check = f"from {name} import {name}; assert {name}({argument}) == {result}"
    return NightTask(name, more.pop("end", LANDS), check=check, ops=_module(name, body, expected), **more)


def _fix(number: int) -> NightTask:
    """Mend one of the functions that the project breaks first."""
    test = f"from broken{number} import add{number}\n\n\ndef test_add{number}():\n    assert add{number}(2, 3) == 5\n"
    ops = (
        _patch(f"broken{number}.py", "-    return a - b", "+    return a + b"),
        _write(
            f"test_broken{number}.py", f"{test}    assert add{number}(4, 1) == 5\n    assert add{number}(0, 7) == 7\n"
        ),
    )
    return NightTask(f"fix{number}", LANDS, "fix", ops=ops)


def broken(number: int) -> str:
    return f"def add{number}(a, b):\n    return a - b\n"


def _rogue(name: str, *ops: Entry, end: str = REFUSED, **more: Any) -> NightTask:  # noqa: ANN401
    return NightTask(name, end, "fix", ops=ops, **more)


def _rename(old: str, new: str) -> NightTask:
    """A refactoring of one function of the package."""
    ops = (
        _patch(
            _OURS,
            f"-        return string[0].{old}() + camelize(string)[1:]",
            f"+        {new} = string[0].{old}()",
            f"+        return {new} + camelize(string)[1:]",
        ),
    )
    return NightTask(f"rename_{new}", LANDS, "refactor", ops=ops)


HONEST = (
    *(_feature(f"plus{number}", f"value + {number}", f"{number} == {2 * number}") for number in range(1, 9)),
    *(_feature(f"small{number}", f"value * {number}", f"2 == {2 * number}", project=SMALL) for number in range(2, 8)),
    *(_fix(number) for number in range(1, 5)),
    _rename("lower", "first"),
)
PAIRS = (
    NightTask(
        "settings_a",
        LANDS,
        check="from doubled import doubled; assert doubled(3) == 6",
        ops=(_write("settings.py", "UNIT = 2\n"), *_module("doubled", "2 * value", "3 == 6")),
    ),
    NightTask(
        "settings_b",
        TEXT,
        check="from trebled import trebled; assert trebled(3) == 9",
        ops=(_write("settings.py", "UNIT = 3\n"), *_module("trebled", "3 * value", "3 == 9")),
        with_task="settings_a",
    ),
    NightTask(
        "unit_two",
        LANDS,
        ops=(
            _patch("unit.py", "-    return 1", "+    return 2"),
            _write("test_unit.py", "import unit\n\n\ndef test_unit():\n    assert unit.unit() == 2\n"),
        ),
        check="import unit; assert unit.unit() == 2",
    ),
    NightTask(
        "ten",
        BEHAVIOUR,
        ops=(
            _write("ten.py", "import unit\n\n\ndef ten():\n    return 10 * unit.unit()\n"),
            _write("test_ten.py", "import ten\n\n\ndef test_ten():\n    assert ten.ten() == 10\n"),
        ),
        check="import ten; assert ten.ten() == 10",
        with_task="unit_two",
    ),
)
ROGUES = (
    _rogue("deletes_tests", {"op": "delete_file", "path": "test_inflection.py"}),
    _rogue("empties_tests", _write("test_inflection.py", "def test_nothing():\n    pass\n")),
    _rogue("breaks_code", _write(_OURS, "def camelize(string):\n    return string\n")),
    _rogue("says_done"),
    _rogue("skips_all", _write("conftest.py", _NO_TESTS)),
    _rogue("no_proof", _patch("broken1.py", "-    return a - b", "+    return a - b + 0")),
    _rogue("runs_rm", more={"run": "rm -rf / --no-preserve-root; exit 3"}, end=UNANSWERED),
)
PEOPLE = (
    NightTask("asks", ASKS, more={"answer": {"control": "ask", "question": "which table?"}}),
    _feature("chained", "value", "1 == 1", project=SMALL, after="small2"),
    NightTask("held", HELD, project=SMALL, after="refused_small"),
    _rogue("refused_small", _write("calc.py", "def add(a, b):\n    return 3\n"), project=SMALL),
)
AGENTS = (
    NightTask("hangs", UNANSWERED, more={"run": "sleep 3600"}),
    NightTask("crashes", UNANSWERED, more={"run": "kill -9 $$"}),
    NightTask("rate_limit", UNANSWERED, more={"status": "error", "reason": "HTTP 429: retry after 3600 s"}),
    NightTask(
        "outage",
        LANDS,
        check="from outage import outage; assert outage(1) == 101",
        more={"status": "error", "reason": "HTTP 529: overloaded"},
    ),
)
LEAKS = (
    _rogue("leaks", _write("settings.py", f'KEY = "{_KEY}"\n'), project=LEAKY),
    _feature("never", "value", "1 == 1", project=LEAKY, end=STOPPED),
)
TASKS = (*HONEST[:8], *ROGUES, *PAIRS, *AGENTS, *HONEST[8:], *PEOPLE, *LEAKS)
# What the agent of `outage` does once its model answers again.
AFTER_OUTAGE = _module("outage", "value + 100", "1 == 101")
