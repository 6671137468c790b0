"""The words by which a model ends its part of a step, as tools and as JSON. They claim; verification decides."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reflectloop.agents.loop.states import State
from reflectloop.agents.talk import Call, Json, Tool
from reflectloop.fileops import reading
from reflectloop.terms import wrong_shape

KEY = "control"
Words = Annotated[str, Field(min_length=1, max_length=20_000)]


class _Word(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StepDone(_Word):
    """The step is done as far as you can tell. The engine verifies it; nothing is done because you say so."""

    summary: Annotated[str, Field(max_length=20_000)] = ""


class Replan(_Word):
    """The plan does not fit what you found."""

    reason: Words


class AskPerson(_Word):
    """Only a person can answer; work stops until they do."""

    question: Words
    options: tuple[Words, ...] = ()


class Split(_Word):
    """The step is too large; what it should be split into."""

    reason: Words
    substeps: Annotated[tuple[Words, ...], Field(min_length=3, max_length=7)]


class Fail(_Word):
    """You cannot do the step, and know why."""

    reason: Words


WORDS: dict[str, type[_Word]] = {
    "step_done": StepDone,
    "replan": Replan,
    "ask": AskPerson,
    "split": Split,
    "fail": Fail,
}
LEADS_TO = {
    "step_done": State.VERIFYING,
    "replan": State.REPLANNING,
    "ask": State.NEEDS_INPUT,
    "split": State.REPLANNING,
    "fail": State.STOPPED,
}


def tools() -> tuple[Tool, ...]:
    return tuple(Tool(name, word.__doc__ or "", schema(word)) for name, word in WORDS.items())


def schema(model: type[BaseModel]) -> Json:
    made = model.model_json_schema()
    made.pop("description", None)
    return made


def of_call(call: Call) -> tuple[Json | None, list[str]]:
    """The control word a call is, and what is wrong with it."""
    if call.fault:
        return None, [call.fault]
    return _said(call.name, call.arguments)


def of_text(text: str) -> tuple[Json | None, list[str]] | None:
    """The control word in a text, `{"control": "step_done", …}`; None where there is none."""
    if f'"{KEY}"' not in text:
        return None
    try:
        value, faults = reading.read(text.encode("utf-8", "replace"), frozenset((KEY,)))
    except reading.Unread as fault:
        return None, [f"the reply {fault.words}"]
    if faults:
        return None, [f"{reading.dotted(one.place)}: {one.words}" for one in faults]
    name = value.pop(KEY)
    if name not in WORDS:
        return None, [f"{KEY}: must be one of {', '.join(WORDS)}"]
    return _said(name, value)


def _said(name: str, value: Any) -> tuple[Json | None, list[str]]:  # noqa: ANN401 - any JSON value
    try:
        word = WORDS[name].model_validate(value)
    except ValidationError as fault:
        return None, [
            f"{reading.dotted(one['loc']) or name}: {wrong_shape(one['type'], one.get('ctx', {}), one['msg'])}"
            for one in fault.errors()
        ]
    return {KEY: name, **word.model_dump(mode="json")}, []
