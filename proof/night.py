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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from proof.clis import PINNED, programs
from proof.environment import Stage
from proof.night_model import NightModel
from proof.night_tasks import BEHAVIOUR, CLAUDE, CODEX, LANDS, LEAKY, PACKAGE, SMALL, TASKS, TEXT, NightTask, broken
from proof.packages import Yard
from proof.paper import ROOT, Paper
from proof.suites import PYTEST, Package

sys.path.insert(0, str(ROOT / "tests"))

from model import Model

ABOUT = (
    f"Forty tasks in three projects, which are the packages inflection, six and toposort with their own suites. The "
    f"agents are the real Claude Code and Codex ({', '.join(PINNED)}), whose model is a script on loopback, and the "
    "scripted agent. All tasks are submitted, then one `autoloop start` works on them with `[autoloop] apply = "
    '"branch"`. Twice during the night the daemon and everything that it started is killed with SIGKILL, as by a '
    "reboot, and started again. The wall clock of the daemon and of its sessions is set back and forward while they "
    "work, and between a kill and the next start (the monotonic clock stays, as on a real machine). One "
    "agent hangs, one crashes, one meets a rate limit of an hour, one an outage that ends, and one fills its context. "
    "The ends, the branches and the report are compared with what the tasks are and with the bytes of the journals."
)
PACKAGES = {
    PACKAGE: Package("inflection", "0.5.1", "pure Python", "pytest", f"{PYTEST} test_inflection.py"),
    SMALL: Package("six", "1.17.0", "pure Python", "pytest", f"{PYTEST} test_six.py"),
    LEAKY: Package("toposort", "1.10", "pure Python", "pytest", f"{PYTEST} test"),
}
BRANCH = "reflectloop/autoloop"
PATIENCE_S = float(os.environ.get("PROOF_PATIENCE_S", "7200"))
_KILLS_AFTER = (6, 20)  # sessions
_CLOCKS = ((3, -1560), (6, 180), (12, -90), (20, -1500), (26, 120))  # from so many sessions on: minutes
_STANDINGS = {LANDS: "applied", TEXT: "asks", BEHAVIOUR: "asks"}
_MODELS = {CLAUDE: "claude-sonnet-4-5", CODEX: "gpt-5-codex"}


class Night:
    """The three projects, the queue of each, and the daemon over all of them."""

    def __init__(self, stage: Stage, url: str, model: NightModel) -> None:
        self.stage, self.yard, self.model, self._url = stage, Yard(stage), model, url
        self.stage.env |= {"PROOF_KEY": "dummy", "LANG": "C.UTF-8"}
        self.projects = {name: self.yard.python_project(package) for name, package in PACKAGES.items()}
        self.script, self.clock = stage.folder / "agent.json", stage.folder / "clock"
        self.clocks: list[int] = []  # minutes against the real one
        source = Path(__file__).with_name("wall_clock.c")
        self.yard.call(stage.folder, "cc", "-shared", "-fPIC", "-O2", "-o", f"{self.clock}.so", str(source))
        self._set_clock(0)
        self._write_script()
        for name, project in self.projects.items():
            self._settle(name, project)
        self.entries: dict[str, str] = {}
        self.memory_kb: list[int] = []
        self.kills = self.steps_back = 0  # of the clock in the journals
        self.asked: Counter[str] = Counter()  # agents that answered
        self.last: dict[str, dict[str, Any]] = {}
        listed = stage.folder / "projects"
        listed.write_text("".join(f"{project}\n" for project in self.projects.values()))
        self.listed = listed

    def _settle(self, name: str, project: Path) -> None:
        if name == PACKAGE:
            for number in range(1, 5):
                (project / f"broken{number}.py").write_text(broken(number))
            (project / "unit.py").write_text("def unit():\n    return 1\n")
            (project / "settings.py").write_text("UNIT = 1\n")
        with (project / "reflectloop.toml").open("a") as file:
            file.write(f'[roles]\nexecutor = "script"\n[agents.script]\nfile = "{self.script}"\ntimeout_s = 20\n')
            for kind, path in programs().items():
                address = self._url + ("/v1" if kind == CODEX else "")
                file.write(f'[agents.{kind}]\nrun = ["{path}"]\nbase_url = "{address}"\nmodel = "{_MODELS[kind]}"\n')
                file.write('key_env = "PROOF_KEY"\ntimeout_s = 900\n')
            file.write('[autoloop]\napply = "branch"\n')
        for words in (("user.name", "p"), ("user.email", "p@localhost")):
            self.stage.sh(project, "git", "config", *words)
        self.stage.sh(project, "git", "add", "-A")
        self.stage.sh(project, "git", "commit", "-q", "-m", "night")

    def _write_script(self) -> None:
        entries = []
        for task in TASKS:
            done = {"control": "step_done", "approach": "as asked"}
            entry = {"role": "executor", "says": f"Do {task.name}.", "answer": done, "cost_usd": 0.01}
            entries.append(entry | (task.more or {}) | ({"ops": list(task.ops)} if task.ops else {}))
        self.script.write_text(json.dumps({"script": entries}))

    def _set_clock(self, offset: int) -> None:
        """Change the wall clock of the daemon and its sessions at once."""
        part = self.clock.with_suffix(".part")
        part.write_text(f"{offset * 60}\n")
        part.replace(self.clock)
        self.clocks.append(offset)

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
            code = task.check or "import sys"
            plan |= {"checks": {"holds": {"run": [".venv/bin/python", "-c", code]}}}
            plan |= {"acceptance": [{"id": "AC-1", "text": f"{task.name} holds", "check": "holds"}]}
        path = self.stage.folder / "plan.json"
        path.write_text(json.dumps({"plan": plan}))
        after = ["--after", self.entries[task.after]] if task.after in self.entries else []
        words = ["--plan", str(path), "--executor", task.agent, *after]
        code_, said = self.stage.loop(self.projects[task.project], "submit", *words)
        if code_:
            sys.exit(f"{task.name}: {said['envelope']['message']}")
        self.entries[task.name] = said["data"]["id"]

    # The night ---------------------------------------------------------------------------------------------------

    def start(self) -> subprocess.Popen[bytes]:
        words = ["autoloop", "start", "--foreground", "--projects", str(self.listed), "--jobs", "2", "--max-hours", "8"]
        argv = [sys.executable, "-m", "reflectloop", *words, "--json"]
        env = self.stage.env | {"LD_PRELOAD": str(self.clock.with_suffix(".so")), "WALL_CLOCK": str(self.clock)}
        return subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, cwd=self.projects[PACKAGE])

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
            count = self.sessions()
            if self.kills < len(_KILLS_AFTER) and count >= _KILLS_AFTER[self.kills]:
                self.kill_everything(daemon)
                self._change_clock(count)
                daemon = self.start()
            self._change_clock(count)
            if any(line["action"] == "end" and line["entry"] == self.entries.get("outage") for line in self.log()):
                self.model.is_out = False
            if turn % 8 == 7 and self.is_settled():
                break
        self.last = self.ends()  # before its sessions are interrupted
        self.stage.loop(self.projects[PACKAGE], "autoloop", "stop")
        daemon.wait()

    def _change_clock(self, sessions: int) -> None:
        due = [offset for after, offset in _CLOCKS if sessions >= after]
        if due and due[-1] != self.clocks[-1]:
            self._set_clock(due[-1])

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
            and all(ends[name]["standing"] != "unanswered" for name in ("outage", "full_context") if name in ends)
        )

    # Afterwards --------------------------------------------------------------------------------------------------

    def commits(self, project: Path) -> list[str]:
        if not self.stage.sh(project, "git", "branch", "--list", BRANCH).strip():
            return []
        return self.stage.sh(project, "git", "rev-list", "--reverse", f"HEAD..{BRANCH}").split()

    def red_commits(self) -> Iterator[str]:
        """Run the whole suite of each package at every commit of its branch."""
        place = self.stage.folder / "checkout"
        for name, project in self.projects.items():
            words = [str(project / ".venv/bin/python"), "-m", "pytest", "-q"]
            for commit in self.commits(project):
                self.stage.sh(project, "git", "worktree", "add", "-q", "--detach", str(place), commit)
                env = self.stage.env | {"PYTHONPATH": str(place)}
                done = subprocess.run(words, cwd=place, env=env, capture_output=True, check=False)
                self.stage.sh(project, "git", "worktree", "remove", "--force", str(place))
                if done.returncode:
                    yield f"{name} {commit}"

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
                self.asked.update(call["agent"] for call in calls if call["status"] == "ok")
                stamps = [line["at"] for line in lines]
                self.steps_back += sum(later < earlier for earlier, later in itertools.pairwise(stamps))
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
    model, wanted = NightModel(), os.environ.get("PROOF_ONLY", "").split()
    with (
        Model(model.answers(), aside=True) as served,
        tempfile.TemporaryDirectory(dir=os.environ.get("PROOF_FOLDER"), ignore_cleanup_errors=True) as folder,
    ):
        night = Night(Stage(Path(folder).resolve()), served.url, model)
        order = sorted(TASKS, key=lambda task: bool(task.after))
        order = [task for task in order if not wanted or task.name in wanted]
        for task in order:
            night.submit(task)
        began = time.monotonic()
        night.work()
        judge(paper, night, order, time.monotonic() - began)
    if not wanted:
        paper.write()


def judge(paper: Paper, night: Night, tasks: list[NightTask], seconds: float) -> None:
    ends = night.last
    wanted = {task.name: _STANDINGS.get(task.end, task.end) for task in tasks}
    wrong = [
        f"{name}: {ends[name]['standing']} ({ends[name]['reason']})"
        for name in wanted
        if ends[name]["standing"] != wanted[name]
    ]
    paper.claim(
        f"each of {len(tasks)} tasks ends as it must", "; ".join(wrong) or f"all, in {seconds:.0f} s", holds=not wrong
    )
    pairs = {task.name: (task, ends[task.name]["reason"]) for task in tasks if task.end in (TEXT, BEHAVIOUR)}
    unnamed = [name for name, (task, reason) in pairs.items() if task.end == BEHAVIOUR and task.with_task not in reason]
    paper.claim(
        "the change that breaks with another one names it",
        "; ".join(reason for _, reason in pairs.values()),
        holds=not unnamed,
    )
    red = list(night.red_commits())
    count = sum(len(night.commits(project)) for project in night.projects.values())
    paper.claim(
        "the suite of each package is green at every commit of its branch",
        f"{count} commits, {len(red)} red {' '.join(red)}".strip(),
        holds=not red and count > 0,
    )
    unproven = list(night.unproven_commits())
    paper.claim("nothing unproven lands", f"{len(unproven)} commits without a receipt", holds=not unproven)
    landed = sum(len(night.commits(project)) for project in night.projects.values())
    proven = sum(view["standing"] == "applied" for view in ends.values())
    paper.claim("nothing proven is lost", f"{proven} proven, {landed} commits on branches", holds=landed == proven)
    _, said = night.stage.loop(night.projects[PACKAGE], "report", "--since", "48h", "--projects", str(night.listed))
    rows = {row["task_id"]: (row["calls"], row["usd"]) for row in said["data"]["tasks"] if row["task_id"]}
    paper.claim(
        "the report equals the journals", f"{len(rows)} tasks", holds=rows == night.journals() and len(rows) > 0
    )
    judge_hardship(paper, night)
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
    rows_of = [[task.name, task.project, task.agent, task.end, ends[task.name]["standing"]] for task in tasks]
    paper.table(["task", "project", "agent", "must", "is"], rows_of)


def judge_hardship(paper: Paper, night: Night) -> None:
    paper.claim(
        "real Claude Code and Codex answered as agents of the night, beside the scripted one",
        ", ".join(f"{agent} {count} time(s)" for agent, count in sorted(night.asked.items())),
        holds=night.asked[CLAUDE] > 0 and night.asked[CODEX] > 0,
    )
    asked = night.model.requests
    paper.claim(
        "a full context, a rate limit of an hour and an outage were met by the programs themselves",
        ", ".join(f"{name}: {asked[name]} request(s)" for name in ("full_context", "rate_limit", "outage")),
        holds=all(asked[name] for name in ("full_context", "rate_limit", "outage")),
    )
    paper.claim(
        "the wall clock jumped while they worked",
        f"by {', '.join(map(str, night.clocks))} minutes; {night.steps_back} time(s) back within a journal",
        holds=len(night.clocks) > len(_CLOCKS) and night.steps_back > 0,
    )


if __name__ == "__main__":
    main()
