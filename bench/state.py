"""Measures what durability costs: the journal, what is read back from it, and the same work in other engines."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench import race
from bench.ground import Ground
from bench.race import Contestant, Spent
from bench.table import Measure, Row, Section
from reflectloop.state import events, journal
from reflectloop.state.fold import Task, advance, fold
from reflectloop.state.journal import Journal
from reflectloop.workspace.folders import Folders

_APPEND_BAR, _GROWTH_BAR, _READ_BAR = 2.0, 1.3, 2.0
_STEPS = 5  # of each small task
_RESUME_BAR_S = 0.5
_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_TASK, _RUN = "T-20200101-000000", "RLOP-20200101-000000"

_LANGGRAPH = """
import os, sqlite3, sys, time
from typing import TypedDict
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

place, tasks, steps, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

class State(TypedDict):
    done: int

def node(number):
    def work(state):
        if mode == "resume":
            print(f"began {number}", flush=True)
        if mode == "die" and number == steps - 1:
            os.kill(os.getpid(), 9)
        return {"done": state["done"] + 1}
    return work

graph = StateGraph(State)
for number in range(steps):
    graph.add_node(f"s{number}", node(number))
    graph.add_edge(START if number == 0 else f"s{number - 1}", f"s{number}")
graph.add_edge(f"s{steps - 1}", END)
connection = sqlite3.connect(place, check_same_thread=False)
saver = SqliteSaver(connection)
saver.setup()
connection.execute("PRAGMA synchronous=FULL")
app = graph.compile(checkpointer=saver)
start = time.perf_counter()
for task in range(tasks):
    settings = {"configurable": {"thread_id": str(task)}, "recursion_limit": steps + 5}
    last = app.invoke(None if mode == "resume" else {"done": 0}, settings, durability="sync")
print("spent", time.perf_counter() - start)
assert last["done"] == steps
"""

_DBOS = """
import os, sys, time
from dbos import DBOS, SetWorkflowID

place, tasks, steps, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{place}", "application_version": "1",
             "run_admin_server": False, "log_level": "ERROR"})

@DBOS.step()
def work(number):
    if mode == "resume":
        print(f"began {number}", flush=True)
    if mode == "die" and number == steps - 1:
        os.kill(os.getpid(), 9)
    return number

@DBOS.workflow()
def task():
    for number in range(steps):
        work(number)
    return steps

DBOS.launch()
start = time.perf_counter()
if mode == "resume":
    assert DBOS.retrieve_workflow("0").get_result() == steps
else:
    for number in range(tasks):
        with SetWorkflowID(str(number)):
            assert task() == steps
print("spent", time.perf_counter() - start)
DBOS.destroy()
"""

_OURS = """
import os, sys
from pathlib import Path
from reflectloop.state import events, journal
from reflectloop.state.fold import fold
from reflectloop.state.journal import Journal

path, mode = Path(sys.argv[1]), sys.argv[4]
task = fold(journal.read(path))
run = list(task.runs.values())[-1]
book = Journal(path)
book.append(events.RunResumed(run_id=run.id))
for step in run.steps.values():
    if step.status == "running":
        book.append(events.StepInterrupted(run_id=run.id, step_id=step.id))
        book.append(events.StepStarted(run_id=run.id, step_id=step.id, tree=step.tree))
        print("began", step.id, flush=True)
"""


class Peer(NamedTuple):
    name: str
    packages: tuple[str, ...]
    script: str


_PEERS = (
    Peer("LangGraph", ("langgraph==1.2.20", "langgraph-checkpoint-sqlite==3.1.2"), _LANGGRAPH),
    Peer("DBOS", ("dbos==3.3.0",), _DBOS),
)


def measure(ground: Ground) -> Section:
    folder = ground.disk / "state"
    folder.mkdir()
    notes = [
        (
            "A transition is one event through `Journal.append` and `fold.advance`; beside it the same bytes by a bare "
            "write and fdatasync, in turn. Growth: a journal that is long already beside a fresh one, in turn."
        ),
        f"Everything lies on {ground.medium(folder)}.",
    ]
    rows = [*_appending(folder, ground), *_reading(folder, ground), _status(ground)]
    rows += _small_tasks(folder, ground, notes)
    return Section("state: what durability costs", notes, rows)


# A journal --------------------------------------------------------------------------------------------------------


def _story(steps: int) -> Iterator[events.Event]:
    """A whole task, as the engine tells it."""
    names = [f"S-{number}" for number in range(steps)]
    yield events.TaskOpened(task_id=_TASK, plan_path="plan.yaml", title="bench")
    yield events.RunStarted(
        run_id=_RUN, plan_hash=_TREE, base_tree=_TREE, base_commit=_TREE, isolation="full", steps=names
    )
    for name in names:
        yield from _step(name)
    yield events.RunFinished(run_id=_RUN, error_code=None, end_tree=_TREE, duration_ms=1)


def _step(name: str) -> tuple[events.Event, events.Event]:
    ended = events.StepFinished(run_id=_RUN, step_id=name, success=True, exit_code=0, tree=_TREE, duration_ms=1)
    return events.StepStarted(run_id=_RUN, step_id=name, tree=_TREE), ended


def _unsynced(path: Path, steps: int) -> None:
    """The journal of a finished task, without waiting for the disk at each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        journal.seal({"v": journal.SCHEMA, **journal.JournalEntry(number, "2020-01-01T00:00:00.000Z", event).as_json()})
        for number, event in enumerate(_story(steps), 1)
    )
    path.write_bytes(b"".join(lines))


def _appending(folder: Path, ground: Ground) -> list[Row]:
    count = 1_000 if ground.quick else 10_000
    own, bare = _appended(folder, count)
    fresh, long = _grown(folder, count)
    return [
        Row(
            f"a transition, of {count:,}",
            Measure("", race.median(own).wall_s),
            None,
            Measure("append + fdatasync", race.median(bare).wall_s),
            _APPEND_BAR,
        ),
        Row(
            f"a transition, after {count:,} events",
            Measure("", long.wall_s),
            Measure("ours after 10", fresh.wall_s),
            None,
            _GROWTH_BAR,
        ),
    ]


def _appended(folder: Path, count: int) -> tuple[list[Spent], list[Spent]]:
    """Each event by us and its bytes by the floor, one after the other, so that both meet the same disk."""
    path, task = folder / "journal.jsonl", Task()
    book = Journal(path)
    reader = os.open(path, os.O_RDONLY)
    floor = os.open(folder / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    own: list[Spent] = []
    bare: list[Spent] = []
    for event in itertools.islice(_story(count // 2), count):
        start = race.reading()
        advance(task, book.append(event))
        own.append(race.reading() - start)
        line = os.read(reader, 1 << 24)
        start = race.reading()
        os.write(floor, line)
        os.fdatasync(floor)
        bare.append(race.reading() - start)
    book.close()
    os.close(reader)
    os.close(floor)
    return own[2:], bare[2:]  # without the two that are told once a run, and hold every step's name


def _grown(folder: Path, count: int) -> tuple[Spent, Spent]:
    """The same events onto a journal of 10 and onto one of `count`, one after the other."""
    taken: tuple[list[Spent], list[Spent]] = ([], [])
    rounds = 400
    books: list[tuple[Task, Journal, Iterator[events.Event]]] = []
    for name, before in (("fresh", 10), ("long", count)):
        path = folder / f"{name}.jsonl"
        _unsynced(path, (before + rounds) // 2)
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:before]))
        book = Journal(path)
        books.append((fold(book.entries), book, itertools.islice(_story((before + rounds) // 2), before, None)))
    for _ in range(rounds):
        for (task, book, story), spent in zip(books, taken, strict=True):
            event = next(story)
            start = race.reading()
            advance(task, book.append(event))
            spent.append(race.reading() - start)
    for _, book, _ in books:
        book.close()
    return race.median(taken[0]), race.median(taken[1])


def _reading(folder: Path, ground: Ground) -> list[Row]:
    steps = 1_000 if ground.quick else 10_000
    path = folder / "finished.jsonl"
    _unsynced(path, steps)
    entrants = [
        Contestant("ours", lambda: fold(journal.read(path))),
        Contestant("json.loads", lambda: [json.loads(line) for line in path.read_bytes().splitlines()]),
    ]
    taken = race.run(entrants, 5 if ground.quick else 20)
    return [
        Row(
            f"read and fold {steps:,} steps, CPU",
            Measure("", taken["ours"].cpu_s),
            Measure("json.loads", taken["json.loads"].cpu_s),
            None,
            _READ_BAR,
        )
    ]


def _status(ground: Ground) -> Row:
    """The command on a long task, beside the same command where there is none plus a bare read of the journal."""
    steps = 1_000 if ground.quick else 10_000
    project = ground.repository(100)
    folders = Folders(project)
    program = os.fspath(Path(sys.executable).with_name("reflectloop"))
    path = folders.journal(_TASK)

    def prepared() -> None:
        folders.ensure_owned()
        _unsynced(path, steps)
        folders.set_current_task(_TASK)

    def cleared() -> None:
        shutil.rmtree(folders.own, ignore_errors=True)

    def asked() -> None:
        subprocess.run([program, "status"], cwd=project, stdout=subprocess.DEVNULL, check=True)

    def floor() -> None:
        asked()
        path_beside.read_bytes()

    path_beside = ground.disk / "state" / "finished.jsonl"
    entrants = [Contestant("long", asked, prepared, cleared), Contestant("start + read", floor)]
    taken = race.run(entrants, 3 if ground.quick else 15)
    return Row(
        f"reflectloop status, {steps:,} steps",
        Measure("", taken["long"].wall_s),
        None,
        Measure("start + read", taken["start + read"].wall_s),
    )


# The same work by others ----------------------------------------------------------------------------------------------


def _small_tasks(folder: Path, ground: Ground, notes: list[str]) -> list[Row]:
    tasks = 50 if ground.quick else 1_000
    there = [peer for peer in _PEERS if _installed(folder, peer, notes)]
    notes.append(
        f"{tasks:,} tasks of {_STEPS} steps that do nothing, one durable record a step in each engine: ours writes two "
        "(begun, ended) and syncs both; LangGraph by its SQLite saver with durability sync and synchronous=FULL, DBOS "
        "on SQLite as it comes. Imports are not counted. Median of the rounds, in turn."
    )
    notes.append(
        "Resume: from the start of a process to the begin of the step that kill -9 cut short. Ours is a process that "
        "reads the journal, folds it and writes the recovery down; `resume` itself also lays out a workspace."
    )
    samples: dict[str, list[float]] = {name: [] for name in ("ours", "floor", *(peer.name for peer in there))}
    for number in range(1 if ground.quick else 3):
        samples["ours"].append(_timed(_ours, folder / f"ours-{number}", tasks))
        samples["floor"].append(_timed(_floor, folder / f"floor-{number}", tasks))
        for peer in there:
            samples[peer.name].append(_spent(folder, peer, number, tasks))
    middle = {name: sorted(taken)[len(taken) // 2] for name, taken in samples.items()}
    floor = Measure("append + fdatasync", middle["floor"])
    what = f"{tasks:,} tasks x {_STEPS} steps"
    if not there:
        return [Row(what, Measure("", middle["ours"]), None, floor)]
    rows = [Row(what, Measure("", middle["ours"]), Measure(one.name, middle[one.name]), floor, 1.0) for one in there]
    return rows + _resuming(folder, there, 1 if ground.quick else 5)


def _timed(act: Callable[[Path, int], None], folder: Path, tasks: int) -> float:
    start = time.perf_counter()
    act(folder, tasks)
    return time.perf_counter() - start


def _ours(folder: Path, tasks: int) -> None:
    """The journal and the fold, task by task, with an operation that does nothing."""
    for number in range(tasks):
        task, book = Task(), Journal(folder / str(number) / "journal.jsonl")
        for event in _story(_STEPS):
            advance(task, book.append(event))
        book.close()


def _floor(folder: Path, tasks: int) -> None:
    """One file a task, one record and one sync a step."""
    folder.mkdir()
    line = b"x" * 200 + b"\n"
    for number in range(tasks):
        file = os.open(folder / str(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for _ in range(_STEPS):
            os.write(file, line)
            os.fdatasync(file)
        os.close(file)


def _installed(folder: Path, peer: Peer, notes: list[str]) -> bool:
    home = folder / peer.name
    made = subprocess.run([sys.executable, "-m", "venv", os.fspath(home)], capture_output=True, check=False)
    argv = [os.fspath(home / "bin" / "python"), "-m", "pip", "install", "-q", *peer.packages]
    good = made.returncode == 0 and subprocess.run(argv, capture_output=True, check=False).returncode == 0
    notes.append(", ".join(peer.packages) + ("." if good else " could not be installed, and is not compared."))
    return good


def _words(folder: Path, peer: Peer, place: Path, tasks: int, mode: str) -> list[str]:
    python = os.fspath(folder / peer.name / "bin" / "python")
    return [python, "-c", peer.script, os.fspath(place), str(tasks), str(_STEPS), mode]


def _spent(folder: Path, peer: Peer, number: int, tasks: int) -> float:
    argv = _words(folder, peer, folder / f"{peer.name}-{number}.sqlite", tasks, "work")
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return float(said.split("spent")[1])


def _resuming(folder: Path, peers: list[Peer], rounds: int) -> list[Row]:
    samples: dict[str, list[float]] = {name: [] for name in ("ours", *(peer.name for peer in peers))}
    for number in range(rounds):
        path = folder / f"killed-{number}.jsonl"
        _cut_short(path)
        samples["ours"].append(_until_begun([sys.executable, "-c", _OURS, os.fspath(path), "1", "1", "resume"]))
        for peer in peers:
            place = folder / f"{peer.name}-killed-{number}.sqlite"
            subprocess.run(_words(folder, peer, place, 1, "die"), capture_output=True, check=False)
            samples[peer.name].append(_until_begun(_words(folder, peer, place, 1, "resume")))
    middle = {name: sorted(taken)[len(taken) // 2] for name, taken in samples.items()}
    bar = Measure("wanted", _RESUME_BAR_S)
    return [
        Row("resume after kill -9", Measure("", middle["ours"]), Measure(one.name, middle[one.name]), bar, 1.0)
        for one in peers
    ]


def _cut_short(path: Path) -> None:
    """The journal of a task whose engine died in its last step."""
    _unsynced(path, _STEPS)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))


def _until_begun(argv: list[str]) -> float:
    start = time.perf_counter()
    engine = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert engine.stdout  # noqa: S101
    for line in engine.stdout:
        if line.startswith(b"began"):
            spent = time.perf_counter() - start
            engine.communicate()
            return spent
    raise RuntimeError(f"it did not go on: {argv[3:]}")
