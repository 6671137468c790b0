"""Requests with gaps: each gap has a type, a list stays a list, and nothing is ever spliced into shell text."""

from __future__ import annotations

import difflib
import importlib.resources
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, JsonValue, ValidationError

from reflectloop.errors import Fault, InvalidInput, NothingToDo
from reflectloop.fileops import json_from_text, validate
from reflectloop.fileops.json_from_text import NoJsonObject, Place, dotted
from reflectloop.fileops.plan_ops import PlanOpModel
from reflectloop.fileops.request import FileopsRequest
from reflectloop.fileops.validate import Invalid

_GAP = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}")
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
    return sorted(item.name.removesuffix(".json") for item in _shipped() if item.name.endswith(".json"))


def _shipped() -> Iterator[Any]:
    yield from importlib.resources.files("reflectloop.fileops").joinpath("templates").iterdir()


def load(name: str) -> Template:
    known = names()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(known)}"
        raise NothingToDo(f"there is no template {name!r}; {hint}", next_step="reflectloop template --list")
    return read(name, next(item.read_bytes() for item in _shipped() if item.name == f"{name}.json"))


def read(name: str, raw: bytes) -> Template:
    """A template out of its text; what is wrong with it is said at once, before any value is put in."""
    try:
        body, found = json_from_text.read(raw, frozenset(("_meta",)))
        meta = _Meta.model_validate(body.pop("_meta"))
    except (NoJsonObject, ValidationError) as fault:
        raise InvalidInput(f"template {name!r} cannot be read: {fault}") from fault
    template = Template(name, meta.about, meta.placeholders, body)
    faults = [Fault(dotted(place), None, words, InvalidInput.code) for place, words in (*found, *_faults(template))]
    if faults:
        raise InvalidInput(f"template {name!r} has {len(faults)} fault(s)", faults=tuple(faults))
    return template


def _faults(template: Template) -> Iterator[tuple[Place, str]]:
    used: set[str] = set()
    for place, text in _texts((), template.body):
        held = _GAP.findall(text)
        used.update(held)
        for gap in held:
            kind = template.gaps[gap].type if gap in template.gaps else None
            if kind is None:
                yield place, f"{{{{{gap}}}}} is not among _meta.placeholders"
            elif kind != "text" and text != f"{{{{{gap}}}}}":
                yield place, f"{{{{{gap}}}}} is no text, and so stands alone or not at all"
    for gap in template.gaps.keys() - used:
        yield ("_meta", "placeholders", gap), "is not used"
    ops = template.body.get("ops")
    for number, op in enumerate(ops if isinstance(ops, list) else []):
        if isinstance(op, dict) and op.get("op") == "run" and _splices(op.get("cmd"), template.gaps):
            yield ("ops", number, "cmd"), "a value would become shell text; write the command as a list of words"


def _splices(command: Any, gaps: Mapping[str, Placeholder]) -> bool:  # noqa: ANN401 - whatever a template holds
    if isinstance(command, str):
        held = _GAP.fullmatch(command)
        whole_list = held is not None and held[1] in gaps and gaps[held[1]].type == "list"
        return bool(_GAP.search(command)) and not whole_list
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if not words or posixpath.basename(words[0]) not in _SHELLS:
        return False
    script = next((number for number, word in enumerate(words) if re.fullmatch(r"-[a-z]*c", word)), None)
    return any(_GAP.search(word) for word in words[: 2 if script is None else script + 2])


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


def fill(name: str, values: Mapping[str, JsonValue]) -> FileopsRequest:
    """The request that a shipped template and these values make."""
    return filled(load(name), values)


def filled(template: Template, values: Mapping[str, JsonValue]) -> FileopsRequest:
    wrong = [*_missing(template, values), *_misfits(template, values)]
    if wrong:
        faults = tuple(Fault(key, None, words, InvalidInput.code) for key, words in wrong)
        raise InvalidInput(
            f"template {template.name!r}: {'; '.join(f'{key}: {words}' for key, words in wrong)}",
            faults=faults,
            next_step=f"reflectloop template {template.name} --list",
        )
    given = {key: values.get(key, gap.default) for key, gap in template.gaps.items()}
    try:
        return validate.check(_put(template.body, given), strict=True)
    except Invalid as fault:
        errors = fault.response.errors
        faults = tuple(Fault(one.field, None, one.error, InvalidInput.code) for one in errors)
        raise InvalidInput(f"template {template.name!r} with these values: {fault}", faults=faults) from fault


def _missing(template: Template, values: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    for key, gap in template.gaps.items():
        if gap.required and key not in values:
            yield key, f"is missing ({gap.type}: {gap.about})"


def _misfits(template: Template, values: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        gap = template.gaps.get(key)
        if gap is None:
            close = difflib.get_close_matches(key, template.gaps, n=1, cutoff=0.5)
            yield key, f"did you mean '{close[0]}'?" if close else f"is unknown; known: {', '.join(template.gaps)}"
        elif gap.type != "any" and not _is(value, gap.type):
            yield key, f"must be a {gap.type}" if gap.type != "text" else "must be text"


def _is(value: JsonValue, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])


def _put(value: Any, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Once over every text of the template; what is put in is not looked at again."""
    if isinstance(value, str):
        alone = _GAP.fullmatch(value)
        return given[alone[1]] if alone else _GAP.sub(lambda gap: given[gap[1]], value)
    if isinstance(value, list):
        return [_put(item, given) for item in value]
    if isinstance(value, dict):
        return {key: _put(item, given) for key, item in value.items()}
    return value


def values_of(template: Template, words: Iterable[str]) -> dict[str, JsonValue]:
    """`key=value` words as values: text as it stands where text is wanted, else JSON where it looks like it."""
    found: dict[str, JsonValue] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key in found:
            raise InvalidInput(f"{word[:80]!r} is not one key=value", next_step=f"reflectloop template {template.name}")
        gap = template.gaps.get(key)
        found[key] = text if gap and gap.type == "text" else _looks_like(text)
    return found


def _looks_like(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value
