"""Parts of a verification run side by side: their commands at the same time, the engine in turns."""

from __future__ import annotations

import select
import threading
from contextvars import ContextVar

import pytest

from reflectloop.verification.strands import Strands

_WAIT_S = 60.0
_KNOWN: ContextVar[str] = ContextVar("known", default="nothing")


def test_commands_of_two_strands_run_at_the_same_time() -> None:
    strands, both = Strands(width=2), threading.Barrier(2)

    def part(name: str) -> str:
        with strands.aside():
            both.wait(_WAIT_S)  # breaks if the other does not come
        return name

    assert strands.beside(lambda: part("first"), lambda: part("second")) == ("first", "second")
    assert strands.cancel is None


def test_the_engine_works_on_one_strand_at_a_time() -> None:
    strands, both, working = Strands(width=2), threading.Barrier(2), []

    def part() -> int:
        most = 0
        for _ in range(100):
            working.append(1)
            most = max(most, len(working))
            working.pop()
            with strands.aside():
                both.wait(_WAIT_S)
        return most

    assert strands.beside(part, part) == (1, 1)


def test_with_one_core_the_second_part_begins_when_the_first_has_ended() -> None:
    strands, order = Strands(width=1), []

    def part(name: str) -> None:
        order.append(f"{name} begins")
        with strands.aside():
            order.append(f"{name} ends")

    strands.beside(lambda: part("a"), lambda: part("b"))
    assert order == ["a begins", "a ends", "b begins", "b ends"]


def test_a_fault_in_one_strand_ends_the_command_of_the_other() -> None:
    strands, started = Strands(width=2), threading.Event()
    ended: list[bool] = []

    def failing() -> None:
        with strands.aside():
            assert started.wait(_WAIT_S)
        raise KeyboardInterrupt

    def long_command() -> None:
        assert strands.cancel
        reader = strands.cancel.reader
        with strands.aside():
            started.set()
            ended.append(bool(select.select([reader], [], [], _WAIT_S)[0]))

    with pytest.raises(KeyboardInterrupt):
        strands.beside(failing, long_command)
    assert ended == [True]


def test_a_fault_of_the_second_strand_is_raised_too() -> None:
    def failing() -> None:
        raise ValueError("no workspace")

    with pytest.raises(ValueError, match="no workspace"):
        Strands(width=2).beside(lambda: None, failing)


def test_a_strand_knows_what_is_known_where_it_begins_and_runs_its_own_parts_in_order() -> None:
    strands = Strands(width=2)
    token = _KNOWN.set("protected")
    try:
        inner = strands.beside(_KNOWN.get, lambda: strands.beside(_KNOWN.get, threading.get_ident))
    finally:
        _KNOWN.reset(token)
    assert inner[0] == inner[1][0] == "protected"
    assert inner[1][1] != threading.get_ident()


@pytest.mark.parametrize("width", [1, 2])
def test_a_quiet_part_takes_place_while_commands_run(width: int) -> None:
    strands, looked, order = Strands(width=width), threading.Event(), []

    def part(name: str) -> str:
        with strands.aside():
            assert looked.wait(_WAIT_S)
        order.append(name)
        return name

    def look() -> None:
        looked.set()
        order.append("quiet")

    assert strands.beside(lambda: part("a"), lambda: part("b"), quiet=look) == ("a", "b")
    assert order[0] == "quiet"
    assert sorted(order[1:]) == ["a", "b"]
    with pytest.raises(ZeroDivisionError):
        strands.beside(lambda: None, lambda: None, quiet=lambda: 1 / 0)
