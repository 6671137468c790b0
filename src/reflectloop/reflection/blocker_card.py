"""Read the blocker that a failed run left: as facts, as a ticket, as a lesson."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord, class_of
from reflectloop.errors import NothingToDo, StateDamaged
from reflectloop.reflection import ticket as making
from reflectloop.reflection import ticket_lessons, ticket_store
from reflectloop.reflection.ticket_store import OpenTicket, TicketContext
from reflectloop.system import clock
from reflectloop.workspace.folders import Folders, RunFolder

_MOST_CARDS = 50
_LONGEST = 200  # of a title
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BlockerCard(NamedTuple):
    """The facts in the blocker of a failed run."""

    run_id: str
    summary: str
    failure: FailureRecord
    plan: str = "PLAN"
    again: str = ""  # the command that runs it again
    advised: str = ""  # the command that its error suggested


def read(folders: Folders, name: str) -> BlockerCard:
    """Return the blocker of a run, given by its id or a part of it."""
    run = folders.find_run(name)
    card = _card(run)
    commands = card.get("commands")
    texts = {key: str(value) for key, value in commands.items()} if isinstance(commands, dict) else {}
    envelope = card.get("envelope")
    sources = envelope.get("artifacts_read") if isinstance(envelope, dict) else None
    plan = str(sources[0]) if isinstance(sources, list) and sources else "PLAN"
    again, advised = texts.get("retry", ""), texts.get("next", "")
    return BlockerCard(run.run_id, str(card.get("summary") or ""), _record(run, card), plan, again, advised)


def record_of(run: RunFolder) -> FailureRecord:
    """Return the failure record in a run's blocker."""
    return _record(run, _card(run))


def runs_with_signature(folders: Folders, signature: str, most: int | None = None) -> list[str]:
    """Return the runs whose blocker has this signature, oldest first, among the last `most` or all."""
    cards = sorted((folders.own / "runs").glob("RLOP-*/blocker.yaml"), key=lambda path: path.stat().st_mtime_ns)
    recent = cards[-most:] if most else cards
    return [path.parent.name for path in recent if signature.encode() in path.read_bytes()]


def _record(run: RunFolder, card: dict[str, Any]) -> FailureRecord:
    try:
        return FailureRecord.model_validate(card["failure"])
    except (KeyError, ValidationError) as fault:
        raise StateDamaged(f"{run.blocker} has no usable failure record") from fault


def _card(run: RunFolder) -> dict[str, Any]:
    try:
        card = yaml.load(run.blocker.read_bytes(), Loader=_Loader)  # noqa: S506 - a safe loader, the fast one
    except FileNotFoundError as fault:
        raise NothingToDo(
            f"{run.run_id} did not fail; there is nothing to reflect on", next_step=f"reflectloop show {run.run_id}"
        ) from fault
    except (OSError, yaml.YAMLError) as fault:
        raise StateDamaged(f"{run.blocker} cannot be read: {fault}") from fault
    if not isinstance(card, dict):
        raise StateDamaged(f"{run.blocker} is not a blocker")
    return card


# As a ticket or a lesson ------------------------------------------------------------------------------------------


def ticket_of(folders: Folders, name: str) -> OpenTicket:
    """Return the ticket of a failed run; open one from its blocker if there is none."""
    run = folders.find_run(name)
    card = _card(run)
    known = ticket_store.find_for_run(folders, run.run_id)
    if known:
        return known
    failure = _record(run, card)
    times = len(runs_with_signature(folders, failure.signature, _MOST_CARDS))
    kind = class_of(failure.category, code=failure.code, times_seen=times)
    failure = failure.model_copy(update={"error_class": kind})
    listed = filter(None, map(_fix_text, card.get("known_fixes") or ()))
    fixes = tuple(dict.fromkeys((*listed, *ticket_lessons.fixes(folders, failure.signature))))
    summary = str(card.get("summary") or failure.code)
    ticket = making.of_failure(
        failure, clock.ticket_id(clock.now()), run_id=run.run_id, description=summary, fixes=fixes
    )
    context = TicketContext(
        trigger="step_failure",
        agent="executor",
        signature=failure.signature,
        problem=summary,
        failure=failure,
        known_fixes=fixes,
    )
    place = ticket_store.current_dir(folders)
    ticket_store.open_ticket(place, ticket, context)
    return OpenTicket(place, ticket, context)


def _fix_text(fix: object) -> str:
    """Return a known fix as text: its commands, or else its description."""
    if not isinstance(fix, dict):
        return str(fix)
    commands = fix.get("commands") or ()
    return "; ".join(map(str, commands)) or str(fix.get("fix") or fix.get("title") or "")


def failure_title(record: FailureRecord) -> str:
    """Return a failure as one line: the line that the tool printed, or else the likely cause."""
    diagnosis = record.diagnosis
    text = (diagnosis.line or diagnosis.root_cause) if diagnosis else record.log_excerpt
    return secrets.current_detector().redact(text or record.code)[:_LONGEST]


def lesson_of(folders: Folders, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a lesson about a failed run.

    Fields that the person gave (`given`) win; title and signature come from the failure. A lesson with commands is
    active at once, so that the next run tries them.
    """
    record = record_of(folders.find_run(name))
    fields = {
        "title": failure_title(record),
        "signature": record.signature,
        "status": "active" if given["commands"] else None,
    }
    return {**fields, **{field: value for field, value in given.items() if value}}
