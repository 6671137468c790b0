"""One step, from preflight to finalize: eight stations, each of which lets it go on or says how it ended."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from reflectloop import secrets
from reflectloop.agents.backend import Reply
from reflectloop.agents.shapes import FEWEST, MOST, Outcome, PlannedStep, StepDesign
from reflectloop.errors import AgentUnavailable, GateRejected, InvalidInput
from reflectloop.fileops.response import Response
from reflectloop.flow.nine import briefs, context, designs, past, proving, reflecting, reviews
from reflectloop.flow.nine.acting import PROTO
from reflectloop.flow.nine.briefs import Tried, Work
from reflectloop.flow.nine.crew import Call
from reflectloop.flow.nine.designs import Subject
from reflectloop.flow.nine.desk import Desk, listed, words
from reflectloop.flow.nine.past import Past
from reflectloop.flow.nine.proving import Shown
from reflectloop.flow.nine.reflecting import Where
from reflectloop.flow.requesting.domain import ATTEMPTS, Proven, proof
from reflectloop.flow.running.recovery import MOST_INTERRUPTIONS
from reflectloop.reflect.record import FailureRecord
from reflectloop.state import events
from reflectloop.state.fold import Run, Step, Task
from reflectloop.terms import Role
from reflectloop.workspace.record import Unrecordable
from reflectloop.world import clock, files

_LEFT = ("pending", "running", "blocked", "failed")
_DEEPEST = 1  # how often a part of a step may be split again
_TIMEOUT_MS = 600_000
_EXECUTOR = "the executor did not answer:"
_FOR_A_PERSON = ("MAX_ITER",)
_NOT_LET_IN = re.compile(r"(?i)\b(?:40[13]|unauthori[sz]ed|forbidden|invalid (?:x-)?api.key|authentication)\b")
How = Literal["done", "split", "again", "blocked"]


class Ended(NamedTuple):
    how: How
    step: str
    said: str = ""
    unblock: str = ""


@dataclass
class Turn:
    """One attempt at one step."""

    desk: Desk
    task: Task
    run: Run
    step: Step
    attempt: int = 1
    start: str = ""  # the tree this attempt began with
    origin: str = ""  # the tree before the step's first attempt
    folder: Path = field(default_factory=Path)
    design: StepDesign | None = None
    request: dict[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None
    end: str = ""
    nested: tuple[str, ...] = ()
    shown: Shown = field(default_factory=lambda: Shown([]))
    began: float = field(default_factory=clock.monotonic)

    @property
    def took_ms(self) -> int:
        return round((clock.monotonic() - self.began) * 1000)

    @property
    def commands(self) -> list[Any]:
        return listed(self.run.details.get(self.step.id, {}).get("commands"))

    @property
    def work(self) -> Work:
        return self.desk.work(self.run, self.step)

    def look(self) -> None:
        """As the journal says now."""
        self.task, self.run = self.desk.look()
        self.step = self.run.steps[self.step.id]

    def keep(self, name: str, value: BaseModel | dict[str, Any]) -> None:
        said = value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value
        text = json.dumps(said, indent=2, ensure_ascii=False)
        files.write_atomic(self.folder / name, secrets.current().redact(text) + "\n")


# 1 ---------------------------------------------------------------------------------------------------------------


def next_step(run: Run) -> Step | None:
    return next((step for step in run.steps.values() if step.status in _LEFT), None)


def preflight(turn: Turn) -> Ended | None:
    desk, step = turn.desk, turn.step
    if step.status == "blocked":
        return Ended("blocked", step.id, step.reason, f"reflectloop answer {step.id} TEXT")
    if _died(turn) and step.interrupted + 1 >= MOST_INTERRUPTIONS:
        why = f"the engine died {MOST_INTERRUPTIONS} times in a row while it ran"
        return block(turn, why, f"reflectloop answer {step.id} TEXT (what to do differently)")
    if desk.past.step != step.id:
        desk.past = past.recall(desk.papers(turn.task, step.id), turn.step)
    if turn.step.attempts - step.forgiven >= ATTEMPTS:
        return _spent(turn)
    op = {"op": "triflow_state_preflight", "step": step.id, "reason": desk.why}
    _done(desk.request("execute_step", op, summary=f"begin step {step.id}"))
    turn.look()
    turn.attempt, turn.start = turn.step.attempts, desk.space.tree
    turn.origin = before(turn.run, step.id) or turn.start
    turn.folder = desk.papers(turn.task, step.id) / str(turn.attempt)
    files.remove_tree(turn.folder)  # an attempt that its engine did not survive never was
    turn.folder.mkdir(parents=True)
    desk.tell(f"step {step.id}, attempt {turn.attempt}: {turn.work.title}")
    return None


def _died(turn: Turn) -> bool:
    """Whether an engine died at it: what it did died with its workspace, and that was no attempt."""
    desk, step = turn.desk, turn.step
    if step.status != "running" or step.tree != desk.space.tree or desk.past.step == step.id:
        return False
    desk.crew.note(events.StepInterrupted(run_id=turn.run.id, step_id=step.id))
    turn.look()
    return True


def before(run: Run, name: str) -> str:
    """The tree that the step before left: what a step changed in all its attempts is counted from there."""
    trees = [run.steps[one].tree for one in run.order if run.steps[one].status == "done" and one != name]
    return next((tree for tree in reversed(trees) if tree), run.base_tree)


def _done(response: Response) -> Response:
    if response.status != "ok":
        why = "; ".join(one.error for one in response.errors) or (response.fail.reason if response.fail else "")
        raise InvalidInput(f"the state does not allow it: {why or response.status}", next_step="reflectloop status")
    return response


# 2, 3 ------------------------------------------------------------------------------------------------------------


def design(turn: Turn) -> Ended | None:
    """By two planners where two are bound; a step made of commands, or without a planner, is its own design."""
    desk = turn.desk
    if desk.past.design or turn.commands or not desk.crew.has(Role.PLANNER):
        turn.design = desk.past.design or _by_rules(turn)
        turn.keep("design.json", turn.design)
        return None
    query = f"{turn.work.title} {turn.work.details}"
    near = context.of(desk.folders, desk.space, query)
    advice = context.advice(desk.folders.root, "step", query)
    subject = Subject(f"step {turn.step.id}", turn.folder, turn.step.id, turn.attempt)
    settled = designs.settle(desk.crew, StepDesign, subject, lambda: briefs.step(turn.work, near, advice))
    if settled.design is None:
        against = "; ".join(settled.objections)
        return block(
            turn,
            f"two planners do not agree on step {turn.step.id} after {settled.rounds} rounds: {against}",
            f"reflectloop answer {turn.step.id} TEXT (which way; both designs are in {turn.folder})",
        )
    turn.design = settled.design
    desk.past = desk.past._replace(design=settled.design)
    return None


def _by_rules(turn: Turn) -> StepDesign:
    said = "run its commands" if turn.commands else turn.work.details or turn.work.title or "do what the step says"
    return StepDesign(approach=said, done=turn.work.done)


def split(turn: Turn) -> Ended | None:
    if turn.design and turn.design.needs_split:
        return _split(turn, turn.design.substeps, "the design asks for it")
    return None


def _split(turn: Turn, parts: Sequence[PlannedStep], reason: str) -> Ended | None:
    """None where it cannot be split so; the step is then worked on as it is."""
    why = _unsplit(turn, parts)
    if why:
        turn.desk.tell(f"step {turn.step.id} is not split: {why}")
        return None
    _take_back(turn)
    op = {
        "op": "triflow_state_apply_split",
        "step": turn.step.id,
        "reason": reason,
        "substeps": [one.model_dump(mode="json") for one in parts],
    }
    _done(turn.desk.request("split_step", op))
    turn.desk.past = Past("")
    return Ended("split", turn.step.id, f"split into {len(parts)} steps: {reason}")


def _unsplit(turn: Turn, parts: Sequence[PlannedStep]) -> str:
    """Why a step cannot be split so; empty where it can."""
    if turn.step.id.count(".") > _DEEPEST:
        return "it is a part of a part already"
    if not FEWEST <= len(parts) <= MOST:
        return f"{len(parts)} parts, where {FEWEST} to {MOST} are wanted"
    for part in parts:
        for line in (*part.commands, *part.checks):
            verdict = turn.desk.hands.policy.judge(line)
            if not verdict.allowed:
                return f"{verdict.reason} ({verdict.rule}): {briefs.one_line(line)}"
    return ""


# 4, 5 ------------------------------------------------------------------------------------------------------------


def build(turn: Turn) -> Ended | None:
    """The request that the executor is given; for a step made of commands it is carried out as it is."""
    run = [{"op": "run", "cmd": one, "timeoutMs": _TIMEOUT_MS} for one in turn.commands]
    turn.request = {
        "proto": PROTO,
        "id": f"{turn.run.id}.{turn.step.id}.{turn.attempt}",
        "purpose": "execute_step",
        "summary": turn.work.title,
        "done": list(turn.work.done),
        "ops": run,
        "constraints": {"writable_roots": ["."], "max_attempts": ATTEMPTS},
        "report": {"changedFiles": True, "diffSummary": True, "commandOutputs": "always"},
    }
    turn.keep("req.json", turn.request)
    return None


def execute(turn: Turn) -> Ended | None:
    desk = turn.desk
    if turn.commands:
        turn.outcome = _by_commands(turn)
    elif desk.crew.has(Role.EXECUTOR):
        turn.outcome = _by_agent(turn)
    else:
        raise AgentUnavailable(
            f"step {turn.step.id} has no commands, and no agent is bound to the executor",
            next_step='executor = "NAME" under [roles] in reflectloop.toml; see docs/agents.md',
            missing=("role:executor",),
        )
    try:
        now = desk.space.record(thorough=True)
        turn.end, turn.nested = now.tree, now.nested
    except Unrecordable as fault:
        turn.end = turn.start
        turn.outcome = Outcome(control="fail", reason=f"what it left cannot be recorded: {fault}")
    turn.keep("outcome.json", turn.outcome)
    return None


def _by_commands(turn: Turn) -> Outcome:
    response = turn.desk.act()(turn.request["ops"])
    turn.keep("res.json", response)
    if response.status == "ok":
        held = [proof("exit", one.cmd) for one in response.proof.commands]
        turn.shown = Shown(held)
        return Outcome(control="step_done", approach="its commands")
    if response.status == "ask":
        return Outcome(control="ask", question=str((response.ask or {}).get("question", "a command needs an answer")))
    printed = response.proof.commands[-1] if response.proof.commands else None
    said = f"\n{printed.stdout}{printed.stderr}" if printed else ""
    why = "; ".join(one.error for one in response.errors) or response.status
    return Outcome(control="fail", reason=(why + said)[-15_000:])


def _by_agent(turn: Turn) -> Outcome:
    desk, known = turn.desk, turn.desk.past
    assert turn.design  # noqa: S101 - the station before made it
    signature = next((one.failure.signature for one in reversed(known.tried) if one.failure), "")
    advice = context.advice(desk.folders.root, "failure" if signature else "step", turn.work.title, signature)
    prompt = briefs.execute(
        turn.work, turn.design.approach, turn.request, known.tried, f"{known.asked}\n\n{advice}".strip()
    )
    act = desk.act()
    reply = desk.crew.ask(
        Call(Role.EXECUTOR, prompt, Outcome, turn.folder, turn.step.id, turn.attempt, act),
    )
    if not reply.ok and _is_hopeless(reply):
        question = f"{_EXECUTOR} {reply.status}: {reply.reason}; see: reflectloop agents --check"
        return Outcome(control="ask", question=question[:15_000])
    if not reply.ok:
        return Outcome(control="fail", reason=f"{_EXECUTOR} {reply.status}: {reply.reason}"[:15_000])
    return Outcome.model_validate(reply.data)


def _is_hopeless(reply: Reply) -> bool:
    """Whether another attempt would come to the same: a right is missing, or it had all the turns it may take."""
    return reply.reason.startswith(_FOR_A_PERSON) or _NOT_LET_IN.search(reply.reason) is not None


# 6 ---------------------------------------------------------------------------------------------------------------


def handle(turn: Turn) -> Ended | None:
    said = turn.outcome
    assert said  # noqa: S101
    match said.control:
        case "ask":
            question = said.question or said.reason or "it asks, and does not say what"
            return block(turn, question, f"reflectloop answer {turn.step.id} TEXT")
        case "split":
            ended = _split(turn, said.substeps, said.reason or "the executor asks for it")
            return ended or failed(turn, f"asked to be split, and cannot be: {_unsplit(turn, said.substeps)}")
        case "fail" | "replan":
            return failed(turn, said.reason or f"the executor says {said.control}")
        case "step_done":
            return _verified(turn)


def _verified(turn: Turn) -> Ended | None:
    """What it claims is done is looked at: a change, another than before, that holds by the engine's own checks."""
    if not turn.commands and turn.end == turn.start:
        apart = f"; {', '.join(turn.nested)} is a repository of its own, and no part of it" if turn.nested else ""
        return failed(turn, f"was said to be done, and no file differs{apart}")
    if turn.end in turn.desk.past.trees:
        return failed(turn, "came to the very files that did not hold before")
    commands = proving.checks_of(turn.desk, turn.run, turn.step)
    found = proving.prove(turn.desk, commands, turn.folder, turn.step.id, turn.attempt)
    turn.shown = found._replace(held=[*turn.shown.held, *found.held])
    if not found.ok:
        return failed(turn, f"a check does not hold: {found.failed}", found.failure, found.output)
    if not turn.shown.held:
        where = f"reflectloop skip {turn.step.id} --reason TEXT, or plan it anew with checks"
        return block(turn, "the step has no check, and the project no tests: nothing can show that it is done", where)
    try:
        turn.end = turn.desk.space.record().tree
    except Unrecordable as fault:
        return failed(turn, f"what its checks left cannot be recorded: {fault}")
    return None


def failed(turn: Turn, why: str, failure: FailureRecord | None = None, output: str = "", *, asked: str = "") -> Ended:
    """An attempt that did not hold: written down for the next one, and taken back unless a review asks for more."""
    desk = turn.desk
    approach = turn.outcome.approach or turn.outcome.summary if turn.outcome else ""
    changed = turn.end if turn.end != turn.start else ""
    diff = desk.diff(turn.start, changed) if changed and not asked else ""
    learnt = ""
    if failure:
        failure, learnt = reflecting.reflect(desk, failure, why, _where(turn))
    tried = Tried(turn.attempt, approach, why, failure, output, diff, learnt)
    desk.past = desk.past.plus(tried, changed, asked)
    desk.why = secrets.current().redact(why)[:2_000]
    past.keep(turn.folder, tried, changed, asked)
    desk.tell(f"step {turn.step.id}, attempt {turn.attempt} does not hold: {why.splitlines()[0]}")
    if not asked:
        _take_back(turn)
    return Ended("again", turn.step.id, why)


def _where(turn: Turn) -> Where:
    return Where(turn.task.id, turn.run.id, turn.step.id, turn.attempt, turn.folder)


def _take_back(turn: Turn) -> None:
    turn.desk.space.reset_to(turn.start)


def block(turn: Turn, reason: str, unblock: str) -> Ended:
    """Only a person can say how to go on; what this attempt did is taken back."""
    if turn.start:
        _take_back(turn)
    said = briefs.one_line(secrets.current().redact(reason), 2_000)
    op = {"op": "triflow_state_mark_blocked", "step": turn.step.id, "reason": said, "unblock": unblock}
    _done(turn.desk.request("execute_step", op))
    return Ended("blocked", turn.step.id, said, unblock)


def _spent(turn: Turn) -> Ended:
    """Every attempt it may have: what was tried is said, and who can help."""
    desk, step = turn.desk, turn.step
    last = desk.past.tried[-1].why if desk.past.tried else ""
    why = desk.why or last or step.reason or "see the attempts"
    reason = f"{ATTEMPTS} attempts did not hold; the last: {why}"
    if step.status == "failed":
        desk.crew.note(
            events.StepsReset(run_id=turn.run.id, steps=[step.id], how="retry", reason="to be blocked, not tried")
        )
    look = "reflectloop agents --check; then: " if _EXECUTOR in why else ""
    return block(turn, reason, f"{look}reflectloop answer {step.id} TEXT (what to do differently)")


# 7, 8 ------------------------------------------------------------------------------------------------------------


def review(turn: Turn) -> Ended | None:
    case = reviews.Case(turn.work, turn.origin, turn.end, turn.shown.lines(), turn.folder, turn.attempt)
    try:
        found = reviews.review(turn.desk, case)
    except GateRejected as fault:  # it rewrote who is to judge it
        return failed(turn, fault.message)
    turn.keep("review.json", found._asdict() | {"items": [one.model_dump(mode="json") for one in found.items]})
    if found.verdict == "PASS":
        return None
    said = "; ".join(f"{one.place}: {one.problem}".removeprefix(": ") for one in found.items) or found.summary
    if found.verdict == "BLOCKED":
        return block(turn, f"the review stops: {said}", f"reflectloop answer {turn.step.id} TEXT")
    asked = "" if turn.commands else briefs.mending(found.items)
    return failed(turn, f"the review asks for another attempt: {said}", asked=asked)


def finalize(turn: Turn) -> Ended | None:
    desk = turn.desk
    desk.domain.proven, desk.domain.took_ms = Proven(turn.end, turn.shown.held), turn.took_ms
    try:
        response = desk.request("finalize_step", {"op": "triflow_state_finalize", "step": turn.step.id})
    finally:
        desk.domain.proven, desk.domain.took_ms = None, 0
    if response.status != "ok":
        why = "; ".join(one.error for one in response.errors) or response.status
        return failed(turn, f"it cannot be finalized: {why}")
    turn.keep("res.json" if not turn.commands else "final.json", response)
    if turn.outcome:
        reflecting.learn(desk, turn.outcome.approach or turn.outcome.summary, _where(turn))
    desk.past, desk.why = Past(""), ""
    desk.tell(f"step {turn.step.id} is done: {', '.join(words(one['command']) for one in turn.shown.held)}")
    return None


Station = Callable[[Turn], Ended | None]
STATIONS: tuple[Station, ...] = (preflight, design, split, build, execute, handle, review, finalize)


def walk(desk: Desk) -> Ended | None:
    """One attempt at the next step; None where no step is left."""
    task, run = desk.look()
    step = next_step(run)
    if step is None:
        return None
    turn = Turn(desk, task, run, step)
    for station in STATIONS:
        ended = station(turn)
        if ended:
            return ended
    return Ended("done", step.id)
