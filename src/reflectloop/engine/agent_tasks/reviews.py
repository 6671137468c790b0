"""The review of a change: by rules, then by the other agents, in fresh context, on the real diff and evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from reflectloop.agents.answer_models import Item, Review
from reflectloop.engine.agent_tasks.task_session import TaskSession
from reflectloop.engine.steps import code_context, prompts, syntax_tools
from reflectloop.engine.steps.agent_pool import AgentCall
from reflectloop.engine.steps.prompts import StepBrief
from reflectloop.gates import batch_gate
from reflectloop.plan.model import Check
from reflectloop.system import files
from reflectloop.terms import Role
from reflectloop.verification import checks
from reflectloop.verification.tree_builder import TreeBuilder
from reflectloop.workspace import patch
from reflectloop.workspace.record_tree import Unrecordable

MOST_ITEMS = 20
_REVIEWERS = (Role.REVIEWER, Role.PLANNER)
Verdict = Literal["PASS", "RETRY", "BLOCKED"]


class ReviewResult(NamedTuple):
    """The verdict of all reviewers: PASS only if each of them says so."""

    verdict: Verdict
    items: tuple[Item, ...] = ()
    by: tuple[str, ...] = ()  # who looked
    summary: str = ""


class ReviewInput(NamedTuple):
    work: StepBrief
    begun: str  # the tree before the change
    end: str
    evidence: Sequence[str]
    folder: Path
    attempt: int = 1
    whole: bool = False


def review(session: TaskSession, case: ReviewInput) -> ReviewResult:
    """Review a change by rules, then by reviewers; a file that does not parse is sent back without asking anybody."""
    broken = rules(session, case)
    if broken:
        return ReviewResult("RETRY", broken, ("rules",))
    roles = [role for role in _REVIEWERS if session.pool.has(role)]
    prompt = _prompt(session, case) if roles else ""
    return merged([_asked(session, case, role, prompt) for role in roles], ("rules", *map(str, roles)))


def _prompt(session: TaskSession, case: ReviewInput) -> str:
    """Return the diff and its evidence, with code near it that the diff does not show."""
    work = case.work
    query = f"{work.title} {work.details}"
    near = code_context.quoted(session.folders.root, query, leave_out=_changed(session, case))
    diff = session.diff(case.begun, case.end)
    return prompts.review(work, diff, case.evidence, whole=case.whole, context=near)


def _changed(session: TaskSession, case: ReviewInput) -> frozenset[str]:
    """Return the files of the change, which the diff shows."""
    return frozenset(file.path for file in patch.touched_files(session.workspace.git(), case.begun, case.end))


def rules(session: TaskSession, case: ReviewInput) -> tuple[Item, ...]:
    """Return what the quick gate finds: empty files, files that do not parse, imports that lead nowhere."""
    trees = TreeBuilder(session.workspace.store, session.folders.scratch, session.workspace.quarantine)
    changes = trees.changes(case.begun, case.end)
    listing = trees.listing(case.end) if changes else {}
    problems = [problem for change in changes for problem in batch_gate.file_problems(change, listing)]
    report = syntax_tools.look(session.box, changes, case.folder / "logs")
    for note in report.not_parsed:
        session.tell(note)
    problems += report.problems
    return tuple(
        Item(severity="high", file=problem.path, line=problem.line or 0, problem=problem.what, fix="repair it")
        for problem in problems[:MOST_ITEMS]
    )


def _asked(session: TaskSession, case: ReviewInput, role: Role, prompt: str) -> Review:
    """Ask a reviewer in a fresh context. The engine runs the tests it asks for; each that fails is one more item."""
    step = "" if case.whole else case.work.step
    reply = session.pool.need(AgentCall(role, prompt, Review, case.folder, step, case.attempt, label="review"))
    review = Review.model_validate(reply.data)
    failed = _run_extra_tests(session, review.extra_tests, case.folder, str(role)) if review.verdict == "PASS" else []
    if not failed:
        return review
    items = tuple(Item(severity="high", problem=f"an extra test fails: {test}"[:5_000]) for test in failed)
    return review.model_copy(update={"verdict": "RETRY", "items": (*review.items, *items)[:MOST_ITEMS]})


def _run_extra_tests(session: TaskSession, tests: Sequence[str], folder: Path, label: str) -> list[str]:
    """Run the tests a reviewer asks for, as far as the policy lets them run; undo what they leave. Return failures."""
    before, failures = session.workspace.record().tree, []
    for number, test in enumerate(tests, 1):
        verdict = session.policy.judge(test)
        if not verdict.allowed:
            session.tell(f"a test that the review asks for is not run: {verdict.reason} ({verdict.rule})")
            continue
        log = folder / f"extra-{label}-{number}.log"
        result = checks.run_command(f"extra-{number}", Check(run=test), session.box, log)
        if not result.held:
            failures.append(f"{test}: {result.reason}\n{files.last_lines(log)}")
    if _differs(session, before):
        session.workspace.reset_to(before)
    return failures


def _differs(session: TaskSession, before: str) -> bool:
    try:
        return session.workspace.record().tree != before
    except Unrecordable:
        return True


def merged(reviews: Sequence[Review], by: tuple[str, ...]) -> ReviewResult:
    """Join reviews: each item once, the gravest first. One BLOCKED blocks, and one RETRY asks for another attempt."""
    order = ("high", "medium", "low")
    items = sorted(
        dict.fromkeys(item for review in reviews for item in review.items), key=lambda item: order.index(item.severity)
    )
    words = "; ".join(review.summary for review in reviews if review.summary)
    verdict: Verdict = "PASS"
    if any(review.verdict == "BLOCKED" for review in reviews):
        verdict = "BLOCKED"
    elif any(review.verdict == "RETRY" for review in reviews):
        verdict = "RETRY"
        items = items or [Item(problem=words or "the review asks for another attempt, and does not say why")]
    return ReviewResult(verdict, tuple(items[:MOST_ITEMS]), by, words)
