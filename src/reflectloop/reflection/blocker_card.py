"""The ticket of a failed run, from the card that the run left."""

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


def ticket_of(folders: Folders, name: str) -> OpenTicket:
    """The ticket of a run that failed: the one there is, or a new one from its card."""
    run = folders.find_run(name)
    card = _card(run)
    known = ticket_store.of_run(folders, run.run_id)
    if known:
        return known
    failure = _record(run, card)
    times = len(same(folders, failure.signature, _MOST_CARDS))
    kind = class_of(failure.category, code=failure.code, times_seen=times)
    failure = failure.model_copy(update={"error_class": kind})
    told = filter(None, map(_fix, card.get("known_fixes") or ()))
    fixes = tuple(dict.fromkeys((*told, *ticket_lessons.fixes(folders, failure.signature))))
    said = str(card.get("summary") or failure.code)
    ticket = making.of_failure(failure, clock.ticket_id(clock.now()), run_id=run.run_id, said=said, fixes=fixes)
    context = TicketContext(
        trigger="step_failure",
        agent="executor",
        signature=failure.signature,
        problem=said,
        failure=failure,
        known_fixes=fixes,
    )
    shelf = ticket_store.shelf(folders)
    ticket_store.open_ticket(shelf, ticket, context)
    return OpenTicket(shelf, ticket, context)


def record_of(run: RunFolder) -> FailureRecord:
    """How a run failed."""
    return _record(run, _card(run))


def named(record: FailureRecord) -> str:
    """A failure in a line: what the tool said, else what most likely caused it."""
    told = record.diagnosis
    said = (told.line or told.root_cause) if told else record.log_excerpt
    return secrets.current().redact(said or record.code)[:_LONGEST]


def lesson_of(folders: Folders, name: str, said: dict[str, Any]) -> dict[str, Any]:
    """What a person says of a failed run as a lesson: the failure by its signature, and what to run is tried next time.

    Every field that was said stands; the title is the likely cause where none was.
    """
    run = folders.find_run(name)
    record = record_of(run)
    made = {"title": named(record), "signature": record.signature, "status": "active" if said["commands"] else None}
    return {**made, **{field: value for field, value in said.items() if value}}


class BlockerCard(NamedTuple):
    """What the card of a failed run says."""

    run_id: str
    summary: str
    failure: FailureRecord
    plan: str = "PLAN"
    again: str = ""  # the command that runs it once more
    advised: str = ""  # the command that its error named


def read(folders: Folders, name: str) -> BlockerCard:
    run = folders.find_run(name)
    card = _card(run)
    commands = card.get("commands")
    named = {key: str(value) for key, value in commands.items()} if isinstance(commands, dict) else {}
    envelope = card.get("envelope")
    sources = envelope.get("artifacts_read") if isinstance(envelope, dict) else None
    plan = str(sources[0]) if isinstance(sources, list) and sources else "PLAN"
    again, advised = named.get("retry", ""), named.get("next", "")
    return BlockerCard(run.run_id, str(card.get("summary") or ""), _record(run, card), plan, again, advised)


def _record(run: RunFolder, card: dict[str, Any]) -> FailureRecord:
    try:
        return FailureRecord.model_validate(card["failure"])
    except (KeyError, ValidationError) as fault:
        raise StateDamaged(f"{run.blocker} has no usable record of a failure") from fault


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
        raise StateDamaged(f"{run.blocker} is no card")
    return card


def _fix(one: object) -> str:
    """A known fix in words: its commands, else what is said of it."""
    if not isinstance(one, dict):
        return str(one)
    commands = one.get("commands") or ()
    return "; ".join(map(str, commands)) or str(one.get("fix") or one.get("title") or "")


def same(folders: Folders, name: str, most: int | None = None) -> list[str]:
    """The runs that failed of the same, among the last `most` or all of them; the oldest first."""
    cards = sorted((folders.own / "runs").glob("RLOP-*/blocker.yaml"), key=lambda path: path.stat().st_mtime_ns)
    looked_at = cards[-most:] if most else cards
    return [path.parent.name for path in looked_at if name.encode() in path.read_bytes()]
