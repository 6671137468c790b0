"""The second and third station: how a step is to be done, and whether it is to be split first."""

from __future__ import annotations

from collections.abc import Sequence

from reflectloop.agents.answer_models import FEWEST, MOST, PlannedStep, StepDesign
from reflectloop.engine.agent_tasks import design_merge, planner_context, prompts
from reflectloop.engine.agent_tasks.attempt import AttemptOutcome, StepAttempt, block, done, take_back
from reflectloop.engine.agent_tasks.attempt_history import AttemptHistory
from reflectloop.engine.agent_tasks.design_merge import Subject
from reflectloop.terms import Role

_DEEPEST = 1  # how often a part of a step may be split again


def design(turn: StepAttempt) -> AttemptOutcome | None:
    """By two planners where two are bound; a step made of commands, or without a planner, is its own design."""
    desk = turn.desk
    if desk.past.design or turn.commands or not desk.crew.has(Role.PLANNER):
        turn.design = desk.past.design or _by_rules(turn)
        turn.keep("design.json", turn.design)
        return None
    query = f"{turn.work.title} {turn.work.details}"
    near = planner_context.of(desk.folders, desk.space, query)
    advice = planner_context.advice(desk.folders.root, "step", query)
    subject = Subject(f"step {turn.step.id}", turn.folder, turn.step.id, turn.attempt)
    settled = design_merge.settle(desk.crew, StepDesign, subject, lambda: prompts.step(turn.work, near, advice))
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


def _by_rules(turn: StepAttempt) -> StepDesign:
    said = "run its commands" if turn.commands else turn.work.details or turn.work.title or "do what the step says"
    return StepDesign(approach=said, done=turn.work.done)


def split(turn: StepAttempt) -> AttemptOutcome | None:
    if turn.design and turn.design.needs_split:
        return apart(turn, turn.design.substeps, "the design asks for it")
    return None


def apart(turn: StepAttempt, parts: Sequence[PlannedStep], reason: str) -> AttemptOutcome | None:
    """None where it cannot be split so; the step is then worked on as it is."""
    why = hindrance(turn, parts)
    if why:
        turn.desk.tell(f"step {turn.step.id} is not split: {why}")
        return None
    take_back(turn)
    op = {
        "op": "triflow_state_apply_split",
        "step": turn.step.id,
        "reason": reason,
        "substeps": [one.model_dump(mode="json") for one in parts],
    }
    done(turn.desk.request("split_step", op))
    turn.desk.past = AttemptHistory("")
    return AttemptOutcome("split", turn.step.id, f"split into {len(parts)} steps: {reason}")


def hindrance(turn: StepAttempt, parts: Sequence[PlannedStep]) -> str:
    """Why a step cannot be split so; empty where it can."""
    if turn.step.id.count(".") > _DEEPEST:
        return "it is a part of a part already"
    if not FEWEST <= len(parts) <= MOST:
        return f"{len(parts)} parts, where {FEWEST} to {MOST} are wanted"
    for part in parts:
        for line in (*part.commands, *part.checks):
            verdict = turn.desk.hands.policy.judge(line)
            if not verdict.allowed:
                return f"{verdict.reason} ({verdict.rule}): {prompts.one_line(line)}"
    return ""
