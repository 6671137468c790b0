"""The reflection report with the protocol's fields, and the checklist it must pass; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from reflectloop.reflect.record import ErrorClass
from reflectloop.terms import wrong_shape

Trigger = Literal["critic_evaluation", "self_check", "director_request", "tool_failure", "step_failure"]
Status = Literal["pending", "completed", "failed"]
_TICKETED = {"critic_evaluation", "director_request", "step_failure"}
_SHORTEST = 8  # letters of something said in earnest
_NOTHING = re.compile(r"(?i)\W*(?:n/?a|none|unknown|todo|tbd|\.{3}|…|不知道|无|待定)?\W*")


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


def faults_of(said: object) -> list[str]:
    """What the checklist finds wrong with a report as anybody may have written it; nothing where it is good."""
    try:
        report = Reflection.model_validate(said)
    except ValidationError as refused:
        return [
            ".".join(map(str, one["loc"])) + ": " + wrong_shape(one["type"], one.get("ctx", {}), one["msg"])
            for one in refused.errors()
        ]
    return [fault for fault, holds in _checklist(report).items() if not holds]


def _checklist(report: Reflection) -> Mapping[str, bool]:
    analysis, kind = report.error_analysis, report.error_classification
    needs_ticket = report.trigger in _TICKETED
    pattern = report.anti_pattern
    return {
        "reflection_id: must be given": bool(report.reflection_id.strip()),
        "timestamp: must be a time": _is_time(report.timestamp),
        "agent: must say who made the output": bool(report.agent.strip()),
        "rewind_ticket_id: must be given for this trigger": bool(report.rewind_ticket_id) or not needs_ticket,
        "error_analysis.surface_issue: must say what was seen": _says(analysis.surface_issue),
        "error_analysis.occurrence_process: must tell how it came about": bool(analysis.occurrence_process)
        and all(map(_says, analysis.occurrence_process)),
        "error_analysis.root_cause: must say why, not once more what": _says(analysis.root_cause)
        and analysis.root_cause.strip() != analysis.surface_issue.strip(),
        "error_classification.description: must say something": _says(kind.description),
        "error_classification.remediation: must say something": _says(kind.remediation),
        "repair_actions: must name steps, each with what it is to bring": bool(report.repair_actions)
        and all(_says(one.action) and _says(one.expected_outcome) for one in report.repair_actions),
        "learning_notes: must say what to do another time": _says(report.learning_notes),
        "anti_pattern: must have a name, symptoms and a prevention": pattern is None
        or (bool(pattern.pattern_name.strip()) and bool(pattern.symptoms) and _says(pattern.prevention)),
        "anti_pattern: must be given for 3.3.1": pattern is not None or kind.type != ErrorClass.CAPABILITY,
    }


def _says(text: str) -> bool:
    """More than a word to fill the field; a letter of Chinese says as much as two."""
    weight = sum(2 if ord(letter) > 0x2E80 else 1 for letter in text.strip())  # noqa: PLR2004 - where CJK begins
    return weight >= _SHORTEST and not _NOTHING.fullmatch(text.strip())


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def contradictions(report: Reflection, facts: Reflection) -> list[str]:
    """Where what somebody wrote is not what the engine knows; `facts` is the report that the rules filled."""
    known: dict[str, tuple[Any, Any]] = {
        "rewind_ticket_id": (report.rewind_ticket_id, facts.rewind_ticket_id),
        "trigger": (report.trigger, facts.trigger),
        "agent": (report.agent, facts.agent),
        "error_classification.type": (report.error_classification.type, facts.error_classification.type),
    }
    out = [f"{name}: says {str(said)!r}, and is {str(true)!r}" for name, (said, true) in known.items() if said != true]
    done = {one.action: one.status for one in facts.repair_actions}
    return out + [
        f"repair_actions: {one.action!r} is said to be completed, and was not seen to be"
        for one in report.repair_actions
        if one.status == "completed" and done.get(one.action) != "completed"
    ]
