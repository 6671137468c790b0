"""Asks an agent to do a step, and refuses an answer that changed nothing or repeats a failed attempt."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import secrets
from reflectloop.agents.answer_models import StepClaim
from reflectloop.agents.backend import Act, Reply
from reflectloop.engine.steps import attempt_history, code_context, planner_context, prompts
from reflectloop.engine.steps.agent_pool import AgentCall, AgentPool
from reflectloop.engine.steps.execution import AgentProblem
from reflectloop.engine.steps.prompts import FailedAttempt, StepBrief
from reflectloop.errors import AgentFailed, NeedsInput, StepFailed
from reflectloop.plan.model import Step
from reflectloop.system import files
from reflectloop.system.patterns import lazy
from reflectloop.terms import Role
from reflectloop.workspace.record_tree import Unrecordable

UNANSWERED = "did not answer"  # a part of the reason below
_NOT_AUTHORISED = lazy(r"(?i)\b(?:40[13]|unauthori[sz]ed|forbidden|invalid (?:x-)?api.key|authentication)\b")
_OUT_OF_TURNS = ("MAX_ITER",)
_LONGEST = 15_000


class AgentTask(NamedTuple):
    """One attempt of an agent at a step."""

    step: Step
    brief: StepBrief
    request: dict[str, Any]
    folder: Path
    number: int
    before: str  # the tree it begins with
    failed_trees: Collection[str]
    failed: tuple[FailedAttempt, ...] = ()
    task_brief: str = ""  # the brief of the task; else the prompt is made from the fields above

    @property
    def role(self) -> Role:
        return Role(self.step.agent.role) if self.step.agent else Role.EXECUTOR


class AgentAnswer(NamedTuple):
    claim: StepClaim
    problem: AgentProblem | None  # why the checks need not be run


def ask(pool: AgentPool, act: Act, task: AgentTask) -> AgentAnswer:
    """Let an agent do the step in the pool's workspace."""
    call = AgentCall(
        task.role,
        _prompt(pool, task),
        StepClaim,
        task.folder,
        task.step.id,
        task.number,
        act,
        tools=task.step.agent.tools if task.step.agent else (),
    )
    reply = pool.ask(call)
    if not reply.ok:
        return _unanswered(f"{pool.name_of(task.role)} as {task.role}", reply)
    claim = StepClaim.model_validate(reply.data)
    match claim.control:
        case "step_done":
            return AgentAnswer(claim, _refused(pool, task) or _keep_findings(task, claim))
        case "ask":
            question = claim.question or claim.reason or "it asks, and does not say what"
            return AgentAnswer(claim, AgentProblem(NeedsInput.code, f"asks: {question}"))
        case control:
            reason = claim.reason or claim.summary or f"the agent says {control}"
            return AgentAnswer(claim, AgentProblem(StepFailed.code, f"{control}: {reason}"))


def _prompt(pool: AgentPool, task: AgentTask) -> str:
    if task.task_brief:
        return prompts.continue_task(task.task_brief, task.request, again=bool(task.failed))
    signature = next((attempt.failure.signature for attempt in reversed(task.failed) if attempt.failure), "")
    about = f"{task.brief.title} {task.brief.details}".strip()
    advice = planner_context.advice(pool.root, "failure" if signature else "step", about, signature)
    output = task.failed[-1].output if task.failed else ""
    code = code_context.quoted(pool.root, about, failure=output)
    return prompts.execute(task.brief, code, task.request, task.failed, advice)


def _unanswered(who: str, reply: Reply) -> AgentAnswer:
    """Ask a person if another attempt would end the same way: a right is missing, or all turns were used."""
    reason = f"{who} did not answer: {reply.status}: {reply.reason}"[:_LONGEST]
    hopeless = reply.reason.startswith(_OUT_OF_TURNS) or _NOT_AUTHORISED.search(reply.reason)
    if hopeless:
        question = f"{reason}; see: reflectloop agents --check"[:_LONGEST]
        return AgentAnswer(StepClaim(control="ask", question=question), AgentProblem(NeedsInput.code, question))
    return AgentAnswer(StepClaim(control="fail", reason=reason), AgentProblem(AgentFailed.code, reason))


def _keep_findings(task: AgentTask, claim: StepClaim) -> AgentProblem | None:
    """Write what an analysis found beside its other files, for later steps; refuse one that says nothing."""
    if not task.step.looks_only:
        return None
    text = secrets.current_detector().redact(claim.summary.strip() or claim.approach.strip())
    if not text:
        return AgentProblem(StepFailed.code, "the agent said that it is done, and does not say what it found (summary)")
    files.write_atomic(task.folder / attempt_history.FINDINGS, text + "\n")
    return None


def _refused(pool: AgentPool, task: AgentTask) -> AgentProblem | None:
    """Return why a claim to be done is refused before any check runs."""
    if task.step.looks_only or task.role.looks_only:
        return None
    try:
        now = pool.box.workspace.record(thorough=True)
    except Unrecordable as fault:
        return AgentProblem(StepFailed.code, f"what it left cannot be recorded: {fault}")
    if now.tree == task.before:
        nested = f"; {', '.join(now.nested)} is a repository of its own, and no part of it" if now.nested else ""
        return AgentProblem(StepFailed.code, f"the agent said that it is done, and no file differs{nested}")
    if now.tree in task.failed_trees:
        return AgentProblem(StepFailed.code, "left the same files as a failed attempt before")
    return None
