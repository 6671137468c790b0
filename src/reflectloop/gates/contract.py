"""The contract of an output: what its author says it is, by role and track; parsed, or filled from the plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, ValidationError, model_validator

from reflectloop.errors import Fault, InvalidInput
from reflectloop.gates.decisions import GateReason
from reflectloop.plan.model import Command, Plan
from reflectloop.terms import Decision, Track, join_first, wrong_shape

Role = Literal["planner", "second_planner", "executor", "reviewer", "critic", "researcher"]
# The avatars of the protocol: those that explore and analyse, those that make something, and the one that plans.
AVATARS: dict[str, Role] = {
    "眼": "researcher",
    "耳": "researcher",
    "鼻": "reviewer",
    "舌": "executor",
    "身": "executor",
    "意": "planner",
}
READ_ONLY_ROLES = frozenset(
    ("planner", "second_planner", "reviewer", "critic", "researcher")
)  # these implement nothing
Text = Annotated[str, Field(max_length=20_000)]
Name = Annotated[str, Field(min_length=1, max_length=4_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ContractCriterion(_Strict):
    """One acceptance criterion, and the check or test that proves it."""

    id: Name
    text: Name
    check: Name | None = None


class Reproduction(_Strict):
    """A command, a named check or a test id that fails on base and passes after the change."""

    run: Command | None = None
    check: Name | None = None
    test: Name | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Reproduction:
        if sum(field is not None for field in (self.run, self.check, self.test)) != 1:
            raise ValueError("names one of run, check and test")
        return self


class TestRun(_Strict):
    """A command that is claimed to prove something.

    Its printed result is a claim; the engine runs the command again.
    """

    __test__ = False  # keeps pytest from collecting this class

    command: Command
    result: Text = ""


class Citation(_Strict):
    """A file and line cited as proof; the engine checks that the line contains the quoted text."""

    file: Name
    line: Annotated[StrictInt, Field(ge=1)]
    says: Name


class Assumption(_Strict):
    text: Name
    check: Name | None = None


def _as_assumption(value: Any) -> Any:  # noqa: ANN401 - any JSON value is possible
    return {"text": value} if isinstance(value, str) else value


def _role(value: object) -> object:
    """Take an avatar of the pipeline's protocol (眼 耳 鼻 舌 身 意) for the role that it plays."""
    return AVATARS.get(value, value) if isinstance(value, str) else value


class Contract(_Strict):
    """The author's description of one output. Nothing in it is evidence."""

    goal: Text | None = None
    track: Track
    role: Annotated[Role, BeforeValidator(_role)] = "executor"
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
    assumptions: tuple[Annotated[Assumption, BeforeValidator(_as_assumption)], ...] | None = None
    questions: tuple[Name, ...] | None = None
    root_cause: Text | None = None  # of the earlier failures; required after the second


Need = Literal["required", "optional", "none"]
_NAMES_LISTED = 5
_R: Need = "required"
_O: Need = "optional"
_N: Need = "none"

# Per field, the need on each track in the order of `Track`: feature, fix, refactor, direct. `tests_run` and
# `evidence` are judged by the proof gate, from the commands that the engine ran.
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
_REQUIRED_OF_IDLE = frozenset(("goal", "summary", "files_changed"))
# An empty list is a valid answer for these.
_MAY_BE_EMPTY = frozenset(("must_not_change", "files_changed"))


def need(field: str, track: Track, role: str) -> Need:
    """Return how much a contract needs a field. Roles that implement nothing need few fields."""
    wanted = _TABLE.get(field, (_O, _O, _O, _O))[list(Track).index(track)]
    return _O if role in READ_ONLY_ROLES and field not in _REQUIRED_OF_IDLE and wanted == _R else wanted


class ContractReading(NamedTuple):
    """A parsed contract, and the fields that could not be parsed."""

    contract: Contract
    malformed: tuple[Fault, ...] = ()
    by_engine: bool = False  # filled from the plan and the diff, not by an author


def parse_contract(fields: object, place: str) -> ContractReading:
    """Parse a contract.

    Malformed fields are reported; an unknown track or role is an error, as nothing can be checked.
    """
    if not isinstance(fields, dict):
        raise InvalidInput(f"{place}: a contract is a mapping of fields", next_step="see docs/gates.md")
    tracks = ", ".join(Track)
    if fields.get("track") not in list(Track):
        what = f"{fields['track']!r} is no track" if "track" in fields else "it names no track"
        raise InvalidInput(f"{place}: {what}; known: {tracks}", next_step=f"name one in {place}")
    try:
        return ContractReading(Contract.model_validate(fields))
    except ValidationError as faults:
        malformed = tuple(_fault(error) for error in faults.errors())
    broken = {fault.path.split(".")[0].split("[")[0] for fault in malformed}
    if "role" in broken:
        known = ", ".join((*get_args(Role), *AVATARS))
        raise InvalidInput(f"{place}: {fields['role']!r} is no role; known: {known}", next_step=f"name one in {place}")
    return ContractReading(
        Contract.model_validate({key: value for key, value in fields.items() if key not in broken}), malformed
    )


def _fault(error: Any) -> Fault:  # noqa: ANN401 - pydantic's own mapping
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).lstrip(".")
    known = ", ".join(Contract.model_fields)
    unknown = error["type"] == "extra_forbidden"
    message = (
        f"is not a field; known: {known}" if unknown else wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
    )
    return Fault(path, None, message, "INVALID_INPUT")


def missing_fields(read: ContractReading) -> list[str]:
    """Return the required fields that are empty; malformed fields are not among them."""
    contract = read.contract
    broken = {fault.path.split(".")[0].split("[")[0] for fault in read.malformed}
    from_proof = {"reproduction"} if read.by_engine else set()  # sealed verification looks for tests that turned green
    return [
        field
        for field in _TABLE
        if need(field, contract.track, contract.role) == "required"
        and field not in broken | from_proof
        and _empty(field, getattr(contract, field))
    ]


def _empty(field: str, value: object) -> bool:
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    return value == () and field not in _MAY_BE_EMPTY


def incomplete_reasons(read: ContractReading) -> list[GateReason]:
    """Return the reasons for which a contract is incomplete: REDO for a missing field, RETRY for a malformed one."""
    track, role = read.contract.track, read.contract.role
    out = [
        GateReason(
            Decision.REDO,
            "contract.missing",
            f"{field} is required on track {track} and empty",
            "add it to the plan" if read.by_engine else f"give {field} in the contract",
        )
        for field in missing_fields(read)
    ]
    out += [
        GateReason(Decision.RETRY, "contract.malformed", f"contract: {fault}", f"correct {fault.path}")
        for fault in read.malformed
    ]
    if role not in READ_ONLY_ROLES:
        out += _unchecked_criteria(read.contract)
    return out


def _unchecked_criteria(contract: Contract) -> list[GateReason]:
    """Return a reason for each acceptance criterion of a feature that names no check."""
    if contract.track is not Track.FEATURE:
        return []
    return [
        GateReason(
            Decision.RETRY,
            "contract.unchecked",
            f"acceptance {f'{criterion.id} {criterion.text}'!r} names no check, so nothing proves that it is met",
            "name a check or a test that proves it",
        )
        for criterion in contract.acceptance or ()
        if not criterion.check
    ]


def claim_reasons(read: ContractReading, changed: Iterable[str]) -> list[GateReason]:
    """Return a reason if `files_changed` differs from the files that the diff changes."""
    if read.contract.files_changed is None:
        return []
    claimed, actual = (
        {path.removeprefix("./") for path in read.contract.files_changed},
        {_printable(path) for path in changed},
    )
    parts = [
        f"{label} {join_first(sorted(names), _NAMES_LISTED)}"
        for label, names in (
            ("changed and not claimed:", actual - claimed),
            ("claimed and not changed:", claimed - actual),
        )
        if names
    ]
    if not parts:
        return []
    text = f"files_changed differs from the diff: {'; '.join(parts)}"
    return [GateReason(Decision.REDO, "contract.files", text, "list exactly the changed files")]


def _printable(path: str) -> str:
    """Return a path as valid text, with undecodable bytes escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def contract_from_plan(plan: Plan, changed: Iterable[str]) -> ContractReading:
    """Return the contract of a plan made of commands, from what the plan asks and what the engine sees."""
    paths = tuple(_printable(path) for path in changed)
    goal = plan.objective.goal or plan.title
    red = next((name for name, check in plan.checks.items() if check.red_on_base), None)
    filled = {
        "goal": goal,
        "track": plan.settled_track,
        "acceptance": tuple(
            {"id": criterion.id, "text": criterion.text, "check": criterion.check} for criterion in plan.acceptance
        ),
        "reproduction": {"check": red} if red else None,
        "may_change": plan.may_change or ("**",),
        "must_not_change": plan.must_not_change,
        "files_changed": paths,
        "summary": f"{plan.title}: {len(plan.steps)} step(s), {len(paths)} file(s) changed",
        "regression_risk": "every test that passed on base is run again",
        "behaviour_kept": "the outcome of every test, and the public interface where it can be compared",
        "decisions": (plan.objective.done_when or goal,),
    }
    return ContractReading(Contract.model_validate(filled), by_engine=True)
