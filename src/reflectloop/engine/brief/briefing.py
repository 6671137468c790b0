"""Collects the facts of a brief from state alone, and tells them as text: the same bytes for the same state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from reflectloop import secrets
from reflectloop.engine.brief import code as code_parts
from reflectloop.engine.brief import contract, history, position, sizes, telling
from reflectloop.engine.brief.code import CodeQuery, CodeSource
from reflectloop.engine.brief.history import TaskRecords
from reflectloop.engine.brief.model import Brief, BriefLesson, BriefStop, CodePart
from reflectloop.engine.brief.sizes import Shares
from reflectloop.engine.steps import code_context
from reflectloop.engine.tasks import task_plan
from reflectloop.errors import InvalidInput, NothingToDo, StateDamaged
from reflectloop.lessons import lesson_scopes
from reflectloop.lessons.lesson import Kind, Lesson
from reflectloop.lessons.lesson_recall import Moment
from reflectloop.plan.model import Plan
from reflectloop.state import journal, latch
from reflectloop.state.fold import RunState, Task, fold
from reflectloop.workspace.folders import Folders

DEFAULT_TOKENS = 6_000
_WORDS = 400  # of lessons that are considered; the tokens decide how many are told
_PERCENT = (100, 80, 60, 40, 25)  # many small pieces have more marks than a share reckons with
_QUERY = 4_000  # characters
_STANDING: tuple[Kind, ...] = ("constraint", "preference", "decision", "interface", "antipattern", "pattern")
_MOST_LESSONS = 8  # of a project without a task

CodeChoice = CodeSource | Literal["project"] | None  # "project": what the project's retriever finds; None: no code


def text(
    folders: Folders, task: str | None = None, *, tokens: int = DEFAULT_TOKENS, code: CodeChoice = "project"
) -> str:
    """Return the brief of a task, or of the current one, as text."""
    return telling.text(collect(folders, task, tokens=tokens, code=code))


def collect(
    folders: Folders, task: str | None = None, *, tokens: int = DEFAULT_TOKENS, code: CodeChoice = "project"
) -> Brief:
    """Return the facts that a fresh agent needs, with secrets redacted. Damaged state is an error."""
    if not sizes.LEAST_TOKENS <= tokens <= sizes.MOST_TOKENS:
        raise InvalidInput(
            f"a brief has {sizes.LEAST_TOKENS} to {sizes.MOST_TOKENS} tokens, not {tokens}",
            next_step=f"reflectloop brief --tokens {DEFAULT_TOKENS}",
        )
    scopes = lesson_scopes.open_scopes(folders.root)  # also sets which texts are secrets here
    name = find_task(folders, task)
    for percent in _PERCENT:
        brief = _redacted(_collected(folders, name, scopes, Shares.of(tokens, percent), code))
        if sizes.count_tokens(telling.text(brief)) <= tokens:
            break
    return brief


def _collected(
    folders: Folders, name: str | None, scopes: lesson_scopes.LessonScopes, shares: Shares, code: CodeChoice
) -> Brief:
    source = code_parts.of_project(folders.root) if code == "project" else code
    brief = (
        _of_task(folders, name, shares, source) if name else _of_project(folders, shares, with_map=code == "project")
    )
    query = _query(brief)
    lessons = _lessons(scopes, ("design", "step"), query, shares.lessons) if name else _standing(scopes, shares.lessons)
    known = {lesson.id for lesson in lessons}
    now = brief.now
    failed = history.open_failure(brief.history, now.step.id if now.step else None)
    if failed and failed.failure:
        cause, signature = failed.failure.cause, failed.failure.signature
        against = _lessons(scopes, ("failure",), cause or query, shares.fixes, signature)
        now = now.model_copy(update={"lessons": tuple(lesson for lesson in against if lesson.id not in known)})
    return brief.model_copy(update={"lessons": lessons, "now": now})


def find_task(folders: Folders, name: str | None) -> str | None:
    """Return the id of the task with this name, or with an id that begins or ends so; else of the current one."""
    if name is None:
        return folders.current_task()
    known = [path.parent.name for path in (folders.own / "tasks").glob("T-*/journal.jsonl")]
    matches = sorted(task for task in known if name and (task.startswith(name) or task.endswith(name)))
    if len(matches) > 1 and name not in matches:
        raise InvalidInput(f"{name!r} fits {len(matches)} tasks", next_step="reflectloop tasks")
    if not matches:
        raise NothingToDo(f"there is no task {name!r}", next_step="reflectloop tasks")
    return name if name in matches else matches[0]


# With a task, and without ------------------------------------------------------------------------------------------


def _of_project(folders: Folders, shares: Shares, *, with_map: bool) -> Brief:
    overview = code_context.map_of(folders.root, shares.code) if with_map else ""
    return Brief(
        stopped=_stop(folders),
        contract=contract.contract_of(folders, None, (), shares.contract),
        map=sizes.cut(overview, shares.code),
        now=position.without_task(folders, shares.now // 2),
    )


def _of_task(folders: Folders, name: str, shares: Shares, source: CodeSource | None) -> Brief:
    entries = journal.read(folders.journal(name))
    task = fold(entries)
    run = task.last_run
    plan = _plan(folders, task, run)
    records = TaskRecords(folders, name, entries)
    now = position.of(records, task, plan, shares.now)
    entries_told = sizes.shorten_oldest(history.of(records), shares.history, telling.entry_text, history.shortened)
    brief = Brief(
        stopped=_stop(folders),
        task=name,
        title=sizes.cut(task.title, shares.goal // 4),
        goal=contract.goal_of(task, plan, shares.goal),
        contract=contract.contract_of(folders, plan, _constraints(run), shares.contract),
        plan=contract.steps_of(run, plan, shares.plan),
        history=entries_told,
        now=now,
    )
    return _with_code(brief, shares, source) if source else brief


def _plan(folders: Folders, task: Task, run: RunState | None) -> Plan | None:
    """Return the plan as it is now; None if it cannot be read any more, or was never more than titles."""
    from reflectloop.artifacts import views  # noqa: PLC0415

    if run is None:
        return None
    try:
        return task_plan.plan_of(task, run) if run.kind.is_stepwise else views.plan_of(folders, task)
    except (KeyError, ValueError) as fault:  # of a model that does not fit
        raise StateDamaged(
            f"the plan of task {task.id} cannot be read: {type(fault).__name__}", next_step="reflectloop status"
        ) from fault


def _constraints(run: RunState | None) -> list[str]:
    constraints = run.objective.get("constraints") if run else None
    return list(map(str, constraints)) if isinstance(constraints, list) else []


def _stop(folders: Folders) -> BriefStop | None:
    stop = latch.read_stop(folders.own)
    return BriefStop(code=stop.error_code, reason=stop.reason) if stop else None


# Code and lessons --------------------------------------------------------------------------------------------------


def _query(brief: Brief) -> str:
    """Return the words of the goal and the plan, which stay the same from step to step."""
    goal = brief.goal.text if brief.goal else ""
    return " ".join([goal, *(step.title for step in brief.plan)])[:_QUERY].strip()


def _with_code(brief: Brief, shares: Shares, source: CodeSource) -> Brief:
    """Add code for the goal, which stays from step to step, and code for the current step or the last failure."""
    parts = _fitting(source(CodeQuery(_query(brief), shares.code)), shares.code)
    step = brief.now.step
    failed = history.open_failure(brief.history, step.id if step else None)
    if step is None or (failed is None and len(brief.plan) == 1):
        return brief.model_copy(update={"code": parts})
    share = shares.step_code
    output = "\n".join(quote.text for quote in failed.quotes if quote.name == "output") if failed else ""
    query = CodeQuery(f"{step.title} {step.details}"[:_QUERY], share, output, brief.now.changed_files)
    more = _fitting(code_parts.besides(source(query), parts), share)
    return brief.model_copy(update={"code": parts, "now": brief.now.model_copy(update={"code": more})})


def _fitting(parts: Sequence[CodePart], tokens: int) -> tuple[CodePart, ...]:
    return sizes.first_that_fit(parts, tokens, telling.code_text)


def _lessons(
    scopes: lesson_scopes.LessonScopes, moments: Sequence[Moment], query: str, tokens: int, signature: str = ""
) -> tuple[BriefLesson, ...]:
    lessons = [
        lesson
        for moment in moments
        for lesson in lesson_scopes.recall(scopes, moment, query, signature=signature, budget=_WORDS).lessons
    ]
    return _shortened(dict.fromkeys(lessons), tokens)


def _standing(scopes: lesson_scopes.LessonScopes, tokens: int) -> tuple[BriefLesson, ...]:
    """Return the lessons that hold for all work here."""
    known = lesson_scopes.list_lessons(scopes, _STANDING, ("active",)).lessons
    return _shortened(
        sorted(known, key=lambda lesson: (_STANDING.index(lesson.kind), lesson.id))[:_MOST_LESSONS], tokens
    )


def _shortened(lessons: Iterable[Lesson], tokens: int) -> tuple[BriefLesson, ...]:
    facts = (BriefLesson(id=lesson.id, text=_lesson_text(lesson)) for lesson in lessons)
    return sizes.first_that_fit(facts, tokens, lambda lesson: lesson.text)


def _lesson_text(lesson: Lesson) -> str:
    """Return a lesson without its counters, which change when it is seen again."""
    commands = "\n".join(f"$ {line}" for line in lesson.commands)
    return "\n".join(filter(None, (f"{lesson.kind}: {lesson.title}", lesson.body, lesson.fix, commands))).strip()


# Secrets -----------------------------------------------------------------------------------------------------------


def _redacted(brief: Brief) -> Brief:
    return Brief.model_validate(_clean(brief.model_dump()))


def _clean(value: Any) -> Any:  # noqa: ANN401 - a JSON-compatible value
    if isinstance(value, str):
        return secrets.current_detector().redact(value)
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items()}
    return tuple(map(_clean, value)) if isinstance(value, list | tuple) else value
