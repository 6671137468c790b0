"""One attempt at the next step of an agent task: begin, design, split, execute, judge, review, finish.

Each stage lets the attempt continue (None) or says how it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reflectloop.agents.answer_models import FEWEST, MOST, PlannedStep, StepDesign
from reflectloop.engine import brief
from reflectloop.engine.agent_tasks import attempt_reflection, design_merge, reviews
from reflectloop.engine.agent_tasks.attempt import AttemptOutcome, StepAttempt, block, change, fail, replan
from reflectloop.engine.agent_tasks.design_merge import Subject
from reflectloop.engine.agent_tasks.task_session import TaskSession, next_step, refusals
from reflectloop.engine.requests.plan_ops import proof_of_command, proofs_of
from reflectloop.engine.run.recovery import MOST_INTERRUPTIONS
from reflectloop.engine.steps import (
    agent_executor,
    attempt_history,
    execution,
    planner_context,
    prompts,
    run_failure,
    step_request,
)
from reflectloop.engine.steps.agent_executor import UNANSWERED, AgentTask
from reflectloop.engine.steps.attempt_history import AttemptHistory
from reflectloop.engine.steps.execution import AgentProblem, StepObserver, StepResult
from reflectloop.engine.tasks.task_journal import DEEPEST_SPLIT
from reflectloop.errors import AgentUnavailable, GateRejected, NeedsInput
from reflectloop.fileops.plan_ops import NewStep
from reflectloop.fileops.request import FileopsRequest
from reflectloop.plan.model import Check, Plan, Step, StepCheck
from reflectloop.state import events
from reflectloop.state.fold import RunState
from reflectloop.system import files
from reflectloop.terms import Role
from reflectloop.verification import evidence
from reflectloop.workspace import patch

_LONGEST = 15_000
_SILENT = StepObserver(lambda _step, _text: None, lambda _step, _data: None)


# Begin -----------------------------------------------------------------------------------------------------------


def begin(attempt: StepAttempt) -> AttemptOutcome | None:
    """Count the attempt, unless the step waits for a person or had all its attempts."""
    session, state = attempt.session, attempt.state
    if state.status == "blocked":
        return AttemptOutcome("blocked", state.id, state.reason, f"reflectloop answer {state.id} TEXT")
    if _engine_died(attempt) and state.interrupted + 1 >= MOST_INTERRUPTIONS:
        why = f"the engine died {MOST_INTERRUPTIONS} times in a row while it ran"
        return block(attempt, why, f'reflectloop answer {state.id} "what to do differently"')
    if session.history.step != state.id:
        session.history = attempt_history.recall(session.step_folder(attempt.task, state.id), attempt.state)
    if attempt.state.attempts - state.forgiven >= attempt.plan.limits.step_attempts:
        return _attempts_used(attempt)
    attempt.start = session.workspace.record().tree
    change(attempt, lambda: session.journal.begin_step(attempt.start, expected=state.id, reason=session.given_up))
    attempt.refresh()
    attempt.number = attempt.state.attempts
    attempt.origin = tree_before(attempt.run, state.id) or attempt.start
    attempt.folder = session.step_folder(attempt.task, state.id) / str(attempt.number)
    files.remove_tree(attempt.folder)  # left by an engine that died in this attempt
    attempt.folder.mkdir(parents=True)
    session.tell(f"step {state.id}, attempt {attempt.number}: {attempt.step.title}")
    return None


def _engine_died(attempt: StepAttempt) -> bool:
    """Record that an engine died in this step; its change died with its workspace, and it was no attempt."""
    session, state = attempt.session, attempt.state
    if state.status != "running" or state.tree != session.workspace.tree or session.history.step == state.id:
        return False
    session.journal.note(events.StepInterrupted(run_id=attempt.run.id, step_id=state.id))
    attempt.refresh()
    return True


def tree_before(run: RunState, name: str) -> str:
    """Return the tree that the step before left: a step's change in all its attempts is counted from there."""
    trees = [run.steps[other].tree for other in run.order if run.steps[other].status == "done" and other != name]
    return next((tree for tree in reversed(trees) if tree), run.base_tree)


def _attempts_used(attempt: StepAttempt) -> AttemptOutcome:
    session, state = attempt.session, attempt.state
    last = session.history.tried[-1].why if session.history.tried else ""
    why = session.given_up or last or state.reason or "see the attempts"
    changed = replan(attempt, why)
    if changed:
        return changed
    reason = f"{attempt.plan.limits.step_attempts} attempts failed; the last: {why}"
    if state.status == "failed":
        reset = events.StepsReset(run_id=attempt.run.id, steps=[state.id], how="retry", reason="to be blocked")
        session.journal.note(reset)
    hint = "reflectloop agents --check; then: " if UNANSWERED in why else ""
    return block(attempt, reason, f'{hint}reflectloop answer {state.id} "what to do differently"')


# Design and split ------------------------------------------------------------------------------------------------


def design(attempt: StepAttempt) -> AttemptOutcome | None:
    """Let the planners design the step. A step of commands, or without a planner, is its own design."""
    session, step = attempt.session, attempt.step
    if session.history.design or not step.agent or not session.pool.has(Role.PLANNER):
        attempt.design = session.history.design or _own_design(attempt)
        attempt.write("design.json", attempt.design)
        return None
    work = attempt.brief
    query = f"{work.title} {work.details}"
    near = planner_context.of(session.folders, session.workspace, query)
    advice = planner_context.advice(session.folders.root, "step", query)
    subject = Subject(f"step {step.id}", attempt.folder, step.id, attempt.number)
    settled = design_merge.settle(session.pool, StepDesign, subject, lambda: prompts.step(work, near, advice))
    if settled.design is None:
        against = "; ".join(settled.objections)
        return block(
            attempt,
            f"two planners do not agree on step {step.id} after {settled.rounds} rounds: {against}",
            f'reflectloop answer {step.id} "which way"  # both designs are in {attempt.folder}',
        )
    attempt.design = settled.design
    session.history = session.history._replace(design=settled.design)
    return None


def _own_design(attempt: StepAttempt) -> StepDesign:
    work = attempt.brief
    approach = "run its commands" if not attempt.step.agent else work.details or work.title or "do what the step says"
    return StepDesign(approach=approach, done=work.done)


def split(attempt: StepAttempt) -> AttemptOutcome | None:
    if attempt.design and attempt.design.needs_split:
        return _split(attempt, attempt.design.substeps, "the design asks for it")
    return None


def _split(attempt: StepAttempt, parts: Sequence[PlannedStep], reason: str) -> AttemptOutcome | None:
    """Replace the step by its parts; None if it cannot be split so."""
    session = attempt.session
    why = _why_not_split(attempt, parts)
    if why:
        session.tell(f"step {attempt.state.id} is not split: {why}")
        return None
    attempt.reset()
    drafts = [NewStep.model_validate(part.model_dump(mode="json")) for part in parts]
    change(attempt, lambda: session.journal.split_step(drafts, reason, expected=attempt.state.id))
    session.history = AttemptHistory("")
    return AttemptOutcome("split", attempt.state.id, f"split into {len(parts)} steps: {reason}")


def _why_not_split(attempt: StepAttempt, parts: Sequence[PlannedStep]) -> str:
    """Return why a step cannot be split so, or nothing."""
    if attempt.state.id.count(".") >= DEEPEST_SPLIT:
        return "it is a part of a part already"
    if not FEWEST <= len(parts) <= MOST:
        return f"{len(parts)} parts, where {FEWEST} to {MOST} are wanted"
    for part in parts:
        for line in (*part.commands, *part.checks):
            verdict = attempt.session.policy.judge(line)
            if not verdict.allowed:
                return f"{verdict.reason} ({verdict.rule}): {prompts.one_line(line)}"
    return ""


# Execute and judge -----------------------------------------------------------------------------------------------


def execute(attempt: StepAttempt) -> AttemptOutcome | None:
    """Let an agent or commands do the step, and run its checks."""
    session, step = attempt.session, attempt.step
    if step.agent and not session.pool.has(Role(step.agent.role)):
        raise AgentUnavailable(
            f"step {step.id} has no commands, and no agent is bound to the {step.agent.role}",
            next_step=f'{step.agent.role} = "NAME" under [roles] in reflectloop.toml; see docs/agents.md',
            missing=(f"role:{step.agent.role}",),
        )
    plan = with_project_tests(session, attempt.plan, step)
    step = next(each for each in plan.steps if each.id == step.id)
    for refused in refusals(session, plan, step):
        return fail(attempt, f"{refused.place}: may not run: {refused.message}")
    request = step_request.request(attempt.run.id, attempt.number, plan, step, attempt.brief.done, attempt.design)
    attempt.write("req.json", request)
    asking = (lambda: _ask(attempt, request)) if step.agent else (lambda: None)
    result = execution.execute(plan, step, session.box, attempt.folder, _SILENT, (), asking)
    attempt.result = result = execution.refuse_changes(step, result, session.box, attempt.start)
    if attempt.claim:
        attempt.write("outcome.json", attempt.claim)
    passed = [check for check in result.checks if check.held]
    commands = [] if result.error_code else [proof_of_command(command) for command in step.commands]
    attempt.proofs = [*commands, *proofs_of(plan, step, passed)]
    if result.success and step.agent and step.looks_only and not attempt.proofs:
        attempt.proofs = [_findings_proof(attempt)]
    touched = patch.touched_files(session.workspace.git(), attempt.start, result.tree) if result.tree else ()
    attempt.write("res.json", step_request.response(request, result, attempt.claim, touched))
    return None


def _findings_proof(attempt: StepAttempt) -> events.Json:
    """Return what ends an analysis: it changed nothing, and said what it found."""
    return proof_of_command(attempt_history.FINDINGS) | {
        "kind": "findings",
        "reason": "no file changed, and the findings are written down",
        "output_sha256": evidence.digest_of(attempt.folder / attempt_history.FINDINGS),
    }


def _ask(attempt: StepAttempt, request: FileopsRequest) -> AgentProblem | None:
    session, history = attempt.session, attempt.session.history
    answer = agent_executor.ask(
        session.pool,
        session.act(attempt.step),
        AgentTask(
            attempt.step,
            attempt.brief,
            request.as_json(),
            attempt.folder,
            attempt.number,
            attempt.start,
            history.trees,
            history.tried,
            brief.text(session.folders, attempt.task.id, tokens=_brief_tokens(attempt)),
        ),
    )
    attempt.claim = answer.claim
    return answer.problem


def _brief_tokens(attempt: StepAttempt) -> int:
    """Return the size of the brief: a fourth of a small window, which also holds the tools and what they answer."""
    pool, step = attempt.session.pool, attempt.step
    name = pool.name_of(Role(step.agent.role)) if step.agent else None
    window = pool.settings.agent(name).window if name else None
    return max(brief.LEAST_TOKENS, min(brief.DEFAULT_TOKENS, window // 4)) if window else brief.DEFAULT_TOKENS


def with_project_tests(session: TaskSession, plan: Plan, step: Step) -> Plan:
    """Return the plan in which an agent's step without checks is checked by the project's own tests."""
    if step.commands or plan.checks_of(step) or step.looks_only:
        return plan
    from reflectloop.engine.gating.verify_command import detected  # noqa: PLC0415 - knows many ecosystems

    tests = [check.command for check in detected(session.folders.root, session.pool.caller) if check.kind == "test"]
    named = {f"project-tests.{number}": Check(run=command) for number, command in enumerate(tests, 1)}
    checked = step.model_copy(update={"verify": (*step.verify, *(StepCheck(check=name) for name in named))})
    replaced = tuple(checked if each.id == step.id else each for each in plan.steps)
    return plan.model_copy(update={"steps": replaced, "checks": {**plan.checks, **named}})


def judge(attempt: StepAttempt) -> AttemptOutcome | None:
    """Decide by what the engine ran and saw whether the attempt succeeded."""
    result, claim = attempt.result, attempt.claim
    if result is None or (result.success and attempt.proofs):
        return None
    if claim and claim.control == "split":
        reason = claim.reason or "the executor asks for it"
        why = _why_not_split(attempt, claim.substeps)
        return _split(attempt, claim.substeps, reason) or fail(attempt, f"asked to be split, and cannot be: {why}")
    if claim and claim.control == "replan":
        changed = replan(attempt, claim.reason or "the executor asks for another plan")
        return changed or _failed(attempt, result)
    if result.error_code == NeedsInput.code:
        question = result.reason.removeprefix("asks: ")
        asked = f"{result.command}: {question}" if result.command else question
        return block(attempt, asked, f"reflectloop answer {attempt.state.id} TEXT")
    if result.success:
        how = f"reflectloop skip {attempt.state.id} --reason TEXT, or plan it again with checks"
        return block(attempt, "the step has no check, and the project no tests: nothing can show that it is done", how)
    return _failed(attempt, result)


def _failed(attempt: StepAttempt, result: StepResult) -> AttemptOutcome:
    """Record the failure; it is diagnosed if a command or a check failed, or the executor found a fault itself."""
    self_checked = attempt.claim is not None and attempt.claim.control == "self_check"
    if not result.command and not result.checks and not self_checked:
        return fail(attempt, result.reason[:_LONGEST])
    session = attempt.session
    record = run_failure.of_step(result, session.settings.reflect, session.folders.root)
    what = f"{result.command}: {result.reason}" if result.command and not result.checks else result.reason
    return fail(attempt, what, record, result.tail)


# Review and finish -----------------------------------------------------------------------------------------------


def review(attempt: StepAttempt) -> AttemptOutcome | None:
    evidence = [f"{proof['command']}: {proof['reason']}" for proof in attempt.proofs]
    case = reviews.ReviewInput(attempt.brief, attempt.origin, attempt.end, evidence, attempt.folder, attempt.number)
    try:
        result = reviews.review(attempt.session, case)
    except GateRejected as fault:  # the change rewrites the program that is to review it
        return fail(attempt, fault.message)
    attempt.write("review.json", result._asdict() | {"items": [item.model_dump(mode="json") for item in result.items]})
    if result.verdict == "PASS":
        return None
    problems = "; ".join(f"{item.place}: {item.problem}".removeprefix(": ") for item in result.items) or result.summary
    if result.verdict == "BLOCKED":
        return block(attempt, f"the review stops: {problems}", f"reflectloop answer {attempt.state.id} TEXT")
    request = prompts.requested_changes(result.items) if attempt.step.agent else ""
    return fail(attempt, f"the review asks for another attempt: {problems}", request=request)


def finish(attempt: StepAttempt) -> AttemptOutcome | None:
    """Mark the step done by what was run on exactly this tree."""
    session, end = attempt.session, attempt.end
    if session.workspace.record().tree != end:
        return fail(attempt, "its files changed after its checks ran")
    change(attempt, lambda: session.journal.finish_step(end, attempt.proofs, duration_ms=attempt.took_ms))
    if attempt.claim:
        attempt_reflection.learn(session, attempt.claim.approach or attempt.claim.summary, attempt.place)
    session.history, session.given_up = AttemptHistory(""), ""
    session.tell(f"step {attempt.state.id} is done: {', '.join(str(proof['command']) for proof in attempt.proofs)}")
    return None


Stage = Callable[[StepAttempt], AttemptOutcome | None]
STAGES: tuple[Stage, ...] = (begin, design, split, execute, judge, review, finish)


def run_attempt(session: TaskSession) -> AttemptOutcome | None:
    """Make one attempt at the next step; None if no step is left."""
    task, run = session.read()
    state = next_step(run)
    if state is None:
        return None
    attempt = StepAttempt(session, task, run, state)
    for stage in STAGES:
        outcome = stage(attempt)
        if outcome:
            return outcome
    return AttemptOutcome("done", state.id)
