"""Measures how long it takes to undo half a step, and to get from a dead engine to the next step."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal

from bench import ours, race
from bench.ground import Ground
from bench.race import Contestant
from bench.table import Measure, Row, Section
from reflectloop.engine import pipeline as flow
from reflectloop.engine.run.request import NullObserver, RunRequest
from reflectloop.state import events
from reflectloop.state.journal import JournalEntry
from reflectloop.workspace import workspace_registry
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.project import OWN_FOLDER

_BAR_S = 0.1
_COMMANDS = ("echo whole > whole.txt", "echo half > half.txt")


def measure(ground: Ground) -> Section:
    files = 7_000 if ground.quick else 100_000
    rounds = 2 if ground.quick else 5
    rows: list[Row] = []
    for kind in ours.kinds():
        ours.choose(kind)
        field = _Field(ground, files, kind)
        times = race.run(field.contestants(), rounds, settle=True)
        field.close()
        bar = Measure("bar", _BAR_S)
        rows += [
            Row(f"{ours.NAMES[kind]}, {files:,} files: {name}", Measure("", spent.wall_s), None, bar, 1.0)
            for name, spent in times.items()
        ]
    notes = [
        f"Wall time, median of {rounds} rounds.",
        "Rollback: a workspace with a changed, a new and a deleted file gets the tree before the step again.",
        (
            "Resume: an engine was killed by -9 when its second step began; from the fork of the next engine, which "
            "has its modules, to the line of its journal that says that this step begins again."
        ),
    ]
    return Section("recovery: after half a step", notes, rows)


class _Field:
    def __init__(self, ground: Ground, files: int, kind: ours.Kind) -> None:
        self._root, self._copies, self._files, self._kind = (
            ground.repository(files),
            ground.disk / "copies",
            files,
            kind,
        )
        self._plan = ground.disk / "recovery.json"
        steps = [{"id": f"s{number}", "commands": [command]} for number, command in enumerate(_COMMANDS)]
        self._plan.write_text(json.dumps({"plan": {"title": "Two steps", "track": "direct", "steps": steps}}))
        self._space: Workspace | None = None

    def contestants(self) -> list[Contestant]:
        return [
            Contestant("rollback", self._roll_back, before=self._half_a_step, after=self._clear),
            Contestant("resume to the next step", self._resume, before=self._die, after=self._clear),
        ]

    def close(self) -> None:
        for folder in (self._copies, self._root / OWN_FOLDER):
            shutil.rmtree(folder, ignore_errors=True)  # a process behind removes some of it as well

    def _half_a_step(self) -> None:
        self._space = ours.workspace(self._root, self._copies, self._kind)
        ours.half_a_step(self._space, self._files)

    def _roll_back(self) -> None:
        assert self._space  # noqa: S101
        self._space.reset_to(self._space.base_tree)

    def _die(self) -> None:
        self._engine(RunRequest(self._root, self._plan, sandbox_root=self._copies, jobs=1, new_task=True))

    def _resume(self) -> None:
        self._engine(RunRequest(self._root, sandbox_root=self._copies, jobs=1, resume=True))

    def _engine(self, request: RunRequest) -> None:
        """Run an engine in a process of its own, until it dies."""
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                flow.run(request, _DiesAtTheSecondStep())
            os._exit(1)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
            raise ChildProcessError("the engine did not come to its second step")

    def _clear(self) -> None:
        if self._space:
            ours.dispose(self._root, self._space)
            self._space = None
        for entry in workspace_registry.entries(self._root / OWN_FOLDER):
            workspace_registry.destroy(entry)


class _DiesAtTheSecondStep(NullObserver):
    def happened(self, entry: JournalEntry) -> None:
        if isinstance(entry.event, events.StepStarted) and entry.event.step_id == "s1":
            os.kill(os.getpid(), signal.SIGKILL)
