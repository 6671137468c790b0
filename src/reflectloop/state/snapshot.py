"""`state.json`: the state of a journal as one document, for readers and for speed. The journal decides."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflectloop.errors import StateDamaged
from reflectloop.state import events, journal
from reflectloop.state.fold import AgentUsage, Latch, RunState, StepState, Task, advance, fold
from reflectloop.state.record import FrozenRecord
from reflectloop.state.transitions import TaskState
from reflectloop.system import files

_SPLIT = "split into "  # begins the reason of a step that was split
NAME = journal.STATE
JOURNAL = "journal.jsonl"
SCHEMA = 1

Views = dict[str, list[str]]


class StateDocument(FrozenRecord):
    """The content of `state.json`. Old ones must always load: only add fields, with defaults."""

    schema_version: Literal[1]
    revision: int  # number of journal lines it covers
    journal_bytes: int  # length of these lines
    journal_sha256: str
    views: Views  # for each generated file its present and previous digest
    task: Task


class JournalView(NamedTuple):
    """A task by its journal, and the intact part of that journal."""

    task: Task
    raw: bytes


def read_journal(folder: Path) -> JournalView:
    """Return the task by its complete journal, with the journal's bytes."""
    raw = _sound(folder)
    return JournalView(fold(journal.parse(folder / JOURNAL, raw)), raw)


def load_from_journal(folder: Path) -> Task:
    """Return the task by its complete journal, for callers that change it."""
    return read_journal(folder).task


def load_task(folder: Path) -> Task:
    """Return the task in `folder` for reading, by `state.json` if it is safe. Writes nothing.

    A document that does not match the journal exactly is ignored: the complete journal is read, which reports a
    damaged line.
    """
    document = read_document(folder)
    raw = _sound(folder)
    if document and _covers(document, raw):
        try:
            for entry in journal.parse(folder / JOURNAL, raw[document.journal_bytes :], document.revision):
                advance(document.task, entry)
        except StateDamaged:
            pass  # the complete journal reports the damaged line
        else:
            return document.task
    return load_from_journal(folder)


def _sound(folder: Path) -> bytes:
    """Return the journal up to its last complete line."""
    raw = journal.content(folder / JOURNAL)
    journal.refuse_cut(folder / JOURNAL, raw)
    return raw[: raw.rfind(b"\n") + 1]


def _covers(document: StateDocument, raw: bytes) -> bool:
    part = memoryview(raw)[: document.journal_bytes]
    if len(part) != document.journal_bytes or hashlib.sha256(part).hexdigest() != document.journal_sha256:
        return False
    return raw.count(b"\n", 0, document.journal_bytes) == document.revision


# Writing -------------------------------------------------------------------------------------------------------


def write(folder: Path, covered: JournalView, views: Views) -> None:
    """Write the document atomically; only the engine does, under the project's lock."""
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


def _of_task(task: Task) -> events.Json:
    runs = {name: run.fields() | {"steps": _of_steps(run)} for name, run in task.runs.items()}
    spent = {step: {role: usage.fields() for role, usage in roles.items()} for step, roles in task.spent.items()}
    latch = task.latch.fields() if task.latch else None
    return task.fields() | {"latch": latch, "runs": runs, "spent": spent, "granted": task.granted.fields()}


def _of_steps(run: RunState) -> events.Json:
    return {name: step._asdict() | {"ended": _of_end(step.ended)} for name, step in run.steps.items()}


def _of_end(ended: events.StepFinished | None) -> events.Json | None:
    return {name: value for name, value in ended.payload().items() if name != "kind"} if ended else None


# Reading -------------------------------------------------------------------------------------------------------


def views(folder: Path) -> Views | None:
    """Return the digests of the generated files, without parsing the task; None if the document was edited."""
    raw = _bytes(folder)
    if raw is None:
        return {}
    text = journal.verified_content(raw.removesuffix(b"\n"))
    if text is None:
        return None
    try:
        head = json.loads(text.split(b',"task":', 1)[0] + b"}")
    except ValueError:
        return {}
    digests = head.get("views") if head.get("schema_version") == SCHEMA else None
    return digests if isinstance(digests, dict) else {}


def read_document(folder: Path) -> StateDocument | None:
    """Return the document, or None if it is missing, edited, or of another schema."""
    record = _unsealed(_bytes(folder) or b"")
    if record is None or record.get("schema_version") != SCHEMA:
        return None
    try:
        task = _task(record.pop("task"))
        return StateDocument(task=task, **record)  # type: ignore[arg-type]
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


def _task(record: Any) -> Task:  # noqa: ANN401 - any JSON value
    record["state"] = TaskState(record["state"])
    record["left"] = TaskState(record["left"]) if record["left"] else None
    record["latch"] = Latch(**record["latch"]) if record["latch"] else None
    record["runs"] = {name: _run(run) for name, run in record["runs"].items()}
    for step, roles in record.get("spent", {}).items():
        record["spent"][step] = {role: AgentUsage(**usage) for role, usage in roles.items()}
    record["granted"] = AgentUsage(**record.get("granted", {}))
    return Task(**record)


def _run(record: dict[str, Any]) -> RunState:
    record["steps"] = {name: _step(step) for name, step in record["steps"].items()}
    return RunState(**record)


def _step(record: dict[str, Any]) -> StepState:
    if record["ended"]:
        record["ended"] = events.StepFinished(**record["ended"])
    return StepState(**{**record, "parts": tuple(record.get("parts") or _parts_named(record))})


def _parts_named(record: dict[str, Any]) -> list[str]:
    """Return the parts that the reason of a split step names; states of older versions have no field for them."""
    reason = str(record["reason"])
    split = record["status"] == "skipped" and reason.startswith(_SPLIT)
    return reason.removeprefix(_SPLIT).split(", ") if split else []


def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of the document."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - only needed to generate the schema

    made = TypeAdapter(StateDocument).json_schema(mode="serialization")
    _name_fields(made)
    made["properties"]["crc"] = {"type": "string", "description": "CRC-32 of everything before it"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "required": [*made["required"], "crc"]}


def _name_fields(made: Any) -> None:  # noqa: ANN401 - any part of a schema
    """Describe steps as objects: they are tuples here but written with field names."""
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
