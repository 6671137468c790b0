"""Strict models of the answers that agents are asked for: designs, outcomes, reviews. All of them are claims."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from reflectloop.agents import plan_text
from reflectloop.fileops.plan_ops import Title, Words
from reflectloop.plan import drafts
from reflectloop.plan.model import Objective, Plan
from reflectloop.terms import RemarkKind, Track


def _not_blank(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("must say something, and hold no NUL")
    return text


NonBlankLine = Annotated[Title, AfterValidator(_not_blank)]
Text = Annotated[str, Field(max_length=20_000)]
NonBlankText = Annotated[Words, AfterValidator(_not_blank)]  # text that must not be missing: a command, a condition
FEWEST, MOST = 3, 7  # parts that a step can be split into


class AnswerModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedStep(AnswerModel):
    """One step: its task, its conditions for being done, and the commands that prove them."""

    title: NonBlankLine
    details: Text = ""
    done: tuple[NonBlankText, ...] = ()
    commands: tuple[NonBlankText, ...] = Field(
        default=(), description="shell lines that do the step, where no agent is needed"
    )
    checks: tuple[NonBlankText, ...] = Field(default=(), description="shell lines that exit 0 once the step is done")
    tools: tuple[NonBlankLine, ...] = Field(
        default=(), description="the tools that the step may use; with reading tools only it is an analysis"
    )


class DesignCriterion(AnswerModel):
    id: NonBlankLine
    text: Text
    check: Text = Field(default="", description="a shell line that exits 0 once it is met")


class PlanDesign(AnswerModel):
    """A complete plan for a goal."""

    title: NonBlankLine
    goal: Text
    track: Track = Track.DIRECT
    non_goals: tuple[NonBlankText, ...] = ()
    done_when: Text = ""
    acceptance: tuple[DesignCriterion, ...] = ()
    may_change: tuple[NonBlankLine, ...] = ()
    key_files: tuple[NonBlankLine, ...] = ()
    risks: tuple[NonBlankText, ...] = ()
    steps: Annotated[tuple[PlannedStep, ...], Field(min_length=1, max_length=50)]

    @model_validator(mode="before")
    @classmethod
    def _of_protocol(cls, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Read the planning protocol's Plan object too."""
        return plan_text.as_design(value) if plan_text.is_protocol_plan(value) else value

    def as_plan(self, goal: str = "") -> Plan:
        """Return the plan; its steps and criteria are numbered from 1, since a planner's ids may collide."""
        drafted = drafts.build({str(number): step for number, step in enumerate(self.steps, 1)})
        criteria = drafts.criteria(
            {
                f"AC-{number}": (criterion.text or criterion.id, criterion.check or None)
                for number, criterion in enumerate(self.acceptance, 1)
            }
        )
        return Plan(
            title=self.title,
            track=self.track,
            objective=Objective(goal=goal or self.goal, non_goals=self.non_goals, done_when=self.done_when),
            acceptance=criteria.acceptance,
            may_change=self.may_change,
            checks={**drafted.checks, **criteria.checks},
            steps=drafted.steps,
        )


class StepUpdate(AnswerModel):
    """Other content for a step that is not done; what is not given stays as it is."""

    id: NonBlankLine
    title: Text = ""
    details: Text = ""
    commands: tuple[NonBlankText, ...] = ()
    checks: tuple[NonBlankText, ...] = ()


class PlanChange(AnswerModel):
    """A change of the plan after a failure. Steps that are done cannot be named."""

    reason: NonBlankText
    remove: tuple[NonBlankLine, ...] = ()
    update: tuple[StepUpdate, ...] = ()
    add: tuple[PlannedStep, ...] = Field(default=(), description="steps that come after all others")


class StepDesign(AnswerModel):
    """A design for one step."""

    approach: Annotated[str, Field(min_length=1, max_length=20_000)]
    done: tuple[Text, ...] = ()
    risks: tuple[Text, ...] = ()
    needs_split: bool = False
    substeps: Annotated[tuple[PlannedStep, ...], Field(max_length=MOST)] = ()


class Agreement(AnswerModel):
    """A planner's agreement with a merged design, or its objections."""

    agree: bool
    objections: tuple[Text, ...] = ()


Control = Literal["step_done", "replan", "ask", "split", "fail", "self_check"]


class StepClaim(AnswerModel):
    """An executor's final claim about a step. `step_done` only starts the verification."""

    control: Control
    approach: Text = Field(default="", description="how it was done, in a sentence; another one after a failed attempt")
    summary: Text = ""
    question: Text = Field(default="", description="with ask: what only a person can say")
    reason: Text = Field(default="", description="with fail, replan, split and self_check: why")
    substeps: Annotated[tuple[PlannedStep, ...], Field(max_length=MOST)] = ()


class ResearchAnswer(AnswerModel):
    """A researcher's answer to an open question."""

    answer: Annotated[str, Field(min_length=1, max_length=5_000)]
    sources: Annotated[tuple[NonBlankText, ...], Field(max_length=20)] = Field(
        default=(), description="evidence: files with lines, commands with their output"
    )


class Item(AnswerModel):
    """One change that a reviewer requests."""

    severity: Literal["high", "medium", "low"] = "medium"
    kind: RemarkKind | None = Field(
        default=None,
        description="with PASS, what the gates look at again: security and contract (rules), evidence and scenario "
        "(proof); efficiency and constraint are recorded",
    )
    file: Annotated[str, Field(max_length=1000)] = ""
    line: Annotated[int, Field(ge=0)] = 0
    problem: Annotated[str, Field(min_length=1, max_length=5_000)]
    fix: Annotated[str, Field(max_length=5_000)] = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.file and self.line else self.file


class Review(AnswerModel):
    """A reviewer's verdict on a change. Extra tests are shell lines that must exit 0; the engine runs them."""

    verdict: Literal["PASS", "RETRY", "BLOCKED"]
    items: Annotated[tuple[Item, ...], Field(max_length=20)] = ()
    extra_tests: Annotated[tuple[Text, ...], Field(max_length=5)] = ()
    summary: Text = ""
