"""What an output must be, as one value: read from a file of requirements, or taken from a contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from reflectloop.errors import Fault, InvalidInput
from reflectloop.gates.contract import Contract
from reflectloop.plan.model import Check
from reflectloop.plan.strict_yaml import Document, dotted
from reflectloop.terms import wrong_shape

Form = Literal["json", "markdown", "code", "text"]
Name = Annotated[str, Field(min_length=1, max_length=1_000)]
Count = Annotated[StrictInt, Field(ge=1, le=1_000_000)]
_ASKING = ("min_items", "must_have", "must_not_have", "about", "checks", "may_change", "must_not_change", "unshown")


def _counts(value: Any) -> Any:  # noqa: ANN401 - any YAML may stand here
    """One number alone is that of the output's items, wherever they lie."""
    return {"": value} if isinstance(value, int) else value


_EITHER = {"anyOf": [{"type": "integer", "minimum": 1}, {"additionalProperties": {"type": "integer", "minimum": 1}}]}


class Requirements(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    goal: Name | None = None
    form: Form | None = None  # told from the file's name where it is not said
    min_items: Annotated[dict[str, Count], BeforeValidator(_counts), WithJsonSchema(_EITHER)] = {}  # by place
    must_have: tuple[Name, ...] = ()
    must_not_have: tuple[Name, ...] = ()
    about: tuple[Name, ...] = ()  # an output in which none of these occurs is about something else
    checks: dict[Name, Check] = {}
    min_quality: Annotated[float, Field(ge=0.5, le=1)] = 0.5
    may_change: tuple[Name, ...] = ()
    must_not_change: tuple[Name, ...] = ()
    unshown: tuple[Name, ...] = ()  # asked for, and nothing is named that would show it

    @model_validator(mode="after")
    def _asks_for_something(self) -> Requirements:
        if not any(getattr(self, name) for name in _ASKING):
            raise ValueError("asks for nothing; name min_items, must_have or checks")
        idle = [name for name, check in self.checks.items() if check.run is None]
        if idle:
            raise ValueError(f"check {idle[0]!r} names no command to run")
        return self


def read(document: Document, place: str) -> Requirements:
    """A file of requirements as it was parsed; every fault at once, with its line."""
    try:
        return Requirements.model_validate(document.value)
    except ValidationError as refused:
        faults = tuple(_fault(one, document) for one in refused.errors())
    raise InvalidInput(
        f"{place} has {len(faults)} fault(s)", next_step=f"correct {place}; see docs/reflection.md", faults=faults
    )


def _fault(error: Any, document: Document) -> Fault:  # noqa: ANN401 - pydantic's own mapping
    path = tuple(error["loc"])
    message = wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
    if error["type"] == "extra_forbidden":
        known = Requirements.model_fields if len(path) == 1 else Check.model_fields
        message = f"unknown key; known here: {', '.join(known)}"
    return Fault(dotted(path), document.line(path), message, InvalidInput.code)


def of_contract(contract: Contract, known: Mapping[str, Check]) -> Requirements:
    """What a contract asks of its output; `known` are the project's own checks by name."""
    named = {f"claimed {number}": Check(run=one.command) for number, one in enumerate(contract.tests_run or (), 1)}
    if contract.reproduction and contract.reproduction.run:
        named["reproduction"] = Check(run=contract.reproduction.run)
    unshown = []
    for one in contract.acceptance or ():
        if one.check and one.check in known:
            named[f"{one.id} {one.text}"] = known[one.check]
        else:
            unshown.append(f"{one.id} {one.text}")
    asked = {
        "goal": (contract.goal or "")[:1_000] or None,
        "checks": {name[:1_000]: check for name, check in named.items()},
        "may_change": contract.may_change or (),
        "must_not_change": contract.must_not_change or (),
        "unshown": [text[:1_000] for text in unshown],
    }
    try:
        return Requirements.model_validate(asked)
    except ValidationError as refused:
        raise InvalidInput(
            "the contract asks for nothing that can be looked at in an output",
            next_step="give it acceptance, tests_run or may_change, or name a file of requirements",
        ) from refused


def schema() -> dict[str, Any]:
    """The JSON Schema of a file of requirements."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Requirements.model_json_schema()}
