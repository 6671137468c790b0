"""The record of one failure, from which everything else is derived, and the table of what each category needs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from reflectloop.verification.result import Detail, Type

Category = Literal["DATA", "ENV", "LOGIC", "PERMISSION", "EXTERNAL", "TOOL", "EXECUTION"]
Needs = Literal["REPLAN", "RESEARCH", "ASK", "RETRY"]
TOO_OFTEN = 3  # occurrences of one signature from which it is no longer a single wrong decision


class ErrorClass(StrEnum):
    """The five error classes of the reflection protocol."""

    CAPABILITY = "3.3.1"
    DECISION = "3.3.2"
    PIPELINE = "3.3.3"
    KNOWLEDGE = "3.3.4"
    ITERATION = "3.3.5"

    @property
    def english(self) -> str:
        return _TITLES[self][0]

    @property
    def chinese(self) -> str:
        return _TITLES[self][1]


_TITLES = {
    ErrorClass.CAPABILITY: ("model capability insufficient", "模型能力不足"),
    ErrorClass.DECISION: ("decision or reasoning error", "思路/决策错误"),
    ErrorClass.PIPELINE: ("pipeline crash", "Pipeline 崩溃"),
    ErrorClass.KNOWLEDGE: ("missing knowledge", "缺少对应知识"),
    ErrorClass.ITERATION: ("normal iteration", "正常迭代尝试"),
}


class ToolErrorType(StrEnum):
    """The four types of tool failure of the reflection protocol."""

    PARAMETER = "parameter_error"
    WRONG_TOOL = "wrong_tool"
    PERMISSION = "insufficient_permission"
    SERVICE = "external_service_exception"

    @property
    def chinese(self) -> str:
        return {
            ToolErrorType.PARAMETER: "参数错误",
            ToolErrorType.WRONG_TOOL: "工具选择错误",
            ToolErrorType.PERMISSION: "权限不足",
            ToolErrorType.SERVICE: "外部服务异常",
        }[self]


class Kind(NamedTuple):
    """The consequences of a category, unless a rule says otherwise."""

    needs: Needs
    error_class: ErrorClass
    tool_error: ToolErrorType | None = None
    transient: bool = False


KINDS: dict[Category, Kind] = {
    "DATA": Kind("REPLAN", ErrorClass.DECISION, ToolErrorType.PARAMETER),
    "ENV": Kind("RESEARCH", ErrorClass.KNOWLEDGE, ToolErrorType.WRONG_TOOL),
    "LOGIC": Kind("REPLAN", ErrorClass.DECISION),
    "PERMISSION": Kind("ASK", ErrorClass.KNOWLEDGE, ToolErrorType.PERMISSION),
    "EXTERNAL": Kind("RETRY", ErrorClass.PIPELINE, ToolErrorType.SERVICE, transient=True),
    "TOOL": Kind("RESEARCH", ErrorClass.PIPELINE),
    "EXECUTION": Kind("RESEARCH", ErrorClass.DECISION),
}

# Published codes that determine the category. For all others the output decides.
_CODES: dict[str, tuple[Category, Needs]] = {
    "MISSING_PLAN": ("DATA", "REPLAN"),
    "INVALID_PLAN": ("DATA", "REPLAN"),
    "INVALID_INPUT": ("DATA", "REPLAN"),
    "SANDBOX_ESCAPE": ("DATA", "REPLAN"),
    "STEP_TIMEOUT": ("EXTERNAL", "RETRY"),
    "SECRET_LEAK": ("PERMISSION", "ASK"),
    "SANDBOX_CREATE_FAILED": ("TOOL", "RESEARCH"),
    "NO_SPACE": ("TOOL", "RESEARCH"),
    "STATE_DAMAGED": ("TOOL", "RESEARCH"),
    "INTERNAL": ("TOOL", "RESEARCH"),
    "AGENT_UNAVAILABLE": ("ENV", "ASK"),
    "AGENT_FAILED": ("TOOL", "RESEARCH"),
    "BUDGET_SPENT": ("LOGIC", "ASK"),
    "INTERRUPTED": ("EXTERNAL", "RETRY"),
    "LOCKED": ("EXTERNAL", "RETRY"),
    "NEEDS_INPUT": ("PERMISSION", "ASK"),
    "GATE_REJECTED": ("PERMISSION", "ASK"),
    "LATCHED": ("LOGIC", "ASK"),
    "MAX_RETRIES": ("LOGIC", "ASK"),
}
_SPENT = {"LATCHED", "MAX_RETRIES", "BUDGET_SPENT"}

# The category of a check's outcome, unless a line of its output says more.
_OUTCOMES: dict[Type, Category] = {
    "test_failure": "LOGIC",
    "collection_error": "LOGIC",
    "build_failure": "LOGIC",
    "lint": "LOGIC",
    "type_error": "LOGIC",
    "no_tests": "DATA",
    "tool_missing": "ENV",
    "timeout": "EXTERNAL",
}


class Diagnosis(BaseModel):
    """The most likely cause of a failure, and what to do about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: str
    root_cause: str
    suggestion: str
    next_command: str | None = None
    line: str | None = None  # of the output, unchanged


class FailureRecord(BaseModel):
    """Everything known about one failure."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    code: str
    category: Category
    needs: Needs
    error_class: ErrorClass = Field(alias="class")
    tool_error_type: ToolErrorType | None = None
    transient: bool = False
    signature: str
    step: str | None = None
    attempt: int = 1
    command: str | None = None
    exit_code: int | None = None
    details: tuple[Detail, ...] = ()
    log_excerpt: str = ""
    tree: str | None = None
    diagnosis: Diagnosis | None = None

    def as_data(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


class Facts(NamedTuple):
    """The facts about an attempt that the decision tree needs."""

    finished: bool = False  # the minimum requirements are met
    interrupted: bool = False
    did_not_know: bool = False
    times_seen: int = 1  # occurrences of this signature, including this one


def classify(facts: Facts) -> ErrorClass:
    """Apply the reflection protocol's decision tree."""
    if facts.finished:
        return ErrorClass.ITERATION
    if facts.interrupted:
        return ErrorClass.PIPELINE
    if facts.did_not_know:
        return ErrorClass.KNOWLEDGE
    return ErrorClass.CAPABILITY if facts.times_seen >= TOO_OFTEN else ErrorClass.DECISION


def class_of(category: Category, *, code: str = "", times_seen: int = 1) -> ErrorClass:
    """Return the error class of a category, taking the code and repetitions into account."""
    if code in _SPENT:
        return ErrorClass.CAPABILITY
    usual = KINDS[category].error_class
    return classify(
        Facts(
            interrupted=usual == ErrorClass.PIPELINE, did_not_know=usual == ErrorClass.KNOWLEDGE, times_seen=times_seen
        )
    )


def by_code(code: str) -> tuple[Category, Needs] | None:
    return _CODES.get(code)


def by_outcome(outcome: Type) -> Category:
    return _OUTCOMES.get(outcome, "EXECUTION")
