"""TriFlow v3, lines 21 and 151: two designs are made independently and at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reflectloop.agents.backend import AgentRequest, Probe, Reply
from reflectloop.engine.steps import agent_pool
from reflectloop.errors import AgentFailed
from reflectloop.terms import Role
from scripted_task import DESIGN, Crew
from support import Repo

_PATIENCE_S = 60  # only a planner that is asked alone waits so long


class _Planners:
    """A backend for both planners; each answers when the other one was asked too."""

    name = "script"

    def __init__(self, look: Callable[[AgentRequest], object] = lambda _request: None) -> None:
        self.look, self.meeting, self.places = look, threading.Barrier(2), {}  # type: ignore[var-annotated]

    def probe(self) -> Probe:
        return Probe()

    def run(self, request: AgentRequest) -> Reply:
        if request.role in (Role.PLANNER, Role.SECOND_PLANNER) and request.attempt == 1:
            self.places[request.role] = request.box.workspace.repo
            self.meeting.wait(_PATIENCE_S)
            self.look(request)
        return Reply("ok", data=DESIGN)


def _asked(repo: Repo, monkeypatch: pytest.MonkeyPatch, planners: _Planners) -> Crew:
    monkeypatch.setattr(agent_pool, "bind", lambda *_: planners)
    return Crew(repo).plays(roles="planner second_planner executor reviewer")


def test_line_151_two_planners_are_asked_at_the_same_time_in_workspaces_of_their_own(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    planners = _Planners()
    planned = _asked(repo, monkeypatch, planners).plan()
    assert planned.task_id
    assert planners.places[Role.PLANNER] != planners.places[Role.SECOND_PLANNER]
    assert not any(place.exists() for place in planners.places.values() if place.parent.name.endswith(".1"))


def test_line_21_who_changes_a_file_while_both_look_is_refused_alone(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(request: AgentRequest) -> None:
        if request.role is Role.SECOND_PLANNER:
            Path(request.box.workspace.repo / "calc.py").write_text("pass\n")

    crew = _asked(repo, monkeypatch, _Planners(write))
    with pytest.raises(AgentFailed, match=r"second_planner.*was to look only, and changed .*calc.py"):
        crew.plan()


def test_line_151_the_usage_of_both_is_counted(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = _asked(repo, monkeypatch, _Planners())
    crew.plan()
    assert (len(crew.asked("planner")), len(crew.asked("second_planner"))) == (1, 1)


def test_line_151_with_a_budget_one_planner_waits_for_the_other(repo: Repo) -> None:
    crew = Crew(repo).plays(
        {"role": "second_planner", "answer": DESIGN},
        roles="planner second_planner executor reviewer",
        settings="[cost]\ntokens = 100000\n",
    )
    assert crew.plan().rounds == 0
