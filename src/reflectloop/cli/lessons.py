"""The command `lessons` and the commands below it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from reflectloop.cli import render, rule_proposals
from reflectloop.cli.main import SuggestingGroup
from reflectloop.cli.render import Answer, Note, answers, paint
from reflectloop.errors import Fault, InvalidInput
from reflectloop.lessons import lesson_scopes as flow
from reflectloop.lessons.lesson import KINDS, STATUSES, Kind, Lesson, Level, Scope
from reflectloop.lessons.lesson_recall import BUDGET, MOMENTS, Moment
from reflectloop.lessons.lesson_store import LIVING
from reflectloop.terms import describe_level

F = TypeVar("F", bound=Callable[..., Any])
_COLOURS = {"active": "green", "candidate": "dim", "retired": "dim", "conflict": "red"}
_LIST = "reflectloop lessons list"


@click.group(cls=SuggestingGroup)
def lessons() -> None:
    """Record and find lessons from earlier work, which are files under .reflectloop/knowledge.

    \b
    Example: reflectloop lessons search "flaky network test"
    """


def _search_scope(command: F) -> F:
    return click.option("--scope", type=click.Choice(["project", "user"]), help="Search in this scope only.")(command)


def _filters(command: F) -> F:
    command = click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this kind.")(command)
    return click.option("--all", "everything", is_flag=True, help="Include retired lessons.")(_search_scope(command))


def _target_scope(command: F) -> F:
    return click.option(
        "--scope", type=click.Choice(["project", "user"]), default="project", show_default=True, help="Write it here."
    )(command)


@lessons.command("list")
@_filters
@answers
def lessons_list(kinds: tuple[Kind, ...], everything: bool, scope: Scope | None, project_dir: Path) -> Answer:
    """List the lessons of the project and of the user, the most frequent first.

    \b
    Example: reflectloop lessons list --kind constraint
    """
    listing = flow.list_lessons(
        flow.open_scopes(project_dir, scope), kinds or KINDS, STATUSES if everything else LIVING
    )
    data = {
        "lessons": [lesson.record() for lesson in listing.lessons],
        "faults": [fault._asdict() for fault in listing.faults],
    }
    return Answer(data, [*_lesson_lines(listing.lessons), *(_fault_line(fault) for fault in listing.faults)])


def _lesson_lines(listed: Iterable[Lesson]) -> list[str]:
    return [_lesson_line(lesson) for lesson in listed] or ["no lesson"]


def _lesson_line(lesson: Lesson) -> str:
    times = lesson.worked + lesson.failed
    rate = f", worked {lesson.worked} of {times}" if times else ", not tried yet" if lesson.kind == "failfix" else ""
    status = paint(_COLOURS[lesson.status], lesson.status)
    return f"{lesson.id}  {lesson.kind}  {status}  {lesson.title}  (seen {lesson.count}x{rate}, {lesson.scope})"


def _fault_line(fault: Fault) -> Note:
    place = f"{fault.path}:{fault.line}" if fault.line else fault.path
    return Note(f"{paint('yellow', 'damaged:')} {place}: {fault.message}")


@lessons.command("show")
@click.argument("name", metavar="ID")
@_search_scope
@answers
def lessons_show(name: str, scope: Scope | None, project_dir: Path) -> Answer:
    """Show a lesson in full, by its id, the beginning of its id, or its title.

    \b
    Example: reflectloop lessons show L-3f2a
    """
    lesson = flow.find_lesson(flow.open_scopes(project_dir, scope), name)
    facts = {
        "keywords:": ", ".join(lesson.keywords),
        "evidence:": " ".join((describe_level(lesson.evidence.level), *lesson.evidence.refs)),
        "seen:": f"{lesson.first_seen} – {lesson.last_seen}" if lesson.first_seen else "",
        "from:": " ".join(filter(None, lesson.source)),
        "contradicts:": ", ".join(lesson.contradicts),
        "signature:": lesson.signature,
        "files:": ", ".join(lesson.files),
    }
    quoted = [*lesson.body.splitlines(), *lesson.fix.splitlines(), *(f"$ {command}" for command in lesson.commands)]
    lines = [
        _lesson_line(lesson),
        *(f"  > {line}" for line in quoted),
        *(f"  also: {note}" for note in lesson.notes),
        *(f"  {label} {value}" for label, value in facts.items() if value),
    ]
    return Answer(lesson.record(), lines, next_step=_LIST)


@lessons.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="The most results.")
@click.option(
    "--moment",
    type=click.Choice(MOMENTS),
    help="Print the text that is given to an agent before a step, after the design, or at a failure.",
)
@click.option("--signature", default="", help="The signature of the failure, with --moment failure.")
@click.option("--budget", type=click.IntRange(20, 100_000), default=BUDGET, show_default=True, help="Its most words.")
@_filters
@answers
def lessons_search(
    words: tuple[str, ...],
    limit: int,
    moment: Moment | None,
    signature: str,
    budget: int,
    kinds: tuple[Kind, ...],
    everything: bool,
    scope: Scope | None,
    project_dir: Path,
) -> Answer:
    """Find lessons by words, in any of their forms, and by the parts of identifiers; the best match first.

    \b
    Example: reflectloop lessons search parsing http responses
    """
    room = flow.open_scopes(project_dir, scope)
    query = " ".join(words)
    if moment:
        recalled = flow.recall(room, moment, query, signature=signature, budget=budget)
        data = {"text": recalled.text, "lessons": [lesson.id for lesson in recalled.lessons]}
        return Answer(data, [recalled.text or "no lesson matches"], next_step=_LIST)
    matches = flow.search(room, query, kinds or KINDS, STATUSES if everything else LIVING, limit)
    return Answer({"lessons": [lesson.record() for lesson in matches]}, _lesson_lines(matches), next_step=_LIST)


@lessons.command("add")
@click.argument("title", required=False)
@click.option("--kind", type=click.Choice(KINDS), required=True, help="The kind of lesson.")
@click.option("--body", default="", help="The text of the lesson.")
@click.option("--keyword", "keywords", multiple=True, help="A word to find it by.")
@click.option("--signature", default="", help="The signature of the failure that it is about.")
@click.option("--run", "failed_run", metavar="RUN", help="The failed run that it is about (an id, or `latest`).")
@click.option("--fix", default="", help="What helps, in words (failfix).")
@click.option("--command", "commands", multiple=True, help="What helps, as a shell line (failfix).")
@click.option("--impact", is_flag=True, help="It concerns architecture, security, performance or several modules.")
@click.option("--reusable", is_flag=True, help="It is also true in other projects.")
@click.option("--contradicts", multiple=True, metavar="ID", help="A lesson that it contradicts.")
@click.option("--level", type=click.Choice(["L0", "L1"]), default="L0", help="L0: claimed. L1: cited, with --ref.")
@click.option("--ref", "refs", multiple=True, help="A source for it.")
@_target_scope
@answers
def lessons_add(
    title: str | None,
    failed_run: str | None,
    level: Level,
    refs: tuple[str, ...],
    scope: Scope,
    project_dir: Path,
    **fields: Any,  # noqa: ANN401 - the fields of a lesson, which are validated there
) -> Answer:
    """Record a lesson. If it is known already, it is counted again instead.

    With --run RUN the title may be left out, and the --command of a failfix is tried the next time that a step fails
    the same way. Without --run it is shown as advice until the failure has occurred twice.

    \b
    Example: reflectloop lessons add --kind constraint "never edit generated files"
    Example: reflectloop lessons add --kind failfix --run latest --command "make generate"
    """
    if level == "L1" and not refs:
        raise click.UsageError("--level L1 means cited: name the source with --ref.")
    if not title and not failed_run:
        raise click.UsageError("Name the lesson: TITLE, or --run RUN for a failure.")
    room = flow.open_scopes(project_dir, scope)
    values = {"title": title, **fields}
    if failed_run:
        from reflectloop.reflection import blocker_card

        values = blocker_card.lesson_of(room.folders, failed_run, values)
    stored = flow.add_lesson(room, values, level=level, refs=refs)
    lesson = flow.find_lesson(room, stored.id)
    lines = [_lesson_line(lesson)]
    if failed_run and lesson.commands and lesson.status == "active":
        lines.append("it is tried when a step fails the same way again; next: reflectloop retry --reason TEXT")
    elif lesson.commands and lesson.status == "candidate":
        lines.append(
            "it is shown as advice, and tried by itself once the failure has occurred twice; at once with --run RUN"
        )
    lines += [
        Note(f"it contradicts {other}; next: reflectloop lessons retire ID --reason TEXT")
        for other in lesson.contradicts
    ]
    next_step = f"reflectloop lessons show {lesson.id}"
    return Answer({"new": stored.is_new, **lesson.record()}, lines, next_step=next_step)


@lessons.command("merge")
@click.argument("into", metavar="ID")
@click.argument("others", metavar="OTHER…", nargs=-1, required=True)
@_search_scope
@answers
def lessons_merge(into: str, others: tuple[str, ...], scope: Scope | None, project_dir: Path) -> Answer:
    """Merge OTHERs into ID: they are the same lesson in other words, and are counted together.

    \b
    Example: reflectloop lessons merge L-3f2a L-90bc
    """
    return _changed(flow.merge_lessons(flow.open_scopes(project_dir, scope), into, others))


@lessons.command("retire")
@click.argument("name", metavar="ID")
@click.option("--reason", required=True, help="Why it is no longer true.")
@_search_scope
@answers
def lessons_retire(name: str, reason: str, scope: Scope | None, project_dir: Path) -> Answer:
    """Stop using a lesson; it stays on record, and is listed with --all.

    \b
    Example: reflectloop lessons retire L-3f2a --reason "the cache was removed"
    """
    return _changed(flow.retire_lesson(flow.open_scopes(project_dir, scope), name, reason))


def _changed(lesson: Lesson) -> Answer:
    return Answer(lesson.record(), [_lesson_line(lesson)], next_step=f"reflectloop lessons show {lesson.id}")


@lessons.command("export")
@_search_scope
@answers
def lessons_export(scope: Scope | None, project_dir: Path) -> Answer:
    """Print every lesson as a line of JSON; with --json as one document.

    \b
    Example: reflectloop lessons export > lessons.jsonl
    """
    exported = flow.export_lessons(flow.open_scopes(project_dir, scope))

    def print_lines() -> None:
        for line in exported:
            render.print_raw(line)

    return Answer(lambda: {"lessons": [json.loads(line) for line in exported]}, print_lines, next_step=_LIST)


@lessons.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-")
@_target_scope
@answers
def lessons_import(file: Path, scope: Scope, project_dir: Path) -> Answer:
    """Import lessons from JSON lines, all of a file or none; a known lesson is not counted again.

    \b
    Example: reflectloop lessons import ../other/lessons.jsonl --scope user
    """
    raw = sys.stdin.buffer.read() if file == Path("-") else _content(file)
    imported = flow.import_lessons(flow.open_scopes(project_dir, scope), raw.splitlines(), str(file))
    line = f"{imported.lines} lesson(s) read, {imported.new} new; next: {_LIST}"
    return Answer(imported._asdict(), [line], next_step=_LIST)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as fault:
        raise InvalidInput(f"{file} cannot be read: {fault.strerror}") from fault


for _command in (
    rule_proposals.propose,
    rule_proposals.patches,
    rule_proposals.replay,
    rule_proposals.accept,
    rule_proposals.reject,
):
    lessons.add_command(_command)
