"""Kills the engine after every event and at random instants, goes on, and compares with a run that nobody disturbed."""

from __future__ import annotations

import collections
import fcntl
import itertools
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from proof.environment import Stage
from proof.paper import Paper
from reflectloop.cli.main import main as program
from reflectloop.state import journal
from reflectloop.state.events import Event
from reflectloop.state.fold import Task, fold
from reflectloop.state.journal import Journal, JournalEntry
from reflectloop.state.transitions import TaskState
from reflectloop.workspace.folders import Folders

QUICK = bool(os.environ.get("PROOF_QUICK"))
STEPS = 6 if QUICK else 30
WIDTH = 3 if QUICK else 6  # steps in a batch, where there are batches
SEED = int(os.environ.get("PROOF_SEED", "20260101"))
WORKERS = 2
PATIENCE_S = 20.0
_DIE = "--die-after"
_OK, _NOTHING_TO_DO = 0, 14
# What differs between two runs of the same work.
_VOLATILE = frozenset(("at", "crc", "mac", "seq", "task_id", "run_id", "duration_ms", "base_commit"))


class Variant(NamedTuple):
    name: str
    instants: int  # random ones, beside every event
    jobs: int = 1
    outside: bool = False  # at the level "workspace", where a step can count its runs in a file outside
    overlay: str = "auto"  # the setting for workspaces: mounted where the machine can, or "off", which makes copies


class Case(NamedTuple):
    """One life: where the engine is killed, and where the one that goes on is killed in turn."""

    variant: Variant
    seed: int
    event: int | None  # after this line of the journal; None: at an instant
    twice: bool

    def __str__(self) -> str:
        where = f"event {self.event}" if self.event else "instant"
        return f"{self.variant.name}, {where}, seed {self.seed}{', killed twice' if self.twice else ''}"


class Calm(NamedTuple):
    """The run that nobody disturbed."""

    told: list[str]
    patch: bytes
    lines: int
    duration_s: float


class Result(NamedTuple):
    case: Case
    violations: list[str]
    began: bool  # whether the first engine had begun the run when it died
    interrupted: int  # steps that were cut short
    resumed: int


VARIANTS = (
    Variant("one by one", 12 if QUICK else 300),
    Variant("jobs 3", 6 if QUICK else 100, jobs=3),
    Variant("level workspace", 6 if QUICK else 100, outside=True),
    Variant("copies, one by one", 6 if QUICK else 100, overlay="off"),
    Variant("copies, jobs 3", 6 if QUICK else 50, jobs=3, overlay="off"),
    Variant("copies, level workspace", 6 if QUICK else 50, outside=True, overlay="off"),
)


class Course:
    """A project of its own in which lives are played, one after another."""

    def __init__(self, folder: Path, variant: Variant) -> None:
        folder.mkdir(parents=True)
        self.stage, self.variant = Stage(folder), variant
        settings = folder / "home" / ".config" / "reflectloop" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[workspace]\noverlay = "{variant.overlay}"\n')
        self.project = self.stage.small_project("project")
        self.counter = folder / "counter"
        if variant.outside:
            (self.project / "reflectloop.toml").write_text('[box]\nstrongest = "workspace"\n')
            self.stage.sh(self.project, "git", "add", "-A")
            self.stage.sh(self.project, "git", "commit", "-q", "-m", "settings")
        self.plan = self._plan()
        self.calm = self._undisturbed()

    def _plan(self) -> str:
        names = [f"S-{number}" for number in range(1, STEPS + 1)]
        steps: list[dict[str, Any]] = [{"id": name, "commands": [self._command(name)]} for name in names]
        if self.variant.jobs == 1:
            for before, step in itertools.pairwise(steps):
                step["depends_on"] = [before["id"]]
        for place in range(WIDTH, STEPS if self.variant.jobs > 1 else 0):
            start = place // WIDTH * WIDTH
            steps[place]["depends_on"] = names[start - WIDTH : start]
        body = {"title": "Chaos", "track": "direct", "jobs": self.variant.jobs, "steps": steps}
        path = self.stage.folder / "plan.json"
        path.write_text(json.dumps({"plan": body}))
        return str(path)

    def _command(self, name: str) -> str:
        """Leaves its mark once where it runs once: what is appended twice is there twice."""
        shared = "" if self.variant.jobs > 1 else f"echo {name} >> all.txt; "
        outside = f"echo {name} >> {self.counter}; " if self.variant.outside else ""
        return f"{outside}{shared}echo {name} >> {name}.txt; echo said {name}"

    def _undisturbed(self) -> Calm:
        start = time.monotonic()
        code, answer = self.stage.loop(self.project, "run", self.plan)
        spent = time.monotonic() - start
        if code:
            sys.exit(f"the undisturbed run failed: {answer}")
        found = Calm(self._told(), self._patch(), len(self._entries()), spent)
        self.forget()
        return found

    def forget(self) -> None:
        """Nothing of an earlier life is left, so that what is found later is of this one."""
        shutil.rmtree(self.project / ".reflectloop", ignore_errors=True)
        shutil.rmtree(self.stage.folder / "temp")
        (self.stage.folder / "temp").mkdir()
        self.counter.unlink(missing_ok=True)

    # One life --------------------------------------------------------------------------------------------------

    def play(self, case: Case) -> Result:
        dice = random.Random(case.seed)
        try:
            return self._played(case, dice)
        except Exception as fault:  # noqa: BLE001 - an answer that cannot be read is a violation like others
            return Result(case, [f"{type(fault).__name__}: {fault}"], began=True, interrupted=0, resumed=0)
        finally:
            self._settled()
            self.forget()

    def _played(self, case: Case, dice: random.Random) -> Result:
        self._killed(case, dice, "run", self.plan)
        began = bool(self._task().runs)
        if case.twice:
            self._killed(case, dice, *self._onward())
        violations = self._brought_to_end()
        violations += self._against_calm()
        violations += self._repeated()
        violations += self._left_over()
        kinds = collections.Counter(entry.event.kind for entry in self._entries())
        return Result(case, violations, began, kinds["step_interrupted"], kinds["run_resumed"])

    def _killed(self, case: Case, dice: random.Random, *words: str) -> None:
        """By its own hand right after an event was written, or from outside at any instant."""
        if case.event is None:
            engine = self.stage.start(self.project, *words)
            time.sleep(dice.uniform(0, self.calm.duration_s))
            engine.kill()
        else:
            written = len(self._entries())
            last = case.event if words[0] == "run" else written + dice.randint(1, 4)
            argv = [sys.executable, "-m", "proof.chaos", _DIE, str(last), *words]
            env = {**self.stage.env, "PYTHONPATH": str(Path(__file__).parent.parent)}
            engine = subprocess.Popen(
                argv, cwd=self.project, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        engine.communicate()

    def _onward(self) -> tuple[str, ...]:
        """What a person does next: go on, or begin where nothing had begun."""
        return ("resume",) if self._task().runs else ("run", self.plan)

    def _brought_to_end(self) -> list[str]:
        words = self._onward()
        code, answer = self.stage.loop(self.project, *words)
        wanted = (_OK,) if words[0] == "run" else (_OK, _NOTHING_TO_DO)
        if code in wanted:
            return []
        return [f"`{words[0]}` answered {code}: {answer.get('envelope', {}).get('message')}"]

    # What is looked at afterwards ----------------------------------------------------------------------------------

    def _against_calm(self) -> list[str]:
        found: list[str] = []
        code, answer = self.stage.loop(self.project, "receipt", "verify")
        if code:
            found.append(f"the receipt does not hold: {answer.get('envelope', {}).get('message')}")
        task = self._task()
        if task.state is not TaskState.DONE:
            found.append(f"the task is {task.state}")
        if self._patch() != self.calm.patch:
            found.append("the patch differs")
        if self._told() != self.calm.told:
            found.append("the journal differs")
        for run in list(task.runs.values())[-1:]:
            wrong = {step.id: step.attempts for step in run.steps.values() if step.attempts != 1}
            found += [f"attempts: {wrong}"] if wrong else []
        return found

    def _repeated(self) -> list[str]:
        """Whether a step that had finished ran once more."""
        finished: collections.Counter[str] = collections.Counter()
        cut: collections.Counter[str] = collections.Counter()
        for entry in self._entries():
            said = entry.event.payload()
            finished[str(said.get("step_id"))] += entry.event.kind == "step_finished"
            cut[str(said.get("step_id"))] += entry.event.kind == "step_interrupted"
        names = [f"S-{number}" for number in range(1, STEPS + 1)]
        found = [f"{name} finished {finished[name]} times" for name in names if finished[name] != 1]
        logs = {path.name for path in self._run_folder().glob("logs/S-*.log")}
        found += [f"logs: {sorted(logs)}"] if logs != {f"{name}.1.log" for name in names} else []
        if self.variant.outside:
            runs = collections.Counter(self.counter.read_text().split())
            found += [f"{name} ran {runs[name]} times" for name in names if not 1 <= runs[name] <= 1 + cut[name]]
        return found

    def _left_over(self) -> list[str]:
        found: list[str] = []
        if not _is_free(self.project / ".reflectloop" / "lock"):
            found.append("the lock is held")
        if not self._settled():
            found.append(f"{self.stage.processes()} process(es) and {self._strangers()} are left")
        return found

    def _settled(self) -> bool:
        """Removed workspaces are deleted behind the user's back, which takes its time."""
        deadline = time.monotonic() + PATIENCE_S
        while self.stage.processes() or self._strangers():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _strangers(self) -> list[str]:
        """What lies in the temp folder, but for the workspace kept warm and whole layers; and records of others."""
        records = list((self.project / ".reflectloop" / "workspaces").glob("*/workspace.json"))
        warm = {path.parent.name for path in records if json.loads(path.read_text())["fate"] == "warm"}
        temp = self.stage.folder / "temp"
        there = [path.name for path in temp.iterdir() if path.name != "reflectloop"]
        homes = [path for path in self.stage.workspaces() if path.name.startswith("layers-")]
        there += [path.name for path in self.stage.workspaces() if path.name not in warm and path not in homes]
        there += [path.name for home in homes for path in home.iterdir() if not (path / "layer.json").exists()]
        return there + [f"record {path.parent.name}" for path in records if path.parent.name not in warm]

    # Reading ---------------------------------------------------------------------------------------------------------

    def _entries(self) -> list[JournalEntry]:
        folders = Folders(self.project)
        current = folders.current_task()
        return journal.read(folders.journal(current)) if current else []

    def _task(self) -> Task:
        return fold(self._entries())

    def _run_folder(self) -> Path:
        return self.project / ".reflectloop" / "runs" / list(self._task().runs)[-1]

    def _patch(self) -> bytes:
        return (self._run_folder() / "changes.patch").read_bytes()

    def _told(self) -> list[str]:
        """The journal without times, ids and what only recovery writes; in batches the order is chance."""
        out: list[JournalEntry] = []
        for entry in self._entries():
            if entry.event.kind == "step_interrupted":
                out.remove(_start_of(entry, out))
            elif entry.event.kind != "run_resumed":
                out.append(entry)
        lines = [_plain(entry.event) for entry in out]
        return lines if self.variant.jobs == 1 else sorted(lines)


def _start_of(cut: JournalEntry, before: list[JournalEntry]) -> JournalEntry:
    name = cut.event.payload()["step_id"]
    return next(
        entry
        for entry in reversed(before)
        if entry.event.kind == "step_started" and entry.event.payload()["step_id"] == name
    )


def _plain(event: Event) -> str:
    said = {key: value for key, value in event.payload().items() if key not in _VOLATILE}
    return json.dumps({"kind": event.kind, **said}, sort_keys=True)


def _is_free(path: Path) -> bool:
    if not path.exists():
        return True
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


# All lives ------------------------------------------------------------------------------------------------------


def cases(variant: Variant, lines: int) -> Iterator[Case]:
    """Every second one is killed twice."""
    events: list[int | None] = [*range(1, lines + 1), *[None] * variant.instants]
    for number, event in enumerate(events):
        yield Case(variant, SEED + number, event, twice=number % 2 == 1)


def play_all(folder: Path, variant: Variant) -> tuple[Calm, list[Result]]:
    """Two courses side by side share the cases; what is compared is always of one course."""
    courses = [Course(folder / f"{variant.jobs}-{variant.outside:d}-{number}", variant) for number in range(WORKERS)]
    calm = courses[0].calm
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases(variant, calm.lines):
        waiting.put(case)
    with ThreadPoolExecutor(WORKERS) as pool:
        played = list(pool.map(lambda course: _play_some(course, waiting), courses))
    return calm, [result for some in played for result in some]


def _play_some(course: Course, waiting: queue.SimpleQueue[Case]) -> list[Result]:
    results: list[Result] = []
    while True:
        try:
            case = waiting.get_nowait()
        except queue.Empty:
            return results
        results.append(course.play(case))
        for violation in results[-1].violations:
            print(f"    {case}: {violation}", flush=True)


def prove(paper: Paper, folder: Path, variant: Variant) -> list[Result]:
    calm, results = play_all(folder, variant)
    by_event = [result for result in results if result.case.event]
    twice = sum(result.case.twice for result in results)
    unbegun = sum(not result.began for result in results)
    bad = [result for result in results if result.violations]
    cut, resumed = sum(result.interrupted for result in results), sum(result.resumed for result in results)
    paper.claim(
        f"{variant.name}, {STEPS} steps: killed after each of {calm.lines} events and at {variant.instants} instants, "
        "it comes to the same tree, patch and journal; nothing ran twice, nothing is left",
        f"{len(results)} lives ({len(by_event)} by event), {twice} of them killed twice; {resumed} resumptions, "
        f"{cut} steps cut short, {unbegun} killed before the run began; {len(bad)} violations",
        holds=not bad and cut > 0 and len(results) == calm.lines + variant.instants,
    )
    return bad


def main() -> None:
    about = "A plan killed with SIGKILL wherever that can happen, and gone on with by `reflectloop resume`."
    kinds = "Workspaces are mounted over the base tree, or copies where a row says so."
    paper = Paper("chaos", f"{about} {kinds} Seed {SEED}.")
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as name:
        bad = [result for variant in VARIANTS for result in prove(paper, Path(name).resolve(), variant)]
    if bad:
        paper.table(["life", "violations"], [[str(one.case), "; ".join(one.violations)] for one in bad])
    paper.write()


def _die_after(line: int, words: list[str]) -> None:
    """The program as it is, but for its end: by its own hand, as soon as this line of the journal is on disk."""
    append = Journal.append

    def last_words(self: Journal, event: Event) -> JournalEntry:
        entry = append(self, event)
        if entry.seq >= line:
            os.kill(os.getpid(), signal.SIGKILL)
        return entry

    Journal.append = last_words  # type: ignore[method-assign]
    program(words)


if __name__ == "__main__":
    if sys.argv[1:2] == [_DIE]:
        _die_after(int(sys.argv[2]), sys.argv[3:])
    else:
        main()
