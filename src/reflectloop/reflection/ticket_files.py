"""One ticket's reflection on disk: what lies there, what each step left, and the versions of its output."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from reflectloop import config
from reflectloop.diagnosis.failure_record import Facts
from reflectloop.errors import InvalidInput
from reflectloop.reflection import critic_command, publish_research, ticket_lessons, ticket_store
from reflectloop.reflection.critic import CriticReport
from reflectloop.reflection.critic_command import Judge
from reflectloop.reflection.reflection import STEPS, ReflectionRound, RepairReport, Submission
from reflectloop.reflection.reflection_text import TicketFacts
from reflectloop.reflection.ticket import Ticket
from reflectloop.reflection.ticket_store import OpenTicket
from reflectloop.reflection.workspace_facts import WorkspaceFacts
from reflectloop.state import journal
from reflectloop.state.fold import fold
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import Folders

_MOST_FILES = 200
_EVALUATION = "evaluation"


class TicketFiles:
    def __init__(self, folders: Folders, settings: config.Config, opened: OpenTicket, judge: Judge | None) -> None:
        self.folders, self.settings, self.judge = folders, settings, judge
        self.shelf, self.ticket, self.context = opened
        self.target = str(self.ticket.target)
        self.written: list[Path] = []
        self.warnings: list[str] = []
        self.revised: Path | None = None

    # What was done before --------------------------------------------------------------------------------------

    def round(self, number: int) -> ReflectionRound:
        folder = self.shelf.steps(self.ticket.ticket_id, number)
        submission = ticket_store.read(folder / _step(STEPS[-1]), Submission)
        path = folder / _step(_EVALUATION)
        evaluation = ticket_store.read(path, CriticReport) if path.is_file() else None
        tried = ticket_store.read(folder / _step("execute"), RepairReport).tried
        return ReflectionRound(number, submission.reflection_report, submission, evaluation, tried=tried)

    def rounds(self) -> list[ReflectionRound]:
        return [self.round(number) for number in range(1, self.shelf.rounds(self.ticket.ticket_id) + 1)]

    def case(self) -> TicketFacts:
        """The ticket as it stands now: with what the last version of the output still lacks."""
        context, evaluation = self.context, self.context.evaluation
        facts = Facts(
            finished=bool(evaluation and evaluation.completeness.requirements_met),
            interrupted=context.interrupted,
            did_not_know=context.did_not_know,
            times_seen=ticket_store.times_seen(self.folders, context.agent, context.signature),
        )
        seen = WorkspaceFacts(ticket_id=self.ticket.ticket_id, target=self.ticket.target)
        case = TicketFacts(self.ticket, context.trigger, context.agent, facts, seen)._replace(
            problem=context.problem, evaluation=evaluation, failure=context.failure, known_fixes=context.known_fixes
        )
        for one in self.rounds():
            case = case.after(one.evaluation) if one.evaluation else case
        return case

    # What lies there -------------------------------------------------------------------------------------------

    def explore(self, ticket: Ticket) -> WorkspaceFacts:
        self.revised = None
        content = self.present() if self.context.requirements else None
        tree, checkpoints = self._checkpoints()
        return WorkspaceFacts(
            ticket_id=ticket.ticket_id,
            target=ticket.target,
            target_exists=content is not None or self._run_folder().is_dir(),
            target_bytes=len(content) if content is not None else None,
            target_sha256=hashlib.sha256(content).hexdigest() if content is not None else None,
            tree=tree,
            artifacts=tuple(self._artifacts()),
            checkpoints=checkpoints,
        )

    def present(self) -> bytes | None:
        """The output as it stands: its last version, else the target itself."""
        last = self.shelf.version(self.target)
        try:
            return critic_command.read_output(last if last.is_file() else self.folders.root / self.target)
        except InvalidInput:
            return None

    def _run_folder(self) -> Path:
        """Of a ticket that is about a run; nothing else has a name that could be one."""
        return self.folders.own / "runs" / Path(self.target).name

    def _artifacts(self) -> list[str]:
        run = self._run_folder()
        places = [self.shelf.outputs, self.shelf.tickets, *([run] if run.is_dir() else [])]
        found = sorted(path for place in places for path in place.rglob("*") if path.is_file())
        return [str(path.relative_to(self.folders.root)) for path in found[:_MOST_FILES]]

    def _checkpoints(self) -> tuple[str | None, tuple[str, ...]]:
        """The tree that the task's last run came to, and the steps that are done, each with the tree it left."""
        book = self.shelf.folder / "journal.jsonl"
        runs = list(fold(journal.read(book)).runs.values()) if book.is_file() else []
        if not runs:
            return None, ()
        done = tuple(f"{step.id} {step.tree}" for step in runs[-1].steps.values() if step.status == "done")
        return runs[-1].end_tree or runs[-1].base_tree, done

    # Writing ---------------------------------------------------------------------------------------------------

    def keep(self, number: int, name: str, value: dict[str, Any]) -> None:
        path = self.shelf.steps(self.ticket.ticket_id, number) / _step(name)
        ticket_store.write(path, value)
        self.written.append(path)
        if name == STEPS[-1]:
            self._conclude(number, value)

    def _conclude(self, number: int, value: dict[str, Any]) -> None:
        """Last the report: where it stands, the round was walked to its end."""
        latest = self.shelf.reflections / "submission.json"
        ticket_store.write(latest, value)
        path = self.shelf.report(self.ticket.ticket_id, number)
        ticket_store.write(path, value["reflection_report"])
        self.written += [latest, path]
        report = self.round(number).report
        if report.anti_pattern and number == 1:  # the same ticket's next round is no new sighting
            self.warnings += ticket_lessons.keep(self.folders, self.ticket, self.context.signature, report.anti_pattern)
        if self.settings.publish.research:
            self.warnings += publish_research.publish(self.folders, self.ticket.ticket_id, number, report, self.revised)

    def put(self, content: bytes) -> str:
        """A revised output as its next version, beside those before it."""
        secret_guard.refuse_words(content.decode("utf-8", "surrogateescape"), "the revised output")
        path = self.shelf.next_version(self.target)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:  # never over another version
            file.write(content)
        self.revised = path
        self.written.append(path)
        return str(path.relative_to(self.folders.root))

    def evaluate(self, content: bytes) -> CriticReport:
        assert self.judge  # noqa: S101 - asked only where there is something revised
        report = self.judge.judge(self.target, content, self.ticket.target_step)
        place = self.shelf.folder / "evaluations" / f"{report.evaluation_id}.json"
        ticket_store.write(place, report.model_dump(mode="json"))
        return report


def _step(name: str) -> str:
    return f"{STEPS.index(name) + 1}-{name}.json" if name in STEPS else f"{name}.json"
