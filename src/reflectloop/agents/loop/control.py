"""The words by which an executor ends its part of a step, as tools and as JSON. They claim; verification decides."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from reflectloop.agents.answer_models import FEWEST, MOST, AnswerModel, PlannedStep, StepClaim, Text
from reflectloop.agents.loop.states import LoopState
from reflectloop.agents.messages import Json, ModelTool, ToolCall
from reflectloop.fileops import json_from_text
from reflectloop.terms import wrong_shape

KEY = "control"
Words = Annotated[str, Field(min_length=1, max_length=20_000)]


class StepDone(AnswerModel):
    """The step is done as far as you can tell. The engine verifies it; nothing is done because you say so."""

    approach: Text = Field(default="", description="how it was done, in a sentence; another one after a failed attempt")
    summary: Text = ""


class Replan(AnswerModel):
    """The plan does not fit what you found."""

    reason: Words


class AskPerson(AnswerModel):
    """Only a person can answer; work stops until they do."""

    question: Words


class Split(AnswerModel):
    """The step is too large; what it should be split into."""

    reason: Words
    substeps: Annotated[tuple[PlannedStep, ...], Field(min_length=FEWEST, max_length=MOST)]


class Fail(AnswerModel):
    """You cannot do the step, and know why."""

    reason: Words


WORDS: dict[str, type[AnswerModel]] = {
    "step_done": StepDone,
    "replan": Replan,
    "ask": AskPerson,
    "split": Split,
    "fail": Fail,
}
LEADS_TO = {
    "step_done": LoopState.VERIFYING,
    "replan": LoopState.REPLANNING,
    "ask": LoopState.NEEDS_INPUT,
    "split": LoopState.REPLANNING,
    "fail": LoopState.STOPPED,
}


def tools() -> tuple[ModelTool, ...]:
    return tuple(ModelTool(name, word.__doc__ or "", schema(word)) for name, word in WORDS.items())


def schema(model: type[BaseModel]) -> Json:
    """Without the titles that are made from names: a model is sent them every turn."""
    made: Json = _untitled(model.model_json_schema())
    made.pop("description", None)
    return made


def _untitled(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        return [_untitled(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _untitled(item) for key, item in value.items() if key != "title" or not isinstance(item, str)}


def of_call(call: ToolCall) -> tuple[Json | None, list[str]]:
    """The outcome a call states, and what is wrong with it."""
    if call.fault:
        return None, [call.fault]
    return _said(call.name, call.arguments)


def of_text(text: str) -> tuple[Json | None, list[str]] | None:
    """The outcome in a text, `{"control": "step_done", …}`; None where there is none."""
    if f'"{KEY}"' not in text:
        return None
    try:
        value, faults = json_from_text.read(text.encode("utf-8", "replace"), frozenset((KEY,)))
    except json_from_text.NoJsonObject as fault:
        return None, [f"the reply {fault.words}"]
    if faults:
        return None, [f"{json_from_text.dotted(one.place)}: {one.words}" for one in faults]
    return of_value(value)


def of_value(value: Json) -> tuple[Json | None, list[str]]:
    """The outcome as one object: keys that its word has no use for may stay empty."""
    name = value.get(KEY)
    if not isinstance(name, str) or name not in WORDS:
        return None, [f"{KEY}: must be one of {', '.join(WORDS)}"]
    wanted = WORDS[name].model_fields
    idle = StepClaim.model_fields.keys() - wanted
    return _said(name, {key: one for key, one in value.items() if key != KEY and (one or key not in idle)})


def _said(name: str, value: Any) -> tuple[Json | None, list[str]]:  # noqa: ANN401 - any JSON value
    try:
        word = WORDS[name].model_validate(value)
    except ValidationError as fault:
        return None, [
            f"{json_from_text.dotted(one['loc']) or name}: {wrong_shape(one['type'], one.get('ctx', {}), one['msg'])}"
            for one in fault.errors()
        ]
    return {KEY: name, **word.model_dump(mode="json", exclude_defaults=True)}, []
