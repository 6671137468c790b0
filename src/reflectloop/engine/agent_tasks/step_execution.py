"""The fourth to sixth station: the request, who carries it out, and what the engine makes of the answer."""

from __future__ import annotations

import re

from reflectloop.agents.answer_models import StepClaim
from reflectloop.agents.backend import Reply
from reflectloop.engine.agent_tasks import planner_context, prompts, step_checks
from reflectloop.engine.agent_tasks.agent_fileops import PROTO
from reflectloop.engine.agent_tasks.agent_pool import AgentCall
from reflectloop.engine.agent_tasks.attempt import AttemptOutcome, StepAttempt, block, failed
from reflectloop.engine.agent_tasks.step_checks import StepProof
from reflectloop.engine.agent_tasks.step_design import apart, hindrance
from reflectloop.engine.requests.plan_ops import ATTEMPTS, proof
from reflectloop.errors import AgentUnavailable
from reflectloop.terms import Role
from reflectloop.workspace.record_tree import Unrecordable

UNANSWERED = "the executor did not answer:"
_TIMEOUT_MS = 600_000
_FOR_A_PERSON = ("MAX_ITER",)
_NOT_LET_IN = re.compile(r"(?i)\b(?:40[13]|unauthori[sz]ed|forbidden|invalid (?:x-)?api.key|authentication)\b")


def build(turn: StepAttempt) -> AttemptOutcome | None:
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


def execute(turn: StepAttempt) -> AttemptOutcome | None:
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
        turn.outcome = StepClaim(control="fail", reason=f"what it left cannot be recorded: {fault}")
    turn.keep("outcome.json", turn.outcome)
    return None


def _by_commands(turn: StepAttempt) -> StepClaim:
    response = turn.desk.act()(turn.request["ops"])
    turn.keep("res.json", response)
    if response.status == "ok":
        held = [proof("exit", one.cmd) for one in response.proof.commands]
        turn.shown = StepProof(held)
        return StepClaim(control="step_done", approach="its commands")
    if response.status == "ask":
        return StepClaim(control="ask", question=str((response.ask or {}).get("question", "a command needs an answer")))
    printed = response.proof.commands[-1] if response.proof.commands else None
    said = f"\n{printed.stdout}{printed.stderr}" if printed else ""
    why = "; ".join(one.error for one in response.errors) or response.status
    return StepClaim(control="fail", reason=(why + said)[-15_000:])


def _by_agent(turn: StepAttempt) -> StepClaim:
    desk, known = turn.desk, turn.desk.past
    assert turn.design  # noqa: S101 - the station before made it
    signature = next((one.failure.signature for one in reversed(known.tried) if one.failure), "")
    advice = planner_context.advice(desk.folders.root, "failure" if signature else "step", turn.work.title, signature)
    prompt = prompts.execute(
        turn.work, turn.design.approach, turn.request, known.tried, f"{known.asked}\n\n{advice}".strip()
    )
    act = desk.act()
    reply = desk.crew.ask(
        AgentCall(Role.EXECUTOR, prompt, StepClaim, turn.folder, turn.step.id, turn.attempt, act),
    )
    if not reply.ok and _is_hopeless(reply):
        question = f"{UNANSWERED} {reply.status}: {reply.reason}; see: reflectloop agents --check"
        return StepClaim(control="ask", question=question[:15_000])
    if not reply.ok:
        return StepClaim(control="fail", reason=f"{UNANSWERED} {reply.status}: {reply.reason}"[:15_000])
    return StepClaim.model_validate(reply.data)


def _is_hopeless(reply: Reply) -> bool:
    """Whether another attempt would come to the same: a right is missing, or it had all the turns it may take."""
    return reply.reason.startswith(_FOR_A_PERSON) or _NOT_LET_IN.search(reply.reason) is not None


# 6 ---------------------------------------------------------------------------------------------------------------


def handle(turn: StepAttempt) -> AttemptOutcome | None:
    said = turn.outcome
    assert said  # noqa: S101
    match said.control:
        case "ask":
            question = said.question or said.reason or "it asks, and does not say what"
            return block(turn, question, f"reflectloop answer {turn.step.id} TEXT")
        case "split":
            ended = apart(turn, said.substeps, said.reason or "the executor asks for it")
            return ended or failed(turn, f"asked to be split, and cannot be: {hindrance(turn, said.substeps)}")
        case "fail" | "replan":
            return failed(turn, said.reason or f"the executor says {said.control}")
        case "step_done":
            return _verified(turn)


def _verified(turn: StepAttempt) -> AttemptOutcome | None:
    """What it claims is done is looked at: a change, another than before, that holds by the engine's own checks."""
    if not turn.commands and turn.end == turn.start:
        aside = f"; {', '.join(turn.nested)} is a repository of its own, and no part of it" if turn.nested else ""
        return failed(turn, f"was said to be done, and no file differs{aside}")
    if turn.end in turn.desk.past.trees:
        return failed(turn, "came to the very files that did not hold before")
    commands = step_checks.checks_of(turn.desk, turn.run, turn.step)
    found = step_checks.prove(turn.desk, commands, turn.folder, turn.step.id, turn.attempt)
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
