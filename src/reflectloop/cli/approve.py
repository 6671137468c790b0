"""The command `approve`."""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from pathlib import Path

import click

from reflectloop import secrets
from reflectloop.cli.interrupts import as_interrupts
from reflectloop.cli.progress import observe
from reflectloop.cli.render import Answer, Note, answers, harmless, heading, paint
from reflectloop.commands import approve as approving
from reflectloop.commands.approve import ApprovalQuestion, ApproveResult
from reflectloop.errors import NeedsInput
from reflectloop.terms import OutcomeWord

_LONGEST = 100  # bytes of an answer


@click.command()
@click.argument("run")
@click.argument("findings", nargs=-1, metavar="[FINDING]...")
@click.option("--reason", metavar="TEXT", help="Why; it is written to the journal and the receipt.")
@click.option("--print", "print_file", is_flag=True, help="Print a file for --approve-file; approve nothing.")
@answers
def approve(run: str, findings: tuple[str, ...], reason: str | None, print_file: bool, project_dir: Path) -> Answer:
    """Approve findings on RUN, a run or a verification that ended with REVIEW (default: all of its findings).

    You are shown the findings and type `yes` on your terminal; no agent can do that for you. The approval holds for
    this base, this change and these findings alone. What remains is then judged as before.

    \b
    Example: reflectloop approve RLOP-20260101-abcdef --reason "we drop Python 3.9 on purpose"
    """
    if print_file:
        return _file(project_dir, run, findings)
    if reason is None:
        raise click.UsageError("Say why: --reason TEXT.")
    as_interrupts()
    result = approving.approve(project_dir, run, findings, reason, _ask, observe)
    if result is None:
        raise NeedsInput("nothing was approved: the answer was not yes", next_step=f"reflectloop receipt show {run}")
    return Answer(result.as_data(), _lines(result), next_step=result.next_step, error=result.error)


def _file(project_dir: Path, run: str, findings: tuple[str, ...]) -> Answer:
    review = approving.pending(project_dir, run)
    text = approving.file_text(review, approving.chosen(review, findings))
    next_step = "fill it in, then: reflectloop verify --approve-file FILE"
    return Answer({"file": text}, [text.rstrip("\n")], next_step=next_step)


def _ask(question: ApprovalQuestion) -> bool:
    """Show the findings on the person's terminal, and read the answer there: standard input may be anything."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as fault:
        raise NeedsInput(
            "a person must type yes on a terminal, and there is none",
            next_step=f"on a terminal: the same command; in CI: reflectloop approve {question.run_id} --print > FILE, "
            "let a person fill it in, then: reflectloop verify --approve-file FILE",
        ) from fault
    try:
        text = "\n".join(_question_lines(question))
        termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before the question is no answer to it
        os.write(terminal, secrets.current_detector().redact(harmless(text)).encode())
        return os.read(terminal, _LONGEST).strip() == b"yes"
    finally:
        os.close(terminal)


def _question_lines(question: ApprovalQuestion) -> Iterator[str]:
    yield f"{question.run_id} waits for your approval of:"
    for item in question.findings:
        yield f"  {item.finding} {heading(item.text, item.details)}"
        yield from (f"      {line}" for line in item.details)
    if question.left:
        yield f"({question.left} more will still wait)"
    yield f"as {question.by}, because: {question.reason}"
    yield "Type yes to approve: "


def _lines(result: ApproveResult) -> Iterator[Note]:
    count = len(result.approved)
    yield Note(f"approved {count} finding{'s' if count > 1 else ''} of {result.run_id}, by {result.by}")
    colour = "green" if result.outcome == OutcomeWord.PASS else "yellow"
    yield Note(paint(colour, result.outcome))
    for text in result.remaining:
        yield Note(f"  {text}")
    yield Note(f"{paint('dim', 'next:')} {result.next_step}")
