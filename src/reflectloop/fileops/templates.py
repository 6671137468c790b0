"""Request templates with typed placeholders: a list stays a list, and no value is inserted into shell text."""

from __future__ import annotations

import importlib.resources
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, JsonValue, ValidationError

from reflectloop.errors import Fault, InvalidInput, NothingToDo
from reflectloop.fileops import json_from_text, validate
from reflectloop.fileops.json_from_text import NoJsonObject, Place
from reflectloop.fileops.plan_ops import PlanOpModel
from reflectloop.fileops.request import FileopsRequest
from reflectloop.fileops.validate import Invalid
from reflectloop.system.patterns import lazy
from reflectloop.terms import closest, dotted

_GAP = lazy(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}")
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash", "eval"))
_ABSENT = "\0absent"
Kind = Literal["text", "number", "boolean", "list", "object", "any"]
_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "object": (dict,),
}


class Placeholder(PlanOpModel):
    type: Kind
    about: Annotated[str, Field(min_length=1)]
    source: Annotated[str, Field(min_length=1)] = Field(description="where its value comes from")
    default: JsonValue = _ABSENT

    @property
    def required(self) -> bool:
        return self.default == _ABSENT


class _Meta(PlanOpModel):
    about: Annotated[str, Field(min_length=1)]
    placeholders: dict[str, Placeholder]


class Template(NamedTuple):
    name: str
    about: str
    gaps: Mapping[str, Placeholder]
    body: dict[str, Any]


def names() -> list[str]:
    return sorted(item.name.removesuffix(".json") for item in _builtin_files() if item.name.endswith(".json"))


def _builtin_files() -> Iterator[Any]:
    yield from importlib.resources.files("reflectloop.fileops").joinpath("templates").iterdir()


def readme() -> str:
    """Return the page on how to use the templates."""
    return next(str(item.read_text(encoding="utf-8")) for item in _builtin_files() if item.name == "README.md")


def load(name: str) -> Template:
    known = names()
    if name not in known:
        close = closest(name, known)
        hint = f"did you mean '{close}'?" if close else f"known: {', '.join(known)}"
        raise NothingToDo(f"there is no template {name!r}; {hint}", next_step="reflectloop template --list")
    return parse_template(name, source(name).encode())


def source(name: str) -> str:
    """Return the text of a built-in template."""
    return next(str(item.read_text(encoding="utf-8")) for item in _builtin_files() if item.name == f"{name}.json")


def parse_template(name: str, raw: bytes) -> Template:
    """Parse a template, or raise InvalidInput with all its faults."""
    try:
        body, json_faults = json_from_text.read_object(raw, frozenset(("_meta",)))
        meta = _Meta.model_validate(body.pop("_meta"))
    except (NoJsonObject, ValidationError) as fault:
        raise InvalidInput(f"template {name!r} cannot be read: {fault}") from fault
    template = Template(name, meta.about, meta.placeholders, body)
    faults = [
        Fault(dotted(place), None, message, InvalidInput.code) for place, message in (*json_faults, *_faults(template))
    ]
    if faults:
        raise InvalidInput(f"template {name!r} has {len(faults)} fault(s)", faults=tuple(faults))
    return template


def _faults(template: Template) -> Iterator[tuple[Place, str]]:
    used: set[str] = set()
    for place, text in _texts((), template.body):
        names = _GAP.findall(text)
        used.update(names)
        for gap in names:
            kind = template.gaps[gap].type if gap in template.gaps else None
            if kind is None:
                yield place, f"{{{{{gap}}}}} is not among _meta.placeholders"
            elif kind != "text" and text != f"{{{{{gap}}}}}":
                yield place, f"{{{{{gap}}}}} is not a text, so it must be the only content of its string"
    for gap in template.gaps.keys() - used:
        yield ("_meta", "placeholders", gap), "is not used"
    ops = template.body.get("ops")
    for number, op in enumerate(ops if isinstance(ops, list) else []):
        if isinstance(op, dict) and op.get("op") == "run" and _splices(op.get("cmd"), template.gaps):
            yield ("ops", number, "cmd"), "a value would become shell text; write the command as a list of arguments"


def _splices(command: Any, gaps: Mapping[str, Placeholder]) -> bool:  # noqa: ANN401 - any JSON value
    if isinstance(command, str):
        placeholder = _GAP.fullmatch(command)
        whole_list = placeholder is not None and placeholder[1] in gaps and gaps[placeholder[1]].type == "list"
        return bool(_GAP.search(command)) and not whole_list
    argv = [argument for argument in command if isinstance(argument, str)] if isinstance(command, list) else []
    if not argv or posixpath.basename(argv[0]) not in _SHELLS:
        return False
    script = next((number for number, argument in enumerate(argv) if re.fullmatch(r"-[a-z]*c", argument)), None)
    return any(_GAP.search(argument) for argument in argv[: 2 if script is None else script + 2])


def _texts(place: Place, value: Any) -> Iterator[tuple[Place, str]]:  # noqa: ANN401
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts((*place, number), item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts((*place, key), item)


# Filling -----------------------------------------------------------------------------------------------------------


def fill_template(template: Template, values: Mapping[str, JsonValue]) -> FileopsRequest:
    """Return the request that a template and these values produce."""
    try:
        return validate.check(fill_body(template, values), strict=True)
    except Invalid as fault:
        errors = fault.response.errors
        faults = tuple(Fault(error.field, None, error.error, InvalidInput.code) for error in errors)
        raise InvalidInput(f"template {template.name!r} with these values: {fault}", faults=faults) from fault


def fill_body(template: Template, values: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the object that a template and these values produce, whatever it is for."""
    problems = [*_missing(template, values), *_misfits(template, values)]
    if problems:
        faults = tuple(Fault(key, None, message, InvalidInput.code) for key, message in problems)
        raise InvalidInput(
            f"template {template.name!r}: {'; '.join(f'{key}: {message}' for key, message in problems)}",
            faults=faults,
            next_step=f"reflectloop template {template.name} --list",
        )
    filled: dict[str, Any] = _put(
        template.body, {key: values.get(key, gap.default) for key, gap in template.gaps.items()}
    )
    return filled


def _missing(template: Template, values: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    for key, gap in template.gaps.items():
        if gap.required and key not in values:
            yield key, f"is missing ({gap.type}: {gap.about})"


def _misfits(template: Template, values: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        gap = template.gaps.get(key)
        if gap is None:
            close = closest(key, template.gaps)
            yield key, f"did you mean '{close}'?" if close else f"is unknown; known: {', '.join(template.gaps)}"
        elif gap.type != "any" and not _is(value, gap.type):
            yield key, f"must be a {gap.type}" if gap.type != "text" else "must be text"


def _is(value: JsonValue, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _put(value: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Replace the placeholders in every text of the template; inserted values are not searched again."""
    if isinstance(value, str):
        alone = _GAP.fullmatch(value)
        return values[alone[1]] if alone else _GAP.sub(lambda gap: values[gap[1]], value)
    if isinstance(value, list):
        return [_put(item, values) for item in value]
    if isinstance(value, dict):
        return {key: _put(item, values) for key, item in value.items()}
    return value


def parse_values(template: Template, arguments: Iterable[str]) -> dict[str, JsonValue]:
    """Parse `key=value` arguments: as text where the placeholder is text, else as JSON if possible."""
    values: dict[str, JsonValue] = {}
    for argument in arguments:
        key, equals, text = argument.partition("=")
        if not equals or key in values:
            raise InvalidInput(
                f"{argument[:80]!r} is not one key=value", next_step=f"reflectloop template {template.name}"
            )
        gap = template.gaps.get(key)
        values[key] = text if gap and gap.type == "text" else _looks_like(text)
    return values


def _looks_like(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value
