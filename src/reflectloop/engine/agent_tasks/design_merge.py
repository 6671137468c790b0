"""Two designs, made by two planners who do not see each other's, and how one is made of them in three rounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from pydantic import BaseModel

from reflectloop.agents.answer_models import Agreement
from reflectloop.engine.steps import prompts
from reflectloop.engine.steps.agent_pool import AgentCall, AgentPool
from reflectloop.system import files
from reflectloop.terms import Role, shorten

MOST_ROUNDS = 3
Design = TypeVar("Design", bound=BaseModel)


class AgreedDesign(NamedTuple, Generic[Design]):
    """The design to work by; None where two planners could not agree, and a person must choose."""

    design: Design | None
    rounds: int = 0
    first: Design | None = None
    second: Design | None = None
    differences: tuple[str, ...] = ()
    objections: tuple[str, ...] = ()


class Subject(NamedTuple):
    """The thing that is designed, and the folder of its files."""

    what: str
    folder: Path
    step: str = ""
    attempt: int = 1


def settle(pool: AgentPool, shape: type[Design], subject: Subject, brief: Callable[[], str]) -> AgreedDesign[Design]:
    """Ask the planner for a design. If there is a second planner, merge both designs until both agree."""
    subject.folder.mkdir(parents=True, exist_ok=True)
    prompt = brief()  # the same for both
    if not pool.has(Role.SECOND_PLANNER):
        first = _asked(pool, shape, subject, Role.PLANNER, prompt)
        return AgreedDesign(_write(subject, "design", first), 0, first)
    calls = [_call(shape, subject, role, prompt) for role in (Role.PLANNER, Role.SECOND_PLANNER)]
    first, second = (shape.model_validate(reply.data) for reply in pool.need_both(calls[0], calls[1]))
    _write(subject, "design-first", first)
    _write(subject, "design-second", second)
    differing = differences(first, second)
    if not differing:
        return AgreedDesign(_write(subject, "design", first), 0, first, second)
    return _merged(pool, shape, subject, first, second, differing)


def _merged(
    pool: AgentPool, shape: type[Design], subject: Subject, first: Design, second: Design, differing: list[str]
) -> AgreedDesign[Design]:
    objections: tuple[str, ...] = ()
    for number in range(1, MOST_ROUNDS + 1):
        prompt = prompts.merge(subject.what, first, second, differing, objections)
        merged = _asked(pool, shape, subject, Role.PLANNER, prompt, f"merge-{number}")
        asked = prompts.agree(subject.what, second, merged)
        agreement = _asked(pool, Agreement, subject, Role.SECOND_PLANNER, asked, f"agree-{number}")
        _write(subject, f"design-merged-{number}", merged)
        if agreement.agree:
            return AgreedDesign(_write(subject, "design", merged), number, first, second, tuple(differing))
        objections = agreement.objections or ("it was not agreed to, and no reason was given",)
    return AgreedDesign(None, MOST_ROUNDS, first, second, tuple(differing), objections)


_Answer = TypeVar("_Answer", bound=BaseModel)


def _asked(
    pool: AgentPool, shape: type[_Answer], subject: Subject, role: Role, prompt: str, label: str = ""
) -> _Answer:
    return shape.model_validate(pool.need(_call(shape, subject, role, prompt, label)).data)


def _call(shape: type[BaseModel], subject: Subject, role: Role, prompt: str, label: str = "") -> AgentCall:
    return AgentCall(role, prompt, shape, subject.folder, subject.step, subject.attempt, label=label)


def _write(subject: Subject, name: str, design: Design) -> Design:
    text = json.dumps(design.model_dump(mode="json"), indent=2, ensure_ascii=False)
    files.write_atomic(subject.folder / f"{name}.json", text + "\n")
    return design


def differences(first: BaseModel, second: BaseModel) -> list[str]:
    """Return the fields in which two designs differ by more than their spacing."""
    left, right = first.model_dump(mode="json"), second.model_dump(mode="json")
    return [
        f"{name}: {_short(left[name])} / {_short(right[name])}"
        for name in left
        if _plain(left[name]) != _plain(right[name])
    ]


def _plain(value: object) -> str:
    return " ".join(json.dumps(value, sort_keys=True, ensure_ascii=False).casefold().split())


def _short(value: object) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), 160)
