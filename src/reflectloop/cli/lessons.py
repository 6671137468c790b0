"""`lessons`: what earlier work taught, kept and found again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from reflectloop.cli import render, rule_proposals
from reflectloop.cli.main import SuggestingGroup
from reflectloop.cli.render import colours, common, say
from reflectloop.engine.learning import lessons as flow
from reflectloop.errors import Fault, InvalidInput
from reflectloop.lessons.lesson import KINDS, STATUSES, Kind, Lesson, Level, Scope
from reflectloop.lessons.lesson_recall import BUDGET, MOMENTS, Moment
from reflectloop.lessons.lesson_store import LIVING

F = TypeVar("F", bound=Callable[..., Any])
_COLOURS = {"active": "green", "candidate": "dim", "retired": "dim", "conflict": "red"}
_LIST = "reflectloop lessons list"


@click.group(cls=SuggestingGroup)
def lessons() -> None:
    """Record and find lessons from earlier work, which are files under .reflectloop/knowledge.

    \b
    Example: reflectloop lessons search "flaky network test"
    """


def _scoped(command: F) -> F:
    return click.option("--scope", type=click.Choice(["project", "user"]), help="Look in this scope only.")(command)


def _chosen(command: F) -> F:
    command = click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this kind.")(command)
    return click.option("--all", "everything", is_flag=True, help="Retired ones, too.")(_scoped(command))


def _where(command: F) -> F:
    return click.option(
        "--scope", type=click.Choice(["project", "user"]), default="project", show_default=True, help="Write it here."
    )(command)


@lessons.command("list")
@_chosen
@common
def lessons_list(
    kinds: tuple[Kind, ...],
    everything: bool,
    scope: Scope | None,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """List the lessons of the project and of the user, those seen most often first.

    \b
    Example: reflectloop lessons list --kind constraint
    """
    found = flow.listed(flow.room_at(project_dir, scope), kinds or KINDS, STATUSES if everything else LIVING)
    if as_json:
        faults = [fault._asdict() for fault in found.faults]
        render.answer("lessons", {"lessons": [one.record() for one in found.lessons], "faults": faults})
        return
    _tell(found.lessons)
    _complain(found.faults)


def _tell(found: Iterable[Lesson]) -> None:
    paint = colours()
    some = list(found)
    for one in some:
        luck = f", worked {one.worked} of {one.worked + one.failed}" if one.kind == "failfix" else ""
        status = paint(_COLOURS[one.status], one.status)
        say(f"{one.id}  {one.kind}  {status}  {one.title}  (seen {one.count}x{luck}, {one.scope})")
    if not some:
        say("no lesson")


def _complain(faults: Iterable[Fault]) -> None:
    for fault in faults:
        place = f"{fault.path}:{fault.line}" if fault.line else fault.path
        say(f"{colours()('yellow', 'damaged:')} {place}: {fault.message}", err=True)


@lessons.command("show")
@click.argument("lesson", metavar="ID")
@_scoped
@common
def lessons_show(lesson: str, scope: Scope | None, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Show all that is known of a lesson, by its id, the beginning of it, or its title.

    \b
    Example: reflectloop lessons show L-3f2a
    """
    one = flow.shown(flow.room_at(project_dir, scope), lesson)
    if as_json:
        render.answer("lessons", one.record(), next_step=_LIST)
        return
    _tell([one])
    said = [*one.body.splitlines(), *one.fix.splitlines(), *(f"$ {command}" for command in one.commands)]
    for line in said:
        say(f"  > {line}")
    for note in one.notes:
        say(f"  also: {note}")
    facts = {
        "keywords": ", ".join(one.keywords),
        "evidence": " ".join((one.evidence.level, *one.evidence.refs)),
        "seen": f"{one.first_seen} to {one.last_seen}" if one.first_seen else "",
        "from": " ".join(filter(None, one.source)),
        "contradicts": ", ".join(one.contradicts),
        "signature": one.signature,
        "files": ", ".join(one.files),
    }
    for name, value in facts.items():
        if value:
            say(f"  {name}: {value}")


@lessons.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="So many at most.")
@click.option(
    "--moment",
    type=click.Choice(MOMENTS),
    help="Print what is read back before a step, after the design, or at a failure.",
)
@click.option("--signature", default="", help="Of the failure, with --moment failure.")
@click.option("--budget", type=click.IntRange(20, 100_000), default=BUDGET, show_default=True, help="Words read back.")
@_chosen
@common
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
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Find lessons by words, in any of their forms, and by the parts of identifiers; the best first.

    \b
    Example: reflectloop lessons search parsing http responses
    """
    room = flow.room_at(project_dir, scope)
    query = " ".join(words)
    if moment:
        made = flow.recalled(room, moment, query, signature=signature, budget=budget)
        _read_back(made.text, made.lessons, as_json=as_json)
        return
    found = flow.searched(room, query, kinds or KINDS, STATUSES if everything else LIVING, limit)
    if as_json:
        render.answer("lessons", {"lessons": [one.record() for one in found]}, next_step=_LIST)
        return
    _tell(found)


def _read_back(text: str, found: Iterable[Lesson], *, as_json: bool) -> None:
    if as_json:
        render.answer("lessons", {"text": text, "lessons": [one.id for one in found]}, next_step=_LIST)
        return
    say(text or "no lesson bears on it")


@lessons.command("add")
@click.argument("title", required=False)
@click.option("--kind", type=click.Choice(KINDS), required=True, help="What it is.")
@click.option("--body", default="", help="More of it.")
@click.option("--keyword", "keywords", multiple=True, help="A word to find it by.")
@click.option("--signature", default="", help="Of the failure that it is about.")
@click.option("--run", "failed_run", metavar="RUN", help="The failed run it is about (an id, or `latest`).")
@click.option("--fix", default="", help="What helps, in words (failfix).")
@click.option("--command", "commands", multiple=True, help="What helps, as a shell line (failfix).")
@click.option("--impact", is_flag=True, help="It bears on architecture, security, performance or several modules.")
@click.option("--reusable", is_flag=True, help="It holds elsewhere, too.")
@click.option("--contradicts", multiple=True, metavar="ID", help="A lesson that it contradicts.")
@click.option("--level", type=click.Choice(["L0", "L1"]), default="L0", help="Said, or cited with --ref.")
@click.option("--ref", "refs", multiple=True, help="Where it can be read up.")
@_where
@common
def lessons_add(
    title: str | None,
    failed_run: str | None,
    level: Level,
    refs: tuple[str, ...],
    scope: Scope,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
    **fields: Any,  # noqa: ANN401 - those of a page, checked there
) -> None:
    """Keep a lesson; one that is known already is counted instead.

    With --run RUN the title may be left out, and a failfix with --command is tried the next time that a step fails so.

    \b
    Example: reflectloop lessons add --kind constraint "never edit generated files"
    Example: reflectloop lessons add --kind failfix --run latest --command "make generate"
    """
    if level == "L1" and not refs:
        raise click.UsageError("--level L1 is cited: name the place with --ref")
    if not title and not failed_run:
        raise click.UsageError("Say what the lesson is: TITLE, or --run RUN for a failure.")
    room = flow.room_at(project_dir, scope)
    said = {"title": title, **fields}
    if failed_run:
        from reflectloop.engine.learning import blocker_card

        said = blocker_card.lesson_of(room.folders, failed_run, said)
    kept = flow.added(room, said, level=level, refs=refs)
    one = flow.shown(room, kept.id)
    if as_json:
        render.answer("lessons", {"new": kept.is_new, **one.record()}, next_step=f"reflectloop lessons show {one.id}")
        return
    _tell([one])
    if failed_run and one.commands and one.status == "active":
        say("it is tried when a step fails so again; next: reflectloop retry --reason TEXT")
    for other in one.contradicts:
        say(f"it contradicts {other}; next: reflectloop lessons retire ID --reason TEXT", err=True)


@lessons.command("merge")
@click.argument("into", metavar="ID")
@click.argument("others", metavar="OTHER…", nargs=-1, required=True)
@_scoped
@common
def lessons_merge(
    into: str,
    others: tuple[str, ...],
    scope: Scope | None,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Say that OTHERs are the same lesson as ID in other words; they are counted together.

    \b
    Example: reflectloop lessons merge L-3f2a L-90bc
    """
    _changed(flow.merged(flow.room_at(project_dir, scope), into, others), as_json=as_json)


@lessons.command("retire")
@click.argument("lesson", metavar="ID")
@click.option("--reason", required=True, help="Why it holds no more.")
@_scoped
@common
def lessons_retire(
    lesson: str,
    reason: str,
    scope: Scope | None,
    project_dir: Path,
    as_json: bool,
    debug: bool,  # noqa: ARG001
) -> None:
    """Let a lesson advise nobody any more; it is kept, and shown with --all.

    \b
    Example: reflectloop lessons retire L-3f2a --reason "the cache is gone"
    """
    _changed(flow.retired(flow.room_at(project_dir, scope), lesson, reason), as_json=as_json)


def _changed(one: Lesson, *, as_json: bool) -> None:
    if as_json:
        render.answer("lessons", one.record(), next_step=f"reflectloop lessons show {one.id}")
        return
    _tell([one])


@lessons.command("export")
@_scoped
@common
def lessons_export(scope: Scope | None, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Print every lesson as a line of JSON; with --json as one document.

    \b
    Example: reflectloop lessons export > lessons.jsonl
    """
    lines = flow.exported(flow.room_at(project_dir, scope))
    if as_json:
        import json

        render.answer("lessons", {"lessons": [json.loads(line) for line in lines]}, next_step=_LIST)
        return
    for line in lines:
        render.tell_program(line)


@lessons.command("import")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-")
@_where
@common
def lessons_import(file: Path, scope: Scope, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Take lessons in from JSON lines, all of a file or none; what is known already is not counted again.

    \b
    Example: reflectloop lessons import ../other/lessons.jsonl --scope user
    """
    raw = sys.stdin.buffer.read() if file == Path("-") else _content(file)
    made = flow.imported(flow.room_at(project_dir, scope), raw.splitlines(), str(file))
    if as_json:
        render.answer("lessons", made._asdict(), next_step=_LIST)
        return
    say(f"{made.lines} lesson(s) read, {made.new} new; next: {_LIST}")


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as fault:
        raise InvalidInput(f"{file} cannot be read: {fault.strerror}") from fault


for _command in (rule_proposals.propose, rule_proposals.replay, rule_proposals.accept, rule_proposals.reject):
    lessons.add_command(_command)
