"""PlanPatch: a plan changes whole, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflectloop.errors import InvalidPlan
from reflectloop.plan.change import PlanPatch, apply
from reflectloop.plan.model import Plan

PLAN = Plan.model_validate(
    {
        "title": "T",
        "steps": [
            {"id": "a", "commands": ["one"]},
            {"id": "b", "commands": ["two"], "depends_on": ["a"]},
            {"id": "c", "commands": ["three"], "depends_on": ["a"]},
        ],
    }
)


def change(**parts: Any) -> Plan:
    return apply(PLAN, PlanPatch.model_validate(parts), done={"a"})


def test_steps_are_removed_updated_and_added() -> None:
    new = change(
        remove=["c"],
        update=[{"id": "b", "commands": ["other"], "timeout_s": 5}],
        add=[{"id": "d", "commands": ["four"], "depends_on": ["b"]}],
    )
    assert [step.id for step in new.steps] == ["a", "b", "d"]
    assert new.steps[1].commands == ("other",)
    assert new.steps[1].depends_on == ("a",)
    assert new.hash != PLAN.hash


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "the patch is empty"),
        ({"remove": ["a"]}, "done and stays"),
        ({"update": [{"id": "a", "commands": ["x"]}]}, "done and stays"),
        ({"remove": ["z"]}, "no step 'z'"),
        ({"update": [{"id": "z", "title": "x"}]}, "no step 'z'"),
        ({"update": [{"id": "b"}]}, "empty update"),
        ({"add": [{"id": "b", "commands": ["x"]}]}, "already exists"),
        ({"remove": ["b"], "update": [{"id": "b", "title": "x"}]}, "removed and updated"),
        ({"remove": ["b", "b"]}, "named twice"),
        ({"add": [{"id": "d", "commands": ["x"], "depends_on": ["nope"]}]}, "no step 'nope'"),
        ({"update": [{"id": "b", "depends_on": ["c"]}, {"id": "c", "depends_on": ["b"]}]}, "wait for each other"),
        ({"update": [{"id": "b", "comands": ["x"]}]}, "did you mean 'commands'"),
        ({"update": [{"id": "b", "cwd": ".."}]}, "leads out"),
    ],
)
def test_an_impossible_change_is_refused_completely(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidPlan) as refused:
        change(**parts)
    assert any(words in fault.message for fault in refused.value.faults), refused.value.faults


@given(st.sets(st.sampled_from("abc")), st.sets(st.sampled_from("abcd")))
def test_done_steps_are_unchanged_by_every_patch(remove: set[str], update: set[str]) -> None:
    try:
        new = change(remove=sorted(remove), update=[{"id": name, "title": "new"} for name in sorted(update)])
    except InvalidPlan:
        return
    assert new.steps[0] == PLAN.steps[0]
