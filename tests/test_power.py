"""What a power cut, a full disk, a stranger's lock or lost permissions leave: the engine goes on, or says why not."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reflectloop.errors import Locked, NoSpace, StateDamaged
from reflectloop.state import events, journal, lock
from reflectloop.state.fold import fold
from reflectloop.state.journal import Journal
from support import PROGRAM, Answer, Repo, start, wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system takes root")

OPENED = events.TaskOpened(task_id="T-1", plan_path="plan.yaml", title="Tïtle")
BEGUN = events.RunStarted(
    run_id="R", plan_hash="h", base_tree="t0", base_commit="c", isolation="full", steps=["a", "b"]
)
STARTED = events.StepStarted(run_id="R", step_id="a", tree="t0")
FINISHED = events.StepFinished(run_id="R", step_id="a", success=True, exit_code=0, tree="t1", duration_ms=5)
INTERRUPTED = events.StepInterrupted(run_id="R", step_id="a")
PAUSED = events.RunPaused(run_id="R", reason="stopped")
SKIPPED = events.StepSkipped(run_id="R", step_id="b", reason="not needed")
ENDED = events.RunFinished(run_id="R", error_code=None, end_tree="t1", duration_ms=9)
STORIES: list[list[events.Event]] = [
    [OPENED],
    [OPENED, BEGUN],
    [OPENED, BEGUN, STARTED],
    [OPENED, BEGUN, STARTED, FINISHED],
    [OPENED, BEGUN, STARTED, INTERRUPTED],
    [OPENED, BEGUN, STARTED, FINISHED, PAUSED],
    [OPENED, BEGUN, STARTED, FINISHED, SKIPPED, ENDED],
]


def written(path: Path, story: list[events.Event]) -> bytes:
    book = Journal(path)
    for event in story:
        book.append(event)
    book.close()
    return path.read_bytes()


def last_line(raw: bytes) -> int:
    """Where it begins."""
    return raw.rstrip(b"\n").rfind(b"\n") + 1


def book_of(repo: Repo) -> Path:
    (found,) = (repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl")
    return found


def kinds(repo: Repo) -> list[str]:
    """What has happened so far; nothing where nothing has, or where a line is being written this moment."""
    found = list((repo.path / ".reflectloop" / "tasks").glob("*/journal.jsonl"))
    with contextlib.suppress(ValueError):
        return [json.loads(line)["kind"] for path in found for line in path.read_text().splitlines()]
    return []


def killed_when(repo: Repo, plan: Path, kind: str, count: int, *words: str) -> None:
    """Run a plan, and end the engine as soon as its journal holds so many events of a kind."""
    engine = start(repo.path, "run", *words, str(plan))
    assert wait_until(lambda: kinds(repo).count(kind) >= count or engine.poll() is not None, 60)
    engine.send_signal(signal.SIGKILL)
    engine.wait()


# Torn and flipped -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story[-1].kind)
def test_a_last_record_cut_at_any_byte_never_happened(tmp_path: Path, story: list[events.Event]) -> None:
    path = tmp_path / "journal.jsonl"
    whole = written(path, story)
    before = [entry.event for entry in journal.read(path)][:-1]
    for cut in range(last_line(whole), len(whole)):
        for rest in (b"", b"\0" * (len(whole) - cut)):  # a file system may have grown the file and not filled it
            path.write_bytes(whole[:cut] + rest)
            assert [entry.event for entry in journal.read(path)] == before
            book = Journal(path)
            book.append(story[-1])
            book.close()
            told = journal.read(path)
            assert [entry.event for entry in told] == story
            assert fold(told) == fold(journal.read(path))


@pytest.mark.parametrize(("kind", "count"), [("run_started", 1), ("step_started", 2), ("step_finished", 2)])
def test_the_engine_continues_after_a_torn_last_record(repo: Repo, kind: str, count: int) -> None:
    commands = [f"echo {number} >> all.txt; sleep 0.3" for number in range(1, 4)]
    plan = repo.steps(*commands)
    killed_when(repo, plan, kind, count)
    path = book_of(repo)
    whole = path.read_bytes()
    path.write_bytes(whole[: (last_line(whole) + len(whole)) // 2])
    torn_open = len(journal.read(path)) < 2
    done = repo.run("run", plan) if torn_open else repo.run("resume")
    assert done.code == 0, done.stderr
    assert "+1\n+2\n+3\n" in (repo.latest() / "changes.patch").read_text()
    assert fold(journal.read(path)).passed
    assert repo.workspaces() == []


def test_a_task_whose_first_record_was_torn_is_no_task(repo: Repo) -> None:
    plan = repo.steps("true")
    assert repo.run("run", plan).code == 0
    path = book_of(repo)
    path.write_bytes(path.read_bytes()[:20])
    path.with_name("state.json").unlink()  # which is written after the record it tells of
    assert repo.run("status").code == 0
    assert repo.run("resume").code == 14
    assert repo.run("run", plan).code == 0


def test_a_flipped_bit_stops_every_command_that_would_build_on_it(repo: Repo) -> None:
    plan = repo.steps("true", "false")
    assert repo.run("run", plan).code == 30
    path = book_of(repo)
    whole = path.read_bytes()
    everything = (["status"], ["resume"], ["run", str(plan)], ["retry", "--reason", "mended"])
    for line, commands in ((1, everything[:1]), (3, everything)):
        spot = len(b"".join(whole.splitlines(keepends=True)[: line - 1])) + 40
        raw = bytearray(whole)
        raw[spot] ^= 4
        path.write_bytes(raw)
        for words in commands:
            answer = repo.run(*words, "--json")
            assert answer.code == 51, (line, words, answer.stdout)
            assert answer.envelope["error_code"] == "STATE_DAMAGED"
            assert f"journal.jsonl:{line}:" in answer.envelope["message"]
            assert str(path) in answer.envelope["next"]
            assert path.read_bytes() == raw, f"{words} changed it"
    assert repo.run("run", "--new", repo.steps("true")).code == 0  # the way out that loses nothing


def test_a_record_with_a_field_nobody_knows_is_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    record = {"v": 1, "seq": 1, "at": "", "kind": "task_opened", "task_id": "T", "plan_path": "p", "title": "t"}
    for damaged in ({**record, "colour": "red"}, {key: value for key, value in record.items() if key != "title"}):
        path.write_bytes(journal.seal(damaged))
        with pytest.raises(StateDamaged, match="another version"):
            journal.read(path)


# Locks ----------------------------------------------------------------------------------------------------------

SIGNED = {"pid": 999_999_999, "host": socket.gethostname(), "purpose": "run", "since": "2026-01-01T00:00:00Z"}
STRANGE_LOCKS = {
    "empty": b"",
    "garbage": b"\xff\x00\xfe{{{",
    "a list": b"[1, 2]",
    "a deep list": b"[" * 100_000,
    "a dead pid": json.dumps(SIGNED).encode(),
    "a living stranger": json.dumps({**SIGNED, "pid": 1}).encode(),
    "every process": json.dumps({**SIGNED, "pid": -1}).encode(),
    "no number": b'{"pid": Infinity, "host": "' + socket.gethostname().encode() + b'", "purpose": 1, "since": 1}',
    "another host": json.dumps({**SIGNED, "host": "elsewhere"}).encode(),
    "the future": json.dumps({**SIGNED, "pid": os.getpid(), "since": "2999-01-01T00:00:00Z"}).encode(),
}


@pytest.mark.parametrize("name", STRANGE_LOCKS)
def test_what_a_lock_file_says_never_stops_an_engine(tmp_path: Path, name: str) -> None:
    (tmp_path / "lock").write_bytes(STRANGE_LOCKS[name])
    with lock.hold_lock(tmp_path, "run"):
        assert lock.owner_pid(tmp_path / "lock") == os.getpid()


def test_a_lock_from_the_future_stops_no_run(repo: Repo) -> None:
    plan = repo.steps("true")
    assert repo.run("run", plan).code == 0
    repo.write(".reflectloop/lock", STRANGE_LOCKS["the future"])
    assert repo.run("run", plan).code == 0


@pytest.mark.parametrize("name", ["garbage", "a deep list", "no number", "another host"])
def test_a_held_lock_is_held_whatever_its_file_says(repo: Repo, name: str) -> None:
    assert repo.run("run", repo.steps("true")).code == 0
    path = repo.write(".reflectloop/lock", STRANGE_LOCKS[name])
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        answer = repo.run("run", "--json", repo.steps("true"))
        assert answer.code == 50, answer.stdout
        assert answer.envelope["error_code"] == "LOCKED"
        assert "--wait" in answer.envelope["next"]


def test_removing_the_lock_file_lets_no_second_engine_in(tmp_path: Path) -> None:
    with lock.hold_lock(tmp_path, "run"):
        (tmp_path / "lock").unlink()
        with pytest.raises(Locked), lock.hold_lock(tmp_path, "run"):
            pass
    with lock.hold_lock(tmp_path, "run"):
        pass


def test_only_an_engine_of_this_machine_is_ever_signalled(tmp_path: Path) -> None:
    """`abort` ends the process that the lock names: 0 and below would be groups, 1 everything."""
    path = tmp_path / "lock"
    for name, content in STRANGE_LOCKS.items():
        path.write_bytes(content)
        wanted = {"a dead pid": SIGNED["pid"], "the future": os.getpid()}.get(name)
        assert lock.owner_pid(path) == wanted, name


def test_of_two_engines_the_second_is_reported_and_the_first_unharmed(repo: Repo) -> None:
    gate = repo.gate()
    plan = repo.steps(f"{gate.wait}; echo x > made", "true")
    engine = start(repo.path, "run", str(plan))
    assert wait_until(lambda: "step_started" in kinds(repo), 60)
    for words in (["run", str(plan)], ["resume"], ["skip", "P-2", "--reason", "why not"]):
        answer = repo.run(*words, "--json")
        assert answer.code == 50, answer.stdout
        assert f"pid {engine.pid} on" in answer.envelope["message"]
    gate.open()
    assert engine.wait() == 0
    assert fold(journal.read(book_of(repo))).passed
    assert "made" in (repo.latest() / "changes.patch").read_text()


def test_ten_readers_of_a_run_at_work_are_all_told_the_truth(repo: Repo) -> None:
    plan = repo.steps(*[f"echo {number} > f{number}; sleep 0.2" for number in range(12)])
    engine = start(repo.path, "run", str(plan))
    assert wait_until(lambda: "run_started" in kinds(repo), 60)
    told: list[list[Answer]] = [[] for _ in range(10)]

    def watch(answers: list[Answer]) -> None:
        while engine.poll() is None:
            answers.append(repo.run("status", "--json"))

    readers = [threading.Thread(target=watch, args=(answers,)) for answers in told]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert engine.poll() == 0
    assert all(told)
    for answers in told:
        assert {answer.code for answer in answers} == {0}, [answer.stdout for answer in answers if answer.code][:1]
        runs = [answer.json["data"]["runs"][0] for answer in answers]
        done = [run["steps_done"] for run in runs]
        assert done == sorted(done)
        assert {run["steps_total"] for run in runs} == {12}
        assert all(run["status"] == "running" or run["steps_done"] == 12 for run in runs)


# Full, read-only, forbidden ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_at_any_byte_of_a_record_costs_that_record_only(tmp_path: Path) -> None:
    """The same journal object goes on writing: how a run ended is told after there was no room for a step."""
    path = tmp_path / "journal.jsonl"
    written(path, [OPENED, BEGUN, STARTED])
    book = Journal(path)
    before = path.read_bytes()
    line = len(written(tmp_path / "other.jsonl", [OPENED, BEGUN, STARTED, FINISHED])) - len(before)
    for room in range(0, line, 7):
        with largest_file(len(before) + room), pytest.raises(NoSpace, match=os.strerror(errno.EFBIG).lower()):
            book.append(FINISHED)
        assert path.read_bytes() == before
    book.append(FINISHED)
    book.append(SKIPPED)
    book.append(ENDED)
    book.close()
    assert fold(journal.read(path)).passed


@contextlib.contextmanager
def mounted(path: Path, *words: str) -> Iterator[Path]:
    path.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *words, str(path)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[None]:
    with mounted(path, "--bind", str(path)):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(path)], check=True)
        yield


@needs_root
def test_a_disk_that_fills_in_the_middle_of_a_run_is_reported_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=6m", "tmpfs") as small:
        repo = Repo(small / "project")
        repo.path.mkdir()
        repo.git("init", "-q")
        repo.write("a", "a\n")
        repo.write(".gitignore", "filler\n")
        repo.commit("one")
        plan = repo.steps(*[f"echo {number} >> all.txt; sleep 0.1" for number in range(12)])
        engine = start(repo.path, "run", str(plan), "--json")
        assert wait_until(lambda: kinds(repo).count("step_finished") >= 2, 60)
        with contextlib.suppress(OSError), (repo.path / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 4096)
        done = engine.ended()
        said = json.loads(done.stdout)["envelope"]
        assert (done.code, said["error_code"]) == (52, "NO_SPACE"), said
        assert said["next"]
        assert repo.run("status").code == 0
        (repo.path / "filler").unlink()
        answer = repo.run("resume")
        if answer.code in (14, 52):  # the journal still had room to say that the run failed
            answer = repo.run("run", plan)
        assert answer.code == 0, answer.stderr
        assert "".join(f"+{number}\n" for number in range(12)) in (repo.latest() / "changes.patch").read_text()


@needs_root
@pytest.mark.parametrize("part", [".reflectloop", ".reflectloop/tasks"])
def test_a_journal_that_cannot_be_written_is_said_and_left_as_it_is(repo: Repo, part: str) -> None:
    gate = repo.gate()
    plan = repo.steps(f"{gate.wait}; echo x > made", "true")
    killed_when(repo, plan, "step_started", 1)
    before = book_of(repo).read_bytes()
    with read_only(repo.path / part):
        assert repo.run("status").code == 0
        for words in (["resume"], ["run", str(plan)], ["abort", "--reason", "enough"]):
            answer = repo.run(*words, "--json")
            assert answer.code == 52, (words, answer.stdout)
            assert "read-only" in answer.envelope["message"]
            assert answer.envelope["next"]
        assert book_of(repo).read_bytes() == before
    gate.open()
    done = repo.run("resume")
    assert done.code == 0, done.stderr
    assert repo.workspaces() == []


def as_anybody(repo: Repo, *words: str | Path) -> Answer:
    """The program without root's right to read and write everything; modes and owners then hold for it."""
    rights = "-dac_override,-dac_read_search,-fowner,-chown"
    wrapper = ["setpriv", "--bounding-set", rights] if os.geteuid() == 0 else []
    if wrapper and (not shutil.which("setpriv") or subprocess.run([*wrapper, "true"], check=False).returncode):
        pytest.skip("root may do everything, and this machine does not let it give that up (setpriv)")
    argv = [*wrapper, *PROGRAM, *map(str, words)]
    done = subprocess.run(argv, cwd=repo.path, capture_output=True, check=False, timeout=120)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    "part", ["journal.jsonl", "tasks/T", "tasks", ".reflectloop"], ids=["journal", "task", "tasks", "own"]
)
def test_permissions_lost_are_said_and_nothing_is_changed(repo: Repo, part: str) -> None:
    gate = repo.gate()
    plan = repo.steps(f"{gate.wait}; echo x > made", "true")
    killed_when(repo, plan, "step_started", 1)
    book = book_of(repo)
    before = book.read_bytes()
    lost = {"journal.jsonl": book, "tasks/T": book.parent, "tasks": book.parent.parent}
    path = lost.get(part, repo.path / ".reflectloop")
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        for words in (["status"], ["resume"], ["run", str(plan)]):
            answer = as_anybody(repo, *words, "--json")
            assert answer.code in (51, 52), (words, answer.code, answer.stdout)
            assert "permission denied" in answer.envelope["message"].lower()
            assert str(repo.path / ".reflectloop") in answer.envelope["message"]
            assert answer.envelope["next"]
    finally:
        path.chmod(mode)
    assert book.read_bytes() == before
    gate.open()
    done = repo.run("resume")
    assert done.code == 0, done.stderr


@needs_root
def test_a_project_of_somebody_elses_is_refused_or_served_but_never_harmed(repo: Repo) -> None:
    gate = repo.gate()
    plan = repo.steps(f"{gate.wait}; echo x > made", "true")
    killed_when(repo, plan, "step_started", 1)
    before = book_of(repo).read_bytes()
    subprocess.run(["chown", "-R", "65534:65534", str(repo.path)], check=True)
    for words in (["status"], ["resume"], ["run", str(plan)]):
        answer: Any = as_anybody(repo, *words, "--json")
        assert answer.code == 16, (words, answer.code, answer.stdout)
        assert answer.envelope["next"]
    assert book_of(repo).read_bytes() == before
    subprocess.run(["chown", "-R", "0:0", str(repo.path)], check=True)
    gate.open()
    done = repo.run("resume")
    assert done.code == 0, done.stderr


def test_a_clock_that_was_set_back_changes_nothing(tmp_path: Path) -> None:
    """Order is the order of lines; times are only told."""
    path = tmp_path / "journal.jsonl"
    lines = [{"v": 1, "seq": 1, "at": "2999-01-01T00:00:00Z", "kind": OPENED.kind, **OPENED.payload()}]
    lines += [{"v": 1, "seq": 2, "at": "1999-01-01T00:00:00Z", "kind": BEGUN.kind, **BEGUN.payload()}]
    path.write_bytes(b"".join(map(journal.seal, lines)))
    book = Journal(path)
    book.append(STARTED)
    book.close()
    assert fold(journal.read(path)).runs["R"].steps["a"].status == "running"


def test_batches_are_continued_one_by_one_from_all_their_results(repo: Repo) -> None:
    """`--jobs` is not in the plan: who goes on does not know of it, and must lose nothing of any step."""
    gate = repo.gate()
    steps: list[dict[str, Any]] = [{"id": name, "commands": [f"echo {name} > {name}.txt"]} for name in "abc"]
    steps += [{"id": "d", "commands": [f"{gate.wait}; cat a.txt b.txt c.txt > d.txt"], "depends_on": ["a", "b", "c"]}]
    plan = repo.plan(json.dumps({"plan": {"title": "Batches", "track": "direct", "steps": steps}}))
    killed_when(repo, plan, "step_started", 4, "--jobs", "3")
    gate.open()
    done = repo.run("resume")
    assert done.code == 0, done.stderr
    patch = (repo.latest() / "changes.patch").read_text()
    assert [name for name in "abcd" if f"+++ b/{name}.txt" in patch] == list("abcd")
    assert "+a\n+b\n+c\n" in patch


def test_an_engine_that_died_between_evidence_and_envelope_leaves_one_sound_chain(repo: Repo) -> None:
    assert repo.run("run", repo.steps("echo x > made")).code == 0
    (repo.latest() / "envelope.yaml").unlink()
    assert repo.run("resume").code == 0
    verified = repo.run("receipt", "verify")
    assert verified.code == 0, verified.stderr
