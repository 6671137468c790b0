"""The nine steps on real packages: a fix, a feature and a refactoring by scripted agents, from `tp` to `apply`."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from proof import deaths
from proof.agreement import Left, faults
from proof.environment import Stage
from proof.jobs import JOBS, Job
from proof.packages import Ran, Yard, outside
from proof.paper import Paper

ROLES = ("planner", "second_planner", "executor", "reviewer")
ABOUT = (
    "Three tasks on the sources of real packages, as published but for `.gitignore`, in git repositories with a "
    "`.venv`: a fix (an expression of the package is broken and committed first), a feature with two acceptance "
    "criteria, a refactoring. Planner, second planner, executor and reviewer are scripts; `tp GOAL --yes`, `tr "
    "--all`, `answer`, `receipt verify` and `apply` are processes as a user starts them. What they leave is then "
    "compared by a reader of its own (`proof/agreement.py`), which knows the files and not the product. CPU is of "
    "the engine, with git and its other tools; what runs in the box is not in it. At last the engine of a small "
    "task is killed after each event."
)
# One word each, in a file that people or programs go by: what is found in an honest task must not be found after it.
FORGERIES = (
    ("tasks/*/todo.md", "- [x]", "- [ ]"),
    ("tasks/*/plan_log.md", "attempt 1", "attempt 2"),
    ("tasks/*/state.json", '"done"', '"failed"'),
    ("tasks/*/steps/*/1/review.json", '"PASS"', '"RETRY"'),
    ("tasks/*/steps/*/*/failed.json", None, None),
    ("tasks/*/steps/*/*/outcome.json", None, None),
    ("tasks/*/steps/*/*/executor.reply.json", None, None),
    ("designs/*/second_planner.prompt.md", None, None),
    ("runs/*/evidence.jsonl", "pytest", "pytets"),
    ("runs/*/changes.patch", "diff --git", "index"),
    ("final/*-report.md", "(done, 1", "(done, 2"),
    ("final/*-report.md", "| all |  | ", "| all |  | 1"),
)


class Told(NamedTuple):
    """One command, what it answered, and what it took."""

    code: int
    said: dict[str, Any]
    cpu_s: float

    @property
    def envelope(self) -> dict[str, Any]:
        found: dict[str, Any] = self.said["envelope"]
        return found


class Play:
    """One job, from its sources to the package's own suite after `apply`."""

    def __init__(self, yard: Yard, job: Job) -> None:
        self.yard, self.job = yard, job
        self.project = yard.python_project(job.package)
        self._bind()
        self.plain = self.suite()
        self.cpu_s: dict[str, float] = {}

    def _bind(self) -> None:
        script = self.yard.stage.folder / f"{self.job.package.name}.json"
        script.write_text(json.dumps({"script": self.job.script}))
        roles = "".join(f'{role} = "script"\n' for role in ROLES)
        with (self.project / "reflectloop.toml").open("a") as file:
            file.write(f'[roles]\n{roles}[agents.script]\nfile = "{script}"\n')
        if self.job.broken:
            name, right, wrong = self.job.broken
            path = self.project / name
            text = path.read_text()
            if text.count(right) != 1:
                sys.exit(f"{right!r} does not stand once in {name}")
            path.write_text(text.replace(right, wrong))
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "agents, and what they are to mend")

    def _git(self, *words: str) -> str:
        return self.yard.stage.sh(self.project, "git", *words).strip()

    def suite(self) -> Ran:
        ran = outside(self.yard.stage, self.project, self.job.package)
        self.yard.clean(self.project, self.job.package)
        return ran

    def command(self, *words: str) -> Told:
        before = _cpu_s()
        code, said = self.yard.stage.loop(self.project, *words)
        told = Told(code, said, _cpu_s() - before)
        self.cpu_s[words[0]] = self.cpu_s.get(words[0], 0) + told.cpu_s
        return told

    def plan(self) -> Told:
        return self.command("tp", self.job.goal, "--yes")

    def work(self) -> Told:
        """To its end, with the question answered where one is asked."""
        told = self.command("tr", "--all")
        if not self.job.answer:
            return told
        step, text = self.job.answer
        if told.envelope["next"] != f"reflectloop answer {step} TEXT":
            return told
        return self.command(*self.command("answer", step, text).envelope["next"].split()[1:])

    def apply(self) -> tuple[Told, str]:
        """And the tree that the user's files are then."""
        told = self.command("apply", "--yes")
        self._git("add", "-A", "--", ".", ":!.reflectloop")
        return told, self._git("write-tree")


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def prove(paper: Paper, play: Play) -> list[str]:
    job, package = play.job, play.job.package
    planned = play.plan()
    rounds = (planned.said["data"] or {}).get("rounds")
    track = (planned.said["data"] or {}).get("plan", {}).get("track", "?")
    paper.claim(
        f"{package}: two designs that differ are merged, and the plan is begun",
        f"exit {planned.code}, track {track}, {rounds} round(s)",
        holds=(planned.code, rounds) == (0, 1),
    )
    worked = play.work()
    if worked.code:
        paper.claim(f"{package}: the nine steps end in DONE", str(worked.envelope["message"]), holds=False)
        return [str(package), track, "", "", "", "", ""]
    left = Left.of(play.project)
    steps = left.steps()
    paper.claim(
        f"{package}: the nine steps end in DONE; on the way {job.about}",
        f"{len(steps)} steps, {sum(one.attempts for one in steps.values())} attempts, "
        f"{len(left.events('agent_asked'))} calls of agents, {len(left.journal)} events",
        holds=worked.said["data"]["state"] == "DONE",
    )
    _agree(paper, play)
    _applied(paper, play, left)
    cells = [f"{play.cpu_s[name]:.1f}" for name in ("tp", "tr", "apply")]
    return [str(package), track, str(len(steps)), str(len(left.events("agent_asked"))), *cells]


def _agree(paper: Paper, play: Play) -> None:
    found = faults(play.project)
    receipt = play.command("receipt", "verify")
    paper.claim(
        f"{play.job.package}: journal, state.json, todo.md, plan_log.md, papers, reviews, evidence and report agree",
        f"{'; '.join(found) or 'no fault'}; receipt verify exit {receipt.code}",
        holds=not found and receipt.code == 0,
    )


def _applied(paper: Paper, play: Play, left: Left) -> None:
    names = _changed(left)
    told, tree = play.apply()
    ended = left.events("run_finished")[-1]["end_tree"]
    after = play.suite().outcome
    fine = after.exit_code == 0 and after.counts
    paper.claim(
        f"{play.job.package}: the patch applies, the tree is the one judged, and the package's own suite passes",
        f"exit {told.code}, {', '.join(f'`{name}`' for name in names)}; before {play.plain.outcome}; after {after}",
        holds=told.code == 0 and names == sorted(play.job.makes) and tree == ended and bool(fine),
    )


def _forged(paper: Paper, play: Play) -> None:
    """The comparison is worth what it finds."""
    missed = [str(one) for one in FORGERIES if not _is_found(play.project, *one)]
    paper.claim(
        f"{play.job.package}: the comparison finds {len(FORGERIES)} forgeries, one by one, and nothing once undone",
        f"missed: {'; '.join(missed) or 'none'}",
        holds=not missed and not faults(play.project),
    )


def _is_found(project: Path, pattern: str, old: str | None, new: str | None) -> bool:
    """A word replaced in the first file of this name that has it, or the file taken away."""
    every = sorted((project / ".reflectloop").glob(pattern))
    path = next(one for one in every if old is None or old in one.read_text())
    raw = path.read_text()
    if old is None:
        path.unlink()
    else:
        path.write_text(raw.replace(old, new or "", 1))
    found = faults(project)
    path.write_text(raw)
    return bool(found)


def _changed(left: Left) -> list[str]:
    patch = (left.own / "runs" / left.run / "changes.patch").read_text()
    return sorted(line.split(" b/", 1)[1] for line in patch.splitlines() if line.startswith("diff --git "))


def main() -> None:
    wanted = sys.argv[1:]  # names of packages, to look at some of them; the paper is about all
    paper = Paper("nine", ABOUT)
    with tempfile.TemporaryDirectory(prefix="reflectloop-proof-") as name:
        yard = Yard(Stage(Path(name).resolve()))
        plays = [Play(yard, job) for job in JOBS if not wanted or job.package.name in wanted]
        rows = [prove(paper, play) for play in plays]
        _forged(paper, plays[-1])
        deaths.prove(paper, yard.stage)
        left = yard.stage.processes()
        paper.claim("no process is left", str(left), holds=not left)
        paper.table(["package", "track", "steps", "calls of agents", "tp, CPU s", "tr, CPU s", "apply, CPU s"], rows)
    if not wanted:
        paper.write()


if __name__ == "__main__":
    main()
