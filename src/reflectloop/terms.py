"""Terms that three or more packages share, and the messages for pydantic's errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Literal, Protocol

_LONGEST_NAME = 100  # characters that are compared with known names


def shorten(text: str, length: int) -> str:
    """Return the text, cut to `length` characters with an ellipsis at its end if it is longer."""
    return text if len(text) <= length else text[: length - 1] + "…"


def join_first(names: Sequence[str], most: int) -> str:
    """Return names in one line: at most so many, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def closest(name: str, known: Iterable[str], likeness: float = 0.5) -> str | None:
    """Return the known name that is most like this one, and was probably meant; None if none is like it."""
    import difflib  # noqa: PLC0415 - only after a mistake

    similar = difflib.get_close_matches(name[:_LONGEST_NAME], list(known), n=1, cutoff=likeness)
    return similar[0] if similar else None


def install_extra(name: str) -> str:
    """Return how the program is installed with an extra. It is on no package index, where its name may be another's."""
    return f"in the checkout of reflectloop: uv tool install '.[{name}]' (or: pipx install --force '.[{name}]')"


def dotted(place: Iterable[str | int]) -> str:
    """Return a place in a document, such as `("steps", 0, "cwd")`, as `steps[0].cwd`."""
    out = ""
    for part in place:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


class Isolation(StrEnum):
    """The isolation levels of a command, weakest first."""

    NONE = "none"
    WORKSPACE = "workspace"
    FS = "fs"
    FULL = "full"

    @property
    def rank(self) -> int:
        return list(Isolation).index(self)


class Network(StrEnum):
    """A command's network: only a separate loopback, or the host's network."""

    NONE = "none"
    HOST = "host"


class AgentNetwork(StrEnum):
    """The network of an agent's program: none, only its model's address, or the host's network."""

    NONE = "none"
    MODEL = "model"
    HOST = "host"


class Role(StrEnum):
    """The role of an agent. Only an executor may change files."""

    PLANNER = "planner"
    SECOND_PLANNER = "second_planner"
    EXECUTOR = "executor"
    REVIEWER = "reviewer"
    CRITIC = "critic"
    RESEARCHER = "researcher"

    @property
    def looks_only(self) -> bool:
        return self is not Role.EXECUTOR


RemarkKind = Literal["security", "contract", "evidence", "scenario", "efficiency", "constraint"]


class Track(StrEnum):
    """The kind of a change, which decides what must be proven."""

    FEATURE = "feature"
    FIX = "fix"
    REFACTOR = "refactor"
    DIRECT = "direct"


def one_line(text: str) -> str:
    """Escape unprintable characters: a file name may contain a line break."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


class Decision(StrEnum):
    """The decision on an output, gravest first. Decisions that the engine can repair come before ASK."""

    STOP = "STOP"
    REPLAN = "REPLAN"
    REDO = "REDO"
    RETRY = "RETRY"
    ASK = "ASK"
    SKIP = "SKIP"
    PASS = "PASS"  # noqa: S105 - not a password

    @property
    def goes_on(self) -> bool:
        return self in (Decision.PASS, Decision.SKIP)


def gravest(decisions: Iterable[Decision]) -> Decision:
    order = list(Decision)
    return min(decisions, key=order.index, default=Decision.PASS)


class OutcomeWord(StrEnum):
    """The word a person reads: proven, a person must agree, refused, or a tool's fault kept it from being judged."""

    PASS = "PASS"  # noqa: S105 - not a password
    REVIEW = "REVIEW"
    REFUSED = "REFUSED"
    NOT_JUDGED = "NOT JUDGED"


class ReasonLike(Protocol):
    """A reason of a verdict or of a gate."""

    @property
    def decision(self) -> Decision: ...
    @property
    def finding(self) -> str: ...
    @property
    def unjudged(self) -> bool: ...


def outcome_of(reasons: Iterable[ReasonLike]) -> OutcomeWord:
    """Return REFUSED if a reason stands that nobody can approve, and REVIEW if a person can approve all of them."""
    stopping = [reason for reason in reasons if not reason.decision.goes_on]
    if any(not (reason.finding or reason.decision is Decision.ASK or reason.unjudged) for reason in stopping):
        return OutcomeWord.REFUSED
    if any(reason.unjudged for reason in stopping):
        return OutcomeWord.NOT_JUDGED
    return OutcomeWord.REVIEW if stopping else OutcomeWord.PASS


# Messages by pydantic's error type. Braces are filled from the error's context.
UNTITLED = "A Reflectloop plan"  # the title of a plan of a form that may have none

_SHAPES = {
    "missing": "is required and missing",
    "extra_forbidden": "unknown key",
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
    "string_pattern_mismatch": "may contain letters, digits, '.', '_' and '-' only, and begins with a letter or digit",
}


def wrong_shape(kind: str, context: Mapping[str, object], message: str) -> str:
    """Return our message for a pydantic error; `message` is used for errors of our own validators."""
    if kind not in _SHAPES:
        return message.removeprefix("Value error, ")
    plain = {key: str(value).replace(" or ", ", ").replace("'", "") for key, value in context.items()}
    return _SHAPES[kind].format_map(plain)


_LEVELS = {
    "L0": "only claimed",
    "L1": "only cited",
    "L2": "run by the engine",
    "L3": "run by the engine on a sealed copy",
}


def describe_level(level: str) -> str:
    """Return a level of evidence with its meaning, for people who do not know the levels."""
    return f"{level} ({_LEVELS[level]})" if level in _LEVELS else level


def explain_levels(levels: Iterable[str]) -> str:
    """Return what each of these levels means, as one line."""
    return ", ".join(f"{level}: {_LEVELS[level]}" for level in sorted(set(levels) & set(_LEVELS)))
