"""Keeps what came of warnings, a line for each step, and tells how often they were right."""

from __future__ import annotations

import json
from collections.abc import Sequence

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.engine.folders import Folders
from reflectloop.engine.learning import lessons
from reflectloop.engine.run.steps import StepObserver, words
from reflectloop.errors import ReflectloopError
from reflectloop.lessons import lesson_store
from reflectloop.lessons import lesson_words as stems
from reflectloop.lessons.lesson import Lesson as Known
from reflectloop.lessons.lesson_files import LessonDir
from reflectloop.plan.model import Step
from reflectloop.reflection.warnings import (
    WARNING_KINDS,
    StepToWarn,
    StepWarning,
    WarningLesson,
    WarningOutcome,
    WarningStats,
    afterflect,
    preflect,
)
from reflectloop.system import clock, files

_FILE = "foresight.jsonl"
_LONGEST = 2_000  # characters of a step that are looked up
_CONSIDERED = 12


def ahead(folders: Folders, step: Step, signatures: Sequence[str], show: StepObserver) -> tuple[StepWarning, ...]:
    """What is known to go wrong with such a step. How a run goes does not depend on what can be read up."""
    about = StepToWarn(step.id, step.title, tuple(words(one) for one in step.commands), signatures=tuple(signatures))
    shelves = [one for one in (lessons.project_shelf(folders), lessons.user_shelf()) if one.folder.is_dir()]
    try:
        return preflect(about, dict.fromkeys(one for shelf in shelves for one in _bearing(shelf, about)))
    except (ReflectloopError, OSError) as fault:
        show.warning(step.id, f"lessons could not be read: {fault}")
        return ()


def _bearing(shelf: LessonDir, about: StepToWarn) -> list[WarningLesson]:
    query = " ".join((about.title, *about.commands))[:_LONGEST]
    near = lesson_store.search(shelf, query, kinds=tuple(WARNING_KINDS), statuses=("active",), limit=_CONSIDERED)
    own = [one for mark in about.signatures for one in lesson_store.by_mark(shelf, mark) if one.status == "active"]
    found = {one.id: one for one in (*own, *near)}.values()
    return [WarningLesson(one.kind, one.title, one.body, one.keywords, _of_failure(one), one.commands) for one in found]


def _of_failure(one: Known) -> str:
    """Its signature, where it is a failure's; a mark made of kind and title is found in no log."""
    return "" if one.signature == stems.signature(f"{one.kind} {one.title}") else one.signature


def look_back(
    folders: Folders,
    run_id: str,
    step_id: str,
    warned: tuple[StepWarning, ...],
    failure: FailureRecord | None,
    show: StepObserver,
) -> None:
    try:
        keep(folders, run_id, step_id, afterflect(warned, failure))
    except (ReflectloopError, OSError) as fault:
        show.warning(step_id, f"what came of warnings was not kept: {fault}")


def keep(folders: Folders, run_id: str, step_id: str, thought: WarningOutcome) -> None:
    """For whoever holds the project's lock."""
    path = folders.own / _FILE
    line = {
        "timestamp": clock.stamp(clock.now()),
        "run_id": run_id,
        "step_id": step_id,
        "right": [one.lesson for one in thought.right],
        "wrong": [one.lesson for one in thought.wrong],
        "missed": thought.missed,
        "precision": thought.precision,
        "recall": thought.recall,
    }
    said = secrets.current().redact(json.dumps(line, ensure_ascii=False))
    with files.room_for("what came of warnings", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(said + "\n")


def tally(folders: Folders) -> WarningStats:
    """Everything kept so far; a line that a crash tore counts for nothing."""
    try:
        lines = (folders.own / _FILE).read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return WarningStats()
    counted = WarningStats()
    for line in lines:
        try:
            said = json.loads(line)
            right, wrong, missed = len(said["right"]), len(said["wrong"]), bool(said["missed"])
        except (ValueError, KeyError, TypeError):
            continue
        counted = WarningStats(
            counted.right + right, counted.wrong + wrong, counted.foreseen + bool(right), counted.missed + missed
        )
    return counted
