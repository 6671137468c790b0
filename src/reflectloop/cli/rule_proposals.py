"""The commands `lessons propose`, `patches`, `replay`, `accept` and `reject`: rules learned from failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflectloop.cli.render import Answer, answers, paint

if TYPE_CHECKING:
    from reflectloop.rule_proposals.rule_patches import KeptPatch

_MOST = 20  # runs of a kind shown to a person


@click.command("propose")
@click.argument("subject", metavar="RUN|TICKET|ID|FILE")
@answers
def propose(subject: str, project_dir: Path) -> Answer:
    """Propose a rule, drafted from a failed run, a ticket or a lesson, or written in FILE. It is not active yet.

    FILE may also hold rule patches in the pipeline's form (`rule_patch:`), which `lessons patches` lists.

    \b
    Example: reflectloop lessons propose RLOP-20260101-abcdef
    """
    from reflectloop.rule_proposals import proposals, rule_patches

    if rule_patches.is_patch_file(Path(subject)):
        return _patch_answer(rule_patches.propose(proposals.open_scopes(project_dir), Path(subject)))
    made = proposals.propose(proposals.open_scopes(project_dir), subject)
    next_step = f"reflectloop lessons replay {made.lesson.id}"
    data = {
        "id": made.lesson.id,
        "new": made.written.is_new,
        "lesson": made.lesson.record(),
        "rule": made.entry.model_dump(mode="json"),
    }
    lines = [
        f"{made.lesson.id}  proposed, not in force  {made.entry.id}",
        *(f"  > {line}" for line in made.lesson.body.splitlines()),
        f"next: {next_step}",
    ]
    return Answer(data, lines, next_step=next_step)


@click.command("patches")
@click.argument("patch", metavar="[ID]", required=False)
@answers
def patches(patch: str | None, project_dir: Path) -> Answer:
    """List the rule patches that insight proposed, or show one as YAML. `lessons accept` or `reject` decides them.

    \b
    Example: reflectloop lessons patches RP-1f0c2a3b
    """
    from reflectloop.rule_proposals import proposals, rule_patches

    scopes = proposals.open_scopes(project_dir)
    if patch is None:
        return _patch_answer(rule_patches.listed(scopes))
    chosen = rule_patches.find(scopes, patch)
    next_step = f"reflectloop lessons accept {chosen.id}, or: reflectloop lessons reject {chosen.id} --reason TEXT"
    lines = [*_patch_lines([chosen]), *chosen.as_yaml().splitlines(), f"next: {next_step}"]
    return Answer(chosen.as_data(), lines, next_step=next_step)


def _patch_answer(chosen: Sequence[KeptPatch]) -> Answer:
    next_step = f"reflectloop lessons patches {chosen[0].id}" if chosen else "reflectloop lessons list"
    lines = [*_patch_lines(chosen)] or ["no rule patch was proposed yet"]
    return Answer([patch.as_data() for patch in chosen], [*lines, f"next: {next_step}"], next_step=next_step)


def _patch_lines(chosen: Sequence[KeptPatch]) -> Iterator[str]:
    colours = {"proposed": "yellow", "accepted": "green", "rejected": "dim"}
    for patch in chosen:
        entry = patch.entry
        state = paint(colours[patch.state], patch.state)
        yield f"{patch.id}  {state}  {entry['priority']}  {entry['action']} in {entry['target']}: {entry['rule']}"
        yield f"  {entry['reason']}" + (f"  ({patch.by}: {patch.note})" if patch.note else "")


@click.command("replay")
@click.argument("lesson", metavar="ID")
@answers
def replay(lesson: str, project_dir: Path) -> Answer:
    """Test a proposed rule on all past runs: the failures it would have caught, the good runs it would have stopped.

    \b
    Example: reflectloop lessons replay L-3f2a
    """
    from reflectloop.rule_proposals import proposals

    judged = proposals.replay_proposal(proposals.open_scopes(project_dir), lesson)
    next_step = f"reflectloop lessons accept {judged.lesson.id}"
    lines = [
        f"{judged.entry.id}: {judged.replay}",
        *_hit_lines("caught", "green", judged.replay.caught),
        *_hit_lines("wrongly stopped", "red", judged.replay.wrong),
        *_hit_lines("in runs that failed for another reason", "dim", judged.replay.undecided),
        *(f"  {paint('yellow', 'not examined')}: {run.id}: {run.why}" for run in judged.replay.unread),
        f"next: {next_step}, or: reflectloop lessons reject {judged.lesson.id} --reason TEXT",
    ]
    return Answer(judged.as_data(), lines, next_step=next_step)


def _hit_lines(label: str, colour: str, hits: Sequence[Any]) -> Iterator[str]:
    for hit in hits[:_MOST]:
        yield f"  {paint(colour, label)}: {hit.run}: {hit.place}: {hit.what}"
    if len(hits) > _MOST:
        yield f"  and {len(hits) - _MOST} more; --json lists all"


@click.command("accept")
@click.argument("lesson", metavar="ID")
@click.option("--reason", default="", help="Why, if past runs speak against it.")
@answers
def accept(lesson: str, reason: str, project_dir: Path) -> Answer:
    """Activate a proposed rule, after a replay. If it would have stopped a run that passed, --reason is required.

    A rule patch (RP-…) becomes a constraint that agents are told, and a line of the rule file that it names.

    \b
    Example: reflectloop lessons accept L-3f2a
    """
    from reflectloop.lessons.lesson_scopes import rule_file
    from reflectloop.rule_proposals import proposals, rule_patches

    room = proposals.open_scopes(project_dir)
    if lesson.startswith(rule_patches.PREFIX):
        return _patch_answer([rule_patches.accept(room, lesson, reason)])
    judged = proposals.accept(room, lesson, reason)
    file = rule_file(room.folders, judged.lesson)
    lines = [
        f"{judged.lesson.id}  in force  {judged.entry.id}: {judged.replay}",
        f"written to {file}; to deactivate it: reflectloop lessons reject {judged.lesson.id} --reason TEXT",
    ]
    return Answer({**judged.as_data(), "file": str(file)}, lines, next_step="reflectloop policy rules")


@click.command("reject")
@click.argument("lesson", metavar="ID")
@click.option("--reason", required=True, help="Why not.")
@answers
def reject(lesson: str, reason: str, project_dir: Path) -> Answer:
    """Reject a proposed rule, or deactivate an accepted one; it stays on record with the reason.

    \b
    Example: reflectloop lessons reject L-3f2a --reason "the plan should decide this"
    """
    from reflectloop.rule_proposals import proposals, rule_patches

    if lesson.startswith(rule_patches.PREFIX):
        return _patch_answer([rule_patches.reject(proposals.open_scopes(project_dir), lesson, reason)])
    rejected = proposals.reject(proposals.open_scopes(project_dir), lesson, reason)
    lines = [f"{rejected.id}  rejected, not in force: {reason}"]
    return Answer(rejected.record(), lines, next_step="reflectloop lessons list --all")
