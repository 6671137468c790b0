"""Reflects on a failed attempt: opens a ticket, takes the six steps, and stores what helped once the step passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import secrets
from reflectloop.agents.answer_models import ResearchAnswer
from reflectloop.diagnosis.failure_record import FailureRecord, class_of
from reflectloop.engine.agent_tasks.task_session import TaskSession
from reflectloop.engine.steps import code_context, prompts
from reflectloop.engine.steps.agent_pool import AgentCall
from reflectloop.engine.steps.prompts import StepBrief
from reflectloop.errors import AgentFailed, BudgetSpent, ReflectloopError
from reflectloop.lessons import lesson_scopes, lesson_store
from reflectloop.lessons.lesson import Occurrence, Page
from reflectloop.lessons.lesson_store import NewLesson
from reflectloop.reflection import blocker_card, reflect_command, ticket_lessons, ticket_store
from reflectloop.reflection import ticket as making
from reflectloop.reflection.reflection_report import Reflection, Trigger
from reflectloop.reflection.ticket_store import OpenTicket, TicketContext, TicketDir
from reflectloop.system import clock
from reflectloop.terms import Role

_LONGEST = 1_000  # of what is said to have helped


class AttemptPlace(NamedTuple):
    task: str
    run: str
    step: str
    attempt: int
    folder: Path
    trigger: Trigger = "step_failure"


def reflect(
    session: TaskSession, failure: FailureRecord, why: str, where: AttemptPlace, work: StepBrief, output: str = ""
) -> tuple[FailureRecord, str]:
    """Open a ticket for a failed attempt and reflect on it; return the failure with its class, and the advice."""
    earlier = [attempt.failure.signature for attempt in session.history.tried if attempt.failure]
    times = 1 + earlier.count(failure.signature)
    kind = class_of(failure.category, code=failure.code, times_seen=times)
    failure = failure.model_copy(update={"error_class": kind, "step": where.step, "attempt": where.attempt})
    opened = _ticket(session, failure, why, where)
    try:
        research = _researched(session, failure, where, work, output)
        analyst = _analyst(session, where, f"{work.title} {why}", output)
        done = reflect_command.on_ticket(session.folders, session.settings, opened, analyst, research or None)
    except BudgetSpent:
        raise
    except ReflectloopError as fault:
        session.tell(f"the reflection on attempt {where.attempt} came to nothing: {fault.message}")
        return failure, ""
    report = done.rounds[-1].report
    prefix = f"Found out: {research}. " if research else ""
    return failure, f"{prefix}{report.error_analysis.root_cause} {report.learning_notes}".strip()


def _researched(session: TaskSession, failure: FailureRecord, where: AttemptPlace, work: StepBrief, output: str) -> str:
    """Return a researcher's answer to what is not known, if one is bound; it counts like a person's answer."""
    if failure.needs != "RESEARCH" or not session.pool.has(Role.RESEARCHER):
        return ""
    code = code_context.quoted(session.folders.root, f"{work.title} {work.details}", failure=output)
    prompt = prompts.research(work, failure, output, code)
    try:
        data = session.pool.need(
            AgentCall(Role.RESEARCHER, prompt, ResearchAnswer, where.folder, where.step, where.attempt)
        ).data
    except AgentFailed as fault:
        session.tell(fault.message)
        return ""
    answer = ResearchAnswer.model_validate(data)
    sources = f" ({'; '.join(answer.sources)})" if answer.sources else ""
    return secrets.current_detector().redact(prompts.one_line(answer.answer + sources, _LONGEST))


def _ticket(session: TaskSession, failure: FailureRecord, why: str, where: AttemptPlace) -> OpenTicket:
    fixes = ticket_lessons.fixes(session.folders, failure.signature)
    made = making.of_failure(failure, clock.ticket_id(clock.now()), run_id=where.run, description=why, fixes=fixes)
    context = TicketContext(
        trigger=where.trigger,
        agent=session.pool.name_of(Role.EXECUTOR) or "commands",
        signature=failure.signature,
        problem=why,
        failure=failure,
        known_fixes=fixes,
    )
    lesson_dir = TicketDir(session.folders.journal(where.task).parent)
    ticket_store.open_ticket(lesson_dir, made, context)
    return OpenTicket(lesson_dir, made, context)


def _analyst(session: TaskSession, where: AttemptPlace, query: str, output: str) -> Any:  # noqa: ANN401 - a function of a report, or None
    """Return a function that lets the critic reword a report, or None if no critic is bound."""
    if not session.pool.has(Role.CRITIC):
        return None

    def analyse(facts: Reflection) -> object:
        code = code_context.quoted(session.folders.root, query, failure=output)
        prompt = prompts.reflect(json.dumps(facts.model_dump(mode="json"), indent=2, ensure_ascii=False), code)
        call = AgentCall(Role.CRITIC, prompt, Reflection, where.folder, where.step, where.attempt, label="reflection")
        try:
            return session.pool.need(call).data
        except AgentFailed as fault:
            session.tell(fault.message)
            return facts.model_dump(mode="json")

    return analyse


def learn(session: TaskSession, approach: str, where: AttemptPlace) -> None:
    """Store the approach that passed after others failed, as advice and never as a command."""
    failures = {attempt.failure.signature: attempt.failure for attempt in session.history.tried if attempt.failure}
    if not failures or not approach.strip():
        return
    drafts = [_draft(record, approach, where) for record in failures.values()]
    try:
        lesson_store.add_lessons(lesson_scopes.project_dir(session.folders), drafts, lesson_scopes.new_session_id())
    except ReflectloopError as fault:
        session.tell(f"what step {where.step} taught was not kept: {fault.message}")


def _draft(record: FailureRecord, approach: str, where: AttemptPlace) -> NewLesson:
    page = Page(
        kind="failfix",
        title=blocker_card.failure_title(record),
        signature=record.signature,
        keywords=(record.category.lower(),),
        fix=secrets.current_detector().redact(approach)[:_LONGEST],
    )
    at = clock.stamp(clock.now())
    return NewLesson(page, Occurrence(lesson=page.id, at=at, run=where.run, step=where.step, level="L2"))
