"""Draft a policy rule from a failed run: from what it ran or added and no passed run did."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from reflectloop import secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.errors import NothingToDo
from reflectloop.plan.model import command_text
from reflectloop.policy import learned
from reflectloop.policy.rule import PolicyRule
from reflectloop.policy.rulefile import PolicyRuleEntry, SingleRulePolicy
from reflectloop.reflection import blocker_card
from reflectloop.reflection.blocker_card import BlockerCard
from reflectloop.rule_proposals.past_runs import ChangeLost, Command, PastRun, read_history
from reflectloop.rule_proposals.replay import added, matches
from reflectloop.workspace.folders import Folders

_MOST_COMMANDS, _MOST_LINES = 20, 5000
_LONGEST_REASON = 200
_COMMAND_FAILURES = ("STEP_FAILED", "STEP_TIMEOUT", "NEEDS_INPUT")


class _Candidate(NamedTuple):
    fields: dict[str, Any]
    sample: str


class _Evidence(NamedTuple):
    """The failed run, the runs with the same failure, and the runs that passed."""

    card: BlockerCard
    failed: PastRun
    same: tuple[PastRun, ...]
    passed: tuple[PastRun, ...]


def draft(folders: Folders, run_id: str) -> PolicyRuleEntry:
    """Return a rule that would have caught the failed run; raise NothingToDo if nothing sets it apart."""
    card = blocker_card.read(folders, run_id)
    past = read_history(folders).past
    failed = next((run for run in past if run.id == run_id), None)
    if failed is None:
        raise NothingToDo(
            f"{run_id} was refused before it began: there is nothing to learn from",
            next_step=f"reflectloop show {run_id}",
        )
    names = set(blocker_card.runs_with_signature(folders, card.failure.signature))
    same = tuple(run for run in past if run.id in names)
    evidence = _Evidence(card, failed, same, tuple(run for run in past if run.fate == "passed"))
    candidate = _best(evidence)
    if candidate is None:
        raise NothingToDo(
            f"everything that {run_id} ran or added also occurs in runs that passed: no rule tells them apart",
            next_step="write the rule, then: reflectloop lessons propose FILE",
        )
    return _entry(candidate, evidence)


def _best(evidence: _Evidence) -> _Candidate | None:
    """Return the candidate that occurs in most runs with the same failure and in no run that passed."""
    by_command = evidence.failed.error_code in _COMMAND_FAILURES and evidence.card.failure.code in _COMMAND_FAILURES
    makers = (_from_commands, _from_additions) if by_command else (_from_additions, _from_commands)
    return next((candidate for make in makers if (candidate := make(evidence))), None)


# Commands ---------------------------------------------------------------------------------------------------------


def _from_commands(evidence: _Evidence) -> _Candidate | None:
    rated = []
    for command in _suspects(evidence.failed, evidence.card.failure):
        for fields in learned.of_command(command):
            policy = SingleRulePolicy(_rule(fields)).in_workspace
            if policy.part(command) and not any(matches(policy, run) for run in evidence.passed):
                caught = sum(matches(policy, run) for run in evidence.same)
                rated.append((caught, _Candidate(fields, command_text(command))))
    return max(rated, key=lambda pair: pair[0])[1] if rated else None  # the first of several equally good ones


def _suspects(failed: PastRun, failure: FailureRecord) -> Sequence[Command]:
    """Return the command that failed if it is known, else every command of the plan's steps."""
    failed_at = failed.failed_at or failure.command or ""
    commands = [item.command for item in failed.commands if item.place.startswith("step") and ", command" in item.place]
    known = [command for command in commands if command_text(command) == failed_at]
    return (known or commands)[:_MOST_COMMANDS]


# What a change adds -----------------------------------------------------------------------------------------------


def _from_additions(evidence: _Evidence) -> _Candidate | None:
    harmless = {place for run in evidence.passed for place in _places(run)}
    often = Counter(place for run in evidence.same for place in set(_places(run)))
    suspects = [place for place in dict.fromkeys(_places(evidence.failed)) if place not in harmless][:_MOST_LINES]
    # Of equally frequent places, a line says more than the name of its file.
    for path, text in sorted(suspects, key=lambda place: (-often[place], not place[1])):
        for fields in learned.of_addition(path, text):
            return _Candidate(fields, f"{path}: {text}" if text else path)
    return None


def _places(run: PastRun) -> Iterator[tuple[str, str]]:
    """Yield the paths and the added lines, without indentation, of a run; none if its change is lost."""
    with contextlib.suppress(ChangeLost):
        yield from ((path, text.strip()) for path, number, text in added(run) if text.strip() or not number)


# The rule ---------------------------------------------------------------------------------------------------------


def _entry(candidate: _Candidate, evidence: _Evidence) -> PolicyRuleEntry:
    card = evidence.card
    cause = card.failure.diagnosis.root_cause if card.failure.diagnosis else card.summary
    reason = " ".join(f"it failed before: {cause}".split())[:_LONGEST_REASON]
    return learned.entry(
        candidate.fields,
        id_=learned.name(candidate.fields, card.failure.signature),
        reason=secrets.current_detector().redact(reason),
        match=[candidate.sample],
        not_match=_near_misses(candidate.fields, evidence.passed),
    )


def _near_misses(fields: dict[str, Any], passed: Sequence[PastRun]) -> Iterator[str]:
    """Yield commands or lines of passed runs that resemble the rule's."""
    if "program" in fields:
        program = fields["program"][0]
        lines = (command_text(item.command) for run in passed for item in run.commands)
        yield from (line for line in lines if program in line)
        return
    for run in passed:
        yield from (f"{path}: {text}" for path, text in _places(run) if text)


def _rule(fields: dict[str, Any]) -> PolicyRule:
    return PolicyRule("learned.draft", "confirm", "", **fields)
