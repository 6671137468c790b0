"""Where tickets, reflections and revised outputs lie: in their task's folder, or in ours where there is no task."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.errors import NothingToDo, StateDamaged
from reflectloop.reflection import ticket as tickets
from reflectloop.reflection.critic import CriticReport
from reflectloop.reflection.reflection_report import Trigger
from reflectloop.reflection.ticket import Ticket
from reflectloop.system import clock, files
from reflectloop.workspace.folders import Folders

TICKET_ID = re.compile(r"rewind_\d{8}_\d{6}_[0-9a-f]{6}")
CHECKPOINTS = "checkpoints.jsonl"
_CONTEXT = ".context.json"
_VERSION = re.compile(r"_v(\d{1,6})$")
_MOST = 500  # tickets that are looked back at
_Written = TypeVar("_Written", bound=BaseModel)


class TicketContext(BaseModel):
    """What a ticket does not say itself, and a reflection on it needs."""

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
        """How many were walked to their end."""
        return sum(self.report(ticket_id, number).is_file() for number in range(1, 10))

    def version(self, target: str) -> Path:
        """The last version of an output that lies here; the first one is the target itself, and not here."""
        found = _versions(self.outputs / _below(target))
        return max(found, key=_number, default=Path())

    def next_version(self, target: str) -> Path:
        base = self.outputs / _below(target)
        number = max((_number(one) for one in (base, *_versions(base))), default=1) + 1
        return base.with_name(f"{_stem(base)}_v{max(number, 2)}{base.suffix}")


def round_mark(number: int) -> str:
    return "" if number == 1 else f".r{number}"


def _below(target: str) -> Path:
    """A path that stays below a folder, whatever the target's own looks like."""
    path = Path(target)
    return Path(path.name) if path.is_absolute() or ".." in path.parts else path


def _stem(path: Path) -> str:
    return _VERSION.sub("", path.stem)


def _number(path: Path) -> int:
    found = _VERSION.search(path.stem)
    return int(found[1]) if found else 1


def _versions(base: Path) -> list[Path]:
    there = base.parent.iterdir() if base.parent.is_dir() else ()
    return [one for one in there if _stem(one) == _stem(base) and one.suffix == base.suffix and _number(one) > 1]


# Writing ----------------------------------------------------------------------------------------------------------


def shelf(folders: Folders) -> TicketDir:
    """The current task's, where there is one."""
    current = folders.current_task()
    return TicketDir(folders.own / "tasks" / current if current else folders.own)


def write(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    files.write_atomic(path, secrets.current().redact(text) + "\n")


def open_ticket(place: TicketDir, ticket: Ticket, context: TicketContext) -> Path:
    """On disk: first what belongs to it, so that a ticket that is there is whole."""
    path = place.tickets / f"{ticket.ticket_id}.json"
    write(place.tickets / f"{ticket.ticket_id}{_CONTEXT}", context.model_dump(mode="json", by_alias=True))
    write(path, ticket.model_dump(mode="json"))
    return path


def open_for_redo(folders: Folders, task_id: str, run_id: str, step_id: str, reason: str) -> Ticket:
    """The ticket of a step that a person wants done again."""
    ticket = tickets.of_request(reason, clock.ticket_id(clock.now()), run_id=run_id, step_id=step_id)
    context = TicketContext(trigger="director_request", agent="executor", signature=ticket.signature, problem=reason)
    open_ticket(TicketDir(folders.own / "tasks" / task_id), ticket, context)
    return ticket


# Reading ----------------------------------------------------------------------------------------------------------


class OpenTicket(NamedTuple):
    shelf: TicketDir
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


def of_run(folders: Folders, run_id: str) -> OpenTicket | None:
    """The ticket that was opened for a failed run, if one was."""
    for path in _all(folders):
        if run_id.encode() in path.read_bytes():
            found = find(folders, path.stem)
            if found.ticket.target == run_id and found.context.trigger == "step_failure":
                return found
    return None


def times_seen(folders: Folders, agent: str, signature: str) -> int:
    """How often the same worker got a ticket for the same mistakes; one that is damaged counts for nothing."""
    times = 0
    for path in _all(folders):
        with contextlib.suppress(StateDamaged):
            one = read(path.with_name(path.stem + _CONTEXT), TicketContext)
            times += one.agent == agent and one.signature == signature
    return times


def _all(folders: Folders) -> Iterator[Path]:
    """Every ticket, the latest first."""
    places = (folders.own / "tickets", *(folders.own / "tasks").glob("*/tickets"))
    found = [path for place in places for path in place.glob("*.json") if TICKET_ID.fullmatch(path.stem)]
    yield from sorted(found, key=lambda path: path.name, reverse=True)[:_MOST]


def lines(path: Path) -> list[dict[str, Any]]:
    """The notes that reflections left in a file; a line that is none is left behind."""
    found: list[dict[str, Any]] = []
    with contextlib.suppress(OSError):
        for raw in path.read_text("utf-8", "replace").splitlines():
            with contextlib.suppress(ValueError):
                said = json.loads(raw)
                found += [said] if isinstance(said, dict) and {"about", "target"} <= said.keys() else []
    return found


def checkpoints(place: TicketDir, target: str) -> tuple[str, ...]:
    """What is to be looked at on the way to this output, as reflections on it left it."""
    noted = (one for one in lines(place.folder / CHECKPOINTS) if one["target"] == target)
    return tuple(dict.fromkeys(str(one["about"]) for one in noted))


def read(path: Path, model: type[_Written]) -> _Written:
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as fault:
        said = fault.strerror if isinstance(fault, OSError) else f"{fault.error_count()} fault(s) in its fields"
        raise StateDamaged(f"{path} cannot be used: {said}", next_step=f"look at {path}, or remove it") from fault
