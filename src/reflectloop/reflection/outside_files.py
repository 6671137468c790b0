"""Takes tickets and reflection reports that somebody else wrote: another critic, an agent, a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from reflectloop import config, secrets
from reflectloop.diagnosis.failure_record import ErrorClass
from reflectloop.errors import Fault, InvalidInput
from reflectloop.reflection import reflection_report, ticket_lessons, ticket_store
from reflectloop.reflection.reflection_report import Reflection
from reflectloop.reflection.remediation_table import HANDLING
from reflectloop.reflection.ticket import Ticket, repair_plan
from reflectloop.reflection.ticket_store import TICKET_ID, OpenTicket, TicketContext
from reflectloop.system import clock
from reflectloop.terms import wrong_shape
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import Folders

_LARGEST = 4 << 20
_OPTIONAL = ("agent", "trigger", "problem", "reason", "timestamp")  # of a ticket; kept in its context, or not needed


class KeptReport(NamedTuple):
    """A report that was taken, the file that holds it now, and warnings about its lesson."""

    report: Reflection
    path: Path
    warnings: tuple[str, ...]


def read(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; raise InvalidInput if there is none."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise InvalidInput(f"{path} is larger than {_LARGEST >> 20} MB", next_step="name a ticket or a report")
        value = json.loads(raw)
    except OSError as fault:
        raise InvalidInput(f"cannot read {path}: {fault.strerror}", next_step="name a ticket or a report") from fault
    except (ValueError, RecursionError) as fault:
        raise InvalidInput(f"{path} is not JSON: {fault}", next_step=f"correct {path}") from fault
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} holds no JSON object", next_step="name a ticket or a report")
    secret_guard.refuse_secret_text(raw.decode("utf-8", "replace"), f"{path}")
    return value


def is_report(value: dict[str, Any]) -> bool:
    return "error_analysis" in value or "reflection_id" in value


def names_report(path: Path) -> bool:
    """Return True if a path is a file with a report in it."""
    return path.is_file() and is_report(read(path))


# Tickets --------------------------------------------------------------------------------------------------------


def take_ticket(folders: Folders, path: Path, value: dict[str, Any]) -> OpenTicket:
    """Store a ticket under the project, with the fields that its author left out; return the stored one."""
    ticket = _ticket(path, value)
    known = ticket_store.known(folders, ticket.ticket_id)
    if known is not None:
        if known.ticket != ticket:
            raise InvalidInput(
                f"there is another ticket {ticket.ticket_id!r} already",
                next_step=f"give it another ticket_id in {path}",
            )
        return known
    triggers = [trigger for trigger in reflection_report.TRIGGERS if trigger == value.get("trigger")]
    context = TicketContext(
        trigger=triggers[0] if triggers else "critic_evaluation",
        agent=str(value.get("agent") or "executor"),
        signature=ticket.signature,
        problem=str(value.get("problem") or ""),
    )
    place = ticket_store.current_dir(folders)
    ticket_store.open_ticket(place, ticket, context)
    return OpenTicket(place, ticket, context)


def _ticket(path: Path, value: dict[str, Any]) -> Ticket:
    fields = {key: item for key, item in value.items() if key not in _OPTIONAL}
    fields.setdefault("quality_score", None)
    fields.setdefault("repair_plan", ())
    faults: list[Fault] = []
    try:
        ticket = Ticket.model_validate(fields)
    except ValidationError as refused:
        # A list whose items are faulty is also called too short, which would only confuse.
        faults = [_fault(error) for error in refused.errors() if error["type"] != "too_short" or not error["input"]]
    name = value.get("ticket_id")
    if isinstance(name, str) and not TICKET_ID.fullmatch(name):
        faults.append(Fault("ticket_id", None, "must be rewind_ and letters, digits, _ or -", InvalidInput.code))
    if faults:
        raise InvalidInput(f"{path} is no ticket", next_step=f"correct {path}", faults=tuple(faults))
    return ticket if ticket.repair_plan else ticket.model_copy(update={"repair_plan": repair_plan(ticket.issues)})


def _fault(error: Any) -> Fault:  # noqa: ANN401 - pydantic's own mapping
    place = ".".join(map(str, error["loc"]))
    return Fault(place, None, wrong_shape(error["type"], error.get("ctx", {}), error["msg"]), InvalidInput.code)


# Reports --------------------------------------------------------------------------------------------------------


def take_report(folders: Folders, settings: config.Config, path: Path, value: dict[str, Any]) -> KeptReport:
    """Store a report that passes the checklist, and what it teaches. A report without a ticket is a self-check."""
    completed = complete(value)
    faults = reflection_report.faults_of(completed)
    if faults:
        listed = tuple(Fault(*_placed(fault), InvalidInput.code) for fault in faults)
        raise InvalidInput(f"{path} is no complete report", next_step=f"correct {path}", faults=listed)
    report = Reflection.model_validate(completed)
    place = ticket_store.current_dir(folders)
    target = place.reflections / f"{_file_name(report)}.json"
    ticket_store.write(target, report.model_dump(mode="json"))
    warnings: list[str] = []
    if report.anti_pattern:
        ticket = ticket_store.known(folders, report.rewind_ticket_id or "")
        signature = ticket.context.signature if ticket else ""
        named = report.rewind_ticket_id or ""
        warnings = ticket_lessons.keep_pattern(folders, report.anti_pattern, named, signature)
    if settings.publish.research:
        from reflectloop.reflection import publish_research  # noqa: PLC0415 - rarely configured

        warnings += publish_research.publish(folders, _file_name(report), 1, report, None)
    return KeptReport(report, target, tuple(warnings))


def complete(value: dict[str, Any]) -> dict[str, Any]:
    """Return a report with the fields that follow from the others where its author left them out."""
    report = dict(value)
    report.setdefault("timestamp", clock.stamp(clock.now()))
    report.setdefault("agent", "executor")
    report.setdefault("rewind_ticket_id", None)
    report.setdefault("trigger", "critic_evaluation" if report["rewind_ticket_id"] else "self_check")
    analysis, kind = report.get("error_analysis"), report.get("error_classification")
    surface = str(analysis.get("surface_issue", "")) if isinstance(analysis, dict) else ""
    if isinstance(kind, dict):
        report["error_classification"] = {"remediation": _remediation(kind.get("type")), **kind}
    actions = report.get("repair_actions")
    if isinstance(actions, list):
        expected = f"this no longer holds: {surface}"
        report["repair_actions"] = [
            {"expected_outcome": expected, **action} if isinstance(action, dict) else action for action in actions
        ]
    return report


def _remediation(kind: object) -> str:
    if kind not in list(ErrorClass):
        return ""
    return HANDLING[ErrorClass(str(kind))].remediation


def _placed(fault: str) -> tuple[str, None, str]:
    place, _, message = fault.partition(": ")
    return place, None, message


def _file_name(report: Reflection) -> str:
    name = report.rewind_ticket_id or report.reflection_id
    plain = "".join(char if char.isalnum() or char in "_-" else "_" for char in name)[:100]
    return secrets.current_detector().redact(plain)
