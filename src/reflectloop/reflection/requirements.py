"""The requirements of an output, read from a requirements file or derived from a contract."""

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
from reflectloop.plan.strict_yaml import YamlDocument
from reflectloop.terms import dotted, wrong_shape

Form = Literal["json", "markdown", "code", "text"]
Name = Annotated[str, Field(min_length=1, max_length=1_000)]
Count = Annotated[StrictInt, Field(ge=1, le=1_000_000)]
_ASKING = ("min_items", "must_have", "must_not_have", "about", "checks", "may_change", "must_not_change", "unshown")


def _counts(value: Any) -> Any:  # noqa: ANN401 - any YAML value
    """Convert a single number to a minimum for all items of the output."""
    return {"": value} if isinstance(value, int) else value


_EITHER = {"anyOf": [{"type": "integer", "minimum": 1}, {"additionalProperties": {"type": "integer", "minimum": 1}}]}


class Requirements(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    goal: Name | None = None
    form: Form | None = None  # by default derived from the file's name
    min_items: Annotated[dict[str, Count], BeforeValidator(_counts), WithJsonSchema(_EITHER)] = {}  # by place
    must_have: tuple[Name, ...] = ()
    must_not_have: tuple[Name, ...] = ()
    about: tuple[Name, ...] = ()  # an output that mentions none of these is off topic
    checks: dict[Name, Check] = {}
    min_quality: Annotated[float, Field(ge=0.5, le=1)] = 0.5
    may_change: tuple[Name, ...] = ()
    must_not_change: tuple[Name, ...] = ()
    unshown: tuple[Name, ...] = ()  # required, but without a check that would show it

    @model_validator(mode="after")
    def _asks_for_something(self) -> Requirements:
        if not any(getattr(self, name) for name in _ASKING):
            raise ValueError("asks for nothing; name min_items, must_have or checks")
        idle = [name for name, check in self.checks.items() if check.run is None]
        if idle:
            raise ValueError(f"check {idle[0]!r} names no command to run")
        return self


def read(document: YamlDocument, place: str) -> Requirements:
    """Read a parsed requirements file; report all faults at once, with their lines."""
    try:
        return Requirements.model_validate(document.value)
    except ValidationError as refused:
        faults = tuple(_fault(error, document) for error in refused.errors())
    raise InvalidInput(
        f"{place} has {len(faults)} fault(s)", next_step=f"correct {place}; see docs/reflection.md", faults=faults
    )


def _fault(error: Any, document: YamlDocument) -> Fault:  # noqa: ANN401 - pydantic's mapping
    path = tuple(error["loc"])
    message = wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
    if error["type"] == "extra_forbidden":
        known = Requirements.model_fields if len(path) == 1 else Check.model_fields
        message = f"unknown key; known here: {', '.join(known)}"
    return Fault(dotted(path), document.line(path), message, InvalidInput.code)


def of_contract(contract: Contract, known: Mapping[str, Check]) -> Requirements:
    """Return the requirements of a contract; `known` are the project's checks by name."""
    named = {
        f"claimed {number}": Check(run=criterion.command)
        for number, criterion in enumerate(contract.tests_run or (), 1)
    }
    if contract.reproduction and contract.reproduction.run:
        named["reproduction"] = Check(run=contract.reproduction.run)
    unshown = []
    for criterion in contract.acceptance or ():
        if criterion.check and criterion.check in known:
            named[f"{criterion.id} {criterion.text}"] = known[criterion.check]
        else:
            unshown.append(f"{criterion.id} {criterion.text}")
    values = {
        "goal": (contract.goal or "")[:1_000] or None,
        "checks": {name[:1_000]: check for name, check in named.items()},
        "may_change": contract.may_change or (),
        "must_not_change": contract.must_not_change or (),
        "unshown": [text[:1_000] for text in unshown],
    }
    try:
        return Requirements.model_validate(values)
    except ValidationError as refused:
        raise InvalidInput(
            "the contract requires nothing that can be checked in an output",
            next_step="add acceptance, tests_run or may_change to it, or name a requirements file",
        ) from refused
