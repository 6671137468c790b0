"""Whether all that a task of agents leaves says the same: read from the files alone, without the product's own code."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]
_REASON = re.compile(r"- (\S+)\. .*\((\w+), (\d+) attempt")


class Step(NamedTuple):
    """A step as the lines of the journal tell it, one after another."""

    status: str = "pending"
    attempts: int = 0
    checks: tuple[tuple[str, str], ...] = ()  # the name and the command of each


class Left(NamedTuple):
    """What a task left in its project."""

    own: Path
    task: str
    run: str
    journal: list[Json]

    @classmethod
    def of(cls, project: Path) -> Left:
        own = project / ".reflectloop"
        task = (own / "current").read_text().strip()
        lines = (own / "tasks" / task / "journal.jsonl").read_text().splitlines()
        journal = [json.loads(line) for line in lines]
        (run,) = {one["run_id"] for one in journal if one["kind"] == "run_started"}
        return cls(own, task, run, journal)

    @property
    def folder(self) -> Path:
        return self.own / "tasks" / self.task

    def events(self, *kinds: str) -> list[Json]:
        return [one for one in self.journal if one["kind"] in kinds]

    def steps(self) -> dict[str, Step]:
        """By the plainest reading of the journal there is."""
        found: dict[str, Step] = {}
        for one in self.journal:
            name = one.get("step_id", "")
            old = found.get(name, Step())
            match one["kind"]:
                case "run_started":
                    found |= {new: Step() for new in one["steps"]}
                case "steps_added":
                    found |= {new: Step() for new in one["steps"]}
                    if one.get("parent"):
                        found[one["parent"]] = found[one["parent"]]._replace(status="skipped")
                case "step_started":
                    found[name] = old._replace(status="running", attempts=old.attempts + 1)
                case "step_interrupted":
                    found[name] = old._replace(status="pending", attempts=old.attempts - 1)
                case "step_blocked":
                    found[name] = old._replace(status="blocked")
                case "answered":
                    found[name] = old._replace(status="pending")
                case "step_finished":
                    checks = tuple((check["name"], check["command"]) for check in one.get("checks", ()))
                    found[name] = Step("done" if one["success"] else "failed", old.attempts, checks)
        return found


def faults(project: Path) -> list[str]:
    """Every two papers that do not agree; none where all do."""
    left = Left.of(project)
    looks: tuple[Callable[[Left], Iterator[str]], ...] = (_state, _views, _papers, _asked, _proof, _report)
    return [f"{look.__name__[1:]}: {fault}" for look in looks for fault in look(left)]


def _state(left: Left) -> Iterator[str]:
    state = json.loads((left.folder / "state.json").read_text())
    if state["revision"] != len(left.journal):
        yield f"state.json covers {state['revision']} of {len(left.journal)} lines"
    task = state["task"]
    if task["state"] != "DONE":
        yield f"state.json says {task['state']}"
    told = task["runs"][left.run]["steps"]
    for name, step in left.steps().items():
        said = told.get(name, {})
        if (said.get("status"), said.get("attempts")) != (step.status, step.attempts):
            yield f"state.json says {said.get('status')} of step {name}, the journal {step.status}"


def _views(left: Left) -> Iterator[str]:
    todo = (left.folder / "todo.md").read_text()
    log = (left.folder / "plan_log.md").read_text()
    marks = {name: mark for mark, name in re.findall(r"^ *- (\[.\]) (\S+)", todo, re.MULTILINE)}
    for name, step in left.steps().items():
        wanted = {"done": "[x]", "skipped": "[-]"}.get(step.status)
        if marks.get(name) != wanted:
            yield f"todo.md says {marks.get(name)} of step {name}, which is {step.status}"
        if step.status == "done" and not re.search(
            rf"^- {re.escape(name)} .*: done, attempt {step.attempts},", log, re.MULTILINE
        ):
            yield f"plan_log.md does not say that step {name} was done at attempt {step.attempts}"
    if not todo.count(f"{left.task}: DONE") == log.count(f"{left.task}: DONE") == 1:
        yield "todo.md and plan_log.md do not both say that the task is done"


def _papers(left: Left) -> Iterator[str]:
    """A folder for each attempt, with how it came out in it."""
    for name, step in left.steps().items():
        folder = left.folder / "steps" / name
        found = sorted(int(one.name) for one in folder.glob("*"))
        if found != list(range(1, step.attempts + 1)):
            yield f"step {name} had {step.attempts} attempt(s), and there are papers of {found}"
        for number in found:
            yield from _attempt(folder / str(number), last=number == step.attempts and step.status == "done")


def _attempt(folder: Path, *, last: bool) -> Iterator[str]:
    where = f"{folder.parent.name}/{folder.name}"
    review = folder / "review.json"
    verdict = json.loads(review.read_text())["verdict"] if review.exists() else ""
    if last:
        answers = ("outcome.json",) if (folder / "executor.prompt.md").exists() else ()  # commands answer nothing
        for name in ("design.json", "req.json", *answers, "res.json"):
            if not (folder / name).exists():
                yield f"{where} was good, and left no {name}"
        if verdict != "PASS" or (folder / "failed.json").exists():
            yield f"{where} was good, and its papers do not say so"
        return
    outcome = folder / "outcome.json"
    control = json.loads(outcome.read_text())["control"] if outcome.exists() else "split"
    if (folder / "failed.json").exists() == (control in ("ask", "split")):
        yield f"{where} ended with {control}, and its papers say something else"
    if verdict == "PASS":
        yield f"{where} did not hold, and its review passed it"


def _asked(left: Left) -> Iterator[str]:
    """Every call of an agent is an event with a prompt and a reply, and every prompt was sent."""
    designs = [one for one in (left.own / "designs").glob("*") if one.is_dir()]
    prompts = [path for top in (left.folder / "steps", *designs) for path in top.rglob("*.prompt.md")]
    replies = [path.with_name(path.name.replace(".prompt.md", ".reply.json")) for path in prompts]
    events = left.events("agent_asked")
    if missing := [str(path) for path in replies if not path.exists()]:
        yield f"no reply to {missing[0]}"
    told = Counter(path.name.split(".")[0].split("-")[0] for path in prompts)
    asked = Counter(one["role"] for one in events)
    if told != asked:
        yield f"the journal has {dict(asked)} calls, the papers {dict(told)}"
    if any(one["status"] != "ok" for one in events):
        yield "an agent did not answer"


def _proof(left: Left) -> Iterator[str]:
    """What steps showed is in the evidence, and what was judged is what the run ended with."""
    run = left.own / "runs" / left.run
    ended, judged = left.events("run_finished")[-1], left.events("judged")[-1]
    if ended["end_tree"] != judged["tree"]:
        yield "another tree was judged than the run ended with"
    if (ended["error_code"], judged["decision"]) != (None, "PASS"):
        yield f"it ended with {ended['error_code']}, judged {judged['decision']}"
    last = [one for one in left.events("step_finished") if one["success"]][-1]
    if last["tree"] != ended["end_tree"]:
        yield "the last step left another tree than the run ended with"
    records = [json.loads(line) for line in (run / "evidence.jsonl").read_text().splitlines()]
    claims = {(record["claim"], *record["command"]) for record in records}
    for name, step in left.steps().items():
        if step.status == "done" and not step.checks:
            yield f"step {name} is done by nothing"
        for check, command in step.checks:
            if (f"check {check} in step {name}: exited 0", command) not in claims:
                yield f"the evidence does not have {command} of step {name}"


def _report(left: Left) -> Iterator[str]:
    report = (left.own / "final" / f"{left.task}-report.md").read_text()
    files = len(re.findall(r"^diff --git ", (left.own / "runs" / left.run / "changes.patch").read_text(), re.MULTILINE))
    if f"The gates let it through: {left.run}, {files} file(s) changed." not in report:
        yield f"the report does not say that {left.run} changed {files} file(s)"
    told = {name: (status, int(attempts)) for name, status, attempts in _REASON.findall(report)}
    known = {name: (step.status, step.attempts) for name, step in left.steps().items()}
    if told != known:
        yield f"the report says {told}, the journal {known}"
    calls = re.search(r"^\| all \|  \| (\d+) \|", report, re.MULTILINE)
    if not calls or int(calls[1]) != len(left.events("agent_asked")):
        yield f"the report counts {calls[1] if calls else 'no'} calls of {len(left.events('agent_asked'))}"
    if "PASS by rules, reviewer, planner." not in report:
        yield "the report does not name who passed the whole"
