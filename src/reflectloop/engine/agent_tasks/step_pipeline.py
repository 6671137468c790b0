"""One step, from preflight to finalize: eight stations, each of which lets it go on or says how it ended."""

from __future__ import annotations

from collections.abc import Callable

from reflectloop.engine.agent_tasks import attempt_history, attempt_reflection, prompts, reviews
from reflectloop.engine.agent_tasks.attempt import AttemptOutcome, StepAttempt, block, done, failed, where
from reflectloop.engine.agent_tasks.attempt_history import AttemptHistory
from reflectloop.engine.agent_tasks.step_design import design, split
from reflectloop.engine.agent_tasks.step_execution import UNANSWERED, build, execute, handle
from reflectloop.engine.agent_tasks.task_session import TaskSession, words
from reflectloop.engine.requests.plan_ops import ATTEMPTS, ProvenTree
from reflectloop.engine.run.recovery import MOST_INTERRUPTIONS
from reflectloop.errors import GateRejected
from reflectloop.state import events
from reflectloop.state.fold import RunState, StepState
from reflectloop.system import files

_LEFT = ("pending", "running", "blocked", "failed")


def next_step(run: RunState) -> StepState | None:
    return next((step for step in run.steps.values() if step.status in _LEFT), None)


def preflight(turn: StepAttempt) -> AttemptOutcome | None:
    desk, step = turn.desk, turn.step
    if step.status == "blocked":
        return AttemptOutcome("blocked", step.id, step.reason, f"reflectloop answer {step.id} TEXT")
    if _died(turn) and step.interrupted + 1 >= MOST_INTERRUPTIONS:
        why = f"the engine died {MOST_INTERRUPTIONS} times in a row while it ran"
        return block(turn, why, f"reflectloop answer {step.id} TEXT (what to do differently)")
    if desk.past.step != step.id:
        desk.past = attempt_history.recall(desk.papers(turn.task, step.id), turn.step)
    if turn.step.attempts - step.forgiven >= ATTEMPTS:
        return _spent(turn)
    op = {"op": "triflow_state_preflight", "step": step.id, "reason": desk.why}
    done(desk.request("execute_step", op, summary=f"begin step {step.id}"))
    turn.look()
    turn.attempt, turn.start = turn.step.attempts, desk.space.tree
    turn.origin = before(turn.run, step.id) or turn.start
    turn.folder = desk.papers(turn.task, step.id) / str(turn.attempt)
    files.remove_tree(turn.folder)  # an attempt that its engine did not survive never was
    turn.folder.mkdir(parents=True)
    desk.tell(f"step {step.id}, attempt {turn.attempt}: {turn.work.title}")
    return None


def _died(turn: StepAttempt) -> bool:
    """Whether an engine died at it: what it did died with its workspace, and that was no attempt."""
    desk, step = turn.desk, turn.step
    if step.status != "running" or step.tree != desk.space.tree or desk.past.step == step.id:
        return False
    desk.crew.note(events.StepInterrupted(run_id=turn.run.id, step_id=step.id))
    turn.look()
    return True


def before(run: RunState, name: str) -> str:
    """The tree that the step before left: what a step changed in all its attempts is counted from there."""
    trees = [run.steps[one].tree for one in run.order if run.steps[one].status == "done" and one != name]
    return next((tree for tree in reversed(trees) if tree), run.base_tree)


def _spent(turn: StepAttempt) -> AttemptOutcome:
    """Every attempt it may have: what was tried is said, and who can help."""
    desk, step = turn.desk, turn.step
    last = desk.past.tried[-1].why if desk.past.tried else ""
    why = desk.why or last or step.reason or "see the attempts"
    reason = f"{ATTEMPTS} attempts did not hold; the last: {why}"
    if step.status == "failed":
        desk.crew.note(
            events.StepsReset(run_id=turn.run.id, steps=[step.id], how="retry", reason="to be blocked, not tried")
        )
    look = "reflectloop agents --check; then: " if UNANSWERED in why else ""
    return block(turn, reason, f"{look}reflectloop answer {step.id} TEXT (what to do differently)")


def review(turn: StepAttempt) -> AttemptOutcome | None:
    case = reviews.ReviewInput(turn.work, turn.origin, turn.end, turn.shown.lines(), turn.folder, turn.attempt)
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
    asked = "" if turn.commands else prompts.mending(found.items)
    return failed(turn, f"the review asks for another attempt: {said}", asked=asked)


def finalize(turn: StepAttempt) -> AttemptOutcome | None:
    desk = turn.desk
    desk.domain.proven, desk.domain.took_ms = ProvenTree(turn.end, turn.shown.held), turn.took_ms
    try:
        response = desk.request("finalize_step", {"op": "triflow_state_finalize", "step": turn.step.id})
    finally:
        desk.domain.proven, desk.domain.took_ms = None, 0
    if response.status != "ok":
        why = "; ".join(one.error for one in response.errors) or response.status
        return failed(turn, f"it cannot be finalized: {why}")
    turn.keep("res.json" if not turn.commands else "final.json", response)
    if turn.outcome:
        attempt_reflection.learn(desk, turn.outcome.approach or turn.outcome.summary, where(turn))
    desk.past, desk.why = AttemptHistory(""), ""
    desk.tell(f"step {turn.step.id} is done: {', '.join(words(one['command']) for one in turn.shown.held)}")
    return None


Station = Callable[[StepAttempt], AttemptOutcome | None]
STATIONS: tuple[Station, ...] = (preflight, design, split, build, execute, handle, review, finalize)


def walk(desk: TaskSession) -> AttemptOutcome | None:
    """One attempt at the next step; None where no step is left."""
    task, run = desk.look()
    step = next_step(run)
    if step is None:
        return None
    turn = StepAttempt(desk, task, run, step)
    for station in STATIONS:
        ended = station(turn)
        if ended:
            return ended
    return AttemptOutcome("done", step.id)
