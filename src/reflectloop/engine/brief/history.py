"""Tells what happened in a task: one entry for each event of its journal that a fresh agent must know."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.brief.model import BriefFailure, FailedPlace, HistoryEntry, Quote
from reflectloop.engine.steps import attempt_history, prompts
from reflectloop.engine.steps.prompts import FailedAttempt
from reflectloop.errors import ReflectloopError
from reflectloop.state import events
from reflectloop.state.journal import JournalEntry
from reflectloop.system import files
from reflectloop.workspace.folders import Folders

_MOST_PLACES = 10
_LONGEST = 400  # characters of one error
_OUTPUT_LINES = 30
_OUTPUT = 3_000  # characters
_DIFF = 3_000
_MOST_REASONS = 10
_SHORT = ("reason", "answer")


class TaskRecords(NamedTuple):
    """The journal of a task, and where the files that belong to it are."""

    folders: Folders
    task: str
    entries: Sequence[JournalEntry]

    @property
    def steps(self) -> Path:
        return self.folders.journal(self.task).parent / "steps"


def of(records: TaskRecords) -> list[HistoryEntry]:
    """Return the entries in the order of the journal; a failed attempt that it does not tell of yet comes last."""
    replanned = max((entry.seq for entry in records.entries if isinstance(entry.event, events.PlanChanged)), default=0)
    attempts: dict[str, int] = {}
    known: set[tuple[str, int]] = set()
    out: list[HistoryEntry] = []
    for entry in records.entries:
        event = entry.event
        _count(attempts, event)
        if isinstance(event, events.StepFinished) and not event.success:
            number = attempts.get(event.step_id, 1)
            known.add((event.step_id, number))
            # A changed plan counts attempts from 1 again, and their folders are used again.
            stored = _stored(records, event.step_id, number) if entry.seq > replanned else None
            out.append(_failed(entry.seq, event.step_id, number, stored, event.reason))
        elif isinstance(event, events.StepBlocked):
            # The attempt after which a step is blocked ends with this event alone.
            attempt = (event.step_id, attempts.get(event.step_id, 0))
            stored = _stored(records, *attempt) if attempt not in known and entry.seq > replanned else None
            if stored:
                known.add(attempt)
                out.append(_failed(entry.seq, *attempt, stored, ""))
            out += [HistoryEntry(seq=entry.seq, kind=event.kind, **fields) for fields in _plain(event, records)]
        else:
            out += [HistoryEntry(seq=entry.seq, kind=event.kind, **fields) for fields in _plain(event, records)]
    last = records.entries[-1].seq if records.entries else 0
    for step, number in attempts.items():
        stored = _stored(records, step, number) if (step, number) not in known and number else None
        out += [_failed(last, step, number, stored, "")] if stored else []
    return out


def open_failure(entries: Sequence[HistoryEntry], step: str | None) -> HistoryEntry | None:
    """Return the last diagnosed failure of this step, or of a run as a whole; None if the step did not fail."""
    failed = (entry for entry in reversed(entries) if entry.failure and entry.step in (step, None))
    return next(failed, None) if step else None


def shortened(entry: HistoryEntry) -> HistoryEntry:
    """Return an entry without what was printed and changed, and with little of what was said."""
    quotes = [Quote(name=quote.name, text=prompts.cut(quote.text, _LONGEST)) for quote in entry.quotes]
    return entry.model_copy(update={"quotes": tuple(quote for quote in quotes if quote.name in _SHORT)})


def _count(attempts: dict[str, int], event: events.Event) -> None:
    """Count attempts as the state does: one that was interrupted is none."""
    match event:
        case events.StepStarted(step_id=step):
            attempts[step] = attempts.get(step, 0) + 1
        case events.StepInterrupted(step_id=step):
            attempts[step] = attempts.get(step, 1) - 1
        case events.PlanChanged() | events.RunStarted():
            attempts.clear()


# Failures ---------------------------------------------------------------------------------------------------------


def _stored(records: TaskRecords, step: str, number: int) -> FailedAttempt | None:
    return attempt_history.read_attempt(records.steps / step, number)


def _failed(seq: int, step: str, number: int, stored: FailedAttempt | None, reason: str) -> HistoryEntry:
    quotes = [*_quoted("reason", stored.why if stored else reason), *(_quotes(stored) if stored else ())]
    return HistoryEntry(
        seq=seq,
        kind="attempt_failed",
        step=step,
        attempt=number,
        text=f"Step {step}, attempt {number} failed.",
        failure=_failure(stored.failure) if stored and stored.failure else None,
        quotes=tuple(quotes),
    )


def _quotes(stored: FailedAttempt) -> Iterator[Quote]:
    texts = {
        "approach": stored.approach,
        "output": _tail(stored.output),
        "diff": prompts.cut(stored.diff, _DIFF),
        "reflection": stored.learnt,
    }
    yield from (Quote(name=name, text=text) for name, text in texts.items() if text.strip())


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-_OUTPUT_LINES:])[-_OUTPUT:]


def _failure(record: FailureRecord) -> BriefFailure:
    cause = record.diagnosis
    places = [
        FailedPlace(test=place.test, file=place.file, line=place.line, error=prompts.one_line(place.error, _LONGEST))
        for place in record.details
    ]
    return BriefFailure(
        code=record.code,
        category=record.category,
        needs=record.needs,
        signature=record.signature,
        cause=cause.root_cause if cause else "",
        suggestion=cause.suggestion if cause else "",
        places=tuple(places[:_MOST_PLACES]),
    )


def _of_blocker(run_id: str, records: TaskRecords) -> dict[str, Any]:
    """Return the diagnosis of a failed run, and the last lines that its failed command printed."""
    from reflectloop.reflection import blocker_card  # noqa: PLC0415 - only a failed run has one

    with contextlib.suppress(ReflectloopError):
        card = blocker_card.read(records.folders, run_id)
        output = card.failure.log_excerpt or _last_log(records.folders.run_folder(run_id).logs, card.failure.step)
        quotes = (Quote(name="output", text=_tail(output)),) if output.strip() else ()
        return {"failure": _failure(card.failure), "step": card.failure.step, "quotes": quotes}
    return {}


def _last_log(logs: Path, step: str | None) -> str:
    written = sorted(logs.glob(f"{step}.*.log"), key=lambda path: (len(path.name), path.name)) if step else []
    return files.last_lines(written[-1], _OUTPUT_LINES) if written else ""


# Other events -----------------------------------------------------------------------------------------------------


# An event that is not listed here needs no entry.
_TEXTS: dict[type[events.Event], Callable[[Any], str]] = {
    events.RunStarted: lambda event: f"Run {event.run_id} began with {len(event.steps)} step(s).",
    events.StepFinished: lambda event: f"Step {event.step_id} is done.",
    events.StepInterrupted: lambda event: f"Step {event.step_id}: the engine died; the changes were discarded.",
    events.StepSkipped: lambda event: f"Step {event.step_id} was skipped.",
    events.StepBlocked: lambda event: f"Step {event.step_id} was blocked.",
    events.Answered: lambda event: f"A person answered step {event.step_id}.",
    events.FixTried: lambda event: f"Step {event.step_id}: known fix {event.lesson} was tried: {event.outcome}.",
    events.StepsAdded: lambda event: (
        f"Step {event.parent} was split into {', '.join(event.steps)}."
        if event.parent
        else f"Steps were added: {', '.join(event.steps)}."
    ),
    events.PlanChanged: lambda event: f"The plan was changed: {', '.join(event.steps)}.",
    events.StepsReset: lambda event: (
        "" if event.how == "retry" else f"These steps begin again ({event.how}): {', '.join(event.steps)}."
    ),
    events.RunReopened: lambda event: f"Run {event.run_id} was opened again.",
    events.RunPaused: lambda event: f"Run {event.run_id} was paused.",
    events.Aborted: lambda _event: "The task was aborted.",
    events.GateDecided: lambda event: (
        f"Gate {event.gate} on {prompts.one_line(event.subject)}: {event.outcome or event.decision}."
        if event.subject
        else f"Gate {event.gate} on the whole change: {event.outcome or event.decision}."
    ),
    events.Approved: lambda event: f"{prompts.one_line(event.by)} approved {len(event.findings)} finding(s).",
    events.RunFinished: lambda event: f"Run {event.run_id} ended: {event.error_code or 'passed'}.",
    events.Applied: lambda event: f"The change of run {event.run_id} was applied.",
    events.LatchSet: lambda event: f"The latch was set ({event.grade}, {event.error_code}).",
    events.LatchCleared: lambda event: f"The latch was lifted ({event.how}).",
}


def _plain(event: events.Event, records: TaskRecords) -> Iterator[dict[str, Any]]:
    """Yield the fields of an entry for an event, if it needs one."""
    write = _TEXTS.get(type(event))
    text = write(event) if write else ""
    if not text:
        return
    fields = {"text": text, "step": getattr(event, "step_id", None), "quotes": tuple(_data_of(event))}
    if isinstance(event, events.RunFinished) and event.error_code:
        fields |= _of_blocker(event.run_id, records)
    yield fields


def _data_of(event: events.Event) -> Iterator[Quote]:
    """Yield the words of people and agents in an event."""
    match event:
        case events.Answered(text=text):
            yield from _quoted("answer", text)
        case events.StepBlocked(reason=reason):
            yield from _quoted("question", reason)
        case events.StepFinished(checks=checks):
            yield from _quoted("proofs", _proofs(checks))
        case events.GateDecided(reasons=reasons):
            yield from _quoted("reason", "\n".join(map(str, reasons[:_MOST_REASONS])))
        case events.StepsAdded(steps=steps, titles=titles) | events.PlanChanged(steps=steps, titles=titles):
            yield from _titles(titles, steps)
            yield from _quoted("reason", event.reason)
        case _:
            yield from _quoted("reason", str(getattr(event, "reason", "")))


def _proofs(checks: Iterable[Mapping[str, object]]) -> str:
    ran = [f"{check.get('command', check.get('name'))}: {check.get('reason', '')}" for check in checks]
    return "\n".join(prompts.one_line(line, _LONGEST) for line in ran[:_MOST_REASONS])


def _quoted(name: str, text: str) -> list[Quote]:
    return [Quote(name=name, text=prompts.cut(text, _OUTPUT))] if text.strip() else []


def _titles(titles: Mapping[str, str], steps: Sequence[str]) -> list[Quote]:
    lines = [f"{name}. {prompts.one_line(titles[name], _LONGEST)}" for name in steps if titles.get(name)]
    return _quoted("titles", "\n".join(lines))
