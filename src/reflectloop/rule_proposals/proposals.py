"""Rules learned from failures: proposed as lessons, put to past work, accepted by a person, and only then in force."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reflectloop import config, policy, secrets
from reflectloop.errors import Fault, GateRejected, InvalidInput, NothingToDo
from reflectloop.lessons import lesson_files as shelves
from reflectloop.lessons import lesson_scopes, lesson_store
from reflectloop.lessons.lesson import Lesson, Occurrence, Page
from reflectloop.lessons.lesson_scopes import LessonScopes, rule_file
from reflectloop.lessons.lesson_store import LessonWrite, NewLesson
from reflectloop.policy import learned, rulefile
from reflectloop.policy.rulefile import PolicyRuleEntry
from reflectloop.reflection import blocker_card, ticket_store
from reflectloop.reflection.ticket_store import TICKET_ID
from reflectloop.rule_proposals import draft, past_runs
from reflectloop.rule_proposals.replay import Replay, replay
from reflectloop.system import clock, files
from reflectloop.workspace.folders import Folders

_LONGEST_TITLE = 300
_LARGEST = 1 << 20


class Origin(NamedTuple):
    """What a proposal comes from: a failed run, or a person's file."""

    run: str = ""
    ticket: str = ""
    signature: str = ""


class ProposalResult(NamedTuple):
    kept: LessonWrite
    lesson: Lesson
    entry: PolicyRuleEntry


def room_at(start: Path) -> LessonScopes:
    """The project's lessons only: a rule acts in the project where it was accepted."""
    return lesson_scopes.room_at(start, "project")


# Proposing --------------------------------------------------------------------------------------------------------


def propose(room: LessonScopes, subject: str) -> ProposalResult:
    """A rule from a file, or drafted from the failed run that a run, a ticket or a lesson names."""
    path = Path(subject)
    if path.is_file():
        return _keep(room, _from_file(path), Origin())
    origin = _origin(room, subject)
    return _keep(room, _only((draft.draft(room.folders, origin.run),), "the draft"), origin)


def _from_file(path: Path) -> PolicyRuleEntry:
    if path.stat().st_size > _LARGEST:
        raise InvalidInput(f"{path} has more than 1 MB: it is no rule", next_step="reflectloop lessons propose --help")
    return _only(rulefile.read(path), str(path))


def _only(entries: tuple[PolicyRuleEntry, ...], name: str) -> PolicyRuleEntry:
    if len(entries) != 1:
        raise InvalidInput(
            f"{name} holds {len(entries)} rules; each is replayed and accepted by itself",
            next_step="write one rule a file",
        )
    faults = [Fault(entries[0].id, None, said) for said in learned.faults(entries[0])]
    if faults:
        raise rulefile.refused(name, faults)
    return entries[0]


def _origin(room: LessonScopes, subject: str) -> Origin:
    if TICKET_ID.fullmatch(subject):
        opened = ticket_store.find(room.folders, subject)
        run = _run_of(room.folders, [str(opened.ticket.target)], f"ticket {subject}")
        return Origin(run, subject, opened.context.signature)
    if subject.startswith("L-"):
        one = lesson_store.pick(room.read().lessons, subject)
        return Origin(_run_of(room.folders, list(one.runs), one.id), "", one.signature)
    told = blocker_card.read(room.folders, subject)
    return Origin(told.run_id, "", told.failure.signature)


def _run_of(folders: Folders, names: list[str], what: str) -> str:
    """The last of these runs that left a card."""
    failed = [name for name in names if (folders.own / "runs" / Path(name).name / "blocker.yaml").is_file()]
    if not failed:
        raise NothingToDo(
            f"{what} names no run that failed here: there is nothing to draft a rule from",
            next_step="write the rule, then: reflectloop lessons propose FILE",
        )
    return failed[-1]


def _keep(room: LessonScopes, entry: PolicyRuleEntry, origin: Origin) -> ProposalResult:
    page = Page(
        kind="rule_patch",
        title=secrets.current().redact(f"{entry.id}: {entry.reason}")[:_LONGEST_TITLE],
        signature=origin.signature,
        keywords=(entry.id,),
        body=rulefile.text(entry),
    )
    refs = tuple(filter(None, (origin.run, origin.ticket)))
    seen = Occurrence(lesson=page.id, at=_now(), run=origin.run, ticket=origin.ticket, level="L2", refs=refs)
    shelf = room.writable("project")
    (kept,) = lesson_store.keep(
        shelf, [NewLesson(page, seen if refs else seen.model_copy(update={"level": "L0"}))], _sitting()
    )
    return ProposalResult(kept, lesson_store.pick(lesson_store.read(shelf).lessons, kept.id), entry)


# Judging ----------------------------------------------------------------------------------------------------------


class ProposalReplay(NamedTuple):
    lesson: Lesson
    entry: PolicyRuleEntry
    replay: Replay

    def as_data(self) -> dict[str, Any]:
        return {"lesson": self.lesson.record(), "rule": self.entry.rule._asdict(), "replay": self.replay.as_data()}


def judged(room: LessonScopes, name: str) -> ProposalReplay:
    """What the rule of a proposal would have done, as the past stands now."""
    one = _proposal(room, name)
    entry = rule_of(one)
    same = blocker_card.same(room.folders, one.signature) if one.runs else []
    return ProposalReplay(one, entry, replay(entry.rule, past_runs.of(room.folders), same))


def _proposal(room: LessonScopes, name: str) -> Lesson:
    one = lesson_store.pick(room.read().lessons, name)
    if one.kind != "rule_patch":
        raise InvalidInput(
            f"{one.id} is a {one.kind}, and proposes no rule", next_step=f"reflectloop lessons propose {one.id}"
        )
    return one


def rule_of(one: Lesson) -> PolicyRuleEntry:
    """Its words are data until here, and are checked as those of any file."""
    return _only(rulefile.parse(one.body.encode(), f"the rule of {one.id}"), f"the rule of {one.id}")


def accept(room: LessonScopes, name: str, reason: str = "") -> ProposalReplay:
    """From now on the rule acts. Where the past speaks against it, somebody says why it shall all the same."""
    found = judged(room, name)
    shelf = room.writable("project")
    shelves.refuse_secret(reason, "the reason")
    doubts = list(_doubts(found))
    if doubts and not reason:
        raise GateRejected(
            f"{found.lesson.id} was not accepted: {'; '.join(doubts)}",
            next_step=f"reflectloop lessons accept {found.lesson.id} --reason TEXT, or propose a narrower rule",
        )
    _refuse_taken(room.folders, found)
    at, who = _now(), _who()
    why = f"; {reason}" if reason else ""
    note = f"accepted by {who}: {found.replay}{why}"
    head = "".join(f"# {line}\n" for line in (f"{found.lesson.id}, {at}", *note.splitlines()))
    files.write_atomic(rule_file(room.folders, found.lesson), secrets.current().redact(head) + found.lesson.body + "\n")
    lesson_store.settle(shelf, found.lesson, "active", _ruling(found.lesson, "accepted", note, at), _sitting())
    return found._replace(lesson=lesson_store.pick(lesson_store.read(shelf).lessons, found.lesson.id))


def _doubts(found: ProposalReplay) -> Iterator[str]:
    if found.replay.wrong:
        names = ", ".join(one.run for one in found.replay.wrong[:3])
        yield f"it would have stopped {len(found.replay.wrong)} run(s) that passed ({names})"
    if not found.replay.caught:
        yield "it would have caught no run that failed"
    if found.lesson.status == "retired":
        yield "it was rejected before"


def _refuse_taken(folders: Folders, found: ProposalReplay) -> None:
    """Also where a file of rules in force is damaged: one more would not act either."""
    own = rule_file(folders, found.lesson)
    if own.is_file():
        return  # accepted before; written anew
    taken = {rule.id for rule in policy.of(config.load(folders.root).policy, folders.root).rules}
    if found.entry.id in taken:
        raise InvalidInput(
            f"a rule '{found.entry.id}' is in force already", next_step="propose it again under an id of its own"
        )


def reject(room: LessonScopes, name: str, reason: str) -> Lesson:
    """Kept as rejected, with the reason; a rule that was in force is so no more."""
    one = _proposal(room, name)
    rule_file(room.folders, one).unlink(missing_ok=True)
    shelf = room.writable("project")
    note = f"rejected by {_who()}: {reason}"
    lesson_store.settle(shelf, one, "retired", _ruling(one, "rejected", note, _now()), _sitting())
    return lesson_store.pick(lesson_store.read(shelf).lessons, one.id)


def _ruling(one: Lesson, what: Any, note: str, at: str) -> Occurrence:  # noqa: ANN401 - checked by the model
    return Occurrence(lesson=one.id, what=what, at=at, note=secrets.current().redact(note))


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "somebody"


def _now() -> str:
    return clock.stamp(clock.now())


def _sitting() -> str:
    return lesson_scopes.sitting()
