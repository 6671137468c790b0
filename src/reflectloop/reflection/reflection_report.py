"""The reflection report with the protocol's fields, and the checklist it must pass; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeGuard, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from reflectloop.diagnosis.failure_record import ErrorClass
from reflectloop.system.patterns import lazy
from reflectloop.terms import wrong_shape

Trigger = Literal["critic_evaluation", "self_check", "director_request", "tool_failure", "step_failure"]
TRIGGERS: tuple[Trigger, ...] = get_args(Trigger)
Status = Literal["pending", "completed", "failed"]
_TICKETED = {"critic_evaluation", "director_request", "step_failure"}
_SHORTEST = 8  # weight of a meaningful text
_NOTHING = lazy(r"(?i)\W*(?:n/?a|none|unknown|todo|tbd|\.{3}|…|不知道|无|待定)?\W*")


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ErrorAnalysis(_Value):
    surface_issue: str
    occurrence_process: tuple[str, ...]
    root_cause: str


class ErrorClassification(_Value):
    type: ErrorClass
    description: str
    remediation: str


class RepairAction(_Value):
    action: str
    status: Status = "pending"
    expected_outcome: str


class AntiPattern(_Value):
    pattern_name: str
    symptoms: tuple[str, ...]
    prevention: str
    error_type: ErrorClass


class Reflection(_Value):
    reflection_id: str
    timestamp: str
    agent: str
    trigger: Trigger
    rewind_ticket_id: str | None
    error_analysis: ErrorAnalysis
    error_classification: ErrorClassification
    repair_actions: tuple[RepairAction, ...]
    learning_notes: str
    anti_pattern: AntiPattern | None = None

    @model_validator(mode="before")
    @classmethod
    def _class_of_pattern(cls, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Give the anti-pattern the report's own class where it names none, as in the protocol's sample."""
        pattern, kind = (
            (value.get("anti_pattern"), value.get("error_classification")) if _is_map(value) else (None, None)
        )
        if not _is_map(pattern) or not _is_map(kind) or "error_type" in pattern or "type" not in kind:
            return value
        return {**value, "anti_pattern": {**pattern, "error_type": kind["type"]}}


def _is_map(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def faults_of(data: object) -> list[str]:
    """Return what the checklist finds wrong with a report of any origin; an empty list if it is good."""
    try:
        report = Reflection.model_validate(data)
    except ValidationError as refused:
        return [
            ".".join(map(str, error["loc"])) + ": " + wrong_shape(error["type"], error.get("ctx", {}), error["msg"])
            for error in refused.errors()
        ]
    return [fault for fault, passed in _checklist(report).items() if not passed]


def _checklist(report: Reflection) -> Mapping[str, bool]:
    analysis, kind = report.error_analysis, report.error_classification
    needs_ticket = report.trigger in _TICKETED
    pattern = report.anti_pattern
    return {
        "reflection_id: must be given": bool(report.reflection_id.strip()),
        "timestamp: must be a time": _is_time(report.timestamp),
        "agent: must say who made the output": bool(report.agent.strip()),
        "rewind_ticket_id: must be given for this trigger": bool(report.rewind_ticket_id) or not needs_ticket,
        "error_analysis.surface_issue: must say what was seen": _is_meaningful(analysis.surface_issue),
        "error_analysis.occurrence_process: must tell how it came about": bool(analysis.occurrence_process)
        and all(map(_is_meaningful, analysis.occurrence_process)),
        "error_analysis.root_cause: must say why, not once more what": _is_meaningful(analysis.root_cause)
        and analysis.root_cause.strip() != analysis.surface_issue.strip(),
        "error_classification.description: must say something": _is_meaningful(kind.description),
        "error_classification.remediation: must say something": _is_meaningful(kind.remediation),
        "repair_actions: must name steps, each with what it is to bring": bool(report.repair_actions)
        and all(
            _is_meaningful(action.action) and _is_meaningful(action.expected_outcome)
            for action in report.repair_actions
        ),
        "learning_notes: must say what to do another time": _is_meaningful(report.learning_notes),
        "anti_pattern: must have a name, symptoms and a prevention": pattern is None
        or (bool(pattern.pattern_name.strip()) and bool(pattern.symptoms) and _is_meaningful(pattern.prevention)),
        "anti_pattern: must be given for 3.3.1": pattern is not None or kind.type != ErrorClass.CAPABILITY,
    }


def _is_meaningful(text: str) -> bool:
    """Return True for more than a filler word; a Chinese character counts as two letters."""
    weight = sum(2 if ord(letter) > 0x2E80 else 1 for letter in text.strip())  # noqa: PLR2004 - where CJK begins
    return weight >= _SHORTEST and not _NOTHING.fullmatch(text.strip())


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def contradictions(report: Reflection, facts: Reflection) -> list[str]:
    """Return where a report differs from what the engine knows; `facts` is the report that the rules filled in."""
    known: dict[str, tuple[Any, Any]] = {
        "rewind_ticket_id": (report.rewind_ticket_id, facts.rewind_ticket_id),
        "trigger": (report.trigger, facts.trigger),
        "agent": (report.agent, facts.agent),
        "error_classification.type": (report.error_classification.type, facts.error_classification.type),
    }
    out = [
        f"{name}: says {str(claimed)!r}, but is {str(actual)!r}"
        for name, (claimed, actual) in known.items()
        if claimed != actual
    ]
    done = {action.action: action.status for action in facts.repair_actions}
    return out + [
        f"repair_actions: {action.action!r} is reported as completed, but was not"
        for action in report.repair_actions
        if action.status == "completed" and done.get(action.action) != "completed"
    ]
