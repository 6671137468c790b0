"""Keeps what came of warnings, a line for each step, and tells how often they were right."""

from __future__ import annotations

import json

from reflectloop import secrets
from reflectloop.flow.folders import Folders
from reflectloop.reflect.foresight import Afterthought, Tally
from reflectloop.world import clock, files

_FILE = "foresight.jsonl"


def keep(folders: Folders, run_id: str, step_id: str, thought: Afterthought) -> None:
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


def tally(folders: Folders) -> Tally:
    """Everything kept so far; a line that a crash tore counts for nothing."""
    try:
        lines = (folders.own / _FILE).read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return Tally()
    counted = Tally()
    for line in lines:
        try:
            said = json.loads(line)
            right, wrong, missed = len(said["right"]), len(said["wrong"]), bool(said["missed"])
        except (ValueError, KeyError, TypeError):
            continue
        counted = Tally(
            counted.right + right, counted.wrong + wrong, counted.foreseen + bool(right), counted.missed + missed
        )
    return counted
