"""What follows from a reflection's class, done: each measure leaves its trace on disk, or says what is still open."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from reflectloop import secrets
from reflectloop.reflection import ticket_lessons, ticket_store
from reflectloop.reflection.reflection import ReflectionRound
from reflectloop.reflection.remediation_table import Measure, TicketRemediation
from reflectloop.reflection.ticket_files import TicketFiles
from reflectloop.system import clock, files

FILE = "handling.json"
QUESTIONS, ATTEMPTS = "questions.jsonl", "attempts.jsonl"


class MeasureResult(NamedTuple):
    measure: Measure
    about: str
    state: Literal["done", "open"]
    trace: str  # a file, a lesson's id, or the command that is still to be typed


def act(
    desk: TicketFiles, handled: TicketRemediation, last: ReflectionRound, answer: str | None = None
) -> tuple[MeasureResult, ...]:
    """For whoever holds the project's lock. What stands in a lesson's way is among the desk's warnings."""
    hand = _Hand(desk, last, answer)
    wanted = dict(handled.measures)
    if answer is not None:  # what somebody says is kept, whatever the class
        wanted.setdefault("store_answer", last.report.error_analysis.surface_issue)
    done = tuple(hand.take(measure, about) for measure, about in wanted.items())
    path = desk.shelf.steps(desk.ticket.ticket_id, last.number) / FILE
    told = {
        "ticket_id": desk.ticket.ticket_id,
        "timestamp": hand.at,
        "class": str(handled.error_class),
        "needs": handled.needs,
        "measures": [one._asdict() for one in done],
    }
    ticket_store.write(path, told)
    desk.written.append(path)
    return done


class _Hand:
    def __init__(self, desk: TicketFiles, last: ReflectionRound, answer: str | None) -> None:
        self.desk, self.last, self.answer = desk, last, answer
        self.at = clock.stamp(clock.now())
        self.command = f"reflectloop reflect {desk.ticket.ticket_id}"

    def take(self, measure: Measure, about: str) -> MeasureResult:
        ways: dict[Measure, Callable[[str], tuple[bool, str]]] = {
            "record_antipattern": self._pattern,
            "ask_stronger_backend": self._question,
            "human_checkpoint": self._checkpoint,
            "amend_contract": self._constraint,
            "add_checkpoint": self._checkpoint,
            "repair_order": lambda _: (False, "reflectloop plan check PLAN"),
            "resume": lambda _: (False, "reflectloop resume"),
            "ask_research": self._question,
            "store_answer": self._answer,
            "do_again": self._again,
            "verify_repair": self._verified,
            "record_attempt": self._attempt,
        }
        done, trace = ways[measure](about)
        return MeasureResult(measure, about, "done" if done else "open", trace)

    # Lessons ---------------------------------------------------------------------------------------------------

    def _pattern(self, _: str) -> tuple[bool, str]:
        """Kept with the report; here it is only found again."""
        pattern = self.last.report.anti_pattern
        kept = ticket_lessons.pattern_id(self.desk.context.signature, pattern) if pattern else ""
        return bool(kept), kept or self.command

    def _constraint(self, about: str) -> tuple[bool, str]:
        """Read back before the next step: so it becomes part of whoever's prompt."""
        kept = ticket_lessons.constraint(self.desk.folders, self.desk.ticket, about)
        self.desk.warnings += kept.warnings
        return not kept.warnings, kept.lesson

    def _answer(self, _: str) -> tuple[bool, str]:
        if self.answer is None:
            return False, f"{self.command} --answer TEXT"
        what = self.last.report.error_analysis.surface_issue
        return True, ticket_lessons.answer(
            self.desk.folders, self.desk.ticket, self.desk.context.signature, what, self.answer
        )

    # Files -----------------------------------------------------------------------------------------------------

    def _checkpoint(self, about: str) -> tuple[bool, str]:
        return True, self._note(ticket_store.CHECKPOINTS, about=about)

    def _question(self, about: str) -> tuple[bool, str]:
        return self.answer is not None, self._note(QUESTIONS, about=about, answer=self.answer)

    def _attempt(self, about: str) -> tuple[bool, str]:
        kind, revised = self.last.report.error_classification.type, self.last.submission.revised_output_file
        return True, self._note(ATTEMPTS, about=about, round=self.last.number, first_class=str(kind), revised=revised)

    def _note(self, name: str, **said: Any) -> str:  # noqa: ANN401 - any JSON
        """A line, unless the same stands there already."""
        path = self.desk.shelf.folder / name
        ticket = self.desk.ticket
        line = {"ticket_id": ticket.ticket_id, "target": ticket.target, "step": ticket.target_step, **said}
        line = json.loads(secrets.current().redact(json.dumps(line, ensure_ascii=False)))
        known = ticket_store.lines(path)
        if not any({key: one.get(key) for key in line} == line for one in known):
            told = [*known, {"timestamp": self.at, **line}]
            files.write_atomic(path, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in told))
            self.desk.written.append(path)
        return str(path.relative_to(self.desk.folders.root))

    # What was done already -------------------------------------------------------------------------------------

    def _again(self, _: str) -> tuple[bool, str]:
        revised = self.last.submission.revised_output_file
        return bool(revised), revised or self.command

    def _verified(self, _: str) -> tuple[bool, str]:
        seen = self.last.evaluation
        return seen is not None, seen.evaluation_id if seen else self.command
