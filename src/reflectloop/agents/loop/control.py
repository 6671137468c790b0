"""The control commands that end an executor's work on a step, as tools and as JSON. They are claims, not proof."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from reflectloop.agents.answer_models import FEWEST, MOST, AnswerModel, PlannedStep, StepClaim, Text
from reflectloop.agents.loop.states import LoopState
from reflectloop.agents.messages import Json, ModelTool, ToolCall
from reflectloop.fileops import json_from_text
from reflectloop.terms import dotted, wrong_shape

KEY = "control"
NonEmptyText = Annotated[str, Field(min_length=1, max_length=20_000)]


class StepDone(AnswerModel):
    """The step is done as far as you can tell. The engine verifies it; your claim alone does not finish the step."""

    approach: Text = Field(default="", description="how it was done, in a sentence; another one after a failed attempt")
    summary: Text = ""


class Replan(AnswerModel):
    """The plan does not fit the project as it is."""

    reason: NonEmptyText


class AskPerson(AnswerModel):
    """A question that only a person can answer; work stops until they do."""

    question: NonEmptyText


class Split(AnswerModel):
    """The step is too large; list the parts it should be split into."""

    reason: NonEmptyText
    substeps: Annotated[tuple[PlannedStep, ...], Field(min_length=FEWEST, max_length=MOST)]


class Fail(AnswerModel):
    """You cannot do the step, and know why."""

    reason: NonEmptyText


class SelfCheck(AnswerModel):
    """You looked at your own result and found a fault; it is reflected on before the next attempt."""

    reason: NonEmptyText


WORDS: dict[str, type[AnswerModel]] = {
    "step_done": StepDone,
    "replan": Replan,
    "ask": AskPerson,
    "split": Split,
    "fail": Fail,
    "self_check": SelfCheck,
}
LEADS_TO = {
    "step_done": LoopState.VERIFYING,
    "replan": LoopState.REPLANNING,
    "ask": LoopState.NEEDS_INPUT,
    "split": LoopState.REPLANNING,
    "fail": LoopState.STOPPED,
    "self_check": LoopState.STOPPED,
}


def tools() -> tuple[ModelTool, ...]:
    return tuple(ModelTool(name, word.__doc__ or "", schema(word)) for name, word in WORDS.items())


def schema(model: type[BaseModel]) -> Json:
    """Return a model's schema without generated titles, to save tokens in every turn."""
    made: Json = _untitled(model.model_json_schema())
    made.pop("description", None)
    return made


def _untitled(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        return [_untitled(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _untitled(item) for key, item in value.items() if key != "title" or not isinstance(item, str)}


def parse_call(call: ToolCall) -> tuple[Json | None, list[str]]:
    """Return the outcome that a call states, and its faults."""
    if call.fault:
        return None, [call.fault]
    return _validated(call.name, call.arguments)


def parse_text(text: str) -> tuple[Json | None, list[str]] | None:
    """Return the outcome in a text, such as `{"control": "step_done", …}`, or None if there is none."""
    if f'"{KEY}"' not in text:
        return None
    try:
        value, faults = json_from_text.read_object(text.encode("utf-8", "replace"), frozenset((KEY,)))
    except json_from_text.NoJsonObject as fault:
        return None, [f"the reply {fault.message}"]
    if faults:
        return None, [f"{dotted(fault_in_json.place)}: {fault_in_json.message}" for fault_in_json in faults]
    return parse_value(value)


def parse_value(value: Json) -> tuple[Json | None, list[str]]:
    """Return the outcome in an object; empty keys that its control command does not have are ignored."""
    name = value.get(KEY)
    if not isinstance(name, str) or name not in WORDS:
        return None, [f"{KEY}: must be one of {', '.join(WORDS)}"]
    fields = WORDS[name].model_fields
    unused = StepClaim.model_fields.keys() - fields
    return _validated(name, {key: item for key, item in value.items() if key != KEY and (item or key not in unused)})


def _validated(name: str, value: Any) -> tuple[Json | None, list[str]]:  # noqa: ANN401 - any JSON value
    try:
        word = WORDS[name].model_validate(value)
    except ValidationError as fault:
        return None, [
            f"{dotted(it['loc']) or name}: {wrong_shape(it['type'], it.get('ctx', {}), it['msg'])}"
            for it in fault.errors()
        ]
    return {KEY: name, **word.model_dump(mode="json", exclude_defaults=True)}, []
