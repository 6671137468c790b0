"""Commands end when they should, with all their children, whatever they try."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reflectloop.sandbox.isolation import IsolationLevel
from reflectloop.sandbox.sandbox import Box, SandboxCommand
from reflectloop.terms import Isolation
from reflectloop.workspace.checkout import Workspace
from reflectloop.workspace.store import Store
from support import PROGRAM, Repo, start, wait_until

STUBBORN = (
    "import os, signal, sys, time\n"
    "if os.fork(): os._exit(0) if len(sys.argv) > 2 else None\n"
    "else:\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('alive', flush=True)\n"
    "open(os.environ['TMPDIR'] + '/up', 'w').close()\n"
    "time.sleep(300)\n"
)
LEFT = " leave; until [ -e $TMPDIR/up ]; do sleep 0.02; done"  # ends when what it leaves behind is at work


def living(token: str) -> list[str]:
    """Processes whose command line holds `token`."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if token.encode() in words:
                found.append(name)
    return found


@pytest.fixture
def stubborn(tmp_path: Path) -> str:
    """A command that forks twice into a session of its own, ignores TERM and sleeps; argument 1 marks it."""
    return f"{sys.executable} -c {shlex.quote(STUBBORN)} {tmp_path}/alive-"


def log_of(repo: Repo) -> str:
    return "".join(path.read_text() for path in repo.path.glob(".reflectloop/runs/*/logs/*.log"))


def test_a_step_past_its_timeout_is_killed_with_its_children(repo: Repo, stubborn: str, tmp_path: Path) -> None:
    repo.write("reflectloop.toml", "[run]\ngrace_s = 0.3\n")
    answer = repo.run("run", "--json", repo.steps(f"echo partial; {stubborn}", timeout_s=4))
    assert answer.code == 31
    assert answer.envelope["error_code"] == "STEP_TIMEOUT"
    assert living(f"{tmp_path}/alive-") == []
    assert (repo.latest() / "logs" / "P-1.1.log").read_text() == "partial\nalive\nalive\n"


def test_processes_left_by_a_finished_command_are_ended(repo: Repo, stubborn: str, tmp_path: Path) -> None:
    answer = repo.run("run", repo.steps(stubborn + LEFT))
    assert answer.code == 0, answer.stderr
    assert (repo.latest() / "logs" / "P-1.1.log").read_text() == "alive\n"
    assert living(f"{tmp_path}/alive-") == []


def test_nothing_survives_kill_9_of_the_engine(repo: Repo, stubborn: str, tmp_path: Path) -> None:
    engine = start(repo.path, "run", str(repo.steps(stubborn)))
    assert wait_until(lambda: log_of(repo).count("alive") == 2)
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    assert wait_until(lambda: not living(f"{tmp_path}/alive-"))
    assert repo.run("run", repo.steps("true")).code == 0
    assert wait_until(lambda: repo.workspaces() == [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_and_is_reported(
    number: signal.Signals, repo: Repo, stubborn: str, tmp_path: Path
) -> None:
    engine = start(repo.path, "run", "--json", str(repo.steps(stubborn)))
    assert wait_until(lambda: log_of(repo).count("alive") == 2)
    engine.send_signal(number)
    done = engine.ended()
    assert done.code == 130
    assert json.loads(done.stdout)["envelope"]["error_code"] == "INTERRUPTED"
    assert json.loads(done.stdout)["envelope"]["next"] == "reflectloop resume"
    assert living(f"{tmp_path}/alive-") == []


def test_term_is_given_a_chance_before_kill(repo: Repo) -> None:
    command = "trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    assert repo.run("run", repo.steps(command, timeout_s=3)).code == 31
    assert (repo.latest() / "logs" / "P-1.1.log").read_text().split() in (
        ["ready", "asked"],
        ["ready", "Terminated", "asked"],
    )


def peak_memory(engine: subprocess.Popen[bytes]) -> int:
    """In kB, since it became the engine: what `wait4` tells also counts the process it was forked from."""
    peak = 0
    while engine.poll() is None:
        with contextlib.suppress(OSError), open(f"/proc/{engine.pid}/status") as status:
            peak = max([peak, *(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))])
        time.sleep(0.02)
    return peak


def test_a_flood_of_output_costs_neither_disk_nor_memory(repo: Repo) -> None:
    """100 MB here; the proof runs 2 GB."""
    plan = repo.steps("head -c 100000000 /dev/zero | tr '\\0' 'y'; echo; echo the end")
    engine = subprocess.Popen([*PROGRAM, "run", str(plan)], cwd=repo.path, stderr=subprocess.DEVNULL)
    memory = peak_memory(engine)
    assert engine.returncode == 0
    log = repo.latest() / "logs" / "P-1.1.log"
    assert log.stat().st_size <= (8 << 20) + 200
    assert log.read_bytes().endswith(b"the end\n")
    assert 0 < memory < 100_000


def test_a_missing_command_is_a_failed_step_not_a_failed_sandbox(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.steps(["no-such-tool", "--version"]))
    assert answer.code == 30
    assert answer.json["data"]["steps"][0]["exit_code"] == 127
    assert "no-such-tool: command not found" in (repo.latest() / "logs" / "P-1.1.log").read_text()


@pytest.fixture
def bare_box(tmp_path: Path) -> Box:
    """A box on a machine without bubblewrap."""
    folder = tmp_path / "RLOP-20260101-000000"
    space = Workspace(folder.name, folder, tmp_path, Store(tmp_path, "sha1"), "", "", 0)
    for path in (space.folder, space.repo, space.home, space.tmp):
        path.mkdir()
    return Box(space, dict(os.environ), IsolationLevel(Isolation.WORKSPACE, "nothing"), grace_s=0.3)


@pytest.mark.parametrize(("more", "timeout_s"), [("", 1), (LEFT, 600)], ids=["timeout", "left"])
def test_without_a_namespace_children_are_still_ended(
    bare_box: Box, stubborn: str, tmp_path: Path, more: str, timeout_s: int
) -> None:
    log = tmp_path / "log"
    done = bare_box.run(SandboxCommand(stubborn + more, bare_box.workspace.repo, log, timeout_s=timeout_s))
    assert done.timed_out is not bool(more)
    assert wait_until(lambda: not living(f"{tmp_path}/alive-"))


def test_a_command_killed_by_a_signal_reports_the_shells_number(repo: Repo) -> None:
    answer = repo.run("run", "--json", repo.steps(["bash", "-c", "kill -SEGV $$"]))
    assert answer.json["data"]["steps"][0]["exit_code"] == 128 + signal.SIGSEGV


def test_timeouts_do_not_wait_for_streams_that_orphans_keep_open(bare_box: Box, tmp_path: Path) -> None:
    command = SandboxCommand("sleep 3600 & echo out", bare_box.workspace.repo, tmp_path / "log", timeout_s=3600)
    done = bare_box.run(command)
    assert done.exit_code == 0
    assert (tmp_path / "log").read_text() == "out\n"
