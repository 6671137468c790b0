"""The merge queue on a real package: thirty proven changes, some conflicting in text, some only in behaviour."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from proof.environment import Stage
from proof.night_tasks import BEHAVIOUR, LANDS, TEXT, NightTask, feature, module_ops, patch_op, write_op
from proof.packages import Yard
from proof.paper import Paper
from proof.suites import PYTEST, Package

ABOUT = (
    "Thirty changes of the package six, each by an agent's task that is proven alone, on the commit that the "
    "project is at. Four are pairs that write the same line, three are pairs of which one changes a function and the "
    "other one relies on it; the others are independent. One `autoloop start --drain` works on all of them and lands "
    "them on a branch."
)
PACKAGE = Package("six", "1.17.0", "pure Python", "pytest", f"{PYTEST} test_six.py")
BRANCH = "reflectloop/autoloop"
_TEXTS, _BEHAVIOURS, _ALL = 4, 3, 30


def _text_pair(number: int) -> tuple[NightTask, NightTask]:
    def side(name: str, value: int, end: str, other: str) -> NightTask:
        ops = (
            write_op(f"settings{number}.py", f"UNIT = {value}\n"),
            *module_ops(name, f"{value} * value", f"3 == {3 * value}"),
        )
        check = f"from {name} import {name}; assert {name}(3) == {3 * value}"
        return NightTask(name, end, check=check, ops=ops, with_task=other)

    first, second = f"first{number}", f"second{number}"
    return side(first, 2, LANDS, ""), side(second, 3, TEXT, first)


def _behaviour_pair(number: int) -> tuple[NightTask, NightTask]:
    unit, ten = f"unit{number}", f"ten{number}"
    changes = NightTask(
        f"change{number}",
        LANDS,
        check=f"import {unit}; assert {unit}.unit() == 2",
        ops=(
            patch_op(f"{unit}.py", "-    return 1", "+    return 2"),
            write_op(f"test_{unit}.py", f"import {unit}\n\n\ndef test_unit():\n    assert {unit}.unit() == 2\n"),
        ),
    )
    relies = NightTask(
        f"rely{number}",
        BEHAVIOUR,
        check=f"import {ten}; assert {ten}.ten() == 10",
        ops=(
            write_op(f"{ten}.py", f"import {unit}\n\n\ndef ten():\n    return 10 * {unit}.unit()\n"),
            write_op(f"test_{ten}.py", f"import {ten}\n\n\ndef test_ten():\n    assert {ten}.ten() == 10\n"),
        ),
        with_task=changes.name,
    )
    return changes, relies


def _tasks() -> list[NightTask]:
    """Return the changes: the first ones of all pairs among the independent ones, then the second ones."""
    pairs = [_text_pair(n) for n in range(_TEXTS)] + [_behaviour_pair(n) for n in range(_BEHAVIOURS)]
    alone = [feature(f"plus{n}", f"value + {n}", f"{n} == {2 * n}") for n in range(1, _ALL - 2 * len(pairs) + 1)]
    half = len(alone) // 2
    return [*alone[:half], *(pair[0] for pair in pairs), *alone[half:], *(pair[1] for pair in pairs)]


class MergeStory:
    """The project, its queue, and the daemon that lands."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.tasks = stage, _tasks()
        self.project = Yard(stage).python_project(PACKAGE)
        script = stage.folder / "agent.json"
        done = {"control": "step_done", "approach": "as asked"}
        entries = [{"says": f"Do {task.name}.", "ops": list(task.ops), "answer": done} for task in self.tasks]
        script.write_text(json.dumps({"script": entries}))
        for number in range(_TEXTS):
            (self.project / f"settings{number}.py").write_text("UNIT = 1\n")
        for number in range(_BEHAVIOURS):
            (self.project / f"unit{number}.py").write_text("def unit():\n    return 1\n")
        with (self.project / "reflectloop.toml").open("a") as file:
            file.write(f'[roles]\nexecutor = "script"\n[agents.script]\nfile = "{script}"\n')
            file.write('[autoloop]\napply = "branch"\n')
        for words in (("user.name", "p"), ("user.email", "p@localhost")):  # the queue commits as the user
            stage.sh(self.project, "git", "config", *words)
        stage.sh(self.project, "git", "add", "-A")
        stage.sh(self.project, "git", "commit", "-q", "-m", "as the changes find it")
        self.names = {self._submit(task): task for task in self.tasks}

    def _submit(self, task: NightTask) -> str:
        plan = {
            "title": task.name,
            "track": "feature",
            "limits": {"step_attempts": 1},
            "steps": [{"id": "S-1", "agent": {"prompt": f"Do {task.name}.", "role": "executor"}}],
            "checks": {"holds": {"run": [".venv/bin/python", "-c", task.check]}},
            "acceptance": [{"id": "AC-1", "text": f"{task.name} holds", "check": "holds"}],
        }
        path = self.stage.folder / "plan.json"
        path.write_text(json.dumps({"plan": plan}))
        code, answer = self.stage.loop(self.project, "submit", "--plan", str(path))
        if code:
            sys.exit(str(answer["envelope"]["message"]))
        return str(answer["data"]["id"])

    def views(self) -> dict[str, dict[str, Any]]:
        _, answer = self.stage.loop(self.project, "autoloop", "status")
        return {self.names[view["entry"]].name: view for view in answer["data"]["tasks"]}

    def commits(self) -> list[tuple[str, str]]:
        text = self.stage.sh(self.project, "git", "log", "--reverse", "--format=%H %s", f"HEAD..{BRANCH}")
        return [(line.split()[0], line.split()[1]) for line in text.splitlines()]

    def user_files(self) -> str:
        """Return the state of the user's branch and files; lessons below `.reflectloop` are shown, to be committed."""
        place = ("--", ".", ":!.reflectloop")
        return self.stage.sh(self.project, "git", "status", "--porcelain", "--branch", *place)

    def is_green(self, commit: str) -> bool:
        place = self.stage.folder / "checkout"
        self.stage.sh(self.project, "git", "worktree", "add", "-q", "--detach", str(place), commit)
        words = [str(self.project / ".venv/bin/python"), "-m", "pytest", "-q"]
        env = self.stage.env | {"PYTHONPATH": str(place)}
        done = subprocess.run(words, cwd=place, env=env, capture_output=True, check=False)
        self.stage.sh(self.project, "git", "worktree", "remove", "--force", str(place))
        return done.returncode == 0


def main() -> None:
    paper = Paper("merge", ABOUT)
    with tempfile.TemporaryDirectory(dir=os.environ.get("PROOF_FOLDER"), ignore_cleanup_errors=True) as folder:
        story = MergeStory(Stage(Path(folder).resolve()))
        before = story.user_files()
        story.stage.loop(story.project, "autoloop", "start", "--foreground", "--drain")
        after = story.user_files()
        _judge(paper, story)
        paper.claim("the user's branch and files stay as they are", after.strip(), holds=before == after)
    paper.write()


def _judge(paper: Paper, story: MergeStory) -> None:
    views, commits = story.views(), story.commits()
    landing = [task.name for task in story.tasks if task.end == LANDS]
    wrong = [
        f"{task.name}: {views[task.name]['standing']}: {views[task.name]['reason']}"
        for task in story.tasks
        if views[task.name]["standing"] != ("applied" if task.end == LANDS else "asks")
    ]
    paper.claim(
        f"of {len(story.tasks)} changes that are proven alone, those land that also pass together",
        "; ".join(wrong) or f"{len(commits)} land, {len(story.tasks) - len(commits)} do not",
        holds=not wrong and [name for _, name in commits] == landing,
    )
    red = [name for commit, name in commits if not story.is_green(commit)]
    paper.claim(
        "the suite is green at every commit of the branch", f"{len(commits)} commits, red: {red}", holds=not red
    )
    rows = []
    for end, text in ((TEXT, "in text"), (BEHAVIOUR, "only in behaviour")):
        clashing = [task for task in story.tasks if task.end == end]
        reasons = {task.name: str(views[task.name]["reason"]) for task in clashing}
        unnamed = [task.name for task in clashing if task.with_task not in reasons[task.name]]
        paper.claim(
            f"each change that conflicts {text} names the one it conflicts with",
            f"{len(clashing)} change(s), unnamed: {unnamed}",
            holds=bool(clashing) and not unnamed,
        )
        rows += [[task.name, task.with_task, reasons[task.name]] for task in clashing]
    paper.table(["does not land", "because of", "reason"], rows)


if __name__ == "__main__":
    main()
