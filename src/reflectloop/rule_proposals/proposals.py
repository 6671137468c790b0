"""Policy rules proposed as lessons: propose one, replay it on past runs, accept or reject it."""

from __future__ import annotations

import contextlib
import getpass
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config, policy, rulefiles, secrets
from reflectloop.diagnosis.failure_record import FailureRecord
from reflectloop.errors import Fault, GateRejected, InvalidInput, NothingToDo
from reflectloop.lessons import lesson_files, lesson_scopes, lesson_store
from reflectloop.lessons.lesson import Lesson, Occurrence, Page
from reflectloop.lessons.lesson_scopes import LessonScopes, new_session_id, rule_file
from reflectloop.lessons.lesson_store import LessonWrite, NewLesson
from reflectloop.plan.model import command_text
from reflectloop.policy import learned, rulefile
from reflectloop.policy.rule import PolicyRule
from reflectloop.policy.rulefile import PolicyRuleEntry, SingleRulePolicy
from reflectloop.reflection import blocker_card, ticket_store
from reflectloop.reflection.blocker_card import BlockerCard
from reflectloop.reflection.ticket_store import TICKET_ID
from reflectloop.rule_proposals.past_runs import ChangeLost, Command, PastRun, read_history
from reflectloop.rule_proposals.replay import Replay, added, matches, replay
from reflectloop.system import clock, files
from reflectloop.workspace.folders import Folders

_LONGEST_TITLE = 300
_LARGEST = 1 << 20


class Origin(NamedTuple):
    """The failed run that a proposal comes from; empty if a person wrote the rule."""

    run: str = ""
    ticket: str = ""
    signature: str = ""


class ProposalResult(NamedTuple):
    written: LessonWrite
    lesson: Lesson
    entry: PolicyRuleEntry


def open_scopes(start: Path) -> LessonScopes:
    """Return the project's lessons only: a rule is active in the project in which it was accepted."""
    return lesson_scopes.open_scopes(start, "project")


# Proposing --------------------------------------------------------------------------------------------------------


def propose(scopes: LessonScopes, subject: str) -> ProposalResult:
    """Store a proposal: the rule in a file, or one drafted from the run that a run, ticket or lesson id names."""
    path = Path(subject)
    if path.is_file():
        return _store(scopes, _from_file(path), Origin())
    origin = _origin(scopes, subject)
    return _store(scopes, _only((draft(scopes.folders, origin.run),), "the draft"), origin)


def _from_file(path: Path) -> PolicyRuleEntry:
    if path.stat().st_size > _LARGEST:
        raise InvalidInput(
            f"{path} is larger than 1 MB: it is not a rule", next_step="reflectloop lessons propose --help"
        )
    return _only(rulefile.read(path), str(path))


def _only(entries: tuple[PolicyRuleEntry, ...], name: str) -> PolicyRuleEntry:
    """Return the single valid rule of a file; raise InvalidInput otherwise."""
    if len(entries) != 1:
        raise InvalidInput(
            f"{name} contains {len(entries)} rules; each is replayed and accepted by itself",
            next_step="write one rule per file",
        )
    faults = [Fault(entries[0].id, None, message) for message in learned.faults(entries[0])]
    if faults:
        raise rulefiles.refused(name, faults)
    return entries[0]


def _origin(scopes: LessonScopes, subject: str) -> Origin:
    if TICKET_ID.fullmatch(subject):
        opened = ticket_store.find(scopes.folders, subject)
        run = _last_failed(scopes.folders, [str(opened.ticket.target)], f"ticket {subject}")
        return Origin(run, subject, opened.context.signature)
    if subject.startswith("L-"):
        lesson = lesson_store.pick(scopes.read().lessons, subject)
        return Origin(_last_failed(scopes.folders, list(lesson.runs), lesson.id), "", lesson.signature)
    card = blocker_card.read(scopes.folders, subject)
    return Origin(card.run_id, "", card.failure.signature)


def _last_failed(folders: Folders, names: list[str], what: str) -> str:
    """Return the last of these runs that left a blocker."""
    failed = [name for name in names if folders.run_folder(Path(name).name).blocker.is_file()]
    if not failed:
        raise NothingToDo(
            f"{what} names no run that failed here: there is nothing to draft a rule from",
            next_step="write the rule, then: reflectloop lessons propose FILE",
        )
    return failed[-1]


def _store(scopes: LessonScopes, entry: PolicyRuleEntry, origin: Origin) -> ProposalResult:
    page = Page(
        kind="rule_patch",
        title=secrets.current_detector().redact(f"{entry.id}: {entry.reason}")[:_LONGEST_TITLE],
        signature=origin.signature,
        keywords=(entry.id,),
        body=rulefile.text(entry),
    )
    refs = tuple(filter(None, (origin.run, origin.ticket)))
    occurrence = Occurrence(
        lesson=page.id, at=_now(), run=origin.run, ticket=origin.ticket, level="L2" if refs else "L0", refs=refs
    )
    place = scopes.writable("project")
    (written,) = lesson_store.add_lessons(place, [NewLesson(page, occurrence)], new_session_id())
    return ProposalResult(written, lesson_store.pick(lesson_store.read(place).lessons, written.id), entry)


# Judging ----------------------------------------------------------------------------------------------------------


class ProposalReplay(NamedTuple):
    lesson: Lesson
    entry: PolicyRuleEntry
    replay: Replay

    def as_data(self) -> dict[str, Any]:
        return {"lesson": self.lesson.record(), "rule": self.entry.rule._asdict(), "replay": self.replay.as_data()}


def replay_proposal(scopes: LessonScopes, name: str) -> ProposalReplay:
    """Return what the rule of a proposal would have done in the past runs."""
    lesson = _proposal(scopes, name)
    entry = rule_of(lesson)
    same = blocker_card.runs_with_signature(scopes.folders, lesson.signature) if lesson.runs else []
    return ProposalReplay(lesson, entry, replay(entry.rule, read_history(scopes.folders), same))


def _proposal(scopes: LessonScopes, name: str) -> Lesson:
    lesson = lesson_store.pick(scopes.read().lessons, name)
    if lesson.kind != "rule_patch":
        raise InvalidInput(
            f"{lesson.id} is a {lesson.kind} and proposes no rule",
            next_step=f"reflectloop lessons propose {lesson.id}",
        )
    return lesson


def rule_of(lesson: Lesson) -> PolicyRuleEntry:
    """Parse and check the rule in a lesson's body, as a rule file is checked."""
    return _only(rulefile.parse(lesson.body.encode(), f"the rule of {lesson.id}"), f"the rule of {lesson.id}")


def accept(scopes: LessonScopes, name: str, reason: str = "") -> ProposalReplay:
    """Make the rule of a proposal active; if past runs speak against it, a reason is required."""
    proposal = replay_proposal(scopes, name)
    place = scopes.writable("project")
    lesson_files.refuse_secret(reason, "the reason")
    doubts = list(_doubts(proposal))
    if doubts and not reason:
        raise GateRejected(
            f"{proposal.lesson.id} was not accepted: {'; '.join(doubts)}",
            next_step=f"reflectloop lessons accept {proposal.lesson.id} --reason TEXT, or propose a narrower rule",
        )
    _refuse_taken_id(scopes.folders, proposal)
    at = _now()
    why = f"; {reason}" if reason else ""
    note = f"accepted by {_user()}: {proposal.replay}{why}"
    head = "".join(f"# {line}\n" for line in (f"{proposal.lesson.id}, {at}", *note.splitlines()))
    text = secrets.current_detector().redact(head) + proposal.lesson.body + "\n"
    files.write_atomic(rule_file(scopes.folders, proposal.lesson), text)
    occurrence = _occurrence(proposal.lesson, "accepted", note, at)
    lesson_store.settle(place, proposal.lesson, "active", occurrence, new_session_id())
    return proposal._replace(lesson=lesson_store.pick(lesson_store.read(place).lessons, proposal.lesson.id))


def _doubts(proposal: ProposalReplay) -> Iterator[str]:
    wrong = proposal.replay.wrong
    if wrong:
        names = ", ".join(hit.run for hit in wrong[:3])
        yield f"it would have stopped {len(wrong)} run(s) that passed ({names})"
    if not proposal.replay.caught:
        yield "it would have caught no run that failed"
    if proposal.lesson.status == "retired":
        yield "it was rejected before"


def _refuse_taken_id(folders: Folders, proposal: ProposalReplay) -> None:
    """Raise InvalidInput if another active rule has this id, or if the active rules cannot be read."""
    if rule_file(folders, proposal.lesson).is_file():
        return  # accepted before: the file is overwritten
    taken = {rule.id for rule in policy.of(config.load(folders.root).policy, folders.root).rules}
    if proposal.entry.id in taken:
        raise InvalidInput(
            f"a rule '{proposal.entry.id}' is active already", next_step="propose it again under another id"
        )


def reject(scopes: LessonScopes, name: str, reason: str) -> Lesson:
    """Reject a proposal with a reason; if its rule was active, it no longer is."""
    lesson = _proposal(scopes, name)
    rule_file(scopes.folders, lesson).unlink(missing_ok=True)
    place = scopes.writable("project")
    note = f"rejected by {_user()}: {reason}"
    lesson_store.settle(place, lesson, "retired", _occurrence(lesson, "rejected", note, _now()), new_session_id())
    return lesson_store.pick(lesson_store.read(place).lessons, lesson.id)


def _occurrence(lesson: Lesson, what: Any, note: str, at: str) -> Occurrence:  # noqa: ANN401 - checked by the model
    return Occurrence(lesson=lesson.id, what=what, at=at, note=secrets.current_detector().redact(note))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "somebody"


def _now() -> str:
    return clock.stamp(clock.now())


# Drafting a rule ----------------------------------------------------------------------------------------------------
# From what a failed run ran or added, and no passed run did.

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
