"""Read and write tickets, reflections and revised outputs, in the folder of their task or of the project."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.errors import NothingToDo, StateDamaged
from reflectloop.reflection import ticket as making
from reflectloop.reflection.critic import CriticReport
from reflectloop.reflection.reflection_report import Trigger
from reflectloop.reflection.ticket import Ticket
from reflectloop.system import clock, files
from reflectloop.system.patterns import lazy
from reflectloop.workspace.folders import Folders

TICKET_ID = lazy(r"rewind_[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # also of other critics
CHECKPOINTS = "checkpoints.jsonl"
_CONTEXT = ".context.json"
_VERSION = lazy(r"_v(\d{1,6})$")
_MOST = 500  # tickets that are searched, latest first
_Written = TypeVar("_Written", bound=BaseModel)


class TicketContext(BaseModel):
    """The facts that a reflection needs and the ticket itself does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trigger: Trigger
    agent: str
    signature: str
    problem: str = ""
    requirements: str | None = None  # the file, for the critic's next look
    did_not_know: bool = False
    interrupted: bool = False
    evaluation: CriticReport | None = None
    failure: FailureRecord | None = None
    known_fixes: tuple[str, ...] = ()


class TicketDir(NamedTuple):
    """The folder that holds a task's tickets, reflections and outputs."""

    folder: Path

    @property
    def tickets(self) -> Path:
        return self.folder / "tickets"

    @property
    def reflections(self) -> Path:
        return self.folder / "reflections"

    @property
    def outputs(self) -> Path:
        return self.folder / "outputs"

    def report(self, ticket_id: str, number: int) -> Path:
        return self.reflections / f"{ticket_id}{round_mark(number)}.json"

    def steps(self, ticket_id: str, number: int) -> Path:
        return self.reflections / f"{ticket_id}{round_mark(number)}"

    def rounds(self, ticket_id: str) -> int:
        """Return the number of complete rounds."""
        return sum(self.report(ticket_id, number).is_file() for number in range(1, 10))

    def version(self, target: str) -> Path:
        """Return the last revised version of an output; an empty path if there is only the target itself."""
        versions = _versions(self.outputs / _below(target))
        return max(versions, key=_number, default=Path())

    def next_version(self, target: str) -> Path:
        base = self.outputs / _below(target)
        number = max((_number(path) for path in (base, *_versions(base))), default=1) + 1
        return base.with_name(f"{_stem(base)}_v{max(number, 2)}{base.suffix}")


def round_mark(number: int) -> str:
    return "" if number == 1 else f".r{number}"


def _below(target: str) -> Path:
    """Return a relative path for a target that cannot lead out of a folder."""
    path = Path(target)
    return Path(path.name) if path.is_absolute() or ".." in path.parts else path


def _stem(path: Path) -> str:
    return _VERSION.sub("", path.stem)


def _number(path: Path) -> int:
    match = _VERSION.search(path.stem)
    return int(match[1]) if match else 1


def _versions(base: Path) -> list[Path]:
    paths = base.parent.iterdir() if base.parent.is_dir() else ()
    return [path for path in paths if _stem(path) == _stem(base) and path.suffix == base.suffix and _number(path) > 1]


# Writing ----------------------------------------------------------------------------------------------------------


def current_dir(folders: Folders) -> TicketDir:
    """Return the folder of the current task's tickets, or the project's if there is no task."""
    current = folders.current_task()
    return TicketDir(folders.own / "tasks" / current if current else folders.own)


def write(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    files.write_atomic(path, secrets.current_detector().redact(text) + "\n")


def open_ticket(place: TicketDir, ticket: Ticket, context: TicketContext) -> Path:
    """Write a ticket, its context first, so that a ticket on disk is always complete."""
    path = place.tickets / f"{ticket.ticket_id}.json"
    write(place.tickets / f"{ticket.ticket_id}{_CONTEXT}", context.model_dump(mode="json", by_alias=True))
    write(path, ticket.model_dump(mode="json"))
    return path


def open_for_redo(folders: Folders, task_id: str, run_id: str, step_id: str, reason: str) -> Ticket:
    """Open a ticket for a step that a person wants done again."""
    ticket = making.of_request(reason, clock.ticket_id(clock.now()), run_id=run_id, step_id=step_id)
    context = TicketContext(trigger="director_request", agent="executor", signature=ticket.signature, problem=reason)
    open_ticket(TicketDir(folders.own / "tasks" / task_id), ticket, context)
    return ticket


# Reading ----------------------------------------------------------------------------------------------------------


class OpenTicket(NamedTuple):
    place: TicketDir
    ticket: Ticket
    context: TicketContext


def find(folders: Folders, ticket_id: str) -> OpenTicket:
    for path in _all(folders):
        if path.name == f"{ticket_id}.json":
            ticket = read(path, Ticket)
            return OpenTicket(
                TicketDir(path.parents[1]), ticket, read(path.with_name(f"{ticket.ticket_id}{_CONTEXT}"), TicketContext)
            )
    raise NothingToDo(f"there is no ticket {ticket_id!r}", next_step="reflectloop critic FILE --requirements FILE")


def known(folders: Folders, ticket_id: str) -> OpenTicket | None:
    """Return the ticket with this id, or None if there is none."""
    return find(folders, ticket_id) if any(path.stem == ticket_id for path in _all(folders)) else None


def find_for_run(folders: Folders, run_id: str) -> OpenTicket | None:
    """Return the ticket that was opened for a failed run, or None."""
    for path in _all(folders):
        if run_id.encode() in path.read_bytes():
            opened = find(folders, path.stem)
            if opened.ticket.target == run_id and opened.context.trigger == "step_failure":
                return opened
    return None


def times_seen(folders: Folders, agent: str, signature: str) -> int:
    """Return how often the same agent got a ticket with this signature; damaged tickets are not counted."""
    times = 0
    for path in _all(folders):
        with contextlib.suppress(StateDamaged):
            context = read(path.with_name(path.stem + _CONTEXT), TicketContext)
            times += context.agent == agent and context.signature == signature
    return times


def _all(folders: Folders) -> Iterator[Path]:
    """Yield the paths of tickets, latest first."""
    places = (folders.own / "tickets", *(folders.own / "tasks").glob("*/tickets"))
    paths = [path for place in places for path in place.glob("*.json") if TICKET_ID.fullmatch(path.stem)]
    yield from sorted(paths, key=lambda path: path.name, reverse=True)[:_MOST]


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the notes in a file that reflections wrote; other lines are skipped."""
    notes: list[dict[str, Any]] = []
    with contextlib.suppress(OSError):
        for raw in path.read_text("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError):
                note = json.loads(raw)
                notes += [note] if isinstance(note, dict) and {"about", "target"} <= note.keys() else []
    return notes


def checkpoints(place: TicketDir, target: str) -> tuple[str, ...]:
    """Return the checkpoints that reflections on an output left for the next attempt at it."""
    notes = (note for note in lines(place.folder / CHECKPOINTS) if note["target"] == target)
    return tuple(dict.fromkeys(str(note["about"]) for note in notes))


def read(path: Path, model: type[_Written]) -> _Written:
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else f"{fault.error_count()} fault(s) in its fields"
        raise StateDamaged(f"{path} cannot be used: {reason}", next_step=f"look at {path}, or remove it") from fault
