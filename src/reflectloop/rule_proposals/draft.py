"""A rule drafted from a failed run: what it ran or added that no run which passed did."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.errors import NothingToDo
from reflectloop.policy import learned
from reflectloop.policy.rule import PolicyRule
from reflectloop.policy.rulefile import PolicyRuleEntry, SingleRulePolicy
from reflectloop.reflection import blocker_card
from reflectloop.reflection.blocker_card import BlockerCard
from reflectloop.rule_proposals import past_runs
from reflectloop.rule_proposals.past_runs import ChangeLost, Command, PastRun
from reflectloop.rule_proposals.replay import added, speaks
from reflectloop.workspace.folders import Folders

_MOST_COMMANDS, _MOST_LINES = 20, 5000
_LONGEST_REASON = 200
_OF_COMMANDS = ("STEP_FAILED", "STEP_TIMEOUT", "NEEDS_INPUT")


class _Candidate(NamedTuple):
    fields: dict[str, Any]
    sample: str


class _Ground(NamedTuple):
    """The failed run, those that failed of the same, and those that passed."""

    told: BlockerCard
    failed: PastRun
    same: tuple[PastRun, ...]
    passed: tuple[PastRun, ...]


def draft(folders: Folders, run_id: str) -> PolicyRuleEntry:
    told = blocker_card.read(folders, run_id)
    past = past_runs.of(folders).past
    failed = next((one for one in past if one.id == run_id), None)
    if failed is None:
        raise NothingToDo(
            f"{run_id} was refused before it began: there is nothing to learn from",
            next_step=f"reflectloop show {run_id}",
        )
    names = set(blocker_card.same(folders, told.failure.signature))
    same = tuple(one for one in past if one.id in names)
    ground = _Ground(told, failed, same, tuple(one for one in past if one.fate == "passed"))
    found = _best(ground)
    if found is None:
        raise NothingToDo(
            f"whatever {run_id} ran or added, runs that passed did too: no rule tells them apart",
            next_step="write the rule, then: reflectloop lessons propose FILE",
        )
    return _entry(found, ground)


def _best(ground: _Ground) -> _Candidate | None:
    """What is found in most of the runs that failed of the same, and in none that passed."""
    by_command = ground.failed.error_code in _OF_COMMANDS and ground.told.failure.code in _OF_COMMANDS
    makers = (_of_commands, _of_additions) if by_command else (_of_additions, _of_commands)
    return next((found for make in makers if (found := make(ground))), None)


# Commands ---------------------------------------------------------------------------------------------------------


def _of_commands(ground: _Ground) -> _Candidate | None:
    rated = []
    for command in _suspects(ground.failed, ground.told.failure):
        for fields in learned.of_command(command):
            alone = SingleRulePolicy(_rule(fields)).in_workspace
            if alone.part(command) and not any(speaks(alone, one) for one in ground.passed):
                caught = sum(speaks(alone, one) for one in ground.same)
                rated.append((caught, _Candidate(fields, _line(command))))
    return max(rated, key=lambda one: one[0])[1] if rated else None  # of several as good, the first


def _suspects(failed: PastRun, failure: FailureRecord) -> Sequence[Command]:
    """The command that failed, where it is known; else all that the plan named."""
    at = failed.failed_at or failure.command or ""
    own = [one.command for one in failed.commands if one.place.startswith("step") and ", command" in one.place]
    known = [command for command in own if _line(command) == at]
    return (known or own)[:_MOST_COMMANDS]


def _line(command: Command) -> str:
    return command if isinstance(command, str) else " ".join(command)


# What a change adds -----------------------------------------------------------------------------------------------


def _of_additions(ground: _Ground) -> _Candidate | None:
    harmless = {place for one in ground.passed for place in _places(one)}
    often = Counter(place for one in ground.same for place in set(_places(one)))
    own = [place for place in dict.fromkeys(_places(ground.failed)) if place not in harmless][:_MOST_LINES]
    # Of what is as frequent, a line says more than the name of its file.
    for path, text in sorted(own, key=lambda place: (-often[place], not place[1])):
        for fields in learned.of_addition(path, text):
            return _Candidate(fields, f"{path}: {text}" if text else path)
    return None


def _places(one: PastRun) -> Iterator[tuple[str, str]]:
    """Lines without their indentation, wherever they stand; and paths. Of what is not kept any more, none."""
    with contextlib.suppress(ChangeLost):
        yield from ((path, text.strip()) for path, number, text in added(one) if text.strip() or not number)


# The rule ---------------------------------------------------------------------------------------------------------


def _entry(found: _Candidate, ground: _Ground) -> PolicyRuleEntry:
    told = ground.told
    cause = told.failure.diagnosis.root_cause if told.failure.diagnosis else told.summary
    reason = " ".join(f"it failed before: {cause}".split())[:_LONGEST_REASON]
    return learned.entry(
        found.fields,
        id_=learned.name(found.fields, told.failure.signature),
        reason=secrets.current().redact(reason),
        match=[found.sample],
        not_match=_near(found.fields, ground.passed),
    )


def _near(fields: dict[str, Any], passed: Sequence[PastRun]) -> Iterator[str]:
    """What passed and looks most like it."""
    if "program" in fields:
        program = fields["program"][0]
        lines = (_line(one.command) for past in passed for one in past.commands)
        yield from (line for line in lines if program in line)
        return
    for past in passed:
        yield from (f"{path}: {text}" for path, text in _places(past) if text)


def _rule(fields: dict[str, Any]) -> PolicyRule:
    return PolicyRule("learned.draft", "confirm", "", **fields)
