"""Records what a person answered: an approval, or the answer to a blocked step. Imported when somebody is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reflectloop.commands import approve as approving
from reflectloop.commands import task_control
from reflectloop.commands.approve import ApprovalQuestion, ApproveResult, PendingReview
from reflectloop.commands.task_control import ControlResult
from reflectloop.engine.run.request import NullObserver, RunObserver
from reflectloop.errors import NeedsInput
from reflectloop.mcp.reading import ProjectReader

_LONGEST = 6000  # characters of a question


class AskedReview(NamedTuple):
    """A change that waits for a person, and which findings they are asked about."""

    run_id: str
    findings: tuple[str, ...]
    text: str


def review(reader: ProjectReader, run: str, wanted: Sequence[str]) -> AskedReview:
    """Return the findings that wait for a person, as a question; raise if there is nothing to approve."""
    with reader.open():
        pending = approving.pending(reader.root, run)
        findings = approving.chosen(pending, wanted)
    return AskedReview(pending.run_id, tuple(item.finding for item in findings), _question(pending, findings))


def _question(pending: PendingReview, findings: Sequence[approving.OpenFinding]) -> str:
    lines = [f"{pending.run_id} waits for your approval of:"]
    for item in findings:
        lines += [f"- {item.finding} {item.text}", *(f"    {line}" for line in item.details)]
    text = "\n".join(lines)
    if len(text) > _LONGEST:  # nobody may agree to what they were not shown
        raise NeedsInput(
            f"the findings of {pending.run_id} are too long for a form",
            next_step=f"on a terminal: reflectloop approve {pending.run_id} --reason TEXT",
        )
    return text


def record_approval(reader: ProjectReader, asked: AskedReview, reason: str) -> ApproveResult:
    """Record the person's yes to exactly what they were asked, and judge what remains."""

    def agree(question: ApprovalQuestion) -> bool:
        return tuple(item.finding for item in question.findings) == asked.findings

    with reader.open():
        result = approving.approve(reader.root, asked.run_id, asked.findings, reason, agree, _unobserved)
    if result is None:
        raise NeedsInput("the findings changed while the question was open", next_step="call approve again")
    return result


@contextlib.contextmanager
def _unobserved() -> Iterator[RunObserver]:
    yield NullObserver()


def record_answer(reader: ProjectReader, step: str, text: str) -> ControlResult:
    """Give a blocked step the person's answer."""
    with reader.open():
        return task_control.answer(reader.root, step, text)
