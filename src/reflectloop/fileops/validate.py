"""Validates a request and reports all faults at once, each with the path of its field."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import re2
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from reflectloop.fileops import json_from_text, patches, paths
from reflectloop.fileops.json_from_text import JsonFault, NoJsonObject, Place
from reflectloop.fileops.plan_ops import PlanInit, Preflight
from reflectloop.fileops.request import (
    MOST_OPS,
    READING,
    WRITING,
    ApplyPatch,
    DeleteFile,
    FileopsRequest,
    MoveFile,
    Op,
    RunOp,
    Search,
    WriteFile,
    WriteJson,
)
from reflectloop.fileops.response import DEFAULT_PROTO, FieldError, Response
from reflectloop.terms import closest, dotted, wrong_shape

_MARKS = frozenset(("proto", "ops"))
_STRICT = ("summary", "done", "report")
WHOLE = "(request)"  # the field name of a fault in the request as a whole
_LONGEST, _MOST = 300, 500  # characters of a field name, and faults that are listed
_MODELS: dict[str, type[BaseModel]] = {
    get_args(model.model_fields["op"].annotation)[0]: model for model in get_args(get_args(Op)[0])
}
_OP: TypeAdapter[Any] = TypeAdapter(Op)
_QUIETLY = re2.Options()
_QUIETLY.log_errors = False  # else RE2 writes to standard error itself


class Invalid(Exception):
    """A request is invalid; `response` is the answer to its sender."""

    def __init__(self, errors: list[FieldError], value: Any = None) -> None:  # noqa: ANN401 - any JSON value
        request = value if isinstance(value, dict) else {}
        proto, name = request.get("proto"), request.get("id")
        self.response = Response(
            proto=proto if proto in ("triflow.fileops.v1", "autoflow.fileops.v1") else DEFAULT_PROTO,
            id=name[:_LONGEST].encode("utf-8", "replace").decode() if isinstance(name, str) else "",
            status="validation_error",
            errors=tuple(errors),
        )
        super().__init__("; ".join(f"{error.field}: {error.error}" for error in errors))


def parse(raw: bytes, *, strict: bool = False) -> FileopsRequest:
    """Parse and validate the request in a text, skipping prose around it."""
    try:
        value, faults = json_from_text.read_object(raw, _MARKS)
    except NoJsonObject as fault:
        raise Invalid(_listed([JsonFault(fault.place, fault.message)])) from fault
    return check(value, strict=strict, faults=faults)


def check(value: dict[str, Any], *, strict: bool = False, faults: list[JsonFault] | None = None) -> FileopsRequest:
    problems = list(faults or [])
    request: FileopsRequest | None = None
    try:
        request = FileopsRequest.model_validate(value)
        ops = dict(enumerate(request.ops))
    except ValidationError as shape:
        errors = [error for error in shape.errors(include_url=False) if not _is_echo(error)]
        problems += [_message(error) for error in errors[: _MOST + 1]]
        ops = _sound_ops(value)
    except RecursionError as fault:
        raise Invalid(_listed([JsonFault((), "is nested too deep")])) from fault
    if strict:
        problems += [
            JsonFault((key,), "is missing, and strict mode requires it") for key in _STRICT if key not in value
        ]
    problems += _rule_faults(value.get("purpose"), _roots(value), ops)
    if problems or request is None:
        raise Invalid(_listed(problems), value)
    return request


def _listed(faults: list[JsonFault]) -> list[FieldError]:
    pairs = dict.fromkeys((dotted(fault.place)[:_LONGEST] or WHOLE, fault.message) for fault in faults)
    listed = [FieldError(field=field, error=message) for field, message in sorted(pairs, key=lambda pair: pair[0])]
    more = FieldError(field=WHOLE, error="has more faults than these")
    return [*listed[:_MOST], more] if len(listed) > _MOST else listed


def _sound_ops(value: dict[str, Any]) -> dict[int, Any]:
    """Return the valid ops of an invalid request, so that their meaning can be checked as well."""
    ops = value.get("ops")
    ops_by_number = {}
    for number, op in enumerate(ops[:MOST_OPS] if isinstance(ops, list) else []):
        try:
            ops_by_number[number] = _OP.validate_python(op)
        except ValidationError:
            continue
    return ops_by_number


# Single fields: messages for pydantic's errors -------------------------------------------------------------------


def _message(error: ErrorDetails) -> JsonFault:
    kind, raw = error["type"], error["loc"]
    place = _without_tag(raw)
    if kind == "union_tag_invalid":
        return JsonFault((*place, "op"), _unknown("op", str(error["ctx"]["tag"]), list(_MODELS)))
    if kind == "union_tag_not_found":
        return JsonFault((*place, "op"), "is required and missing")
    if kind == "extra_forbidden":
        return JsonFault(place, _unknown("key", str(place[-1]), _keys_at(raw[:-1])))
    if kind in ("too_short", "too_long"):
        return JsonFault(place, _wrong_count(place, error["ctx"]))
    message = wrong_shape(kind, error.get("ctx", {}), error["msg"])
    return JsonFault(place, message[:1].lower() + message[1:])


def _is_echo(error: ErrorDetails) -> bool:
    """Return True for "too short" on a list with invalid items, which pydantic reports in addition."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def _wrong_count(place: Place, context: dict[str, Any]) -> str:
    few, many = context.get("min_length"), context.get("max_length")
    if few == 1 and not context["actual_length"]:
        return "must not be empty"
    limit = f"at least {few}" if few else f"at most {many}"
    more = "; make a follow-up task" if place[-1] == "steps" and many else ""
    return f"must have {limit} items, and has {context['actual_length']}{more}"


def _without_tag(raw: tuple[int | str, ...]) -> Place:
    """Return the place without the model name that pydantic inserts after an op's number."""
    place = tuple(part for part in raw if part != "[key]")
    return place[:2] + place[3:] if place[:1] == ("ops",) and place[2:3] and place[2] in _MODELS else place


def _unknown(what: str, name: str, known: list[str]) -> str:
    close = closest(name, known)
    hint = f"did you mean '{close}'?" if close else f"known here: {', '.join(known)}"
    return f"unknown {what} {name[:100]!r}; {hint}"


def _keys_at(raw: tuple[int | str, ...]) -> list[str]:
    if raw[:1] == ("ops",):
        return _keys(_MODELS[str(raw[2])], raw[3:])
    return _keys(FileopsRequest, raw)


def _keys(annotation: object, place: Place) -> list[str]:
    while get_origin(annotation) is typing.Annotated:
        annotation = get_args(annotation)[0]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = {info.alias or name: info for name, info in annotation.model_fields.items()}
        return _keys(fields[str(place[0])].annotation, place[1:]) if place else list(fields)
    below = place[1:] if get_origin(annotation) is tuple else place
    return next((known for inner in get_args(annotation) if (known := _keys(inner, below))), [])


# Rules across fields ----------------------------------------------------------------------------------------------


def rule_errors(request: FileopsRequest) -> list[FieldError]:
    """Return the faults of a request that was built in code instead of parsed."""
    roots = request.constraints.writable_roots or None
    return _listed(list(_rule_faults(request.purpose, roots, dict(enumerate(request.ops)))))


def _rule_faults(purpose: object, roots: tuple[str, ...] | None, ops: dict[int, Any]) -> Iterator[JsonFault]:
    for number, op in ops.items():
        place: Place = ("ops", number)
        if purpose == "read_state" and not isinstance(op, (*READING, Preflight)):
            yield JsonFault((*place, "op"), f"'{op.op}' changes something, and the purpose is read_state")
        if isinstance(op, Search):
            yield from _search_faults(op, place)
        if isinstance(op, PlanInit) and (op.plan is None) == (not op.steps):
            yield JsonFault(place, "has either 'plan', the path of a plan file, or 'steps'")
        if isinstance(op, PlanInit) and op.steps and not op.taskName:
            yield JsonFault((*place, "taskName"), "is required and missing")
        yield from _path_faults(op, place, roots)


def _search_faults(op: Search, place: Place) -> Iterator[JsonFault]:
    if op.regex:
        try:
            re2.compile(op.pattern, _QUIETLY)
        except re2.error as fault:
            yield JsonFault((*place, "pattern"), f"is not a regular expression (RE2): {fault}")


def _roots(value: dict[str, Any]) -> tuple[str, ...] | None:
    constraints = value.get("constraints")
    named = constraints.get("writable_roots") if isinstance(constraints, dict) else None
    if not isinstance(named, list) or not named:
        return None
    sound = [root for root in named if isinstance(root, str) and not paths.fault_in(root)]
    return tuple(sound) if len(sound) == len(named) else None


def _path_faults(op: Any, place: Place, roots: tuple[str, ...] | None) -> Iterator[JsonFault]:  # noqa: ANN401
    try:
        named = written_paths(op)
    except patches.PatchUnfit as fault:
        yield JsonFault((*place, "patch"), str(fault))
        return
    for key, path in named:
        if roots is not None and not paths.is_within(path, roots):
            yield JsonFault((*place, key), f"{path!r} is outside writable_roots")


def written_paths(op: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - any op
    """Return the paths that an op writes, each with the key that names it."""
    if isinstance(op, ApplyPatch):
        return [("patch", path) for change in patches.parse_patch(op.patch) for path in change.places]
    if isinstance(op, MoveFile):
        return [("from", op.source), ("to", op.target)]
    return [("path", op.path)] if isinstance(op, WriteFile | WriteJson | DeleteFile) else []


def is_read_only(request: FileopsRequest) -> bool:
    """Return True if a request changes no file."""
    return not any(isinstance(op, (*WRITING, RunOp)) for op in request.ops)
