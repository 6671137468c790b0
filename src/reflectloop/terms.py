"""The few words that three rooms or more share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum


def shorten(text: str, length: int) -> str:
    """Return the text, cut to `length` characters with an ellipsis at its end if it is longer."""
    return text if len(text) <= length else text[: length - 1] + "…"


class Isolation(StrEnum):
    """How far a command is kept from the machine, weakest first."""

    NONE = "none"
    WORKSPACE = "workspace"
    FS = "fs"
    FULL = "full"

    @property
    def rank(self) -> int:
        return list(Isolation).index(self)


class Network(StrEnum):
    """What a command can reach: nothing but a loopback of its own, or what its user can."""

    NONE = "none"
    HOST = "host"


class AgentNetwork(StrEnum):
    """What an agent's program can reach: nothing, its model's address and no other, or what its user can."""

    NONE = "none"
    MODEL = "model"
    HOST = "host"


class Role(StrEnum):
    """Who an agent is asked to be. Only an executor may change anything."""

    PLANNER = "planner"
    SECOND_PLANNER = "second_planner"
    EXECUTOR = "executor"
    REVIEWER = "reviewer"
    CRITIC = "critic"
    RESEARCHER = "researcher"

    @property
    def looks_only(self) -> bool:
        return self is not Role.EXECUTOR


class Track(StrEnum):
    """What kind of change a plan makes, and so what must be proven."""

    FEATURE = "feature"
    FIX = "fix"
    REFACTOR = "refactor"
    DIRECT = "direct"


class Decision(StrEnum):
    """What becomes of an output; gravest first. What can be mended comes before what only a person can say."""

    STOP = "STOP"
    REPLAN = "REPLAN"
    REDO = "REDO"
    RETRY = "RETRY"
    ASK = "ASK"
    SKIP = "SKIP"
    PASS = "PASS"  # noqa: S105 - a word of the gates

    @property
    def goes_on(self) -> bool:
        return self in (Decision.PASS, Decision.SKIP)


def gravest(decisions: Iterable[Decision]) -> Decision:
    order = list(Decision)
    return min(decisions, key=order.index, default=Decision.PASS)


# What a value must be, by the kind of fault the models report. Braces are filled from the fault's own details.
_SHAPES = {
    "missing": "is required and missing",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be text; put it in quotes",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a number",
    "path_type": "must be a path",
    "bool_parsing": "must be true or false",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
    "string_pattern_mismatch": "may hold letters, digits, '.', '_' and '-' only, and begins with a letter or digit",
}


def wrong_shape(kind: str, context: Mapping[str, object], message: str) -> str:
    """A fault of shape in our words; `message` is what a rule of ours said itself."""
    if kind not in _SHAPES:
        return message.removeprefix("Value error, ")
    plain = {key: str(value).replace(" or ", ", ").replace("'", "") for key, value in context.items()}
    return _SHAPES[kind].format_map(plain)
