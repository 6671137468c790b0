"""The files of one ticket's reflection: its rounds, the output of each step, and the versions of its target."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from reflectloop import config, languages
from reflectloop.diagnosis.failure_record import Facts
from reflectloop.errors import InvalidInput
from reflectloop.reflection import critic_command, publish_research, ticket_lessons, ticket_store
from reflectloop.reflection.critic import CriticReport
from reflectloop.reflection.critic_command import Judge
from reflectloop.reflection.reflection import STEPS, ReflectionRound, RepairReport, Submission
from reflectloop.reflection.reflection_text import TicketFacts, WorkspaceFacts
from reflectloop.reflection.ticket import Ticket
from reflectloop.reflection.ticket_store import OpenTicket
from reflectloop.state import journal
from reflectloop.state.fold import fold
from reflectloop.workspace import secret_guard
from reflectloop.workspace.folders import Folders

_MOST_FILES = 200
_EVALUATION = "evaluation"


class TicketFiles:
    def __init__(self, folders: Folders, settings: config.Config, opened: OpenTicket, judge: Judge | None) -> None:
        self.folders, self.settings, self._judge = folders, settings, judge
        self.place, self.ticket, self.context = opened
        self.target = self.ticket.target or ""
        self.written: list[Path] = []
        self.warnings: list[str] = []
        self.revised: Path | None = None

    # Earlier rounds --------------------------------------------------------------------------------------

    def round(self, number: int) -> ReflectionRound:
        folder = self.place.steps(self.ticket.ticket_id, number)
        submission = ticket_store.read(folder / _step(STEPS[-1]), Submission)
        path = folder / _step(_EVALUATION)
        evaluation = ticket_store.read(path, CriticReport) if path.is_file() else None
        tried = ticket_store.read(folder / _step("execute"), RepairReport).tried
        return ReflectionRound(number, submission.reflection_report, submission, evaluation, tried=tried)

    def rounds(self) -> list[ReflectionRound]:
        return [self.round(number) for number in range(1, self.place.rounds(self.ticket.ticket_id) + 1)]

    def case(self) -> TicketFacts:
        """Return the facts about the ticket, with the issues that its last round left open."""
        context, evaluation = self.context, self.context.evaluation
        facts = Facts(
            finished=bool(evaluation and evaluation.completeness.requirements_met),
            interrupted=context.interrupted,
            did_not_know=context.did_not_know,
            times_seen=ticket_store.times_seen(self.folders, context.agent, context.signature),
        )
        workspace = WorkspaceFacts(ticket_id=self.ticket.ticket_id, target=self.ticket.target)
        case = TicketFacts(self.ticket, context.trigger, context.agent, facts, workspace)._replace(
            problem=context.problem, evaluation=evaluation, failure=context.failure, known_fixes=context.known_fixes
        )
        for past in self.rounds():
            case = case.after(past.evaluation) if past.evaluation else case
        return case

    # The workspace ---------------------------------------------------------------------------------------------

    def explore(self, ticket: Ticket) -> WorkspaceFacts:
        self.revised = None
        content = self.present() if self.context.requirements else None
        tree, checkpoints = self._checkpoints()
        return WorkspaceFacts(
            ticket_id=ticket.ticket_id,
            target=ticket.target,
            target_exists=content is not None or self._is_there(),
            target_bytes=len(content) if content is not None else None,
            target_sha256=hashlib.sha256(content).hexdigest() if content is not None else None,
            tree=tree,
            artifacts=tuple(self._artifacts()),
            checkpoints=checkpoints,
        )

    def present(self) -> bytes | None:
        """Return the last version of the output, or else the target itself; None if neither can be read."""
        last = self.place.version(self.target)
        try:
            return critic_command.read_output(last if last.is_file() else self.folders.root / self.target)
        except InvalidInput:
            return None

    def _run_folder(self) -> Path:
        """Return the folder of the run that the ticket is about; it does not exist for other tickets."""
        return self.folders.run_folder(Path(self.target).name).path

    def _is_there(self) -> bool:
        """Return whether the run or the file that the ticket names exists."""
        return bool(self.target) and (self._run_folder().is_dir() or (self.folders.root / self.target).is_file())

    def _artifacts(self) -> list[str]:
        run = self._run_folder()
        places = [self.place.outputs, self.place.tickets, *([run] if self.target and run.is_dir() else [])]
        paths = sorted(path for place in places for path in place.rglob("*") if path.is_file())
        names = [str(path.relative_to(self.folders.root)) for path in paths]
        return list(dict.fromkeys((*self._beside(), *names)))[:_MOST_FILES]

    def _beside(self) -> list[str]:
        """Return the files of the folder that the output lies in."""
        folder = (self.folders.root / self.target).parent.resolve()
        inside = bool(self.target) and folder.is_relative_to(self.folders.root) and folder.is_dir()
        if not inside or not (self.folders.root / self.target).is_file():
            return []
        names = sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
        return [str(path.relative_to(self.folders.root)) for path in names]

    def _checkpoints(self) -> tuple[str | None, tuple[str, ...]]:
        """Return the last tree of the task's last run, and its finished steps, each with its tree."""
        path = self.place.folder / "journal.jsonl"
        run = fold(journal.read(path)).last_run if path.is_file() else None
        if run is None:
            return None, ()
        done = tuple(f"{step.id} {step.tree}" for step in run.steps.values() if step.status == "done")
        return run.end_tree or run.base_tree, done

    # Writing ---------------------------------------------------------------------------------------------------

    def keep(self, number: int, name: str, value: dict[str, Any]) -> None:
        path = self.place.steps(self.ticket.ticket_id, number) / _step(name)
        ticket_store.write(path, value)
        self.written.append(path)
        if name == STEPS[-1]:
            self._conclude(number, value)

    def _conclude(self, number: int, value: dict[str, Any]) -> None:
        """Write the submission and then the report, whose file marks the round as complete."""
        latest = self.place.reflections / "submission.json"
        ticket_store.write(latest, value)
        path = self.place.report(self.ticket.ticket_id, number)
        ticket_store.write(path, languages.texts(value["reflection_report"]))
        self.written += [latest, path]
        report = self.round(number).report
        if report.anti_pattern and number == 1:  # a later round of the same ticket is no new occurrence
            self.warnings += ticket_lessons.keep(self.folders, self.ticket, self.context.signature, report.anti_pattern)
        if self.settings.publish.research:
            self.warnings += publish_research.publish(self.folders, self.ticket.ticket_id, number, report, self.revised)

    def put(self, content: bytes) -> str:
        """Write a revised output as the next version; return its path in the project."""
        secret_guard.refuse_secret_text(content.decode("utf-8", "surrogateescape"), "the revised output")
        path = self.place.next_version(self.target)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:  # never over another version
            file.write(content)
        self.revised = path
        self.written.append(path)
        return str(path.relative_to(self.folders.root))

    def evaluator(self) -> Callable[[bytes], CriticReport] | None:
        """Return the function that evaluates a revised output and stores the report; None if no critic judges it."""
        return partial(self._evaluate, self._judge) if self._judge else None

    def _evaluate(self, judge: Judge, content: bytes) -> CriticReport:
        report = judge.judge(self.target, content, self.ticket.target_step)
        path = self.place.folder / "evaluations" / f"{report.evaluation_id}.json"
        ticket_store.write(path, report.model_dump(mode="json"))
        return report


def _step(name: str) -> str:
    return f"{STEPS.index(name) + 1}-{name}.json" if name in STEPS else f"{name}.json"
