"""What an output must say of itself, by role and track; read strictly, or filled by the engine from plan and diff."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, ValidationError, model_validator

from reflectloop.errors import Fault, InvalidInput
from reflectloop.gates.decisions import GateReason
from reflectloop.plan.model import Command, Plan
from reflectloop.terms import Decision, Track, wrong_shape

Role = Literal["planner", "second_planner", "executor", "reviewer", "critic", "researcher"]
IDLE = frozenset(("planner", "second_planner", "reviewer", "critic", "researcher"))  # these implement nothing
Text = Annotated[str, Field(max_length=20_000)]
Name = Annotated[str, Field(min_length=1, max_length=4_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ContractCriterion(_Strict):
    """What is to be true, and the check or test that shows it."""

    id: Name
    text: Name
    check: Name | None = None


class Reproduction(_Strict):
    """What is red on base and green after: a command, a named check, or a test by its id."""

    run: Command | None = None
    check: Name | None = None
    test: Name | None = None

    @model_validator(mode="after")
    def _one(self) -> Reproduction:
        if sum(one is not None for one in (self.run, self.check, self.test)) != 1:
            raise ValueError("names one of run, check and test")
        return self


class TestRun(_Strict):
    """A command that is said to prove something. What it printed is a claim; the engine runs it again."""

    __test__ = False  # its name is the field's, and pytest would take it for a test

    command: Command
    result: Text = ""


class Citation(_Strict):
    """A place that is said to show something; the engine looks whether it does."""

    file: Name
    line: Annotated[StrictInt, Field(ge=1)]
    says: Name


class Assumption(_Strict):
    text: Name
    check: Name | None = None


def _assumed(value: Any) -> Any:  # noqa: ANN401 - any JSON may stand here
    return {"text": value} if isinstance(value, str) else value


class Contract(_Strict):
    """One output's own account of itself. Nothing in it is evidence."""

    goal: Text | None = None
    track: Track
    role: Role = "executor"
    acceptance: tuple[ContractCriterion, ...] | None = None
    reproduction: Reproduction | None = None
    may_change: tuple[Name, ...] | None = None
    must_not_change: tuple[Name, ...] | None = None
    files_changed: tuple[Name, ...] | None = None
    summary: Text | None = None
    tests_run: tuple[TestRun, ...] | None = None
    evidence: tuple[Citation, ...] | None = None
    regression_risk: Text | None = None
    behaviour_kept: Text | None = None
    decisions: tuple[Name, ...] | None = None
    tradeoffs: tuple[Name, ...] | None = None
    assumptions: tuple[Annotated[Assumption, BeforeValidator(_assumed)], ...] | None = None
    questions: tuple[Name, ...] | None = None
    root_cause: Text | None = None  # of the failures before; asked for after the second


Need = Literal["required", "optional", "none"]
_R: Need = "required"
_O: Need = "optional"
_N: Need = "none"

# By track, in the order of `Track`: feature, fix, refactor, direct. What the engine fills (tests_run, evidence) is
# looked at by 定, from what was run.
_TABLE: Mapping[str, tuple[Need, Need, Need, Need]] = {
    "goal": (_R, _R, _R, _R),
    "acceptance": (_R, _O, _O, _N),
    "reproduction": (_N, _R, _N, _N),
    "may_change": (_R, _O, _R, _O),
    "must_not_change": (_R, _O, _R, _O),
    "files_changed": (_R, _R, _R, _R),
    "summary": (_R, _R, _R, _O),
    "regression_risk": (_O, _R, _O, _N),
    "behaviour_kept": (_O, _O, _R, _N),
    "decisions": (_R, _O, _R, _N),
}
_OF_IDLE = frozenset(("goal", "summary", "files_changed"))
# Saying that there is none is an answer here.
_MAY_BE_EMPTY = frozenset(("must_not_change", "files_changed"))


def need(field: str, track: Track, role: str) -> Need:
    """Whether a contract must say it. Who implements nothing owes no account of an implementation."""
    asked = _TABLE.get(field, (_O, _O, _O, _O))[list(Track).index(track)]
    return _O if role in IDLE and field not in _OF_IDLE and asked == _R else asked


class ContractReading(NamedTuple):
    """A contract, and what of it could not be taken."""

    contract: Contract
    malformed: tuple[Fault, ...] = ()
    by_engine: bool = False  # filled from plan and diff


# Reading ----------------------------------------------------------------------------------------------------------


def read(said: object, place: str) -> ContractReading:
    """A contract as it was parsed. Without a track nothing can be asked of it, so that is refused at once."""
    if not isinstance(said, dict):
        raise InvalidInput(f"{place}: a contract is a mapping of fields", next_step="see schemas/contract.json")
    tracks = ", ".join(Track)
    if said.get("track") not in list(Track):
        what = f"{said['track']!r} is no track" if "track" in said else "it names no track"
        raise InvalidInput(f"{place}: {what}; known: {tracks}", next_step=f"name one in {place}")
    try:
        return ContractReading(Contract.model_validate(said))
    except ValidationError as faults:
        found = tuple(_fault(one) for one in faults.errors())
    broken = {fault.path.split(".")[0].split("[")[0] for fault in found}
    if "role" in broken:
        raise InvalidInput(f"{place}: {said['role']!r} is no role", next_step="see schemas/contract.json")
    return ContractReading(
        Contract.model_validate({key: value for key, value in said.items() if key not in broken}), found
    )


def _fault(one: Any) -> Fault:  # noqa: ANN401 - pydantic's own mapping
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in one["loc"]).lstrip(".")
    known = ", ".join(Contract.model_fields)
    unknown = one["type"] == "extra_forbidden"
    message = f"is not a field; known: {known}" if unknown else wrong_shape(one["type"], one.get("ctx", {}), one["msg"])
    return Fault(path, None, message, "INVALID_INPUT")


# Looking ----------------------------------------------------------------------------------------------------------


def missing(read: ContractReading) -> list[str]:
    """Required here, and empty. What did not have the right shape is another matter."""
    contract = read.contract
    broken = {fault.path.split(".")[0].split("[")[0] for fault in read.malformed}
    found_by_proof = {"reproduction"} if read.by_engine else set()  # the sealed run looks for what turned green
    return [
        field
        for field in _TABLE
        if need(field, contract.track, contract.role) == "required"
        and field not in broken | found_by_proof
        and _empty(field, getattr(contract, field))
    ]


def _empty(field: str, value: object) -> bool:
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    return value == () and field not in _MAY_BE_EMPTY


def complete(read: ContractReading) -> list[GateReason]:
    """戒: required and empty throws the output away; what is only ill-formed is to be mended."""
    track, role = read.contract.track, read.contract.role
    out = [
        GateReason(
            Decision.REDO,
            "contract.missing",
            f"{field} is required on track {track} and empty",
            "say it in the plan" if read.by_engine else f"give {field} in the contract",
        )
        for field in missing(read)
    ]
    out += [
        GateReason(Decision.RETRY, "contract.malformed", f"contract: {fault}", f"correct {fault.path}")
        for fault in read.malformed
    ]
    if role not in IDLE:
        out += _uncovered(read.contract)
    return out


def _uncovered(contract: Contract) -> list[GateReason]:
    """A criterion without a check is a wish."""
    if contract.track is not Track.FEATURE:
        return []
    return [
        GateReason(
            Decision.RETRY,
            "contract.unchecked",
            f"acceptance {f'{one.id} {one.text}'!r} names no check, so nothing shows that it is met",
            "name a check or a test that shows it",
        )
        for one in contract.acceptance or ()
        if not one.check
    ]


def claims(read: ContractReading, changed: Iterable[str]) -> list[GateReason]:
    """Whether the files that are said to be changed are those that are."""
    if read.contract.files_changed is None:
        return []
    said, real = {path.removeprefix("./") for path in read.contract.files_changed}, {_shown(path) for path in changed}
    parts = [
        f"{words} {', '.join(sorted(names)[:5])}" + (f" and {len(names) - 5} more" if len(names) > 5 else "")  # noqa: PLR2004
        for words, names in (("changed and not claimed:", real - said), ("claimed and not changed:", said - real))
        if names
    ]
    if not parts:
        return []
    text = f"files_changed is not what the diff says: {'; '.join(parts)}"
    return [GateReason(Decision.REDO, "contract.files", text, "claim exactly what was changed")]


def _shown(path: str) -> str:
    """A name that is no text, as text."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


# Filling ----------------------------------------------------------------------------------------------------------


def of_plan(plan: Plan, changed: Iterable[str]) -> ContractReading:
    """The contract of steps made of commands: what the plan asks, and what the engine sees."""
    paths = tuple(_shown(path) for path in changed)
    goal = plan.objective.goal or plan.title
    red = next((name for name, check in plan.checks.items() if check.red_on_base), None)
    filled = {
        "goal": goal,
        "track": plan.settled_track,
        "acceptance": tuple({"id": one.id, "text": one.text, "check": one.check} for one in plan.acceptance),
        "reproduction": {"check": red} if red else None,
        "may_change": plan.may_change or ("**",),
        "must_not_change": plan.must_not_change,
        "files_changed": paths,
        "summary": f"{plan.title}: {len(plan.steps)} step(s), {len(paths)} file(s) changed",
        "regression_risk": "what passed on base is run again, test by test",
        "behaviour_kept": "the outcome of every test, and the public interface where it can be told",
        "decisions": (plan.objective.done_when or goal,),
    }
    return ContractReading(Contract.model_validate(filled), by_engine=True)


def schema() -> dict[str, Any]:
    """The JSON Schema of a contract file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Contract.model_json_schema()}
