"""Write calls, values and answers as people read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reflectloop.verification.probing import neighbours
from reflectloop.verification.probing.histories import HistoryValue
from reflectloop.verification.probing.inside import content
from reflectloop.verification.probing.neighbours import CallInput, FixedValue
from reflectloop.verification.probing.observations import AnswerPair, FunctionAnswer, Observation

_LONGEST, _LONGEST_OBJECT = 60, 160  # signs of a value that are shown


def write_change(item: AnswerPair) -> str:
    if "absent" in item.base.outcome:
        return write_answer(item.patch)
    return write_pair(f"{write_answer(item.base)} → {write_answer(item.patch)}", item)


def write_pair(text: str, item: AnswerPair) -> str:
    """Return two answers; if they look alike, say what the call leaves behind in its arguments."""
    alike = item.base.text != item.patch.text and write_answer(item.base) == write_answer(item.patch)
    first, last = item.base.outcome.get("after"), item.patch.outcome.get("after")
    if alike and first is not None and last is not None and first != last:
        return f"{text}, and leaves {' → '.join(map(_write_part, _difference(first, last)))}"
    leaves = {"after", "new"} & {*item.base.outcome, *item.patch.outcome}
    return f"{text}, and leaves another object" if alike and leaves else text


def _difference(first: Any, last: Any) -> tuple[Any, Any]:  # noqa: ANN401 - encoded data
    """Return the innermost parts of encoded data in which alone they differ."""
    parts: list[tuple[Any, Any]] = []
    if isinstance(first, list) and isinstance(last, list) and len(first) == len(last):
        parts = [pair for pair in zip(first, last, strict=True) if pair[0] != pair[1]]
    elif isinstance(first, dict) and isinstance(last, dict) and [*first] == [*last]:
        parts = [(first[name], last[name]) for name in first if first[name] != last[name]]
    return _difference(*parts[0]) if len(parts) == 1 else (first, last)


def _write_part(value: Any) -> str:  # noqa: ANN401 - encoded data
    read = neighbours.read([value], ()).args[0]
    return "an object" if isinstance(read, FixedValue) else _short(repr(read))


def write_call(seen: Observation, given: CallInput) -> str:
    method = bool(seen.function.first)
    first = given.args[0] if given.args else None
    if isinstance(first, HistoryValue) and first.name == f"{seen.function.file}:{seen.function.qualname}":
        return write_value(first, _LONGEST_OBJECT)  # a use of what the function returned
    args = [write_value(value) for value in given.args[1 if method else 0 :]]
    args += [f"{name}={write_value(value)}" for name, value in given.kwargs.items() if not content.is_surrounding(name)]
    text = f"{seen.function.qualname.rpartition('.')[2]}({', '.join(args)}){_write_surroundings(given)}"
    return f"{write_value(first, _LONGEST_OBJECT)}.{text}" if method and isinstance(first, HistoryValue) else text


def _write_surroundings(given: CallInput) -> str:
    """Return what a call finds beside its arguments, without what cannot be shown."""
    plain = {name: value for name, value in given.kwargs.items() if not isinstance(value, FixedValue)}
    shown = [
        f"{name} {write_value(value)}"
        for name, value in plain.items()
        if content.is_surrounding(name) and value is not None
    ]
    return f" with {', '.join(shown)}" if shown else ""


def write_value(value: object, longest: int = _LONGEST) -> str:
    return _short(repr(value), longest)


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def write_answer(answer: FunctionAnswer) -> str:
    """Return an answer, with the calls of a function that the test passed if they are all that it gave."""
    outcome = answer.outcome
    if outcome.get("printed"):
        quiet = replace(answer, outcome={name: item for name, item in outcome.items() if name != "printed"})
        ending = "" if outcome.get("value", 0) is None else f" and {write_answer(quiet)}"
        return _short(f"prints {str(outcome['printed'])!r}{ending}")
    if outcome.get("told") and outcome.get("value") == {"undefined": True}:
        return _short(f"calls {', '.join(str(neighbours.read(args, ()).args) for args in outcome['told'])}")
    if "raises" in outcome:
        return f"{outcome['raises']}"
    if "value" not in outcome:
        return "does not end" if "endless" in outcome else "no answer"
    return _short(_write_result(outcome["value"]))


def _write_result(value: Any) -> str:  # noqa: ANN401 - encoded data
    """Return a result; nothing is made of it that has a class, since a box wrote it."""
    if isinstance(value, dict) and "undefined" in value:
        return "undefined"
    read = neighbours.read([value], ()).args[0]
    if not isinstance(read, FixedValue):
        return repr(read)
    return next((str(value[name]) for name in ("iterator", "of", "object", "text") if value.get(name)), "an object")
