"""`lessons propose|replay|accept|reject`: a rule learned from a failure, on its way into force."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from reflectloop.cli import render
from reflectloop.cli.render import colours, common, say

_SHOWN = 20


@click.command("propose")
@click.argument("subject", metavar="RUN|TICKET|ID|FILE")
@common
def propose(subject: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Propose a rule: drafted from a failed run, a ticket or a lesson, or written in FILE. It does not act yet.

    \b
    Example: reflectloop lessons propose RLOP-20260101-abcdef
    """
    from reflectloop.engine.learning import rule_proposals as flow

    made = flow.propose(flow.room_at(project_dir), subject)
    onward = f"reflectloop lessons replay {made.lesson.id}"
    if as_json:
        data = {"id": made.lesson.id, "new": made.kept.is_new, "lesson": made.lesson.record()}
        render.answer("lessons", {**data, "rule": made.entry.model_dump(mode="json")}, next_step=onward)
        return
    say(f"{made.lesson.id}  proposed, not in force  {made.entry.id}")
    _quote(made.lesson.body)
    say(f"next: {onward}")


def _quote(body: str) -> None:
    for line in body.splitlines():
        say(f"  > {line}")


@click.command("replay")
@click.argument("lesson", metavar="ID")
@common
def replay(lesson: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Put a proposed rule to all past runs: which failures it would have caught, which good runs stopped.

    \b
    Example: reflectloop lessons replay L-3f2a
    """
    from reflectloop.engine.learning import rule_proposals as flow

    found = flow.judged(flow.room_at(project_dir), lesson)
    onward = f"reflectloop lessons accept {found.lesson.id}"
    if as_json:
        render.answer("lessons", found.as_data(), next_step=onward)
        return
    say(f"{found.entry.id}: {found.replay}")
    _list("caught", "green", found.replay.caught)
    _list("wrongly stopped", "red", found.replay.wrong)
    _list("of runs that something else ended", "dim", found.replay.undecided)
    for one in found.replay.unread:
        say(f"  {colours()('yellow', 'not looked at')}: {one.id}: {one.why}")
    say(f"next: {onward}, or: reflectloop lessons reject {found.lesson.id} --reason TEXT")


def _list(head: str, colour: str, hits: Sequence[Any]) -> None:
    for one in hits[:_SHOWN]:
        say(f"  {colours()(colour, head)}: {one.run}: {one.place}: {one.what}")
    if len(hits) > _SHOWN:
        say(f"  and {len(hits) - _SHOWN} more; --json names all")


@click.command("accept")
@click.argument("lesson", metavar="ID")
@click.option("--reason", default="", help="Why, where the past speaks against it.")
@common
def accept(lesson: str, reason: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Put a proposed rule in force, after a replay; refused without --reason where it stops what passed.

    \b
    Example: reflectloop lessons accept L-3f2a
    """
    from reflectloop.engine.learning import rule_proposals as flow
    from reflectloop.engine.learning.lessons import rule_file

    room = flow.room_at(project_dir)
    found = flow.accept(room, lesson, reason)
    file = rule_file(room.folders, found.lesson)
    if as_json:
        render.answer("lessons", {**found.as_data(), "file": str(file)}, next_step="reflectloop policy rules")
        return
    say(f"{found.lesson.id}  in force  {found.entry.id}: {found.replay}")
    say(f"written to {file}; to take it back: reflectloop lessons reject {found.lesson.id} --reason TEXT")


@click.command("reject")
@click.argument("lesson", metavar="ID")
@click.option("--reason", required=True, help="Why not.")
@common
def reject(lesson: str, reason: str, project_dir: Path, as_json: bool, debug: bool) -> None:  # noqa: ARG001
    """Reject a proposed rule, or take an accepted one out of force; it is kept with the reason.

    \b
    Example: reflectloop lessons reject L-3f2a --reason "it is the plan's business"
    """
    from reflectloop.engine.learning import rule_proposals as flow

    one = flow.reject(flow.room_at(project_dir), lesson, reason)
    if as_json:
        render.answer("lessons", one.record(), next_step="reflectloop lessons list --all")
        return
    say(f"{one.id}  rejected, not in force: {reason}")
