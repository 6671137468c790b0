"""The decision of `autoloop`: what should happen against what was acknowledged, with the time passed in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reflectloop.autoloop.decision import Clocks, NextAction, Situation, decide, with_dependencies
from reflectloop.autoloop.task_view import Acknowledgement, Limits, Spending, Standing, TaskView

WALL = datetime(2026, 1, 31, 23, 0, tzinfo=UTC)


def view(key: str = "a", standing: Standing = Standing.UNFINISHED, position: str = "1", **more: object) -> TaskView:
    return TaskView(key, "p", standing, position, **more)  # type: ignore[arg-type]


def at(seconds: float = 1000.0, wall: datetime = WALL) -> Clocks:
    return Clocks(seconds, wall)


def ack(position: str = "1", sessions: int = 1, code: str = "NO_ANSWER", notified: str = "") -> Acknowledgement:
    return Acknowledgement(position, sessions, code=code, notified=notified)


def one(*views: TaskView, now: Clocks | None = None, **more: Any) -> NextAction:
    return decide(Situation(views, **more), now or at())


def test_an_unfinished_task_is_started_and_a_project_at_work_is_left_alone() -> None:
    assert one(view()).start == view()
    busy = one(view(), busy=frozenset({"p"}))
    assert (busy.start, busy.idle) == (None, False)
    assert one(view(), running=1).start is None
    assert one(view(), running=1, limits=Limits(jobs=2)).start is not None


def test_an_advance_inside_the_cool_down_is_started_when_it_is_over() -> None:
    facts: dict[str, Any] = {"acknowledged": {"a": ack("1")}, "started": {"a": 990.0}}
    inside = one(view(position="2"), **facts)
    assert (inside.start, inside.wait_s) == (None, 10.0)
    after = one(view(position="2"), now=at(1010.0), **facts)
    assert (after.start, after.reason) == (view(position="2"), "it advanced")


def test_a_crash_is_tried_again_after_its_wait_and_told_after_the_third() -> None:
    crashed: dict[str, Any] = {"acknowledged": {"a": ack()}, "ready": {"a": 1020.0}}
    assert one(view(), **crashed).wait_s == 20.0
    again = one(view(), now=at(1020.0), **crashed)
    assert (again.start, again.reason) == (view(), "again after NO_ANSWER")
    stuck = one(view(title="T"), acknowledged={"a": ack(sessions=3)})
    assert (stuck.start, stuck.idle) == (None, True)
    assert [notice.text for notice in stuck.notices] == ["T: 3 session(s) ended without an advance: NO_ANSWER: "]
    told = one(view(), acknowledged={"a": ack(sessions=3, notified="unfinished 1")})
    assert told.notices == ()
    answered = one(view(position="2"), acknowledged={"a": ack(sessions=3, notified="unfinished 1")})
    assert answered.start is not None  # a person did something: the level differs again


@pytest.mark.parametrize("code", ["AGENT_FAILED", "NO_SPACE", "LOCKED", "INTERRUPTED"])
def test_what_may_pass_is_tried_as_long_as_the_night_lasts(code: str) -> None:
    situation: dict[str, Any] = {"acknowledged": {"a": ack(sessions=40, code=code)}, "ready": {"a": 1000.0}}
    assert one(view(standing=Standing.UNANSWERED), **situation).start is not None


def test_what_cannot_succeed_is_told_at_once() -> None:
    refused = one(view(standing=Standing.QUEUED), acknowledged={"a": ack(code="INVALID_PLAN")})
    assert refused.start is None
    assert len(refused.notices) == 1


@pytest.mark.parametrize(
    "standing", [Standing.ASKS, Standing.STOPPED, Standing.FAILED, Standing.ABORTED, Standing.PROVEN]
)
def test_a_person_is_told_once_of_each_standing(standing: Standing) -> None:
    first = one(view(standing=standing, reason="why"))
    assert (first.start, first.wait_s, first.idle) == (None, None, True)
    assert len(first.notices) == 1
    assert one(view(standing=standing), working=frozenset({"a"})).notices == ()  # its session may still go on
    mark = first.notices[0].mark
    assert one(view(standing=standing), acknowledged={"a": Acknowledgement(notified=mark)}).notices == ()
    assert one(view(standing=standing, position="2"), acknowledged={"a": Acknowledgement(notified=mark)}).notices


@pytest.mark.parametrize(
    ("limits", "spending", "over"),
    [
        (Limits(until=WALL), Spending(), "it is past 2026-01-31 23:00 UTC"),
        (Limits(until=WALL + timedelta(seconds=1)), Spending(), ""),
        (Limits(cost_usd=2.0), Spending(usd=2.0), "2.0000 of 2 USD are spent"),
        (Limits(cost_usd=2.0), Spending(usd=1.9), ""),
        (Limits(cost_usd=2.0), Spending(unpriced=1), "1 call(s) of unknown price were made, and the limit is in money"),
        (Limits(hours=8), Spending(hours=8.0), "8 hours are over"),
        (Limits(hours=8), Spending(hours=7.9), ""),
    ],
)
def test_the_night_is_over_by_time_money_or_hours(limits: Limits, spending: Spending, over: str) -> None:
    action = one(view(), limits=limits, spending=spending)
    assert action.over == over
    assert (action.start is None) == bool(over)


def test_a_person_is_told_once_of_an_agent_that_does_not_answer_and_it_is_tried_again() -> None:
    failing = Acknowledgement("1", 2, 240.0, "", "AGENT_FAILED", "its answer is malformed")
    assert one(view(), acknowledged={"a": failing}).notices == ()
    action = one(view(), acknowledged={"a": failing._replace(sessions=3)})
    (notice,) = action.notices
    assert "3 sessions in a row ended with AGENT_FAILED, and it is tried again: its answer" in notice.text
    assert action.start == view()
    later = failing._replace(position="2", sessions=4, notified=notice.mark)  # each failing call makes the journal grow
    assert one(view()._replace(position="2"), acknowledged={"a": later}).notices == ()


def test_the_end_of_the_night_bounds_every_wait() -> None:
    limits = Limits(until=WALL + timedelta(seconds=7))
    assert one(limits=limits).wait_s == 7.0
    assert one(view(), limits=limits, ready={"a": 2000.0}, acknowledged={"a": ack()}).wait_s == 7.0


def test_priority_then_the_project_served_least_then_what_was_begun_then_submission() -> None:
    queued = view("q", Standing.QUEUED, number=1)
    begun = view("b", number=2)
    other = TaskView("o", "other", Standing.QUEUED, "1", number=9)
    urgent = view("u", Standing.QUEUED, priority=1, number=10)
    assert one(queued, begun).start == begun
    assert one(queued, begun, urgent).start == urgent
    assert one(queued, begun, other, served={"p": 1}).start == other
    assert one(view("x", Standing.QUEUED, number=2), queued).start == queued


def test_a_failed_dependency_holds_by_name_and_what_comes_after_it() -> None:
    failed = view("a", Standing.FAILED, number=1)
    second = view("b", Standing.QUEUED, after=("a",), number=2)
    third = view("c", Standing.QUEUED, after=("b",), number=3)
    marked = {made.entry: made for made in with_dependencies([failed, second, third])}
    assert (marked["b"].standing, marked["b"].reason) == (Standing.HELD, "it comes after a, which is failed")
    assert (marked["c"].standing, marked["c"].reason) == (Standing.HELD, "it comes after b, which is held itself")
    assert one(failed, second, third).start is None
    proven = view("a", Standing.PROVEN, number=1)
    assert one(proven, second, third).start == second


def test_a_task_waits_for_one_that_is_not_done() -> None:
    first, second = view("a", number=1), view("b", Standing.QUEUED, after=("a",), number=2)
    assert with_dependencies([first, second])[1].standing is Standing.WAITS
    assert one(first, second).start == first


def test_a_cycle_written_by_hand_holds_both() -> None:
    first = view("a", Standing.QUEUED, after=("b",), number=1)
    second = view("b", Standing.QUEUED, after=("a",), number=2)
    own = view("c", Standing.QUEUED, after=("c",), number=3)
    assert {made.standing for made in with_dependencies([first, second, own])} == {Standing.HELD}
    assert one(first, second, own).idle


def test_a_thousand_tasks_are_decided_quickly() -> None:
    views = [view(f"t{number}", Standing.QUEUED, number=number) for number in range(1000)]
    assert decide(Situation(views), at()).start == views[0]
