"""What would end a loop: an answer of a shape, a plan, a control word or plain words, in calls or text. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reflectloop.agents import plan_text
from reflectloop.agents.answer_models import StepClaim
from reflectloop.agents.backend import AgentRequest
from reflectloop.agents.loop import control
from reflectloop.agents.loop.states import LoopState
from reflectloop.agents.messages import Json, ModelTool, StopReason, ToolCall
from reflectloop.fileops import json_from_text
from reflectloop.terms import Role

ANSWER = "answer"


class GoalResult(NamedTuple):
    """What a reply came to: an end, or faults to be put right."""

    data: Json | None = None
    faults: tuple[str, ...] = ()
    state: LoopState = LoopState.ANSWERED


class Goal(NamedTuple):
    begins: LoopState
    of_text: Callable[[str], GoalResult | None]  # None: the text is no try at it
    of_call: Callable[[ToolCall], GoalResult]
    tools: tuple[ModelTool, ...] = ()
    in_words: str = ""  # what the model is told of how to end
    when_spent: StopReason = StopReason.INVALID_ANSWER

    @property
    def names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.tools)


def of(asking: AgentRequest) -> Goal:
    acts = asking.act is not None and not asking.role.looks_only
    if acts and asking.answer in (None, StepClaim):
        return _CONTROL
    if asking.answer is not None:
        return _shape(asking)
    if asking.role in (Role.PLANNER, Role.SECOND_PLANNER):
        return _PLAN
    return _WORDS


def _no_call(call: ToolCall) -> GoalResult:
    return GoalResult(None, (f"there is no tool {call.name!r}",))


# An answer of a shape ------------------------------------------------------------------------------------------------


def _shape(asking: AgentRequest) -> Goal:
    executes = asking.act is not None and not asking.role.looks_only
    assert asking.answer is not None  # noqa: S101 - whoever calls has looked
    shape = control.schema(asking.answer)
    tool = ModelTool(
        ANSWER, "Give your answer; this ends your part. It is checked against the shape of its parameters.", shape
    )
    return Goal(
        LoopState.EXECUTING if executes else LoopState.ANSWERING,
        of_text=lambda text: _answer_in(text, asking, must=not executes),
        of_call=lambda call: GoalResult(None, (call.fault,)) if call.fault else _judged(call.arguments, asking),
        tools=(tool,),
        in_words=f"End by calling the tool `{ANSWER}` once, with all its parameters.",
    )


def _judged(data: Json, asking: AgentRequest) -> GoalResult:
    faults = asking.faults_of(data)
    return GoalResult(None if faults else data, tuple(faults))


def _answer_in(text: str, asking: AgentRequest, *, must: bool) -> GoalResult | None:
    """Models without a hand for tools write their answer as JSON; planners may use the plan form."""
    if asking.role in (Role.PLANNER, Role.SECOND_PLANNER) and (plan := plan_text.read(text).plan):
        data = plan.model_dump(mode="json")
        if not asking.faults_of(data):
            return GoalResult(data)
    wanted = frozenset(asking.answer.model_fields) if asking.answer else frozenset()
    try:
        value, faults = json_from_text.read(text.encode("utf-8", "replace"), wanted)
    except json_from_text.NoJsonObject as fault:
        return GoalResult(None, (f"no answer was given: the reply {fault.words}",)) if must else None
    if faults:
        return GoalResult(None, tuple(f"{json_from_text.dotted(one.place)}: {one.words}" for one in faults))
    return _judged(value, asking)


# A plan, plain words, control words ----------------------------------------------------------------------------------


def _plan_in(text: str) -> GoalResult:
    found = plan_text.read(text)
    return GoalResult(found.plan.model_dump(mode="json") if found.plan else None, found.faults)


def _control_in(text: str) -> GoalResult | None:
    said = control.of_text(text)
    return None if said is None else _led(*said)


def _led(data: Json | None, faults: list[str]) -> GoalResult:
    return GoalResult(data, tuple(faults), control.LEADS_TO[data[control.KEY]] if data else LoopState.STOPPED)


_PLAN = Goal(
    LoopState.PLANNING,
    of_text=_plan_in,
    of_call=_no_call,
    in_words="You are PLANNING. End with a plan in exactly this form, each step with its tools:\n" + plan_text.FORM,
    when_spent=StopReason.NEEDS_INPUT,
)
_WORDS = Goal(
    LoopState.ANSWERING,
    of_text=lambda text: GoalResult({}) if text.strip() else GoalResult(None, ("the reply is empty",)),
    of_call=_no_call,
    in_words="End with a reply that calls no tool: it is taken for your answer.",
    when_spent=StopReason.EMPTY,
)
_CONTROL = Goal(
    LoopState.EXECUTING,
    of_text=_control_in,
    of_call=lambda call: _led(*control.of_call(call)),
    tools=control.tools(),
    in_words=(
        "End your part with one control word, as a tool call or as JSON such as "
        '{"control": "step_done", "summary": "…"}: step_done, replan, ask, split or fail. '
        "step_done only starts the engine's own verification."
    ),
)
