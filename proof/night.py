"""A night of `autoloop` on real packages: forty tasks by scripted agents, with kills, and every end compared."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proof.environment import Stage
from proof.night_tasks import AFTER_OUTAGE, BEHAVIOUR, LANDS, LEAKY, PACKAGE, SMALL, TASKS, TEXT, NightTask, broken
from proof.packages import Yard
from proof.paper import Paper
from proof.suites import PYTEST, Package

ABOUT = (
    "Tasks by scripted agents in three projects: the package inflection with its own suite, a small one, and one whose "
    "first task leaks a key. All are submitted, then one `autoloop start` works on them with `[autoloop] apply = "
    '"branch"`. Twice during the night the daemon and everything that it started is killed with SIGKILL, as by a '
    "reboot, and started again. One agent hangs, one crashes, one meets a rate limit of an hour, and one an outage "
    "that ends. The ends, the branch and the report are compared with what the tasks are and with the bytes of the "
    "journals. The clocks are not changed here: tests/test_autoloop.py does that."
)
INFLECTION = Package("inflection", "0.5.1", "pure Python", "pytest", f"{PYTEST} test_inflection.py")
BRANCH = "reflectloop/autoloop"
PATIENCE_S = 3600.0
_KILLS_AFTER = (6, 20)  # sessions
_STANDINGS = {LANDS: "applied", TEXT: "asks", BEHAVIOUR: "asks"}


class Night:
    """The three projects, the queue of each, and the daemon over all of them."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.yard = stage, Yard(stage)
        self.projects = {
            PACKAGE: self.yard.python_project(INFLECTION),
            SMALL: stage.folder / SMALL,
            LEAKY: stage.folder / LEAKY,
        }
        for name in (SMALL, LEAKY):
            self._small(self.projects[name])
        self.script = stage.folder / "agent.json"
        self._write_script(is_out=True)
        for name, project in self.projects.items():
            self._settle(name, project)
        self.entries: dict[str, str] = {}
        self.memory_kb: list[int] = []
        self.kills = 0
        self.last: dict[str, dict[str, Any]] = {}
        listed = stage.folder / "projects"
        listed.write_text("".join(f"{project}\n" for project in self.projects.values()))
        self.listed = listed

    def _small(self, project: Path) -> None:
        project.mkdir()
        (project / "calc.py").write_text("def add(a, b):\n    return a + b\n")
        test = "import unittest\n\nfrom calc import add\n\n\nclass TestAdd(unittest.TestCase):\n"
        (project / "test_calc.py").write_text(
            f"{test}    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
        )
        self.stage.sh(project, "git", "init", "-q")

    def _settle(self, name: str, project: Path) -> None:
        if name == PACKAGE:
            for number in range(1, 5):
                (project / f"broken{number}.py").write_text(broken(number))
            (project / "unit.py").write_text("def unit():\n    return 1\n")
            (project / "settings.py").write_text("UNIT = 1\n")
        with (project / "reflectloop.toml").open("a") as file:
            file.write(f'[roles]\nexecutor = "script"\n[agents.script]\nfile = "{self.script}"\ntimeout_s = 20\n')
            file.write('[autoloop]\napply = "branch"\n')
        for words in (("user.name", "p"), ("user.email", "p@localhost")):
            self.stage.sh(project, "git", "config", *words)
        self.stage.sh(project, "git", "add", "-A")
        self.stage.sh(project, "git", "commit", "-q", "-m", "night")

    def _write_script(self, *, is_out: bool) -> None:
        entries = []
        for task in TASKS:
            ops = AFTER_OUTAGE if task.name == "outage" and not is_out else task.ops
            more = {} if task.name == "outage" and not is_out else task.more or {}
            done = {"control": "step_done", "approach": "as asked"}
            entry = {"role": "executor", "says": f"Do {task.name}.", "answer": done, "cost_usd": 0.01, **more}
            entries.append(entry | ({"ops": list(ops)} if ops else {}))
        text = json.dumps({"script": entries})
        part = self.stage.folder / "agent.part"
        part.write_text(text)
        part.replace(self.script)

    # Submitting --------------------------------------------------------------------------------------------------

    def submit(self, task: NightTask) -> None:
        step = {"id": "S-1", "agent": {"prompt": f"Do {task.name}.", "role": "executor"}}
        plan: dict[str, Any] = {
            "title": task.name,
            "track": task.track,
            "limits": {"step_attempts": 1},
            "steps": [step],
        }
        if task.track == "feature":
            python = ".venv/bin/python" if task.project == PACKAGE else "python3"
            code = task.check or "import sys"
            plan |= {"checks": {"holds": {"run": [python, "-c", code]}}}
            plan |= {"acceptance": [{"id": "AC-1", "text": f"{task.name} holds", "check": "holds"}]}
        path = self.stage.folder / "plan.json"
        path.write_text(json.dumps({"plan": plan}))
        after = ["--after", self.entries[task.after]] if task.after in self.entries else []
        code_, said = self.stage.loop(self.projects[task.project], "submit", "--plan", str(path), *after)
        if code_:
            sys.exit(f"{task.name}: {said['envelope']['message']}")
        self.entries[task.name] = said["data"]["id"]

    # The night ---------------------------------------------------------------------------------------------------

    def start(self) -> subprocess.Popen[bytes]:
        words = ["autoloop", "start", "--foreground", "--projects", str(self.listed), "--jobs", "2", "--max-hours", "8"]
        argv = [sys.executable, "-m", "reflectloop", *words, "--json"]
        return subprocess.Popen(argv, env=self.stage.env, stdout=subprocess.DEVNULL, cwd=self.projects[PACKAGE])

    def log(self) -> list[dict[str, Any]]:
        out = []
        for project in self.projects.values():
            for path in sorted((project / ".reflectloop" / "autoloop" / "daemon").glob("log*.jsonl"), reverse=True):
                out += [json.loads(line) for line in path.read_text().splitlines()]
        return out

    def sessions(self) -> int:
        return sum(line["action"] == "start" for line in self.log())

    def kill_everything(self, daemon: subprocess.Popen[bytes]) -> None:
        """Kill the daemon and every process of this night at once, as a reboot does."""
        daemon.kill()
        daemon.wait()
        mark = b"HOME=" + os.fsencode(self.stage.folder)
        for _ in range(3):
            for name in os.listdir("/proc"):  # noqa: PTH208 - names, not paths
                if name.isdigit() and int(name) != os.getpid() and _carries(int(name), mark):
                    _kill(int(name))
        self.kills += 1

    def work(self) -> None:
        daemon = self.start()
        until = time.monotonic() + PATIENCE_S
        for turn in itertools.count():
            if time.monotonic() > until:
                break
            time.sleep(3)
            self._sample(daemon.pid)
            if self.kills < len(_KILLS_AFTER) and self.sessions() >= _KILLS_AFTER[self.kills]:
                self.kill_everything(daemon)
                daemon = self.start()
            if any(line["action"] == "end" and line["entry"] == self.entries["outage"] for line in self.log()):
                self._write_script(is_out=False)
            if turn % 8 == 7 and self.is_settled():
                break
        self.last = self.ends()  # before its sessions are interrupted
        self.stage.loop(self.projects[PACKAGE], "autoloop", "stop")
        daemon.wait()

    def _sample(self, pid: int) -> None:
        try:
            fields = Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()
        except (OSError, IndexError):
            return
        self.memory_kb.append(int(fields[0]))

    def ends(self) -> dict[str, dict[str, Any]]:
        names = {entry: name for name, entry in self.entries.items()}
        out: dict[str, dict[str, Any]] = {}
        for project in self.projects.values():
            _, said = self.stage.loop(project, "autoloop", "status")
            out |= {names[view["entry"]]: view for view in said["data"]["tasks"] if view["entry"] in names}
        return out

    def is_settled(self) -> bool:
        ends = self.ends()
        over = {"applied", "asks", "held", "stopped", "failed", "unanswered"}
        return (
            set(ends) == set(self.entries)
            and {view["standing"] for view in ends.values()} <= over
            and (ends["outage"]["standing"] != "unanswered")
        )

    # Afterwards --------------------------------------------------------------------------------------------------

    def commits(self, project: Path) -> list[str]:
        if not self.stage.sh(project, "git", "branch", "--list", BRANCH).strip():
            return []
        return self.stage.sh(project, "git", "rev-list", "--reverse", f"HEAD..{BRANCH}").split()

    def red_commits(self) -> Iterator[str]:
        """Run the whole suite of the package at every commit of the branch."""
        project = self.projects[PACKAGE]
        place = self.stage.folder / "checkout"
        for commit in self.commits(project):
            self.stage.sh(project, "git", "worktree", "add", "-q", "--detach", str(place), commit)
            pytest = str(project / ".venv/bin/python")
            done = subprocess.run(
                [pytest, "-m", "pytest", "-q"], cwd=place, env=self.stage.env, capture_output=True, check=False
            )
            self.stage.sh(project, "git", "worktree", "remove", "--force", str(place))
            if done.returncode:
                yield commit

    def unproven_commits(self) -> Iterator[str]:
        """Find each commit without a receipt of PASS at L3 for the run that it names."""
        for project in self.projects.values():
            for commit in self.commits(project):
                text = self.stage.sh(project, "git", "log", "-1", "--format=%B", commit)
                run = text.split("Reflectloop-Run: ")[1].split()[0]
                receipt = json.loads((project / ".reflectloop" / "runs" / run / "receipt.json").read_text())
                if (receipt["outcome"], receipt["level"]) != ("PASS", "L3"):
                    yield commit

    def journals(self) -> dict[str, tuple[int, float]]:
        """Return calls and cost of every task, from the bytes of its journal."""
        out = {}
        for project in self.projects.values():
            for path in (project / ".reflectloop" / "tasks").glob("*/journal.jsonl"):
                lines = [json.loads(line) for line in path.read_text().splitlines()]
                calls = [line for line in lines if line["kind"] == "agent_asked"]
                out[path.parent.name] = (len(calls), round(sum(call["cost_usd"] or 0 for call in calls), 6))
        return out


def _carries(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def main() -> None:
    paper = Paper("night", ABOUT)
    with tempfile.TemporaryDirectory(dir=os.environ.get("PROOF_FOLDER")) as folder:
        night = Night(Stage(Path(folder)))
        order = sorted(TASKS, key=lambda task: bool(task.after))
        for task in order:
            night.submit(task)
        began = time.monotonic()
        night.work()
        judge(paper, night, time.monotonic() - began)
    paper.write()


def judge(paper: Paper, night: Night, seconds: float) -> None:
    ends = night.last
    wanted = {task.name: _STANDINGS.get(task.end, task.end) for task in TASKS}
    wrong = [
        f"{name}: {ends[name]['standing']} ({ends[name]['reason']})"
        for name in wanted
        if ends[name]["standing"] != wanted[name]
    ]
    paper.claim(
        f"each of {len(TASKS)} tasks ends as it must", "; ".join(wrong) or f"all, in {seconds:.0f} s", holds=not wrong
    )
    pairs = {task.name: (task, ends[task.name]["reason"]) for task in TASKS if task.end in (TEXT, BEHAVIOUR)}
    unnamed = [name for name, (task, reason) in pairs.items() if task.end == BEHAVIOUR and task.with_task not in reason]
    paper.claim(
        "the change that breaks with another one names it",
        "; ".join(reason for _, reason in pairs.values()),
        holds=not unnamed,
    )
    red = list(night.red_commits())
    count = len(night.commits(night.projects[PACKAGE]))
    paper.claim(
        "the package's suite is green at every commit of the branch",
        f"{count} commits, {len(red)} red",
        holds=not red and count > 0,
    )
    unproven = list(night.unproven_commits())
    paper.claim("nothing unproven lands", f"{len(unproven)} commits without a receipt", holds=not unproven)
    landed = sum(len(night.commits(project)) for project in night.projects.values())
    proven = sum(view["standing"] == "applied" for view in ends.values())
    paper.claim("nothing proven is lost", f"{proven} proven, {landed} commits on branches", holds=landed == proven)
    _, said = night.stage.loop(night.projects[PACKAGE], "report", "--since", "12h", "--projects", str(night.listed))
    rows = {row["task_id"]: (row["calls"], row["usd"]) for row in said["data"]["tasks"] if row["task_id"]}
    paper.claim(
        "the report equals the journals", f"{len(rows)} tasks", holds=rows == night.journals() and len(rows) > 0
    )
    first, last = night.memory_kb[len(night.memory_kb) // 2], night.memory_kb[-1]
    paper.claim(
        "the daemon's memory is flat", f"{first} KB at half time, {last} KB at the end", holds=last < first * 1.1 + 2048
    )
    told = [line["text"] for line in night.log() if line["action"] == "notify"]
    again = len(told) - len(set(told))
    paper.claim("a person is told of each thing once", f"{len(told)} messages, {again} repeated", holds=again == 0)
    left = night.stage.processes()
    paper.claim(
        "nothing is left running", f"{left} processes after {night.kills} kills", holds=left == 0 and night.kills == 2
    )
    paper.table(["task", "must", "is"], [[task.name, task.end, ends[task.name]["standing"]] for task in TASKS])


if __name__ == "__main__":
    main()
