"""The goals of a loop: a structured answer, a plan, a control command or plain text, from calls or text. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pydantic import BaseModel

from reflectloop.agents import plan_text
from reflectloop.agents.answer_models import StepClaim
from reflectloop.agents.backend import AgentRequest
from reflectloop.agents.loop import control
from reflectloop.agents.loop.states import LoopState
from reflectloop.agents.messages import Json, ModelTool, StopReason, ToolCall
from reflectloop.fileops import json_from_text
from reflectloop.terms import Role, dotted

ANSWER = "answer"


class GoalResult(NamedTuple):
    """The result of a reply: the data that ends the loop, or faults for the model to correct."""

    data: Json | None = None
    faults: tuple[str, ...] = ()
    state: LoopState = LoopState.ANSWERED


class Goal(NamedTuple):
    begins: LoopState
    from_text: Callable[[str], GoalResult | None]  # None: the text is not an answer
    from_call: Callable[[ToolCall], GoalResult]
    tools: tuple[ModelTool, ...] = ()
    in_words: str = ""  # the instruction to the model how to end
    when_spent: StopReason = StopReason.INVALID_ANSWER

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)


def goal_for(request: AgentRequest) -> Goal:
    acts = request.act is not None and not request.role.looks_only
    if acts and request.answer in (None, StepClaim):
        return _CONTROL
    if request.answer is not None:
        return _shape(request, request.answer)
    if request.role in (Role.PLANNER, Role.SECOND_PLANNER):
        return _PLAN
    return _PLAIN_TEXT


def _no_call(call: ToolCall) -> GoalResult:
    return GoalResult(None, (f"there is no tool {call.name!r}",))


# A structured answer -------------------------------------------------------------------------------------------------


def _shape(request: AgentRequest, model: type[BaseModel]) -> Goal:
    executes = request.act is not None and not request.role.looks_only
    shape = control.schema(model)
    tool = ModelTool(
        ANSWER, "Give your answer; this ends your part. It is checked against the shape of its parameters.", shape
    )
    return Goal(
        LoopState.EXECUTING if executes else LoopState.ANSWERING,
        from_text=lambda text: _answer_in(text, request, must=not executes),
        from_call=lambda call: GoalResult(None, (call.fault,)) if call.fault else _judged(call.arguments, request),
        tools=(tool,),
        in_words=f"End by calling the tool `{ANSWER}` once, with all its parameters.",
    )


def _judged(data: Json, request: AgentRequest) -> GoalResult:
    faults = request.faults_of(data)
    return GoalResult(None if faults else data, tuple(faults))


def _answer_in(text: str, request: AgentRequest, *, must: bool) -> GoalResult | None:
    """Return the answer in a text, for models that write JSON instead of calling tools; planners may use [PLAN]."""
    if request.role in (Role.PLANNER, Role.SECOND_PLANNER) and (plan := plan_text.parse_plan(text).plan):
        data = plan.model_dump(mode="json")
        if not request.faults_of(data):
            return GoalResult(data)
    keys = frozenset(request.answer.model_fields) if request.answer else frozenset()
    try:
        value, faults = json_from_text.read_object(text.encode("utf-8", "replace"), keys)
    except json_from_text.NoJsonObject as fault:
        return GoalResult(None, (f"no answer was given: the reply {fault.message}",)) if must else None
    if faults:
        return GoalResult(
            None,
            tuple(f"{dotted(fault_in_json.place)}: {fault_in_json.message}" for fault_in_json in faults),
        )
    return _judged(value, request)


# A plan, plain text, control commands --------------------------------------------------------------------------------


def _plan_in(text: str) -> GoalResult:
    reading = plan_text.parse_plan(text)
    return GoalResult(reading.plan.model_dump(mode="json") if reading.plan else None, reading.faults)


def _control_in(text: str) -> GoalResult | None:
    outcome = control.parse_text(text)
    return None if outcome is None else _control_result(*outcome)


def _control_result(data: Json | None, faults: list[str]) -> GoalResult:
    return GoalResult(data, tuple(faults), control.LEADS_TO[data[control.KEY]] if data else LoopState.STOPPED)


_PLAN = Goal(
    LoopState.PLANNING,
    from_text=_plan_in,
    from_call=_no_call,
    in_words="You are PLANNING. End with a plan in exactly this form, each step with its tools:\n" + plan_text.FORM,
    when_spent=StopReason.NEEDS_INPUT,
)
_PLAIN_TEXT = Goal(
    LoopState.ANSWERING,
    from_text=lambda text: GoalResult({}) if text.strip() else GoalResult(None, ("the reply is empty",)),
    from_call=_no_call,
    in_words="End with a reply that calls no tool: it is taken for your answer.",
    when_spent=StopReason.EMPTY,
)
_CONTROL = Goal(
    LoopState.EXECUTING,
    from_text=_control_in,
    from_call=lambda call: _control_result(*control.parse_call(call)),
    tools=control.tools(),
    in_words=(
        "End your part with one control command, as a tool call or as JSON such as "
        '{"control": "step_done", "summary": "…"}: step_done, replan, ask, split, fail or self_check. '
        "step_done only starts the engine's own verification."
    ),
)
