"""`state.json`: the fold of a journal as one document, for readers and as a shortcut; the journal stays the truth."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflectloop.errors import StateDamaged
from reflectloop.state import events, journal
from reflectloop.state.fold import AgentUsage, Latch, RunState, StepState, Task, advance, fold
from reflectloop.state.transitions import TaskState
from reflectloop.system import files

NAME = journal.STATE
JOURNAL = "journal.jsonl"
SCHEMA = 1

Views = dict[str, list[str]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StateDocument:
    """What `state.json` says. Old ones must load for ever: fields may only be added, with defaults."""

    schema_version: Literal[1]
    revision: int  # how many lines of the journal it covers
    journal_bytes: int  # how long these are
    journal_sha256: str
    views: Views  # of each generated file the digest it has, and the one it had before
    task: Task


class JournalView(NamedTuple):
    """A task as a journal says, and the sound part of that journal."""

    task: Task
    raw: bytes


def of_journal(folder: Path) -> JournalView:
    """The task and what says so."""
    raw = _sound(folder)
    return JournalView(fold(journal.parse(folder / JOURNAL, raw)), raw)


def whole(folder: Path) -> Task:
    """The task by every line there is: for whoever acts on it."""
    return of_journal(folder).task


def load(folder: Path) -> Task:
    """For whoever only looks: the task in `folder`, with as little reading as is safe. Writes nothing.

    A document that does not fit the journal byte for byte is passed over: it is the journal that is then read whole,
    and that says which of its lines is damaged.
    """
    kept = read(folder)
    raw = _sound(folder)
    if kept and _covers(kept, raw):
        try:
            for entry in journal.parse(folder / JOURNAL, raw[kept.journal_bytes :], kept.revision):
                advance(kept.task, entry)
        except StateDamaged:
            pass  # whose fault it is, only the whole journal can say
        else:
            return kept.task
    return whole(folder)


def _sound(folder: Path) -> bytes:
    """The journal up to its last whole line."""
    raw = journal.content(folder / JOURNAL)
    journal.refuse_cut(folder / JOURNAL, raw)
    return raw[: raw.rfind(b"\n") + 1]


def _covers(kept: StateDocument, raw: bytes) -> bool:
    part = memoryview(raw)[: kept.journal_bytes]
    if len(part) != kept.journal_bytes or hashlib.sha256(part).hexdigest() != kept.journal_sha256:
        return False
    return raw.count(b"\n", 0, kept.journal_bytes) == kept.revision


# Writing -------------------------------------------------------------------------------------------------------


def write(folder: Path, covered: JournalView, views: Views) -> None:
    """Whole or not at all; by the engine only, under the project's lock."""
    task, raw = covered
    document: events.Json = {
        "schema_version": SCHEMA,
        "revision": raw.count(b"\n"),
        "journal_bytes": len(raw),
        "journal_sha256": hashlib.sha256(raw).hexdigest(),
        "views": views,
        "task": _of_task(task),
    }
    files.write_atomic(folder / NAME, journal.seal(document))


def _fields(value: Task | RunState | Latch | AgentUsage) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _of_task(task: Task) -> events.Json:
    runs = {name: _fields(run) | {"steps": _of_steps(run)} for name, run in task.runs.items()}
    spent = {step: {role: _fields(one) for role, one in roles.items()} for step, roles in task.spent.items()}
    latch = _fields(task.latch) if task.latch else None
    return _fields(task) | {"latch": latch, "runs": runs, "spent": spent, "granted": _fields(task.granted)}


def _of_steps(run: RunState) -> events.Json:
    return {name: step._asdict() | {"ended": _of_end(step.ended)} for name, step in run.steps.items()}


def _of_end(ended: events.StepFinished | None) -> events.Json | None:
    return {name: value for name, value in ended.payload().items() if name != "kind"} if ended else None


# Reading -------------------------------------------------------------------------------------------------------


def views(folder: Path) -> Views | None:
    """The digests of the generated files, without reading the steps; None where the document was tampered with."""
    raw = _bytes(folder)
    if raw is None:
        return {}
    text = journal.sound(raw.removesuffix(b"\n"))
    if text is None:
        return None
    try:
        head = json.loads(text.split(b',"task":', 1)[0] + b"}")
    except ValueError:
        return {}
    found = head.get("views") if head.get("schema_version") == SCHEMA else None
    return found if isinstance(found, dict) else {}


def read(folder: Path) -> StateDocument | None:
    """The document; None where it is missing, not as it was written, or of another schema."""
    said = _unsealed(_bytes(folder) or b"")
    if said is None or said.get("schema_version") != SCHEMA:
        return None
    try:
        task = _task(said.pop("task"))
        return StateDocument(task=task, **said)  # type: ignore[arg-type]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _bytes(folder: Path) -> bytes | None:
    try:
        return (folder / NAME).read_bytes() if (folder / NAME).is_file() else None
    except OSError:
        return None


def _unsealed(raw: bytes) -> events.Json | None:
    try:
        return journal.unseal(raw.removesuffix(b"\n"))
    except (ValueError, RecursionError):
        return None


def _task(said: Any) -> Task:  # noqa: ANN401 - whatever a file says
    said["state"] = TaskState(said["state"])
    said["left"] = TaskState(said["left"]) if said["left"] else None
    said["latch"] = Latch(**said["latch"]) if said["latch"] else None
    said["runs"] = {name: _run(run) for name, run in said["runs"].items()}
    for step, roles in said.get("spent", {}).items():
        said["spent"][step] = {role: AgentUsage(**one) for role, one in roles.items()}
    said["granted"] = AgentUsage(**said.get("granted", {}))
    return Task(**said)


def _run(said: dict[str, Any]) -> RunState:
    said["steps"] = {name: _step(step) for name, step in said["steps"].items()}
    return RunState(**said)


def _step(said: dict[str, Any]) -> StepState:
    if said["ended"]:
        said["ended"] = events.StepFinished(**said["ended"])
    return StepState(**said)


def schema() -> Mapping[str, Any]:
    """The JSON Schema of the document."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - only needed to write the schema down

    made = TypeAdapter(StateDocument).json_schema(mode="serialization")
    _name_fields(made)
    made["properties"]["crc"] = {"type": "string", "description": "CRC-32 of everything before it"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "required": [*made["required"], "crc"]}


def _name_fields(made: Any) -> None:  # noqa: ANN401 - any part of a schema
    """Steps are written with the names of their fields, though they are tuples here."""
    if not isinstance(made, dict):
        return
    for key, part in made.items():
        if isinstance(part, dict) and part.get("maxItems") == len(StepState._fields) and "prefixItems" in part:
            fields = dict(zip(StepState._fields, part["prefixItems"], strict=True))
            made[key] = {
                "type": "object",
                "properties": fields,
                "required": list(fields),
                "additionalProperties": False,
            }
        _name_fields(made[key])
