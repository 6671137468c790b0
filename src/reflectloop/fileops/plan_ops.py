"""The models of the six ops on the plan and its state; the engine implements them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema

from reflectloop.fileops import paths
from reflectloop.plan import drafts
from reflectloop.plan.model import Command, Objective, Plan, PlanBudget, PlanLimits
from reflectloop.terms import Track


def _one_line(text: str) -> str:
    if any(ord(char) < ord(" ") for char in text):
        raise ValueError("must be one line without control characters")
    return text


Title = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_one_line)]
Words = Annotated[str, Field(min_length=1, max_length=20_000)]
FilePath = Annotated[str, AfterValidator(paths.file_path)]
FolderPath = Annotated[str, AfterValidator(paths.folder_path)]
_LONGEST_NAME = 64


def _step_name(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME:
        return _one_line(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError("must be the id or the number of a step")


StepName = Annotated[
    str | int,
    BeforeValidator(_step_name),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 64}, {"type": "integer", "minimum": 0}]}),
]


class PlanOpModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NewStep(PlanOpModel):
    """A step to add. A plain string is its title."""

    title: Title
    details: Annotated[str, Field(max_length=20_000)] = ""
    done: tuple[Words, ...] = ()
    commands: tuple[Command, ...] = ()
    checks: tuple[Command, ...] = ()  # each must exit 0 before the step is done
    tools: tuple[Title, ...] = ()  # that an agent may use for it

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "minLength": 1, "description": "a step's title"}, handler(core)]}


def _titled(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    return {"title": value} if isinstance(value, str) else value


Step = Annotated[NewStep, BeforeValidator(_titled)]


class PlanInitObjective(PlanOpModel):
    goal: Annotated[str, Field(max_length=20_000)] = ""
    nonGoals: tuple[Words, ...] = ()  # noqa: N815 - the protocol's own names
    doneWhen: Annotated[str, Field(max_length=20_000)] = ""  # noqa: N815


class PlanContext(PlanOpModel):
    repoType: Annotated[str, Field(max_length=300)] = ""  # noqa: N815
    keyFiles: tuple[FilePath, ...] = ()  # noqa: N815
    background: Annotated[str, Field(max_length=20_000)] = ""


class PlanCriterion(PlanOpModel):
    """An acceptance criterion, and the command that proves it."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    text: Words
    check: Command | None = None


class PlanInitContract(PlanOpModel):
    """The requirements of the change as a whole, checked by the gates at its end."""

    track: Track = Track.DIRECT
    acceptance: tuple[PlanCriterion, ...] = ()
    may_change: tuple[Words, ...] = ()
    limits: PlanBudget = PlanBudget()


class PlanInit(PlanOpModel):
    """Creates the task, from a plan file of the workspace or from the steps of this op."""

    op: Literal["triflow_plan_init"]
    plan: FilePath | None = None
    taskName: Title | None = None  # noqa: N815
    objective: PlanInitObjective = PlanInitObjective()
    context: PlanContext = PlanContext()
    constraints: tuple[Words, ...] = ()
    steps: tuple[Step, ...] = ()
    finalDone: tuple[Words, ...] = ()  # noqa: N815
    contract: PlanInitContract | None = None

    def as_plan(self) -> Plan:
        """Return the plan that these steps make; they are numbered from 1."""
        contract = self.contract or PlanInitContract()
        drafted = drafts.build({str(number): step for number, step in enumerate(self.steps, 1)})
        criteria = drafts.criteria({item.id: (item.text, item.check) for item in contract.acceptance})
        return Plan(
            title=self.taskName or self.objective.goal or "A plan",
            track=contract.track,
            objective=Objective(
                goal=self.objective.goal, non_goals=self.objective.nonGoals, done_when=self.objective.doneWhen
            ),
            acceptance=criteria.acceptance,
            may_change=contract.may_change,
            checks={**drafted.checks, **criteria.checks},
            steps=drafted.steps,
            limits=PlanLimits(**contract.limits.model_dump()),
        )


class Preflight(PlanOpModel):
    """Checks the expected step, counts the attempt and returns the step's context."""

    op: Literal["triflow_state_preflight"]
    step: StepName | None = None  # the step that the caller expects to be next
    reason: Annotated[str, Field(max_length=20_000)] = ""  # why the previous attempt is abandoned


class Finalize(PlanOpModel):
    """Marks the step done, if the engine has evidence for it."""

    op: Literal["triflow_state_finalize"]
    step: StepName | None = None
    verification: Annotated[str, Field(max_length=300)] | None = None
    notes: Annotated[str, Field(max_length=20_000)] = ""


class MarkBlocked(PlanOpModel):
    op: Literal["triflow_state_mark_blocked"]
    reason: Words
    unblock: Words  # what would allow the step to continue
    step: StepName | None = None


class ApplySplit(PlanOpModel):
    op: Literal["triflow_state_apply_split"]
    substeps: Annotated[tuple[Step, ...], Field(min_length=3, max_length=7)]
    step: StepName | None = None
    reason: Annotated[str, Field(max_length=20_000)] = ""


class AppendSteps(PlanOpModel):
    """Appends steps that the final review asks for; more than two need a follow-up task."""

    op: Literal["triflow_state_append_steps"]
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=2)]
    reason: Annotated[str, Field(max_length=20_000)] = ""
