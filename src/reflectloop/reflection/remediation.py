"""Carry out the remediation of a reflection's error class; each measure leaves a trace or names the open command."""

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
    trace: str  # a file, a lesson's id, or the command that is still to be run


def act(
    ticket_files: TicketFiles, handled: TicketRemediation, last: ReflectionRound, answer: str | None = None
) -> tuple[MeasureResult, ...]:
    """Carry out every measure. The caller holds the project's lock; faults of lessons are added to the warnings."""
    measures = _Measures(ticket_files, last, answer)
    wanted = dict(handled.measures)
    if answer is not None:  # an answer is stored for every error class
        wanted.setdefault("store_answer", last.report.error_analysis.surface_issue)
    done = tuple(measures.take(measure, about) for measure, about in wanted.items())
    path = ticket_files.place.steps(ticket_files.ticket.ticket_id, last.number) / FILE
    record = {
        "ticket_id": ticket_files.ticket.ticket_id,
        "timestamp": measures.at,
        "class": str(handled.error_class),
        "needs": handled.needs,
        "measures": [result._asdict() for result in done],
    }
    ticket_store.write(path, record)
    ticket_files.written.append(path)
    return done


class _Measures:
    def __init__(self, ticket_files: TicketFiles, last: ReflectionRound, answer: str | None) -> None:
        self.files, self.last, self.answer = ticket_files, last, answer
        self.at = clock.stamp(clock.now())
        self.command = f"reflectloop reflect {ticket_files.ticket.ticket_id}"

    def take(self, measure: Measure, about: str) -> MeasureResult:
        handlers: dict[Measure, Callable[[str], tuple[bool, str]]] = {
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
        done, trace = handlers[measure](about)
        return MeasureResult(measure, about, "done" if done else "open", trace)

    # Lessons ---------------------------------------------------------------------------------------------------

    def _pattern(self, _: str) -> tuple[bool, str]:
        """Return the lesson that was written with the report."""
        pattern = self.last.report.anti_pattern
        lesson = ticket_lessons.pattern_id(self.files.context.signature, pattern) if pattern else ""
        return bool(lesson), lesson or self.command

    def _constraint(self, about: str) -> tuple[bool, str]:
        """Write the requirement as a lesson, which the prompt of the next agent includes."""
        recorded = ticket_lessons.constraint(self.files.folders, self.files.ticket, about)
        self.files.warnings += recorded.warnings
        return not recorded.warnings, recorded.lesson

    def _answer(self, _: str) -> tuple[bool, str]:
        if self.answer is None:
            return False, f"{self.command} --answer TEXT"
        what = self.last.report.error_analysis.surface_issue
        return True, ticket_lessons.answer(
            self.files.folders, self.files.ticket, self.files.context.signature, what, self.answer
        )

    # Files -----------------------------------------------------------------------------------------------------

    def _checkpoint(self, about: str) -> tuple[bool, str]:
        return True, self._note(ticket_store.CHECKPOINTS, about=about)

    def _question(self, about: str) -> tuple[bool, str]:
        return self.answer is not None, self._note(QUESTIONS, about=about, answer=self.answer)

    def _attempt(self, about: str) -> tuple[bool, str]:
        kind, revised = self.last.report.error_classification.type, self.last.submission.revised_output_file
        return True, self._note(ATTEMPTS, about=about, round=self.last.number, first_class=str(kind), revised=revised)

    def _note(self, name: str, **fields: Any) -> str:  # noqa: ANN401 - any JSON
        """Append a line to a file unless it is there already; return the file's path."""
        path = self.files.place.folder / name
        ticket = self.files.ticket
        line = {"ticket_id": ticket.ticket_id, "target": ticket.target, "step": ticket.target_step, **fields}
        line = json.loads(secrets.current_detector().redact(json.dumps(line, ensure_ascii=False)))
        known = ticket_store.lines(path)
        if not any({key: entry.get(key) for key in line} == line for entry in known):
            entries = [*known, {"timestamp": self.at, **line}]
            files.write_atomic(path, "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries))
            self.files.written.append(path)
        return str(path.relative_to(self.files.folders.root))

    # Done before ----------------------------------------------------------------------------------------------

    def _again(self, _: str) -> tuple[bool, str]:
        revised = self.last.submission.revised_output_file
        return bool(revised), revised or self.command

    def _verified(self, _: str) -> tuple[bool, str]:
        evaluation = self.last.evaluation
        return evaluation is not None, evaluation.evaluation_id if evaluation else self.command
